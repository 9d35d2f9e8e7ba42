//! Text that any machine can read: no paths of one machine, a newline at the end, no white space
//! before it, no tabs in Rust.
//!
//! Fixtures are left alone, as their bytes are what they test, and so are files of others.

use crate::finding::Finding;
use crate::tree::{File, Tree};
use crate::vocabulary;

/// Folders of one machine. Tests may name those marked so.
const MACHINE_PATHS: &[(&str, bool)] =
    &[("/work/", false), ("/root/", false), ("/home/", false), ("/tmp/", true)];

/// Reports paths of one machine, and white space where none should be.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| !is_fixture(file)) {
        check_space(file, &mut findings);
        if !vocabulary::is_exempt(&file.path) {
            check_paths(file, &mut findings);
        }
    }
    findings
}

fn is_fixture(file: &File) -> bool {
    file.path.split('/').any(|folder| matches!(folder, "fixtures" | "corpus" | "vendored"))
}

fn check_space(file: &File, findings: &mut Vec<Finding>) {
    let mut report = |line, message: &str| findings.push(file.finding(line, "text", message.to_owned()));
    let lines = file.text.split('\n').count();
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        report(lines, "the last line has no newline; end it with one");
    } else if file.text.ends_with("\n\n") {
        report(lines - 1, "the file ends with an empty line; remove it");
    }
    for (i, line) in file.text.split('\n').enumerate() {
        if line.ends_with(char::is_whitespace) {
            report(i + 1, "white space at the end of the line; remove it");
        }
        if file.path.ends_with(".rs") && line.contains('\t') {
            report(i + 1, "a tab; indent by spaces, and write `\\t` in strings");
        }
    }
}

fn check_paths(file: &File, findings: &mut Vec<Finding>) {
    for (i, line) in file.text.lines().enumerate() {
        let is_test = file.is_test() || file.source.as_ref().is_some_and(|source| source.is_test_line(i + 1));
        for (folder, tests_may) in MACHINE_PATHS {
            if (!tests_may || !is_test) && names_folder(line, folder) {
                let message = format!(
                    "`{folder}` is a path of one machine; write a path relative to the repository, \
                     or take it from an argument or the environment"
                );
                findings.push(file.finding(i + 1, "path", message));
            }
        }
    }
}

/// Returns whether `line` has `folder` as the beginning of an absolute path, not in the middle of
/// some other path.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| {
            !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '~' | '/' | '}' | ')' | '*'))
        })
    })
}

#[cfg(test)]
mod tests;

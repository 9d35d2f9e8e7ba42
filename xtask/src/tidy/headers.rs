//! Every crate root, module, test and example file opens with `//!` documentation: what it is and
//! why it exists.
//!
//! A `tests.rs` beside its module needs none: it is what its place says.

use crate::finding::Finding;
use crate::tree::Tree;

/// Reports files that open with something else.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.sources().filter(|(file, _)| file.name() != "tests.rs") {
        let is_documented = opening(&file.text).any(|line| line.contains(char::is_alphabetic));
        if !is_documented {
            let message = "the file does not open with `//!` documentation; \
                           say first what it is, why it exists and what must hold";
            findings.push(file.finding(1, "header", message.to_owned()));
        }
    }
    findings
}

/// The lines of the documentation that `text` opens with.
fn opening(text: &str) -> impl Iterator<Item = &str> {
    text.trim_start().lines().map_while(|line| line.strip_prefix("//!"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{messages, tree};

    #[test]
    fn a_documented_file_passes() {
        let files = [
            ("a.rs", "//! A room.\nfn f() {}\n"),
            ("b.rs", "\n//!\n//! A room.\n#![forbid(unsafe_code)]\n"),
            ("d/tests.rs", "use super::*;\n"),
            ("notes.md", "Not Rust.\n"),
        ];
        assert_eq!(messages(check(&tree(&files))), "");
    }

    #[test]
    fn an_undocumented_file_is_a_finding() {
        for text in ["", "fn f() {}\n", "// A room.\n", "//!\nfn f() {}\n", "#![allow(x)]\n//! Late.\n"] {
            let found = messages(check(&tree(&[("a.rs", text)])));
            assert!(found.starts_with("a.rs:1: header: the file does not open"), "{text:?}: {found}");
        }
    }
}

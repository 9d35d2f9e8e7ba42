//! Files of at most 600 lines, those of tests 1,000, and functions of at most 70, but for what the
//! ratchet lists.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::ratchet::{self, Ratchet};
use crate::tree::{File, Tree};

pub(crate) const FILE_LINES: usize = 600;
const TEST_FILE_LINES: usize = 1_000;
const FUNCTION_LINES: usize = 70;

/// A file or a function that is over its limit, and where it begins.
struct Long {
    path: String,
    line: usize,
    lines: usize,
    most: usize,
}

/// Reports what is over its limit and not listed, or over its listed length, and what is listed too
/// high.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let ratchet = match &tree.ratchet {
        Some(Ok(ratchet)) => ratchet.clone(),
        None => Ratchet::default(),
        Some(Err(reason)) => {
            let message = format!("the ratchet cannot be read ({}); mend it", reason.trim_end());
            return vec![Finding { path: ratchet::PATH.to_owned(), line: 1, rule: "length", message }];
        }
    };
    let mut findings = compare("file", &ratchet.files, &long_files(tree));
    findings.extend(compare("function", &ratchet.functions, &long_functions(tree)));
    findings
}

/// The ratchet with every length lowered to what it is now, and without what is short enough. Never
/// raises a number and never adds one.
pub(super) fn lowered(tree: &Tree) -> Ratchet {
    let listed = match &tree.ratchet {
        Some(Ok(ratchet)) => ratchet.clone(),
        _ => Ratchet::default(),
    };
    let tighten = |listed: BTreeMap<String, usize>, now: &BTreeMap<String, Long>| {
        let lower = |(name, lines): (String, usize)| now.get(&name).map(|long| (name, lines.min(long.lines)));
        listed.into_iter().filter_map(lower).collect()
    };
    Ratchet {
        files: tighten(listed.files, &long_files(tree)),
        functions: tighten(listed.functions, &long_functions(tree)),
        counts: listed.counts,
    }
}

fn compare(what: &str, listed: &BTreeMap<String, usize>, now: &BTreeMap<String, Long>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, long) in now {
        let lines = long.lines;
        let message = match listed.get(name) {
            None => {
                let limit = long.most;
                format!("`{name}` has {lines} lines, a {what} at most {limit}; split it by idea")
            }
            Some(&most) if lines > most => {
                format!(
                    "`{name}` has {lines} lines and may have {most} ({}); it may only shrink",
                    ratchet::PATH
                )
            }
            Some(_) => continue,
        };
        findings.push(Finding { path: long.path.clone(), line: long.line, rule: "length", message });
    }
    for (name, &most) in listed {
        let lines = now.get(name).map(|long| long.lines);
        if lines.is_none_or(|lines| lines < most) {
            let now = lines.map_or_else(|| "at most the limit".to_owned(), |lines| lines.to_string());
            let message = format!("`{name}` is listed with {most} lines and has {now}; {ADVICE}");
            findings.push(Finding { path: ratchet::PATH.to_owned(), line: 1, rule: "length", message });
        }
    }
    findings
}

const ADVICE: &str = "lower the number with `cargo xtask tidy --tighten`";

fn long_files(tree: &Tree) -> BTreeMap<String, Long> {
    let rust = tree.files.iter().filter(|file| file.path.ends_with(".rs"));
    rust.filter_map(|file| {
        let (lines, most) = (file.text.lines().count(), most_lines(file));
        let long = Long { path: file.path.clone(), line: 1, lines, most };
        (lines > most).then(|| (file.path.clone(), long))
    })
    .collect()
}

/// The most lines that a file may have.
fn most_lines(file: &File) -> usize {
    if file.is_test() { TEST_FILE_LINES } else { FILE_LINES }
}

/// By path and name; of two functions with one name (one per configuration), the longer.
fn long_functions(tree: &Tree) -> BTreeMap<String, Long> {
    let mut longest: BTreeMap<String, Long> = BTreeMap::new();
    for (file, source) in tree.sources() {
        for function in source.functions.iter().filter(|function| function.lines > FUNCTION_LINES) {
            let name = format!("{}::{}", file.path, function.path);
            let long = Long {
                path: file.path.clone(),
                line: function.line,
                lines: function.lines,
                most: FUNCTION_LINES,
            };
            match longest.get(&name) {
                Some(other) if other.lines >= long.lines => {}
                _ => {
                    longest.insert(name, long);
                }
            }
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{messages, tree};

    fn function_of(lines: usize) -> String {
        format!(
            "//! A room.\nimpl Pool {{\n    fn grow() {{\n{}    }}\n}}\n",
            "        step();\n".repeat(lines - 2)
        )
    }

    #[test]
    fn the_limits_themselves_are_allowed() {
        let [file, tests] = [FILE_LINES, TEST_FILE_LINES].map(|lines| "// A line.\n".repeat(lines));
        let files = [("a.rs", &*file), ("b.rs", &*function_of(FUNCTION_LINES)), ("tests/c.rs", &*tests)];
        assert_eq!(messages(check(&tree(&files))), "");
    }

    #[test]
    fn a_file_or_function_over_its_limit_is_a_finding() {
        let [file, tests] = [FILE_LINES, TEST_FILE_LINES].map(|lines| "// A line.\n".repeat(lines + 1));
        let files = [("a.rs", &*file), ("b.rs", &*function_of(FUNCTION_LINES + 1)), ("tests/c.rs", &*tests)];
        let found = messages(check(&tree(&files)));
        assert!(found.contains("a.rs:1: length: `a.rs` has 601 lines, a file at most 600"), "{found}");
        assert!(
            found.contains("c.rs:1: length: `tests/c.rs` has 1001 lines, a file at most 1000"),
            "{found}"
        );
        assert!(found.contains("b.rs:3: length: `b.rs::Pool::grow` has 71 lines"), "{found}");
    }

    #[test]
    fn what_is_listed_may_stay_but_not_grow() {
        let ratchet = "[functions]\n\"b.rs::Pool::grow\" = 80\n";
        let at = |lines| check(&tree(&[("b.rs", &function_of(lines)), (ratchet::PATH, ratchet)]));
        assert_eq!(messages(at(80)), "");
        assert!(messages(at(81)).contains("may only shrink"));
    }

    #[test]
    fn what_shrank_must_be_listed_lower() {
        let ratchet = "[functions]\n\"b.rs::Pool::grow\" = 80\n[files]\n\"gone.rs\" = 2000\n";
        let mut tree = tree(&[("b.rs", &function_of(75)), (ratchet::PATH, ratchet)]);
        let found = messages(check(&tree));
        assert!(found.contains("is listed with 80 lines and has 75; lower the number"), "{found}");
        assert!(found.contains("`gone.rs` is listed with 2000 lines and has at most the limit"), "{found}");
        let text = lowered(&tree).render();
        assert!(text.contains("= 75") && !text.contains("gone.rs"), "{text}");
        tree.set_ratchet(&text);
        assert_eq!(messages(check(&tree)), "");
    }

    #[test]
    fn tightening_never_raises_and_never_adds() {
        let ratchet = "[functions]\n\"b.rs::Pool::grow\" = 80\n";
        let tree = tree(&[("b.rs", &function_of(90)), ("c.rs", &function_of(99)), (ratchet::PATH, ratchet)]);
        let text = lowered(&tree).render();
        assert!(text.contains("= 80") && !text.contains("c.rs"), "{text}");
    }

    #[test]
    fn an_unreadable_ratchet_is_a_finding() {
        let found = messages(check(&tree(&[(ratchet::PATH, "files = 3\n")])));
        assert!(found.starts_with("xtask/ratchet.toml:1: length: the ratchet cannot be read"), "{found}");
    }
}

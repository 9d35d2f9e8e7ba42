//! A metric is declared in one place: a string literal that is a metric name appears once per
//! crate.
//!
//! A metric name is `millpond_<area>_<noun>_<unit>[_total]`, so at least two words follow the
//! prefix; tests may name metrics as often as they like.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::tree::Tree;

const PREFIX: &str = "millpond_";

/// Reports the second and later literals of one name in one crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut first: BTreeMap<(&str, &str), (&str, usize)> = BTreeMap::new();
    let mut findings = Vec::new();
    for (file, source) in tree.sources().filter(|(file, _)| !file.is_test()) {
        let room = file.path.split("/src/").next().unwrap_or(&file.path);
        let literals = source.literals.iter().filter(|literal| !source.is_test_line(literal.line));
        for literal in literals.filter(|literal| is_metric(&literal.text)) {
            let name = literal.text.as_str();
            match first.get(&(room, name)) {
                None => {
                    first.insert((room, name), (&file.path, literal.line));
                }
                Some((path, line)) => {
                    let message = format!(
                        "the metric `{name}` is already named at {path}:{line}; \
                         declare it once and use the declaration, or give this one its own name"
                    );
                    findings.push(file.finding(literal.line, "metric", message));
                }
            }
        }
    }
    findings
}

fn is_metric(literal: &str) -> bool {
    let Some(words) = literal.strip_prefix(PREFIX) else { return false };
    words.split('_').count() >= 2
        && words.split('_').all(|word| !word.is_empty())
        && words.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{messages, tree};

    const NAME: &str = "\"millpond_pool_hits_total\"";

    #[test]
    fn one_name_per_crate_passes_and_tests_may_repeat_it() {
        let files = [
            (
                "crates/a/src/x.rs",
                format!(
                    "//! X.\nconst A: &str = {NAME};\n#[cfg(test)]\nmod tests {{\n    const B: &str = {NAME};\n}}\n"
                ),
            ),
            ("crates/a/tests/y.rs", format!("//! Y.\nconst A: &str = {NAME};\n")),
            ("crates/b/src/x.rs", format!("//! X.\nconst A: &str = {NAME};\n")),
            (
                "crates/b/src/y.rs",
                "//! Y.\nfn f() { g(\"millpond_server\"); g(\"millpond_server\") }\n".to_owned(),
            ),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert_eq!(messages(check(&tree(&files))), "");
    }

    #[test]
    fn the_same_name_twice_in_one_crate_is_a_finding() {
        let text = format!("//! X.\nconst A: &str = {NAME};\n");
        let macros = format!("//! X.\nfn f() {{\n    g!({NAME});\n}}\n");
        let found = messages(check(&tree(&[("crates/a/src/x.rs", &text), ("crates/a/src/y.rs", &macros)])));
        assert!(found.starts_with("crates/a/src/y.rs:3: metric: "), "{found}");
        assert!(found.contains("crates/a/src/x.rs:2"), "{found}");
    }
}

use super::*;
pub(super) use crate::tree::testing::{package, tree};

/// The findings as they are printed.
pub(super) fn messages(mut findings: Vec<Finding>) -> String {
    findings.sort();
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

#[test]
fn every_rule_is_run_and_the_findings_are_in_order() {
    let mut tree = tree(&[
        ("crates/evict/src/b.rs", "/// What it is.\nstruct Helper;\n"),
        (
            "crates/evict/src/a.rs",
            "//! A room.\nfn f() { g(\"millpond_a_b_total\", \"millpond_a_b_total\") } \n",
        ),
        ("crates/evict/src/lib.rs", "//! A room.\n"),
        ("crates/evict/src/long.rs", &format!("//! A room.\n{}", "// A line.\n".repeat(1_000))),
        ("crates/evict/src/odd.rs", "fn\n"),
    ]);
    tree.packages = vec![package("evict", "lib", &[("server", None)])];
    let findings = run(&tree);
    let mut rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    assert_eq!(
        rules,
        ["counts", "doors", "header", "length", "metric", "rooms", "source", "text", "unsafe", "words"]
    );
    assert!(findings.is_sorted_by_key(|finding| (&finding.path, finding.line)));
}

#[test]
fn the_repository_itself_can_be_read() {
    let tree = Tree::load(&repository::root()).expect("the repository");
    assert!(tree.packages.iter().any(|package| package.name == "millpond-base"));
    assert!(tree.file("xtask/src/tidy/tests.rs").is_some_and(|file| file.source.is_some()));
    assert!(matches!(tree.ratchet, Some(Ok(_))), "{} is missing or broken", ratchet::PATH);
}

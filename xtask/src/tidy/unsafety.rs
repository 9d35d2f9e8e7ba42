//! `unsafe` lives in the rooms of a short list; everywhere else the crate root forbids it.

use crate::finding::Finding;
use crate::tree::Tree;

/// Crates that may contain `unsafe`, and what for.
const ALLOWED: &[(&str, &str)] = &[
    ("millpond-base", "clocks and processor affinity of the kernel"),
    ("millpond-slab", "slab memory"),
    ("millpond-index", "lock-free buckets"),
    ("millpond-memory", "handles onto items"),
    ("millpond-compact", "mapped memory of buckets"),
    ("millpond", "tests that fork, and that damage shared memory"),
    ("millpond-device", "device I/O"),
    ("millpond-capi", "the C ABI"),
    ("millpond-hopper", "the Redis module ABI"),
    ("millpond-bunny", "shared-memory rings"),
];

/// Reports crate roots that do not forbid `unsafe`, and files outside of the list that use it.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_allowed = |name: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == name);
    let mut findings = Vec::new();
    for package in tree.packages.iter().filter(|package| !is_allowed(&package.name)) {
        for root in package.roots() {
            let Some(file) = tree.file(root) else { continue };
            if file.source.as_ref().is_some_and(|source| !source.forbids_unsafe) {
                let message = format!(
                    "`{}` is not on the list of crates with unsafe code; add `#![forbid(unsafe_code)]`",
                    package.name
                );
                findings.push(file.finding(1, "unsafe", message));
            }
        }
    }
    for (file, source) in tree.sources() {
        // A file of no crate is on no list.
        let owner = tree.owner(&file.path);
        if owner.is_some_and(|package| is_allowed(&package.name)) {
            continue;
        }
        for &line in &source.unsafe_lines {
            let message = "unsafe code outside of the crates that may have it; \
                           move it to a crate on the list in xtask/src/tidy/unsafety.rs, behind a safe function";
            findings.push(file.finding(line, "unsafe", message.to_owned()));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{messages, package, tree};

    #[test]
    fn the_listed_crates_may_and_the_others_forbid() {
        let mut tree = tree(&[
            ("crates/slab/src/lib.rs", "//! Slabs.\nunsafe fn f() {}\n"),
            ("crates/slab/tests/raw.rs", "//! A test.\nunsafe fn f() {}\n"),
            ("crates/evict/src/lib.rs", "//! Policies.\n#![forbid(unsafe_code)]\n// An unsafe word.\n"),
            ("crates/cli/src/main.rs", "//! The program.\n#![forbid(unsafe_code, missing_docs)]\n"),
        ]);
        tree.packages =
            vec![package("slab", "lib", &[]), package("evict", "lib", &[]), package("cli", "bin", &[])];
        assert_eq!(messages(check(&tree)), "");
    }

    #[test]
    fn a_crate_root_that_does_not_forbid_is_a_finding() {
        let mut tree = tree(&[("crates/evict/src/lib.rs", "//! Policies.\n#![deny(unsafe_code)]\n")]);
        tree.packages = vec![package("evict", "lib", &[])];
        assert!(messages(check(&tree)).starts_with("crates/evict/src/lib.rs:1: unsafe: `millpond-evict`"));
    }

    #[test]
    fn unsafe_code_in_another_crates_tests_or_examples_is_a_finding() {
        let text = "//! A test.\nfn f() {\n    unsafe { g() }\n}\n";
        let mut tree = tree(&[("crates/evict/tests/raw.rs", text), ("examples/raw.rs", text)]);
        tree.packages = vec![package("evict", "lib", &[])];
        let found = messages(check(&tree));
        assert!(found.contains("crates/evict/tests/raw.rs:3: unsafe: "), "{found}");
        assert!(found.contains("examples/raw.rs:3: unsafe: "), "{found}");
    }
}

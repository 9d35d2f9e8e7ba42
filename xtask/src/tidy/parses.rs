//! Every Rust file parses: no rule can check a file that `syn` cannot read.

use crate::finding::Finding;
use crate::tree::Tree;

/// Reports the Rust files that do not parse.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let broken = tree.files.iter().filter_map(|file| Some((file, file.broken.as_ref()?)));
    broken
        .map(|(file, (line, reason))| {
            file.finding(*line, "source", format!("this is not Rust that syn can read ({reason}); mend it"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{messages, tree};

    #[test]
    fn a_file_that_is_not_rust_is_a_finding() {
        let found =
            messages(check(&tree(&[("a.rs", "//! A room.\nfn f() -> {}\n"), ("b.rs", "fn f() {}\n")])));
        assert!(found.starts_with("a.rs:2: source: ") && found.lines().count() == 1, "{found}");
    }
}

//! The code that a change of a file compiles again.

use std::collections::BTreeSet;

use super::sizes;
use crate::tree::{Package, Tree};

/// The crates that are compiled again if the file at `path` changes, with their lines and the sum.
///
/// # Errors
/// No crate holds `path`.
pub(super) fn report(tree: &Tree, path: &str) -> anyhow::Result<String> {
    let Some(owner) = tree.owner(path) else {
        anyhow::bail!("`{path}` is in no crate; give a path relative to the repository");
    };
    let name = owner.short_name();
    let inner = path.strip_prefix(owner.folder()).unwrap_or(path);
    if !inner.starts_with("/src/") && !matches!(inner, "/Cargo.toml" | "/build.rs" | "/src" | "") {
        return Ok(format!(
            "`{path}` is in no library or program; a change compiles no other crate than `{name}`\n"
        ));
    }
    let crates = dependents(tree, owner);
    let mut rows: Vec<(usize, &str)> =
        crates.iter().map(|package| (sizes::source_lines(tree, package), package.short_name())).collect();
    rows.sort_by(|a, b| b.cmp(a));
    let sum: usize = rows.iter().map(|(lines, _)| lines).sum();
    let mut text = format!("a change of `{path}` compiles {sum} lines in {} crates:\n", rows.len());
    for (lines, name) in rows {
        text.push_str(&format!("  {lines:>6} {name}\n"));
    }
    Ok(text)
}

/// `changed` and all crates that depend on it, directly or through others, but for their tests.
fn dependents<'a>(tree: &'a Tree, changed: &'a Package) -> Vec<&'a Package> {
    let mut names: BTreeSet<&str> = BTreeSet::from([changed.name.as_str()]);
    loop {
        let before = names.len();
        for package in &tree.packages {
            let mut dependencies = package.dependencies.iter().filter(|dependency| !dependency.is_dev());
            if dependencies.any(|dependency| names.contains(dependency.name.as_str())) {
                names.insert(&package.name);
            }
        }
        if names.len() == before {
            return tree.packages.iter().filter(|package| names.contains(package.name.as_str())).collect();
        }
    }
}

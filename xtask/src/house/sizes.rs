//! Long source files, and the size of each crate.

use crate::tidy::FILE_LINES;
use crate::tree::{Package, Tree};

/// A crate above this is marked: time to ask whether it is two.
const CRATE_LINES: usize = 12_000;

/// Lines of Rust that are compiled into the libraries and programs of `package`: all of its `src`
/// but files of tests.
pub(super) fn source_lines(tree: &Tree, package: &Package) -> usize {
    files(tree, package).map(|(_, lines)| lines).sum()
}

/// The paths of those files, with the lines of each.
fn files<'a>(tree: &'a Tree, package: &Package) -> impl Iterator<Item = (&'a str, usize)> {
    let folder = format!("{}/src/", package.folder());
    let sources = tree.sources().filter(move |(file, _)| file.path.starts_with(&folder) && !file.is_test());
    sources.map(|(file, _)| (file.path.as_str(), file.text.lines().count()))
}

/// The table of crates, and the long files, each with the largest first.
pub(super) fn report(tree: &Tree) -> String {
    let mut crates: Vec<(usize, &str)> =
        tree.packages.iter().map(|package| (source_lines(tree, package), package.short_name())).collect();
    crates.sort_by(|a, b| b.cmp(a));
    let mut text = format!("lines of source by crate (limit {CRATE_LINES}):\n");
    for (lines, name) in &crates {
        let mark = if *lines > CRATE_LINES { "  above the limit" } else { "" };
        text.push_str(&format!("  {lines:>6} {name}{mark}\n"));
    }
    text.push_str(&format!("  {:>6} in all\n", crates.iter().map(|(lines, _)| lines).sum::<usize>()));
    let mut long: Vec<(usize, &str)> = tree
        .packages
        .iter()
        .flat_map(|package| files(tree, package).collect::<Vec<_>>())
        .filter(|(_, lines)| *lines > FILE_LINES)
        .map(|(path, lines)| (lines, path))
        .collect();
    long.sort_by(|a, b| b.cmp(a));
    text.push_str(&format!("\nsource files over {FILE_LINES} lines: {}\n", long.len()));
    for (lines, path) in long {
        text.push_str(&format!("  {lines:>6} {path}\n"));
    }
    text
}

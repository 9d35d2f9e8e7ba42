//! Lines of comments and documentation that are wider than an editor shows.

use super::place::Place;
use crate::tree::Tree;

const COLUMNS: usize = 100;

/// The lines that are too wide, but for tables and addresses, which cannot be wrapped.
pub(super) fn places(tree: &Tree) -> Vec<Place> {
    let mut places = Vec::new();
    for (file, source) in tree.sources() {
        let lines: Vec<&str> = file.text.lines().collect();
        for (number, comment) in source.comments.iter().flat_map(|comment| comment.lines()) {
            let columns = lines.get(number - 1).map_or(0, |line| line.chars().count());
            if columns > COLUMNS && !comment.starts_with('|') && !comment.contains("://") {
                let text = format!("{columns} columns");
                places.push(Place { path: file.path.clone(), line: number, text });
            }
        }
    }
    places
}

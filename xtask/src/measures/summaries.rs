//! Documentation whose first line is a noun clause (`What …`, `Whether …`) rather than a noun or a
//! verb.

use super::place::Place;
use crate::tree::Tree;

const OPENINGS: [&str; 5] = ["What", "Who", "Whose", "Where", "Whether"];

/// The summaries that begin so.
pub(super) fn places(tree: &Tree) -> Vec<Place> {
    let mut places = Vec::new();
    for (file, source) in tree.sources() {
        // The line and the mark that go on with the block; and whether its summary has been read.
        let (mut next, mut mark, mut is_read) = (0, "", false);
        for comment in source.comments.iter().filter(|comment| comment.is_doc) {
            if comment.line != next || !comment.text.starts_with(mark) {
                is_read = false;
            }
            mark = comment.text.get(..3).unwrap_or("");
            for (line, text) in comment.lines() {
                next = line + 1;
                if is_read || text.is_empty() {
                    continue;
                }
                is_read = true;
                let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
                if OPENINGS.contains(&first) {
                    let text = format!("the summary begins with `{first}`");
                    places.push(Place { path: file.path.clone(), line, text });
                }
            }
        }
    }
    places
}

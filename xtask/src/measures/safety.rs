//! `// SAFETY:` comments that lean on no numbered invariant of a module's header.

use super::place::Place;
use crate::source::Comment;
use crate::tree::Tree;

/// The comments that name none.
pub(super) fn places(tree: &Tree) -> Vec<Place> {
    let mut places = Vec::new();
    for (file, source) in tree.sources() {
        for (line, text) in arguments(&source.comments) {
            if !names_invariant(&text) {
                places.push(Place { path: file.path.clone(), line, text });
            }
        }
    }
    places
}

/// Each argument, from its mark to the end of the comment or the next mark, with the line of the
/// mark.
fn arguments(comments: &[Comment]) -> Vec<(usize, String)> {
    let mut arguments: Vec<(usize, String)> = Vec::new();
    let mut next = 0;
    for (line, text) in comments.iter().filter(|comment| !comment.is_doc).flat_map(Comment::lines) {
        if text.starts_with("SAFETY:") {
            arguments.push((line, text.to_owned()));
            next = line + 1;
        } else if line == next
            && let Some((_, argument)) = arguments.last_mut()
        {
            argument.push(' ');
            argument.push_str(text);
            next = line + 1;
        }
    }
    arguments
}

/// Returns whether `text` has a number after `invariant` or `invariants`.
fn names_invariant(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let is_number = |next: &&str| next.bytes().all(|b| b.is_ascii_digit());
        if matches!(word, "invariant" | "invariants" | "Invariant" | "Invariants")
            && words.peek().is_some_and(is_number)
        {
            return true;
        }
    }
    false
}

//! Phrases that the field says otherwise, in messages and in prose.
//!
//! They are found as words in a row, whatever the line breaks between them; punctuation ends a row,
//! and code between back ticks is not read.

use std::collections::BTreeMap;

use super::place::Place;
use crate::tree::{File, Tree};
use crate::vocabulary::{self, Vocabulary};

/// How many words after a phrase may excuse it.
const WORDS_AFTER: usize = 4;

/// Phrases in string literals that are read by users: those of several words, outside of tests.
pub(super) fn in_messages(tree: &Tree) -> Vec<Place> {
    let phrases = Phrases::load();
    let mut places = Vec::new();
    for (file, source) in tree.sources().filter(|(file, _)| !file.is_test() && !is_exempt(file)) {
        let literals = source.literals.iter().filter(|literal| !source.is_test_line(literal.line));
        for literal in literals.filter(|literal| literal.text.contains(' ')) {
            let text = literal.text.replace("\\n", " ").replace('\\', " ");
            let text = vocabulary::without_code(&text);
            phrases.search(file, &rows([(literal.line, text.as_str())]), &mut places);
        }
    }
    places
}

/// Phrases in comments and documents.
pub(super) fn in_prose(tree: &Tree) -> Vec<Place> {
    let phrases = Phrases::load();
    let mut places = Vec::new();
    for file in tree.files.iter().filter(|file| !is_exempt(file)) {
        let lines = vocabulary::prose(file);
        phrases.search(file, &rows(lines.iter().map(|(line, text)| (*line, text.as_str()))), &mut places);
    }
    places
}

fn is_exempt(file: &File) -> bool {
    vocabulary::is_exempt(&file.path)
}

/// Words in a row, each with its line, in lower case.
type Row = Vec<(usize, String)>;

/// The rows of `lines`: a line goes on with the row of the line before it, if that is the one
/// above.
fn rows<'a>(lines: impl IntoIterator<Item = (usize, &'a str)>) -> Vec<Row> {
    let mut rows: Vec<Row> = vec![Row::new()];
    let mut next = 0;
    for (number, line) in lines {
        if number != next || line.trim().is_empty() {
            rows.push(Row::new());
        }
        next = number + 1;
        let mut word = String::new();
        for c in line.chars().chain([' ']) {
            if c.is_alphanumeric() || c == '\'' {
                word.extend(c.to_lowercase());
                continue;
            }
            if !word.is_empty()
                && let Some(row) = rows.last_mut()
            {
                row.push((number, std::mem::take(&mut word)));
            }
            if !c.is_whitespace() && !matches!(c, '-' | '*' | '_') {
                rows.push(Row::new());
            }
        }
    }
    rows
}

/// The phrases of the vocabulary by their first words.
struct Phrases {
    by_first: BTreeMap<String, Vec<(Vec<String>, usize)>>,
    entries: Vec<vocabulary::Phrase>,
}

impl Phrases {
    /// Those of the list; none if it cannot be read, which is a finding of the rule for words.
    fn load() -> Self {
        let entries = Vocabulary::load().map(|vocabulary| vocabulary.phrases).unwrap_or_default();
        let mut by_first: BTreeMap<String, Vec<(Vec<String>, usize)>> = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate() {
            for phrase in &entry.not {
                let words: Vec<String> = phrase.split(' ').map(str::to_owned).collect();
                if let Some(first) = words.first() {
                    by_first.entry(first.clone()).or_default().push((words, at));
                }
            }
        }
        Self { by_first, entries }
    }

    fn search(&self, file: &File, rows: &[Row], places: &mut Vec<Place>) {
        for row in rows {
            for at in 0..row.len() {
                if let Some(text) = self.phrase_at(row, at) {
                    places.push(Place { path: file.path.clone(), line: row[at].0, text });
                }
            }
        }
    }

    /// The phrase that begins at a place of `row`, with what to write instead.
    fn phrase_at(&self, row: &Row, at: usize) -> Option<String> {
        let candidates = self.by_first.get(&row[at].1)?;
        candidates.iter().find_map(|(words, entry)| {
            let entry = self.entries.get(*entry)?;
            let found = row.get(at..at + words.len())?;
            let is_phrase = found.iter().zip(words).all(|((_, found), word)| found == word);
            let before = at.checked_sub(1).and_then(|before| row.get(before));
            let mut after = row.iter().skip(at + words.len()).take(WORDS_AFTER);
            let is_excused = before.is_some_and(|(_, word)| entry.unless_before.contains(word))
                || after.any(|(_, word)| entry.unless_after.contains(word));
            (is_phrase && !is_excused).then(|| format!("`{}`; {}", words.join(" "), entry.but))
        })
    }
}

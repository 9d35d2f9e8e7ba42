//! Words that the house does not use, each with what to write instead, and comments that say what
//! they should not.
//!
//! Names of types, traits, modules, files and folders must say what a thing is; comments say why,
//! in the present: no plan items, ticket numbers, dates or code that was commented out.
//! `xtask/words.toml` holds the words.

use crate::finding::Finding;
use crate::source::Comment;
use crate::tree::{File, Tree};
use crate::vocabulary::{self, Vocabulary};

/// Reports banned words in names, comments and documents, and comments that hold tickets, dates or
/// code.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let words = match Vocabulary::load() {
        Ok(words) => words,
        Err(error) => {
            let message = format!("the list of words cannot be read ({error}); mend it");
            return vec![Finding { path: vocabulary::PATH.to_owned(), line: 1, rule: "words", message }];
        }
    };
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| !vocabulary::is_exempt(&file.path)) {
        check_path(file, &words, &mut findings);
        check_names(file, &words, &mut findings);
        for (line, text) in vocabulary::prose(file) {
            check_prose(file, line, &text, &words, &mut findings);
        }
        if let Some(source) = &file.source {
            check_code(file, &source.comments, &mut findings);
        }
    }
    findings
}

fn check_path(file: &File, words: &Vocabulary, findings: &mut Vec<Finding>) {
    for part in file.path.split('/') {
        let stem = part.split('.').find(|stem| !stem.is_empty()).unwrap_or(part);
        for (word, instead) in banned(stem, words) {
            let message = format!("`{part}` is named by `{word}`; {instead}");
            findings.push(file.finding(1, "words", message));
        }
    }
}

fn check_names(file: &File, words: &Vocabulary, findings: &mut Vec<Finding>) {
    for name in file.source.iter().flat_map(|source| &source.names) {
        for (word, instead) in banned(&name.text, words) {
            let message = format!("`{}` is named by `{word}`; {instead}", name.text);
            findings.push(file.finding(name.line, "words", message));
        }
    }
}

/// The banned words that `name` is made of, in any case style.
fn banned<'a>(name: &str, words: &'a Vocabulary) -> Vec<(&'a str, &'a str)> {
    let parts = split_name(name);
    words
        .names
        .iter()
        .filter(|(word, _)| parts.contains(word))
        .map(|(word, instead)| (word.as_str(), instead.as_str()))
        .collect()
}

/// The words of `snake_case`, `kebab-case` and `CamelCase`, in lower case.
fn split_name(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let starts_word = !c.is_alphanumeric() || c.is_uppercase() && was_lower;
        if starts_word && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    words
}

fn check_prose(file: &File, line: usize, text: &str, words: &Vocabulary, findings: &mut Vec<Finding>) {
    let mut report = |message: String| findings.push(file.finding(line, "words", message));
    for (mark, instead) in &words.marks {
        if text.split(|c: char| !c.is_alphanumeric()).any(|word| word == mark) {
            report(format!("`{mark}`; {instead}"));
        }
    }
    // A history is made of what documents must not hold.
    if file.path == "CHANGELOG.md" {
        return;
    }
    if let Some(ticket) = find_ticket(text) {
        report(format!("`{ticket}` is a ticket; say what holds and why, the history knows the rest"));
    }
    let is_document = file.path.ends_with(".md");
    if let Some(date) = find_date(text).filter(|_| !is_document) {
        report(format!("`{date}` is a date; a comment describes the present"));
    }
}

/// A number after `#`, or after a word such as `issue`.
fn find_ticket(text: &str) -> Option<String> {
    let mut previous = "";
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
        let number = bare.strip_prefix('#').unwrap_or("");
        if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
            return Some(bare.to_owned());
        }
        let is_number = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit());
        let kind = previous.trim_start_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
        if is_number && matches!(kind.as_str(), "issue" | "ticket" | "milestone" | "pr") {
            return Some(format!("{previous} {bare}"));
        }
        previous = word;
    }
    None
}

/// A date written as year, month and day.
fn find_date(text: &str) -> Option<&str> {
    text.split(|c: char| !c.is_ascii_digit() && c != '-').find(|word| {
        let lengths: Vec<usize> = word.split('-').map(str::len).collect();
        lengths == [4, 2, 2] && (word.starts_with("19") || word.starts_with("20"))
    })
}

/// Reports runs of plain comment lines that are Rust.
fn check_code(file: &File, comments: &[Comment], findings: &mut Vec<Finding>) {
    let mut rest = comments.iter().filter(|comment| !comment.is_doc && comment.is_alone).peekable();
    while let Some(first) = rest.next() {
        let mut text = vec![strip(&first.text)];
        let mut next = first.line + 1;
        while let Some(comment) = rest.next_if(|comment| comment.line == next) {
            text.push(strip(&comment.text));
            next += 1;
        }
        if is_code(&text.join("\n")) || text.iter().any(|line| is_code(line)) {
            let message = "a comment that is code; remove it, the history keeps it".to_owned();
            findings.push(file.finding(first.line, "words", message));
        }
    }
}

fn strip(comment: &str) -> &str {
    comment.trim_start_matches(['/', '*']).trim_end_matches("*/").trim()
}

/// Returns whether `text` is statements of Rust and could not be a sentence: it ends as code does,
/// has a call, an assignment or a block, and parses.
fn is_code(text: &str) -> bool {
    let ends_as_code = text.ends_with(';') || text.ends_with('}');
    let has_shape = text.contains('(') || text.contains(" = ") || text.contains('{');
    ends_as_code && has_shape && syn::parse_str::<syn::Block>(&format!("{{\n{text}\n}}")).is_ok()
}

#[cfg(test)]
mod tests;

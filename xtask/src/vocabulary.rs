//! The words that the house does not use, each with what to write instead, and the prose in which
//! they are looked for.
//!
//! `xtask/words.toml` holds the words.

use std::collections::BTreeMap;

use crate::source::Comment;
use crate::tree::File;

/// The list, relative to the repository.
pub(crate) const PATH: &str = "xtask/words.toml";

const LIST: &str = include_str!("../words.toml");

/// The words of the list: each with what to write instead.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vocabulary {
    /// Words of names, in lower case.
    pub(crate) names: BTreeMap<String, String>,
    /// Words of comments and documents, as written.
    pub(crate) marks: BTreeMap<String, String>,
    pub(crate) phrases: Vec<Phrase>,
}

/// Phrases of one meaning, and the field's word for it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Phrase {
    /// Its forms: words in lower case, with one space between.
    pub(crate) not: Vec<String>,
    pub(crate) but: String,
    /// Words that make the phrase good English right after them.
    #[serde(default)]
    pub(crate) unless_before: Vec<String>,
    /// Words that do so soon after the phrase.
    #[serde(default)]
    pub(crate) unless_after: Vec<String>,
}

impl Vocabulary {
    /// Reads the list.
    ///
    /// # Errors
    /// The parser's own message, with the place.
    pub(crate) fn load() -> Result<Self, String> {
        toml::from_str(LIST).map_err(|error| error.to_string())
    }
}

/// Returns whether `path` may name what the rules refuse: the list itself, and the tests of the
/// rules.
pub(crate) fn is_exempt(path: &str) -> bool {
    path == PATH
        || path.starts_with("xtask/src/") && path.ends_with("/tests.rs")
        || path == "xtask/src/tidy/text.rs"
}

/// The lines of a file that are read by people: comments of code, and documents outside of their
/// code blocks.
pub(crate) fn prose(file: &File) -> Vec<(usize, String)> {
    if let Some(source) = &file.source {
        let lines = source.comments.iter().flat_map(Comment::lines);
        return lines.map(|(line, text)| (line, without_code(text))).collect();
    }
    let extension = file.name().rsplit('.').next().unwrap_or("");
    let lines = file.text.lines().enumerate().map(|(i, line)| (i + 1, line));
    match extension {
        "md" => {
            let mut is_code = false;
            let mut keep = move |(line, text): (usize, &str)| {
                if text.trim_start().starts_with("```") {
                    is_code = !is_code;
                }
                (!is_code).then(|| (line, without_code(text)))
            };
            lines.filter_map(&mut keep).collect()
        }
        "toml" | "sh" | "yml" | "yaml" | "py" | "run" => {
            let comments =
                lines.filter(|(_, text)| text.trim_start().starts_with('#') && !text.starts_with("#!"));
            comments
                .map(|(line, text)| (line, text.trim_start().trim_start_matches('#').to_owned()))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// `text` without what stands between back ticks: that is code, which has words of its own.
pub(crate) fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

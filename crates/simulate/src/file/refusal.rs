//! Errors of a file: the line, the key, and the valid alternative.

use base::suggest::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The reason why a file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FileError(String);

impl FileError {
    pub(super) fn unreadable(name: &str, error: &std::io::Error) -> Self {
        Self(format!("{name} cannot be read: {error}"))
    }

    /// Converts an error of the parser or the types: with the line, the key that stands there, and
    /// the nearest of the expected names.
    pub(super) fn of_toml(name: &str, text: &str, error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        let line = line_of(text, at);
        let message = error.message().trim_end();
        // If the parser was at a value, its key is before it; an unknown key is named in the
        // message already.
        let before =
            text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
        let is_about_key = message.starts_with("unknown field") || message.starts_with("missing field");
        let key = before
            .filter(|key| !is_about_key && !key.starts_with('#'))
            .map_or(String::new(), |key| format!("`{key}`: "));
        if let Some(number) = before.and_then(|key| number_for(key, message)) {
            return Self(format!("{name}:{line}: {key}{message}; write a number without quotes{number}"));
        }
        let hint = hint(message).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        Self(format!("{name}:{line}: {key}{message}{hint}"))
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The nearest of the names in a message like "unknown field `x`, expected one of `a`, `b`".
fn hint(message: &str) -> Option<&str> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let typed = quoted.next()?;
    nearest(typed, quoted)
}

/// Returns the number to write in the place of a text: ", as in `key = 60`" if the text contains
/// the number, such as "60" or, for a time in seconds, "1m". `None` if the message is another.
fn number_for(key: &str, message: &str) -> Option<String> {
    let (text, expected) = message.strip_prefix("invalid type: string \"")?.rsplit_once("\", expected ")?;
    let is_number = ["f64", "u64", "u32", "usize"].contains(&expected.trim());
    let number = text.trim().parse().ok().or_else(|| {
        let time = workload::length::duration(text.trim()).ok()?;
        key.ends_with("_secs").then_some(time.as_secs_f64())
    });
    is_number.then(|| number.map_or(String::new(), |number: f64| format!(", as in `{key} = {number}`")))
}

/// A fault of a file that can be read: a key, by its path from the top, and why it is wrong.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) way: Vec<Step>,
    pub(super) what: String,
}

/// A step down a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To a key of a table.
    Key(&'static str),
    /// To an entry of an array.
    Entry(usize),
}

impl Problem {
    /// The same with the file's name and the line. A key that is not written, because its default
    /// does not fit, is looked for at the place that would contain it.
    pub(super) fn at(&self, name: &str, text: &str) -> FileError {
        let line = DeTable::parse(text).map_or(1, |document| {
            let mut value = None;
            let mut at = 0;
            for step in &self.way {
                let found = match (step, value) {
                    (Step::Key(key), None) => entry(document.get_ref(), key),
                    (Step::Key(key), Some(value)) => table_of(value).and_then(|table| entry(table, key)),
                    (Step::Entry(number), Some(value)) => nth(value, *number),
                    (Step::Entry(_), None) => None,
                };
                let Some((start, below)) = found else { break };
                (at, value) = (start, Some(below));
            }
            line_of(text, at)
        });
        let key: Vec<&str> = self
            .way
            .iter()
            .filter_map(|step| if let Step::Key(key) = step { Some(*key) } else { None })
            .collect();
        FileError(format!("{name}:{line}: `{}`: {}", key.join("."), self.what))
    }
}

type Value<'i> = Spanned<DeValue<'i>>;

fn entry<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<(usize, &'a Value<'i>)> {
    table.iter().find(|(name, _)| name.get_ref() == key).map(|(name, value)| (name.span().start, value))
}

fn table_of<'a, 'i>(value: &'a Value<'i>) -> Option<&'a DeTable<'i>> {
    if let DeValue::Table(table) = value.get_ref() { Some(table) } else { None }
}

fn nth<'a, 'i>(value: &'a Value<'i>, number: usize) -> Option<(usize, &'a Value<'i>)> {
    let DeValue::Array(entries) = value.get_ref() else { return None };
    entries.get(number).map(|entry| (entry.span().start, entry))
}

//! Errors in trace files, reported so that a person can correct them.

use std::io;

/// An error that ends the reading of a trace: its place, the problem, and advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{place}: {problem}; {advice}", place = place(*.line, .column.as_deref()))]
pub struct TraceError {
    /// The file as it was named by the caller.
    pub file: String,
    /// The line, counted from 1, where the problem has one.
    pub line: Option<u64>,
    /// The column by name, where the problem has one.
    pub column: Option<String>,
    /// The problem found.
    pub problem: String,
    /// Advice on correcting it.
    pub advice: String,
}

fn place(line: Option<u64>, column: Option<&str>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!(", line {line}, column `{column}`"),
        (Some(line), None) => format!(", line {line}"),
        (None, Some(column)) => format!(", column `{column}`"),
        (None, None) => String::new(),
    }
}

impl TraceError {
    /// The stream broke.
    pub(super) fn io(file: &str, line: Option<u64>, error: &io::Error, advice: &str) -> Self {
        Self { file: file.into(), line, column: None, problem: error.to_string(), advice: advice.into() }
    }

    /// A line is not what the format asks for.
    pub(super) fn line(file: &str, line: u64, problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: Some(line),
            column: None,
            problem: problem.into(),
            advice: advice.into(),
        }
    }

    /// A field is not what its column asks for.
    pub(super) fn field(file: &str, line: u64, column: &str, text: &[u8], wanted: &str) -> Self {
        Self {
            file: file.into(),
            line: Some(line),
            column: Some(column.into()),
            problem: format!("`{}` is not {wanted}", excerpt(text)),
            advice: "correct the line, or name the columns in the order in which the file has them".into(),
        }
    }
}

/// The beginning of what a person would need to see of `text`, made printable.
pub(super) fn excerpt(text: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown: String =
        String::from_utf8_lossy(text).chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.len() > SHOWN { format!("{shown}…") } else { shown }
}

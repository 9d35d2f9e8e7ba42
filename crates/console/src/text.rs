//! Text for a terminal.

use std::io::Write as _;

/// The text with control characters escaped, which a terminal would obey, but for those to `keep`.
pub fn printable(text: &str, keep: &[char]) -> String {
    let shown = |c: char| {
        let is_escaped = c.is_control() && !keep.contains(&c);
        if is_escaped { c.escape_default().to_string() } else { c.to_string() }
    };
    text.chars().map(shown).collect()
}

/// Prints `text`; it is not a failure if the reader has gone, as `head` does.
pub fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

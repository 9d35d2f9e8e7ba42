//! Writes a configuration as the commented file that would bring it about.

use std::fmt::Write as _;

use toml::Value;

use super::keys::{self, is_size, written_size};
use super::settings::Key;
use super::users::{HIDDEN, shown_rules};
use super::{Config, load};
use crate::error::Error;

const HEADER: &str = "\
# Millpond's configuration. Every setting is shown; an omitted setting has its default.
# Sizes are bytes, or texts with a unit: \"64KiB\", \"1.5GiB\".
# [online]: SIGHUP re-reads this file and applies a new value while serving. [restart]: the next start applies it.
# Settings outside [[listener]], [[pool]], [[tenant]] and [[user]] can also be given as variables, as in
# MILLPOND_LIMITS_MAX_CONNECTIONS=100, and all settings as flags, as in --set limits.max_connections=100.
# Flags override variables, and variables override this file.
";

/// The width of a comment.
const MAX_COLUMNS: usize = 100;

/// Returns `config` as a TOML file in which each setting is preceded by its help.
///
/// # Errors
/// If it cannot be written as TOML, which never happens to a loaded one.
pub fn render(config: &Config) -> Result<String, Error> {
    let table = load::to_table(config)?;
    let mut text = HEADER.to_owned();
    for key in keys::all().filter(|key| !key.path.contains('.')) {
        setting(&mut text, key, key.path, table.get(key.path));
    }
    for section in keys::sections() {
        match table.get(section) {
            Some(Value::Array(entries)) if entries.is_empty() => example(&mut text, section)?,
            Some(Value::Array(entries)) => {
                for entry in entries {
                    let _ = write!(text, "\n[[{section}]]");
                    section_settings(&mut text, section, entry);
                }
            }
            Some(entry) => {
                let _ = write!(text, "\n[{section}]");
                section_settings(&mut text, section, entry);
            }
            None => {}
        }
    }
    Ok(text)
}

impl Key {
    /// The default, as a file has it.
    pub fn default(&self) -> String {
        written(self.path, &(self.default)())
    }
}

/// An entry of a list that has none, commented out.
fn example(text: &mut String, section: &str) -> Result<(), Error> {
    let table = load::to_table(&Config::with_examples())?;
    let Some(entry) = table.get(section).and_then(|entries| entries.get(0)) else { return Ok(()) };
    let mut settings = format!("[[{section}]]");
    section_settings(&mut settings, section, entry);
    text.push('\n');
    for line in settings.lines() {
        let mark = if line.is_empty() || line.starts_with('#') { "" } else { "# " };
        let _ = writeln!(text, "{mark}{line}");
    }
    Ok(())
}

fn section_settings(text: &mut String, section: &str, entry: &Value) {
    for key in keys::all() {
        if let Some((head, name)) = key.path.split_once('.')
            && head == section
        {
            setting(text, key, name, entry.get(name));
        }
    }
}

fn setting(text: &mut String, key: &Key, name: &str, value: Option<&Value>) {
    let Some(value) = value else { return };
    let mark = if key.online { "online" } else { "restart" };
    text.push('\n');
    comment(text, &format!("[{mark}] {} Default {}.", key.help(), key.default()));
    let _ = writeln!(text, "{name} = {}", written(name, value));
}

/// Adds a text as lines of comment.
fn comment(text: &mut String, comment: &str) {
    text.push('#');
    let mut columns = 1;
    for word in comment.split(' ') {
        let more = 1 + word.chars().count();
        if columns > 1 && columns + more > MAX_COLUMNS {
            text.push_str("\n#");
            columns = 1;
        }
        text.push(' ');
        text.push_str(word);
        columns += more;
    }
    text.push('\n');
}

/// A value as a person would write it: large sizes with their unit; secrets are left out.
fn written(path: &str, value: &Value) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    match value {
        Value::String(text) if ["password_hash", "token"].contains(&name) && !text.is_empty() => {
            format!("\"{HIDDEN}\"")
        }
        Value::String(rules) if name == "rules" => Value::String(shown_rules(rules)).to_string(),
        value => with_unit(name, value),
    }
}

/// A value as TOML, a large size as a text with its unit.
fn with_unit(path: &str, value: &Value) -> String {
    let size =
        value.as_integer().filter(|_| is_size(path)).and_then(|bytes| written_size(bytes.unsigned_abs()));
    size.map_or_else(|| value.to_string(), |size| format!("\"{size}\""))
}

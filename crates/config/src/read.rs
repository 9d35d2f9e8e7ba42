//! Reads the text of a configuration file, and finds every mistake in it rather than the first.
//!
//! Each setting is read by itself, so that one of a wrong type hides no other. The valid settings
//! are then checked as a whole; [`Mistakes`] knows the line of each setting, and so can name the
//! line of a problem that [`super::check`] finds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use base::suggest;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, LISTS};
use super::{Config, Key, ListenerConfig, PoolSettings};
use crate::error::{Error, ErrorKind};

/// All mistakes of a configuration, with the source of each setting.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    /// The name of the file.
    name: String,
    /// The line, or 0 for a mistake without one, and the mistake.
    found: Vec<(usize, String)>,
    /// The line of each setting, entry and section.
    lines: BTreeMap<String, usize>,
    /// The variable or flag by which a setting was given.
    sources: BTreeMap<String, String>,
    /// Settings, entries and sections that cannot be read; the check sees their defaults.
    unread: BTreeSet<String>,
}

impl Mistakes {
    pub(super) fn of_file(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Notes a mistake that names its place itself.
    pub(super) fn add(&mut self, problem: impl Into<String>) {
        self.found.push((0, problem.into()));
    }

    /// Notes a mistake in a line.
    fn add_at(&mut self, line: usize, problem: &str) {
        self.found.push((line, format!("{}:{line}: {problem}", self.name)));
    }

    /// Notes that a setting was given by a variable or flag.
    pub(super) fn set_source(&mut self, path: &str, source: &str) {
        self.sources.insert(path.to_owned(), source.to_owned());
    }

    /// Notes that a setting, entry or section cannot be read.
    pub(super) fn set_unread(&mut self, path: &str) {
        self.unread.insert(path.to_owned());
    }

    /// Notes that the listeners of the file are replaced by those of the command line.
    pub(super) fn replace_listeners<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let is_listener = |path: &str| path == "listener" || path.starts_with("listener.");
        self.lines.retain(|path, _| !is_listener(path));
        self.unread.retain(|path| !is_listener(path));
        for name in names {
            self.set_source(&format!("listener.{name}.address"), "--listen, --port or --redis");
        }
    }

    /// Notes a problem that begins with the name of its setting, with the line of that setting.
    pub(super) fn place(&mut self, problem: &str) {
        let path = problem.split(": ").next().unwrap_or_default();
        // Its mistake is noted already, and the default in its place was not asked for.
        let mut sections = path.match_indices('.').map(|(at, _)| path.split_at(at).0);
        let is_unread = self.unread.contains(path)
            || (!self.sources.contains_key(path) && sections.any(|section| self.unread.contains(section)));
        if is_unread {
            return;
        }
        // Two entries of one name are a problem of the later.
        let twin = path.strip_suffix(".name").and_then(|list| Some((list, problem.split('`').nth(1)?)));
        let twin = twin.map(|(list, name)| format!("{list}.{name}.name"));
        let entry = path.rsplit_once('.').map(|(entry, _)| entry);
        if let Some(source) = self.sources.get(path) {
            let problem = format!("{source}: {problem}");
            return self.found.push((0, problem));
        }
        // Or of the one that gives none.
        let twin_entry = twin.as_deref().and_then(|twin| twin.strip_suffix(".name"));
        let known = [Some(path), twin.as_deref(), twin_entry, entry].into_iter().flatten();
        match known.into_iter().find_map(|path| self.lines.get(path).copied()) {
            Some(line) => self.add_at(line, problem),
            None => self.add(problem),
        }
    }

    /// Returns whether a setting, entry or section was given whose name `is_it`.
    pub(super) fn has_place(&self, is_it: impl Fn(&str) -> bool) -> bool {
        self.lines.keys().chain(self.sources.keys()).any(|path| is_it(path))
    }

    /// All of them as one error, in the order of their lines, or nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is a mistake.
    pub(super) fn into_result(mut self) -> Result<(), Error> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(line, _)| *line);
        let problems: Vec<String> = self.found.into_iter().map(|(_, problem)| problem).collect();
        Err(Error::new(ErrorKind::Config, problems.join("\n")))
    }
}

/// Returns the configuration that `text` describes, as far as it is valid, and whether it has pools
/// of its own.
///
/// # Errors
/// If `text` is not valid TOML, with all mistakes.
pub(super) fn read(text: &str, mut mistakes: Mistakes) -> Result<(Config, Mistakes), Error> {
    let (quoted, lines) = with_quotes(text);
    let text = if lines.is_empty() { text } else { &quoted };
    for Quoted { number, what, line } in &lines {
        mistakes.add_at(*number, &format!("{what}: write {line}"));
    }
    let lines = Lines::of_text(text);
    let line_of = |span: Option<Range<usize>>| span.map_or(1, |span| lines.of(span.start));
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let line = line_of(error.span());
        mistakes.add_at(line, &format!("this is not TOML: {}", error.message().replace('\n', ", ")));
    }
    let values: toml::Table = match toml::from_str(text) {
        Ok(values) if errors.is_empty() => values,
        Ok(_) => return Err(mistakes.into_result().err().unwrap_or_else(nothing)),
        Err(error) => {
            // It is TOML, with a number that no type of ours has.
            if errors.is_empty() {
                let line = line_of(error.span());
                mistakes.add_at(line, &format!("this value cannot be used: {}", error.message().trim()));
            }
            return Err(mistakes.into_result().err().unwrap_or_else(nothing));
        }
    };
    let mut reader = Reader { lines, mistakes, good: toml::Table::new() };
    for (key, value) in document.get_ref() {
        let name: &str = key.get_ref();
        if let Some(read) = values.get(name) {
            reader.top_level(name, key.span().start, value, read);
        }
    }
    let Reader { mut mistakes, good, .. } = reader;
    let config = Config::deserialize(good).unwrap_or_else(|error| {
        mistakes.add(format!("{}: {}", mistakes.name, error.message()));
        Config::default()
    });
    Ok((config, mistakes))
}

fn nothing() -> Error {
    Error::new(ErrorKind::Config, "the configuration cannot be read")
}

struct Reader {
    lines: Lines,
    mistakes: Mistakes,
    /// The settings that can be read.
    good: toml::Table,
}

impl Reader {
    fn top_level(&mut self, name: &str, at: usize, spans: &Spanned<DeValue<'_>>, value: &toml::Value) {
        let line = self.lines.of(at);
        self.mistakes.lines.entry(name.to_owned()).or_insert(line);
        let is_setting = keys::all().any(|key| key.path == name);
        let is_section = keys::sections().any(|section| section == name);
        if is_setting {
            if self.is_good(name, line, |value| one(name, value), value) {
                self.good.insert(name.to_owned(), value.clone());
            }
            return;
        }
        if !is_section {
            return self.mistakes.add_at(line, &unknown_key(name));
        }
        match (LISTS.contains(&name), spans.get_ref(), value) {
            (true, DeValue::Array(spans), toml::Value::Array(entries)) => {
                let read =
                    entries.iter().zip(spans.iter()).map(|(entry, spans)| self.entry(name, spans, entry));
                let read = read.collect();
                self.good.insert(name.to_owned(), toml::Value::Array(read));
                return;
            }
            (false, DeValue::Table(spans), toml::Value::Table(section)) => {
                let read = self.section(name, name, spans, section, |key, value| {
                    one(name, toml::Value::Table(one(key, value)))
                });
                self.good.insert(name.to_owned(), toml::Value::Table(read));
                return;
            }
            (true, DeValue::Table(_), _) => {
                self.mistakes.add_at(
                    line,
                    &format!("there may be several of `{name}`: write [[{name}]] in place of [{name}]"),
                );
            }
            (false, DeValue::Array(_), _) => {
                self.mistakes.add_at(
                    line,
                    &format!("there is one `{name}` only: write [{name}] in place of [[{name}]]"),
                );
            }
            (is_list, ..) => {
                let section = if is_list { format!("[[{name}]]") } else { format!("[{name}]") };
                self.mistakes.add_at(
                    line,
                    &format!("`{name}` is a section: write {section} in a line, and its settings below"),
                );
            }
        }
        self.mistakes.set_unread(name);
    }

    /// Returns the valid settings of an entry of a list.
    fn entry(&mut self, list: &str, spans: &Spanned<DeValue<'_>>, value: &toml::Value) -> toml::Value {
        let (DeValue::Table(table), toml::Value::Table(settings)) = (spans.get_ref(), value) else {
            let line = self.lines.of(spans.span().start);
            self.mistakes.add_at(
                line,
                &format!("`{list}` is a list of tables: write [[{list}]], and its settings below"),
            );
            return toml::Value::Table(toml::Table::new());
        };
        let name = settings
            .get("name")
            .and_then(toml::Value::as_str)
            .map_or_else(|| usual_name(list), str::to_owned);
        let entry = format!("{list}.{name}");
        let first = table.iter().map(|(key, _)| key.span().start).min();
        let line = self.lines.of(first.unwrap_or(spans.span().start));
        self.mistakes.lines.insert(entry.clone(), line);
        let read = self.section(list, &entry, table, settings, |key, value| {
            one(list, toml::Value::Array(vec![toml::Value::Table(one(key, value))]))
        });
        toml::Value::Table(read)
    }

    /// Returns the valid settings of a section, which is called `shown`; `alone` makes a file of
    /// one of them.
    fn section(
        &mut self,
        section: &str,
        shown: &str,
        spans: &DeTable<'_>,
        settings: &toml::Table,
        alone: impl Fn(&str, toml::Value) -> toml::Table,
    ) -> toml::Table {
        let mut good = toml::Table::new();
        for (key, _) in spans {
            let name: &str = key.get_ref();
            let Some(value) = settings.get(name) else { continue };
            let line = self.lines.of(key.span().start);
            let path = format!("{shown}.{name}");
            if !keys::all().any(|key| key.path == format!("{section}.{name}")) {
                self.mistakes.add_at(line, &unknown_key(&format!("{section}.{name}")));
                continue;
            }
            self.mistakes.lines.insert(path.clone(), line);
            if self.is_good(&path, line, |value| alone(name, value), value) {
                good.insert(name.to_owned(), value.clone());
            }
        }
        good
    }

    /// Returns whether a setting can be read by itself; if not, notes the mistake.
    fn is_good(
        &mut self,
        path: &str,
        line: usize,
        alone: impl Fn(toml::Value) -> toml::Table,
        value: &toml::Value,
    ) -> bool {
        match Config::deserialize(alone(value.clone())) {
            Ok(_) => true,
            Err(error) => {
                self.mistakes.add_at(line, &format!("{path}: {}", in_words(path, error.message())));
                self.mistakes.set_unread(path);
                false
            }
        }
    }
}

/// A table with one value.
fn one(key: &str, value: impl Into<toml::Value>) -> toml::Table {
    toml::Table::from_iter([(key.to_owned(), value.into())])
}

/// The name of an entry that gives none.
fn usual_name(list: &str) -> String {
    match list {
        "listener" => ListenerConfig::default().name,
        "pool" => PoolSettings::default().name,
        _ => String::new(),
    }
}

/// The ends of a text's lines, in bytes from its start.
struct Lines(Vec<usize>);

impl Lines {
    fn of_text(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    /// The number of the line with the byte `at`.
    fn of(&self, at: usize) -> usize {
        self.0.partition_point(|end| *end < at) + 1
    }
}

/// As [`unknown_key`], for a setting that may be that of a named entry: `tenant.shop.limt`.
pub(super) fn unknown_setting(path: &str) -> String {
    let plain = keys::plain(path);
    if let Some((entry, setting)) = path.rsplit_once('.')
        && let Some((list, _)) = entry.split_once('.').filter(|_| plain != path)
        && let siblings = keys::all().filter_map(|key| key.path.strip_prefix(list)?.strip_prefix('.'))
        && let Some(near) = suggest::nearest(setting, siblings)
    {
        return format!("there is no setting `{path}`; did you mean `{entry}.{near}`?");
    }
    unknown_key(&plain)
}

/// Names that memcached and Redis have for settings, and ours.
pub(super) const FOREIGN: [(&str, &str); 12] = [
    ("aclfile", "user.rules"),
    ("bind", "listener.address"),
    ("databases", "tenant.databases"),
    ("loglevel", "log.level"),
    ("maxclients", "limits.max_connections"),
    ("maxconns", "limits.max_connections"),
    ("maxmemory", "memory"),
    ("maxmemory-policy", "pool.policy"),
    ("port", "listener.address"),
    ("requirepass", "user.password_hash"),
    ("user.password", "user.password_hash"),
    ("unixsocket", "listener.address"),
];

/// The message about a setting that does not exist, with the one that was probably meant.
pub(super) fn unknown_key(path: &str) -> String {
    let last = path.rsplit('.').next().unwrap_or(path);
    if let Some((_, known)) = FOREIGN.iter().find(|(foreign, _)| [path, last].contains(foreign)) {
        return format!("there is no setting `{path}`; did you mean `{known}`?");
    }
    let section = path.rsplit_once('.').map_or("", |(section, _)| section);
    let siblings = keys::all()
        .map(|key| key.path)
        .filter(|key| key.rsplit_once('.').map_or("", |(section, _)| section) == section);
    // Of settings of one name those of the whole server come first.
    let (of_lists, others): (Vec<&Key>, Vec<&Key>) =
        keys::all().partition(|key| keys::environment_name(key).is_none());
    let mut all = others.into_iter().chain(of_lists).map(|key| key.path);
    let nearest = suggest::nearest(path, siblings)
        .or_else(|| suggest::nearest(path, keys::sections()))
        .or_else(|| all.find(|key| key.rsplit('.').next() == Some(last)))
        .or_else(|| suggest::nearest(path, keys::all().map(|key| key.path)));
    match nearest {
        Some(known) => format!("there is no setting `{path}`; did you mean `{known}`?"),
        None => format!("there is no setting `{path}`; `millpond config print` lists them all"),
    }
}

/// A message about the type of a setting without the names of Rust's types, which says what the
/// setting can be.
pub(super) fn in_words(path: &str, message: &str) -> String {
    let words = [
        ("expected usize", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("expected a string", "expected a text in quotes"),
        ("expected a sequence", "expected a list, as in [\"a\", \"b\"]"),
        ("invalid type: string ", "it cannot be the text "),
        ("invalid type: integer ", "it cannot be the number "),
        ("invalid type: floating point ", "it cannot be the number "),
        ("invalid type: boolean ", "it cannot be "),
        ("invalid value: integer ", "it cannot be the number "),
        ("invalid type: sequence", "it cannot be a list"),
        ("invalid type: map", "it cannot be a table"),
    ];
    let (is_negative, is_integer) =
        (message.contains("integer `-"), message.contains("invalid value: integer"));
    let message =
        words.iter().fold(message.trim_end().to_owned(), |text, (rust, plain)| text.replace(rust, plain));
    let message = message.replace('\n', " ");
    let Some((problem, expected)) = message.split_once("expected ") else { return message };
    let range = match expected {
        "a whole number" if is_negative => ", 0 or more",
        "a whole number" if is_integer => ", and none that large",
        _ => "",
    };
    let can_be_auto = keys::find(path).is_some_and(|key| key.can_be_auto());
    let expected = match expected {
        _ if keys::is_size(path) => "a size, as in \"512MiB\"",
        _ if path.ends_with("address") => "an address, as in \"127.0.0.1:11212\"",
        _ if keys::plain(path) == "listener.mode" => "octal permissions in quotes, as in \"0770\"",
        "\"auto\" or a value" if path == "threads" => "a whole number",
        expected => expected,
    };
    let auto = if can_be_auto && !expected.contains("auto") { ", or \"auto\"" } else { "" };
    format!("{problem}expected {expected}{range}{auto}")
}

/// A line of a file whose value lacks quotes.
struct Quoted {
    number: usize,
    /// Why the value needs quotes.
    what: &'static str,
    /// The line as it should be.
    line: String,
}

/// Returns `text` with quotes around the texts that lack them, such as `512MiB` and `0700`, if it
/// is not valid TOML as it is; and these lines.
fn with_quotes(text: &str) -> (String, Vec<Quoted>) {
    let (mut lines, mut quoted) = (Vec::new(), String::new());
    if DeTable::parse(text).is_ok() {
        return (quoted, lines);
    }
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        match quote(line) {
            Some((what, line)) => {
                // A message may be logged, and secrets are not.
                let key = line.split(" = ").next().unwrap_or_default().trim();
                let is_secret = ["password_hash", "rules", "token"].contains(&key);
                let shown = if is_secret { format!("{key} = \"…\"") } else { line.trim().to_owned() };
                lines.push(Quoted { number, what, line: shown });
                quoted.push_str(&line);
                quoted.push('\n');
            }
            None => quoted.push_str(line),
        }
    }
    (quoted, lines)
}

/// Returns `memory = "512MiB"` for `memory = 512MiB` with the reason, if the line is not valid TOML
/// and a setting takes that text.
fn quote(line: &str) -> Option<(&'static str, String)> {
    let line = line.trim_end();
    let (key, rest) = line.split_once('=')?;
    let (name, value) = (key.trim(), rest.split('#').next().unwrap_or_default().trim());
    if value.is_empty() || value.contains(['"', '\'']) || toml::from_str::<toml::Table>(line).is_ok() {
        return None;
    }
    let mut settings = keys::all().filter(|key| key.path.rsplit('.').next() == Some(name));
    let takes_text = |path: &str| {
        let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
        let setting = one(key, value);
        let file = match section {
            "" => setting,
            list if LISTS.contains(&list) => one(list, toml::Value::Array(vec![setting.into()])),
            section => one(section, setting),
        };
        Config::deserialize(file).is_ok()
    };
    let setting = settings.find(|setting| takes_text(setting.path))?;
    let what = match setting.path {
        "listener.mode" => "permissions are a text",
        path if keys::is_size(path) => "a size with a unit is a text",
        _ => "a text stands in quotes",
    };
    Some((what, format!("{} = \"{value}\"", key.trim_end())))
}

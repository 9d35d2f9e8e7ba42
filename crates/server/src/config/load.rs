//! Reads the file and lays environment variables and flags over it.
//!
//! Every refusal names where the setting came from – file and line, variable or flag – so that it can be mended without
//! reading the whole configuration.

use std::path::{Path, PathBuf};

use base::suggest;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, KEYS};
use super::{Address, Config, ListenerConfig, check};
use crate::error::{Error, ErrorKind};

/// A single setting that goes over the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Where it came from, for error messages: `MILLPOND_MEMORY` or `--memory`.
    pub source: String,
    /// The dotted name of the setting; entries of lists by name, as in `pool.default.limit`.
    pub path: String,
    /// Its value as typed.
    pub value: String,
}

impl Override {
    /// The setting in `assignment`, which is `NAME=VALUE` as given to `--set`.
    ///
    /// # Errors
    /// Where there is no `=`.
    pub fn parse(source: &str, assignment: &str) -> Result<Self, Error> {
        let (path, value) = assignment.split_once('=').ok_or_else(|| {
            refuse(format!("{source}: `{assignment}` is no setting: write NAME=VALUE, as in memory=512MiB"))
        })?;
        Ok(Self { source: source.to_owned(), path: path.trim().to_owned(), value: value.trim().to_owned() })
    }
}

/// What goes over the file, as given on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Where to listen, in place of the listeners of the file; the first pool is served there.
    pub listen: Vec<Address>,
    /// Single settings, the later over the earlier.
    pub settings: Vec<Override>,
}

/// What [`load`] found.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The file it came from, if there was one.
    pub file: Option<PathBuf>,
    /// The configuration, checked.
    pub config: Config,
    /// What an operator should know but what does not stop the server.
    pub warnings: Vec<String>,
}

/// The configuration from `file` (or defaults without one), the process environment and `flags`, the later over the
/// earlier; checked.
///
/// # Errors
/// [`ErrorKind::Config`] where the file cannot be read, or a setting is unknown, of the wrong type or out of range.
pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Loaded, Error> {
    let text = match file {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|e| refuse(format!("the configuration file {} cannot be read: {e}", path.display())))?,
    };
    let name = file.map_or_else(String::new, |path| path.display().to_string());
    let environment: Vec<(String, String)> = std::env::vars().collect();
    let loaded = load_text(&name, &text, &environment, flags)?;
    Ok(Loaded { file: file.map(Path::to_owned), ..loaded })
}

/// As [`load`], from a text whose file is called `name`, and a given environment.
///
/// # Errors
/// As [`load`].
pub fn load_text(
    name: &str,
    text: &str,
    environment: &[(String, String)],
    flags: &Flags,
) -> Result<Loaded, Error> {
    let document = DeTable::parse(text).map_err(|e| refuse(format!("{name}: {e}")))?;
    refuse_unknown_keys(name, text, document.get_ref())?;
    let mut config =
        Config::deserialize(toml::Deserializer::parse(text).map_err(|e| refuse(format!("{name}: {e}")))?)
            .map_err(|e| refuse(format!("{name}: {e}")))?;

    let (variables, warnings) = from_environment(environment);
    if !flags.listen.is_empty() {
        config.listeners = listeners(&flags.listen, &config);
    }
    for setting in variables.iter().chain(&flags.settings) {
        config = apply(&config, setting)?;
    }
    check::check(&config)?;
    Ok(Loaded { file: None, config, warnings })
}

/// `config` with `settings` laid over it, the later over the earlier; checked.
///
/// # Errors
/// As [`load`].
pub(crate) fn lay_over(config: &Config, settings: &[Override]) -> Result<Config, Error> {
    let mut config = config.clone();
    for setting in settings {
        config = apply(&config, setting)?;
    }
    check::check(&config)?;
    Ok(config)
}

/// Listeners for the first pool, the first of them under the name that it has by default.
fn listeners(addresses: &[Address], config: &Config) -> Vec<ListenerConfig> {
    let default = ListenerConfig::default();
    let pool = config.pools.first().map_or(default.pool, |pool| pool.name.clone());
    let name =
        |number: usize| if number == 1 { default.name.clone() } else { format!("{}-{number}", default.name) };
    (1..)
        .zip(addresses)
        .map(|(number, address)| ListenerConfig {
            name: name(number),
            address: address.clone(),
            pool: pool.clone(),
            ..ListenerConfig::default()
        })
        .collect()
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::Config, message)
}

/// The first key of the file that is no setting, by line, with the nearest that is.
fn refuse_unknown_keys(name: &str, text: &str, document: &DeTable<'_>) -> Result<(), Error> {
    let mut unknown = Vec::new();
    collect_unknown("", document, &mut unknown);
    unknown.sort_by_key(|(at, _)| *at);
    let Some((at, path)) = unknown.first() else { return Ok(()) };
    let line = text.bytes().take(*at).filter(|b| *b == b'\n').count() + 1;
    Err(refuse(format!("{name}:{line}: {}", unknown_key(path))))
}

fn unknown_key(path: &str) -> String {
    let section = path.rsplit_once('.').map_or("", |(section, _)| section);
    let siblings = KEYS
        .iter()
        .map(|key| key.path)
        .filter(|key| key.rsplit_once('.').map_or("", |(section, _)| section) == section);
    let sections = ["listener", "pool", "tenant", "user", "limits", "admin", "log"];
    let last = path.rsplit('.').next().unwrap_or(path);
    // Of settings of one name those of the whole server come first.
    let (of_lists, others): (Vec<&keys::Key>, Vec<&keys::Key>) =
        KEYS.iter().partition(|key| keys::environment_name(key).is_none());
    let mut all = others.into_iter().chain(of_lists).map(|key| key.path);
    let nearest = suggest::nearest(path, siblings)
        .or_else(|| suggest::nearest(path, sections))
        .or_else(|| all.find(|key| key.rsplit('.').next() == Some(last)))
        .or_else(|| suggest::nearest(path, KEYS.iter().map(|key| key.path)));
    match nearest {
        Some(known) => format!("there is no setting `{path}`; did you mean `{known}`?"),
        None => format!("there is no setting `{path}`; `millpond config print` lists them all"),
    }
}

/// Every key below `table` that is neither a setting nor a section with settings, with its byte offset.
fn collect_unknown(prefix: &str, table: &DeTable<'_>, unknown: &mut Vec<(usize, String)>) {
    for (key, value) in table {
        let path =
            if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        if KEYS.iter().any(|known| known.path == path) {
            continue;
        }
        let section = format!("{path}.");
        if !KEYS.iter().any(|known| known.path.starts_with(&section)) {
            unknown.push((key.span().start, path));
            continue;
        }
        for inner in tables_of(value) {
            collect_unknown(&path, inner, unknown);
        }
    }
}

/// The tables that a section's value holds; none where it is of a type that deserialising will refuse.
fn tables_of<'a, 'i>(value: &'a Spanned<DeValue<'i>>) -> Vec<&'a DeTable<'i>> {
    match value.get_ref() {
        DeValue::Table(table) => vec![table],
        DeValue::Array(entries) => entries.iter().flat_map(tables_of).collect(),
        _ => Vec::new(),
    }
}

/// The settings among `environment`, and a warning for each variable that was probably meant to be one.
fn from_environment(environment: &[(String, String)]) -> (Vec<Override>, Vec<String>) {
    let names: Vec<(String, &str)> =
        KEYS.iter().filter_map(|key| Some((keys::environment_name(key)?, key.path))).collect();
    let mut settings = Vec::new();
    let mut warnings = Vec::new();
    for (variable, value) in environment.iter().filter(|(name, _)| name.starts_with("MILLPOND_")) {
        if let Some((_, path)) = names.iter().find(|(name, _)| name == variable) {
            settings.push(Override {
                source: variable.clone(),
                path: (*path).to_owned(),
                value: value.clone(),
            });
        } else if let Some(near) = names.iter().find(|(name, _)| suggest::distance(variable, name) <= 2) {
            warnings.push(format!("The variable {variable} is no setting; did you mean {}?", near.0));
        }
    }
    (settings, warnings)
}

/// `config` with one setting changed.
fn apply(config: &Config, setting: &Override) -> Result<Config, Error> {
    if keys::find(&setting.path).is_none() {
        return Err(refuse(format!("{}: {}", setting.source, unknown_key(&keys::plain(&setting.path)))));
    }
    let mut table = to_table(config)?;
    let value = read_value(&setting.value);
    let slot = slot(&mut table, &setting.path)
        .ok_or_else(|| refuse(format!("{}: there is no `{}` to set", setting.source, setting.path)))?;
    *slot = value;
    Config::deserialize(table).map_err(|e| {
        let message = e.message().to_owned();
        refuse(format!("{}: `{}` cannot be `{}`: {message}", setting.source, setting.path, setting.value))
    })
}

/// `text` as TOML where it is that, else as a string, so that `64MiB` needs no quotes on a command line.
fn read_value(text: &str) -> toml::Value {
    toml::from_str::<toml::Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

pub(super) fn to_table(config: &Config) -> Result<toml::Table, Error> {
    toml::Table::try_from(config)
        .map_err(|e| refuse(format!("the configuration cannot be written down: {e}")))
}

/// The place of the value at `path`; in a list the entry is found by its name, or is the only one.
fn slot<'a>(table: &'a mut toml::Table, path: &str) -> Option<&'a mut toml::Value> {
    let parts: Vec<&str> = path.split('.').collect();
    match parts.as_slice() {
        [key] => table.get_mut(*key),
        [section, key] => {
            let value = table.get_mut(*section)?;
            if !value.is_array() {
                return value.get_mut(*key);
            }
            let entries = value.as_array_mut().filter(|entries| entries.len() == 1)?;
            entries.first_mut()?.get_mut(*key)
        }
        [list, name @ .., key] => {
            let name = name.join(".");
            let entries = table.get_mut(*list)?.as_array_mut()?;
            let named = |entry: &&mut toml::Value| entry.get("name").and_then(|n| n.as_str()) == Some(&name);
            entries.iter_mut().find(named)?.get_mut(*key)
        }
        [] => None,
    }
}

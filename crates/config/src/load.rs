//! Reads the file and lays environment variables and flags over it.
//!
//! Every error names the source of the setting – file and line, variable or flag – so that it can
//! be mended without reading the whole configuration.

use std::path::{Path, PathBuf};

use base::suggest;
use serde::Deserialize;

use super::keys;
use super::read::{self, Mistakes};
use super::{Config, Listen, ListenerConfig, Protocol, check, files};
use crate::error::{Error, ErrorKind};

/// A single setting that overrides the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The source, for error messages: `MILLPOND_MEMORY` or `--memory`.
    pub source: String,
    /// The dotted name of the setting; entries of lists by name, as in `pool.default.limit`.
    pub path: String,
    /// Its value as typed.
    pub value: String,
}

impl Override {
    /// Parses `assignment`, which is `NAME=VALUE` as given to `--set`. As the name of an entry may
    /// contain `=`, NAME ends at the first `=` that follows the name of a known setting; if there
    /// is none, at the first `=`.
    ///
    /// # Errors
    /// If there is no `=`.
    pub fn parse(source: &str, assignment: &str) -> Result<Self, Error> {
        let is_setting = |at: &usize| keys::find(assignment.split_at(*at).0.trim()).is_some();
        let ends = || assignment.match_indices('=').map(|(at, _)| at);
        let end = ends().find(is_setting).or_else(|| ends().next());
        let (path, value) = end.map(|at| assignment.split_at(at)).ok_or_else(|| {
            refuse(format!(
                "{source}: `{assignment}` is not a setting: write NAME=VALUE, as in memory=512MiB"
            ))
        })?;
        let value = value.strip_prefix('=').unwrap_or(value).trim();
        Ok(Self { source: source.to_owned(), path: path.trim().to_owned(), value: value.to_owned() })
    }
}

/// The settings of the command line, which override the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The addresses to listen on, which replace the listeners of the file. Their clients use the
    /// first pool.
    pub listen: Vec<Listen>,
    /// Single settings, the later over the earlier.
    pub settings: Vec<Override>,
    /// Errors of `--set` arguments that are not settings, to be reported with those of the file.
    pub mistakes: Vec<String>,
}

/// The findings of a check of a configuration against the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Reasons why the configuration cannot work on this machine, each with its setting's name
    /// first.
    pub problems: Vec<String>,
    /// Warnings about settings that can work but are probably not intended.
    pub warnings: Vec<String>,
}

/// Checks whether a configuration can work on this machine: a function of the server's `preflight`,
/// or [`unsurveyed`].
pub type Survey<'s> = &'s dyn Fn(&Config) -> Findings;

/// Checks nothing: for commands that only show a configuration.
pub fn unsurveyed(_: &Config) -> Findings {
    Findings::default()
}

/// The result of [`load`].
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The file it came from, if there was one.
    pub file: Option<PathBuf>,
    /// The configuration, checked.
    pub config: Config,
    /// Warnings for the operator, which do not stop the server.
    pub warnings: Vec<String>,
    /// The settings that variables and flags give, which override the file at each reload.
    pub overrides: Vec<Override>,
}

/// Loads the configuration from `file` (if any), the process environment and `flags`. Later ones
/// override earlier ones, and all override the defaults. Checks the result, also with `survey`.
///
/// # Errors
/// [`ErrorKind::Config`] if the file cannot be read, a setting is unknown, of the wrong type or out
/// of range, or `survey` finds a problem: with all of these, each with its place.
pub fn load(file: Option<&Path>, flags: &Flags, survey: Survey<'_>) -> Result<Loaded, Error> {
    let text = match file {
        None => String::new(),
        Some(path) => files::read_text_or_pipe(path)
            .map_err(|e| refuse(format!("the configuration file {} cannot be read: {e}", path.display())))?,
    };
    let name = file.map_or_else(String::new, |path| path.display().to_string());
    let (environment, mistakes) = environment();
    let mistakes = flags.mistakes.iter().cloned().chain(mistakes).collect();
    let loaded = load_text(&name, &text, &environment, &Flags { mistakes, ..flags.clone() }, survey)?;
    Ok(Loaded { file: file.map(Path::to_owned), ..loaded })
}

/// The variables of this process that may be settings, and the fault of each that is not a text.
fn environment() -> (Vec<(String, String)>, Vec<String>) {
    let (mut texts, mut mistakes) = (Vec::new(), Vec::new());
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => texts.push((name, value)),
            (Ok(name), Err(_)) if name.starts_with(PREFIX) => {
                mistakes.push(format!("{name}: the variable's value is not UTF-8"));
            }
            _ => {}
        }
    }
    (texts, mistakes)
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
    survey: Survey<'_>,
) -> Result<Loaded, Error> {
    let (mut config, mut mistakes) = read::read(text, Mistakes::of_file(name))?;
    let (variables, misspelt) = from_environment(environment);
    misspelt.iter().chain(&flags.mistakes).for_each(|problem| mistakes.add(problem));
    if !flags.listen.is_empty() {
        config.listeners = listeners(&flags.listen, &config);
        mistakes.replace_listeners(config.listeners.iter().map(|listener| listener.name.as_str()));
    }
    for setting in variables.iter().chain(&flags.settings) {
        mistakes.set_source(&setting.path, &setting.source);
        match apply(&config, setting) {
            Ok(changed) => config = changed,
            Err(error) => {
                mistakes.add(error.to_string());
                mistakes.set_unread(&setting.path);
            }
        }
    }
    let is_set = |path: &str| path == "pool" || path.starts_with("pool.");
    if !mistakes.has_place(is_set) {
        config.remove_idle_pool();
    }
    let findings = survey(&config);
    let problems = check::problems(&config);
    // Some are found by both.
    let more = findings.problems.iter().filter(|problem| !problems.contains(problem));
    problems.iter().chain(more).for_each(|problem| mistakes.place(problem));
    mistakes.into_result()?;
    let warnings = check::warnings(&config).into_iter().chain(findings.warnings).collect();
    let overrides = variables.into_iter().chain(flags.settings.iter().cloned()).collect();
    Ok(Loaded { file: None, config, warnings, overrides })
}

/// Listeners for the first pool: `main` and `main-2`, and `redis` for Redis clients alone.
fn listeners(given: &[Listen], config: &Config) -> Vec<ListenerConfig> {
    let default = ListenerConfig::default();
    let pool = config.pools.first().map_or(default.pool, |pool| pool.name.clone());
    let mut listeners: Vec<ListenerConfig> = Vec::new();
    for Listen { address, protocol } in given {
        let usual = if *protocol == Protocol::Resp { "redis" } else { &default.name };
        let is_free = |name: &str| !listeners.iter().any(|listener| listener.name == name);
        let mut names =
            std::iter::once(usual.to_owned()).chain((2..).map(|number: usize| format!("{usual}-{number}")));
        let name = names.find(|name| is_free(name)).unwrap_or_default();
        listeners.push(ListenerConfig {
            name,
            address: address.clone(),
            pool: pool.clone(),
            protocol: *protocol,
            ..ListenerConfig::default()
        });
    }
    listeners
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::Config, message)
}

/// The beginning of the variables' names.
const PREFIX: &str = "MILLPOND_";

/// Variables that are not settings of the server, but options of the command.
const OPTIONS: [&str; 6] = [
    "MILLPOND_CONFIG",
    "MILLPOND_LISTEN",
    "MILLPOND_ADMIN",
    "MILLPOND_ADMIN_CA",
    "MILLPOND_ADMIN_CERT",
    "MILLPOND_ADMIN_KEY",
];

/// Returns the settings among `environment`, and the fault of each variable that was probably meant
/// to be one. Others are left alone: service managers and orchestrators make some of their own, as
/// `MILLPOND_SERVICE_HOST`.
fn from_environment(environment: &[(String, String)]) -> (Vec<Override>, Vec<String>) {
    let names: Vec<(String, &str)> =
        keys::all().filter_map(|key| Some((keys::environment_name(key)?, key.path))).collect();
    let mut settings = Vec::new();
    let mut misspelt = Vec::new();
    for (variable, value) in environment.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        if let Some((_, path)) = names.iter().find(|(name, _)| name == variable) {
            settings.push(Override {
                source: variable.clone(),
                path: (*path).to_owned(),
                value: value.clone(),
            });
            continue;
        }
        if OPTIONS.contains(&variable.as_str()) {
            continue;
        }
        let foreign = read::FOREIGN.iter().find(|(name, _)| is_variable_of(variable, name));
        if let Some(own) = foreign.and_then(|(_, own)| keys::environment_name(keys::find(own)?)) {
            misspelt.push(format!("{variable}: there is no such variable; did you mean {own}?"));
            continue;
        }
        let mut known = names.iter().map(|(name, _)| name.as_str()).chain(OPTIONS);
        if let Some(near) = known.find(|name| suggest::distance(variable, name) <= 2) {
            misspelt.push(format!("{variable}: there is no such variable; did you mean {near}?"));
        }
    }
    (settings, misspelt)
}

/// Returns whether a variable is called after a setting.
fn is_variable_of(variable: &str, path: &str) -> bool {
    let rest = variable.strip_prefix(PREFIX);
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(&path.replace(['.', '-'], "_")))
}

/// `config` with one setting changed.
///
/// # Errors
/// If there is no such setting, or it cannot have that value.
pub(super) fn apply(config: &Config, setting: &Override) -> Result<Config, Error> {
    if keys::find(&setting.path).is_none() {
        return Err(refuse(format!("{}: {}", setting.source, read::unknown_setting(&setting.path))));
    }
    let mut table = to_table(config)?;
    let slot = slot(&mut table, &setting.path)
        .ok_or_else(|| refuse(format!("{}: {}", setting.source, no_slot(config, &setting.path))))?;
    let text = toml::Value::String(setting.value.clone());
    *slot = read_value(&setting.value).unwrap_or_else(|| text.clone());
    let is_text = *slot == text;
    Config::deserialize(table.clone()).or_else(|error| {
        // What looks like a number may be meant as a text: `1.3`.
        let as_text = || {
            *self::slot(&mut table, &setting.path)? = text;
            Config::deserialize(table).ok()
        };
        let changed = if is_text { None } else { as_text() };
        changed.ok_or_else(|| {
            let message = read::in_words(&setting.path, error.message());
            refuse(format!("{}: `{}` cannot be `{}`: {message}", setting.source, setting.path, setting.value))
        })
    })
}

/// Returns the message for a setting of an entry that does not exist, with the entries that do.
fn no_slot(config: &Config, path: &str) -> String {
    let names: Vec<&str> = match path.split('.').next() {
        Some("listener") => config.listeners.iter().map(|it| it.name.as_str()).collect(),
        Some("pool") => config.pools.iter().map(|it| it.name.as_str()).collect(),
        Some("tenant") => config.tenants.iter().map(|it| it.name.as_str()).collect(),
        Some("user") => config.users.iter().map(|it| it.name.as_str()).collect(),
        _ => Vec::new(),
    };
    let (list, key) =
        (path.split('.').next().unwrap_or_default(), path.rsplit('.').next().unwrap_or_default());
    let entry = path.strip_prefix("pool.").and_then(|rest| rest.rsplit_once('.')).map(|(entry, _)| entry);
    if let Some(name) = entry.filter(|name| config.tenants.iter().any(|tenant| tenant.pool() == *name)) {
        return format!(
            "there is no `{path}` to set, as the pool was made for its tenant: add [[pool]] with name = \"{name}\" to the \
             file, or set `tenant.{name}.limit` or `tenant.{name}.reserve`"
        );
    }
    let full: Vec<String> = names.iter().map(|name| format!("`{list}.{name}.{key}`")).collect();
    match full.as_slice() {
        [] => format!("there is no `{path}` to set, as there is no {list}"),
        [only] => format!("there is no `{path}` to set; there is {only}"),
        several => format!("there is no `{path}` to set; there are {}", several.join(", ")),
    }
}

/// Reads `text` as TOML if it is that: `64MiB` needs no quotes on a command line.
fn read_value(text: &str) -> Option<toml::Value> {
    toml::from_str::<toml::Table>(&format!("value = {text}")).ok()?.remove("value")
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

//! The differences between two configurations, and which of them can be applied while serving.

use toml::Value;

use super::users::{HIDDEN, shown_rules};
use super::{Config, TenantSettings, keys, load};
use crate::error::Error;

/// A setting that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its dotted name, list entries by name: `pool.default.limit`.
    pub path: String,
    /// The old value as TOML, empty if there was none.
    pub old: String,
    /// The new value as TOML, empty if there is none any more.
    pub new: String,
    /// True if the change takes effect now; otherwise it does so at the next start.
    pub online: bool,
    /// True if the setting appears or disappears with an entry of a list, and its value is the
    /// default.
    pub is_default: bool,
}

/// A value in TOML as a person writes it: a size with its unit.
pub fn shown_value(path: &str, value: &str) -> String {
    let bytes = value.parse().ok().filter(|_| keys::is_size(path));
    bytes.and_then(keys::written_size).unwrap_or_else(|| value.to_owned())
}

/// Returns all settings that differ between `old` and `new`, in the order of their names.
///
/// # Errors
/// If a configuration cannot be written as TOML, which never happens to a loaded one.
pub fn between(old: &Config, new: &Config) -> Result<Vec<Change>, Error> {
    let moved = moved_tenants(old, new);
    let defaults = settings(&Config::with_examples())?;
    let old = settings(old)?;
    let new = settings(new)?;
    let mut paths: Vec<&String> = old.iter().chain(&new).map(|(path, _)| path).collect();
    paths.sort_unstable();
    paths.dedup();
    let value = |list: &[(String, String)], path: &str| {
        list.iter().find(|(name, _)| name == path).map(|(_, value)| value.clone())
    };
    Ok(paths
        .into_iter()
        .filter_map(|path| {
            let (was, is) = (value(&old, path), value(&new, path));
            if was == is {
                return None;
            }
            // A list entry that is added or removed needs a restart, whatever its settings are;
            // tenants and users are the exceptions.
            let both = was.is_some() && is.is_some();
            let online = match path.starts_with("tenant.") || path.starts_with("user.") {
                true if !both => !moved.contains(path),
                _ => both && keys::find(path).is_some_and(|key| key.online),
            };
            let plain = keys::plain(path);
            let is_default = !both
                && !path.ends_with(".name")
                && defaults.iter().any(|(name, default)| {
                    keys::plain(name) == plain
                        && [&was, &is].into_iter().flatten().all(|value| value == default)
                });
            Some(Change {
                path: path.clone(),
                old: shown(path, was),
                new: shown(path, is),
                online,
                is_default,
            })
        })
        .collect())
}

/// The settings by which tenants that are there, configured or not, would get another pool.
fn moved_tenants(old: &Config, new: &Config) -> Vec<String> {
    let present = old.all_tenants();
    let is_moved = |tenant: &&TenantSettings| {
        present.iter().any(|other| other.name == tenant.name && other.pool() != tenant.pool())
    };
    new.tenants.iter().filter(is_moved).map(|tenant| format!("tenant.{}.pool", tenant.name)).collect()
}

/// Returns whether a setting is a password, a token, or the digest of one.
fn is_secret(path: &str) -> bool {
    path.contains("password") || path == "admin.token"
}

/// A value without the secrets that are within it: the passwords among a user's rules.
fn without_secrets(path: &str, value: &str) -> String {
    let is_rules = path.starts_with("user.") && path.ends_with(".rules");
    match as_json(value).as_str().filter(|_| is_rules) {
        Some(rules) => Value::String(shown_rules(rules)).to_string(),
        None => value.to_owned(),
    }
}

/// Returns a value as it may be shown: secrets are hidden.
fn shown(path: &str, value: Option<String>) -> String {
    match value {
        Some(_) if is_secret(path) => HIDDEN.to_owned(),
        value => value.map(|value| without_secrets(path, &value)).unwrap_or_default(),
    }
}

/// `old` with those settings of `new` that change while serving.
pub fn with_online(old: &Config, new: &Config) -> Config {
    let mut merged = old.clone();
    merged.take_online(new);
    merged.limits.take_online(&new.limits);
    merged.admin.take_online(&new.admin);
    merged.watch.take_online(&new.watch);
    merged.control.take_online(&new.control);
    merged.monitor.take_online(&new.monitor);
    merged.telemetry.take_online(&new.telemetry);
    merged.log.take_online(&new.log);
    for listener in &mut merged.listeners {
        if let Some(changed) = new.listeners.iter().find(|other| other.name == listener.name) {
            listener.take_online(changed);
        }
    }
    for pool in &mut merged.pools {
        if let Some(changed) = new.pools.iter().find(|other| other.name == pool.name) {
            pool.take_online(changed);
        }
    }
    merged.users = new.users.clone();
    merged.tenants.clone_from(&new.tenants);
    let present = old.all_tenants();
    for tenant in &mut merged.tenants {
        // The place of the items stays for as long as the tenant does.
        if let Some(present) = present.iter().find(|other| other.name == tenant.name) {
            let changed = std::mem::replace(tenant, present.clone());
            tenant.take_online(&changed);
        }
    }
    merged
}

/// All settings with their values as TOML, list entries by name; secrets are hidden.
///
/// # Errors
/// As [`between`].
pub fn shown_settings(config: &Config) -> Result<Vec<(String, String)>, Error> {
    let settings = settings(config)?;
    Ok(settings.into_iter().map(|(path, value)| (path.clone(), shown(&path, Some(value)))).collect())
}

/// All settings with their values as TOML, list entries by name.
///
/// # Errors
/// As [`between`].
pub(crate) fn settings(config: &Config) -> Result<Vec<(String, String)>, Error> {
    Ok(flatten(&load::to_table(config)?))
}

/// Returns all settings as JSON by name, without the secrets.
///
/// # Errors
/// As [`between`].
pub fn settings_as_json(config: &Config) -> Result<serde_json::Map<String, serde_json::Value>, Error> {
    let shown = settings(config)?.into_iter().filter(|(path, _)| !is_secret(path));
    Ok(shown.map(|(path, value)| (path.clone(), as_json(&without_secrets(&path, &value)))).collect())
}

/// A value in TOML as JSON.
pub fn as_json(value: &str) -> serde_json::Value {
    toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .and_then(|value| serde_json::to_value(value).ok())
        .unwrap_or_default()
}

fn flatten(table: &toml::Table) -> Vec<(String, String)> {
    let mut flat = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(section) => {
                flat.extend(section.iter().map(|(name, value)| (format!("{key}.{name}"), value.to_string())));
            }
            Value::Array(entries) => {
                for entry in entries.iter().filter_map(Value::as_table) {
                    let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
                    flat.extend(
                        entry.iter().map(|(k, value)| (format!("{key}.{name}.{k}"), value.to_string())),
                    );
                }
            }
            value => flat.push((key.clone(), value.to_string())),
        }
    }
    flat
}

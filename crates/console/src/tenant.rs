//! `millpond tenant list`, `show`, `set` and `remove`: the tenants of a running server.

use std::fmt::Write as _;

use base::ByteSize;
use clap::{Args, Subcommand};
use config::TenantSettings;
use serde_json::{Map, Value};

use crate::admin::{AdminArguments, assignments, changes, written};

/// `millpond tenant`.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Show all tenants of a running server, and the usage of each.
    List(ListArguments),
    /// Show the settings and figures of a tenant.
    Show(ShowArguments),
    /// Change settings of a tenant, which is made if there is none of that name.
    Set(SetArguments),
    /// Remove a tenant with all that it has stored; its connections are closed.
    Remove(RemoveArguments),
}

/// The tenants to list.
#[derive(Debug, Args)]
pub struct ListArguments {
    #[command(flatten)]
    admin: AdminArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The tenant to show.
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// The tenant.
    name: String,
    #[command(flatten)]
    list: ListArguments,
}

/// The tenant to change, and its settings.
#[derive(Debug, Args)]
pub struct SetArguments {
    #[command(flatten)]
    tenant: RemoveArguments,
    /// Settings of `[[tenant]]`, as in limit=512MiB databases=1,2; all of them are changed or none.
    #[arg(value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

/// The tenant to change or remove.
#[derive(Debug, Args)]
pub struct RemoveArguments {
    #[command(flatten)]
    admin: AdminArguments,
    /// Write the change into the server's configuration file too.
    #[arg(long)]
    write: bool,
    /// The tenant.
    #[arg(value_name = "TENANT")]
    name: String,
}

impl TenantCommand {
    /// Carries it out, and returns the text for the terminal.
    ///
    /// # Errors
    /// The mistakes in the settings, or why the server refuses.
    pub fn execute(&self) -> Result<String, String> {
        match self {
            Self::List(arguments) => arguments.list(),
            Self::Show(arguments) => arguments.show(),
            Self::Set(arguments) => arguments.set(),
            Self::Remove(arguments) => arguments.remove(),
        }
    }
}

impl ListArguments {
    /// Fetches `path` from the admin server and returns it as JSON, or as `table` shows it.
    fn get(&self, path: &str, table: impl FnOnce(&Value) -> String) -> Result<String, String> {
        let text = self.admin.ask(path, |agent, url| agent.get(url).call())?;
        if self.json {
            return Ok(format!("{text}\n"));
        }
        let value = serde_json::from_str(&text).map_err(|error| format!("{path}: no JSON came: {error}"))?;
        Ok(table(&value))
    }

    fn list(&self) -> Result<String, String> {
        self.get("/tenants", |tenants| {
            let head =
                ["TENANT", "POOL", "ITEMS", "MEMORY", "LIMIT", "HIT RATIO", "CONNECTIONS", "THROTTLED"];
            let mut rows = vec![head.map(str::to_owned)];
            rows.extend(tenants.as_array().into_iter().flatten().map(row));
            aligned(&rows)
        })
    }
}

impl ShowArguments {
    fn show(&self) -> Result<String, String> {
        self.list.get(&address(&self.name, false), |tenant| {
            let mut text = format!("{} in pool {}\n", field(tenant, "name"), field(tenant, "pool"));
            if tenant.get("settings").is_none_or(Value::is_null) {
                text.push_str("It has no [[tenant]]; it exists because a listener names its pool.\n");
            }
            for part in ["settings", "figures"] {
                let Some(values) = tenant.get(part).and_then(Value::as_object) else { continue };
                let _ = writeln!(text, "\n[{part}]");
                for (name, value) in values.iter().filter(|(name, _)| *name != "name") {
                    let shown = written(name, value).unwrap_or_else(|| value.to_string());
                    let _ = writeln!(text, "{name} = {shown}{}", in_units(name, value));
                }
            }
            text
        })
    }
}

impl SetArguments {
    fn set(&self) -> Result<String, String> {
        let wanted = assignments(&self.settings)?;
        let wanted: Map<String, Value> =
            wanted.into_iter().map(|(name, text)| (name.clone(), value(&name, text))).collect();
        let body = Value::Object(wanted).to_string();
        self.tenant.change(|agent, url| agent.put(url).content_type("application/json").send(&body))
    }
}

impl RemoveArguments {
    fn remove(&self) -> Result<String, String> {
        self.change(|agent, url| agent.delete(url).call())
    }

    fn change(
        &self,
        call: impl FnOnce(&ureq::Agent, &str) -> Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<String, String> {
        let mut shown = changes(&self.admin.ask(&address(&self.name, self.write), call)?)?;
        if self.write {
            shown.push_str("Written into the server's configuration file.\n");
        }
        Ok(shown)
    }
}

/// Returns the admin server's path of the tenant. Names may contain bytes that are special in
/// addresses.
fn address(name: &str, write: bool) -> String {
    let mut path = "/tenants/".to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => path.push(char::from(byte)),
            _ => {
                let _ = write!(path, "%{byte:02X}");
            }
        }
    }
    path + if write { "?write=true" } else { "" }
}

/// A setting's value as JSON; that of a list may be written without brackets.
fn value(name: &str, text: Value) -> Value {
    let defaults = serde_json::to_value(TenantSettings::default()).unwrap_or_default();
    match (defaults.get(name), text.as_str()) {
        (Some(Value::Array(_)), Some(text)) if !text.starts_with('[') => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            // A prefix may look like a number.
            let number = |part: &str| part.parse::<u64>().ok().filter(|_| name == "databases");
            Value::Array(parts.map(|part| number(part).map_or_else(|| part.into(), u64::into)).collect())
        }
        _ => text,
    }
}

/// Returns a figure in bytes with its unit, as a comment; nothing if the value has the unit, and
/// for other figures.
fn in_units(name: &str, value: &Value) -> String {
    match value.as_u64().filter(|_| name.ends_with("_bytes")) {
        Some(bytes) if written(name, value).is_none() => format!("  # {}", ByteSize::new(bytes)),
        _ => String::new(),
    }
}

fn row(tenant: &Value) -> [String; 8] {
    let figure =
        |name: &str| tenant.pointer(&format!("/figures/{name}")).and_then(Value::as_u64).unwrap_or(0);
    let (hits, reads) = (figure("hits"), figure("hits") + figure("misses"));
    [
        field(tenant, "name"),
        field(tenant, "pool"),
        figure("items").to_string(),
        ByteSize::new(figure("memory_bytes")).to_string(),
        match figure("limit_bytes") {
            0 => "-".to_owned(),
            limit => ByteSize::new(limit).to_string(),
        },
        if reads == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * hits as f64 / reads as f64) },
        figure("connections").to_string(),
        figure("throttled").to_string(),
    ]
}

fn field(tenant: &Value, name: &str) -> String {
    tenant.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Formats columns as wide as their contents; texts to the left, figures to the right.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, width))| match at {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_lists_are_written_as_the_server_reads_them() {
        assert_eq!(address("shop", false), "/tenants/shop");
        assert_eq!(address("a b?%", true), "/tenants/a%20b%3F%25?write=true");
        assert_eq!(value("databases", "1, 2".into()).to_string(), "[1,2]");
        assert_eq!(value("databases", "[3]".into()), "[3]");
        assert_eq!(value("databases", "".into()).to_string(), "[]");
        assert_eq!(value("limit", "8MiB".into()), "8MiB");
    }

    #[test]
    fn figures_in_bytes_have_their_unit() {
        assert_eq!(in_units("memory_bytes", &3_670_017.into()), "  # 3.5MiB");
        assert_eq!(in_units("memory_bytes", &3_670_016.into()), "", "the value says it");
        assert_eq!(in_units("items", &3_670_016.into()), "");
        assert_eq!(in_units("limit_bytes", &Value::Null), "");
    }

    #[test]
    fn a_table_is_as_wide_as_what_is_in_it() {
        let rows =
            [["A", "B", "N"], ["one", "b", "12345"], ["é", "b", "1"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "A    B      N\none  b  12345\né    b      1\n");
    }
}

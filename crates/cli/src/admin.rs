//! Commands that ask a running server by its admin API: `millpond health`, `millpond config get`, `set` and `diff`.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};

use crate::serve::ServeArguments;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which server is asked.
#[derive(Debug, Args)]
pub(crate) struct AdminArguments {
    /// Its admin server.
    #[arg(long, value_name = "URL", env = "MILLPOND_ADMIN", default_value = "http://127.0.0.1:11212")]
    admin: String,
}

/// Settings to change.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    #[command(flatten)]
    admin: AdminArguments,
    /// Write them into the server's configuration file too.
    #[arg(long)]
    write: bool,
    /// Settings, as in limits.max_connections=100; all of them are changed or none.
    #[arg(required = true, value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

/// What to compare.
#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    #[command(flatten)]
    admin: AdminArguments,
    #[command(flatten)]
    arguments: ServeArguments,
}

impl AdminArguments {
    /// `millpond health`: whether the server serves.
    pub(crate) fn health(&self) -> Result<String, String> {
        self.page("/healthz")
    }

    /// `millpond config get`: the settings whose names have `part` in them.
    pub(crate) fn get(&self, part: &str) -> Result<String, String> {
        let settings = self.settings()?;
        let mut text = String::new();
        for (name, setting) in settings.iter().filter(|(name, _)| name.contains(part)) {
            let when = if setting.get("online") == Some(&Value::Bool(true)) { "online" } else { "restart" };
            let _ = writeln!(text, "{name} = {}  # {when}", setting.get("value").unwrap_or(&Value::Null));
        }
        if text.is_empty() { Err(format!("no setting's name has `{part}` in it")) } else { Ok(text) }
    }

    /// The admin server's address.
    pub(crate) fn address(&self) -> &str {
        &self.admin
    }

    /// A page of the admin server.
    pub(crate) fn page(&self, path: &str) -> Result<String, String> {
        self.ask(path, |agent, url| agent.get(url).call())
    }

    fn settings(&self) -> Result<Map<String, Value>, String> {
        let text = self.page("/config")?;
        serde_json::from_str(&text)
            .map_err(|error| format!("{}/config: no settings came: {error}", self.admin))
    }

    /// Asks, and returns what came, or why it was refused.
    pub(crate) fn ask(
        &self,
        path: &str,
        call: impl FnOnce(&ureq::Agent, &str) -> Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<String, String> {
        let url = format!("{}{path}", self.admin.trim_end_matches('/'));
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        let cannot = |error: ureq::Error| {
            format!("{url}: {error}; is the server running, and is --admin its admin.address?")
        };
        let mut answer = call(&config.build().new_agent(), &url).map_err(cannot)?;
        let text = answer.body_mut().read_to_string().map_err(cannot)?;
        if answer.status().is_success() { Ok(text) } else { Err(text.trim_end().to_owned()) }
    }
}

impl SetArguments {
    /// `millpond config set`.
    pub(crate) fn set(&self) -> Result<String, String> {
        let body = Value::Object(assignments(&self.settings)?).to_string();
        let put =
            |agent: &ureq::Agent, url: &str| agent.put(url).content_type("application/json").send(&body);
        let mut shown = changes(&self.admin.ask("/config", put)?)?;
        if self.write {
            self.admin.ask("/config/rewrite", |agent, url| agent.post(url).send_empty())?;
            shown.push_str("Written into the server's configuration file.\n");
        }
        Ok(shown)
    }
}

/// What is in words such as `memory=512MiB`.
pub(crate) fn assignments(settings: &[String]) -> Result<Map<String, Value>, String> {
    let mut wanted = Map::new();
    for setting in settings {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| format!("`{setting}` is no setting: write NAME=VALUE, as in memory=512MiB"))?;
        wanted.insert(name.trim().to_owned(), Value::String(value.trim().to_owned()));
    }
    Ok(wanted)
}

/// Shows the changes that the server told of.
pub(crate) fn changes(answer: &str) -> Result<String, String> {
    let changes: Vec<Value> = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    let mut shown = String::new();
    let field = |change: &Value, name: &str| match change.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(value) => value.to_string(),
    };
    for change in &changes {
        let name = change.get("setting").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(shown, "{name}: {} -> {}", field(change, "old"), field(change, "new"));
    }
    if changes.is_empty() {
        shown.push_str("Nothing has changed.\n");
    }
    Ok(shown)
}

impl DiffArguments {
    /// `millpond config diff`: what a server would change if it were started, or told by SIGHUP to read, with these arguments.
    pub(crate) fn diff(&self) -> Result<String, String> {
        let loaded = self.arguments.load().map_err(|error| error.to_string())?;
        let file =
            server::config::change::settings_as_json(&loaded.config).map_err(|error| error.to_string())?;
        let running = self.admin.settings()?;
        let mut names: Vec<&String> = file.keys().chain(running.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let mut text = String::new();
        for name in names {
            let is = running.get(name).and_then(|setting| setting.get("value"));
            let would_be = file.get(name);
            if is != would_be {
                let shown = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), Value::to_string);
                let _ = writeln!(text, "{name}: {} -> {}", shown(is), shown(would_be));
            }
        }
        Ok(if text.is_empty() { "There is no difference.\n".to_owned() } else { text })
    }
}

//! Commands that ask a running server by its admin API: `millpond health`, `millpond config get`,
//! `set` and `diff`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use config::keys;
use config::load::unsurveyed;
use serde_json::{Map, Value};

use crate::admin_tls;
use crate::flags::ServeArguments;

/// Longest time in which the server must answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address and credentials for the admin server.
#[derive(Debug, Args)]
pub struct AdminArguments {
    /// The address of the server's admin page, which it prints when it starts (admin.address);
    /// http:// may be left out.
    #[arg(long, value_name = "URL", env = "MILLPOND_ADMIN", default_value = "http://127.0.0.1:11212", value_parser = url)]
    admin: String,
    /// The token that the server requires (admin.token); better in the variable, as others see a
    /// command's arguments.
    #[arg(long, value_name = "TOKEN", env = "MILLPOND_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// For https://: the file with the roots of the server's certificate, in PEM. Default: those
    /// that the system trusts.
    #[arg(long, value_name = "FILE", env = "MILLPOND_ADMIN_CA")]
    ca: Option<PathBuf>,
    /// For https://: the file with the certificate that is shown to the server, in PEM.
    #[arg(long, value_name = "FILE", env = "MILLPOND_ADMIN_CERT", requires = "key")]
    cert: Option<PathBuf>,
    /// The file with the certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", env = "MILLPOND_ADMIN_KEY", requires = "cert")]
    key: Option<PathBuf>,
    #[arg(skip)]
    asked: Asked,
}

/// The program that is asked, by which errors name flags and variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A server.
    #[default]
    Server,
    /// An orchestrator.
    Orchestrator,
}

/// Parses an address of an admin server, with or without a scheme.
pub(crate) fn url(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some(("http" | "https", _)) => Ok(text.to_owned()),
        Some((scheme, _)) => Err(format!(
            "`{scheme}://` is not what an admin server speaks: write http://IP:PORT or https://IP:PORT"
        )),
        None => Ok(format!("http://{text}")),
    }
}

/// Settings to change.
#[derive(Debug, Args)]
pub struct SetArguments {
    #[command(flatten)]
    admin: AdminArguments,
    /// Write them into the server's configuration file too.
    #[arg(long)]
    write: bool,
    /// Settings, as in limits.max_connections=100; all of them are changed or none.
    #[arg(required = true, value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

/// A configuration to compare with that of a server.
#[derive(Debug, Args)]
pub struct DiffArguments {
    #[command(flatten)]
    admin: AdminArguments,
    #[command(flatten)]
    arguments: ServeArguments,
}

impl AdminArguments {
    /// Those of a command that asks an orchestrator.
    pub(crate) fn of_orchestrator(address: String, token: Option<String>) -> Self {
        Self { admin: address, token, ca: None, cert: None, key: None, asked: Asked::Orchestrator }
    }

    /// `millpond health`: whether the server serves.
    ///
    /// # Errors
    /// That it does not, or why it cannot be asked.
    pub fn health(&self) -> Result<String, String> {
        self.page("/healthz")
    }

    /// `millpond config get`: the settings whose names have `part` in them.
    ///
    /// # Errors
    /// If there are none, or why the server cannot be asked.
    pub fn get(&self, part: &str) -> Result<String, String> {
        let settings = self.settings()?;
        let mut text = String::new();
        for (name, setting) in settings.iter().filter(|(name, _)| name.contains(part)) {
            let when = if setting.get("online") == Some(&Value::Bool(true)) { "online" } else { "restart" };
            let value = setting.get("value").unwrap_or(&Value::Null);
            let value = written(name, value).map_or_else(|| value.to_string(), |size| format!("\"{size}\""));
            let _ = writeln!(text, "{name} = {value}  # {when}");
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

    /// Sends a request, and returns the answer or why it was refused.
    pub(crate) fn ask(
        &self,
        path: &str,
        call: impl FnOnce(&ureq::Agent, &str) -> Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<String, String> {
        let url = format!("{}{path}", self.admin.trim_end_matches('/'));
        let mut config =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        if url.starts_with("https://") {
            let client = self.cert.as_deref().zip(self.key.as_deref());
            config = config.tls_config(admin_tls::config(self.ca.as_deref(), client)?);
        }
        let token = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let agent = config.middleware(Show(token)).build().new_agent();
        let cannot = |error: ureq::Error| format!("{url}: {error}; {}", advice(self.asked, &url, &error));
        let mut answer = call(&agent, &url).map_err(cannot)?;
        for warning in answer.headers().get_all("millpond-warning") {
            eprintln!("millpond: warning: {}", String::from_utf8_lossy(warning.as_bytes()));
        }
        let text = answer.body_mut().read_to_string().map_err(cannot)?;
        match answer.status().as_u16() {
            200..300 => Ok(text),
            401 if self.token.is_some() => Err(format!("{url}: the token that was shown is not its token")),
            401 => {
                let variable = self.asked.token();
                Err(format!("{url}: {}; set {variable}", text.trim_end()))
            }
            404 if self.asked == Asked::Orchestrator && text.contains("there is no page") => {
                Err(format!("{url}: this is not an orchestrator, but a server; {ORCHESTRATOR}"))
            }
            _ if text.trim().is_empty() => {
                Err(format!("{url}: the admin server answered {}", answer.status()))
            }
            // Several mistakes are a line each.
            _ => Err(text.trim_end().replace('\n', "\nmillpond: ")),
        }
    }
}

const ORCHESTRATOR: &str = "--orchestrator is the --admin address of `millpond orchestrate` (port 11221), and not the one \
     where agents register (11220)";

impl Asked {
    /// The variable with the token.
    fn token(self) -> &'static str {
        match self {
            Self::Server => "MILLPOND_ADMIN_TOKEN",
            Self::Orchestrator => "MILLPOND_FLEET_TOKEN",
        }
    }
}

/// Returns advice on a connection's error.
fn advice(asked: Asked, url: &str, error: &ureq::Error) -> &'static str {
    let text = error.to_string();
    if asked == Asked::Orchestrator {
        return match error {
            ureq::Error::Timeout(_) => "the orchestrator does not answer: is it stopped, or very busy?",
            _ if text.contains("InvalidContentType") => {
                "it does not speak TLS there: write http:// in --orchestrator"
            }
            ureq::Error::Protocol(_) => ORCHESTRATOR,
            _ => "is the orchestrator running, and is --orchestrator its --admin address?",
        };
    }
    let known = [
        ("UnknownIssuer", "--ca names the file with the root that has signed the admin server's certificate"),
        (
            "CaUsedAsEndEntity",
            "its certificate is a root itself, which no client takes from a server: sign one with it (docs/tls.md)",
        ),
        ("NotValidForName", "its certificate is for other names: use one of them in --admin"),
        ("Expired", "its certificate has expired: it needs another one"),
        ("CertificateRequired", "the server requires a client certificate: set --cert and --key"),
        ("HandshakeFailure", "does it ask for a certificate? One is given by --cert and --key"),
        ("UnknownCA", "it does not know who has signed the certificate of --cert (admin.tls_client_ca)"),
        ("InvalidContentType", "it does not speak TLS there: write http:// in --admin"),
    ];
    if let Some((_, advice)) = known.into_iter().find(|(word, _)| text.contains(word)) {
        return advice;
    }
    match error {
        ureq::Error::Protocol(_) if url.starts_with("http://") => {
            "this is not an admin server, or it expects TLS: --admin is its admin.address, with https:// if it has a certificate"
        }
        ureq::Error::Protocol(_) => "this is not an admin server: --admin is its admin.address",
        ureq::Error::Timeout(_) => "the server does not answer: is it stopped, or very busy?",
        _ => "is the server running, and is --admin its admin.address?",
    }
}

/// Shows the server a token with every request, if there is one.
struct Show(Option<String>);

impl ureq::middleware::Middleware for Show {
    fn handle(
        &self,
        mut request: ureq::http::Request<ureq::SendBody<'_>>,
        next: ureq::middleware::MiddlewareNext<'_>,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        if let Some(token) = self.0.as_ref().and_then(|token| ureq::http::HeaderValue::from_str(token).ok()) {
            request.headers_mut().insert(ureq::http::header::AUTHORIZATION, token);
        }
        next.handle(request)
    }
}

impl SetArguments {
    /// `millpond config set`: returns the changes.
    ///
    /// # Errors
    /// The mistakes in the settings, or why the server refuses them.
    pub fn set(&self) -> Result<String, String> {
        let body = Value::Object(assignments(&self.settings)?).to_string();
        let put =
            |agent: &ureq::Agent, url: &str| agent.put(url).content_type("application/json").send(&body);
        let path = if self.write { "/config?write=true" } else { "/config" };
        let mut shown = changes(&self.admin.ask(path, put)?)?;
        if self.write {
            shown.push_str("Written into the server's configuration file.\n");
        }
        Ok(shown)
    }
}

/// Parses words such as `memory=512MiB`.
pub(crate) fn assignments(settings: &[String]) -> Result<Map<String, Value>, String> {
    let (mut wanted, mut mistakes) = (Map::new(), Vec::new());
    for setting in settings {
        match setting.split_once('=') {
            Some((name, value)) => {
                wanted.insert(name.trim().to_owned(), Value::String(value.trim().to_owned()));
            }
            None => {
                mistakes.push(format!("`{setting}` is not a setting: write NAME=VALUE, as in memory=512MiB"));
            }
        }
    }
    if mistakes.is_empty() { Ok(wanted) } else { Err(mistakes.join("\n")) }
}

/// A size as a person writes it, if the setting is one.
pub(crate) fn written(name: &str, value: &Value) -> Option<String> {
    value.as_u64().filter(|_| keys::is_size(name)).and_then(keys::written_size)
}

/// A value, or that there is none.
fn shown_value(name: &str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(value) => written(name, value).unwrap_or_else(|| value.to_string()),
    }
}

/// Shows the changes that the server reported.
pub(crate) fn changes(answer: &str) -> Result<String, String> {
    let changes: Vec<Value> = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    let mut shown = String::new();
    for change in &changes {
        let name = change.get("setting").and_then(Value::as_str).unwrap_or_default();
        let field = |which: &str| shown_value(name, change.get(which));
        let _ = writeln!(shown, "{name}: {} -> {}", field("old"), field("new"));
    }
    if changes.is_empty() {
        shown.push_str("Nothing has changed.\n");
    }
    Ok(shown)
}

impl DiffArguments {
    /// `millpond config diff`: the changes that a server would make if it were started with these
    /// arguments, or reloaded them on SIGHUP.
    ///
    /// # Errors
    /// The mistakes in the configuration, or why the server cannot be asked.
    pub fn diff(&self) -> Result<String, String> {
        let loaded = self.arguments.load(&unsurveyed).map_err(|error| error.to_string())?;
        let file = config::change::settings_as_json(&loaded.config).map_err(|error| error.to_string())?;
        let running = self.admin.settings()?;
        let mut names: Vec<&String> = file.keys().chain(running.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let mut text = String::new();
        for name in names {
            let is = running.get(name).and_then(|setting| setting.get("value"));
            let would_be = file.get(name);
            if is != would_be {
                let _ =
                    writeln!(text, "{name}: {} -> {}", shown_value(name, is), shown_value(name, would_be));
            }
        }
        Ok(if text.is_empty() { "There is no difference.\n".to_owned() } else { text })
    }
}

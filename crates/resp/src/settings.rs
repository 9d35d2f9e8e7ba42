//! `CONFIG` and `SLOWLOG`: settings by Redis's names and by our own, and slow requests.

use config::change;
use config::edit::lay_over;
use config::load::Override;
use protocol::resp::number;

use super::arguments::{arg, subcommand};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use frontend::instance::Instance as _;
use frontend::peer::Peer;
use frontend::slow::Slow;
use protocol::resp::glob::matches;

/// Redis's names of settings, and ours. `{listener}` is the listener of who asks.
const ALIASES: &[(&str, &str)] = &[
    ("maxclients", "limits.max_connections"),
    ("maxmemory", "memory"),
    ("proto-max-bulk-len", "limits.max_item_bytes"),
    ("timeout", "limits.idle_timeout_secs"),
    ("slowlog-log-slower-than", "watch.slow_log_micros"),
    ("slowlog-max-len", "watch.slow_log_entries"),
    ("latency-monitor-threshold", "watch.latency_monitor_millis"),
    ("tls-cert-file", "listener.{listener}.tls_certificate"),
    ("tls-key-file", "listener.{listener}.tls_key"),
    ("tls-ca-cert-file", "listener.{listener}.tls_client_ca"),
];

/// The answer to a change of settings if several tenants share the server.
const SHARED: &str = "ERR several tenants share the server: its settings are the operator's to change, by SIGHUP or the admin API";

/// The settings that no client may change: files that the server writes to, an address that it
/// sends to, and the authentication of operators.
const PROTECTED: [&str; 11] = [
    "watch.trace_file",
    "watch.request_log",
    "telemetry.otlp_endpoint",
    "admin.hosts",
    "admin.token",
    "admin.tokens_file",
    "admin.tls_certificate",
    "admin.tls_key",
    "admin.tls_client_ca",
    "admin.tls_client_auth",
    "admin.tls_min_version",
];

impl<'c> Commands<'_, 'c> {
    /// Our name of the setting that Redis calls `name`.
    fn own_name(&self, name: &str) -> Option<String> {
        let (_, own) = ALIASES.iter().find(|(alias, _)| *alias == name)?;
        Some(own.replace("{listener}", &self.info.listener.name))
    }

    /// All settings by our names, without what is secret, and by Redis's where it has one.
    pub(super) fn all_settings(&self) -> Vec<(String, String)> {
        let plain = |value: &str| {
            let text = toml_text(value);
            text.unwrap_or_else(|| value.to_owned())
        };
        let own = change::shown_settings(&self.shared.config()).unwrap_or_default();
        let mut all: Vec<(String, String)> = own
            .into_iter()
            .filter(|(path, _)| !path.contains("password"))
            .map(|(path, value)| (path, plain(&value)))
            .collect();
        for (alias, _) in ALIASES {
            let value = self
                .own_name(alias)
                .and_then(|own| all.iter().find(|(path, _)| *path == own).map(|(_, value)| value.clone()));
            // If the server chooses the value, the reply is the chosen value.
            let value = match *alias {
                "maxmemory" => {
                    let pools = self.shared.pools_seen_by(&self.account.tenant);
                    Some(self.shared.memory_limit_seen(&pools).to_string())
                }
                _ => value,
            };
            all.extend(value.map(|value| ((*alias).to_owned(), value)));
        }
        // Where several tenants share the server, its own settings tell each of the others.
        if self.shared.has_several_tenants() {
            all.retain(|(name, _)| {
                ALIASES.iter().any(|(alias, _)| alias == name) && !name.starts_with("tls-")
            });
        }
        all
    }

    /// Refuses in these words what concerns everybody where several tenants share the server.
    pub(super) fn check_alone(&self, refusal: &'static str) -> Outcome {
        if self.shared.has_several_tenants() { Err(Failure::new(refusal)) } else { Ok(()) }
    }

    pub(super) fn config_set(&mut self, pairs: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
            return Err(Failure::wrong_number("config|set"));
        }
        self.check_alone(SHARED)?;
        let mut settings: Vec<Override> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let fixed = self.settings_shown();
        for pair in pairs.chunks_exact(2) {
            let name = String::from_utf8_lossy(arg(pair, 0)).to_ascii_lowercase();
            let value = String::from_utf8_lossy(arg(pair, 1)).into_owned();
            let failed = |why: &str| {
                let text = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
                Failure::from_text(text)
            };
            if let Some((_, now)) = fixed.iter().find(|(fixed, _)| *fixed == name) {
                if *now == value {
                    continue;
                }
                return Err(failed("can't set immutable config"));
            }
            if PROTECTED.contains(&name.as_str()) {
                return Err(failed("can't set protected config"));
            }
            let path = self.own_name(&name).unwrap_or_else(|| name.clone());
            if config::keys::find(&path).is_none() {
                let names = config::keys::all().map(|key| key.path);
                let known = names.chain(ALIASES.iter().map(|(alias, _)| *alias));
                let near = base::suggest::nearest(&name, known);
                let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
                let text =
                    format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'{near}");
                return Err(Failure::from_text(text));
            }
            if settings.iter().any(|setting| setting.path == path) {
                return Err(failed("duplicate parameter"));
            }
            let value = if name == "maxmemory" { in_our_units(&value) } else { value };
            names.push(name);
            settings.push(Override { source: "CONFIG SET".to_owned(), path, value });
        }
        if settings.is_empty() {
            w.ok();
            return Ok(());
        }
        let by = format!("CONFIG SET by {}", self.info.peer);
        self.shared.change(&by, &|old| lay_over(old, &settings)).map_err(|error| {
            let why = error.to_string().replace(['\r', '\n'], "; ");
            let is_named = |setting: &Override| why.contains(&setting.path);
            let at = settings.iter().position(is_named).unwrap_or(0);
            let name = names.get(at).map_or("", String::as_str);
            Failure::from_text(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
            ))
        })?;
        w.ok();
        Ok(())
    }

    pub(super) fn config_rewrite(&mut self, w: &mut Writer<'_, 'c>) -> Outcome {
        self.check_alone(SHARED)?;
        self.shared.write(None).map_err(|error| {
            Failure::from_text(format!("ERR {}", error.to_string().replace(['\r', '\n'], "; ")))
        })?;
        w.ok();
        Ok(())
    }

    pub(super) fn slowlog(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let log = &self.shared.slow_log;
        let tenant = &self.account.tenant.name;
        match subcommand(args) {
            "len" => w.integer(log.len(tenant) as i64),
            "reset" => {
                log.clear(tenant, self.shared.cache.ledger());
                w.ok();
            }
            "get" => {
                if args.len() > 3 {
                    return Err(Failure::new(
                        "ERR unknown subcommand or wrong number of arguments for 'get'. Try SLOWLOG HELP.",
                    ));
                }
                let most = match args.get(2).map(|count| number(count)) {
                    None => 10,
                    Some(Some(-1)) => usize::MAX,
                    Some(count) => count
                        .and_then(|count| usize::try_from(count).ok())
                        .ok_or(Failure::new("ERR count should be greater than or equal to -1"))?,
                };
                let entries = log.latest(tenant, most);
                w.array(entries.len());
                entries.iter().for_each(|slow| tell(slow, w));
            }
            _ => w.help(args),
        }
        Ok(())
    }

    /// Keeps a request in the slow log that took `nanos`, if that is long.
    pub(super) fn note_slow(&self, args: impl FnOnce() -> Vec<Vec<u8>>, nanos: u64) {
        if self.settings.slow_nanos.is_none_or(|least| nanos < least) {
            return;
        }
        let peer = match self.info.peer {
            Peer::Tcp(address) => address.to_string(),
            Peer::Unix => {
                format!("{}:0", self.info.listener.address.to_string().trim_start_matches("unix://"))
            }
        };
        let slow = Slow {
            id: 0,
            at_secs: self.shared.clock.unix_secs(),
            micros: nanos / 1000,
            tenant: self.account.tenant.name.clone(),
            args: args(),
            peer,
            name: self.info.named().name.clone(),
        };
        self.shared.slow_log.add(slow, self.settings.slow_entries, self.shared.cache.ledger());
    }
}

fn tell(slow: &Slow, w: &mut Writer<'_, '_>) {
    w.array(6);
    w.integer(slow.id as i64);
    w.integer(slow.at_secs.into());
    w.integer(i64::try_from(slow.micros).unwrap_or(i64::MAX));
    w.array(slow.args.len());
    slow.args.iter().for_each(|arg| w.bulk(arg));
    w.bulk(slow.peer.as_bytes());
    w.bulk(&slow.name);
}

/// The settings of `all` that a pattern of `CONFIG GET` fits.
pub(super) fn fitting(all: &mut Vec<(String, String)>, patterns: &[&[u8]]) {
    let lower: Vec<Vec<u8>> = patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    all.retain(|(name, _)| lower.iter().any(|pattern| matches(pattern, name.as_bytes())));
}

/// The text that a TOML string stands for.
fn toml_text(value: &str) -> Option<String> {
    match toml::from_str::<toml::Table>(&format!("value = {value}")).ok()?.remove("value")? {
        toml::Value::String(text) => Some(text),
        _ => None,
    }
}

/// A size in Redis's units – `k` and `kb`, `m` and `mb`, `g` and `gb`, of which those with a `b`
/// are the binary ones – in ours.
fn in_our_units(size: &str) -> String {
    let lower = size.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match lower.get(digits.len()..).unwrap_or_default() {
        "k" => "kB",
        "kb" => "KiB",
        "m" => "MB",
        "mb" => "MiB",
        "g" => "GB",
        "gb" => "GiB",
        _ => return size.to_owned(),
    };
    format!("{digits}{unit}")
}

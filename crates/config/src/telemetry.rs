//! The settings of traces and of the collector that receives them.

use http::Uri;

/// True if this binary can send spans.
const IS_BUILT_IN: bool = cfg!(feature = "opentelemetry");
/// The path of a collector, if the endpoint does not state one.
const PATH: &str = "/v1/traces";

settings! {
    /// Spans of a sample of turns, by OpenTelemetry.
    pub struct Telemetry in "telemetry." {
        /// Collector for spans of a sample of turns, by OTLP over HTTP, as "http://127.0.0.1:4318"
        /// (docs/watching.md#traces); without a path, /v1/traces there. Needs a binary built with
        /// the feature `opentelemetry`. Empty: none.
        online otlp_endpoint: String = String::new();

        /// One turn of a connection in this many is traced, at random. 0: none.
        online sample_one_in: u32 = 1_000;

        /// A command in such a turn that takes at least this many microseconds has its own span. 0:
        /// every command.
        online slow_command_micros: u32 = 1_000;

        /// The server's service name in spans.
        online service_name: String = "millpond".to_owned();

        /// Milliseconds that sending a batch of spans may take; then they are dropped.
        online timeout_millis: u32 = 2_000, in 1..=60_000;
    }
}

impl Telemetry {
    /// Returns the URL to which spans are posted, with its path; `None` if nothing is sent or the
    /// endpoint is not a valid address.
    pub fn url(&self) -> Option<String> {
        let uri: Uri = self.otlp_endpoint.parse().ok()?;
        // A password in the address would be shown with the settings.
        let is_plain = uri.scheme_str() == Some("http") && !self.otlp_endpoint.contains('@');
        let authority = uri.authority().filter(|_| is_plain)?;
        let path = match uri.path_and_query().map_or("/", |path| path.as_str()) {
            "/" => PATH,
            path => path,
        };
        Some(format!("http://{authority}{path}"))
    }
}

/// Rejects settings that cannot work.
pub(super) fn check(telemetry: &Telemetry, problems: &mut Vec<String>) {
    let Telemetry { otlp_endpoint, service_name, .. } = telemetry;
    if service_name.is_empty() {
        problems.push("telemetry.service_name: it is empty; collectors sort spans by it".to_owned());
    }
    if otlp_endpoint.is_empty() {
        return;
    }
    if !IS_BUILT_IN {
        problems.push(
            "telemetry.otlp_endpoint: this binary was built without OpenTelemetry; build one with `cargo build --release \
             --package millpond-cli --features opentelemetry`, or leave the setting empty"
                .to_owned(),
        );
    } else if telemetry.url().is_none() {
        let hint = if otlp_endpoint.starts_with("https:") {
            "spans are sent without TLS: to a collector on this machine, which passes them on with TLS"
        } else {
            "write http://HOST:PORT, as in http://127.0.0.1:4318"
        };
        problems.push(format!("telemetry.otlp_endpoint: `{otlp_endpoint}` cannot be sent to; {hint}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::load::{Flags, load_text, unsurveyed};

    fn load(text: &str) -> Result<Config, String> {
        let loaded = load_text("test.toml", text, &[], &Flags::default(), &unsurveyed);
        loaded.map(|loaded| loaded.config).map_err(|error| error.to_string())
    }

    #[test]
    fn spans_are_sent_by_a_binary_that_has_what_it_takes() {
        let endpoint = |endpoint: &str| format!("[telemetry]\notlp_endpoint = \"{endpoint}\"");
        if cfg!(not(feature = "opentelemetry")) {
            let error = load(&endpoint("http://127.0.0.1:4318")).expect_err("refused");
            assert!(error.contains("telemetry.otlp_endpoint: this binary was built without"), "{error}");
            assert!(error.contains("--features opentelemetry"), "{error}");
            return;
        }
        for (text, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector/", "http://collector/v1/traces"),
            ("http://collector:80/a/b?c=d", "http://collector:80/a/b?c=d"),
        ] {
            assert_eq!(load(&endpoint(text)).expect("good").telemetry.url().as_deref(), Some(url));
        }
        for (text, hint) in [
            ("127.0.0.1:4318", "write http://HOST:PORT"),
            ("grpc://127.0.0.1:4317", "write http://HOST:PORT"),
            ("http://name:password@collector", "write http://HOST:PORT"),
            ("https://collector", "without TLS"),
        ] {
            let error = load(&endpoint(text)).expect_err("refused");
            assert!(
                error.contains(&format!("telemetry.otlp_endpoint: `{text}`")) && error.contains(hint),
                "{error}"
            );
        }
    }
}

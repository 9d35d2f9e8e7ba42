//! Spans in OpenTelemetry's form, and the exporter that posts them to a collector.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use config::{Error, ErrorKind, Telemetry};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    RetryPolicy, SpanExporter as OtlpExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator, SpanData, SpanExporter as _};

use super::Step;
use super::present::{BUFFERED, Turn};

/// The size of a span while it is sent, about: as it is, and encoded.
const SPAN_BYTES: usize = 3_072;
/// The memory for sending one buffer at a time.
pub(super) const HELD_BYTES: usize = BUFFERED * SPAN_BYTES;
/// The most of a collector's answer that is read.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// The exporter that posts spans to one address.
pub(super) struct Exporter {
    url: String,
    otlp: OtlpExporter,
    /// The runtime that polls its future; the future is ready at once, as [`Client`] blocks.
    runtime: tokio::runtime::Runtime,
    scope: InstrumentationScope,
}

impl Exporter {
    /// # Errors
    /// [`ErrorKind::Config`] if the settings, or OpenTelemetry's own variables, are invalid.
    pub(super) fn new(url: &str, settings: &Telemetry) -> Result<Self, Error> {
        let refused = |source: Box<dyn std::error::Error + Send + Sync>| {
            Error::with_source(ErrorKind::Config, "telemetry: spans cannot be sent in that way", source)
        };
        let timeout = Duration::from_millis(settings.timeout_millis.into());
        let mut otlp = OtlpExporter::builder()
            .with_http()
            .with_http_client(Client::new(timeout))
            .with_retry_policy(RetryPolicy::disabled())
            .with_endpoint(url)
            .with_timeout(timeout)
            .build()
            .map_err(|error| refused(error.into()))?;
        let version = env!("CARGO_PKG_VERSION");
        otlp.set_resource(
            &Resource::builder()
                .with_service_name(settings.service_name.clone())
                .with_attribute(KeyValue::new("service.version", version))
                .with_attribute(KeyValue::new("process.pid", i64::from(std::process::id())))
                .build(),
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        Ok(Self {
            url: url.to_owned(),
            otlp,
            runtime: runtime.map_err(|error| refused(error.into()))?,
            scope: InstrumentationScope::builder("millpond").with_version(version).build(),
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Sends the spans of `turns`, and waits until the collector has taken them.
    ///
    /// # Errors
    /// Says why it has not.
    pub(super) fn send(&self, turns: &[Turn]) -> Result<(), String> {
        let spans = turns.iter().flat_map(|turn| spans(turn, &self.scope)).collect();
        self.runtime.block_on(self.otlp.export(spans)).map_err(|error| error.to_string())
    }
}

/// The span of a turn, and those of its slow commands below it.
fn spans(turn: &Turn, scope: &InstrumentationScope) -> Vec<SpanData> {
    let ids = RandomIdGenerator::default();
    let (trace, root) = (ids.new_trace_id(), ids.new_span_id());
    let number =
        |name: &'static str, value: usize| KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX));
    let context = |id: SpanId| context(trace, id);
    let mut all = Vec::with_capacity(turn.spans());
    all.push(SpanData {
        span_context: context(root),
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Server,
        name: format!("{} turn", turn.spoken.name()).into(),
        start_time: at(turn.unix_nanos),
        end_time: at(turn.unix_nanos.saturating_add(turn.took_nanos)),
        attributes: vec![
            KeyValue::new("network.protocol.name", turn.spoken.name()),
            KeyValue::new("millpond.tenant", turn.tenant.to_string()),
            KeyValue::new("millpond.listener", turn.listener.to_string()),
            number("millpond.worker", turn.worker),
            number("millpond.requests", turn.requests),
            number("millpond.received_bytes", turn.received_bytes),
            number("millpond.sent_bytes", turn.sent_bytes),
            number("millpond.slow_commands", turn.slow),
            KeyValue::new("millpond.sample_one_in", i64::from(turn.one_in)),
        ],
        dropped_attributes_count: 0,
        events: Default::default(),
        links: Default::default(),
        status: Status::Unset,
        instrumentation_scope: scope.clone(),
    });
    for step in &turn.steps {
        let start = turn.unix_nanos.saturating_add(step.began_nanos.saturating_sub(turn.began_nanos));
        all.push(SpanData {
            span_context: context(ids.new_span_id()),
            parent_span_id: root,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: step.name.into(),
            start_time: at(start),
            end_time: at(start.saturating_add(step.took_nanos)),
            attributes: attributes(step),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: scope.clone(),
        });
    }
    all
}

/// Returns the attributes of a command: among them the number and the length of its first key.
fn attributes(step: &Step) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    if let Some((number, bytes)) = step.key {
        // OpenTelemetry's integers have a sign.
        attributes.push(KeyValue::new("millpond.key", number.to_string()));
        attributes.push(KeyValue::new("millpond.key_bytes", bytes as i64));
    }
    if step.lookups > 0 {
        attributes.push(KeyValue::new("millpond.lookups", step.lookups as i64));
    }
    attributes
}

fn context(trace: TraceId, id: SpanId) -> SpanContext {
    SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default())
}

fn at(unix_nanos: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_nanos)
}

/// Posts, and blocks meanwhile: it is called by the thread that does nothing else.
struct Client(ureq::Agent);

impl Client {
    /// Creates a client that gives up after `timeout`, and connects directly, whatever proxies the
    /// environment names.
    fn new(timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(timeout));
        Self(config.build().new_agent())
    }

    fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.0.run(request.map(|body| body.to_vec()))?;
        let (parts, mut body) = answer.into_parts();
        let body = body.with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let answer = self.post(request);
        Box::pin(std::future::ready(answer))
    }
}

//! Traces: a span for each turn of a connection in the sample, with a span for each of its slow
//! commands, sent to a collector by OpenTelemetry's protocol.
//!
//! Turns are drawn at random, one in `sample_one_in`, as neither protocol has a place for a
//! client's trace context: a turn is the root of a trace of its own. A span has no key and no
//! argument, but the number of a key as in the log of requests ([`crate::requests`]).
//!
//! All of it is behind the feature `opentelemetry`. Without it, [`Sampled`] has no values, so that
//! the compiler leaves out the code for turns in the sample, and settings that ask for spans are
//! rejected with the configuration.
//!
//! Invariants:
//! 1. No worker waits: each has a buffer of its own of fixed size; spans that find no room there,
//!    or find it being emptied, are counted and dropped. One thread of its own empties the buffers
//!    and sends.
//! 2. Only that thread, and the thread that stops the server, wait for a collector, and for no
//!    longer than `telemetry.timeout_millis`.

#[cfg(not(feature = "opentelemetry"))]
mod absent;
#[cfg(feature = "opentelemetry")]
mod export;
#[cfg(feature = "opentelemetry")]
mod present;

#[cfg(not(feature = "opentelemetry"))]
pub use absent::{Sampled, Tracing};
#[cfg(feature = "opentelemetry")]
pub use present::{Sampled, Tracing};

use tenancy::latency::ProtocolFamily;

/// The facts of a turn in the sample once the turn is over.
pub struct Over<'a> {
    /// The worker's number.
    pub worker: usize,
    /// The protocol of the connection.
    pub spoken: ProtocolFamily,
    /// The name of the turn's tenant.
    pub tenant: &'a str,
    /// The name of the connection's listener.
    pub listener: &'a str,
    /// Requests, or keys of them, that were answered.
    pub requests: usize,
    /// Bytes of the input that the turn consumed; the part of a large value that came before, or
    /// went straight into its item, is not included.
    pub received_bytes: usize,
    /// Bytes of the answers.
    pub sent_bytes: usize,
}

/// A command, or lookups that were made together, in such a turn.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// One of a fixed set: a client's name for an unknown command does not enter a span.
    pub name: &'static str,
    /// Start, on the monotonic clock.
    pub began_nanos: u64,
    /// Its duration.
    pub took_nanos: u64,
    /// Lookups that were made together; 0 for a command.
    pub lookups: usize,
    /// The first key's number, and how long the key is.
    pub key: Option<(u64, usize)>,
}

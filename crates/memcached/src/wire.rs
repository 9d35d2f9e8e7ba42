//! Parts that all commands share: the form of the protocol that a client speaks, and plain answers.

use frontend::output::Output;
use millpond::ReadHandle;
use protocol::memcached::WireError;
use tenancy::metrics::Counter;

/// The answer to `version`: the memcached release whose behaviour is served, and our version.
pub(super) const VERSION: &str = concat!("1.6.18-millpond-", env!("CARGO_PKG_VERSION"));

/// The answer to `watch`: the server writes its log of requests to a file instead.
pub(super) const NO_WATCH: &[u8] =
    b"CLIENT_ERROR watch is not supported: set watch.request_log or watch.trace_file\r\n";

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// Its first byte will tell.
    Unknown,
    Text,
    Binary,
}

/// Writes an answer unless the client wants none.
pub(super) fn respond(output: &mut Output<ReadHandle<'_>>, noreply: bool, answer: &[u8]) {
    if !noreply {
        output.write(answer);
    }
}

/// Returns the counter of requests that are refused with this error.
pub(super) const fn refusal_counter(error: WireError) -> Counter {
    match error {
        WireError::LineTooLong => Counter::RefusedLineLength,
        WireError::Http => Counter::RefusedHttp,
        WireError::TooManyKeys => Counter::RefusedKeys,
        WireError::ObjectTooLarge => Counter::RefusedSize,
        WireError::OutOfMemory | WireError::OutOfMemoryStoring => Counter::RefusedMemory,
        _ => Counter::RefusedLine,
    }
}

//! The settings that change while serving, and the bounds of a turn that follow from them.

use config::Config;
use protocol::memcached::Limits;
use protocol::resp;

/// The settings that change while serving, in the form in which they are read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `limits.max_connections`.
    pub max_connections: usize,
    /// Limits of memcached's requests.
    pub protocol: Limits,
    /// Limits of RESP's requests.
    pub resp: resp::Limits,
    /// Once a turn's output has this many bytes, the turn ends.
    pub max_output_bytes: usize,
    /// The bound of an answer about several keys that is seen as a whole.
    pub max_whole_bytes: usize,
    /// Requests, or keys of them, that one turn answers at most.
    pub max_requests_per_turn: usize,
    /// Once a turn has taken this long, no further command of RESP is carried out in it.
    pub max_turn_nanos: Option<u64>,
    /// Bytes of one value that are received in a turn, and bytes that are sent.
    pub max_moved_bytes: usize,
    /// Chunks that a listing passes in a turn.
    pub max_listed_chunks: u32,
    /// `limits.max_tracked_keys`.
    pub max_tracked_keys: usize,
    /// Memory that all connections may hold.
    pub max_connection_memory_bytes: u64,
    /// `busy_poll_micros`.
    pub busy_poll_micros: u32,
    /// `limits.idle_timeout_secs`.
    pub idle_timeout_secs: u32,
    /// `limits.stall_timeout_secs`.
    pub stall_timeout_secs: u32,
    /// A request that takes this long enters the slow log; `None`: none does.
    pub slow_nanos: Option<u64>,
    /// Entries that the slow log keeps.
    pub slow_entries: usize,
    /// A command of RESP that takes this long is an event; `None`: none is.
    pub latency_nanos: Option<u64>,
    /// `limits.handshake_timeout_secs`.
    pub handshake_timeout_secs: u32,
    /// `limits.drain_timeout_secs`.
    pub drain_timeout_secs: u32,
}

impl Settings {
    /// Creates the settings that follow from a configuration.
    pub fn new(config: &Config) -> Self {
        let limits = &config.limits;
        Self {
            max_connections: limits.max_connections,
            protocol: Limits {
                max_line_bytes: limits.max_line_bytes.as_usize(),
                max_get_line_bytes: limits.max_get_line_bytes.as_usize(),
                max_keys: limits.max_get_keys,
                max_item_bytes: limits.max_item_bytes.as_usize(),
                skip_refused_data: limits.skip_refused_data,
            },
            resp: resp::Limits {
                max_kept_bulk_bytes: limits.max_item_bytes.as_usize(),
                max_request_bytes: limits.max_request_bytes.as_usize(),
                ..resp::Limits::default()
            },
            max_output_bytes: limits.max_output_buffer_bytes.as_usize(),
            max_whole_bytes: limits.max_output_buffer_bytes.as_usize(),
            max_requests_per_turn: limits.max_requests_per_turn,
            max_turn_nanos: None,
            max_moved_bytes: usize::MAX,
            max_listed_chunks: LISTED_CHUNKS,
            max_tracked_keys: limits.max_tracked_keys,
            max_connection_memory_bytes: config.max_connection_memory().as_u64(),
            busy_poll_micros: config.busy_poll_micros,
            idle_timeout_secs: limits.idle_timeout_secs,
            stall_timeout_secs: limits.stall_timeout_secs,
            slow_nanos: u64::try_from(config.watch.slow_log_micros)
                .ok()
                .map(|micros| micros.saturating_mul(1000)),
            slow_entries: config.watch.slow_log_entries,
            latency_nanos: Some(u64::from(config.watch.latency_monitor_millis) * 1_000_000)
                .filter(|nanos| *nanos > 0),
            handshake_timeout_secs: limits.handshake_timeout_secs,
            drain_timeout_secs: limits.drain_timeout_secs,
        }
    }
}

/// Some 200 µs.
const LISTED_CHUNKS: u32 = 4_096;

/// While several tenants share a worker, a turn is no longer than this, so that none waits long for
/// another's.
const SHARED_TURN_REQUESTS: usize = 32;
/// And its output no larger, but for one value or one answer of several keys.
const SHARED_TURN_OUTPUT_BYTES: usize = 64 << 10;
/// And takes no longer, but for one command.
const SHARED_TURN_NANOS: u64 = 50_000;
/// And moves no more of a large value, which takes some 20 µs.
const SHARED_MOVED_BYTES: usize = 64 << 10;
const SHARED_LISTED_CHUNKS: u32 = 512;

impl Settings {
    /// Returns whether every command of RESP is timed, other than lookups that are made together.
    pub fn times_commands(&self) -> bool {
        self.slow_nanos.is_some() || self.latency_nanos.is_some() || self.max_turn_nanos.is_some()
    }

    /// As they hold in a worker that several tenants share.
    pub fn for_several_tenants(&self) -> Self {
        Self {
            max_requests_per_turn: self.max_requests_per_turn.min(SHARED_TURN_REQUESTS),
            max_output_bytes: self.max_output_bytes.min(SHARED_TURN_OUTPUT_BYTES),
            max_turn_nanos: Some(SHARED_TURN_NANOS),
            max_moved_bytes: SHARED_MOVED_BYTES,
            max_listed_chunks: SHARED_LISTED_CHUNKS,
            ..self.clone()
        }
    }

    /// Returns the settings of a turn that no other connection waits for: it does as much as one of
    /// a client that has the worker alone. Its output is no larger than with others, which would
    /// wait while it is sent.
    pub fn for_nobody_waiting(self, alone: &Self) -> Self {
        Self {
            max_requests_per_turn: alone.max_requests_per_turn,
            max_turn_nanos: alone.max_turn_nanos,
            ..self
        }
    }
}

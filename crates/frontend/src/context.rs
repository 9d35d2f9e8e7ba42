//! The buffers and facts that a worker lends to the connection that has its turn.

use std::sync::Arc;

use millpond::ReadHandle;
use protocol::memcached::KeyBuf;

use crate::output::Output;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::telemetry::Sampled;
use crate::tls::TlsBuffers;

/// Bytes that are received at a time: the requests of one turn, unless a value is received straight
/// into its item.
pub const RECEIVE_BYTES: usize = 32 << 10;

/// Buffers and facts of the worker, used by one connection after another.
pub struct Context<'c> {
    /// The state that all threads share.
    pub shared: &'c Shared,
    /// The worker's number.
    pub worker: usize,
    /// The settings, read anew when the worker is told to.
    pub settings: Arc<Settings>,
    /// The time at which the present events were fetched, Unix seconds.
    pub now_secs: u32,
    /// The buffer into which the next connection receives.
    pub receive_buffer: Box<[u8]>,
    /// An empty output that the next connection takes.
    pub spare_output: Output<ReadHandle<'c>>,
    /// The buffer for decoding keys in base64.
    pub key_buffer: KeyBuf,
    /// The buffers for encryption; there from the first connection with TLS on.
    pub tls: Option<Box<TlsBuffers>>,
    /// The count of turns, so that one in [`tenancy::latency::ONE_IN`] is timed.
    pub turns: u32,
    /// The present turn, if it is traced.
    pub sampled: Option<Sampled>,
    /// True if the context is that of the worker's thread for slow commands.
    pub is_slow_thread: bool,
}

impl<'c> Context<'c> {
    /// Creates the context of a worker, with buffers for one connection at a time.
    pub fn new(shared: &'c Shared, worker: usize) -> Self {
        Self {
            settings: shared.settings(),
            now_secs: shared.clock.unix_secs(),
            shared,
            worker,
            receive_buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            spare_output: Output::default(),
            key_buffer: KeyBuf::default(),
            tls: None,
            turns: 0,
            sampled: None,
            is_slow_thread: false,
        }
    }
}

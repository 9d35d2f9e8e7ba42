//! The log of requests: the requests for a sample of keys, in lines that `millpond bench replay`
//! and `millpond curve` read.
//!
//! Keys are sampled by their hash, and every request for a sampled key is logged. So what is logged
//! between two requests for one key is a sample of all requests between these two. A replay of the
//! log in memory scaled down by the same factor has about the hit ratio of all requests
//! (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015). A sample of single
//! requests would not have this property.
//!
//! Invariants:
//! 1. No worker waits. Each has a buffer of its own of fixed size; a request that finds it full, or
//!    being emptied, is counted and dropped. One thread empties the buffers and writes.
//! 2. A log with holes cannot be taken for a whole one. A line such as `# N requests were dropped`
//!    stands at each hole; readers report it, and so does the server's own log.
//! 3. A sample cannot be taken for the whole, nor the keys of two runs of the server for the same.
//!    The part that is written after the file was opened begins with a line that states how keys
//!    are sampled, one in how many, and by which seed they are numbered.

#[cfg(test)]
mod tests;
mod writer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use base::hash::key_hash;
use base::thread::Repeating;
use base::{Clock, Ledger, Part, rng};
use config::{Error, ErrorKind, Watch};
use tenancy::KeyEffect;
use tenancy::latency::ProtocolFamily;
pub use writer::refuse_pipe;
use writer::{Output, Writer};

use crate::log::Seldom;

/// The treatment of log files by a change of the configuration that does not change their settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// They stay open, so that no request waits for a disk because another setting changed.
    Keep,
    /// They are reopened, because log rotation may have moved them away.
    Reopen,
}

/// Interval at which buffers are emptied, and number of requests that a buffer holds.
const WRITE_EVERY: Duration = Duration::from_millis(100);
const BUFFERED: usize = 2_048;
/// The size of a buffered request's names of tenant and key, about, in bytes.
const NAMES_BYTES: usize = 96;

/// A request for a key that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The name of the command.
    pub command: &'static str,
    /// The effect on the key.
    pub does: KeyEffect,
    /// The key.
    pub key: &'a [u8],
    /// Bytes of the value that was received or sent, if known.
    pub value_bytes: Option<usize>,
    /// The new time to live.
    pub ttl_secs: Option<u32>,
    /// The outcome, as the log shows it.
    pub outcome: &'static str,
}

/// The record of a request until it is written.
struct Entry {
    unix_nanos: u64,
    latency_nanos: u64,
    tenant: Box<str>,
    spoken: ProtocolFamily,
    command: &'static str,
    does: KeyEffect,
    hash: u64,
    /// The key, if keys are written as they are.
    key: Option<Box<[u8]>>,
    key_bytes: usize,
    value_bytes: Option<usize>,
    ttl_secs: Option<u32>,
    outcome: &'static str,
}

/// The log.
pub struct RequestLog {
    /// Keys with hashes up to this one are in the sample; 0: nothing is logged.
    highest_hash: AtomicU64,
    /// The seed of the numbers of keys, so that these do not reveal the keys.
    seed: u64,
    /// A number that distinguishes this seed from those of other runs, and reveals nothing of it.
    numbering: u64,
    clock: Clock,
    /// One for each worker.
    buffers: Box<[Mutex<Buffer>]>,
    written: AtomicU64,
    /// Those that came faster than they were written.
    dropped: Missing,
    /// Those that the file could not take, such as on a full disk.
    unwritten: Missing,
    writing: Mutex<Option<Repeating<Writer>>>,
    /// The settings in force.
    applied: Mutex<Watch>,
}

/// Requests that are missing in the file.
#[derive(Default)]
struct Missing {
    all: AtomicU64,
    /// Number of them that the file reports.
    marked: AtomicU64,
}

impl Missing {
    fn add(&self, requests: u64) {
        self.all.fetch_add(requests, Ordering::Relaxed);
    }

    /// Returns how many the file does not report yet.
    fn unmarked(&self) -> u64 {
        self.all.load(Ordering::Relaxed) - self.marked.load(Ordering::Relaxed)
    }

    /// Moves this many unreported requests to another cause.
    fn move_to(&self, cause: &Self, requests: u64) {
        self.all.fetch_sub(requests, Ordering::Relaxed);
        cause.add(requests);
    }

    /// Notes that the file reports this many more.
    fn mark(&self, requests: u64) {
        self.marked.fetch_add(requests, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Buffer {
    entries: Vec<Entry>,
    /// True if keys are written as they are.
    is_plain: bool,
}

impl RequestLog {
    /// Creates a log that nothing is written to yet.
    pub fn new(clock: Clock, workers: usize) -> Self {
        Self {
            highest_hash: AtomicU64::new(0),
            seed: rng::entropy_seed(),
            numbering: rng::entropy_seed(),
            clock,
            buffers: (0..workers).map(|_| Mutex::default()).collect(),
            written: AtomicU64::new(0),
            dropped: Missing::default(),
            unwritten: Missing::default(),
            writing: Mutex::new(None),
            applied: Mutex::default(),
        }
    }

    /// Applies the settings `wanted` and reopens the file; a file that was moved away stays as it
    /// is. Does nothing with [`Files::Keep`] if these settings are already in force.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the file cannot be opened, and the present log continues; or if the
    /// thread cannot be started, and nothing is logged.
    pub fn apply(self: &Arc<Self>, ledger: &Ledger, wanted: &Watch, files: Files) -> Result<(), Error> {
        if files == Files::Keep && is_same(&lock(&self.applied), wanted) {
            return Ok(());
        }
        if wanted.request_log.as_os_str().is_empty() {
            self.stop(ledger);
            *lock(&self.applied) = wanted.clone();
            return Ok(());
        }
        let failed = |error: std::io::Error| {
            let context = format!("watch.request_log: {} cannot be written", wanted.request_log.display());
            Error::with_source(ErrorKind::System, context, error)
        };
        let path = wanted.request_log.clone();
        let output = Output::open(&path).map_err(failed)?;
        // Until here the old log continues.
        self.stop(ledger);
        for buffer in &self.buffers {
            let is_plain = wanted.request_log_plain_keys;
            *lock(buffer) = Buffer { entries: Vec::with_capacity(BUFFERED), is_plain };
        }
        let max_bytes = wanted.request_log_max_bytes.as_u64();
        let writer = Writer {
            log: Arc::clone(self),
            path,
            max_bytes,
            sample: self.sample_line(wanted),
            is_sample_told: false,
            output: Some(output),
            spare: Vec::with_capacity(BUFFERED),
            untold: 0,
            telling: Seldom::once_in(60),
        };
        let thread = Repeating::start("requests", WRITE_EVERY, writer, |writer, _| writer.turn());
        // Nothing is kept or charged for a thread that could not be started.
        let thread = thread.map_err(failed).inspect_err(|_| self.drop_buffers())?;
        ledger.charge(Part::Fixed, self.buffer_bytes());
        *lock(&self.writing) = Some(thread);
        let highest = u64::MAX / u64::from(wanted.request_log_one_in.max(1));
        self.highest_hash.store(highest, Ordering::Relaxed);
        *lock(&self.applied) = wanted.clone();
        Ok(())
    }

    /// Returns the line that states the sample of keys, for readers of the file.
    fn sample_line(&self, wanted: &Watch) -> String {
        let one_in = wanted.request_log_one_in.max(1);
        // Keys that are all there under their names are the same after a restart.
        if wanted.request_log_plain_keys && one_in == 1 {
            return "# one key in 1 from here on\n".to_owned();
        }
        let numbering = self.numbering;
        format!("# one key in {one_in} from here on, chosen and numbered by {numbering:016x}\n")
    }

    /// Writes the buffered requests, and logs no more.
    pub fn stop(&self, ledger: &Ledger) {
        self.highest_hash.store(0, Ordering::Relaxed);
        if lock(&self.writing).take().is_some() {
            self.drop_buffers();
            ledger.release(Part::Fixed, self.buffer_bytes());
            // If what follows fails, the former settings are not in force.
            *lock(&self.applied) = Watch::default();
        }
    }

    fn drop_buffers(&self) {
        self.buffers.iter().for_each(|buffer| *lock(buffer) = Buffer::default());
    }

    /// Returns the number that stands for a key here, and in spans.
    #[inline]
    pub fn number_of(&self, key: &[u8]) -> u64 {
        key_hash(self.seed, key)
    }

    /// Returns the size of the buffers, the writer's own included.
    fn buffer_bytes(&self) -> u64 {
        ((self.buffers.len() + 1) * BUFFERED * (size_of::<Entry>() + NAMES_BYTES)) as u64
    }

    /// Requests that were written, and those that are missing.
    pub fn figures(&self) -> (u64, u64) {
        let missing = |missing: &Missing| missing.all.load(Ordering::Relaxed);
        (self.written.load(Ordering::Relaxed), missing(&self.dropped) + missing(&self.unwritten))
    }

    /// Returns the notes for a turn of a connection, if requests are logged.
    #[inline]
    pub fn notes<'a>(&'a self, worker: usize, tenant: &'a str, spoken: ProtocolFamily) -> Option<Notes<'a>> {
        if self.highest_hash.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(Notes { log: self, worker, tenant, spoken, since: self.clock.monotonic_nanos() })
    }
}

/// Returns whether two settings ask for the same log.
fn is_same(one: &Watch, other: &Watch) -> bool {
    let of = |watch: &Watch| {
        (
            watch.request_log.clone(),
            watch.request_log_one_in,
            watch.request_log_plain_keys,
            watch.request_log_max_bytes,
        )
    };
    of(one) == of(other)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the requests of one turn. Each is counted with the time since the turn began.
pub struct Notes<'a> {
    log: &'a RequestLog,
    worker: usize,
    tenant: &'a str,
    spoken: ProtocolFamily,
    since: u64,
}

impl Notes<'_> {
    /// Keeps a request for a key that is in the sample.
    pub fn note(&self, asked: &Asked<'_>) {
        let log = self.log;
        let hash = log.number_of(asked.key);
        if hash > log.highest_hash.load(Ordering::Relaxed) {
            return;
        }
        let Some(buffer) = log.buffers.get(self.worker) else { return };
        let mut buffer = match buffer.try_lock() {
            Ok(buffer) => buffer,
            Err(TryLockError::Poisoned(buffer)) => buffer.into_inner(),
            Err(TryLockError::WouldBlock) => {
                log.dropped.add(1);
                return;
            }
        };
        if buffer.entries.len() == buffer.entries.capacity() {
            log.dropped.add(1);
            return;
        }
        let key = buffer.is_plain.then(|| asked.key.into());
        buffer.entries.push(Entry {
            unix_nanos: log.clock.unix_nanos(),
            latency_nanos: log.clock.monotonic_nanos().saturating_sub(self.since),
            tenant: self.tenant.into(),
            spoken: self.spoken,
            command: asked.command,
            does: asked.does,
            hash,
            key,
            key_bytes: asked.key.len(),
            value_bytes: asked.value_bytes,
            ttl_secs: asked.ttl_secs,
            outcome: asked.outcome,
        });
    }
}

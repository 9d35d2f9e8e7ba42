//! The log of requests: what was asked for a sample of keys, in lines that `millpond bench replay` and `millpond curve` read.
//!
//! Keys are sampled by their hash, and of a sampled key every request is logged: the requests between two for one key are then a
//! sample of those that there were, so that a replay in as small a part of the memory finds what the whole would (Waldspurger et al.,
//! "Efficient MRC Construction with SHARDS", FAST 2015). Of requests drawn one by one that cannot be said.
//!
//! Invariant 1: no worker waits. Each has a buffer of its own of fixed size; a request that finds it full, or being emptied, is
//! counted and forgotten. One thread empties the buffers and writes.
//! Invariant 2: nobody takes a log with holes for a whole one. A line `# N requests were dropped` stands at each hole,
//! readers tell of them, and the server's own log does, too.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use base::hash::key_hash;
use base::thread::Repeating;
use base::{Clock, Ledger, Part, rng};
use protocol::memcached::reply::shown_key;

use crate::config::Watch;
use crate::error::{Error, ErrorKind};
use crate::latency::Spoken;
use crate::log::Seldom;
use crate::reload::Files;

/// How often buffers are emptied, and requests that one holds.
const WRITE_EVERY: Duration = Duration::from_millis(100);
const BUFFERED: usize = 2_048;
/// What a buffered request takes besides its size: the names of tenant and key, about.
const NAMES_BYTES: usize = 96;

/// Who may read the file: what keys there are is not everybody's business.
const FILE_MODE: u32 = 0o640;

const HEADER: &str = "ts,tenant,protocol,command,op,key,key_size,size,ttl,outcome,latency_us\n";

/// What a request does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Read,
    Write,
    Touch,
    Remove,
}

impl Does {
    /// As traces have it.
    const fn name(self) -> &'static str {
        match self {
            Self::Read => "get",
            Self::Write => "set",
            Self::Touch => "touch",
            Self::Remove => "delete",
        }
    }
}

/// A request for a key that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) command: &'static str,
    pub(crate) does: Does,
    pub(crate) key: &'a [u8],
    /// Bytes of the value that came or went, where that is known.
    pub(crate) value_bytes: Option<usize>,
    /// The new time to live.
    pub(crate) ttl_secs: Option<u32>,
    pub(crate) outcome: &'static str,
}

/// What is kept of it until it is written.
struct Entry {
    unix_nanos: u64,
    latency_nanos: u64,
    tenant: Box<str>,
    spoken: Spoken,
    command: &'static str,
    does: Does,
    hash: u64,
    /// Where keys are written as they are.
    key: Option<Box<[u8]>>,
    key_bytes: usize,
    value_bytes: Option<usize>,
    ttl_secs: Option<u32>,
    outcome: &'static str,
}

/// The log.
pub(crate) struct RequestLog {
    /// Keys with hashes up to this one are in the sample; 0: nothing is logged.
    highest_hash: AtomicU64,
    /// So that numbers of keys tell nobody the keys.
    seed: u64,
    clock: Clock,
    /// One for each worker.
    buffers: Box<[Mutex<Buffer>]>,
    written: AtomicU64,
    dropped: AtomicU64,
    /// Of those that were dropped, how many the file tells of.
    marked: AtomicU64,
    writing: Mutex<Option<Repeating<Writer>>>,
    /// The settings in force.
    applied: Mutex<Watch>,
}

#[derive(Default)]
struct Buffer {
    entries: Vec<Entry>,
    /// Whether keys are written as they are.
    is_plain: bool,
}

impl RequestLog {
    pub(crate) fn new(clock: Clock, workers: usize) -> Self {
        Self {
            highest_hash: AtomicU64::new(0),
            seed: rng::entropy_seed(),
            clock,
            buffers: (0..workers).map(|_| Mutex::default()).collect(),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            writing: Mutex::new(None),
            applied: Mutex::default(),
        }
    }

    /// Logs what `wanted` says from now on, in a file that is opened anew: one that was moved away stays as it is.
    ///
    /// # Errors
    /// [`ErrorKind::System`] where the file cannot be opened: nothing is logged then.
    pub(crate) fn apply(
        self: &Arc<Self>,
        ledger: &Ledger,
        wanted: &Watch,
        files: Files,
    ) -> Result<(), Error> {
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
        // Until here it goes on as it was.
        self.stop(ledger);
        for buffer in &self.buffers {
            let is_plain = wanted.request_log_plain_keys;
            *lock(buffer) = Buffer { entries: Vec::with_capacity(BUFFERED), is_plain };
        }
        ledger.charge(Part::Fixed, self.buffer_bytes());
        let max_bytes = wanted.request_log_max_bytes.as_u64();
        let writer = Writer {
            log: Arc::clone(self),
            path,
            max_bytes,
            output: Some(output),
            spare: Vec::with_capacity(BUFFERED),
            untold: 0,
            telling: Seldom::once_in(60),
        };
        let thread = Repeating::start("requests", WRITE_EVERY, writer, |writer, _| writer.turn());
        *lock(&self.writing) = Some(thread.map_err(failed)?);
        let highest = u64::MAX / u64::from(wanted.request_log_one_in.max(1));
        self.highest_hash.store(highest, Ordering::Relaxed);
        *lock(&self.applied) = wanted.clone();
        Ok(())
    }

    /// Writes what is buffered, and logs no more.
    pub(crate) fn stop(&self, ledger: &Ledger) {
        self.highest_hash.store(0, Ordering::Relaxed);
        if lock(&self.writing).take().is_some() {
            self.buffers.iter().for_each(|buffer| *lock(buffer) = Buffer::default());
            ledger.release(Part::Fixed, self.buffer_bytes());
        }
    }

    /// The number that stands for a key here, and in spans.
    #[inline]
    pub(crate) fn number_of(&self, key: &[u8]) -> u64 {
        key_hash(self.seed, key)
    }

    /// What the buffers take, the writer's own among them.
    fn buffer_bytes(&self) -> u64 {
        ((self.buffers.len() + 1) * BUFFERED * (size_of::<Entry>() + NAMES_BYTES)) as u64
    }

    /// Requests that were written, and those that found no room.
    pub(crate) fn figures(&self) -> (u64, u64) {
        (self.written.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }

    /// What a turn of a connection is to note its requests with, if requests are logged.
    #[inline]
    pub(crate) fn notes<'a>(&'a self, worker: usize, tenant: &'a str, spoken: Spoken) -> Option<Notes<'a>> {
        if self.highest_hash.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(Notes { log: self, worker, tenant, spoken, since: self.clock.monotonic_nanos() })
    }
}

/// Whether two settings ask for the same log.
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
pub(crate) struct Notes<'a> {
    log: &'a RequestLog,
    worker: usize,
    tenant: &'a str,
    spoken: Spoken,
    since: u64,
}

impl Notes<'_> {
    /// Keeps a request for a key that is in the sample.
    pub(crate) fn note(&self, asked: &Asked<'_>) {
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
                log.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        if buffer.entries.len() == buffer.entries.capacity() {
            log.dropped.fetch_add(1, Ordering::Relaxed);
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

/// The file, and how long it is.
struct Output {
    file: File,
    bytes: u64,
}

/// Returns an error if a pipe is at `path`.
pub(crate) fn refuse_pipe(path: &std::path::Path) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
        let why = "it is a pipe, whose reader could hold the server up; name a file";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

impl Output {
    fn open(path: &std::path::Path) -> std::io::Result<Self> {
        refuse_pipe(path)?;
        let mut file = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes == 0 {
            file.write_all(HEADER.as_bytes())?;
            bytes = HEADER.len() as u64;
        }
        Ok(Self { file, bytes })
    }
}

/// The thread that writes.
struct Writer {
    log: Arc<RequestLog>,
    path: PathBuf,
    /// A file that has so many is put aside, in place of the one that was put aside before.
    max_bytes: u64,
    /// None after it could not be written.
    output: Option<Output>,
    spare: Vec<Entry>,
    /// How many dropped requests the server's log does not know of, and when it may be told again.
    untold: u64,
    telling: Seldom,
}

impl Writer {
    fn turn(&mut self) {
        let mut entries = Vec::new();
        for buffer in &self.log.buffers {
            std::mem::swap(&mut lock(buffer).entries, &mut self.spare);
            entries.append(&mut self.spare);
        }
        let dropped = self.log.dropped.load(Ordering::Relaxed);
        let hole = dropped - self.log.marked.load(Ordering::Relaxed);
        if entries.is_empty() && hole == 0 {
            return;
        }
        entries.sort_by_key(|entry| entry.unix_nanos);
        let mut text = String::new();
        if hole > 0 && self.output.is_some() {
            let _ = writeln!(text, "# {hole} requests were dropped");
            self.tell_of(hole);
        }
        entries.iter().for_each(|entry| write_line(&mut text, entry));
        match self.write(&text) {
            Ok(()) => {
                self.log.marked.fetch_add(hole, Ordering::Relaxed);
                self.log.written.fetch_add(entries.len() as u64, Ordering::Relaxed)
            }
            Err(error) => {
                if self.output.take().is_some() {
                    let file = self.path.display();
                    tracing::warn!(%file, %error, "The log of requests cannot be written and ends; SIGHUP begins it anew.");
                }
                self.log.dropped.fetch_add(entries.len() as u64, Ordering::Relaxed)
            }
        };
    }

    /// Says in the server's log that the file has holes.
    fn tell_of(&mut self, hole: u64) {
        self.untold += hole;
        if self.telling.is_due(self.log.clock.monotonic_nanos()) {
            tracing::warn!(
                file = %self.path.display(),
                requests = self.untold,
                "Requests came faster than the log of requests is written, and are missing in it; raise watch.request_log_one_in."
            );
            self.untold = 0;
        }
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        let Some(output) = &mut self.output else { return Err(std::io::ErrorKind::NotConnected.into()) };
        if let Err(error) = output.file.write_all(text.as_bytes()) {
            // No part of a line is to stand before what is written once there is room again.
            let _ = output.file.set_len(output.bytes);
            return Err(error);
        }
        output.bytes += text.len() as u64;
        if output.bytes >= self.max_bytes {
            let mut aside = self.path.clone().into_os_string();
            aside.push(".1");
            std::fs::rename(&self.path, aside)?;
            *output = Output::open(&self.path)?;
        }
        Ok(())
    }
}

fn write_line(text: &mut String, entry: &Entry) {
    let Entry { unix_nanos, latency_nanos, command, outcome, key_bytes, hash, .. } = entry;
    let (ts, latency_us) = (unix_nanos / 1000, *latency_nanos as f64 / 1000.0);
    let key = entry.key.as_ref().map_or_else(|| hash.to_string(), |key| shown_key(key));
    let (tenant, protocol, op) = (shown_key(entry.tenant.as_bytes()), entry.spoken.name(), entry.does.name());
    let size = entry.value_bytes.map_or_else(String::new, |bytes| bytes.to_string());
    let ttl = entry.ttl_secs.map_or_else(String::new, |secs| secs.to_string());
    let _ = writeln!(
        text,
        "{ts},{tenant},{protocol},{command},{op},{key},{key_bytes},{size},{ttl},{outcome},{latency_us:.1}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(path: &std::path::Path) -> Watch {
        Watch { request_log: path.to_owned(), request_log_one_in: 1, ..Watch::default() }
    }

    fn asked(key: &[u8]) -> Asked<'_> {
        Asked { command: "get", does: Does::Read, key, value_bytes: None, ttl_secs: None, outcome: "miss" }
    }

    #[test]
    fn every_request_for_a_sampled_key_is_written_and_none_for_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
        let log = Arc::new(RequestLog::new(Clock::manual(5), 1));
        assert!(log.notes(0, "t", Spoken::Resp).is_none(), "off");
        log.apply(&ledger, &Watch { request_log_one_in: 4, ..watch(&path) }, Files::Reopen).expect("a file");
        for _ in 0..3 {
            let notes = log.notes(0, "a,b", Spoken::Resp).expect("on");
            (0..400_u32).for_each(|key| notes.note(&asked(&key.to_le_bytes())));
        }
        log.stop(&ledger);
        assert_eq!(ledger.total(), 0);
        let text = std::fs::read_to_string(&path).expect("the log");
        let mut counts = std::collections::BTreeMap::new();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!((fields[0], fields[1], fields[2]), ("5000000", "a%2Cb", "resp"), "{line}");
            *counts.entry(fields[5].to_owned()).or_insert(0) += 1;
        }
        assert!((50..150).contains(&counts.len()), "a quarter of 400: {}", counts.len());
        assert!(counts.values().all(|count| *count == 3));
        assert_eq!(log.figures(), (counts.len() as u64 * 3, 0));
    }

    #[test]
    fn a_full_buffer_drops_and_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
        let log = Arc::new(RequestLog::new(Clock::System, 1));
        log.apply(&ledger, &watch(&path), Files::Reopen).expect("a file");
        // More than the writer can have taken meanwhile is not certain; while its buffer is held nothing is kept at all.
        let notes = log.notes(0, "t", Spoken::Memcached).expect("on");
        let held = lock(&log.buffers[0]);
        (0..10).for_each(|_| notes.note(&asked(b"k")));
        drop(held);
        assert_eq!(log.figures().1, 10);
        assert!(log.notes(0, "t", Spoken::Memcached).is_some());
        log.stop(&ledger);
        let text = std::fs::read_to_string(&path).expect("the log");
        let holes = text.lines().filter_map(|line| line.strip_prefix("# ")?.split_once(' '));
        let dropped: u64 = holes.map(|(count, _)| count.parse::<u64>().expect("a number")).sum();
        assert_eq!(dropped, 10, "{text}");
    }

    #[test]
    fn settings_that_stay_leave_the_file_alone_and_one_that_cannot_be_written_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
        let log = Arc::new(RequestLog::new(Clock::System, 1));
        log.apply(&ledger, &watch(&path), Files::Reopen).expect("a file");
        let moved = folder.path().join("moved.csv");
        std::fs::rename(&path, &moved).expect("moved");
        log.apply(&ledger, &watch(&path), Files::Keep).expect("nothing to do");
        assert!(!path.exists(), "it goes on with the file that it has");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        for wrong in [folder.path().join("missing/log.csv"), pipe] {
            let error = log.apply(&ledger, &watch(&wrong), Files::Keep).expect_err("it cannot be written");
            assert!(error.to_string().contains(&wrong.display().to_string()), "{error}");
        }
        log.notes(0, "t", Spoken::Memcached).expect("still on").note(&asked(b"k"));
        log.stop(&ledger);
        assert!(std::fs::read_to_string(&moved).expect("the log").lines().count() == 2);
    }

    #[test]
    fn a_long_file_is_put_aside_and_a_moved_one_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
        let wanted = Watch {
            request_log_max_bytes: base::ByteSize::new(100),
            request_log_plain_keys: true,
            ..watch(&path)
        };
        let log = Arc::new(RequestLog::new(Clock::System, 1));
        log.apply(&ledger, &wanted, Files::Reopen).expect("a file");
        log.notes(0, "t", Spoken::Memcached).expect("on").note(&asked(b"user 1"));
        log.apply(&ledger, &wanted, Files::Reopen).expect("the same file");
        let aside = std::fs::read_to_string(folder.path().join("log.csv.1")).expect("put aside");
        assert!(aside.starts_with(HEADER) && aside.contains(",get,get,user%201,6,,,miss,"), "{aside}");
        assert_eq!(std::fs::read_to_string(&path).expect("a new one"), HEADER);
        let moved = folder.path().join("moved.csv");
        std::fs::rename(&path, &moved).expect("moved");
        log.apply(&ledger, &Watch { request_log_max_bytes: base::ByteSize::mib(1), ..wanted }, Files::Reopen)
            .expect("a new file");
        log.notes(0, "t", Spoken::Memcached).expect("on").note(&asked(b"user 2"));
        log.stop(&ledger);
        assert!(std::fs::read_to_string(&path).expect("a new one").contains("user%202"));
        assert_eq!(std::fs::read_to_string(&moved).expect("it is left"), HEADER);
    }
}

//! A trace as accesses: hash, size and kind.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, Result};
use base::hash::key_hash;
use curve::{Access, Estimator, Kind};
use serde::{Serialize, Serializer};

use super::KeySizes;
use crate::engine_memory::{EngineMemory, ItemSize};
use crate::reference::{KeyMap, key_id};
use crate::replay::{ReplayOptions, TimeUnit};
use crate::trace::{Column, Op, Request, TraceError, TraceOptions, TraceReader};

/// Accesses of a batch: enough that handing one over costs nothing, few enough for the processor's
/// cache.
const BATCH: usize = 16_384;
/// Keys that stand for all of a trace, where the engine is asked what items take.
const EXAMPLES: usize = 1 << 16;
/// Requests of which one tells a size where a trace tells any.
const FIRST_REQUESTS: usize = 10_000;
/// Batches that may wait for the estimators.
const WAITING: usize = 8;

/// The treatment of the writes of a trace. Deletions remove keys in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// They count as requests, as in most published curves.
    #[default]
    Count,
    /// They make the key recent, and are not counted.
    Refresh,
    /// They are passed over.
    Ignore,
    /// They fill what a read has missed, and are not counted. A read fills what it misses itself if
    /// it tells a size, as a read that hit when the trace was taken; one that tells none fills
    /// nothing. So are a server's own logs.
    Fill,
}

impl Writes {
    /// The options of a replay that treats the writes of a trace in this way. `is_log` says that
    /// the trace is a server's own, with its times.
    pub fn replayed(self, is_log: bool, options: &ReplayOptions) -> ReplayOptions {
        let fills = self == Self::Fill;
        ReplayOptions {
            own_fills: fills,
            writes_replace: fills || options.writes_replace,
            ignores_writes: self == Self::Ignore,
            trace_time: options.trace_time.or((fills && is_log).then_some(TimeUnit::MICROS)),
            ..options.clone()
        }
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Count => "count",
            Self::Refresh => "refresh",
            Self::Ignore => "ignore",
            Self::Fill => "fill",
        })
    }
}

impl Serialize for Writes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Writes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "count" => Ok(Self::Count),
            "refresh" => Ok(Self::Refresh),
            "ignore" => Ok(Self::Ignore),
            "fill" => Ok(Self::Fill),
            _ => Err(format!("`{text}` is none of count, refresh, ignore and fill")),
        }
    }
}

/// Options for the reading of traces.
#[derive(Clone, Debug)]
pub struct Source {
    /// Size of an item where the trace does not tell.
    pub value_size: u32,
    /// Bytes that the cache spends on an item besides: key, header, index. Counts where
    /// [`Self::engine`] is not given.
    pub overhead: u32,
    /// Memory model of the engine; sizes are then those of memory rather than of values.
    pub engine: Option<Arc<EngineMemory>>,
    /// The sizes of keys, for requests that do not tell them.
    pub sizes: Option<Arc<KeySizes>>,
    /// In the place of sizes that the trace does not tell: 200 B for nine keys of ten, 10,000 B for
    /// the tenth.
    pub bimodal: bool,
    /// The treatment of writes.
    pub writes: Writes,
    /// Most requests that are read of each trace.
    pub limit: Option<u64>,
    /// The columns of a trace without a header line.
    pub columns: Option<Vec<Column>>,
    /// The tenant whose requests alone are read. `None`: all requests, whose keys are told apart by
    /// tenant.
    pub tenant: Option<String>,
    /// Names the hash of keys, and so the sample.
    pub seed: u64,
}

impl Default for Source {
    fn default() -> Self {
        Self {
            value_size: 100,
            overhead: 0,
            engine: None,
            sizes: None,
            bimodal: false,
            writes: Writes::default(),
            limit: None,
            columns: None,
            tenant: None,
            seed: 1,
        }
    }
}

impl Source {
    pub(super) fn open(&self, trace: &Path) -> Result<TraceReader> {
        Ok(TraceReader::open_with(
            trace,
            &TraceOptions { columns: self.columns.clone(), tenant: self.tenant.clone() },
        )?)
    }

    /// Returns whether a trace is a server's own, which has the writes that fill what its reads
    /// missed.
    ///
    /// # Errors
    /// Where the trace cannot be read.
    pub fn has_own_fills(&self, trace: &Path) -> Result<bool> {
        Ok(self.open(trace)?.has_own_fills())
    }

    /// Returns whether one of the first requests of the trace has a size. Not the first alone: a
    /// miss has none in a server's own log.
    ///
    /// # Errors
    /// If the trace can't be read.
    pub fn tells_sizes(&self, trace: &Path) -> Result<bool> {
        let mut reader = self.open(trace)?;
        for _ in 0..FIRST_REQUESTS {
            match reader.next_request()? {
                Some(request) if request.size.is_none() => {}
                found => return Ok(found.is_some()),
            }
        }
        Ok(false)
    }

    /// The sizes of keys and values of the first keys of a trace, in the order in which they come.
    ///
    /// # Errors
    /// Where the trace cannot be read.
    pub fn examples(&self, trace: &Path) -> Result<Vec<ItemSize>> {
        let mut reader = self.open(trace)?;
        let (mut seen, mut examples) = (HashSet::new(), Vec::new());
        let mut left = self.limit.unwrap_or(u64::MAX).min(64 * EXAMPLES as u64);
        while left > 0
            && examples.len() < EXAMPLES
            && let Some(request) = reader.next_request()?
        {
            left -= 1;
            // A key that is removed or never filled has no item.
            let is_item = request.op != Op::Delete
                && (self.writes != Writes::Fill || self.told_size(&request).is_some());
            if is_item && seen.insert(key_id(request.key)) {
                let value = self.told_size(&request).unwrap_or(self.value_size);
                examples.push((request.key_len() as u8, value));
            }
        }
        Ok(examples)
    }

    /// The size of a request's value, as the request tells it or another one for the key.
    #[inline]
    fn told_size(&self, request: &Request<'_>) -> Option<u32> {
        match request.size {
            Some(size) => Some(u32::try_from(size).unwrap_or(u32::MAX)),
            None => self.sizes.as_ref().and_then(|sizes| sizes.get(request.key)),
        }
    }

    /// Returns the access that a request is to the estimators; `None` if it is skipped.
    fn access(&self, request: &Request<'_>) -> Option<Access> {
        let kind = match (request.op, self.writes) {
            (Op::Get, Writes::Fill) if request.size.is_none() => Kind::Lookup,
            (Op::Get, _) | (Op::Set, Writes::Count) => Kind::Read,
            (Op::Set, Writes::Refresh | Writes::Fill) => Kind::Write,
            (Op::Delete, _) => Kind::Remove,
            (Op::Set, Writes::Ignore) | (Op::Touch, _) => return None,
        };
        let hash = key_hash(self.seed, &key_id(request.key).to_le_bytes());
        let size = match self.told_size(request) {
            Some(size) => size,
            None if self.bimodal => [200, 10_000][usize::from(hash % 10 == 3)],
            None => self.value_size,
        };
        let size = match &self.engine {
            Some(engine) => engine.item_bytes(request.key_len() as u32, size),
            None => size.saturating_add(self.overhead),
        };
        Some(Access { hash, size: size.max(1), kind })
    }

    /// Hands every access of a trace to each of the estimators, and says how many there were.
    ///
    /// # Errors
    /// Where the trace cannot be read.
    pub fn feed(&self, trace: &Path, estimators: &mut [&mut dyn Estimator]) -> Result<u64> {
        let reader = self.open(trace)?;
        let (send, receive) = sync_channel(WAITING);
        let (back, used) = sync_channel(WAITING);
        let source = self.clone();
        let thread = base::thread::spawn("trace", move || source.read(reader, &send, &used))?;
        let mut requests = 0;
        for batch in receive {
            for estimator in &mut *estimators {
                estimator.record_all(&batch);
            }
            requests += batch.iter().filter(|access| access.kind.counts()).count() as u64;
            // Whether the reader still wants the memory does not matter.
            let _ = back.try_send(batch);
        }
        let read = thread.join().map_err(|_| anyhow::anyhow!("reading {} panicked", trace.display()))?;
        read.with_context(|| format!("after {requests} requests"))?;
        Ok(requests)
    }

    /// Reads a trace to its end, a batch at a time.
    fn read(
        &self,
        mut reader: TraceReader,
        send: &SyncSender<Vec<Access>>,
        used: &Receiver<Vec<Access>>,
    ) -> Result<(), TraceError> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut expiries = (self.writes == Writes::Fill && reader.has_own_fills()).then(Expiries::default);
        while left > 0
            && let Some(request) = reader.next_request()?
        {
            left -= 1;
            let access = self.access(&request);
            if let (Some(expiries), Some(access)) = (&mut expiries, access)
                && expiries.has_ended(&request)
            {
                batch.push(Access { kind: Kind::Remove, ..access });
            }
            batch.extend(access);
            if batch.len() >= BATCH {
                let mut next = used.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
                next.clear();
                if send.send(std::mem::replace(&mut batch, next)).is_err() {
                    return Ok(());
                }
            }
        }
        let _ = send.send(batch);
        reader.warn_of_marks();
        Ok(())
    }
}

/// The expiry times of keys, by the times to live of the writes in a server's own log, in its
/// microseconds.
#[derive(Default)]
struct Expiries(KeyMap<u64>);

impl Expiries {
    /// Takes a request in, and returns whether it asks for a key that has expired. One that hit has
    /// not.
    fn has_ended(&mut self, request: &Request<'_>) -> bool {
        let Some(now) = request.ts else { return false };
        match (request.op, request.ttl_secs) {
            (Op::Set | Op::Touch, Some(secs)) if secs > 0 => {
                self.0.insert(key_id(request.key), now.saturating_add(u64::from(secs) * 1_000_000));
                false
            }
            (Op::Set | Op::Delete, _) => {
                self.0.remove(&key_id(request.key));
                false
            }
            (Op::Get, _) if request.size.is_none() => {
                self.0.get(&key_id(request.key)).is_some_and(|end| *end <= now)
            }
            (Op::Get | Op::Touch, _) => false,
        }
    }
}

/// The traces that a path stands for: itself, or of a folder every `NAME/NAME.csv` and every ARC
/// `.lis` below it, packed or not.
///
/// # Errors
/// Where a folder cannot be read, or has no trace.
pub fn traces_in(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    };
    let mut traces = Vec::new();
    let folders = list(path)?.into_iter().filter(|path| path.is_dir());
    for folder in std::iter::once(path.to_owned()).chain(folders) {
        let own = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_trace = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let plain = name.trim_end_matches(".zst").trim_end_matches(".gz");
            plain.ends_with(".lis") || plain.strip_suffix(".csv") == Some(own.as_str())
        };
        traces.extend(list(&folder)?.into_iter().filter(|file| file.is_file() && is_trace(file)));
    }
    anyhow::ensure!(!traces.is_empty(), "{}: no trace is in this folder", path.display());
    Ok(traces)
}

//! What a tenant asks for, one operation after the other.

use std::path::Path;
use std::sync::Arc;

use base::rng::{RngExt, SeededRng};
use bench::trace::{Op, TraceReader};
use bench::workload::{OpKind, Ranks, Sampler, Workload, WorkloadError};

use crate::scenario::{Pattern, Source};

/// What is done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// It is removed.
    Remove,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The key's number.
    pub key: u64,
    /// Key and value, in bytes.
    pub size: u32,
    /// What is done.
    pub action: Action,
}

/// A trace in memory: 9 bytes for each operation. Keys are numbered in the order of their first appearance.
#[derive(Clone, Debug)]
pub struct Trace {
    keys: Vec<u32>,
    sizes: Vec<u32>,
    actions: Vec<Action>,
    /// How many different keys there are.
    pub distinct_keys: u32,
    /// The mean size of keys, each counted once, in bytes.
    pub mean_size: f64,
}

impl Trace {
    /// Reads at most `limit` operations of a trace. Objects whose size the trace does not tell have `default_size` bytes, key
    /// included.
    ///
    /// # Errors
    /// Where the file cannot be read, has no request, or has more than 2^32 keys.
    pub fn read(path: &Path, limit: usize, default_size: u32) -> anyhow::Result<Self> {
        let mut reader = TraceReader::open(path)?;
        let mut numbers = std::collections::HashMap::new();
        let mut trace = Self {
            keys: Vec::new(),
            sizes: Vec::new(),
            actions: Vec::new(),
            distinct_keys: 0,
            mean_size: 0.0,
        };
        let mut key = Vec::new();
        while trace.keys.len() < limit {
            let Some(request) = reader.next_request()? else { break };
            request.write_key(&mut key);
            let next = u32::try_from(numbers.len())?;
            let number = *numbers.entry(base::hash::key_hash_128(0, &key)).or_insert(next);
            let size = request
                .size
                .map_or(default_size, |size| u32::try_from(size + key.len() as u64).unwrap_or(u32::MAX));
            if number == next {
                trace.mean_size += f64::from(size);
            }
            trace.keys.push(number);
            trace.sizes.push(size);
            trace.actions.push(match request.op {
                Op::Get | Op::Touch => Action::Read,
                Op::Set => Action::Write,
                Op::Delete => Action::Remove,
            });
        }
        anyhow::ensure!(!trace.keys.is_empty(), "{}: there is no request in it", path.display());
        trace.distinct_keys = u32::try_from(numbers.len())?;
        trace.mean_size /= f64::from(trace.distinct_keys);
        Ok(trace)
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it has none, which no trace that was read is.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// An operation by its place.
    pub fn get(&self, at: usize) -> Operation {
        Operation { key: u64::from(self.keys[at]), size: self.sizes[at], action: self.actions[at] }
    }
}

/// A tenant's source, ready to be drawn from; shared by the runs of several policies.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// A declared workload, whose tables are made by each stream.
    Pattern(Pattern),
    /// CacheBench's distributions.
    CacheBench(Arc<Workload>),
    /// A trace.
    Trace(Arc<Trace>),
}

impl Prepared {
    /// Reads what the source names.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn new(source: &Source, seed: u64) -> anyhow::Result<Self> {
        Ok(match source {
            Source::Pattern(pattern) => Self::Pattern(pattern.clone()),
            Source::CacheBench { path, keys } => {
                let workload: Result<_, WorkloadError> = Workload::from_cachebench(path, *keys, seed);
                Self::CacheBench(Arc::new(workload?))
            }
            Source::Trace { path, requests, default_size } => {
                Self::Trace(Arc::new(Trace::read(path, *requests, *default_size)?))
            }
        })
    }

    /// The same trace with objects of one size, key included; other sources stay as they are.
    #[must_use]
    pub fn with_size(self, size: u32) -> Self {
        match self {
            Self::Trace(trace) => {
                let mut trace = Arc::unwrap_or_clone(trace);
                trace.sizes.fill(size);
                trace.mean_size = f64::from(size);
                Self::Trace(Arc::new(trace))
            }
            other => other,
        }
    }

    /// How many different keys it asks for.
    pub fn distinct_keys(&self) -> u64 {
        match self {
            Self::Pattern(pattern) => pattern.keys,
            Self::CacheBench(workload) => workload.distinct_keys(),
            Self::Trace(trace) => u64::from(trace.distinct_keys),
        }
    }

    /// The mean size of its objects, key and value, in bytes.
    pub fn mean_size(&self) -> f64 {
        match self {
            Self::Pattern(pattern) => f64::from(pattern.key_size) + pattern.value_size.mean(),
            Self::CacheBench(workload) => {
                let keys = workload.distinct_keys().max(1) as f64;
                let sum = workload
                    .pools()
                    .iter()
                    .map(|pool| pool.value_sizes().mean() * pool.distinct_keys() as f64);
                sum.sum::<f64>() / keys
            }
            Self::Trace(trace) => trace.mean_size,
        }
    }
}

/// Operations without end.
pub(super) enum Stream {
    Pattern { pattern: Pattern, ranks: Ranks, sizes: Vec<u32>, cursor: u64, scan: Scan },
    CacheBench(Sampler),
    Trace { trace: Arc<Trace>, at: usize },
}

/// What is left of a range that is being read.
#[derive(Clone, Copy, Default)]
pub(super) struct Scan {
    next: u64,
    left: u32,
}

impl Stream {
    pub(super) fn new(prepared: &Prepared, seed: u64) -> Self {
        match prepared {
            Prepared::Pattern(pattern) => Self::of_pattern(pattern.clone(), seed),
            Prepared::CacheBench(workload) => {
                Self::CacheBench(Sampler::new(Arc::clone(workload), seed, 0, 1))
            }
            Prepared::Trace(trace) => Self::Trace { trace: Arc::clone(trace), at: 0 },
        }
    }

    fn of_pattern(pattern: Pattern, seed: u64) -> Self {
        let ranks = Ranks::new(pattern.popularity, pattern.keys);
        let sizes = pattern.value_size.table(seed);
        Self::Pattern { ranks, sizes, cursor: 0, scan: Scan::default(), pattern }
    }

    /// Goes on with another pattern; the sizes of keys stay. Only for sources that are patterns.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Pattern)) {
        if let Self::Pattern { pattern, ranks, scan, .. } = self {
            change(pattern);
            *ranks = Ranks::new(pattern.popularity, pattern.keys);
            *scan = Scan::default();
        }
    }

    #[inline]
    pub(super) fn next(&mut self, rng: &mut SeededRng) -> Operation {
        match self {
            Self::Pattern { pattern, ranks, sizes, cursor, scan } => {
                let (key, action) = if scan.left > 0 {
                    scan.left -= 1;
                    scan.next += 1;
                    (scan.next % pattern.keys, Action::Read)
                } else {
                    let key = ranks.sample(rng, cursor);
                    let is_write = pattern.writes > 0.0 && rng.random::<f64>() < pattern.writes;
                    if pattern.scan_length > 1 && !is_write {
                        // Neighbours of a popular key are not themselves popular: ranges run over scattered numbers.
                        let start = base::hash::mix64(key) % pattern.keys;
                        *scan = Scan { next: start, left: rng.random_range(1..=pattern.scan_length) - 1 };
                        (start, Action::Read)
                    } else {
                        (key, if is_write { Action::Write } else { Action::Read })
                    }
                };
                let size = pattern.key_size + sizes[key as usize & (sizes.len() - 1)];
                Operation { key, size, action }
            }
            Self::CacheBench(sampler) => {
                let drawn = sampler.draw();
                let action = match drawn.kind {
                    OpKind::Get | OpKind::Touch => Action::Read,
                    OpKind::Set => Action::Write,
                    OpKind::Delete => Action::Remove,
                };
                Operation { key: drawn.key, size: u32::from(drawn.key_size) + drawn.value_size, action }
            }
            Self::Trace { trace, at } => {
                let operation = trace.get(*at);
                *at = (*at + 1) % trace.len();
                operation
            }
        }
    }
}

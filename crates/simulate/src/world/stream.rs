//! The operations of a tenant, one after the other.

use std::sync::Arc;

use anyhow::Context as _;
use base::rng::{RngExt, SeededRng};
use workload::engine_memory::ItemSize;
use workload::trace::{Op, TraceOptions, TraceReader};
use workload::{OpKind, Ranks, Sampler, Workload, WorkloadError};

use crate::scenario::{Pattern, Source, TraceSource};

/// An action on a key.
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
    /// The action.
    pub action: Action,
    /// Lifetime of a written object, in seconds; 0 = for ever.
    pub ttl_secs: u32,
}

/// A trace in memory: 9 bytes for each operation, 12 more if times count. Keys are numbered in the
/// order of their first appearance.
#[derive(Clone, Debug)]
pub struct Trace {
    keys: Vec<u32>,
    sizes: Vec<u32>,
    actions: Vec<Action>,
    /// Nanoseconds since the first operation, and lifetimes; empty if times do not count.
    times: Vec<u64>,
    ttls: Vec<u32>,
    /// Number of replays; 0 = again and again.
    passes: u32,
    /// Number of different keys.
    pub distinct_keys: u32,
    /// The mean size of keys, each counted once, in bytes.
    pub mean_size: f64,
}

impl Trace {
    /// Reads a trace. Objects whose size it does not state have the source's default size, key
    /// included.
    ///
    /// # Errors
    /// If the file cannot be read, has no request, has no times although they are required, or has
    /// more than 2^32 keys.
    pub fn read(source: &TraceSource) -> anyhow::Result<Self> {
        let path = &source.path;
        let options = TraceOptions { columns: source.columns.clone(), tenant: source.tenant.clone() };
        let mut reader = TraceReader::open_with(path, &options)?;
        let limit = if source.requests == 0 { usize::MAX } else { source.requests };
        let mut first_ts = None;
        let mut numbers = std::collections::HashMap::new();
        let mut trace = Self {
            keys: Vec::new(),
            sizes: Vec::new(),
            actions: Vec::new(),
            times: Vec::new(),
            ttls: Vec::new(),
            passes: source.passes,
            distinct_keys: 0,
            mean_size: 0.0,
        };
        let mut key = Vec::new();
        while trace.keys.len() < limit {
            let Some(request) = reader.next_request()? else { break };
            request.write_key(&mut key);
            let next = u32::try_from(numbers.len())?;
            let number = *numbers.entry(base::hash::key_hash_128(0, &key)).or_insert(next);
            let size = request.size.map_or(source.default_size, |size| {
                u32::try_from(size + key.len() as u64).unwrap_or(u32::MAX)
            });
            if number == next {
                trace.mean_size += f64::from(size);
            }
            if let Some(unit) = source.time_unit_nanos {
                let ts = request.ts.with_context(|| {
                    format!(
                        "{}: request {} has no time, and trace_times asks for it",
                        path.display(),
                        trace.keys.len() + 1
                    )
                })?;
                let since = ts.saturating_sub(*first_ts.get_or_insert(ts)).saturating_mul(unit);
                // Times of a log may be out of order by a little; time moves forward all the same.
                trace.times.push(since.max(trace.times.last().copied().unwrap_or(0)));
                trace.ttls.push(request.ttl_secs.unwrap_or(0));
            }
            trace.keys.push(number);
            trace.sizes.push(size);
            trace.actions.push(match request.op {
                Op::Get | Op::Touch => Action::Read,
                Op::Set => Action::Write,
                Op::Delete => Action::Remove,
            });
        }
        reader.warn_of_marks();
        anyhow::ensure!(!trace.keys.is_empty(), "{}: there is no request in it", path.display());
        trace.distinct_keys = u32::try_from(numbers.len())?;
        trace.mean_size /= f64::from(trace.distinct_keys);
        Ok(trace)
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the trace has no operation, which is false for every trace that was read.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// An operation by its place.
    pub fn get(&self, at: usize) -> Operation {
        let ttl_secs = self.ttls.get(at).copied().unwrap_or(0);
        Operation { key: u64::from(self.keys[at]), size: self.sizes[at], action: self.actions[at], ttl_secs }
    }

    /// Returns the time of an operation, in nanoseconds since the start, if the trace has times
    /// that count. After the last operation the first comes again, after a mean gap.
    fn due(&self, drawn: u64) -> Option<u64> {
        let (pass, at) = (drawn / self.len() as u64, (drawn % self.len() as u64) as usize);
        let length = self.times.last()? + self.times.last()? / self.len() as u64 + 1;
        Some(pass.saturating_mul(length).saturating_add(self.times[at]))
    }

    /// The sizes of the first keys.
    fn examples(&self, most: usize) -> Vec<ItemSize> {
        let mut next = 0;
        let is_first = |(key, _): &(&u32, &u32)| {
            let first = **key == next;
            next += u32::from(first);
            first
        };
        let firsts = self.keys.iter().zip(&self.sizes).filter(is_first).take(most);
        firsts.map(|(_, size)| (8, size.saturating_sub(8))).collect()
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
    /// Reads the source that is named.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn new(source: &Source, seed: u64) -> anyhow::Result<Self> {
        Ok(match source {
            Source::Pattern(pattern) => Self::Pattern(pattern.clone()),
            Source::CacheBench { path, keys } => {
                let workload: Result<_, WorkloadError> = Workload::from_cachebench(path, *keys, seed);
                Self::CacheBench(Arc::new(workload?))
            }
            Source::Trace(source) => Self::Trace(Arc::new(Trace::read(source)?)),
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

    /// The sizes of some of its objects, in the order in which they come.
    pub fn examples(&self, most: usize, seed: u64) -> Vec<ItemSize> {
        match self {
            Self::Pattern(pattern) => {
                let key = pattern.key_size.min(255) as u8;
                let sizes = pattern.value_size.table(seed);
                sizes.into_iter().cycle().take(most).map(|value| (key, value)).collect()
            }
            Self::CacheBench(workload) => {
                let mut sampler = Sampler::new(Arc::clone(workload), seed, 0, 1);
                let mut draw = || {
                    let drawn = sampler.draw();
                    (u8::try_from(drawn.key_size).unwrap_or(u8::MAX), drawn.value_size)
                };
                (0..most).map(|_| draw()).collect()
            }
            Self::Trace(trace) => trace.examples(most),
        }
    }

    /// Returns the number of different keys that the stream asks for.
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
    Trace { trace: Arc<Trace>, drawn: u64 },
}

/// The remaining part of a range that is being read.
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
            Prepared::Trace(trace) => Self::Trace { trace: Arc::clone(trace), drawn: 0 },
        }
    }

    fn of_pattern(pattern: Pattern, seed: u64) -> Self {
        let ranks = Ranks::new(pattern.popularity, pattern.keys);
        let sizes = pattern.value_size.table(seed);
        Self::Pattern { ranks, sizes, cursor: 0, scan: Scan::default(), pattern }
    }

    /// Continues with another pattern; the sizes of keys stay. Only for sources that are patterns.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Pattern)) {
        if let Self::Pattern { pattern, ranks, scan, .. } = self {
            change(pattern);
            *ranks = Ranks::new(pattern.popularity, pattern.keys);
            *scan = Scan::default();
        }
    }

    /// Returns the time of the next operation, in nanoseconds since the start; `None` if it has no
    /// set time.
    pub(super) fn due(&self) -> Option<u64> {
        match self {
            Self::Trace { trace, drawn } => trace.due(*drawn),
            _ => None,
        }
    }

    /// Returns the number of replays of a trace; `None` for other sources.
    pub(super) fn passes(&self) -> Option<f64> {
        match self {
            Self::Trace { trace, drawn } => Some(*drawn as f64 / trace.len() as f64),
            _ => None,
        }
    }

    /// Returns whether there is no further operation.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Trace { trace, drawn } => {
                trace.passes > 0 && *drawn >= u64::from(trace.passes) * trace.len() as u64
            }
            _ => false,
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
                        // Neighbours of a popular key are not themselves popular: ranges run over
                        // scattered numbers.
                        let start = base::hash::mix64(key) % pattern.keys;
                        *scan = Scan { next: start, left: rng.random_range(1..=pattern.scan_length) - 1 };
                        (start, Action::Read)
                    } else {
                        (key, if is_write { Action::Write } else { Action::Read })
                    }
                };
                let size = pattern.key_size + sizes[key as usize & (sizes.len() - 1)];
                Operation { key, size, action, ttl_secs: 0 }
            }
            Self::CacheBench(sampler) => {
                let drawn = sampler.draw();
                let action = match drawn.kind {
                    OpKind::Get | OpKind::Touch => Action::Read,
                    OpKind::Set => Action::Write,
                    OpKind::Delete => Action::Remove,
                };
                let size = u32::from(drawn.key_size) + drawn.value_size;
                Operation { key: drawn.key, size, action, ttl_secs: 0 }
            }
            Self::Trace { trace, drawn } => {
                let operation = trace.get((*drawn % trace.len() as u64) as usize);
                *drawn += 1;
                operation
            }
        }
    }
}

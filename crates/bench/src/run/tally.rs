//! The counts of one thread.

use workload::histogram::Latencies;
use workload::{OpKind, Operation};

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A read found a value, which was the right one.
    Hit,
    /// A read found a value that is not the one of its key.
    WrongValue,
    /// A read found nothing.
    Miss,
    /// Anything else was done.
    Done,
    /// A removal or touch found no such key.
    NotFound,
    /// The target refused.
    Refused,
}

/// The reads of one pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolCounts {
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) fills: u64,
}

/// Counts and latencies of a phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Operations finished, by kind in the order of [`OpKind::ALL`]; what a look-aside miss writes
    /// is not among them.
    pub(crate) done: [u64; OpKind::ALL.len()],
    pub(crate) latencies: [Latencies; OpKind::ALL.len()],
    pub(crate) hits: u64,
    pub(crate) fills: u64,
    pub(crate) not_found: u64,
    pub(crate) refused: u64,
    pub(crate) wrong_values: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// The target's words for its first refusal.
    pub(crate) first_refusal: Option<String>,
    /// Reads and what became of them by pool.
    pub(crate) pools: Vec<PoolCounts>,
    /// The thread's time from first to last operation, in nanoseconds.
    pub(crate) nanos: u64,
}

impl Tally {
    /// Counts an operation that is finished; `latency` where it was measured.
    #[inline]
    pub(crate) fn count(&mut self, operation: &Operation, outcome: Outcome, latency: Option<u64>) {
        let kind = operation.kind as usize;
        self.done[kind] += 1;
        if operation.kind == OpKind::Get {
            let pool = self.pool(operation.pool);
            pool.gets += 1;
            pool.hits += u64::from(outcome == Outcome::Hit);
        }
        match outcome {
            Outcome::Hit => {
                self.hits += 1;
                self.bytes_read += u64::from(operation.value_size);
            }
            Outcome::Done if operation.kind == OpKind::Set => {
                self.bytes_written += u64::from(operation.value_size);
            }
            Outcome::Miss | Outcome::Done => {}
            Outcome::NotFound => self.not_found += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::WrongValue => self.wrong_values += 1,
        }
        if let Some(nanos) = latency {
            self.latencies[kind].record(nanos);
        }
    }

    /// Counts what a look-aside miss wrote.
    #[inline]
    pub(crate) fn count_fill(&mut self, operation: &Operation, stored: bool) {
        self.fills += 1;
        self.pool(operation.pool).fills += 1;
        if stored {
            self.bytes_written += u64::from(operation.value_size);
        } else {
            self.refused += 1;
        }
    }

    #[inline]
    fn pool(&mut self, pool: u16) -> &mut PoolCounts {
        let pool = usize::from(pool);
        if self.pools.len() <= pool {
            self.pools.resize(pool + 1, PoolCounts::default());
        }
        &mut self.pools[pool]
    }

    /// Keeps the first reason for a refusal.
    pub(crate) fn note_refusal(&mut self, reason: &[u8]) {
        self.first_refusal.get_or_insert_with(|| String::from_utf8_lossy(reason).into_owned());
    }

    /// All operations that were asked for.
    pub(crate) fn operations(&self) -> u64 {
        self.done.iter().sum()
    }

    /// Operations per second of the thread's own time.
    pub(crate) fn rate(&self) -> f64 {
        if self.nanos == 0 { 0.0 } else { self.operations() as f64 * 1e9 / self.nanos as f64 }
    }

    /// Adds what another thread counted; the time becomes the longer of both.
    pub(crate) fn add(&mut self, other: &Self) {
        for (kind, latencies) in self.latencies.iter_mut().enumerate() {
            self.done[kind] += other.done[kind];
            latencies.add(&other.latencies[kind]);
        }
        for (pool, counts) in other.pools.iter().enumerate() {
            let sum = self.pool(pool as u16);
            sum.gets += counts.gets;
            sum.hits += counts.hits;
            sum.fills += counts.fills;
        }
        self.hits += other.hits;
        self.fills += other.fills;
        self.not_found += other.not_found;
        self.refused += other.refused;
        self.wrong_values += other.wrong_values;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.nanos = self.nanos.max(other.nanos);
        if self.first_refusal.is_none() {
            self.first_refusal.clone_from(&other.first_refusal);
        }
    }
}

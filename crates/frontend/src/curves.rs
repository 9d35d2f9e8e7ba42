//! The summary for operators of the miss-ratio curves that pools learn: how much each was learnt
//! from, and what the pool would miss with half of its memory, with all of it, with a GiB more, and
//! with twice as much.

use millpond::watch::PoolCurve;
use millpond::{Cache, PoolStats};

/// Sizes at which a curve is read: multiples of the memory that the pool has now, and bytes more
/// than that.
const SIZES: [(&str, f64, u64); 4] =
    [("half", 0.5, 0), ("present", 1.0, 0), ("gib_more", 1.0, 1 << 30), ("double", 2.0, 0)];

/// A pool's curve, in figures.
pub struct Outlook {
    /// Reads of followed keys that it was learnt from.
    pub samples: u64,
    /// Accesses to followed keys that were left out.
    pub lost: u64,
    /// Keys that are followed now.
    pub keys: u64,
    /// Memory that learning takes.
    pub bytes: u64,
    /// The share of all keys that is followed.
    pub rate: f64,
    /// Bound of the curve's error, which holds in 95 of 100 cases: the mean distance to the exact
    /// curve over all sizes.
    pub error: f64,
    /// The present memory of the pool: slabs, index and queues.
    pub present_bytes: u64,
    /// The miss ratios, by name of the size. Empty until there was a request.
    pub miss_ratios: Vec<(&'static str, f64)>,
}

impl Outlook {
    /// Returns the summary of a pool; `None` if it does not learn its curve. Costs what
    /// [`Cache::curve`] costs.
    pub fn of(cache: &Cache, pool: &PoolStats) -> Option<Self> {
        let learnt = cache.curve(pool.id).ok().flatten()?;
        let curve = learnt.in_memory();
        let PoolCurve { memory_bytes, rate, samples, lost, bytes, .. } = learnt;
        let confidence = curve.confidence()?;
        let is_known = confidence.requests > 0.0;
        let read = |(name, times, more): (&'static str, f64, u64)| {
            (name, curve.miss_ratio(memory_bytes as f64 * times + more as f64))
        };
        Some(Self {
            samples,
            lost,
            keys: confidence.keys,
            bytes: bytes as u64,
            rate,
            error: confidence.error,
            present_bytes: memory_bytes,
            miss_ratios: SIZES.into_iter().filter(|_| is_known).map(read).collect(),
        })
    }
}

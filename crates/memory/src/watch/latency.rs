//! Durations of calls: a sample of them, in histograms that all threads add to.
//!
//! A histogram has 32 buckets for each power of two, so that a value is known to 3 %. It takes 16
//! KiB, whatever it holds (as HdrHistogram with one and a half significant digits; Tene). Adding is
//! two atomic additions, which only a sampled call pays.

use std::sync::atomic::{AtomicU64, Ordering};

/// The kinds of calls that are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Timed {
    /// `find`, `find_with`, and each key of `find_many` and `find_many_with` at the mean of its
    /// batch. Without what the caller does with an item that it is shown.
    Find,
    /// `allocate`: a free chunk or, in a full cache, eviction.
    Allocate,
    /// `put`, `insert`, `insert_or_replace`, `replace_matching`.
    Insert,
    /// `remove` by key.
    Remove,
}

impl Timed {
    /// All, in the order in which they are reported.
    pub const ALL: [Self; 4] = [Self::Find, Self::Allocate, Self::Insert, Self::Remove];

    /// The name under which it is reported.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Find => "find",
            Self::Allocate => "allocate",
            Self::Insert => "insert",
            Self::Remove => "remove",
        }
    }
}

/// Buckets of a power of two, as a power of two.
const STEPS_LOG2: u32 = 5;
const STEPS: u64 = 1 << STEPS_LOG2;
/// Values of 2^40 ns (18 minutes) and more are counted in the last bucket.
const BUCKETS: usize = ((40 - STEPS_LOG2 as usize) + 1) * STEPS as usize;

/// A histogram of nanoseconds.
pub(crate) struct Histogram {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { counts, sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }
}

/// The bucket of a value. Below [`STEPS`] each value has its own; above, the leading
/// [`STEPS_LOG2`] + 1 bits name it.
fn bucket(nanos: u64) -> usize {
    let top = nanos.max(STEPS).ilog2();
    let shift = top - STEPS_LOG2;
    let in_power = (nanos >> shift) as usize;
    (shift as usize * STEPS as usize + in_power).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn largest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    ((bucket % STEPS + STEPS + 1) << shift) - 1
}

impl Histogram {
    /// The memory of all its buckets, in bytes.
    pub(crate) const BYTES: usize = BUCKETS * size_of::<AtomicU64>() + size_of::<Self>();

    /// Adds a value `times` times.
    pub(crate) fn add(&self, nanos: u64, times: u64) {
        self.counts[bucket(nanos)].fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(nanos.saturating_mul(times), Ordering::Relaxed);
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&self) {
        self.counts.iter().chain([&self.sum, &self.max]).for_each(|count| count.store(0, Ordering::Relaxed));
    }

    pub(crate) fn summary(&self, what: Timed) -> LatencyStats {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let samples: u64 = counts.iter().sum();
        let max_nanos = self.max.load(Ordering::Relaxed);
        let at = |quantile: f64| {
            let wanted = ((samples as f64 * quantile).ceil() as u64).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            found.map_or(0, |bucket| largest(bucket).min(max_nanos))
        };
        LatencyStats {
            what,
            samples,
            mean_nanos: self.sum.load(Ordering::Relaxed).checked_div(samples).unwrap_or(0),
            p50_nanos: at(0.5),
            p90_nanos: at(0.9),
            p99_nanos: at(0.99),
            p999_nanos: at(0.999),
            p9999_nanos: at(0.9999),
            max_nanos,
            sum_nanos: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// Durations of calls of one kind, in nanoseconds, by those that were sampled since sampling was
/// last switched on. Each holds the time of reading the clock once (23 to 42 ns). Percentiles are
/// known to 3 %, from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyStats {
    /// The kind of call that was timed.
    pub what: Timed,
    /// The number of calls that were timed.
    pub samples: u64,
    /// Their mean.
    pub mean_nanos: u64,
    /// The median.
    pub p50_nanos: u64,
    /// One in ten is longer.
    pub p90_nanos: u64,
    /// One in a hundred is longer.
    pub p99_nanos: u64,
    /// One in a thousand is longer.
    pub p999_nanos: u64,
    /// One in ten thousand is longer.
    pub p9999_nanos: u64,
    /// The longest, exactly.
    pub max_nanos: u64,
    /// All together.
    pub sum_nanos: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_narrow() {
        let mut before = 0;
        for value in
            (0..4_096).chain((12..40).flat_map(|power| [1 << power, (1 << power) + (1 << (power - 1))]))
        {
            let at = bucket(value);
            assert!(at >= before, "{value}");
            before = at;
            assert!(largest(at) >= value && largest(at) - value <= value / 32, "{value}: {}", largest(at));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_what_was_added() {
        let histogram = Histogram::default();
        (1..=100_000).for_each(|nanos| histogram.add(nanos, 1));
        let found = histogram.summary(Timed::Find);
        assert_eq!((found.samples, found.mean_nanos, found.max_nanos), (100_000, 50_000, 100_000));
        for (found, wanted) in [
            (found.p50_nanos, 50_000),
            (found.p90_nanos, 90_000),
            (found.p99_nanos, 99_000),
            (found.p999_nanos, 99_900),
            (found.p9999_nanos, 99_990),
        ] {
            assert!(found >= wanted && found <= wanted + wanted / 32, "{found} for {wanted}");
        }
        histogram.clear();
        assert_eq!(
            (histogram.summary(Timed::Find).samples, histogram.summary(Timed::Find).p50_nanos),
            (0, 0)
        );
        histogram.add(7, 16);
        assert_eq!(histogram.summary(Timed::Find).samples, 16);
    }
}

//! The cost of a miss: for followed keys, the time from a miss until the key is stored.
//!
//! A look-aside client that misses fetches from its backend and stores what it got. The time
//! between is the backend's latency as that client saw it.
//!
//! Of many misses under way at once some are lost, whatever their duration: a miss finds its slot
//! taken by one of another key that waits.

use std::time::Duration;

/// The cost of misses of a pool, from a sample of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MissCost {
    /// Misses that it was learnt from; older ones count less, as in the curve.
    pub samples: u64,
    /// The mean time from a miss until the key was stored.
    pub mean: Duration,
    /// The time that half of them took at most, to within a fifth.
    pub p50: Duration,
    /// The time that 99 of 100 took at most, to within a fifth.
    pub p99: Duration,
}

/// Misses that are followed at a time.
const SLOTS: usize = 256;
/// A key that is stored later than this was not stored because of the miss.
const PATIENCE_NANOS: u64 = 10_000_000_000;
/// Buckets for each power of two, and all of them.
const STEPS: u64 = 4;
const BUCKETS: usize = 40 * STEPS as usize;

#[derive(Clone, Copy, Default)]
struct Miss {
    hash: u64,
    nanos: u64,
}

/// The samples of a pool.
pub(super) struct Costs {
    misses: [Miss; SLOTS],
    counts: [u32; BUCKETS],
    sum_nanos: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self { misses: [Miss::default(); SLOTS], counts: [0; BUCKETS], sum_nanos: 0.0 }
    }
}

impl Costs {
    /// Notes a miss of a key, if none waits in its slot: of several of one key, the first counts.
    pub(super) fn missed(&mut self, hash: u64, now_nanos: u64) {
        let slot = &mut self.misses[slot(hash)];
        let is_waiting = slot.nanos > 0 && now_nanos.saturating_sub(slot.nanos) <= PATIENCE_NANOS;
        if !is_waiting {
            *slot = Miss { hash, nanos: now_nanos };
        }
    }

    /// Notes that a key was stored.
    pub(super) fn stored(&mut self, hash: u64, now_nanos: u64) {
        let slot = &mut self.misses[slot(hash)];
        if slot.hash != hash || slot.nanos == 0 {
            return;
        }
        let took = now_nanos.saturating_sub(slot.nanos);
        *slot = Miss::default();
        if took <= PATIENCE_NANOS {
            self.counts[bucket(took)] += 1;
            self.sum_nanos += took as f64;
        }
    }

    /// Has all that was learnt count half.
    pub(super) fn age(&mut self) {
        let before = self.samples();
        self.counts.iter_mut().for_each(|count| *count /= 2);
        self.sum_nanos *= if before > 0 { self.samples() as f64 / before as f64 } else { 0.0 };
    }

    /// Returns what was learnt; `None` if nothing was.
    pub(super) fn cost(&self) -> Option<MissCost> {
        let samples = self.samples();
        let quantile = |share: f64| {
            let wanted = (samples as f64 * share).ceil() as u64;
            let mut seen = 0;
            let reached = self.counts.iter().position(|count| {
                seen += u64::from(*count);
                seen >= wanted
            });
            Duration::from_nanos(reached.map_or(0, largest))
        };
        (samples > 0).then(|| MissCost {
            samples,
            mean: Duration::from_nanos((self.sum_nanos / samples as f64) as u64),
            p50: quantile(0.5),
            p99: quantile(0.99),
        })
    }

    fn samples(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }
}

/// The slot of a key; other bits than those by which keys are followed.
fn slot(hash: u64) -> usize {
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % SLOTS
}

/// The bucket of a time: its power of two, and the two bits below.
fn bucket(nanos: u64) -> usize {
    let power = nanos.max(STEPS).ilog2() as usize;
    let step = (nanos.max(STEPS) >> (power - 2)) as usize % STEPS as usize;
    ((power - 2) * STEPS as usize + step).min(BUCKETS - 1)
}

/// The largest time of a bucket, in nanoseconds.
fn largest(bucket: usize) -> u64 {
    let (power, step) = (bucket / STEPS as usize + 2, bucket as u64 % STEPS);
    ((STEPS + step + 1) << (power - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_in_its_bucket() {
        for nanos in [0, 4, 5, 7, 8, 1_000, 123_456, 999_999_999, PATIENCE_NANOS] {
            let at = bucket(nanos);
            assert!(nanos <= largest(at), "{nanos}");
            assert!(at == 0 || nanos > largest(at - 1), "{nanos}");
        }
    }

    #[test]
    fn the_first_miss_of_a_key_counts_until_the_key_is_stored() {
        let mut costs = Costs::default();
        costs.missed(7, 1_000);
        costs.missed(7, 5_000);
        costs.stored(7, 11_000);
        // Nobody missed it since.
        costs.stored(7, 99_000);
        costs.stored(8, 99_000);
        let cost = costs.cost().expect("one was learnt");
        assert_eq!((cost.samples, cost.mean), (1, Duration::from_nanos(10_000)));
        assert!((10_000..12_000).contains(&cost.p50.as_nanos()));
    }

    /// Half of all misses take a thousand times as long as the others; many more wait at a time
    /// than there are slots.
    #[test]
    fn slow_misses_count_as_often_as_quick_ones() {
        let mut costs = Costs::default();
        let mut stores = std::collections::BinaryHeap::new();
        for miss in 0..200_000_u64 {
            let now = miss * 200_000;
            while let Some(std::cmp::Reverse((at, key))) = stores.pop() {
                if at > now {
                    stores.push(std::cmp::Reverse((at, key)));
                    break;
                }
                costs.stored(key, at);
            }
            let key = base::hash::mix64(miss + 1);
            let takes = if key.is_multiple_of(2) { 1_000_000 } else { 1_000_000_000 };
            costs.missed(key, now + 1);
            stores.push(std::cmp::Reverse((now + 1 + takes, key)));
        }
        let mean = costs.cost().expect("it was learnt").mean.as_millis();
        assert!((400..600).contains(&mean), "{mean} ms");
    }

    #[test]
    fn what_is_stored_much_later_does_not_count() {
        let mut costs = Costs::default();
        costs.missed(7, 1);
        costs.stored(7, PATIENCE_NANOS + 2);
        costs.missed(7, 2 * PATIENCE_NANOS);
        assert_eq!(costs.cost(), None);
    }

    #[test]
    fn age_keeps_the_mean() {
        let mut costs = Costs::default();
        for key in 1..=100 {
            costs.missed(key, key);
            costs.stored(key, key + 1_000);
        }
        costs.age();
        let cost = costs.cost().expect("some are left");
        assert_eq!((cost.samples, cost.mean), (50, Duration::from_nanos(1_000)));
        (0..10).for_each(|_| costs.age());
        assert_eq!(costs.cost(), None);
    }
}

//! The durations of commands of RESP, each apart: for `INFO commandstats` and `latencystats`, and
//! `LATENCY HISTOGRAM`.
//!
//! Not every call is timed: lookups are made many at a time, and one turn in eight of those is
//! timed ([`crate::latency`]). So the figures of all calls of a command are those of the timed
//! ones, times how many calls there were for each of them.
//!
//! Every fourth bound of the buckets is one of the bounds that Redis 7.0 shows, which result from a
//! histogram with two significant digits (HdrHistogram): 1,032 ns less one, doubled again and
//! again. Three more lie between two of them, so that percentiles are within a quarter.

use protocol::resp::commands::NUMBERS;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Ledger, Part};

/// Nanoseconds below the first bound: the eighth of a microsecond.
const FIRST_NANOS: u64 = 129;
/// The first of Redis's bounds is this many doublings of the lowest one.
const TO_MICROSECOND: usize = 3;
/// Doublings up to Redis's last bound, beyond a second. Slower calls count there.
const DOUBLINGS: usize = 23;
/// Buckets between two doublings.
const PARTS: u64 = 4;
const BUCKETS: usize = 1 + DOUBLINGS * PARTS as usize;

/// Which bucket a time belongs to.
fn bucket(nanos: u64) -> usize {
    let beyond = nanos.saturating_add(1).min(FIRST_NANOS << DOUBLINGS);
    let doublings = beyond.div_ceil(FIRST_NANOS).next_power_of_two().trailing_zeros();
    let Some(before) = doublings.checked_sub(1) else { return 0 };
    let lower = FIRST_NANOS << before;
    1 + (u64::from(before) * PARTS + (beyond - 1 - lower) * PARTS / lower) as usize
}

/// The longest time of a bucket.
fn bound_nanos(bucket: usize) -> u64 {
    let Some(behind) = (bucket as u64).checked_sub(1) else { return FIRST_NANOS - 1 };
    let lower = FIRST_NANOS << (behind / PARTS);
    lower + ((behind % PARTS + 1) * lower).div_ceil(PARTS) - 1
}

/// The times of one command. Atomics that all workers add to: of commands that are called very
/// often, few calls are timed.
struct Timed {
    nanos: AtomicU64,
    calls: [AtomicU64; BUCKETS],
}

/// The times of all commands, by their numbers. Those of one take memory once it was called.
pub struct CallTimes([OnceLock<Box<Timed>>; NUMBERS]);

impl Default for CallTimes {
    fn default() -> Self {
        Self([const { OnceLock::new() }; NUMBERS])
    }
}

impl CallTimes {
    /// Counts `calls` calls, each of which took `nanos`.
    pub fn add(&self, number: usize, nanos: u64, calls: u64, ledger: &Ledger) {
        let Some(place) = self.0.get(number) else { return };
        let timed = place.get_or_init(|| {
            ledger.charge(Part::Fixed, size_of::<Timed>() as u64);
            Box::new(Timed { nanos: AtomicU64::new(0), calls: [const { AtomicU64::new(0) }; BUCKETS] })
        });
        timed.nanos.fetch_add(nanos.saturating_mul(calls).max(1), Ordering::Relaxed);
        if let Some(slot) = timed.calls.get(bucket(nanos)) {
            slot.fetch_add(calls, Ordering::Relaxed);
        }
    }

    /// Returns whether a call of the command was timed since the last [`Self::reset`].
    #[inline]
    pub fn knows(&self, number: usize) -> bool {
        let timed = self.0.get(number).and_then(OnceLock::get);
        timed.is_some_and(|timed| timed.nanos.load(Ordering::Relaxed) > 0)
    }

    /// Forgets all times.
    pub fn reset(&self) {
        for timed in self.0.iter().filter_map(OnceLock::get) {
            timed.calls.iter().chain([&timed.nanos]).for_each(|count| count.store(0, Ordering::Relaxed));
        }
    }

    /// Releases its charge from the ledger: it is about to be dropped.
    pub fn release(&self, ledger: &Ledger) {
        let made = self.0.iter().filter(|timed| timed.get().is_some()).count();
        ledger.release(Part::Fixed, (made * size_of::<Timed>()) as u64);
    }

    /// The times of one command, in addition to `sum`.
    pub fn add_to(&self, number: usize, sum: &mut TimeSum) {
        let Some(timed) = self.0.get(number).and_then(OnceLock::get) else { return };
        sum.nanos += timed.nanos.load(Ordering::Relaxed);
        for (slot, count) in sum.calls.iter_mut().zip(&timed.calls) {
            *slot += count.load(Ordering::Relaxed);
        }
    }
}

/// The times of a command, of one tenant or several.
#[derive(Clone, Debug)]
pub struct TimeSum {
    nanos: u64,
    calls: [u64; BUCKETS],
}

impl Default for TimeSum {
    fn default() -> Self {
        Self { nanos: 0, calls: [0; BUCKETS] }
    }
}

impl TimeSum {
    /// Calls that were timed.
    pub fn timed(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// `part` of the timed calls, as a part of `calls`.
    fn scaled(&self, part: u64, calls: u64) -> u64 {
        let scaled = u128::from(part) * u128::from(calls) / u128::from(self.timed().max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Returns the microseconds that `calls` calls took.
    pub fn micros(&self, calls: u64) -> u64 {
        self.scaled(self.nanos, calls) / 1000
    }

    /// The time in microseconds within which this per cent of the calls were.
    pub fn percentile_micros(&self, percent: f64) -> f64 {
        let wanted = (self.timed() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut count = 0;
        let found = self.calls.iter().position(|calls| {
            count += calls;
            count >= wanted
        });
        found.map_or(0.0, |at| bound_nanos(at) as f64 / 1000.0)
    }

    /// Returns how many of `calls` calls were within each of Redis's bounds, in microseconds; only
    /// bounds that more calls were within than within the one before.
    pub fn cumulative(&self, calls: u64) -> Vec<(u64, u64)> {
        let (mut all, mut shown) = (0, Vec::new());
        for (at, count) in self.calls.iter().enumerate() {
            all += count;
            let is_redis_bound = (at as u64).is_multiple_of(PARTS) && at >= TO_MICROSECOND * PARTS as usize;
            let before = shown.last().map_or(0, |(_, before)| *before);
            let count = self.scaled(all, calls);
            if is_redis_bound && count > before {
                shown.push((bound_nanos(at) / 1000, count));
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_within_the_bounds_of_its_bucket() {
        for at in 0..BUCKETS - 1 {
            let bound = bound_nanos(at);
            assert_eq!((bucket(bound), bucket(bound + 1)), (at, at + 1), "{bound} ns");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn bounds_are_those_that_redis_shows() {
        let shown: Vec<u64> = (0..=20).map(|octave| bound_nanos(12 + 4 * octave) / 1000).collect();
        let redis = [
            1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1_056, 2_113, 4_227, 8_454, 16_908, 33_816, 67_633,
            135_266, 270_532, 541_065, 1_082_130,
        ];
        assert_eq!(shown, redis);
        assert_eq!(bound_nanos(BUCKETS - 1) / 1000, 1_082_130);
    }

    #[test]
    fn what_is_known_of_some_calls_is_told_of_all() {
        let (times, ledger) = (CallTimes::default(), Ledger::new(1 << 20));
        assert!(!times.knows(3));
        times.add(3, 500, 99, &ledger);
        times.add(3, 1_000_000, 1, &ledger);
        let mut sum = TimeSum::default();
        times.add_to(3, &mut sum);
        times.add_to(4, &mut sum);
        assert_eq!((sum.timed(), sum.micros(100), sum.micros(800)), (100, 1_049, 8_396));
        assert_eq!(sum.cumulative(800), [(1, 792), (1_056, 800)]);
        let percentiles = [50.0, 99.0, 99.9].map(|percent| sum.percentile_micros(percent));
        assert!(percentiles[0] < 0.63 && percentiles[1] < 0.63 && percentiles[2] > 999.0, "{percentiles:?}");
        assert!(times.knows(3) && !times.knows(4) && ledger.part(Part::Fixed) > 0);
        times.reset();
        assert!(!times.knows(3));
        times.release(&ledger);
        assert_eq!(ledger.total(), 0);
    }
}

//! A token bucket: so many tokens come to it in a second, it holds what comes in its burst, and who
//! finds it empty waits.
//!
//! What has been done is paid for afterwards, as nobody knows before a turn what it will come to: a
//! bucket may owe tokens, and is then empty for longer. So the rate holds in the mean, and at any
//! moment the excess is at most one turn of each worker.
//!
//! The whole state is one number, the time at which the bucket will be full again if nobody takes
//! anything (the "theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371). A
//! taker moves it on, so that a single atomic serves all workers, touched once in a turn, and no
//! timer has to fill anything.

use std::sync::atomic::{AtomicU64, Ordering};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// How fast a bucket fills, and how much it holds: plain values without a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Tokens a second; 0 = there is no limit.
    pub(crate) per_sec: u64,
    /// The time in which it fills.
    pub(crate) burst_nanos: u64,
}

impl Rate {
    /// When a bucket is full that was to be full at `full_at` and from which `tokens` are taken
    /// now.
    pub(crate) fn take(self, full_at: u64, now: u64, tokens: u64) -> u64 {
        let nanos = u128::from(tokens) * NANOS_PER_SEC / u128::from(self.per_sec.max(1));
        full_at.max(now).saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// In how many nanoseconds a bucket that will be full at `full_at` has something in it; 0 = it
    /// has now.
    pub(crate) fn wait(self, full_at: u64, now: u64) -> u64 {
        let owed = full_at.saturating_sub(now);
        if self.per_sec == 0 || owed < self.burst_nanos { 0 } else { owed - self.burst_nanos + 1 }
    }
}

/// A bucket that all workers take from.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    per_sec: AtomicU64,
    burst_nanos: AtomicU64,
    full_at: AtomicU64,
}

impl Bucket {
    pub(crate) fn set_rate(&self, rate: Rate) {
        self.per_sec.store(rate.per_sec, Ordering::Relaxed);
        self.burst_nanos.store(rate.burst_nanos, Ordering::Relaxed);
    }

    fn rate(&self) -> Rate {
        Rate {
            per_sec: self.per_sec.load(Ordering::Relaxed),
            burst_nanos: self.burst_nanos.load(Ordering::Relaxed),
        }
    }

    /// Takes tokens, which there may be or not.
    pub(crate) fn take(&self, now: u64, tokens: u64) {
        let rate = self.rate();
        if rate.per_sec == 0 || tokens == 0 {
            return;
        }
        let later = |full_at| Some(rate.take(full_at, now, tokens));
        let _ = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// In how many nanoseconds there is something in it; 0 = now.
    pub(crate) fn wait(&self, now: u64) -> u64 {
        self.rate().wait(self.full_at.load(Ordering::Relaxed), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_its_rate() {
        let rate = Rate { per_sec: 100, burst_nanos: SECOND / 10 };
        let (mut full_at, mut now, mut taken) = (0, 50 * SECOND, 0);
        while rate.wait(full_at, now) == 0 {
            full_at = rate.take(full_at, now, 1);
            taken += 1;
        }
        assert_eq!(taken, 10, "a tenth of a second's worth");
        let end = now + 10 * SECOND;
        while now < end {
            now += rate.wait(full_at, now);
            full_at = rate.take(full_at, now, 1);
            taken += 1;
        }
        assert!((1_009..=1_012).contains(&taken), "{taken} in ten seconds and a burst");
    }

    #[test]
    fn what_is_owed_is_waited_for() {
        let rate = Rate { per_sec: 1_000, burst_nanos: SECOND };
        let full_at = rate.take(0, SECOND, 5_000);
        assert_eq!(full_at, 6 * SECOND);
        assert_eq!(rate.wait(full_at, SECOND), 4 * SECOND + 1);
        assert_eq!(rate.wait(full_at, 5 * SECOND + 1), 0);
        assert_eq!(rate.take(full_at, 100 * SECOND, 0), 100 * SECOND, "it holds no more than its burst");
    }

    #[test]
    fn without_a_rate_nobody_waits_and_large_amounts_do_not_overflow() {
        let none = Rate { per_sec: 0, burst_nanos: 0 };
        assert_eq!(none.wait(u64::MAX, 0), 0);
        let slow = Rate { per_sec: 1, burst_nanos: 1 };
        assert_eq!(slow.take(5, 5, u64::MAX), u64::MAX);
        let bucket = Bucket::default();
        bucket.take(0, 1_000);
        assert_eq!(bucket.wait(0), 0);
        bucket.set_rate(slow);
        bucket.take(0, 3);
        assert_eq!(bucket.wait(0), 3 * SECOND);
    }
}

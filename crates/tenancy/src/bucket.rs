//! A bucket of tokens that all workers take from, by the generic cell rate algorithm
//! ([`limit::gcra`]).
//!
//! Its state is one atomic word, which a worker touches once in a turn, and no timer has to fill
//! the bucket. What a turn has done is paid for afterwards. So the rate holds in the mean, and at
//! any moment the excess is at most one turn of each worker.

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use limit::Rate;

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
    fn a_bucket_limits_once_it_has_a_rate() {
        let bucket = Bucket::default();
        bucket.take(0, 1_000);
        assert_eq!(bucket.wait(0), 0);
        bucket.set_rate(Rate { per_sec: 1, burst_nanos: 1 });
        bucket.take(0, 3);
        assert_eq!(bucket.wait(0), 3 * SECOND);
    }
}

//! The generic cell rate algorithm: a bucket whose whole state is one number.
//!
//! The state is the time at which the bucket will be full again if no tokens are taken (the
//! "theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371). Taking tokens
//! advances that time. So one atomic word can hold the bucket of many threads, and no timer has to
//! fill it.
//!
//! Tokens are taken after a turn (one pass over a connection), because its cost is unknown before
//! it. A bucket may therefore owe tokens, and then stays empty for longer. The rate holds on
//! average. If callers take only from a bucket that is not empty, consumption exceeds rate and
//! burst by at most one take at any moment.
//!
//! # Two buckets
//! [`Rate`] and [`TokenBucket`](crate::TokenBucket) admit the same at a constant rate, as a test
//! shows. They remain two values, because their callers differ in three points that no parameter
//! covers:
//!
//! | | [`Rate`] | [`TokenBucket`](crate::TokenBucket) |
//! |---|---|---|
//! | answers | is the bucket not empty? (before the cost is known) | when does a known cost fit? |
//! | state | one integer, shared by threads without a lock | units and a time, of one owner |
//! | at a new rate | a debt keeps its duration, as the state is a time | a debt keeps its units, as HARE's shares change every second |
//!
//! One value for both would either put two words behind a lock on the server's path or lose
//! fractions of a unit in the simulator, and with them the repeatability of its figures.

use crate::Nanos;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The rate at which a bucket fills, and its size.
///
/// The bucket itself is a [`Nanos`], 0 at first: the time at which it is full.
///
/// ```
/// use millpond_limit::Rate;
///
/// let rate = Rate { per_sec: 1_000, burst_nanos: 1_000_000 };
/// let now = 5_000_000_000;
/// let full_at = rate.take(0, now, 3);
/// assert_eq!(full_at, now + 3_000_000);
/// assert_eq!(rate.wait(full_at, now), 2_000_001, "three tokens were taken where one was");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens per second; 0 = no limit.
    pub per_sec: u64,
    /// The time in which an empty bucket fills, in nanoseconds.
    pub burst_nanos: Nanos,
}

impl Rate {
    /// Takes `tokens` from a bucket that will be full at `full_at`, and returns its new full time.
    /// Tokens are taken even from an empty bucket.
    pub fn take(self, full_at: Nanos, now: Nanos, tokens: u64) -> Nanos {
        let nanos = u128::from(tokens) * NANOS_PER_SEC / u128::from(self.per_sec.max(1));
        full_at.max(now).saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the nanoseconds until a bucket that will be full at `full_at` is not empty; 0 = it
    /// is not empty now.
    pub fn wait(self, full_at: Nanos, now: Nanos) -> Nanos {
        let owed = full_at.saturating_sub(now);
        if self.per_sec == 0 || owed < self.burst_nanos { 0 } else { owed - self.burst_nanos + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SECOND, TokenBucket};
    use proptest::prelude::*;

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
    fn a_debt_delays_the_next_token() {
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
    }

    /// A bucket that is filled as the name says, in billionths of a token, exactly.
    struct Model {
        per_sec: i128,
        burst: i128,
        level: i128,
        at: Nanos,
    }

    impl Model {
        fn fill(&mut self, now: Nanos) {
            self.level = (self.level + self.per_sec * i128::from(now - self.at)).min(self.burst);
            self.at = now;
        }

        /// The time until the level is above 0.
        fn wait(&self) -> i128 {
            if self.level > 0 { 0 } else { -self.level / self.per_sec + 1 }
        }
    }

    proptest! {
        /// A take rounds down to a nanosecond, so that the bucket may be ready early by up to a
        /// nanosecond for each take.
        #[test]
        fn it_is_a_bucket_that_fills(
            per_sec in 1_u64..10_000_000,
            burst_nanos in 1_u64..SECOND,
            steps in prop::collection::vec((0_u64..SECOND / 5, 0_u64..100_000), 1..100),
        ) {
            let rate = Rate { per_sec, burst_nanos };
            let burst = i128::from(per_sec) * i128::from(burst_nanos);
            let mut model = Model { per_sec: per_sec.into(), burst, level: burst, at: 0 };
            let (mut full_at, mut now) = (0, 0);
            for (takes, (pause, tokens)) in (1..).zip(steps) {
                now += pause;
                model.fill(now);
                let early = model.wait() - i128::from(rate.wait(full_at, now));
                prop_assert!((0..=takes).contains(&early), "{early} ns early after {takes} takes");
                full_at = rate.take(full_at, now, tokens);
                model.level -= i128::from(tokens) * 1_000_000_000;
            }
        }

        /// At a constant rate, with a cost of one and a burst of whole tokens, it lets a token go
        /// when the other bucket does.
        #[test]
        fn both_buckets_admit_the_same_at_a_constant_rate(
            per_sec in 1_u64..1_000_000,
            burst in 1_u64..100,
            pauses in prop::collection::vec(0_u64..SECOND / 100, 1..200),
        ) {
            let rate = Rate { per_sec, burst_nanos: burst * SECOND / per_sec };
            let mut bucket = TokenBucket::new(per_sec as f64, burst as f64 / per_sec as f64);
            let (mut full_at, mut now) = (0, 0);
            for pause in pauses {
                now += pause;
                // This one gives the last token once it has a part of it, the other one when it has
                // all: it is ahead by a token's time.
                let ours = now + rate.wait(full_at, now);
                let theirs = bucket.ready_at(now, 1.0).expect("the rate is above 0");
                let token = SECOND / per_sec + 1;
                prop_assert!(ours <= theirs + 2 && theirs <= ours + token + 200, "{ours} and {theirs}");
                now = theirs;
                full_at = rate.take(full_at, now, 1);
                bucket.take(now, 1.0);
            }
        }
    }
}

//! The token bucket of a single owner, with fractional units and costs that are known in advance.
//!
//! [`Rate`](crate::Rate) is the bucket for threads that learn the cost afterwards; its module
//! compares the two.

use crate::{Nanos, SECOND, after};

/// A token bucket: tokens arrive at the rate, the bucket holds at most [`Self::burst`] of them, and
/// each unit that passes takes one.
///
/// Units may pass when the bucket holds that many tokens. If there are more units than it can hold,
/// they may pass when it is full; it then owes the difference, and nothing passes until the debt is
/// paid. So at most `rate * w + max(burst, largest units)` units pass in any window of `w` seconds,
/// and in the long run at most the rate, whatever the sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBucket {
    rate: f64,
    burst_secs: f64,
    /// Tokens at `at`; a negative number is a debt.
    tokens: f64,
    at: Nanos,
}

impl TokenBucket {
    /// The default size of the bucket, in seconds of the rate: 10 ms.
    pub const BURST_SECS: f64 = 0.01;

    /// Creates a full bucket with `rate` tokens per second that holds the tokens of `burst_secs`
    /// seconds.
    ///
    /// # Panics
    /// If a figure is negative or not a number.
    pub fn new(rate: f64, burst_secs: f64) -> Self {
        assert!(rate >= 0.0 && burst_secs >= 0.0, "a rate and a burst are numbers from 0 on");
        Self { rate, burst_secs, tokens: rate * burst_secs, at: 0 }
    }

    /// The tokens of a full bucket; at least one, so that a slow rate lets a unit pass.
    pub fn burst(&self) -> f64 {
        (self.rate * self.burst_secs).max(1.0)
    }

    /// Returns when `units` may pass, not before `now`; `None` if they never may at the present
    /// rate.
    pub fn ready_at(&self, now: Nanos, units: f64) -> Option<Nanos> {
        if units <= 0.0 {
            return Some(now);
        }
        let missing = units.min(self.burst()) - self.tokens_at(now);
        if missing <= 0.0 {
            return Some(now);
        }
        // The call may be for a time before the last units passed.
        if self.rate > 0.0 { after(now.max(self.at), missing / self.rate) } else { None }
    }

    /// Takes `units` if they may pass at `now`, and returns whether they did.
    pub fn pass(&mut self, now: Nanos, units: f64) -> bool {
        let tokens = self.tokens_at(now);
        let passes = units.min(self.burst()) <= tokens || units <= 0.0;
        if passes {
            (self.tokens, self.at) = (tokens - units, now.max(self.at));
        }
        passes
    }

    /// Takes `units` at `now`, a time that [`Self::ready_at`] returned. Units beyond the bucket's
    /// tokens become a debt.
    pub fn take(&mut self, now: Nanos, units: f64) {
        self.tokens = self.tokens_at(now) - units;
        self.at = now.max(self.at);
    }

    /// Changes the rate from `now` on. A debt is kept in units; savings are cut to the size of the
    /// new bucket.
    pub fn set_rate(&mut self, now: Nanos, rate: f64) {
        let (tokens, share_owed) =
            (self.tokens_at(now), self.tokens_at(now) / self.rate.max(f64::MIN_POSITIVE));
        self.rate = rate.max(0.0);
        // A debt is kept in units; savings are cut to the size of the new bucket.
        self.tokens = if share_owed < 0.0 { tokens } else { tokens.min(self.burst()) };
        self.at = now.max(self.at);
    }

    fn tokens_at(&self, now: Nanos) -> f64 {
        let secs = now.saturating_sub(self.at) as f64 / SECOND as f64;
        (self.tokens + self.rate * secs).min(self.burst())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_bucket_lets_its_burst_go_at_once_and_then_the_rate() {
        let mut bucket = TokenBucket::new(1000.0, 0.01);
        let mut at = 0;
        let times: Vec<Nanos> = (0..13)
            .map(|_| {
                at = bucket.ready_at(at, 1.0).unwrap();
                bucket.take(at, 1.0);
                at
            })
            .collect();
        assert_eq!(times[..10], [0; 10]);
        assert_eq!(times[10..], [1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn more_than_the_bucket_holds_goes_when_it_is_full_and_is_owed() {
        let mut bucket = TokenBucket::new(1000.0, 0.01);
        bucket.take(0, 110.0);
        assert_eq!(bucket.ready_at(0, 1.0), Some(SECOND * 101 / 1000));
        assert_eq!(bucket.ready_at(0, 500.0), Some(SECOND * 110 / 1000));
    }

    #[test]
    fn a_new_rate_holds_at_once_and_a_rate_of_nothing_lets_nothing_go() {
        let mut bucket = TokenBucket::new(1000.0, 0.01);
        bucket.take(0, 20.0);
        bucket.set_rate(0, 100.0);
        assert_eq!(bucket.ready_at(0, 1.0), Some(SECOND * 11 / 100));
        bucket.set_rate(0, 0.0);
        assert_eq!(bucket.ready_at(0, 1.0), None);
        assert_eq!(bucket.ready_at(5, 0.0), Some(5));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Pass(u32),
        Take(u32),
        SetRate(u32),
        Wait(Nanos),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0..2_000_u32).prop_map(Op::Pass),
            1 => (0..2_000_u32).prop_map(Op::Take),
            1 => (0..100_000_u32).prop_map(Op::SetRate),
            3 => (0..SECOND / 20).prop_map(Op::Wait),
        ]
    }

    /// A bucket in whole billionths of a token, so that nothing is rounded.
    struct Model {
        rate: i128,
        tokens: i128,
    }

    const TOKEN: i128 = SECOND as i128;

    impl Model {
        fn burst(&self) -> i128 {
            (self.rate * TOKEN / 100).max(TOKEN)
        }

        fn cut(&mut self) {
            self.tokens = self.tokens.min(self.burst());
        }

        fn missing(&self, units: u32) -> i128 {
            if units == 0 { 0 } else { (i128::from(units) * TOKEN).min(self.burst()) - self.tokens }
        }
    }

    proptest! {
        /// Exception: what misses less than a millionth of a token may go or not.
        #[test]
        fn it_is_a_bucket_of_whole_parts(first in 1..100_000_u32, ops in prop::collection::vec(op(), 1..100)) {
            let mut bucket = TokenBucket::new(first.into(), 0.01);
            let mut model = Model { rate: first.into(), tokens: i128::from(first) * TOKEN / 100 };
            let mut now = 0;
            for op in ops {
                match op {
                    Op::Wait(nanos) => {
                        now += nanos;
                        model.tokens += model.rate * i128::from(nanos);
                        model.cut();
                    }
                    Op::SetRate(rate) => {
                        bucket.set_rate(now, rate.into());
                        model.rate = rate.into();
                        model.cut();
                    }
                    Op::Take(units) => {
                        bucket.take(now, units.into());
                        model.tokens -= i128::from(units) * TOKEN;
                    }
                    Op::Pass(units) => {
                        let missing = model.missing(units);
                        let ready_at = bucket.ready_at(now, units.into());
                        let passes = bucket.pass(now, units.into());
                        prop_assert_eq!(ready_at == Some(now), passes);
                        if missing.abs() >= TOKEN / 1_000_000 {
                            prop_assert_eq!(passes, missing <= 0, "{} of a token miss", missing);
                        }
                        if passes {
                            model.tokens -= i128::from(units) * TOKEN;
                        } else if model.rate > 0 {
                            let due = i128::from(ready_at.expect("the rate is above 0") - now);
                            let exact = missing.max(0) / model.rate;
                            prop_assert!((due - exact).abs() <= 2 + exact / 1_000_000, "{due} for {exact}");
                        } else {
                            prop_assert_eq!(ready_at, None);
                        }
                    }
                }
            }
        }

        /// Whatever comes when, no window sees more than the rate and one burst.
        #[test]
        fn no_window_exceeds_the_rate_by_more_than_a_burst(
            rate in 1.0_f64..1e6,
            requests in proptest::collection::vec((0_u64..30_000_000, 0.0_f64..1.5), 1..200),
        ) {
            let mut bucket = TokenBucket::new(rate, 0.01);
            let burst = bucket.burst();
            let (mut at, mut gone): (Nanos, Vec<(Nanos, f64)>) = (0, Vec::new());
            for (wait, share) in requests {
                let units = share * burst;
                at = bucket.ready_at(at + wait, units).unwrap();
                bucket.take(at, units);
                gone.push((at, units));
            }
            let largest = gone.iter().map(|&(_, units)| units).fold(burst, f64::max);
            for (i, &(from, _)) in gone.iter().enumerate() {
                let mut sum = 0.0;
                for &(until, units) in &gone[i..] {
                    sum += units;
                    let most = rate * (until - from) as f64 / SECOND as f64 + largest;
                    prop_assert!(sum <= most * (1.0 + 1e-9) + 1e-6, "{sum} units in a window for {most}");
                }
            }
        }

        /// A queue that is never empty gets the whole rate.
        #[test]
        fn a_backlog_gets_the_whole_rate(rate in 10.0_f64..1e6, shares in proptest::collection::vec(0.01_f64..1.0, 50..100)) {
            let mut bucket = TokenBucket::new(rate, 0.01);
            let (mut at, mut sum) = (0, 0.0);
            for share in shares {
                let units = share * bucket.burst();
                at = bucket.ready_at(at, units).unwrap();
                bucket.take(at, units);
                sum += units;
            }
            let whole = rate * at as f64 / SECOND as f64;
            prop_assert!(sum >= whole - 1e-6 && sum <= whole + bucket.burst() + 1e-6 + rate * 1e-7);
        }
    }
}

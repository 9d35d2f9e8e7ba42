//! The schedule of requests in an open loop.

use std::time::Duration;

use base::Clock;
use base::rng::{Rng, SeededRng};

/// The distribution of the gaps between requests of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// Independently of each other (exponential gaps), as from very many clients.
    #[default]
    Poisson,
    /// At equal distances.
    Even,
}

/// The schedule of one thread's requests.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    gap_nanos: f64,
    arrivals: Arrivals,
    rng: SeededRng,
    /// Time at which the next request is due. Kept as a real number so that no gap is rounded.
    due: f64,
}

impl Pace {
    /// `per_second` requests a second from `start` on.
    pub(crate) fn new(per_second: f64, arrivals: Arrivals, seed: u64, start: u64) -> Self {
        let gap_nanos = 1e9 / per_second;
        let mut pace = Self { gap_nanos, arrivals, rng: base::rng::seeded(seed), due: start as f64 };
        pace.advance();
        pace
    }

    /// Returns the time at which the next request is due, in nanoseconds.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        self.due as u64
    }

    /// Goes on to the request after that.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.due += match self.arrivals {
            Arrivals::Even => self.gap_nanos,
            Arrivals::Poisson => {
                let unit = ((self.rng.next_u64() >> 11) + 1) as f64 / 9_007_199_254_740_992.0;
                -unit.ln() * self.gap_nanos
            }
        };
    }
}

/// Below this the processor is kept: sleeping costs up to 70 us more than was asked for.
const SPIN_NANOS: u64 = 100_000;

/// Waits until `due`, asleep where there is time for that. Returns the time. A manual clock is
/// moved instead.
pub(crate) fn wait_until(clock: &Clock, due: u64) -> u64 {
    loop {
        let now = clock.monotonic_nanos();
        let left = due.saturating_sub(now);
        if left == 0 {
            return now;
        }
        if matches!(clock, Clock::Manual(_)) {
            clock.advance(Duration::from_nanos(left));
            continue;
        }
        if left > SPIN_NANOS {
            base::thread::sleep(Duration::from_nanos(left - SPIN_NANOS));
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand requests at a thousand a second are due within ten seconds, whatever their
    /// gaps.
    #[test]
    fn schedules_keep_their_rate() {
        for (arrivals, tolerance) in [(Arrivals::Even, 1e-9), (Arrivals::Poisson, 0.03)] {
            let mut pace = Pace::new(1_000.0, arrivals, 3, 5_000_000_000);
            let mut gaps = Vec::new();
            for _ in 1..10_000 {
                let due = pace.due();
                pace.advance();
                gaps.push(pace.due() - due);
            }
            let span = (pace.due() - 5_000_000_000) as f64 / 1e9;
            assert!((span / 10.0 - 1.0).abs() <= tolerance, "{arrivals:?}: {span} s");
            // Of exponential gaps, 1/e are longer than the mean; of even ones none is.
            let long = gaps.iter().filter(|gap| **gap > 1_000_001).count() as f64 / 1e4;
            let wanted = if arrivals == Arrivals::Poisson { 0.368 } else { 0.0 };
            assert!((long - wanted).abs() < 0.02, "{arrivals:?}: {long}");
        }
    }

    #[test]
    fn waiting_ends_at_the_due_time_and_not_before() {
        let clock = Clock::System;
        let due = clock.monotonic_nanos() + 300_000;
        assert!(wait_until(&clock, due) >= due);
        let past = clock.monotonic_nanos() - 1;
        assert!(wait_until(&clock, past) >= past);
    }
}

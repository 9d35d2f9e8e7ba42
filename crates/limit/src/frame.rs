//! HopperKV's limiter, which counts in frames of fixed length and resets at their end.

use crate::{Nanos, SECOND, after};

/// The length of HopperKV's frame: 0.37 s, chosen by its authors so that limiters do not run in
/// step with other periods.
pub const FRAME_NANOS: Nanos = 370_000_000;

/// HopperKV's limiter, kept for comparison; the default is [`TokenBucket`](crate::TokenBucket).
///
/// Units may pass when as much of the frame has elapsed as the previous units needed at the rate:
/// the first units of a frame pass at once, whatever their size. At the end of the frame the count
/// restarts, and a new rate takes effect. So no savings are carried over, the debt of large units
/// is forgiven, and in the long run a tenant gets up to `rate + largest units / frame`.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameLimiter {
    rate: f64,
    next_rate: f64,
    frame: u64,
    /// Units that passed in this frame.
    progress: f64,
}

impl FrameLimiter {
    /// Creates a limiter of `rate` units per second.
    ///
    /// # Panics
    /// If the rate is negative or not a number.
    pub fn new(rate: f64) -> Self {
        assert!(rate >= 0.0, "a rate is a number from 0 on");
        Self { rate, next_rate: rate, frame: 0, progress: 0.0 }
    }

    /// Returns when units may pass, not before `now`; `None` if they never may at the present rate
    /// and the next.
    pub fn ready_at(&self, now: Nanos) -> Option<Nanos> {
        let now = now.max(self.frame * FRAME_NANOS);
        let later = now / FRAME_NANOS > self.frame;
        let (rate, progress) = if later { (self.next_rate, 0.0) } else { (self.rate, self.progress) };
        if rate <= 0.0 {
            // The next frame may have another rate.
            return (self.next_rate > 0.0).then_some((now / FRAME_NANOS + 1) * FRAME_NANOS);
        }
        let start = now / FRAME_NANOS * FRAME_NANOS;
        let end = start + FRAME_NANOS;
        let due = after(start, progress / rate).map_or(end, |due| due.min(end));
        if due == end && self.next_rate <= 0.0 { None } else { Some(due.max(now)) }
    }

    /// Counts `units` that pass at `now`.
    pub fn take(&mut self, now: Nanos, units: f64) {
        self.roll(now);
        self.progress += units;
    }

    /// Changes the rate from the next frame on.
    pub fn set_rate(&mut self, now: Nanos, rate: f64) {
        self.roll(now);
        self.next_rate = rate.max(0.0);
    }

    fn roll(&mut self, now: Nanos) {
        let frame = now / FRAME_NANOS;
        if frame > self.frame {
            (self.frame, self.progress, self.rate) = (frame, 0.0, self.next_rate);
        }
    }

    /// Returns the rate in the long run, in units per second, of a tenant that always has units of
    /// one size waiting.
    pub fn rate_of_backlog(rate: f64, units: f64) -> f64 {
        let frame_secs = FRAME_NANOS as f64 / SECOND as f64;
        // In each frame units pass at once, and then whenever the previous ones are paid for.
        units * (rate * frame_secs / units).ceil() / frame_secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// When each of `count` units of one size goes.
    fn times(limiter: &mut FrameLimiter, units: f64, count: usize) -> Vec<Nanos> {
        let mut at = 0;
        let go = |_| {
            at = limiter.ready_at(at).unwrap();
            limiter.take(at, units);
            at
        };
        (0..count).map(go).collect()
    }

    #[test]
    fn a_large_request_is_forgiven_at_the_end_of_the_frame() {
        // 10 units at 20 a second are half a second's worth, and go once in each 0.37 s.
        let gone = times(&mut FrameLimiter::new(20.0), 10.0, 4);
        assert_eq!(gone, [0, FRAME_NANOS, 2 * FRAME_NANOS, 3 * FRAME_NANOS]);
        assert!((FrameLimiter::rate_of_backlog(20.0, 10.0) - 10.0 / 0.37).abs() < 1e-9);
    }

    #[test]
    fn a_new_rate_holds_from_the_next_frame() {
        let mut limiter = FrameLimiter::new(100.0);
        limiter.take(0, 1.0);
        limiter.set_rate(1, 10.0);
        assert_eq!(limiter.ready_at(1), Some(SECOND / 100));
        limiter.take(FRAME_NANOS, 1.0);
        assert_eq!(limiter.ready_at(FRAME_NANOS), Some(FRAME_NANOS + SECOND / 10));
    }

    /// All that ever happened, asked anew each time.
    #[derive(Default)]
    struct Model {
        rates: Vec<(Nanos, f64)>,
        gone: Vec<(Nanos, f64)>,
    }

    impl Model {
        /// The rate of a frame is the last one that was set before the frame began.
        fn rate(&self, frame: u64) -> f64 {
            let before = |&&(at, _): &&(Nanos, f64)| at < frame * FRAME_NANOS;
            self.rates.iter().rfind(before).map_or(self.rates[0].1, |(_, rate)| *rate)
        }

        /// The first nanosecond by which the frame's units so far are paid for; else the first of
        /// the next frame in which the rate is above 0.
        fn ready_at(&self, now: Nanos) -> Option<Nanos> {
            let frame = now / FRAME_NANOS;
            let in_frame = self.gone.iter().filter(|(at, _)| at / FRAME_NANOS == frame);
            let units: f64 = in_frame.map(|(_, units)| units).sum();
            let next = (frame + 1) * FRAME_NANOS;
            if self.rate(frame) > 0.0 {
                let nanos = (units / self.rate(frame) * SECOND as f64).ceil() as Nanos;
                let due = frame * FRAME_NANOS + nanos;
                if due < next {
                    return Some(due.max(now));
                }
            }
            (self.rate(frame + 1) > 0.0).then_some(next)
        }
    }

    proptest! {
        #[test]
        fn it_is_a_log_of_the_frame(
            first in 1..200_u32,
            steps in prop::collection::vec((0..FRAME_NANOS, 0..30_u32, prop::option::weighted(0.2, 0..200_u32)), 1..80),
        ) {
            let mut limiter = FrameLimiter::new(first.into());
            let mut model = Model { rates: vec![(0, first.into())], ..Model::default() };
            let mut now = 0;
            for (pause, units, rate) in steps {
                now += pause;
                if let Some(rate) = rate {
                    limiter.set_rate(now, rate.into());
                    model.rates.push((now, rate.into()));
                }
                prop_assert_eq!(limiter.ready_at(now), model.ready_at(now), "at {}", now);
                now = model.ready_at(now).unwrap_or(now);
                limiter.take(now, units.into());
                model.gone.push((now, units.into()));
            }
        }
    }

    #[test]
    fn a_rate_of_nothing_lets_nothing_go_after_its_frame() {
        let mut limiter = FrameLimiter::new(10.0);
        limiter.take(0, 100.0);
        assert_eq!(limiter.ready_at(0), Some(FRAME_NANOS));
        limiter.set_rate(0, 0.0);
        assert_eq!(limiter.ready_at(0), None);
    }
}

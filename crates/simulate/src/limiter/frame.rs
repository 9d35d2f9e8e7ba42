//! HopperKV's limiter: it counts in frames of fixed length and forgets at their end.

use super::{Nanos, SECOND, after};

/// The length of HopperKV's frame: 0.37 s, chosen by its authors so that limiters do not run in
/// step with other periods.
pub const FRAME_NANOS: Nanos = 370_000_000;

/// HopperKV's limiter, kept to show what it does; the default is [`super::TokenBucket`].
///
/// Units may go when as much of the frame has passed as the units before them needed at the rate:
/// the frame's first go at once, whatever their size. At the frame's end the count begins anew, and
/// a new rate is taken over. So nothing saved up is carried over, the debt of large units is
/// forgiven, and in the long run a tenant gets up to `rate + largest units / frame`.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameLimiter {
    rate: f64,
    next_rate: f64,
    frame: u64,
    /// Units that went in this frame.
    progress: f64,
}

impl FrameLimiter {
    /// A limiter of `rate` units per second.
    ///
    /// # Panics
    /// Where the rate is negative or not a number.
    pub fn new(rate: f64) -> Self {
        assert!(rate >= 0.0, "a rate is a number from 0 on");
        Self { rate, next_rate: rate, frame: 0, progress: 0.0 }
    }

    pub(super) fn ready_at(&self, now: Nanos) -> Option<Nanos> {
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

    pub(super) fn take(&mut self, now: Nanos, units: f64) {
        self.roll(now);
        self.progress += units;
    }

    pub(super) fn set_rate(&mut self, now: Nanos, rate: f64) {
        self.roll(now);
        self.next_rate = rate.max(0.0);
    }

    fn roll(&mut self, now: Nanos) {
        let frame = now / FRAME_NANOS;
        if frame > self.frame {
            (self.frame, self.progress, self.rate) = (frame, 0.0, self.next_rate);
        }
    }

    /// What a tenant that always has units of one size waiting gets in the long run, in units per
    /// second, computed.
    pub fn rate_of_backlog(rate: f64, units: f64) -> f64 {
        let frame_secs = FRAME_NANOS as f64 / SECOND as f64;
        // In each frame units go at once and then whenever those before are paid for.
        units * (rate * frame_secs / units).ceil() / frame_secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_rate_of_nothing_lets_nothing_go_after_its_frame() {
        let mut limiter = FrameLimiter::new(10.0);
        limiter.take(0, 100.0);
        assert_eq!(limiter.ready_at(0), Some(FRAME_NANOS));
        limiter.set_rate(0, 0.0);
        assert_eq!(limiter.ready_at(0), None);
    }
}

//! Rate limiters in virtual time.
//!
//! HARE (FAST '26, section 4) enforces its allocations of everything but memory by limiting rates.
//! The paper leaves open how; HopperKV counts in frames ([`FrameLimiter`]), which lets a tenant
//! have more than its rate. The default here is the token bucket ([`TokenBucket`]), which does not.
//!
//! A limiter is asked when so many units may go ([`Limiter::ready_at`]), and told when they do
//! ([`Limiter::take`]). Who waits, and in which order, is the caller's business; units that are
//! ready later than others that were asked for before must not be taken first.

mod bucket;
mod frame;

pub use bucket::TokenBucket;
pub use frame::{FRAME_NANOS, FrameLimiter};

/// Virtual time, in nanoseconds since the beginning.
pub type Nanos = u64;

/// A second.
pub const SECOND: Nanos = 1_000_000_000;

/// A limit on units per second.
#[derive(Clone, Debug, Default)]
pub enum Limiter {
    /// No limit.
    #[default]
    Unlimited,
    /// The default.
    Bucket(TokenBucket),
    /// HopperKV's.
    Frames(FrameLimiter),
}

impl Limiter {
    /// When `units` may go, not before `now`; `None` where they never may at the present rate.
    pub fn ready_at(&self, now: Nanos, units: f64) -> Option<Nanos> {
        match self {
            Self::Unlimited => Some(now),
            Self::Bucket(bucket) => bucket.ready_at(now, units),
            Self::Frames(frames) => frames.ready_at(now),
        }
    }

    /// Whether `units` may go at `now`; if so they go. The same as both of the others, for less.
    pub fn pass(&mut self, now: Nanos, units: f64) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Bucket(bucket) => bucket.pass(now, units),
            Self::Frames(frames) => {
                let passes = frames.ready_at(now) == Some(now);
                if passes {
                    frames.take(now, units);
                }
                passes
            }
        }
    }

    /// `units` go at `now`, which [`Self::ready_at`] gave.
    pub fn take(&mut self, now: Nanos, units: f64) {
        match self {
            Self::Unlimited => {}
            Self::Bucket(bucket) => bucket.take(now, units),
            Self::Frames(frames) => frames.take(now, units),
        }
    }

    /// `rate` units per second from `now` on; HopperKV's limiter takes it over at the end of its
    /// frame.
    pub fn set_rate(&mut self, now: Nanos, rate: f64) {
        match self {
            Self::Unlimited => {}
            Self::Bucket(bucket) => bucket.set_rate(now, rate),
            Self::Frames(frames) => frames.set_rate(now, rate),
        }
    }
}

/// The time that is `secs` seconds after `now`, rounded up, so that what is awaited has happened
/// then; `None` where it never comes.
fn after(now: Nanos, secs: f64) -> Option<Nanos> {
    let nanos = (secs * SECOND as f64).ceil();
    // Beyond half a century of virtual time is never.
    (nanos < (1_u64 << 60) as f64).then(|| now + nanos as Nanos)
}

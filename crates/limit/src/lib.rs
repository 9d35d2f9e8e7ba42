//! Rate limits and fair turns, as plain values.
//!
//! | value | holds a rate by | used by |
//! |---|---|---|
//! | [`Rate`] | the generic cell rate algorithm: one integer, paid for afterwards | the server, for each tenant |
//! | [`TokenBucket`] | tokens of one owner, asked for beforehand | the simulator, as the default |
//! | [`FrameLimiter`] | a count per frame of fixed length, as HopperKV does | the simulator, for comparison |
//! | [`Limiter`] | one of the last two, or no limit | the simulator |
//! | [`DeficitRoundRobin`] | turns in proportion to quanta | the server, for the tenants of a worker |
//!
//! HARE (FAST '26, section 4) enforces its allocations of all resources except memory by limiting
//! rates. The paper does not say how; HopperKV counts in frames, which lets a tenant exceed its
//! rate. The token bucket does not.
//!
//! What must hold: no value reads a clock, starts a thread, locks or waits. Time is a parameter, in
//! nanoseconds from any fixed moment. Queues belong to the caller, which must not take units before
//! others that were requested earlier and are ready sooner.

#![forbid(unsafe_code)]

mod bucket;
pub mod drr;
mod frame;
pub mod gcra;

pub use bucket::TokenBucket;
pub use drr::DeficitRoundRobin;
pub use frame::{FRAME_NANOS, FrameLimiter};
pub use gcra::Rate;

/// A time or a span of time, in nanoseconds. Times count from any fixed moment.
pub type Nanos = u64;

/// A second.
pub const SECOND: Nanos = 1_000_000_000;

/// A limit on units per second. [`Self::ready_at`] returns when units may pass, and [`Self::take`]
/// records that they do.
#[derive(Clone, Debug, Default)]
pub enum Limiter {
    /// No limit.
    #[default]
    Unlimited,
    /// The default.
    Bucket(TokenBucket),
    /// HopperKV's limiter.
    Frames(FrameLimiter),
}

impl Limiter {
    /// Returns when `units` may pass, not before `now`; `None` if they never may at the present
    /// rate.
    pub fn ready_at(&self, now: Nanos, units: f64) -> Option<Nanos> {
        match self {
            Self::Unlimited => Some(now),
            Self::Bucket(bucket) => bucket.ready_at(now, units),
            Self::Frames(frames) => frames.ready_at(now),
        }
    }

    /// Takes `units` if they may pass at `now`, and returns whether they did. The same as
    /// [`Self::ready_at`] and [`Self::take`], but cheaper.
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

    /// Takes `units` at `now`, a time that [`Self::ready_at`] returned.
    pub fn take(&mut self, now: Nanos, units: f64) {
        match self {
            Self::Unlimited => {}
            Self::Bucket(bucket) => bucket.take(now, units),
            Self::Frames(frames) => frames.take(now, units),
        }
    }

    /// Changes the rate to `rate` units per second from `now` on; in [`FrameLimiter`] the change
    /// takes effect at the end of the frame.
    pub fn set_rate(&mut self, now: Nanos, rate: f64) {
        match self {
            Self::Unlimited => {}
            Self::Bucket(bucket) => bucket.set_rate(now, rate),
            Self::Frames(frames) => frames.set_rate(now, rate),
        }
    }
}

/// Returns the time `secs` seconds after `now`, rounded up, so that the awaited event has happened
/// by then; `None` if it never happens.
fn after(now: Nanos, secs: f64) -> Option<Nanos> {
    let nanos = (secs * SECOND as f64).ceil();
    // Beyond half a century of virtual time is never.
    (nanos < (1_u64 << 60) as f64).then(|| now + nanos as Nanos)
}

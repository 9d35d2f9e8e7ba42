//! Miss-ratio curves: the misses of a cache of any size, and their estimation from live traffic.
//!
//! Everything here is a plain value: no lock, no clock, no thread, no I/O, so that the same code
//! runs in the engine, in the simulator and in a test.
//!
//! | module | what it is |
//! |---|---|
//! | [`mrc`] | the curve itself: points, interpolation, hull, cliffs, arithmetic |
//! | [`spline`] | smooth interpolation that never overshoots |
//! | [`estimate`] | the interface of all estimators, which learn a curve from accesses |
//! | [`exact`] | exact stack distances of LRU, the reference |
//! | [`shards`] | the same of a sample of the keys, in fixed memory |
//! | [`ghost`] | HopperKV's ghost cache: a few sizes at once, out of one list |
//! | [`local`] | the slope at a cache's present size: Cliffhanger's shadow queues, tail hits of 2Q |
//! | [`mini`] | small caches of any policy, on a sample of the keys |
//! | [`ladder`] | a few of these around the present size of a cache, which follow it |
//! | [`sample`], [`groups`] | which keys a sample has, and how it is corrected |
//! | [`che`] | the curve of LRU under independent references, computed rather than observed |

#![forbid(unsafe_code)]

pub mod che;
mod error_bound;
pub mod estimate;
pub mod exact;
pub mod ghost;
pub mod groups;
mod histogram;
mod holes;
pub mod ladder;
pub mod local;
pub mod mini;
pub mod mrc;
pub mod sample;
pub mod shards;
pub mod spline;
mod stack;
mod sums;
mod table;
#[cfg(test)]
mod tests;

pub use estimate::{Access, Estimator, Kind};
pub use exact::StackDistance;
pub use ghost::GhostCache;
pub use groups::Correction;
pub use ladder::{Eviction, Ladder};
pub use local::{ShadowQueue, TailHits};
pub use mini::{Miniature, Simulated};
pub use mrc::cliff::Cliff;
pub use mrc::{Confidence, CurveError, MissRatioCurve, Point, Unit};
pub use shards::Shards;
pub use spline::MonotoneCubic;

//! Miss-ratio curves: what a cache of any size would miss, and how that is learnt from live traffic.
//!
//! Everything here is a plain value: no lock, no clock, no thread, no I/O, so that the same code runs in the engine, in the
//! simulator and in a test.
//!
//! | module | what it is |
//! |---|---|
//! | [`mrc`] | the curve itself: points, interpolation, hull |
//! | [`spline`] | smooth interpolation that never overshoots |
//! | [`che`] | the curve of LRU under independent references, computed rather than observed |

#![forbid(unsafe_code)]

pub mod che;
pub mod mrc;
pub mod spline;

pub use mrc::{CurveError, MissRatioCurve, Point, Unit};
pub use spline::MonotoneCubic;

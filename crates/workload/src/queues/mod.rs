//! Caches at the level of queues: LRU queues of keys with shadows behind them, as Cliffhanger's and
//! Memshare's authors simulate.
//!
//! | module | what it is |
//! |---|---|
//! | [`distances`] | requests with a known miss-ratio curve |
//! | [`queue`] | an LRU queue in two partitions, with shadows |
//! | [`by_curves`] | queues that follow curves learnt while they serve |
//! | [`cache`] | several queues, hill climbing between them and cliff scaling within |

pub mod by_curves;
pub mod cache;
pub mod distances;
pub mod queue;

pub use by_curves::{ByCurves, CurveRules};
pub use cache::{QueueCache, QueueConfig, Splitting};
pub use distances::{Density, Profile, Range};
pub use queue::{LruQueue, Place};

//! The choice of chunk sizes for the items of a pool: a histogram, an exact choice and a rule, as
//! plain values.
//!
//! A pool's slabs are cut into chunks of a few sizes. The unused part of an item's chunk is
//! *slack*, as is the end of a slab that no chunk fits into. With a factor of 1.25 between sizes,
//! slack is a tenth of the memory; CacheLib (Berg et al., OSDI 2020, sections 3 to 5) leaves it to
//! the operator to find better sizes and to restart with them. Here the sizes follow the items: now
//! and then the engine samples the items of a pool ([`SizeHistogram`]), [`choose`] finds the sizes
//! with the least slack, and if they would save enough ([`Tuning::decide`]) the pool adopts them
//! while it serves.
//!
//! What must hold:
//! 1. No lock, clock, thread or I/O.
//! 2. The largest item that fits before a change fits afterwards.
//! 3. No size is more than [`Range::GREATEST_STEP`] times the one below, even if no such items were
//!    seen, so that items of a new size waste at most half of their chunks. Exception: if
//!    [`Range::most_classes`] is too small for that, the steps are as large as necessary.
//!
//! ```
//! use millpond_rebalance::sizing::{Range, SizeHistogram, Tuning};
//!
//! let mut sizes = SizeHistogram::new();
//! sizes.add(300, 10_000);
//! sizes.add(1_500, 5_000);
//! let range = Range { min_bytes: 64, max_bytes: 4 << 20, most_classes: 48 };
//! let present: Vec<u32> = (0..17).map(|power| 64 << power).collect();
//! let decided = Tuning::default().decide(&sizes, &present, &range);
//! assert!(
//!     decided.applies && decided.now.share() > 0.2 && decided.then.share() < 0.01,
//!     "{}",
//!     decided.reason
//! );
//! ```

mod choice;
mod histogram;

use base::geometry::{MIN_CHUNK_BYTES, SLAB_BYTES};

pub use choice::choose;
pub use histogram::{SizeHistogram, Slack};

/// The range of sizes to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest chunk, in bytes. At least 64.
    pub min_bytes: u32,
    /// The largest chunk, in bytes, which is always one of the sizes. At most 4 MiB.
    pub max_bytes: u32,
    /// The most sizes, from 1 to 255.
    pub most_classes: usize,
}

/// Default for the most classes of a pool. While sizes change, a pool has its old and its new
/// classes at once; twice this many still have numbers below 256.
const MOST_CLASSES: usize = 120;

impl Range {
    /// The greatest ratio of a size to the one below, if [`Self::most_classes`] allows it.
    pub const GREATEST_STEP: f64 = 2.0;

    /// The range between the smallest and the largest of these chunk sizes, ascending, in bytes.
    pub fn of(sizes: &[u32]) -> Self {
        Self {
            min_bytes: sizes.first().copied().unwrap_or(MIN_CHUNK_BYTES),
            max_bytes: sizes.last().copied().unwrap_or(SLAB_BYTES as u32),
            most_classes: sizes.len().max(MOST_CLASSES),
        }
    }
}

/// The rule that decides when the sizes of a pool change, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// Most size classes. Default: 120 (of CacheLib's 128), or the initial number of the pool
    /// (`PoolConfig::classes`) if that is more. A small pool gets fewer: see [`choose`].
    pub most_classes: Option<usize>,
    /// The least reduction of the slack, as a share of the memory of the chunks that hold items. A
    /// change costs a copy of most items. Default 0.02.
    pub least_gain: f64,
    /// The least number of items seen. Default 1,000.
    pub least_items: u64,
    /// Seconds between two checks of the pool. Default 60.
    pub every_secs: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { most_classes: None, least_gain: 0.02, least_items: 1_000, every_secs: 60 }
    }
}

/// The result of a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The best sizes, ascending, in bytes.
    pub sizes: Vec<u32>,
    /// The slack of the items seen with the present sizes.
    pub now: Slack,
    /// The slack of the same items with the best sizes.
    pub then: Slack,
    /// True if the pool should adopt the best sizes.
    pub applies: bool,
    /// The reason, for people.
    pub reason: String,
}

impl Tuning {
    /// Decides whether a pool with chunk sizes `present` that holds `items` should have others.
    pub fn decide(&self, items: &SizeHistogram, present: &[u32], range: &Range) -> Decision {
        let sizes = choose(items, range);
        let (now, then) = (items.slack(present), items.slack(&sizes));
        let gain = now.share() - then.share();
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let (applies, reason) = if items.items() < self.least_items {
            (false, format!("{} items were seen, and {} are needed", items.items(), self.least_items))
        } else if gain < self.least_gain {
            let (gain, least) = (percent(gain.max(0.0)), percent(self.least_gain));
            (false, format!("the best sizes would save {gain} of the memory, and {least} are asked for"))
        } else {
            (true, format!("slack falls from {} to {}", percent(now.share()), percent(then.share())))
        };
        Decision { sizes, now, then, applies, reason }
    }
}

#[cfg(test)]
mod tests;

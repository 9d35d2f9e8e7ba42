//! Which chunk sizes suit the items that a pool holds: a histogram, an exact choice and a rule, as
//! plain values.
//!
//! A pool's slabs are cut into chunks of a few sizes, and what an item leaves of its chunk is
//! *slack*, as is the end of a slab that no chunk fits into. By a factor of 1.25 that is a tenth of
//! the memory; CacheLib (Berg et al., OSDI 2020, sections 3 to 5) leaves it to the operator to find
//! better sizes and to restart with them. Here the sizes follow the items: now and then the engine
//! looks at what a pool holds ([`SizeHistogram`]), [`choose`] finds the sizes with the least slack,
//! and where they would save enough ([`Tuning::decide`]) the pool takes them over while it serves.
//!
//! What must hold:
//! 1. No lock, clock, thread or I/O.
//! 2. The largest item that fitted before fits afterwards.
//! 3. No size is more than [`Range::GREATEST_STEP`] times the one below, seen or not, so that items
//!    of a size that nobody has seen yet waste at most half of their chunks.
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
//! assert!(decided.applies && decided.now.share() > 0.2 && decided.then.share() < 0.01, "{}", decided.reason);
//! ```

mod choice;
mod histogram;

use base::geometry::{MIN_CHUNK_BYTES, SLAB_BYTES};

pub use choice::choose;
pub use histogram::{SizeHistogram, Slack};

/// What sizes may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest chunk, in bytes. At least 64.
    pub min_bytes: u32,
    /// The largest chunk, in bytes, which is always one of the sizes. At most 4 MiB.
    pub max_bytes: u32,
    /// Most sizes, 1 to 255.
    pub most_classes: usize,
}

/// Most classes of a pool that does not say how many: twice as many have numbers below 256, so that
/// all may change.
const MOST_CLASSES: usize = 120;

impl Range {
    /// The most that a size is a multiple of the one below, where [`Self::most_classes`] allows it.
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

/// When the sizes of a pool are changed, and to what.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// Most size classes. Default: 120 (of CacheLib's 128), or as many as the pool began with
    /// (`PoolConfig::classes`) where those are more. A small pool gets fewer: see
    /// [`choose`].
    pub most_classes: Option<usize>,
    /// By how much the slack must fall at least, as a share of the memory of the chunks that hold
    /// items. A change costs a copy of most items. Default 0.02.
    pub least_gain: f64,
    /// Items that must have been seen. Default 1,000.
    pub least_items: u64,
    /// Seconds between two looks at the pool. Default 60.
    pub every_secs: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { most_classes: None, least_gain: 0.02, least_items: 1_000, every_secs: 60 }
    }
}

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The best sizes, ascending, in bytes.
    pub sizes: Vec<u32>,
    /// The slack of what was seen in the sizes that there are.
    pub now: Slack,
    /// Its slack in the best sizes.
    pub then: Slack,
    /// True if the pool should take them over.
    pub applies: bool,
    /// Why, for people.
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

//! Faults that a test plants in the engine, to see that its checks find them.
//!
//! An item that leaves is *unlinked*: its entry leaves the index, or its link the chain, before its
//! chunk is used again. What is forgotten there shows much later and elsewhere, as a find that
//! reads a chunk that nobody keeps. Each kind of end has its own code for it, so each has a fault
//! here.

/// What a planted fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Plant {
    /// An item that is evicted is unlinked under the hash of the one before.
    EvictedUnderAnother,
    /// So is an item that has expired.
    ExpiredUnderAnother,
    /// So is an item of a slab that leaves.
    ReleasedUnderAnother,
    /// An item that ends with a chain, or is told of, keeps its entry.
    FinishedStays,
    /// An item that is removed by key keeps its entry.
    RemovedStays,
    /// One that is removed by handle, with its pool, or because a find sees that it has expired,
    /// keeps its entry.
    HeldStays,
    /// A replaced item keeps its entry beside that of the new one.
    ReplacedStays,
    /// The entry of an item that was moved leads to where it was.
    MovedStays,
    /// The links of an item that ends stay in their chain.
    LinksStay,
    /// The first link of a chain stays in it when another one takes its place: it was replaced, or
    /// moved.
    ExchangedLinkStays,
}

#[cfg(test)]
pub(crate) use planted::Planted;

#[cfg(test)]
mod planted {
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    use super::Plant;
    use crate::cache::Core;

    /// The fault that is planted in a cache, if any is. It strikes once.
    #[derive(Default)]
    pub(crate) struct Planted {
        /// 0 = none.
        kind: AtomicU8,
        was_set: AtomicBool,
    }

    impl Planted {
        pub(crate) fn set(&self, plant: Plant) {
            self.kind.store(plant as u8 + 1, Ordering::Relaxed);
            self.was_set.store(true, Ordering::Relaxed);
        }

        /// Whether a fault was planted and has struck.
        pub(crate) fn has_struck(&self) -> bool {
            self.was_set() && self.kind.load(Ordering::Relaxed) == 0
        }

        pub(crate) fn was_set(&self) -> bool {
            self.was_set.load(Ordering::Relaxed)
        }
    }

    impl Core {
        /// Whether this fault is planted and strikes now.
        pub(crate) fn strikes(&self, plant: Plant) -> bool {
            let kind = &self.planted.kind;
            kind.compare_exchange(plant as u8 + 1, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }

        /// Whether the engine is to look for itself what becomes of an item that ends: not where a
        /// fault is planted, which others are to find.
        pub(crate) fn checks_ends(&self) -> bool {
            !self.planted.was_set()
        }
    }
}

#[cfg(not(test))]
impl crate::cache::Core {
    /// Nothing is planted outside of tests.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "tests look at the cache")]
    pub(crate) fn strikes(&self, _plant: Plant) -> bool {
        false
    }

    /// It always looks for itself what becomes of an item that ends.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "tests look at the cache")]
    pub(crate) fn checks_ends(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;

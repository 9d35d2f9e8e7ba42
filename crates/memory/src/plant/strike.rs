//! Faults that strike: in tests those that were planted, and none in other builds.

use super::Plant;

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

        /// Returns whether a fault was planted and has struck.
        pub(crate) fn has_struck(&self) -> bool {
            self.was_set() && self.kind.load(Ordering::Relaxed) == 0
        }

        pub(crate) fn was_set(&self) -> bool {
            self.was_set.load(Ordering::Relaxed)
        }
    }

    impl Core {
        /// Returns whether this fault is planted and strikes now.
        pub(crate) fn strikes(&self, plant: Plant) -> bool {
            let kind = &self.planted.kind;
            kind.compare_exchange(plant as u8 + 1, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }

        /// Returns whether the engine is to look for itself what becomes of an item that ends: not
        /// if a fault is planted, which others are to find.
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

//! Sums of vacant memory, and the turns of those who look for some.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Vacant memory of several classes, in bytes.
#[derive(Default)]
pub(crate) struct Sum(AtomicU64);

impl Sum {
    /// Notes that one of its parts has changed.
    pub(super) fn change(&self, before: u64, after: u64) {
        // The sum wraps around if it becomes less.
        self.0.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Returns the sum.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Vacant memory of the cache.
#[derive(Default)]
pub(crate) struct Vacant {
    pub(crate) sum: Sum,
    /// Those who yet do without looking for some.
    waits: AtomicU32,
}

impl Vacant {
    /// Returns whether this one does without, as another has looked in vain a moment ago.
    pub(super) fn does_without(&self) -> bool {
        let waits = |waits: u32| waits.checked_sub(1);
        self.waits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, waits).is_ok()
    }

    /// Has the next `count` do without.
    pub(super) fn note_vain(&self, count: u32) {
        self.waits.store(count, Ordering::Relaxed);
    }
}

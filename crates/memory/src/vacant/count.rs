//! Sums of vacant memory, and the turns of those who look for some in vain.

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

/// The number of looks for vacant memory that a pool yet does without.
#[derive(Default)]
pub(crate) struct Vain(AtomicU32);

impl Vain {
    /// Returns whether this look is done without, as one was in vain a moment ago.
    pub(super) fn does_without(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |looks| looks.checked_sub(1)).is_ok()
    }

    /// Has the next `count` looks done without.
    pub(super) fn note(&self, count: u32) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// Has the next look made.
    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

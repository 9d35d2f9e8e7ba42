//! Limits on the entries that one eviction examines, whatever the state of the items.
//!
//! Every policy here spares items: those that were hit get another round, or move to their present
//! place. Hits take no lock, and there may be any number between two evictions. By the policy alone
//! one eviction might examine all items, while further hits keep ahead of it. So an eviction
//! follows its policy's order for [`MAX_SCANNED`] entries. After that it evicts the next item that
//! it finds, whatever its bits.
//!
//! 1. An eviction examines at most [`MAX_SCANNED`] entries by the rules of its policy, and then at
//!    most [`MAX_STALE`] stale ones and twice [`crate::MAX_HELD_TRIES`] held items; a step of a
//!    sweep may add about 75 to that.
//! 2. It finds an item to evict unless all entries after the first [`MAX_SCANNED`] were stale or
//!    held.
//!
//! The number is a compromise. A policy that orders by hits, as LRU does, examines an entry for
//! each item that was hit between two evictions: at a hit ratio of 99.8 % at most about 500. At
//! higher ratios, some recently hit items are evicted, at most one in [`MAX_SCANNED`] accesses,
//! which costs at most 0.2 points of the hit ratio.

/// Most entries that an eviction examines in the policy's order.
pub const MAX_SCANNED: u32 = 512;

/// Most stale entries that an eviction examines beyond those, before it reports that it has found
/// no item ([`crate::Policy::is_unfinished`]).
pub const MAX_STALE: u32 = 4_096;

/// The number of entries that an eviction has examined.
#[derive(Default)]
pub(crate) struct ScanBudget(u32);

impl ScanBudget {
    /// Begins an eviction.
    pub(crate) fn begin(&mut self) {
        self.0 = 0;
    }

    /// Counts examined entries.
    #[inline]
    pub(crate) fn add(&mut self, entries: usize) {
        self.0 = self.0.saturating_add(entries as u32);
    }

    /// Returns whether the eviction still follows the policy's order.
    #[inline]
    pub(crate) fn is_patient(&self) -> bool {
        self.0 <= MAX_SCANNED
    }

    /// Returns whether at least half of the looks in the policy's order remain. Checked before work
    /// that benefits later evictions more than this one.
    #[inline]
    pub(crate) fn is_generous(&self) -> bool {
        self.0 <= MAX_SCANNED / 2
    }

    /// Returns whether the eviction must give up.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.0 > MAX_SCANNED + MAX_STALE
    }

    /// The number of examined entries.
    pub(crate) fn count(&self) -> u32 {
        self.0
    }
}

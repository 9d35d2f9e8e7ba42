//! How much one eviction may look at, whatever the items are like.
//!
//! Every policy here spares items: those that were hit go round once more, or to where they belong
//! by now. Hits come without a lock and may be any number between two evictions, so that by the
//! policy alone one eviction might go through all items, and be overtaken by hits while it does. So
//! an eviction follows its policy's order for [`MOST_LOOKS`] entries. The next item that it meets
//! after that leaves, whatever its bits are.
//!
//! 1. An eviction looks at [`MOST_LOOKS`] entries by the rules of its policy, and then at
//!    [`MOST_STALE`] stale ones and twice [`crate::MAX_HELD_TRIES`] held items at most; a step of a
//!    sweep may add some 75 to that.
//! 2. It finds an item to evict unless all that it met from then on were stale or held.
//!
//! The number is a compromise. A policy that orders by hits, as LRU does, looks at an entry for
//! each item that was hit between two evictions: at a hit ratio of 99.8 % at most 500 or so. Where
//! the ratio is higher still, items leave that another hit would have kept, at most one in
//! [`MOST_LOOKS`] accesses, so that it costs at most 0.2 points.

/// Entries at which an eviction looks while it goes by the policy's order.
pub const MOST_LOOKS: u32 = 512;

/// Entries of items that are gone at which an eviction looks besides, before it says that it has
/// found none ([`crate::Policy::is_unfinished`]).
pub const MOST_STALE: u32 = 4_096;

/// What an eviction has looked at.
#[derive(Default)]
pub(crate) struct Looks(u32);

impl Looks {
    /// An eviction begins.
    pub(crate) fn begin(&mut self) {
        self.0 = 0;
    }

    /// Counts entries that are looked at.
    #[inline]
    pub(crate) fn add(&mut self, entries: usize) {
        self.0 = self.0.saturating_add(entries as u32);
    }

    /// Returns whether it goes by the policy's order yet.
    #[inline]
    pub(crate) fn is_patient(&self) -> bool {
        self.0 <= MOST_LOOKS
    }

    /// Returns whether half of what it may look at by the policy's order is left: for work that
    /// others profit from more than it does.
    #[inline]
    pub(crate) fn is_generous(&self) -> bool {
        self.0 <= MOST_LOOKS / 2
    }

    /// Returns whether it gives up.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.0 > MOST_LOOKS + MOST_STALE
    }

    /// How many entries it has looked at.
    pub(crate) fn count(&self) -> u32 {
        self.0
    }
}

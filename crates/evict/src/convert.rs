//! Turning one policy into another while the cache serves.
//!
//! The old policy is asked for its items in the order in which it would evict them, and the new one queues them in that
//! order: what would have gone first goes first. What the old one remembered of keys that are gone is lost, and so is how
//! often items were hit.
//!
//! Hits go on meanwhile and leave no trace until the new policy is in force. The lock of the class is held throughout,
//! so that insertions into the class wait: some 100 to 300 ns per item.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::hits::Rule;
use crate::{Claim, Entry, Items, Policy, PolicyKind};

/// Items that an old policy gives up: any that it asks for, once.
struct Leaving<'a, I> {
    items: &'a I,
    left: RefCell<HashSet<u32>>,
}

impl<I: Items> Items for Leaving<'_, I> {
    fn bits(&self, entry: Entry) -> Option<u8> {
        if self.left.borrow().contains(&entry.0) { None } else { self.items.bits(entry) }
    }

    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        self.items.set_bits(entry, mask, value);
    }

    fn claim(&self, entry: Entry) -> Claim {
        self.left.borrow_mut().insert(entry.0);
        Claim::Taken
    }

    fn fingerprint(&self, entry: Entry) -> u32 {
        // What a policy remembers of items that have left is of no use.
        if self.left.borrow().contains(&entry.0) { 0 } else { self.items.fingerprint(entry) }
    }

    fn prefetch(&self, entry: Entry) {
        self.items.prefetch(entry);
    }
}

impl Policy {
    /// Turns this policy into one of `kind`, with all its items, in the order in which they would have been evicted. Hit
    /// rules that were taken from it follow. `now` in seconds. Costs some 100 to 300 ns per item; a change of parameters
    /// that leave items where they are costs the same.
    ///
    /// No item is lost and none is evicted. Order is kept as far as the new policy has one: under SIEVE and LRU it is the
    /// order of eviction; the others divide it among their queues by their shares, the first to go in the queue that is
    /// evicted from first.
    pub fn convert(&mut self, kind: PolicyKind, items: &impl Items, now: u32) {
        if kind == self.kind {
            return;
        }
        self.hits.set(Rule::None);
        let leaving = Leaving { items, left: RefCell::new(HashSet::with_capacity(self.len())) };
        let mut entries = Vec::with_capacity(self.len());
        while let Some(entry) = self.evict_unhurried(&leaving) {
            entries.push(entry);
        }
        debug_assert!(self.is_empty(), "{} items of {} stayed behind", self.len(), self.kind);
        let tail_items = self.tail_items;
        *self = Self::over(std::sync::Arc::clone(&self.hits), kind, entries.len(), now);
        self.adopt(&entries, items, now);
        self.set_tail_items(tail_items);
        self.hits.set(self.rule());
    }
}

//! ARC (N. Megiddo, D. S. Modha, "ARC: a self-tuning, low overhead replacement cache", FAST'03,
//! figure 4).
//!
//! Two LRU lists: T1 has items that were requested once recently, T2 those that were requested
//! again; a hit moves an item to the top of T2. Two ghost lists, B1 and B2, remember the keys that
//! each list evicted. A miss on a key in B1 shows that T1 is too small, one on a key in B2 that T2
//! is: the target `p` of T1 moves by the number of entries of the other ghost list per entry of
//! this one, at least by one. In both cases the key enters T2; an unknown key enters T1. Eviction
//! takes from T1 while T1 has more than `p` items, else from T2. T1 and B1 have no more entries
//! together than the cache has items, all four no more than twice as many.
//!
//! Differences from the paper: the engine evicts before the policy knows the new key, so the target
//! moves one eviction later, and the rule for a T1 of exactly `p` items does not depend on the key.
//! The cache size is the present number of queued items. Ghosts are parts of hashes, and a 128th of
//! them is forgotten at a time ([`crate::ghost`]).
//!
//! Policy bits: the stamp of `crate::generations`: trial = T1, proven = T2.

use crate::contract::{Entry, EvictionPolicy, Items, Queue, Rank, Rule};
use crate::generations::Part;
use crate::ghost::GhostQueue;
use crate::hits::Hits;
use crate::lists::{Lists, in_lists};
use crate::scan_budget::ScanBudget;

const T1: Part = Part::Trial;
const T2: Part = Part::Proven;
const B1: usize = 0;
const B2: usize = 1;

/// The policy of one class.
pub struct Arc {
    lists: Lists,
    ghosts: GhostQueue<2>,
    /// Target number of items in T1: `p`.
    target: f64,
}

impl Arc {
    pub(crate) fn new(hits: &Hits, expected: usize, now: u32) -> Self {
        Self { lists: Lists::new(hits, false, expected, now), ghosts: GhostQueue::default(), target: 0.0 }
    }

    /// Adds an evicted item to the ghosts of its part.
    fn remember(&mut self, part: Part, entry: Entry, capacity: usize, items: &impl Items) {
        // One more entry is about to enter B1 or B2. If both lists need the room, B2 shrinks. The
        // next key may be the oldest of B1, which therefore stays.
        let t1 = self.lists.part_len(T1);
        self.ghosts.shrink(B1, capacity.saturating_sub(t1 + 1));
        self.ghosts.shrink(B2, capacity.saturating_sub(self.ghosts.len(B1) + 1));
        self.ghosts.insert(if part == T1 { B1 } else { B2 }, items.fingerprint(entry));
    }
}

impl EvictionPolicy for Arc {
    const RULE: Rule = Rule::Lists;

    in_lists!();

    fn admit(&mut self, fingerprint: u32) -> u8 {
        let (b1, b2) = (self.ghosts.len(B1) as f64, self.ghosts.len(B2) as f64);
        let part = match self.ghosts.remove(fingerprint) {
            None => T1,
            Some(B1) => {
                self.target = (self.target + (b2 / b1).max(1.0)).min(self.lists.len() as f64);
                T2
            }
            Some(_) => {
                self.target = (self.target - (b1 / b2).max(1.0)).max(0.0);
                T2
            }
        };
        self.lists.generations().present(part)
    }

    fn push(&mut self, entry: Entry, stamp: u8, now: u32) {
        self.lists.push(entry, stamp, now);
    }

    /// Queues the first half in T1, which is evicted from until a ghost hit moves the target.
    fn adopt(&mut self, entry: Entry, rank: Rank, items: &impl Items, now: u32) {
        let part = if rank.at < rank.of / 2 { T1 } else { T2 };
        self.lists.adopt(entry, part, items, now);
    }

    fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        let capacity = self.lists.len();
        if capacity != self.ghosts.capacity() {
            self.ghosts.set_capacity(capacity);
        }
        let t1 = self.lists.part_len(T1);
        let mut tries = 0;
        let parts = if t1 as f64 > self.target || t1 == capacity { [T1, T2] } else { [T2, T1] };
        let (part, entry) = parts
            .into_iter()
            .find_map(|part| Some((part, self.lists.evict_from(part, items, &mut tries, scan)?)))?;
        self.remember(part, entry, capacity, items);
        Some(entry)
    }

    fn queues(&self, _items: &impl Items, now: u32) -> Vec<Queue> {
        self.lists.queues(&[(T1, "t1"), (T2, "t2")], now)
    }

    fn tail_hits(&self) -> Option<u64> {
        Some(self.lists.tail_hits(Part::Trial) + self.lists.tail_hits(Part::Proven))
    }

    fn prefetch(&self, fingerprint: u32) {
        self.ghosts.prefetch(fingerprint);
    }

    fn set_ghosts_open(&mut self, is_open: bool) {
        self.ghosts.set_open(is_open);
    }

    fn ghosts(&self) -> usize {
        self.ghosts.len(B1) + self.ghosts.len(B2)
    }

    fn ghost_bytes(&self) -> usize {
        self.ghosts.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyKind;
    use crate::testing::Sim;

    fn arc(sim: &Sim) -> &Arc {
        match &sim.policy.order {
            crate::order::Order::Arc(arc) => arc,
            _ => panic!("another policy"),
        }
    }

    #[test]
    fn ghosts_move_the_target() {
        let mut sim = Sim::new(PolicyKind::Arc, 100);
        // Half of the items are in T2, then newcomers push each other out of T1 and come back.
        (0..50).chain(0..50).chain(1_000..1_100).for_each(|key| {
            sim.access(key);
        });
        assert_eq!((arc(&sim).lists.part_len(T1), arc(&sim).lists.part_len(T2)), (50, 50));
        assert_eq!(arc(&sim).target, 0.0);
        (1_000..1_030).for_each(|key| {
            assert!(!sim.access(key));
        });
        let grown = arc(&sim).target;
        assert!(grown >= 29.0, "B1 was hit thirty times: {grown}");
        // They are in T2 now, and what T2 gave up for that comes back.
        (2_000..2_100).chain(0..50).for_each(|key| {
            sim.access(key);
        });
        assert!(arc(&sim).target < grown, "B2 was hit: {}", arc(&sim).target);
        sim.validate();
    }

    #[test]
    fn lists_and_ghosts_keep_to_twice_the_capacity() {
        let mut sim = Sim::new(PolicyKind::Arc, 500);
        for key in crate::testing::keys(4, 60_000, 5_000, 0.8) {
            sim.access(key);
            let arc = arc(&sim);
            let (t1, b1, b2) = (arc.lists.part_len(T1), arc.ghosts.len(B1), arc.ghosts.len(B2));
            // An epoch of ghosts lives or dies as a whole.
            assert!(t1 + b1 <= 501 + 500 / 64 && b1 + b2 <= 500 + 500 / 64, "{t1} {b1} {b2}");
            assert!(arc.target <= 500.0);
        }
    }
}

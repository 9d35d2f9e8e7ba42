//! LRU with an insertion point below the top.
//!
//! A hit moves an item to the top, as in LRU; a new item enters at the point with a given share of
//! the items below it. Items that are never hit pass only through that share and do not push out
//! items that were hit. With the middle as insertion point, this is the scheme of Facebook's caches
//! that Cliffhanger describes and compares with (A. Cidon, A. Eisenman, M. Alizadeh, S. Katti,
//! "Cliffhanger", NSDI'16, section 5.5): insertion at the middle, promotion to the top on a hit.
//! With `items >> n` from the tail, it is `lruInsertionPointSpec` = n of CacheLib's `MMLru` (B.
//! Berg et al., OSDI'20, section 4.2, "LRU with multiple insertion points").
//!
//! The insertion point divides the order in two parts: the upper one is the proven part of
//! `crate::lists`, the lower one the trial part. The lower part has its share of the items: if it
//! has less, the last item of the upper part moves below the insertion point; if it would have
//! more, a new item becomes the last of the upper part.
//!
//! Difference: the share of the lower part is restored on insertions and evictions, not at each
//! hit.
//!
//! Policy bits: the stamp of `crate::generations`.

use crate::contract::{Entry, EvictionPolicy, Items, Queue, Rank, Rule};
use crate::generations::Part;
use crate::hits::Hits;
use crate::lists::{Lists, in_lists};
use crate::scan_budget::ScanBudget;

/// Most items that move below the insertion point per eviction.
const MOST_SUNK: usize = 32;

/// The policy of one class.
pub struct LruInsertion {
    lists: Lists,
    shift: u8,
}

impl LruInsertion {
    pub(crate) fn new(shift: u8, hits: &Hits, expected: usize, now: u32) -> Self {
        Self { lists: Lists::new(hits, false, expected, now), shift: shift.clamp(1, 8) }
    }

    /// The number of `items` below the insertion point.
    fn below(&self, items: usize) -> usize {
        items >> self.shift
    }
}

impl EvictionPolicy for LruInsertion {
    const RULE: Rule = Rule::Lists;

    in_lists!();

    fn admit(&mut self, _fingerprint: u32) -> u8 {
        let lower = self.lists.part_len(Part::Trial);
        if lower < self.below(self.lists.len() + 1) {
            self.lists.generations().present(Part::Trial)
        } else {
            self.lists.generations().below_oldest(Part::Proven)
        }
    }

    fn push(&mut self, entry: Entry, stamp: u8, now: u32) {
        self.lists.push(entry, stamp, now);
    }

    fn adopt(&mut self, entry: Entry, rank: Rank, items: &impl Items, now: u32) {
        let part = if rank.at < self.below(rank.of) { Part::Trial } else { Part::Proven };
        self.lists.adopt(entry, part, items, now);
    }

    fn restore_shares(&mut self, items: &impl Items, scan: &mut ScanBudget) {
        let upper = self.lists.len() - self.below(self.lists.len());
        self.lists.shrink((Part::Proven, upper), Part::Trial, MOST_SUNK, items, scan);
    }

    fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        self.restore_shares(items, scan);
        self.lists.evict_in_order(&[Part::Trial, Part::Proven], items, &mut 0, scan)
    }

    fn queues(&self, _items: &impl Items, now: u32) -> Vec<Queue> {
        self.lists.queues(&[(Part::Proven, "upper"), (Part::Trial, "lower")], now)
    }

    fn tail_hits(&self) -> Option<u64> {
        Some(self.lists.tail_hits(Part::Trial) + self.lists.tail_hits(Part::Proven))
    }
}

#[cfg(test)]
mod tests {
    use crate::PolicyKind;
    use crate::testing::Sim;

    /// A full cache of which keys 0 to 49 were hit.
    fn half_hit(shift: u8) -> Sim {
        let mut sim = Sim::new(PolicyKind::LruInsertion { shift }, 100);
        (0..100).chain(0..50).for_each(|key| {
            sim.access(key);
        });
        sim
    }

    #[test]
    fn what_is_never_hit_passes_below_the_insertion_point_alone() {
        for (shift, below) in [(1, 50), (2, 25)] {
            let mut sim = half_hit(shift);
            (1_000..2_000).for_each(|key| {
                sim.access(key);
            });
            assert!((0..50).all(|key| sim.contains(key)), "shift {shift}");
            let scanned = (1_000..2_000).filter(|key| sim.contains(*key)).count();
            assert!((below - 1..=below + 1).contains(&scanned), "shift {shift}: {scanned}");
        }
    }

    #[test]
    fn a_hit_lifts_to_the_top_and_another_sinks() {
        let mut sim = half_hit(1);
        (50..100).for_each(|key| {
            sim.access(key);
        });
        (1_000..1_050).for_each(|key| {
            sim.access(key);
        });
        assert!((50..100).all(|key| sim.contains(key)), "the upper half");
        assert!(!(0..49).any(|key| sim.contains(key)), "sank and was evicted");
    }
}

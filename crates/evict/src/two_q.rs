//! 2Q with hot, warm and cold queues, as in CacheLib.
//!
//! The idea that items requested once must not push out items requested often is that of T. Johnson
//! and D. Shasha, "2Q: a low overhead high performance buffer management replacement algorithm",
//! VLDB'94. CacheLib's `MM2Q` (B. Berg et al., "The CacheLib caching engine", OSDI'20, section 4.2)
//! has three LRU queues:
//!
//! - new items enter the hot queue (30 % of all); a hit there moves the item to its top;
//! - items that the hot queue or the warm queue (the rest) cannot hold move to the top of the cold
//!   queue (30 %);
//! - a hit in the cold queue moves the item to the top of the warm queue; a hit in the warm queue,
//!   to its top;
//! - eviction takes from the cold queue; only if that is empty, from the hot and then from the warm
//!   one.
//!
//! *Tail hits* measure the cost of a slab less: hits among the last items of the warm and cold
//! queues, as many as a slab has ([`crate::Policy::set_tail_items`]).
//!
//! Differences: the shares of queues are restored at evictions, not at each access; there is no
//! refresh time, since a hit takes no lock whose use would need limiting. Tail hits are counted by
//! generation, as a fraction of a hit each if a generation is longer than the tail.
//!
//! Policy bits: the stamp of `crate::generations`: young = hot, proven = warm, trial = cold.

use crate::contract::{Entry, EvictionPolicy, Items, Queue, Rank, Rule};
use crate::generations::Part;
use crate::hits::Hits;
use crate::lists::{Lists, in_lists};
use crate::scan_budget::ScanBudget;

const HOT: Part = Part::Young;
const WARM: Part = Part::Proven;
const COLD: Part = Part::Trial;

/// Most items that each queue moves to the cold one per eviction.
const MOST_COOLED: usize = 32;

/// The policy of one class.
pub struct TwoQ {
    lists: Lists,
    hot_percent: u8,
    cold_percent: u8,
}

impl TwoQ {
    pub(crate) fn new(hot_percent: u8, cold_percent: u8, hits: &Hits, expected: usize, now: u32) -> Self {
        let hot_percent = hot_percent.clamp(1, 98);
        let cold_percent = cold_percent.clamp(1, 99 - hot_percent);
        Self { lists: Lists::new(hits, true, expected, now), hot_percent, cold_percent }
    }

    /// Most items of the hot and of the warm queue among `items`.
    fn shares(&self, items: usize) -> (usize, usize) {
        let warm_percent = 100 - self.hot_percent - self.cold_percent;
        (items * usize::from(self.hot_percent) / 100, items * usize::from(warm_percent) / 100)
    }
}

impl EvictionPolicy for TwoQ {
    const RULE: Rule = Rule::Lists;

    in_lists!();

    fn admit(&mut self, _fingerprint: u32) -> u8 {
        self.lists.generations().present(HOT)
    }

    fn push(&mut self, entry: Entry, stamp: u8, now: u32) {
        self.lists.push(entry, stamp, now);
    }

    fn adopt(&mut self, entry: Entry, rank: Rank, items: &impl Items, now: u32) {
        let (hot, warm) = self.shares(rank.of);
        let part = match rank.of - rank.at {
            from_top if from_top <= hot => HOT,
            from_top if from_top <= hot + warm => WARM,
            _ => COLD,
        };
        self.lists.adopt(entry, part, items, now);
    }

    fn restore_shares(&mut self, items: &impl Items, scan: &mut ScanBudget) {
        let (hot, warm) = self.shares(self.lists.len());
        self.lists.shrink((WARM, warm), COLD, MOST_COOLED, items, scan);
        self.lists.shrink((HOT, hot), COLD, MOST_COOLED, items, scan);
    }

    fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        self.restore_shares(items, scan);
        self.lists.evict_in_order(&[COLD, HOT, WARM], items, &mut 0, scan)
    }

    fn queues(&self, _items: &impl Items, now: u32) -> Vec<Queue> {
        self.lists.queues(&[(HOT, "hot"), (COLD, "cold"), (WARM, "warm")], now)
    }

    /// Hits in the tails of the warm and cold queues, weighted by their shares as in CacheLib.
    fn tail_hits(&self) -> Option<u64> {
        let hits = |part| self.lists.tail_hits(part);
        let (cold, warm) = (self.cold_percent, 100 - self.hot_percent - self.cold_percent);
        Some((hits(WARM) * u64::from(warm) + hits(COLD) * u64::from(cold)) / 100)
    }
}

#[cfg(test)]
mod tests {
    use crate::PolicyKind;
    use crate::testing::Sim;

    #[test]
    fn new_items_go_through_hot_and_cold_and_a_hit_in_cold_warms() {
        let mut sim = Sim::new(PolicyKind::TWO_Q, 100);
        (0..100).for_each(|key| {
            sim.access(key);
        });
        // 30 are hot; the others are cold, as none was hit.
        assert!((0..40).all(|key| sim.access(key)));
        (1_000..1_060).for_each(|key| {
            sim.access(key);
        });
        assert!((0..40).all(|key| sim.contains(key)), "warm");
        assert!((40..100).all(|key| !sim.contains(key)), "cold, and then those that cooled");
        // One warm item more, and the oldest warm one cools.
        assert!(sim.access(1_000));
        (2_000..2_031).for_each(|key| {
            sim.access(key);
        });
        assert!(!sim.contains(0) && sim.contains(1) && sim.contains(1_000));
    }

    #[test]
    fn hits_in_the_tails_are_counted() {
        let mut sim = Sim::new(PolicyKind::TWO_Q, 1_000);
        (0..9_000).for_each(|key| {
            sim.access(key);
        });
        sim.policy.set_tail_items(50);
        assert_eq!(sim.policy.tail_hits(), Some(0));
        // The coldest fifty, and fifty of the hot queue.
        (8_000..8_050).chain(8_950..9_000).for_each(|key| {
            assert!(sim.access(key));
        });
        let hits = sim.policy.tail_hits().expect("2Q counts them");
        // Hits in the cold queue count 30 %.
        assert!((11..=19).contains(&hits), "{hits}");
        sim.policy.set_tail_items(0);
        (8_100..8_200).for_each(|key| {
            sim.access(key);
        });
        assert_eq!(sim.policy.tail_hits(), Some(hits), "no longer");
        assert_eq!(Sim::new(PolicyKind::Sieve, 10).policy.tail_hits(), None);
    }
}

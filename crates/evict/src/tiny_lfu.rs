//! TinyLFU and W-TinyLFU (G. Einziger, R. Friedman, B. Manes, "TinyLFU: a highly efficient cache
//! admission policy", ACM Transactions on Storage 13(4), 2017), with the parameters of CacheLib's
//! `MMTinyLFU` and `MMWTinyLFU`.
//!
//! New items enter a small LRU *window* (1 %). For an eviction, the last item of the window and the
//! last one of the main part compete: the item with the lower count in the `Sketch` is evicted, at
//! a tie the one of the main part (CacheLib's `newcomerWinsOnTie`), and the other one enters, or
//! stays in, the main part.
//!
//! - TinyLFU: the main part is one LRU.
//! - W-TinyLFU: it is a segmented LRU: winners enter *probation*; a hit there moves the item to the
//!   *protected* segment, which has up to 80 % of the main part; items that it cannot hold move
//!   back to the top of probation, whose last item competes.
//!
//! Differences: CacheLib moves an item to the protected segment only once it was seen three times,
//! and puts items demoted from that segment at the tail of probation; here both are as in the
//! paper. Every hit is counted, not one per minute.
//!
//! Policy bits: the stamp of `crate::generations`: young = window; proven = main part or protected;
//! trial = probation.

use std::sync::Arc;

use crate::contract::{Claim, Entry, EvictionPolicy, Items, MAX_HELD_TRIES, Queue, Rank, Rule};
use crate::generations::Part;
use crate::hits::Hits;
use crate::lists::{Lists, in_lists};
use crate::scan_budget::ScanBudget;
use crate::sketch::Sketch;

const WINDOW: Part = Part::Young;
const PROBATION: Part = Part::Trial;
const PROTECTED: Part = Part::Proven;

/// Share of the protected segment in the main part, in percent.
const PROTECTED_PERCENT: usize = 80;
/// Most items that change parts per eviction, besides those that compete.
const MOST_MOVED: usize = 32;

/// Competitions with held losers after which any item that is not held is evicted.
const MOST_COMPETITIONS: u32 = 4;

/// The policy of one class.
pub struct TinyLfu {
    lists: Lists,
    sketch: Arc<Sketch>,
    window_percent: u8,
    is_segmented: bool,
}

impl TinyLfu {
    pub(crate) fn new(
        window_percent: u8,
        is_segmented: bool,
        hits: &Hits,
        expected: usize,
        now: u32,
    ) -> Self {
        Self {
            lists: Lists::new(hits, true, expected, now),
            // It grows with the number of items, rather than at once.
            sketch: Arc::clone(hits.sketch()),
            window_percent: window_percent.clamp(1, 50),
            is_segmented,
        }
    }

    fn window_share(&self, items: usize) -> usize {
        (items * usize::from(self.window_percent) / 100).max(1)
    }

    /// The part in which winners enter the main part.
    fn entrance(&self) -> Part {
        if self.is_segmented { PROBATION } else { PROTECTED }
    }

    /// Evicts without a competition.
    fn evict_plainly(
        &mut self,
        parts: &[Part],
        items: &impl Items,
        tries: &mut u32,
        scan: &mut ScanBudget,
    ) -> Option<Entry> {
        let entry = self.lists.evict_in_order(parts, items, tries, scan)?;
        items.fingerprint(entry);
        Some(entry)
    }
}

impl EvictionPolicy for TinyLfu {
    const RULE: Rule = Rule::Counted;

    in_lists!();

    fn admit(&mut self, fingerprint: u32) -> u8 {
        self.sketch.add(fingerprint);
        self.lists.generations().present(WINDOW)
    }

    fn push(&mut self, entry: Entry, stamp: u8, now: u32) {
        self.lists.push(entry, stamp, now);
        self.sketch.set_items(self.lists.len());
    }

    /// The request frequency of the item is unknown.
    fn adopt(&mut self, entry: Entry, rank: Rank, items: &impl Items, now: u32) {
        let main = rank.of.saturating_sub(self.window_share(rank.of));
        let probation = if self.is_segmented { main - main * PROTECTED_PERCENT / 100 } else { 0 };
        let part = match rank.at {
            at if at < probation => PROBATION,
            at if at < main => PROTECTED,
            _ => WINDOW,
        };
        self.lists.adopt(entry, part, items, now);
        self.sketch.set_items(self.lists.len());
    }

    /// Restores the shares of the window and the protected segment.
    fn restore_shares(&mut self, items: &impl Items, scan: &mut ScanBudget) {
        let window = self.window_share(self.lists.len());
        if self.is_segmented {
            let protected = self.lists.len().saturating_sub(window) * PROTECTED_PERCENT / 100;
            self.lists.shrink((PROTECTED, protected), PROBATION, MOST_MOVED, items, scan);
        }
        // While the main part fills up, items that the window cannot hold enter it without
        // competing.
        self.lists.shrink((WINDOW, window), self.entrance(), MOST_MOVED, items, scan);
    }

    fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        self.sketch.age();
        self.restore_shares(items, scan);
        let window = self.window_share(self.lists.len());
        let mut tries = 0;
        while tries < MAX_HELD_TRIES {
            let Some(newcomer) = self.lists.tail(WINDOW, items, scan) else {
                return self.evict_plainly(&[PROBATION, PROTECTED], items, &mut tries, scan);
            };
            let mut main = self.lists.tail(PROBATION, items, scan);
            if main.is_none() {
                main = self.lists.tail(PROTECTED, items, scan);
            }
            if self.lists.part_len(WINDOW) < window && main.is_some() {
                return self.evict_plainly(&[PROBATION, PROTECTED, WINDOW], items, &mut tries, scan);
            }
            let Some(incumbent) = main else {
                return self.evict_plainly(&[WINDOW], items, &mut tries, scan);
            };
            let seen = |entry| self.sketch.estimate(items.fingerprint(entry));
            let newcomer_wins = seen(newcomer.entry) >= seen(incumbent.entry);
            let loser = if newcomer_wins { incumbent } else { newcomer };
            match items.claim(loser.entry) {
                Claim::Taken => {
                    self.lists.forget_tail(loser);
                    if newcomer_wins {
                        self.lists.move_tail(newcomer, self.entrance(), items);
                    }
                    // The last fingerprint call must be for the evicted item.
                    items.fingerprint(loser.entry);
                    return Some(loser.entry);
                }
                Claim::Held => {
                    tries += 1;
                    self.lists.move_tail(loser, loser.part, items);
                    if tries >= MOST_COMPETITIONS {
                        return self.evict_plainly(&[PROBATION, PROTECTED, WINDOW], items, &mut tries, scan);
                    }
                }
                Claim::Gone => self.lists.forget_tail(loser),
            }
        }
        None
    }

    fn queues(&self, _items: &impl Items, now: u32) -> Vec<Queue> {
        self.lists.queues(&[(WINDOW, "window"), (PROBATION, "probation"), (PROTECTED, "protected")], now)
    }

    fn tail_hits(&self) -> Option<u64> {
        Some(self.lists.tail_hits(Part::Trial) + self.lists.tail_hits(Part::Proven))
    }

    fn prefetch(&self, fingerprint: u32) {
        self.sketch.prefetch(fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use crate::PolicyKind;
    use crate::testing::Sim;

    #[test]
    fn what_was_asked_for_often_outlives_any_scan() {
        for kind in [PolicyKind::TINY_LFU, PolicyKind::W_TINY_LFU] {
            let mut sim = Sim::new(kind, 1_000);
            for _ in 0..8 {
                (0..900).for_each(|key| {
                    sim.access(key);
                });
            }
            (10_000..12_000).for_each(|key| {
                sim.access(key);
            });
            let kept = (0..900).filter(|key| sim.contains(*key)).count();
            assert!(kept >= 860, "{kind}: {kept}");
        }
    }

    #[test]
    fn what_is_asked_for_more_and_more_gets_in_although_it_was_evicted() {
        for kind in [PolicyKind::TINY_LFU, PolicyKind::W_TINY_LFU] {
            let mut sim = Sim::new(kind, 100);
            (0..100).chain(0..100).for_each(|key| {
                sim.access(key);
            });
            // Each time others come between, so that it has left the window when it comes again.
            for round in 0..6 {
                sim.access(500);
                (0..5).for_each(|i| {
                    sim.access(10_000 + round * 5 + i);
                });
            }
            assert!(sim.contains(500), "{kind}");
        }
    }
}

//! SIEVE (Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is simpler than LRU: an
//! efficient turn-key eviction algorithm for web caches", NSDI'24, section 3).
//!
//! One queue in order of insertion and a *hand* that moves from the oldest item to the newest and
//! then begins again. An item that was hit since the hand last passed is spared, and keeps its
//! place; the first that was not is evicted, and the hand stays there. A hit sets one bit.
//!
//! The hand splits the queue in two, and both parts are first-in-first-out: items that the hand has
//! passed in this round, and items ahead of it, where new ones are added. So the algorithm is
//! exact, without links.
//!
//! Difference: a hand that has spared as many items in a row as `crate::scan_budget` allows takes
//! the next one.
//!
//! Policy bits: 0 set = hit since the hand last passed.
//!
//! Invariant 1: each item has an entry; `items` is their number, and entries beyond those are
//! stale.

use crate::contract::{Claim, Entry, EvictionPolicy, Items, MAX_HELD_TRIES, Queue, Rank, Rule};
use crate::fifo::{Blocks, Fifo};
use crate::scan_budget::ScanBudget;

const VISITED: u8 = 1;

/// Entries to examine per removed item, when sweeping is due.
const SWEPT_PER_REMOVAL: usize = 4;

/// The bits of an item after a hit.
#[inline]
pub(crate) fn hit(bits: u8) -> u8 {
    bits | VISITED
}

/// The policy of one class.
#[derive(Default)]
pub struct Sieve {
    blocks: Blocks<63>,
    /// Items spared in this round; older than those ahead.
    passed: Fifo,
    ahead: Fifo,
    items: usize,
    sweep_credit: usize,
    sweep_ahead: bool,
}

impl Sieve {
    fn turn_back(&mut self) {
        std::mem::swap(&mut self.passed, &mut self.ahead);
    }

    /// The oldest item, if it is found near the head.
    fn oldest(&self, items: &impl Items) -> Option<Entry> {
        // Spared items are older than those ahead.
        self.passed.first(&self.blocks, items).or_else(|| self.ahead.first(&self.blocks, items))
    }
}

impl EvictionPolicy for Sieve {
    const RULE: Rule = Rule::Sieve;

    fn admit(&mut self, _fingerprint: u32) -> u8 {
        0
    }

    fn readmit(&mut self, bits: u8, _fingerprint: u32) -> u8 {
        bits & VISITED
    }

    fn push(&mut self, entry: Entry, _bits: u8, _now: u32) {
        self.items += 1;
        self.ahead.push(&mut self.blocks, entry);
    }

    fn adopt(&mut self, entry: Entry, _rank: Rank, items: &impl Items, now: u32) {
        items.set_bits(entry, 0xff, 0);
        self.push(entry, 0, now);
    }

    fn removed(&mut self, _bits: u8, items: &impl Items) {
        self.items -= 1;
        let stale = self.passed.len() + self.ahead.len() - self.items;
        if stale * 4 > self.items + 256 {
            self.sweep_credit += SWEPT_PER_REMOVAL;
            if self.sweep_credit >= 64 {
                self.sweep_credit -= 64;
                self.sweep_ahead = !self.sweep_ahead || self.passed.is_empty();
                let queue = if self.sweep_ahead { &mut self.ahead } else { &mut self.passed };
                queue.sweep(
                    &mut self.blocks,
                    |entry| items.prefetch(entry),
                    |entry| items.bits(entry).is_some(),
                );
            }
        }
    }

    fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        let mut tries = 0;
        while self.items > 0 && tries < MAX_HELD_TRIES && !scan.is_spent() {
            // At the newest item the hand returns to the oldest, before further insertions.
            let Some(entry) = self.ahead.pop(&mut self.blocks) else {
                if self.passed.is_empty() {
                    return None;
                }
                self.turn_back();
                continue;
            };
            scan.add(1);
            if let Some(next) = self.ahead.peek(&self.blocks, 4) {
                items.prefetch(next);
            }
            let Some(bits) = items.bits(entry) else { continue };
            if bits & VISITED != 0 && scan.is_patient() {
                items.set_bits(entry, VISITED, 0);
                self.passed.push(&mut self.blocks, entry);
                continue;
            }
            match items.claim(entry) {
                Claim::Taken => {
                    self.items -= 1;
                    if self.ahead.is_empty() {
                        self.turn_back();
                    }
                    return Some(entry);
                }
                Claim::Held => {
                    self.passed.push(&mut self.blocks, entry);
                    tries += 1;
                }
                Claim::Gone => self.items -= 1,
            }
        }
        None
    }

    fn len(&self) -> usize {
        self.items
    }

    fn queues(&self, items: &impl Items, _now: u32) -> Vec<Queue> {
        let oldest = self.oldest(items);
        vec![Queue { name: "sieve", number: 0, items: self.items, age_secs: None, oldest }]
    }

    fn queue_bytes(&self) -> usize {
        self.blocks.bytes()
    }

    fn validate(&self, items: &impl Items) {
        let mut entries = self.passed.entries(&self.blocks);
        entries.extend(self.ahead.entries(&self.blocks));
        let live = entries.iter().filter(|entry| items.bits(**entry).is_some()).count();
        assert!(live >= self.items, "invariant 1: {live} entries for {} items", self.items);
    }
}

#[cfg(test)]
mod tests {
    use crate::PolicyKind;
    use crate::testing::Sim;

    /// The example of the paper's figure 1: A to G, of which A, B and G were hit, then H, A, D, I
    /// and B.
    #[test]
    fn the_example_of_the_paper() {
        let mut sim = Sim::new(PolicyKind::Sieve, 7);
        for key in [1, 2, 3, 4, 5, 6, 7, 1, 2, 7] {
            sim.access(key);
        }
        // The hand spares A and B and takes C.
        sim.access(8);
        assert!(!sim.contains(3));
        assert!(sim.access(1) && sim.access(4));
        // From there on it spares D and takes E.
        sim.access(9);
        assert!(!sim.contains(5));
        assert!([1, 2, 4, 6, 7, 8, 9].iter().all(|key| sim.contains(*key)));
    }

    #[test]
    fn the_hand_turns_back_at_the_newest_before_others_come() {
        let mut sim = Sim::new(PolicyKind::Sieve, 3);
        for key in [1, 2, 3, 1, 2] {
            sim.access(key);
        }
        sim.access(4);
        assert!(!sim.contains(3), "1 and 2 are spared, 3 is the newest");
        sim.access(5);
        assert!(!sim.contains(1) && sim.contains(4), "the hand begins again at the oldest");
    }
}

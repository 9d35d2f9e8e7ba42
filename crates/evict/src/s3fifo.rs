//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
//! SOSP'23, section 4).
//!
//! A small queue takes new items, a main queue those that were hit more than once while in the
//! small one, and a ghost queue remembers keys evicted from the small one: when such a key returns,
//! it enters the main queue at once. A hit increments a two-bit count in the item, up to three, and
//! moves nothing. Eviction:
//!
//! - from the small queue while it holds at least its share (10 %) of the items, else from the main
//!   queue;
//! - a small-queue item with more than one hit moves to the main queue, its count cleared;
//!   otherwise it is evicted and its key goes to the ghost queue, which remembers as many keys as
//!   the main queue has items;
//! - a main-queue item with hits is reinserted, with its count lowered by one; otherwise it is
//!   evicted.
//!
//! Differences: the cache size, from which the shares follow, is the present number of queued
//! items, as a size class has no fixed number; the ghost queue holds parts of hashes, and drops a
//! 64th of its entries at a time ([`crate::ghost`]); an eviction that has passed over as many items
//! as `crate::scan_budget` allows takes the next one, whatever its count.
//!
//! Policy bits: 0–1 the count, 2 set = in the main queue.
//!
//! Invariants:
//! 1. Each item has an entry; `items` is their number, and entries beyond those are stale.
//! 2. `small_items` is the number of items whose bit 2 is clear, except for bits that a hit under
//!    another policy left behind (invariant 1 of `hits`). So it only guides evictions, and is
//!    corrected when a queue turns out to be empty.

use crate::contract::{Claim, Entry, EvictionPolicy, Items, MAX_HELD_TRIES, Queue, Rank, Rule};
use crate::fifo::{Blocks, Fifo};
use crate::ghost::GhostQueue;
use crate::scan_budget::ScanBudget;

const COUNT: u8 = 0b011;
const MAIN: u8 = 0b100;

/// Entries to examine per removed item, when sweeping is due.
const SWEPT_PER_REMOVAL: usize = 4;

/// The bits of an item after a hit.
#[inline]
pub(crate) fn hit(bits: u8) -> u8 {
    if bits & COUNT == COUNT { bits } else { bits + 1 }
}

/// The number of the queue that an item is in, by its bits.
#[inline]
pub(crate) fn queue_of(bits: u8) -> usize {
    usize::from(bits & MAIN != 0)
}

/// The bits of an item that was hit before it was queued: its queue, and the number of its hits so
/// far.
#[inline]
pub(crate) fn counted(admitted: u8, earlier: u8) -> u8 {
    admitted & !COUNT | earlier & COUNT
}

/// The policy of one class.
pub struct S3Fifo {
    blocks: Blocks<63>,
    small: Fifo,
    main: Fifo,
    ghost: GhostQueue<1>,
    items: usize,
    small_items: usize,
    small_percent: u8,
    sweep_credit: usize,
    sweep_main: bool,
    /// Items per slab; 0 = hits among ghosts are not counted.
    tail_items: usize,
    tail_hits: f64,
}

impl S3Fifo {
    /// Creates an empty policy whose small queue has `small_percent` of the items.
    pub fn new(small_percent: u8) -> Self {
        Self {
            blocks: Blocks::default(),
            small: Fifo::default(),
            main: Fifo::default(),
            ghost: GhostQueue::default(),
            items: 0,
            small_items: 0,
            small_percent,
            sweep_credit: 0,
            sweep_main: false,
            tail_items: 0,
            tail_hits: 0.0,
        }
    }

    /// Records that an item with `bits` is no longer queued.
    fn forget(&mut self, bits: u8) {
        self.items -= 1;
        if bits & MAIN == 0 {
            self.small_items = self.small_items.saturating_sub(1);
        }
    }

    /// Sweeps a block of the two queues in turn.
    fn sweep(&mut self, items: &impl Items) {
        self.sweep_main = !self.sweep_main || self.small.is_empty();
        let queue = if self.sweep_main { &mut self.main } else { &mut self.small };
        queue.sweep(&mut self.blocks, |entry| items.prefetch(entry), |entry| items.bits(entry).is_some());
    }

    /// The number of items at which evictions come from the small queue.
    fn small_target(&self) -> usize {
        (self.len() * usize::from(self.small_percent) / 100).max(1)
    }

    /// Processes the small queue until an item is evicted or the main queue has to be examined.
    fn evict_small(&mut self, items: &impl Items, tries: &mut u32, scan: &mut ScanBudget) -> Option<Entry> {
        while !scan.is_spent()
            && let Some(entry) = self.small.pop(&mut self.blocks)
        {
            scan.add(1);
            if let Some(ahead) = self.small.peek(&self.blocks, 4) {
                items.prefetch(ahead);
            }
            let Some(bits) = items.bits(entry) else { continue };
            if bits & MAIN != 0 && scan.is_patient() {
                self.main.push(&mut self.blocks, entry);
                continue;
            }
            if bits & COUNT > 1 && scan.is_patient() {
                items.set_bits(entry, COUNT | MAIN, MAIN);
                self.small_items = self.small_items.saturating_sub(1);
                self.main.push(&mut self.blocks, entry);
                continue;
            }
            match items.claim(entry) {
                Claim::Taken => {
                    let main_target = self.len().saturating_sub(self.small_target()).max(1);
                    if main_target != self.ghost.capacity() {
                        self.ghost.set_capacity(main_target);
                    }
                    self.ghost.insert(0, items.fingerprint(entry));
                    self.forget(bits);
                    return Some(entry);
                }
                Claim::Held => {
                    self.small.push(&mut self.blocks, entry);
                    *tries += 1;
                    if *tries >= MAX_HELD_TRIES {
                        return None;
                    }
                }
                Claim::Gone => self.forget(bits),
            }
        }
        None
    }

    /// Processes the main queue until an item is evicted.
    fn evict_main(&mut self, items: &impl Items, tries: &mut u32, scan: &mut ScanBudget) -> Option<Entry> {
        while !scan.is_spent()
            && let Some(entry) = self.main.pop(&mut self.blocks)
        {
            scan.add(1);
            if let Some(ahead) = self.main.peek(&self.blocks, 4) {
                items.prefetch(ahead);
            }
            let Some(bits) = items.bits(entry) else { continue };
            if bits & MAIN == 0 && scan.is_patient() {
                self.small.push(&mut self.blocks, entry);
                continue;
            }
            if bits & COUNT > 0 && scan.is_patient() {
                items.set_bits(entry, COUNT, (bits & COUNT) - 1);
                self.main.push(&mut self.blocks, entry);
                continue;
            }
            match items.claim(entry) {
                Claim::Taken => {
                    self.forget(bits);
                    return Some(entry);
                }
                Claim::Held => {
                    self.main.push(&mut self.blocks, entry);
                    *tries += 1;
                    if *tries >= MAX_HELD_TRIES {
                        return None;
                    }
                }
                Claim::Gone => self.forget(bits),
            }
        }
        None
    }
}

impl EvictionPolicy for S3Fifo {
    const RULE: Rule = Rule::S3Fifo;

    fn admit(&mut self, fingerprint: u32) -> u8 {
        if self.ghost.remove(fingerprint).is_none() {
            return 0;
        }
        // With room for as many more items as the ghost has, this would have been a hit. One more
        // slab would have brought this fraction of a hit.
        self.tail_hits += self.tail_items as f64 / self.ghost.capacity().max(self.tail_items).max(1) as f64;
        MAIN
    }

    fn readmit(&mut self, bits: u8, _fingerprint: u32) -> u8 {
        bits & (COUNT | MAIN)
    }

    fn push(&mut self, entry: Entry, bits: u8, _now: u32) {
        if bits & MAIN == 0 {
            self.small.push(&mut self.blocks, entry);
            self.small_items += 1;
        } else {
            self.main.push(&mut self.blocks, entry);
        }
        self.items += 1;
    }

    /// Queues the first ones, as many as its share, in the small queue, and the rest in the main
    /// queue.
    fn adopt(&mut self, entry: Entry, rank: Rank, items: &impl Items, now: u32) {
        let small = rank.of * usize::from(self.small_percent) / 100;
        let bits = if rank.at < small { 0 } else { MAIN };
        items.set_bits(entry, 0xff, bits);
        self.push(entry, bits, now);
    }

    fn removed(&mut self, bits: u8, items: &impl Items) {
        self.forget(bits);
        let stale = self.small.len() + self.main.len() - self.len();
        if stale * 4 > self.len() + 256 {
            self.sweep_credit += SWEPT_PER_REMOVAL;
            if self.sweep_credit >= 64 {
                self.sweep_credit -= 64;
                self.sweep(items);
            }
        }
    }

    fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        let mut tries = 0;
        while self.len() > 0 && tries < MAX_HELD_TRIES && !scan.is_spent() {
            self.small_items = match (self.small.is_empty(), self.main.is_empty()) {
                (true, true) => return None,
                (true, false) => 0,
                (false, true) => self.items,
                (false, false) => self.small_items.min(self.items),
            };
            let from_small = self.small_items > 0
                && (self.small_items >= self.small_target() || self.small_items == self.items);
            let evicted = if from_small || self.main.is_empty() {
                self.evict_small(items, &mut tries, scan)
            } else {
                self.evict_main(items, &mut tries, scan)
            };
            if evicted.is_some() {
                return evicted;
            }
        }
        None
    }

    fn len(&self) -> usize {
        self.items
    }

    fn queues(&self, items: &impl Items, _now: u32) -> Vec<Queue> {
        let small = self.small_items.min(self.items);
        let queue = |name, number, len, fifo: &Fifo| Queue {
            name,
            number,
            items: len,
            age_secs: None,
            oldest: fifo.first(&self.blocks, items),
        };
        vec![queue("small", 0, small, &self.small), queue("main", 1, self.items - small, &self.main)]
    }

    fn set_tail_items(&mut self, items: usize) {
        self.tail_items = items;
    }

    /// An estimate of the hits that one more slab would have brought.
    fn tail_hits(&self) -> Option<u64> {
        Some(self.tail_hits as u64)
    }

    fn prefetch(&self, fingerprint: u32) {
        self.ghost.prefetch(fingerprint);
    }

    fn set_ghosts_open(&mut self, is_open: bool) {
        self.ghost.set_open(is_open);
    }

    fn ghosts(&self) -> usize {
        self.ghost.len(0)
    }

    fn ghost_bytes(&self) -> usize {
        self.ghost.bytes()
    }

    fn queue_bytes(&self) -> usize {
        self.blocks.bytes()
    }

    fn validate(&self, items: &impl Items) {
        let mut entries = self.small.entries(&self.blocks);
        entries.extend(self.main.entries(&self.blocks));
        let live = entries.iter().filter(|entry| items.bits(**entry).is_some()).count();
        assert!(live >= self.items, "invariant 1: {live} entries for {} items", self.items);
        assert!(self.small_items <= self.items, "invariant 2");
    }
}

#[cfg(test)]
mod tests;

//! ARC (N. Megiddo, D. S. Modha, "ARC: a self-tuning, low overhead replacement cache", FAST'03, figure 4).
//!
//! Two LRU lists: T1 has items that were asked for once lately, T2 those that were asked for again; a hit moves an item to
//! the top of T2. Two ghost lists, B1 and B2, remember what each gave up. A miss of a key that B1 remembers says that T1
//! is too small, one that B2 remembers, that T2 is: the target `p` of T1 moves by what the other ghost list has for each
//! entry of this one, by one at least. Either way the key enters T2; a strange key enters T1. Eviction takes from T1
//! while that has more than `p` items, else from T2. T1 and B1 have no more entries together than the cache has items, all
//! four no more than twice as many.
//!
//! Departures: the engine evicts before it says which key comes, so the target moves one eviction later than in the paper,
//! and T1 gives up an item of exactly `p` to no key in particular. The cache size is the number of items queued now. Ghosts
//! are parts of hashes and forgotten by the 128th ([`crate::ghost`]).
//!
//! Policy bits: the stamp of [`crate::generations`]: trial = T1, proven = T2.

use crate::generations::Part;
use crate::ghost::Ghost;
use crate::hits::Hits;
use crate::lists::Lists;
use crate::{Entry, Items};

const T1: Part = Part::Trial;
const T2: Part = Part::Proven;
const B1: usize = 0;
const B2: usize = 1;

/// The policy of one class.
pub struct Arc {
    pub(crate) lists: Lists,
    ghosts: Ghost<2>,
    /// How many items T1 should have: `p`.
    target: f64,
}

impl Arc {
    pub(crate) fn new(hits: &Hits, expected: usize, now: u32) -> Self {
        Self { lists: Lists::new(hits, false, expected, now), ghosts: Ghost::default(), target: 0.0 }
    }

    pub(crate) fn prefetch(&self, fingerprint: u32) {
        self.ghosts.prefetch(fingerprint);
    }

    pub(crate) fn admit(&mut self, fingerprint: u32) -> u8 {
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

    pub(crate) fn evict(&mut self, items: &impl Items) -> Option<Entry> {
        let capacity = self.lists.len();
        if capacity != self.ghosts.capacity() {
            self.ghosts.set_capacity(capacity);
        }
        let t1 = self.lists.part_len(T1);
        let mut tries = 0;
        let parts = if t1 as f64 > self.target || t1 == capacity { [T1, T2] } else { [T2, T1] };
        let (part, entry) = parts
            .into_iter()
            .find_map(|part| Some((part, self.lists.evict_from(part, items, &mut tries)?)))?;
        self.remember(part, entry, capacity, items);
        Some(entry)
    }

    /// Lets the ghosts of the part that an item was evicted from remember it.
    fn remember(&mut self, part: Part, entry: Entry, capacity: usize, items: &impl Items) {
        // One more is about to come to B1 or B2, and perhaps one to T1. Where both lists want the room, B2 gives way.
        let t1 = self.lists.part_len(T1) + 1;
        self.ghosts.shrink(B1, capacity.saturating_sub(t1 + 1));
        self.ghosts.shrink(B2, capacity.saturating_sub(self.ghosts.len(B1) + 1));
        self.ghosts.insert(if part == T1 { B1 } else { B2 }, items.fingerprint(entry));
    }

    /// Queues the items of another policy, the first to go first: the first half in T1, from which evictions come until a
    /// ghost says otherwise.
    pub(crate) fn adopt(&mut self, entries: &[Entry], items: &impl Items, now: u32) {
        let half = entries.len() / 2;
        for (i, entry) in entries.iter().enumerate() {
            self.lists.adopt(*entry, if i < half { T1 } else { T2 }, items, now);
        }
    }

    pub(crate) fn ghost_bytes(&self) -> usize {
        self.ghosts.bytes()
    }
}

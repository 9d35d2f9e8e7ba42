//! LRU with lazy promotion, by generations.
//!
//! A hit stamps the item with the present *generation* (8 bits) and moves nothing. Items are queued
//! by generation; eviction takes from the oldest queue, and an item with a newer stamp is queued
//! again under that stamp. So an evicted item has the oldest stamp of all: the order is that of
//! LRU, up to the order of accesses within one generation. The length of a generation in accesses
//! (the *quantum*) is adjusted so that about 128–192 generations are alive: with few items it is
//! one access, and the policy is exact.
//!
//! As in CacheLib (OSDI'20, section 4.2, and its `MMLru`), an item is not promoted again within the
//! *refresh time* (60 s by default), except by its first hit; the age of a stamp is that of its
//! generation.
//!
//! Generations follow the Linux multi-generational LRU; stamps that are applied at eviction replace
//! the list lock that CacheLib's promotion takes.
//!
//! Policy bits: the generation.
//!
//! Invariants:
//! 1. Alive generations are `oldest ..= present`, at most `WINDOW` of 256, so that a stamp names
//!    exactly one.
//! 2. An item has an entry in the queue of its stamp or in an older one.
//! 3. `items` is the number of queued items; further entries are stale. A stale entry whose chunk
//!    now has another item may lie in a younger queue than that item's stamp (a moved item keeps an
//!    old stamp). It is reached later than the item's own entry, and does no harm.

use std::sync::Arc;

use base::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::contract::{Claim, Entry, EvictionPolicy, Items, MAX_HELD_TRIES, Queue, Rank, Rule};
use crate::fifo::{Blocks, Fifo};
use crate::hits::Hits;
use crate::scan_budget::ScanBudget;

/// Most generations alive at once.
const WINDOW: u8 = 250;
/// The quantum is raised above this many alive generations …
const MANY: u8 = 192;
/// … and lowered below this many.
const FEW: u8 = 128;

/// Entries to examine per removed item, when sweeping is due.
const SWEPT_PER_REMOVAL: usize = 4;

/// The generations, as hits see them: read and advanced without a lock.
pub struct LruClock {
    present: AtomicU8,
    /// The oldest generation alive; written under the lock of the class.
    oldest: AtomicU8,
    /// Stamps given in the present generation.
    stamped: AtomicU32,
    quantum: AtomicU32,
    /// The time at which each generation began, in seconds.
    began: [AtomicU32; 256],
    refresh_secs: AtomicU32,
}

impl Default for LruClock {
    fn default() -> Self {
        Self {
            present: AtomicU8::new(0),
            oldest: AtomicU8::new(0),
            stamped: AtomicU32::new(0),
            quantum: AtomicU32::new(1),
            began: std::array::from_fn(|_| AtomicU32::new(0)),
            refresh_secs: AtomicU32::new(0),
        }
    }
}

impl LruClock {
    /// Returns a clock with the same state.
    fn copy(&self) -> Self {
        Self {
            present: AtomicU8::new(self.present.load(Ordering::Relaxed)),
            oldest: AtomicU8::new(self.oldest.load(Ordering::Relaxed)),
            stamped: AtomicU32::new(self.stamped.load(Ordering::Relaxed)),
            quantum: AtomicU32::new(self.quantum.load(Ordering::Relaxed)),
            began: std::array::from_fn(|generation| {
                AtomicU32::new(self.began[generation].load(Ordering::Relaxed))
            }),
            refresh_secs: AtomicU32::new(self.refresh_secs.load(Ordering::Relaxed)),
        }
    }

    /// Resets the clock; `expected` items are about to be queued.
    fn reset(&self, refresh_secs: u32, expected: usize, now: u32) {
        self.present.store(0, Ordering::Relaxed);
        self.oldest.store(0, Ordering::Relaxed);
        self.stamped.store(0, Ordering::Relaxed);
        self.quantum.store((expected / usize::from(MANY)).max(1) as u32, Ordering::Relaxed);
        self.began.iter().for_each(|began| began.store(now, Ordering::Relaxed));
        self.refresh_secs.store(refresh_secs, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn hit(&self, stamp: u8, first: bool, now: impl Fn() -> u32) -> u8 {
        let present = self.present.load(Ordering::Relaxed);
        if stamp == present { stamp } else { self.hit_older(present, (stamp, first), now) }
    }

    /// The same for an item that was not stamped in the present generation. Not a part of `hit`, so
    /// that a hit that changes nothing saves no registers.
    #[inline(never)]
    fn hit_older(&self, present: u8, (stamp, first): (u8, bool), now: impl Fn() -> u32) -> u8 {
        let refresh_secs = self.refresh_secs.load(Ordering::Relaxed);
        if refresh_secs == 0 {
            return self.stamp(present, now);
        }
        let now_secs = now();
        let age = now_secs.saturating_sub(self.began[usize::from(stamp)].load(Ordering::Relaxed));
        if !first && age < refresh_secs { stamp } else { self.stamp(present, || now_secs) }
    }

    /// Counts a stamp of generation `present`, and begins the next generation if the quantum is
    /// used up.
    #[inline]
    fn stamp(&self, present: u8, now: impl Fn() -> u32) -> u8 {
        let stamped = self.stamped.fetch_add(1, Ordering::Relaxed) + 1;
        if stamped >= self.quantum.load(Ordering::Relaxed) {
            self.advance(present, now());
        }
        present
    }

    /// Begins the generation after `present`, unless another thread did or the window is full.
    fn advance(&self, present: u8, now: u32) {
        let alive = present.wrapping_sub(self.oldest.load(Ordering::Acquire));
        let quantum = self.quantum.load(Ordering::Relaxed);
        if alive > MANY {
            self.quantum.store(quantum.saturating_add(quantum / 16 + 1), Ordering::Relaxed);
        } else if alive < FEW {
            self.quantum.store((quantum - quantum / 16).max(1), Ordering::Relaxed);
        }
        self.stamped.store(0, Ordering::Relaxed);
        if alive >= WINDOW {
            return;
        }
        let next = present.wrapping_add(1);
        self.began[usize::from(next)].store(now, Ordering::Relaxed);
        // Only one of several threads that saw the same generation succeeds, and the present
        // generation never goes back.
        let _ = self.present.compare_exchange(present, next, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The policy of one class.
pub struct Lru {
    clock: Arc<LruClock>,
    blocks: Blocks<15>,
    queues: Box<[Fifo; 256]>,
    /// Entries in all queues.
    entries: usize,
    items: usize,
    sweep_credit: usize,
    sweep_at: u8,
}

impl Lru {
    /// Creates an empty policy over the clock of `hits`, which is reset; `expected` items are about
    /// to be queued. `now` in seconds.
    pub(crate) fn new(refresh_secs: u32, hits: &Hits, expected: usize, now: u32) -> Self {
        let clock = Arc::clone(hits.lru());
        clock.reset(refresh_secs, expected, now);
        Self {
            clock,
            blocks: Blocks::default(),
            queues: Box::new([Fifo::default(); 256]),
            entries: 0,
            items: 0,
            sweep_credit: 0,
            sweep_at: 0,
        }
    }

    fn enqueue(&mut self, entry: Entry, stamp: u8) {
        self.queues[usize::from(stamp)].push(&mut self.blocks, entry);
        self.entries += 1;
    }

    /// Sweeps a block of one queue and moves on to the next at its end.
    fn sweep(&mut self, items: &impl Items) {
        let oldest = self.clock.oldest.load(Ordering::Relaxed);
        let alive = self.clock.present.load(Ordering::Acquire).wrapping_sub(oldest);
        if self.sweep_at.wrapping_sub(oldest) > alive {
            self.sweep_at = oldest;
        }
        let (looked_at, dropped) = self.queues[usize::from(self.sweep_at)].sweep(
            &mut self.blocks,
            |entry| items.prefetch(entry),
            |entry| items.bits(entry).is_some(),
        );
        self.entries -= dropped;
        if looked_at == 0 {
            self.sweep_ends(items);
            self.sweep_at = self.sweep_at.wrapping_add(1);
        }
    }

    /// Sweeps a whole queue that is too short for a sweep by blocks.
    fn sweep_ends(&mut self, items: &impl Items) {
        let queue = &mut self.queues[usize::from(self.sweep_at)];
        if queue.len() > 64 {
            return;
        }
        for _ in 0..queue.len() {
            match queue.pop(&mut self.blocks) {
                Some(entry) if items.bits(entry).is_some() => queue.push(&mut self.blocks, entry),
                _ => self.entries -= 1,
            }
        }
    }
}

impl EvictionPolicy for Lru {
    const RULE: Rule = Rule::Lru;

    fn admit(&mut self, _fingerprint: u32) -> u8 {
        self.clock.present.load(Ordering::Acquire)
    }

    /// Keeps the item's own stamp while that generation is alive, else uses the oldest.
    fn readmit(&mut self, stamp: u8, _fingerprint: u32) -> u8 {
        let oldest = self.clock.oldest.load(Ordering::Relaxed);
        let present = self.clock.present.load(Ordering::Acquire);
        if stamp.wrapping_sub(oldest) <= present.wrapping_sub(oldest) { stamp } else { oldest }
    }

    fn push(&mut self, entry: Entry, stamp: u8, now: u32) {
        self.items += 1;
        self.enqueue(entry, stamp);
        let present = self.clock.present.load(Ordering::Acquire);
        self.clock.stamp(present, || now);
    }

    fn adopt(&mut self, entry: Entry, _rank: Rank, items: &impl Items, now: u32) {
        let stamp = self.clock.present.load(Ordering::Acquire);
        items.set_bits(entry, 0xff, stamp);
        self.push(entry, stamp, now);
    }

    fn removed(&mut self, _bits: u8, items: &impl Items) {
        self.items -= 1;
        if (self.entries - self.items) * 4 > self.items + 256 {
            self.sweep_credit += SWEPT_PER_REMOVAL;
            while self.sweep_credit >= 16 {
                self.sweep_credit -= 16;
                self.sweep(items);
            }
        }
    }

    fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        let mut tries = 0;
        let mut oldest = self.clock.oldest.load(Ordering::Relaxed);
        while self.items > 0 && tries < MAX_HELD_TRIES && !scan.is_spent() {
            let Some(entry) = self.queues[usize::from(oldest)].pop(&mut self.blocks) else {
                let present = self.clock.present.load(Ordering::Acquire);
                if oldest == present {
                    return None;
                }
                oldest = oldest.wrapping_add(1);
                self.clock.oldest.store(oldest, Ordering::Release);
                continue;
            };
            self.entries -= 1;
            scan.add(1);
            if let Some(ahead) = self.queues[usize::from(oldest)].peek(&self.blocks, 4) {
                items.prefetch(ahead);
            }
            let Some(stamp) = items.bits(entry) else { continue };
            // A thread that stalled between reading the generation and stamping may leave a dead
            // stamp, which counts as the oldest.
            let present = self.clock.present.load(Ordering::Acquire);
            let was_hit = stamp != oldest && stamp.wrapping_sub(oldest) <= present.wrapping_sub(oldest);
            if was_hit && scan.is_patient() {
                self.enqueue(entry, stamp);
                continue;
            }
            match items.claim(entry) {
                Claim::Taken => {
                    self.items -= 1;
                    return Some(entry);
                }
                Claim::Held => {
                    items.set_bits(entry, 0xff, present);
                    self.enqueue(entry, present);
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

    fn queues(&self, _items: &impl Items, now: u32) -> Vec<Queue> {
        let (items, age_secs) = (self.items, self.tail_age_secs(now));
        vec![Queue { name: "lru", number: 0, items, age_secs, oldest: None }]
    }

    fn tail_age_secs(&self, now: u32) -> Option<u32> {
        let oldest = self.clock.oldest.load(Ordering::Relaxed);
        (self.items > 0)
            .then(|| now.saturating_sub(self.clock.began[usize::from(oldest)].load(Ordering::Relaxed)))
    }

    /// The age of the generation behind the last `items` entries. Entries of items that were hit
    /// since count too.
    fn projected_age_secs(&self, items: usize, now: u32) -> Option<u32> {
        let (mut generation, present) =
            (self.clock.oldest.load(Ordering::Relaxed), self.clock.present.load(Ordering::Acquire));
        let mut covered = 0;
        loop {
            covered += self.queues[usize::from(generation)].len();
            if covered > items {
                let began = self.clock.began[usize::from(generation)].load(Ordering::Relaxed);
                return Some(now.saturating_sub(began));
            }
            if generation == present {
                return None;
            }
            generation = generation.wrapping_add(1);
        }
    }

    fn detach_clock(&mut self) {
        self.clock = Arc::new(self.clock.copy());
    }

    fn queue_bytes(&self) -> usize {
        self.blocks.bytes() + size_of::<[Fifo; 256]>()
    }

    fn validate(&self, items: &impl Items) {
        let oldest = self.clock.oldest.load(Ordering::Relaxed);
        let alive = self.clock.present.load(Ordering::Acquire).wrapping_sub(oldest);
        assert!(alive <= WINDOW, "invariant 1");
        let (mut entries, mut live) = (0, 0);
        // For each item, the age of the oldest queue that has it.
        let mut homes = std::collections::HashMap::new();
        for (generation, queue) in self.queues.iter().enumerate() {
            let age = (generation as u8).wrapping_sub(oldest);
            assert!(age <= alive || queue.is_empty(), "a dead generation has entries");
            for entry in queue.entries(&self.blocks) {
                entries += 1;
                if let Some(stamp) = items.bits(entry) {
                    live += 1;
                    let home = homes.entry(entry.0).or_insert((age, stamp));
                    home.0 = home.0.min(age);
                }
            }
        }
        for (age, stamp) in homes.values() {
            assert!(stamp.wrapping_sub(oldest) >= *age, "invariant 2");
        }
        assert_eq!(entries, self.entries);
        assert!(live >= self.items, "invariant 3: {live} entries for {} items", self.items);
    }
}

#[cfg(test)]
mod tests;

//! The ghost queue of S3-FIFO: which keys were evicted from the small queue lately.
//!
//! A queue of hashes with an index over it would cost 12 bytes and more per entry. Here a cache line is a *set* of 21
//! slots with 16 bits of a key's hash and the 8-bit *epoch* in which it was evicted; a key's set follows from its hash.
//! The table has half as many slots again as the queue has entries, so that a set is rarely full: 4.6 bytes per entry.
//!
//! An epoch is a 64th of the capacity. The number of entries alive is kept per epoch, and the oldest epoch dies as a
//! whole when there are more than the capacity: a FIFO queue, exact up to a 64th (and exact for up to 14 entries).
//! A key that is found leaves, and its place counts as free. A strange key is mistaken for an entry once in some 4,700
//! times; it then enters the main queue instead of the small one.
//!
//! A key's set is `hash * sets >> 32`, so a table of other size takes over the contents of the sets that its own sets
//! begin in: more than half of what was remembered survives a change of size.
//!
//! Invariants:
//! 1. Alive epochs are `oldest ..= present`, at most `WINDOW` of 256.
//! 2. `alive[e]` is the number of slots with epoch `e`, for alive epochs, and `total` their sum.
//! 3. A slot of a dead epoch is emptied before its epoch's number comes to life again: every 8th insertion cleans a set.

const SLOTS: usize = 21;
const EPOCHS_PER_CAPACITY: usize = 64;
const WINDOW: u8 = 200;
const INSERTIONS_PER_CLEANING: usize = 8;

/// A cache line of slots. Tag 0 = vacant.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Set {
    tags: [u16; SLOTS],
    epochs: [u8; SLOTS],
}

const _: () = assert!(size_of::<Set>() == 64);

impl Set {
    const EMPTY: Self = Self { tags: [0; SLOTS], epochs: [0; SLOTS] };
}

/// Keys that were evicted lately.
#[derive(Default)]
pub struct Ghost {
    sets: Vec<Set>,
    capacity: usize,
    /// Entries alive by epoch; empty until the first insertion.
    alive: Vec<u32>,
    total: usize,
    oldest: u8,
    present: u8,
    inserted_in_epoch: usize,
    insertions: usize,
    clean_at: usize,
}

impl Ghost {
    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.sets.capacity() * size_of::<Set>() + self.alive.capacity() * size_of::<u32>()
    }

    /// How many entries it holds when full.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room for `capacity` entries. Keeps the table unless it is too small or more than a quarter too large;
    /// otherwise costs a copy of it.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        let wanted = (capacity * 3 / 2).div_ceil(SLOTS).max(1);
        if wanted > self.sets.len() || wanted * 5 / 4 + 1 < self.sets.len() {
            // A sixteenth more than wanted, so that a growing class does not copy at every slab.
            self.rebuild(wanted + wanted / 16);
        }
        self.bury();
    }

    fn rebuild(&mut self, count: usize) {
        let old = std::mem::take(&mut self.sets);
        self.sets = (0..count)
            .map(|i| if old.is_empty() { Set::EMPTY } else { old[i * old.len() / count] })
            .collect();
        self.alive.resize(256, 0);
        self.alive.fill(0);
        self.total = 0;
        self.clean_at = 0;
        for i in 0..count {
            self.clean(i);
            let Set { tags, epochs } = self.sets[i];
            for (_, epoch) in tags.iter().zip(epochs).filter(|(tag, _)| **tag != 0) {
                self.alive[usize::from(epoch)] += 1;
                self.total += 1;
            }
        }
    }

    fn place(&self, hash: u32) -> (usize, u16) {
        let set = ((u64::from(hash) * self.sets.len() as u64) >> 32) as usize;
        (set, (hash as u16).max(1))
    }

    fn is_alive(&self, epoch: u8) -> bool {
        epoch.wrapping_sub(self.oldest) <= self.present.wrapping_sub(self.oldest)
    }

    /// Remembers a key; beyond the capacity, the oldest are forgotten.
    pub fn insert(&mut self, hash: u32) {
        if self.capacity == 0 || self.sets.is_empty() {
            return;
        }
        let (set, tag) = self.place(hash);
        let Set { tags, epochs } = self.sets[set];
        // The first slot that is vacant or dead, or else the oldest.
        let age = |slot: &usize| {
            let dead = tags[*slot] == 0 || !self.is_alive(epochs[*slot]);
            if dead { u16::MAX } else { u16::from(self.present.wrapping_sub(epochs[*slot])) }
        };
        let slot = (0..SLOTS).rev().max_by_key(age).unwrap_or(0);
        if age(&slot) != u16::MAX {
            self.forget(epochs[slot]);
        }
        self.sets[set].tags[slot] = tag;
        self.sets[set].epochs[slot] = self.present;
        self.alive[usize::from(self.present)] += 1;
        self.total += 1;
        self.inserted_in_epoch += 1;
        if self.inserted_in_epoch >= (self.capacity / EPOCHS_PER_CAPACITY).max(1) {
            self.begin_epoch();
        }
        self.bury();
        self.insertions += 1;
        if self.insertions.is_multiple_of(INSERTIONS_PER_CLEANING) {
            self.clean(self.clean_at);
            self.clean_at = (self.clean_at + 1) % self.sets.len();
        }
    }

    /// Whether a key is remembered; it no longer is afterwards.
    pub fn remove(&mut self, hash: u32) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        let (set, tag) = self.place(hash);
        let Set { tags, epochs } = self.sets[set];
        let Some(slot) = (0..SLOTS).find(|slot| tags[*slot] == tag && self.is_alive(epochs[*slot])) else {
            return false;
        };
        self.sets[set].tags[slot] = 0;
        self.forget(epochs[slot]);
        true
    }

    fn forget(&mut self, epoch: u8) {
        self.alive[usize::from(epoch)] -= 1;
        self.total -= 1;
    }

    fn begin_epoch(&mut self) {
        self.inserted_in_epoch = 0;
        if self.present.wrapping_sub(self.oldest) >= WINDOW - 1 {
            self.let_oldest_die();
        }
        self.present = self.present.wrapping_add(1);
    }

    /// Lets the oldest epochs die until no more than the capacity is alive.
    fn bury(&mut self) {
        while self.total > self.capacity && self.oldest != self.present {
            self.let_oldest_die();
        }
    }

    fn let_oldest_die(&mut self) {
        let oldest = usize::from(self.oldest);
        self.total -= self.alive[oldest] as usize;
        self.alive[oldest] = 0;
        self.oldest = self.oldest.wrapping_add(1);
    }

    /// Empties the dead slots of a set.
    fn clean(&mut self, set: usize) {
        let Set { mut tags, epochs } = self.sets[set];
        for (tag, epoch) in tags.iter_mut().zip(epochs) {
            if !self.is_alive(epoch) {
                *tag = 0;
            }
        }
        self.sets[set].tags = tags;
    }

    #[cfg(test)]
    fn validate(&self) {
        assert!(self.present.wrapping_sub(self.oldest) < WINDOW, "invariant 1");
        let mut alive = vec![0; 256];
        for set in &self.sets {
            for (_, epoch) in
                set.tags.iter().zip(set.epochs).filter(|(tag, epoch)| **tag != 0 && self.is_alive(*epoch))
            {
                alive[usize::from(epoch)] += 1;
            }
        }
        assert_eq!(alive.iter().sum::<u32>() as usize, self.total, "invariant 2");
        assert!(self.alive.is_empty() || alive == self.alive, "invariant 2");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::mix64;
    use std::collections::VecDeque;

    fn hash(i: u64) -> u32 {
        mix64(i) as u32
    }

    #[test]
    fn a_small_ghost_is_an_exact_fifo_in_which_a_found_key_makes_room() {
        for capacity in [1, 9, 14] {
            let mut ghost = Ghost::default();
            ghost.set_capacity(capacity);
            let mut model = VecDeque::new();
            for step in 0..20_000_u64 {
                let key = mix64(step) % (3 * capacity as u64);
                let expected = model.iter().position(|k| *k == key).map(|i| model.remove(i)).is_some();
                assert_eq!(ghost.remove(hash(key)), expected, "capacity {capacity}, step {step}");
                if !mix64(step + 1).is_multiple_of(3) {
                    ghost.insert(hash(key));
                    model.push_back(key);
                    if model.len() > capacity {
                        model.pop_front();
                    }
                }
            }
            ghost.validate();
        }
    }

    #[test]
    fn a_large_ghost_remembers_the_recent_and_rarely_errs() {
        const CAPACITY: u64 = 100_000;
        let mut ghost = Ghost::default();
        ghost.set_capacity(CAPACITY as usize);
        (0..10 * CAPACITY).for_each(|i| ghost.insert(hash(i)));
        ghost.validate();
        let remembered = |ghost: &mut Ghost, from: u64, to: u64| {
            (from..to).filter(|&i| ghost.remove(hash(i))).count() as f64 / (to - from) as f64
        };
        let strange = remembered(&mut ghost, 20 * CAPACITY, 21 * CAPACITY);
        assert!(strange < 0.001, "{strange}");
        let recent = remembered(&mut ghost, 9 * CAPACITY + CAPACITY / 20, 10 * CAPACITY);
        assert!(recent > 0.98, "{recent}");
        let old = remembered(&mut ghost, 0, 9 * CAPACITY - CAPACITY / 20);
        assert!(old < 0.002, "{old}");
        assert!(ghost.bytes() as u64 <= CAPACITY * 5, "{}", ghost.bytes());
        ghost.validate();
    }

    #[test]
    fn growth_keeps_more_than_half_of_what_is_remembered() {
        let mut ghost = Ghost::default();
        ghost.set_capacity(1_000);
        (0..800).for_each(|i| ghost.insert(hash(i)));
        ghost.set_capacity(1_700);
        ghost.validate();
        let kept = (0..800).filter(|&i| ghost.remove(hash(i))).count();
        assert!(kept > 400, "{kept}");
        ghost.set_capacity(10);
        ghost.validate();
    }
}

//! The ghost queue of S3-FIFO: fingerprints of keys that were evicted from the small queue.
//!
//! Exact queues of hashes would cost 8 bytes and more per entry. Here a cache line is a *set* of up to 42 fingerprints
//! of 12 bits, a FIFO of its own; a key's set follows from its hash. That is 1.5 bytes per entry. A set forgets its
//! own oldest, which in a large table is nearly the oldest of all, and mistakes a strange key for one of its own with
//! a probability of 1 % when full (the key then enters the main queue instead of the small one: harmless).
//!
//! A key's set is `hash * sets >> 32`, so a table of other size takes over the contents of the sets that its own sets
//! begin in: more than half of what was remembered survives a change of size.

const PER_SET: usize = 42;

/// A cache line of fingerprints. Fingerprint 0 = vacant.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Set {
    /// Where the next fingerprint goes.
    cursor: u8,
    low: [u8; PER_SET],
    /// The upper 4 bits, two to a byte.
    high: [u8; PER_SET / 2],
}

const _: () = assert!(size_of::<Set>() == 64);

impl Set {
    const EMPTY: Self = Self { cursor: 0, low: [0; PER_SET], high: [0; PER_SET / 2] };

    fn get(&self, i: usize) -> u16 {
        u16::from(self.low[i]) | u16::from(self.high[i / 2] >> (i % 2 * 4) & 0xf) << 8
    }

    fn put(&mut self, i: usize, fingerprint: u16) {
        self.low[i] = fingerprint as u8;
        let shift = i % 2 * 4;
        self.high[i / 2] = self.high[i / 2] & !(0xf << shift) | ((fingerprint >> 8) as u8) << shift;
    }

    fn find(&self, fingerprint: u16) -> Option<usize> {
        let low = fingerprint as u8;
        (0..PER_SET).find(|&i| self.low[i] == low && self.get(i) == fingerprint)
    }
}

/// Fingerprints of evicted keys, the most recent ones.
#[derive(Default)]
pub struct Ghost {
    sets: Vec<Set>,
    capacity: usize,
}

impl Ghost {
    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.sets.capacity() * size_of::<Set>()
    }

    /// How many entries it holds when full.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room for `capacity` entries. Reuses the table unless it is too small or more than a quarter too large;
    /// otherwise costs a copy of it.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        let wanted = capacity.div_ceil(PER_SET);
        if wanted <= self.sets.len() && wanted * 5 / 4 + 1 >= self.sets.len() {
            return;
        }
        // A sixteenth more than wanted, so that a growing class does not copy at every slab.
        let count = wanted + wanted / 16;
        let old = std::mem::take(&mut self.sets);
        self.sets = (0..count)
            .map(|i| if old.is_empty() { Set::EMPTY } else { old[i * old.len() / count] })
            .collect();
        let per_set = self.per_set();
        for set in &mut self.sets {
            if usize::from(set.cursor) >= per_set {
                set.cursor = 0;
            }
            (per_set..PER_SET).for_each(|i| set.put(i, 0));
        }
    }

    /// How many slots of each set are in use, so that all sets together hold `capacity`.
    fn per_set(&self) -> usize {
        self.capacity.div_ceil(self.sets.len().max(1)).min(PER_SET)
    }

    fn place(&self, hash: u32) -> (usize, u16) {
        let set = ((u64::from(hash) * self.sets.len() as u64) >> 32) as usize;
        (set, ((hash & 0xfff) as u16).max(1))
    }

    /// Remembers a key; in a full set, the oldest is forgotten.
    pub fn insert(&mut self, hash: u32) {
        if self.sets.is_empty() || self.capacity == 0 {
            return;
        }
        let per_set = self.per_set();
        let (set, fingerprint) = self.place(hash);
        let set = &mut self.sets[set];
        set.put(usize::from(set.cursor), fingerprint);
        set.cursor = ((usize::from(set.cursor) + 1) % per_set) as u8;
    }

    /// Whether a key is remembered; it no longer is afterwards.
    pub fn remove(&mut self, hash: u32) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        let (set, fingerprint) = self.place(hash);
        let set = &mut self.sets[set];
        match set.find(fingerprint) {
            Some(i) => {
                set.put(i, 0);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::mix64;

    fn hash(i: u64) -> u32 {
        mix64(i) as u32
    }

    #[test]
    fn a_small_ghost_is_an_exact_fifo() {
        let mut ghost = Ghost::default();
        ghost.set_capacity(9);
        (0..20).for_each(|i| ghost.insert(hash(i)));
        for i in 0..20 {
            assert_eq!(ghost.remove(hash(i)), i >= 11, "{i}");
            assert!(!ghost.remove(hash(i)), "a found key is forgotten");
        }
    }

    #[test]
    fn a_large_ghost_remembers_the_recent_and_rarely_errs() {
        const CAPACITY: u64 = 100_000;
        let mut ghost = Ghost::default();
        ghost.set_capacity(CAPACITY as usize);
        (0..3 * CAPACITY).for_each(|i| ghost.insert(hash(i)));
        let remembered = |ghost: &mut Ghost, from: u64, to: u64| {
            (from..to).filter(|&i| ghost.remove(hash(i))).count() as f64 / (to - from) as f64
        };
        let strange = remembered(&mut ghost, 10 * CAPACITY, 11 * CAPACITY);
        assert!(strange < 0.012, "{strange}");
        let recent = remembered(&mut ghost, CAPACITY * 5 / 2, 3 * CAPACITY);
        assert!(recent > 0.97, "{recent}");
        let old = remembered(&mut ghost, 0, CAPACITY);
        assert!(old < 0.03, "{old}");
        assert!(ghost.bytes() as u64 <= CAPACITY * 17 / 10, "{}", ghost.bytes());
    }

    #[test]
    fn growth_keeps_more_than_half_of_what_is_remembered() {
        let mut ghost = Ghost::default();
        ghost.set_capacity(1_000);
        (0..800).for_each(|i| ghost.insert(hash(i)));
        ghost.set_capacity(1_700);
        let kept = (0..800).filter(|&i| ghost.remove(hash(i))).count();
        assert!(kept > 400, "{kept}");
    }
}

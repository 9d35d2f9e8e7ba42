//! The LRU stack: keys by recency, each with its size, and how much lies above a key.
//!
//! Mattson, Gecsei, Slutz and Traiger, "Evaluation Techniques for Storage Hierarchies", IBM Systems Journal 1970: a cache of a given
//! size holds the top of the stack that fits in. An access therefore hits in just the caches that have room for the key and for
//! all that lies above it, its *stack distance*.
//!
//! Every access takes the next place in a row; the place that the key had becomes empty. What lies above a key is the sum behind its
//! place ([`Sums`]). When the row is used up, the keys move together to its beginning.
//!
//! Invariants:
//! 1. A place has a weight exactly if the key there has it in `by_key`; a weight is at least 1.
//! 2. Places below `first` and from `next` on are empty.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::sums::Sums;

/// Takes a key's hash for what it is: a hash.
#[derive(Clone, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = base::hash::key_hash(self.0, bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A map from hashes.
pub(crate) type HashTable<V> = HashMap<u64, V, BuildHasherDefault<Hashed>>;

/// Places of the smallest row.
const LEAST_PLACES: usize = 256;

/// Keys by recency.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    by_key: HashTable<u32>,
    /// The key at each place.
    keys: Vec<u64>,
    weights: Sums,
    first: usize,
    next: usize,
    total: u64,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            by_key: HashTable::default(),
            keys: vec![0; LEAST_PLACES],
            weights: Sums::new(LEAST_PLACES),
            first: 0,
            next: 0,
            total: 0,
        }
    }
}

/// Where an accessed key was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The sum of the sizes of what lay above it.
    pub(crate) above: u64,
    /// Its own size then.
    pub(crate) size: u64,
}

impl Stack {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The sum of all sizes.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Puts a key on top, and says where it was. `size` 0 keeps the size that it had, or takes the mean of all.
    #[inline]
    pub(crate) fn access(&mut self, key: u64, size: u64) -> Option<Found> {
        if self.next == self.weights.places() {
            self.gather();
        }
        let top = self.next;
        let (found, size) = match self.by_key.entry(key) {
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                let place = *entry.get() as usize;
                let found = Found { above: self.weights.behind(place), size: self.weights.get(place) };
                let size = if size == 0 { found.size } else { size };
                if place + 1 == top {
                    // On top already.
                    self.weights.set(place, size);
                    self.total = self.total - found.size + size;
                    return Some(found);
                }
                entry.insert(top as u32);
                self.weights.set(place, 0);
                self.total -= found.size;
                (Some(found), size)
            }
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(top as u32);
                let keys = self.by_key.len() as u64 - 1;
                (None, if size == 0 { (self.total / keys.max(1)).max(1) } else { size })
            }
        };
        self.keys[top] = key;
        self.weights.set(top, size);
        self.total += size;
        self.next += 1;
        found
    }

    /// Takes out the keys of which `gone` says so.
    pub(crate) fn remove_if(&mut self, gone: impl Fn(u64) -> bool) {
        let Self { by_key, weights, total, .. } = self;
        by_key.retain(|&key, &mut place| {
            let stays = !gone(key);
            if !stays {
                *total -= weights.get(place as usize);
                weights.set(place as usize, 0);
            }
            stays
        });
    }

    /// Where a key is.
    pub(crate) fn find(&self, key: u64) -> Option<Found> {
        let place = *self.by_key.get(&key)? as usize;
        Some(Found { above: self.weights.behind(place), size: self.weights.get(place) })
    }

    /// Takes out a key.
    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(place) = self.by_key.remove(&key) {
            self.total -= self.weights.get(place as usize);
            self.weights.set(place as usize, 0);
        }
    }

    /// Takes out the least recent key, and gives it back with its size.
    pub(crate) fn pop_last(&mut self) -> Option<(u64, u64)> {
        while self.first < self.next {
            let (place, weight) = (self.first, self.weights.get(self.first));
            self.first += 1;
            if weight > 0 {
                self.weights.set(place, 0);
                self.total -= weight;
                self.by_key.remove(&self.keys[place]);
                return Some((self.keys[place], weight));
            }
        }
        None
    }

    /// The keys, in no order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> {
        self.by_key.keys().copied()
    }

    /// Moves the keys together at the beginning of a row that has a place free for each.
    #[cold]
    fn gather(&mut self) {
        let places = (self.len() * 2).next_power_of_two().max(LEAST_PLACES);
        let mut weights = Sums::new(places);
        let mut keys = vec![0; places];
        let mut next = 0;
        for place in self.first..self.next {
            let weight = self.weights.get(place);
            if weight > 0 {
                let key = self.keys[place];
                keys[next] = key;
                weights.set(next, weight);
                self.by_key.insert(key, next as u32);
                next += 1;
            }
        }
        (self.weights, self.keys, self.first, self.next) = (weights, keys, 0, next);
    }

    /// The most memory that a stack of so many keys takes.
    pub(crate) fn bytes_for(keys: usize) -> usize {
        let buckets = (keys * 8 / 7 + 1).next_power_of_two();
        let places = (keys * 2).next_power_of_two();
        // The sums of 16, of 256 and so on come to less than a twelfth of the weights.
        buckets * (size_of::<(u64, u32)>() + 1) + places * 2 * size_of::<u64>() * 13 / 12
    }

    pub(crate) fn bytes(&self) -> usize {
        // A table has a byte of control for each bucket, and fills seven eighths of them.
        let buckets = (self.by_key.capacity() * 8 / 7).next_power_of_two();
        buckets * (size_of::<(u64, u32)>() + 1)
            + self.keys.capacity() * size_of::<u64>()
            + self.weights.bytes()
    }

    /// Checks every invariant; for tests.
    #[cfg(test)]
    pub(crate) fn validate(&self) {
        let mut total = 0;
        let mut live = 0;
        for place in 0..self.weights.places() {
            let weight = self.weights.get(place);
            total += weight;
            live += usize::from(weight > 0);
            let outside = place < self.first || place >= self.next;
            assert!(weight == 0 || !outside, "a weight at {place}, outside of {}..{}", self.first, self.next);
            let is_place = self.by_key.get(&self.keys[place]) == Some(&(place as u32));
            assert!(weight == 0 || is_place, "the key at {place} has another place");
        }
        assert_eq!((total, live), (self.total, self.by_key.len()));
    }
}

//! The LRU stack: keys by recency, each with its size, and the total size above a key.
//!
//! Mattson, Gecsei, Slutz and Traiger, "Evaluation Techniques for Storage Hierarchies", IBM Systems
//! Journal 1970: a cache of a given size holds the part of the stack from the top that fits in it.
//! So an access hits in exactly those caches that have room for the key and all keys above it, its
//! *stack distance*.
//!
//! Every access takes the next place in a row; the key's previous place becomes empty. The size
//! above a key is the sum behind its place ([`Sums`]). When the row is used up, the keys move
//! together to its beginning, in place: a row has at least two places per key, so this costs a step
//! or two per access.
//!
//! An access touches a line of the table and one of the weights, besides the tree and the end of
//! the row, which are small and stay in the processor's cache. A caller that knows the next
//! accesses can prefetch these lines ([`Stack::prefetch`], [`Stack::search`]).
//!
//! Invariants:
//! 1. A place has a weight exactly if an entry of the table has that place; `entries` then has the
//!    entry's number there. A weight is at least 1 and equals the entry's size.
//! 2. Places below `first` are empty.

use crate::sums::Sums;
use crate::table::{Search, Table};

/// Places of the smallest row.
const LEAST_PLACES: usize = 256;

/// Keys by recency.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    table: Table,
    /// The entry of the key at each place.
    entries: Vec<u32>,
    weights: Sums,
    first: usize,
    total: u64,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            table: Table::default(),
            entries: vec![0; LEAST_PLACES],
            weights: Sums::new(LEAST_PLACES),
            first: 0,
            total: 0,
        }
    }
}

/// The position of an accessed key in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The sum of the sizes of the keys above it.
    pub(crate) above: u64,
    /// Its own size at that time.
    pub(crate) size: u32,
}

impl Stack {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The sum of all sizes.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Prefetches the memory in which a key is searched.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64) {
        self.table.prefetch(key);
    }

    /// Searches for a key ahead of its access, and prefetches the memory at its place. The result
    /// is for [`Self::access_at`].
    #[inline]
    pub(crate) fn search(&self, key: u64) -> u32 {
        match self.table.search(key) {
            Search::Found(entry) => {
                self.weights.prefetch(self.table.get(entry).0 as usize);
                entry
            }
            Search::Absent(entry) => entry,
        }
    }

    /// Moves a key to the top, and returns its previous position. `size` 0 keeps the key's size, or
    /// takes the mean of all for a new key.
    #[inline]
    pub(crate) fn access(&mut self, key: u64, size: u32) -> Option<Found> {
        match self.table.search(key) {
            Search::Found(entry) | Search::Absent(entry) => self.access_at(entry, key, size),
        }
    }

    /// The same for a key whose search ended at this entry. Other keys may have been added, moved
    /// or removed since.
    #[inline(always)]
    pub(crate) fn access_at(&mut self, entry: u32, key: u64, size: u32) -> Option<Found> {
        if self.weights.next() == self.weights.places() {
            self.gather();
        }
        let top = self.weights.next();
        let Some(before) = self.table.renew(entry, key, top as u32, size) else {
            return self.access_elsewhere(key, size);
        };
        self.entries[top] = entry;
        let size = if size == 0 { before.size } else { size };
        let above = self.weights.take(before.place as usize);
        self.weights.push(size);
        self.total = self.total - u64::from(before.size) + u64::from(size);
        Some(Found { above, size: before.size })
    }

    /// The same for a key that is new, or no longer at the entry found by the search.
    #[inline(never)]
    fn access_elsewhere(&mut self, key: u64, size: u32) -> Option<Found> {
        match self.table.search(key) {
            Search::Found(entry) => self.access_at(entry, key, size),
            Search::Absent(entry) => {
                self.insert(entry, key, size);
                None
            }
        }
    }

    /// Puts a new key, whose search ended at this entry, on top.
    fn insert(&mut self, mut entry: u32, key: u64, size: u32) {
        let mean = (self.total / self.len().max(1) as u64).max(1) as u32;
        let size = if size == 0 { mean } else { size };
        if self.table.is_full() {
            let Self { table, entries, .. } = self;
            table.grow(|place, entry| entries[place as usize] = entry);
            if let Search::Absent(moved) = table.search(key) {
                entry = moved;
            }
        }
        let top = self.weights.next();
        self.table.take(entry, key, top as u32, size);
        self.entries[top] = entry;
        self.weights.push(size);
        self.total += u64::from(size);
    }

    /// Removes the key at a place, and returns it with its size.
    fn remove_place(&mut self, place: usize) -> (u64, u32) {
        let Self { table, entries, weights, total, .. } = self;
        let entry = entries[place];
        let (key, (_, size)) = (table.hash(entry), table.get(entry));
        weights.take(place);
        *total -= u64::from(size);
        table.remove(entry, |place, entry| entries[place as usize] = entry);
        (key, size)
    }

    /// Removes the keys for which `gone` returns true.
    pub(crate) fn remove_if(&mut self, gone: impl Fn(u64) -> bool) {
        for place in self.first..self.weights.next() {
            if self.weights.get(place) > 0 && gone(self.table.hash(self.entries[place])) {
                self.remove_place(place);
            }
        }
    }

    /// The position of a key.
    pub(crate) fn find(&self, key: u64) -> Option<Found> {
        let Search::Found(entry) = self.table.search(key) else { return None };
        let (place, size) = self.table.get(entry);
        Some(Found { above: self.weights.behind(place as usize), size })
    }

    /// Returns whether a key is in the stack.
    #[inline]
    pub(crate) fn has(&self, key: u64) -> bool {
        matches!(self.table.search(key), Search::Found(_))
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: u64) {
        if let Search::Found(entry) = self.table.search(key) {
            self.remove_place(self.table.get(entry).0 as usize);
        }
    }

    /// Removes the least recent key, and returns it with its size.
    pub(crate) fn pop_last(&mut self) -> Option<(u64, u32)> {
        while self.first < self.weights.next() {
            let place = self.first;
            self.first += 1;
            if self.weights.get(place) > 0 {
                return Some(self.remove_place(place));
            }
        }
        None
    }

    /// The keys, in no order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> {
        self.table.hashes()
    }

    /// The keys and their sizes, in the order of their last accesses.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (u64, u32)> {
        let places = (self.first..self.weights.next()).map(|place| (place, self.weights.get(place)));
        places.filter(|(_, size)| *size > 0).map(|(place, size)| (self.table.hash(self.entries[place]), size))
    }

    /// Moves the keys together at the beginning of a row that has two places for each.
    #[cold]
    #[inline(never)]
    fn gather(&mut self) {
        let Self { table, entries, weights, .. } = self;
        weights.gather(entries);
        for (place, &entry) in (0..).zip(&entries[..weights.next()]) {
            table.set_place(entry, place);
        }
        self.first = 0;
        let places = Self::places_for(self.len());
        // Half of a row may stay unused, so that a number of keys that goes up and down does not
        // reallocate the row each time.
        if places > self.weights.places() || places * 4 <= self.weights.places() {
            self.weights = self.weights.resized(places);
            self.entries.resize(places, 0);
            self.entries.shrink_to_fit();
        }
    }

    fn places_for(keys: usize) -> usize {
        (keys * 2).next_power_of_two().max(LEAST_PLACES)
    }

    /// The most memory that a stack of `keys` keys takes, or briefly of one more, in bytes.
    pub(crate) fn bytes_for(keys: usize) -> usize {
        let places = Self::places_for(keys);
        Table::bytes_for(keys + 1) + places * size_of::<u32>() + Sums::bytes_for(places)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.entries.capacity() * size_of::<u32>() + self.weights.bytes()
    }

    /// Checks every invariant; for tests.
    #[cfg(test)]
    pub(crate) fn validate(&self) {
        self.table.validate();
        let (mut total, mut live) = (0, 0);
        for place in 0..self.weights.places() {
            let weight = self.weights.get(place);
            total += u64::from(weight);
            live += usize::from(weight > 0);
            let outside = place < self.first || place >= self.weights.next();
            assert!(weight == 0 || !outside, "a weight at {place}, outside of the row");
            let known = self.table.get(self.entries[place]);
            assert!(weight == 0 || known == (place as u32, weight), "the key at {place} has another place");
        }
        assert_eq!((total, live), (self.total, self.len()));
    }
}

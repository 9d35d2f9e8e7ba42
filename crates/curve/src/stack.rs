//! The LRU stack: keys by recency, each with its size, and how much lies above a key.
//!
//! Mattson, Gecsei, Slutz and Traiger, "Evaluation Techniques for Storage Hierarchies", IBM Systems
//! Journal 1970: a cache of a given size holds the top of the stack that fits in. An access
//! therefore hits in just the caches that have room for the key and for all that lies above it, its
//! *stack distance*.
//!
//! Every access takes the next place in a row; the place that the key had becomes empty. What lies
//! above a key is the sum behind its place ([`Sums`]). When the row is used up, the keys move
//! together to its beginning, in place: a row has at least two places for a key, so that this comes
//! to a step or two an access.
//!
//! An access touches a line of the table and one of the weights, besides the tree and the end of
//! the row, which are small and always at hand. Whoever knows what comes next has these lines
//! fetched ahead ([`Stack::prefetch`], [`Stack::search`]).
//!
//! Invariants:
//! 1. A place has a weight exactly if an entry of the table has that place, and then `entries` has
//!    the entry's number there; a weight is at least 1, and is the entry's size.
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

/// Where an accessed key was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The sum of the sizes of what lay above it.
    pub(crate) above: u64,
    /// Its own size then.
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

    /// Asks for the memory in which a key is searched.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64) {
        self.table.prefetch(key);
    }

    /// Searches a key ahead, and asks for the memory at its place: what it gives is for
    /// [`Self::access_at`].
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

    /// Puts a key on top, and says where it was. `size` 0 keeps the size that it had, or takes the
    /// mean of all.
    #[inline]
    pub(crate) fn access(&mut self, key: u64, size: u32) -> Option<Found> {
        match self.table.search(key) {
            Search::Found(entry) | Search::Absent(entry) => self.access_at(entry, key, size),
        }
    }

    /// The same for a key whose search ended at this entry. Other keys may have come, moved and
    /// gone since.
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

    /// The same for a key that is not where it was searched, or is new.
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

    /// Puts a new key on top, whose search ended at this entry.
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

    /// Takes the key at a place out, and gives it back with its size.
    fn remove_place(&mut self, place: usize) -> (u64, u32) {
        let Self { table, entries, weights, total, .. } = self;
        let entry = entries[place];
        let (key, (_, size)) = (table.hash(entry), table.get(entry));
        weights.take(place);
        *total -= u64::from(size);
        table.remove(entry, |place, entry| entries[place as usize] = entry);
        (key, size)
    }

    /// Takes out the keys of which `gone` says so.
    pub(crate) fn remove_if(&mut self, gone: impl Fn(u64) -> bool) {
        for place in self.first..self.weights.next() {
            if self.weights.get(place) > 0 && gone(self.table.hash(self.entries[place])) {
                self.remove_place(place);
            }
        }
    }

    /// Where a key is.
    pub(crate) fn find(&self, key: u64) -> Option<Found> {
        let Search::Found(entry) = self.table.search(key) else { return None };
        let (place, size) = self.table.get(entry);
        Some(Found { above: self.weights.behind(place as usize), size })
    }

    /// Returns whether a key is there.
    #[inline]
    pub(crate) fn has(&self, key: u64) -> bool {
        matches!(self.table.search(key), Search::Found(_))
    }

    /// Takes out a key.
    pub(crate) fn remove(&mut self, key: u64) {
        if let Search::Found(entry) = self.table.search(key) {
            self.remove_place(self.table.get(entry).0 as usize);
        }
    }

    /// Takes out the least recent key, and gives it back with its size.
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
        // make rows each time.
        if places > self.weights.places() || places * 4 <= self.weights.places() {
            self.weights = self.weights.resized(places);
            self.entries.resize(places, 0);
            self.entries.shrink_to_fit();
        }
    }

    fn places_for(keys: usize) -> usize {
        (keys * 2).next_power_of_two().max(LEAST_PLACES)
    }

    /// The most memory that a stack of so many keys takes, or of one more for a moment.
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

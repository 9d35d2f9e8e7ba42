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
//! A key that a cache removed leaves a *hole* of its size, which counts in distances: a cache that
//! had the key has a free slot there, and holds no more of the keys below than before. A key that
//! comes on top fills holes from the topmost one down, as an insertion takes free memory before
//! it evicts: the keys above a filled hole move down, those below stay. If the key was in the stack
//! itself, the caches that had it still have their free slots. So its old place becomes a hole of
//! as many bytes as it filled above. (The paper's stack has no removals.)
//!
//! An access touches a line of the table and one of the weights, besides the tree and the end of
//! the row, which are small and stay in the processor's cache. A caller that knows the next
//! accesses can prefetch these lines ([`Stack::prefetch`], [`Stack::search`]).
//!
//! Invariants:
//! 1. A place has a weight exactly if it is a hole or an entry of the table has that place. In the
//!    latter case `entries` has the entry's number there, and the weight, at least 1, is the
//!    entry's size.
//! 2. At a hole, `entries` has [`HOLE`] and the place of a removed key in the sample. `holes` is
//!    the set of all holes.
//! 3. Places below `first` are empty.

use crate::holes::Holes;
use crate::sample;
use crate::sums::Sums;
use crate::table::{Search, Table};

/// Places of the smallest row.
const LEAST_PLACES: usize = 256;
/// Marks a hole among the numbers of entries, which are smaller. The lower bits are the place of a
/// removed key in the sample.
const HOLE: u32 = 1 << 31;
const _: () = assert!(sample::PLACES <= HOLE);

/// Keys by recency.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    table: Table,
    /// The entry of the key at each place.
    entries: Vec<u32>,
    weights: Sums,
    holes: Holes,
    first: usize,
    /// The sum of the keys' sizes.
    total: u64,
    /// The sum of the holes' sizes.
    hollow: u64,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            table: Table::default(),
            entries: vec![0; LEAST_PLACES],
            weights: Sums::new(LEAST_PLACES),
            holes: Holes::new(LEAST_PLACES),
            first: 0,
            total: 0,
            hollow: 0,
        }
    }
}

/// The position of an accessed key in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackPosition {
    /// The sum of the sizes of the keys and holes above it.
    pub(crate) above: u64,
    /// Its own size at that time.
    pub(crate) size: u32,
}

impl Stack {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The number of keys and holes, which the stack's memory depends on.
    #[inline]
    pub(crate) fn extent(&self) -> usize {
        self.table.len() + self.holes.len()
    }

    /// The sum of the sizes of all keys.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The sum of the sizes of all keys and holes.
    pub(crate) fn depth(&self) -> u64 {
        self.total + self.hollow
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
    pub(crate) fn access(&mut self, key: u64, size: u32) -> Option<StackPosition> {
        match self.table.search(key) {
            Search::Found(entry) | Search::Absent(entry) => self.access_at(entry, key, size),
        }
    }

    /// The same for a key whose search ended at this entry. Other keys may have been added, moved
    /// or removed since.
    #[inline(always)]
    pub(crate) fn access_at(&mut self, entry: u32, key: u64, size: u32) -> Option<StackPosition> {
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
        if self.hollow > 0 {
            self.sink(size, before.place as usize, before.size);
        }
        Some(StackPosition { above, size: before.size })
    }

    /// The same for a key that is new, or no longer at the entry found by the search.
    #[inline(never)]
    fn access_elsewhere(&mut self, key: u64, size: u32) -> Option<StackPosition> {
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
        self.fill(size, 0);
    }

    /// Fills holes for a key of `pushed` bytes that came on top from `place`, where it had `size`.
    fn sink(&mut self, pushed: u32, place: usize, size: u32) {
        let (filled, mark) = self.fill(pushed, place);
        // The bytes that move the keys below the old place, except for the room there.
        let left = pushed - filled;
        if left > size {
            self.fill(left - size, 0);
        } else if filled > 0 {
            let hole = filled.min(size - left);
            if hole > 0 {
                self.weights.put(place, hole);
                self.entries[place] = mark;
                self.holes.insert(place);
                self.hollow += u64::from(hole);
            }
        }
    }

    /// Fills up to `bytes` of the holes above a place, the topmost first. Returns the filled bytes
    /// and the mark of the last of these holes.
    fn fill(&mut self, bytes: u32, lowest: usize) -> (u32, u32) {
        let (mut left, mut mark) = (bytes, HOLE);
        while left > 0
            && let Some(place) = self.holes.last().filter(|place| *place >= lowest)
        {
            let size = self.weights.get(place);
            let filled = size.min(left);
            mark = self.entries[place];
            left -= filled;
            if filled == size {
                self.drop_hole(place);
            } else {
                self.weights.put(place, size - filled);
                self.hollow -= u64::from(filled);
            }
        }
        (bytes - left, mark)
    }

    /// Closes a hole up.
    fn drop_hole(&mut self, place: usize) {
        self.hollow -= u64::from(self.weights.get(place));
        self.weights.take(place);
        self.holes.remove(place);
    }

    /// Removes the key at a place, and returns it with its size. No hole stays.
    fn remove_place(&mut self, place: usize) -> (u64, u32) {
        let Self { table, entries, weights, total, .. } = self;
        let entry = entries[place];
        let (key, (_, size)) = (table.hash(entry), table.get(entry));
        weights.take(place);
        *total -= u64::from(size);
        table.remove(entry, |place, entry| entries[place as usize] = entry);
        (key, size)
    }

    fn is_hole(&self, place: usize) -> bool {
        self.weights.get(place) > 0 && self.entries[place] & HOLE != 0
    }

    /// The place in the sample of the key or hole at a place of the row that has a weight.
    fn sampled_at(&self, place: usize) -> u32 {
        match self.entries[place] {
            hole if hole & HOLE != 0 => hole & !HOLE,
            entry => sample::place(self.table.hash(entry)),
        }
    }

    /// The places in the sample of all keys and holes.
    pub(crate) fn sampled(&self) -> impl Iterator<Item = u32> {
        let places = (self.first..self.weights.next()).filter(|place| self.weights.get(*place) > 0);
        places.map(|place| self.sampled_at(place))
    }

    /// Removes the keys and holes that a sample below this threshold does not have.
    pub(crate) fn thin(&mut self, threshold: u32) {
        for place in self.first..self.weights.next() {
            if self.weights.get(place) == 0 || self.sampled_at(place) < threshold {
                continue;
            }
            if self.is_hole(place) {
                self.drop_hole(place);
            } else {
                self.remove_place(place);
            }
        }
    }

    /// The position of a key.
    pub(crate) fn find(&self, key: u64) -> Option<StackPosition> {
        let Search::Found(entry) = self.table.search(key) else { return None };
        let (place, size) = self.table.get(entry);
        Some(StackPosition { above: self.weights.behind(place as usize), size })
    }

    /// Returns whether a key is in the stack.
    #[inline]
    pub(crate) fn has(&self, key: u64) -> bool {
        matches!(self.table.search(key), Search::Found(_))
    }

    /// Removes a key as a cache does, and leaves a hole in its place.
    pub(crate) fn vacate(&mut self, key: u64) {
        let Search::Found(entry) = self.table.search(key) else { return };
        let Self { table, entries, .. } = self;
        let (place, size) = table.get(entry);
        table.remove(entry, |place, entry| entries[place as usize] = entry);
        entries[place as usize] = HOLE | sample::place(key);
        self.holes.insert(place as usize);
        self.total -= u64::from(size);
        self.hollow += u64::from(size);
        self.trim();
    }

    /// Drops the holes below all keys, which no distance depends on.
    fn trim(&mut self) {
        while self.first < self.weights.next() {
            if self.is_hole(self.first) {
                self.drop_hole(self.first);
            } else if self.weights.get(self.first) > 0 {
                return;
            }
            self.first += 1;
        }
    }

    /// Removes a key. The keys below move up.
    pub(crate) fn remove(&mut self, key: u64) {
        if let Search::Found(entry) = self.table.search(key) {
            self.remove_place(self.table.get(entry).0 as usize);
        }
    }

    /// Removes the least recent key, and returns it with its size.
    pub(crate) fn pop_last(&mut self) -> Option<(u64, u32)> {
        self.trim();
        let place = self.first;
        if place == self.weights.next() {
            return None;
        }
        self.first += 1;
        Some(self.remove_place(place))
    }

    /// The keys and their sizes, in the order of their last accesses.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (u64, u32)> {
        let places = (self.first..self.weights.next()).filter(|place| !self.is_hole(*place));
        let sizes = places.map(|place| (place, self.weights.get(place)));
        sizes.filter(|(_, size)| *size > 0).map(|(place, size)| (self.table.hash(self.entries[place]), size))
    }

    /// Moves keys and holes together at the beginning of a row that has two places for each.
    #[cold]
    #[inline(never)]
    fn gather(&mut self) {
        let Self { table, entries, weights, .. } = self;
        weights.gather(entries);
        for (place, &entry) in (0..).zip(&entries[..weights.next()]) {
            if entry & HOLE == 0 {
                table.set_place(entry, place);
            }
        }
        self.first = 0;
        let places = Self::places_for(self.extent());
        // Half of a row may stay unused, so that a number of keys that goes up and down does not
        // reallocate the row each time.
        if places > self.weights.places() || places * 4 <= self.weights.places() {
            self.weights = self.weights.resized(places);
            self.entries.resize(places, 0);
            self.entries.shrink_to_fit();
        }
        self.holes = Holes::new(self.weights.places());
        for place in (0..self.weights.next()).filter(|place| self.entries[*place] & HOLE != 0) {
            self.holes.insert(place);
        }
    }

    fn places_for(extent: usize) -> usize {
        (extent * 2).next_power_of_two().max(LEAST_PLACES)
    }

    /// The most memory that a stack of `keys` keys and holes takes, or briefly of one more, in
    /// bytes.
    pub(crate) fn bytes_for(keys: usize) -> usize {
        let places = Self::places_for(keys);
        Table::bytes_for(keys + 1)
            + places * size_of::<u32>()
            + Sums::bytes_for(places)
            + Holes::bytes_for(places)
    }

    pub(crate) fn bytes(&self) -> usize {
        let row = self.entries.capacity() * size_of::<u32>() + self.weights.bytes() + self.holes.bytes();
        self.table.bytes() + row
    }

    /// Checks every invariant; for tests.
    #[cfg(test)]
    pub(crate) fn validate(&self) {
        self.table.validate();
        let (mut total, mut live) = (0, 0);
        let (mut hollow, mut holes) = (0, 0);
        for place in 0..self.weights.places() {
            let weight = self.weights.get(place);
            if self.is_hole(place) {
                assert!((self.first..self.weights.next()).contains(&place), "a hole outside of the row");
                (hollow, holes) = (hollow + u64::from(weight), holes + 1);
                continue;
            }
            total += u64::from(weight);
            live += usize::from(weight > 0);
            let outside = place < self.first || place >= self.weights.next();
            assert!(weight == 0 || !outside, "a weight at {place}, outside of the row");
            let known = (weight > 0).then(|| self.table.get(self.entries[place]));
            assert!(
                known.is_none_or(|known| known == (place as u32, weight)),
                "the key at {place} has another place"
            );
        }
        assert_eq!((total, live), (self.total, self.len()));
        assert_eq!((hollow, holes), (self.hollow, self.holes.len()));
    }
}

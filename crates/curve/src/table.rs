//! A table of hashes, with the place of each hash's key in a row.
//!
//! Estimators search the table once for every access that they record. So an entry is a quarter of
//! a cache line, a search continues in the next entry, and at most five eighths of the entries are
//! taken: most searches read one line, which can be prefetched ([`Table::prefetch`]). Equal hashes
//! are taken for the same key; keys themselves are never seen.
//!
//! Invariants:
//! 1. No entry is empty between the one where a search for a hash begins and the one that has the
//!    hash.
//! 2. At least one entry is empty, so that every search ends.

use crate::sample::SPREAD;

/// The place that marks an empty entry.
const EMPTY: u32 = u32::MAX;
/// Entries of the smallest table.
const LEAST_ENTRIES: usize = 64;

/// A hash with its place and size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    hash: u64,
    pub(crate) place: u32,
    pub(crate) size: u32,
}

const _: () = assert!(size_of::<Entry>() == 16);

const NOBODY: Entry = Entry { hash: 0, place: EMPTY, size: 0 };

/// The result of a search: the number of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// The entry that has the hash.
    Found(u32),
    /// No entry has the hash; this one is empty, and the hash belongs there.
    Absent(u32),
}

/// Places, and sizes, by hash.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Their number is a power of two.
    entries: Vec<Entry>,
    len: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: vec![NOBODY; LEAST_ENTRIES], len: 0 }
    }
}

impl Table {
    /// Returns whether a table of `entries` entries has room for `len` hashes.
    const fn has_room(entries: usize, len: usize) -> bool {
        len * 8 <= entries * 5
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The entry where the search for a hash begins. Its bits are none of those that decide if a
    /// key is sampled, or to which group it belongs.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash.wrapping_mul(SPREAD) >> 16) as usize & (self.entries.len() - 1)
    }

    /// Prefetches the cache line where the search for a hash begins.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        base::sync::prefetch(&self.entries[self.home(hash)]);
    }

    #[inline]
    pub(crate) fn search(&self, hash: u64) -> Search {
        let last = self.entries.len() - 1;
        let mut at = self.home(hash);
        loop {
            // The mask changes nothing; it proves to the compiler that the entry exists.
            let entry = &self.entries[at & last];
            if entry.place == EMPTY {
                return Search::Absent((at & last) as u32);
            }
            if entry.hash == hash {
                return Search::Found((at & last) as u32);
            }
            at += 1;
        }
    }

    /// The hash of a taken entry.
    #[inline]
    pub(crate) fn hash(&self, entry: u32) -> u64 {
        self.entries[entry as usize].hash
    }

    /// The place and the size of a taken entry.
    #[inline]
    pub(crate) fn get(&self, entry: u32) -> (u32, u32) {
        let entry = &self.entries[entry as usize];
        (entry.place, entry.size)
    }

    /// Sets the place and size of an entry if it is taken and has this hash, and returns the
    /// previous entry. Size 0 keeps the entry's own.
    #[inline]
    pub(crate) fn renew(&mut self, entry: u32, hash: u64, place: u32, size: u32) -> Option<Entry> {
        let entry = self.entries.get_mut(entry as usize)?;
        let before = *entry;
        if before.hash != hash || before.place == EMPTY {
            return None;
        }
        *entry = Entry { hash, place, size: if size == 0 { before.size } else { size } };
        Some(before)
    }

    /// Sets the place of a taken entry.
    #[inline]
    pub(crate) fn set_place(&mut self, entry: u32, place: u32) {
        self.entries[entry as usize].place = place;
    }

    /// Fills an empty entry that a search just returned.
    #[inline]
    pub(crate) fn take(&mut self, entry: u32, hash: u64, place: u32, size: u32) {
        self.entries[entry as usize] = Entry { hash, place, size };
        self.len += 1;
    }

    /// Returns whether the table has no room for one more hash.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        !Self::has_room(self.entries.len(), self.len + 1)
    }

    /// Doubles the table, and calls `moved` with each place and its new entry.
    #[cold]
    pub(crate) fn grow(&mut self, mut moved: impl FnMut(u32, u32)) {
        let entries = vec![NOBODY; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, entries) {
            if entry.place != EMPTY
                && let Search::Absent(at) = self.search(entry.hash)
            {
                self.entries[at as usize] = entry;
                moved(entry.place, at);
            }
        }
    }

    /// Empties an entry. Other entries may move up; calls `moved` with the place of each and its
    /// new entry.
    pub(crate) fn remove(&mut self, entry: u32, mut moved: impl FnMut(u32, u32)) {
        let last = self.entries.len() - 1;
        let mut hole = entry as usize;
        let mut at = hole;
        loop {
            at = (at + 1) & last;
            let next = self.entries[at];
            if next.place == EMPTY {
                break;
            }
            // The entry may move into the hole if that lies between the start of its search and its
            // present position.
            let from_home = at.wrapping_sub(self.home(next.hash)) & last;
            if from_home >= at.wrapping_sub(hole) & last {
                self.entries[hole] = next;
                moved(next.place, hole as u32);
                hole = at;
            }
        }
        self.entries[hole] = NOBODY;
        self.len -= 1;
    }

    /// The hashes, in no order; for tests.
    #[cfg(test)]
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().filter(|entry| entry.place != EMPTY).map(|entry| entry.hash)
    }

    /// The most memory that a table of `len` hashes takes, in bytes.
    pub(crate) fn bytes_for(len: usize) -> usize {
        let mut entries = LEAST_ENTRIES;
        while !Self::has_room(entries, len) {
            entries *= 2;
        }
        entries * size_of::<Entry>()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// Checks every invariant; for tests.
    #[cfg(test)]
    pub(crate) fn validate(&self) {
        let taken = (0_u32..).zip(&self.entries).filter(|(_, entry)| entry.place != EMPTY);
        let mut len = 0;
        for (at, entry) in taken {
            assert_eq!(self.search(entry.hash), Search::Found(at), "a search finds what is there");
            len += 1;
        }
        assert_eq!(len, self.len);
        assert!(Self::has_room(self.entries.len(), len));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Hashes of which many begin their search at the same entry, the last ones too.
    fn crowded(number: u8) -> u64 {
        let inverse = (0..6).fold(SPREAD, |x, _| x.wrapping_mul(2_u64.wrapping_sub(SPREAD.wrapping_mul(x))));
        let home = [0_u64, 1, 62, 63, 126, 127][usize::from(number % 6)];
        (home << 16 | u64::from(number) << 40).wrapping_mul(inverse)
    }

    proptest! {
        #[test]
        fn a_table_is_a_map(steps in prop::collection::vec((any::<u8>(), 0_u32..1000, any::<bool>()), 1..400)) {
            let mut table = Table::default();
            // The entry of each place is kept up to date by what the table says of it alone.
            let mut entry_of: HashMap<u32, u32> = HashMap::new();
            let mut model: HashMap<u64, (u32, u32)> = HashMap::new();
            for (step, (number, size, removes)) in (0_u32..).zip(steps) {
                let hash = crowded(number);
                if table.is_full() {
                    table.grow(|place, entry| { entry_of.insert(place, entry); });
                }
                match table.search(hash) {
                    Search::Found(entry) => {
                        prop_assert_eq!(Some(&table.get(entry)), model.get(&hash));
                        if removes {
                            model.remove(&hash);
                            table.remove(entry, |place, entry| { entry_of.insert(place, entry); });
                        } else {
                            let before = table.renew(entry, hash, step, size).map(|it| (it.place, it.size));
                            prop_assert_eq!(before.as_ref(), model.get(&hash));
                            prop_assert!(table.renew(entry, hash ^ 1, step, size).is_none());
                            let size = if size == 0 { model[&hash].1 } else { size };
                            entry_of.insert(step, entry);
                            model.insert(hash, (step, size));
                        }
                    }
                    Search::Absent(entry) => {
                        prop_assert_eq!(None, model.get(&hash));
                        table.take(entry, hash, step, size);
                        entry_of.insert(step, entry);
                        model.insert(hash, (step, size));
                    }
                }
                table.validate();
                for (hash, (place, size)) in &model {
                    prop_assert_eq!(table.search(*hash), Search::Found(entry_of[place]));
                    prop_assert_eq!(table.get(entry_of[place]), (*place, *size));
                }
            }
            let mut hashes: Vec<u64> = table.hashes().collect();
            let mut expected: Vec<u64> = model.keys().copied().collect();
            hashes.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(hashes, expected);
        }
    }
}

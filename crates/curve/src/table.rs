//! A table of hashes: for each, the place that its key has in a row.
//!
//! The table is for estimators, which ask it once for every access that they look at. So an entry
//! is a quarter of a cache line, a search goes on in the next entry, and no more than five eighths
//! of the entries are taken: one line for most searches, and it can be fetched ahead
//! ([`Table::prefetch`]). Hashes are taken for what they are; their keys are never seen.
//!
//! Invariants:
//! 1. Between the entry where a search for a hash begins and the one that has it no entry is empty.
//! 2. At least one entry is empty, so that every search ends.

use crate::sample::SPREAD;

/// In the place of a place: the entry is empty.
const EMPTY: u32 = u32::MAX;
/// Entries of the smallest table.
const LEAST_ENTRIES: usize = 64;

/// What is known of a hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    hash: u64,
    pub(crate) place: u32,
    pub(crate) size: u32,
}

const _: () = assert!(size_of::<Entry>() == 16);

const NOBODY: Entry = Entry { hash: 0, place: EMPTY, size: 0 };

/// What a search came to: the number of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// This one has the hash.
    Found(u32),
    /// None has it; this one is empty, and is where it would go.
    Absent(u32),
}

/// Places, and sizes, by hash.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// A power of two of them.
    entries: Vec<Entry>,
    len: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: vec![NOBODY; LEAST_ENTRIES], len: 0 }
    }
}

impl Table {
    /// Returns whether a table of so many entries has room for so many hashes.
    const fn has_room(entries: usize, len: usize) -> bool {
        len * 8 <= entries * 5
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the search for a hash begins. The bits are none of those that say whether a key is
    /// sampled, nor in which group it is.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash.wrapping_mul(SPREAD) >> 16) as usize & (self.entries.len() - 1)
    }

    /// Asks for the line where the search for a hash begins.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        base::sync::prefetch(&self.entries[self.home(hash)]);
    }

    #[inline]
    pub(crate) fn search(&self, hash: u64) -> Search {
        let last = self.entries.len() - 1;
        let mut at = self.home(hash);
        loop {
            // The mask changes nothing; it shows that the entry is there.
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

    /// Gives an entry another place and size, 0 = its own, if it is taken and has this hash, and
    /// says what it was before.
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

    /// Gives a taken entry another place.
    #[inline]
    pub(crate) fn set_place(&mut self, entry: u32, place: u32) {
        self.entries[entry as usize].place = place;
    }

    /// Takes an empty entry that a search just gave.
    #[inline]
    pub(crate) fn take(&mut self, entry: u32, hash: u64, place: u32, size: u32) {
        self.entries[entry as usize] = Entry { hash, place, size };
        self.len += 1;
    }

    /// Returns whether one hash more has room.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        !Self::has_room(self.entries.len(), self.len + 1)
    }

    /// Makes the table twice as large, and says of each place which entry it has now.
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

    /// Empties an entry. Others may move up; says of each of their places which entry it has now.
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
            // It may move into the hole if that lies between where its search begins and where it
            // is.
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

    /// The hashes, in no order.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().filter(|entry| entry.place != EMPTY).map(|entry| entry.hash)
    }

    /// The most memory that a table of so many hashes takes.
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

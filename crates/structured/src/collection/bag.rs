//! The layout of the entries of a collection: behind a hashed directory, a ring, or both, in the
//! order in which they came.
//!
//! The hashed directory is that of a [`super::super::Map`]: a word names the entry (20 bits) and
//! has 12 bits of the key's hash, with linear probing and removal without tombstones. The ring
//! names the entries in order, from its word [`FIRST`] on: what is put in or taken out moves the
//! words on the nearer side, so that both ends cost nothing. Lists have the one, hashes and sets
//! the other, and sorted sets both.
//!
//! An entry is a word with the length of its key, what else its kind has (a word with the length of
//! the value; two words of score), and the bytes of key and value, each from a word's beginning.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;

use base::hash::key_hash;

use super::super::entries::{ENTRY, ENTRY_BITS, Room};
use super::super::header::{FIRST, GARBAGE, HEADER, Header, LEN, NEXT, RING, SLOTS};
use super::super::map::{after, home, tag};
use super::CollectionKind;
use memory::cells::{CellResult, Cells as Tail, Corrupt, words_for};

/// Keys that are hashed without an allocation.
const SHORT_KEY_BYTES: usize = 64;

/// The words of a collection.
#[derive(Clone, Copy)]
pub(super) struct Bag<'t> {
    pub(super) tail: Tail<'t>,
    pub(super) kind: CollectionKind,
    pub(super) id: u64,
}

impl CollectionKind {
    pub(super) const fn is_hashed(self) -> bool {
        !matches!(self, Self::List)
    }

    pub(super) const fn is_ringed(self) -> bool {
        matches!(self, Self::List | Self::Sorted)
    }

    /// Words between the length of the key and the key.
    const fn extra_words(self) -> usize {
        match self {
            Self::Hash => 1,
            Self::Sorted => 2,
            Self::List | Self::Set => 0,
        }
    }

    /// Words of an entry.
    pub(super) const fn words_of(self, key_len: usize, value_len: usize) -> usize {
        1 + self.extra_words() + words_for(key_len) + words_for(value_len)
    }

    /// Words of the hashed directory for this many entries: at most three quarters of it are used.
    const fn slots(self, entries: usize) -> usize {
        if self.is_hashed() { entries + entries / 3 + 2 } else { 0 }
    }

    /// Words of both directories for this many entries.
    const fn directory_words(self, entries: usize) -> usize {
        self.slots(entries) + if self.is_ringed() { entries } else { 0 }
    }

    /// Words of a tail with this room.
    pub(super) const fn tail_words(self, room: Room) -> usize {
        HEADER + self.directory_words(room.entries) + room.words
    }
}

impl<'t> Bag<'t> {
    /// The collection that a tail holds.
    pub(super) fn of(tail: Tail<'t>) -> CellResult<Self> {
        let (kind, id) = tail.kind_and_id()?;
        Ok(Self { tail, kind: CollectionKind::of(kind).ok_or(Corrupt)?, id })
    }

    /// Lays an empty tail out for this much. `false`: it does not fit.
    pub(super) fn lay_out(self, room: Room) -> CellResult<bool> {
        let (tail, kind) = (self.tail, self.kind);
        let body = tail.len() - HEADER.min(tail.len());
        let entries = room.entries.max(1);
        // Directories and entries are to be full at the same time, if entries stay as long as they
        // are.
        let fitting = body * entries / (kind.directory_words(entries) + room.words).max(1);
        let fits = |entries: &usize| kind.directory_words(*entries) + room.words <= body;
        let Some(entries) = [fitting, entries].into_iter().find(fits) else { return Ok(false) };
        let (slots, all) = (kind.slots(entries), kind.directory_words(entries));
        (HEADER..HEADER + slots).try_for_each(|at| tail.set(at, 0))?;
        for (at, value) in
            [(LEN, 0), (FIRST, 0), (GARBAGE, 0), (SLOTS, slots), (RING, all - slots), (NEXT, HEADER + all)]
        {
            tail.set(at, value as u32)?;
        }
        Ok(true)
    }

    /// Returns the number of entries.
    pub(super) fn len(self) -> CellResult<usize> {
        Ok(self.tail.get(LEN)? as usize)
    }

    pub(super) fn slots(self) -> CellResult<usize> {
        let slots = self.tail.get(SLOTS)? as usize;
        if HEADER + slots > self.tail.len() { Err(Corrupt) } else { Ok(slots) }
    }

    /// The room that is taken now.
    pub(super) fn taken(self) -> CellResult<Room> {
        let (next, garbage) = (self.tail.get(NEXT)?, self.tail.get(GARBAGE)?);
        let directories = HEADER + self.slots()? + self.tail.get(RING)? as usize;
        let words = i64::from(next) - directories as i64 - i64::from(garbage);
        Ok(Room { entries: self.len()?, words: usize::try_from(words).map_err(|_| Corrupt)? })
    }

    /// Returns whether `more` can be added as it lies.
    pub(super) fn has_room(self, more: Room) -> CellResult<bool> {
        let entries = self.len()? + more.entries;
        let ring = if self.kind.is_ringed() { self.tail.get(RING)? as usize } else { usize::MAX };
        let end = self.tail.get(NEXT)? as usize + more.words;
        Ok(self.kind.slots(entries) <= self.slots()? && entries <= ring && end <= self.tail.len())
    }

    /// Raises or lowers one of the header's counts.
    pub(super) fn count(self, at: usize, by: i64) -> CellResult<()> {
        let after = u32::try_from(i64::from(self.tail.get(at)?) + by).map_err(|_| Corrupt)?;
        self.tail.set(at, after)
    }

    /// Returns the offset of an entry's key, and its length in bytes.
    #[inline]
    pub(super) fn key(self, entry: usize) -> CellResult<(usize, usize)> {
        Ok((entry + 1 + self.kind.extra_words(), self.tail.get(entry)? as usize))
    }

    /// Returns the offset of an entry's value, and its length in bytes.
    pub(super) fn value(self, entry: usize) -> CellResult<(usize, usize)> {
        let (at, len) = self.key(entry)?;
        let value_len =
            if self.kind == CollectionKind::Hash { self.tail.get(entry + 1)? as usize } else { 0 };
        Ok((at.checked_add(words_for(len)).ok_or(Corrupt)?, value_len))
    }

    /// Words of an entry.
    pub(super) fn size(self, entry: usize) -> CellResult<usize> {
        Ok(self.kind.words_of(self.key(entry)?.1, self.value(entry)?.1))
    }

    pub(super) fn score(self, entry: usize) -> CellResult<f64> {
        let (low, high) = (self.tail.get(entry + 1)?, self.tail.get(entry + 2)?);
        Ok(f64::from_bits(u64::from(low) | u64::from(high) << 32))
    }

    pub(super) fn set_score(self, entry: usize, score: f64) -> CellResult<()> {
        let bits = score.to_bits();
        self.tail.set(entry + 1, bits as u32)?;
        self.tail.set(entry + 2, (bits >> 32) as u32)
    }

    /// Puts an entry behind the others; there is room.
    pub(super) fn append(self, key: &[u8], value: &[u8]) -> CellResult<usize> {
        let entry = self.tail.get(NEXT)? as usize;
        self.tail.set(NEXT, (entry + self.kind.words_of(key.len(), value.len())) as u32)?;
        self.write(entry, key, value)?;
        Ok(entry)
    }

    /// Writes key and value of an entry.
    pub(super) fn write(self, entry: usize, key: &[u8], value: &[u8]) -> CellResult<()> {
        self.tail.set(entry, key.len() as u32)?;
        if self.kind == CollectionKind::Hash {
            self.tail.set(entry + 1, value.len() as u32)?;
        }
        let at = entry + 1 + self.kind.extra_words();
        self.tail.write(at, key)?;
        self.tail.write(at + words_for(key.len()), value)
    }

    /// Gives an entry back that no directory names any more.
    pub(super) fn give_back(self, entry: usize) -> CellResult<()> {
        let (words, next) = (self.size(entry)?, self.tail.get(NEXT)? as usize);
        if entry + words == next {
            return self.tail.set(NEXT, entry as u32);
        }
        self.count(GARBAGE, words as i64)
    }

    // The hashed directory.

    pub(super) fn hash(self, key: &[u8]) -> u64 {
        key_hash(self.id, key)
    }

    /// The hash of an entry's key.
    pub(super) fn hash_of(self, entry: usize) -> CellResult<u64> {
        let (at, len) = self.key(entry)?;
        let mut short = [0; SHORT_KEY_BYTES];
        if let Some(key) = short.get_mut(..len) {
            self.tail.read(at, key)?;
            return Ok(self.hash(key));
        }
        if len > self.tail.len() * size_of::<u32>() {
            return Err(Corrupt);
        }
        let mut key = vec![0; len];
        self.tail.read(at, &mut key)?;
        Ok(self.hash(&key))
    }

    /// The slot of what `is_it` says that it is, among what has this hash.
    fn probe(
        self,
        hash: u64,
        is_it: impl Fn(usize) -> CellResult<bool>,
    ) -> CellResult<Option<(usize, usize)>> {
        let slots = self.slots()?;
        let mut slot = home(hash, slots);
        for _ in 0..slots {
            let word = self.tail.get(HEADER + slot)?;
            if word == 0 {
                return Ok(None);
            }
            let entry = (word & ENTRY) as usize;
            if word >> ENTRY_BITS == tag(hash) && is_it(entry)? {
                return Ok(Some((slot, entry)));
            }
            slot = after(slot, slots);
        }
        // A directory always has an empty slot.
        Err(Corrupt)
    }

    /// The slot and the entry of a key.
    pub(super) fn find(self, hash: u64, key: &[u8]) -> CellResult<Option<(usize, usize)>> {
        self.probe(hash, |entry| {
            let (at, len) = self.key(entry)?;
            Ok(len == key.len() && self.tail.equals(at, key)?)
        })
    }

    /// The slot that names an entry.
    pub(super) fn slot_of(self, entry: usize) -> CellResult<usize> {
        let found = self.probe(self.hash_of(entry)?, |other| Ok(other == entry))?;
        Ok(found.ok_or(Corrupt)?.0)
    }

    /// Lets a slot name an entry.
    pub(super) fn name(self, slot: usize, hash: u64, entry: usize) -> CellResult<()> {
        self.tail.set(HEADER + slot, entry as u32 | tag(hash) << ENTRY_BITS)
    }

    /// Names an entry whose key is not in the directory.
    pub(super) fn link(self, hash: u64, entry: usize) -> CellResult<()> {
        let slots = self.slots()?;
        let mut slot = home(hash, slots);
        for _ in 0..slots {
            if self.tail.get(HEADER + slot)? == 0 {
                return self.name(slot, hash, entry);
            }
            slot = after(slot, slots);
        }
        Err(Corrupt)
    }

    /// Empties a slot, and moves back what would not be found behind an empty one (Knuth, TAOCP
    /// vol. 3, 6.4, algorithm R).
    pub(super) fn unlink(self, mut empty: usize) -> CellResult<()> {
        let slots = self.slots()?;
        let mut slot = empty;
        for _ in 0..slots {
            slot = after(slot, slots);
            let word = self.tail.get(HEADER + slot)?;
            if word == 0 {
                break;
            }
            let home = home(self.hash_of((word & ENTRY) as usize)?, slots);
            let distance = |to: usize| (to + slots - home) % slots;
            if distance(empty) < distance(slot) {
                self.tail.set(HEADER + empty, word)?;
                empty = slot;
            }
        }
        self.tail.set(HEADER + empty, 0)
    }

    /// The entry that a slot names.
    pub(super) fn in_slot(self, slot: usize) -> CellResult<Option<usize>> {
        let entry = (self.tail.get(HEADER + slot)? & ENTRY) as usize;
        Ok((entry != 0).then_some(entry))
    }

    // The ring.

    /// The word of the ring for the entry at a place in the order.
    fn ring_word(self, index: usize) -> CellResult<usize> {
        let (slots, ring) = (self.tail.get(SLOTS)? as usize, self.tail.get(RING)? as usize);
        let at = self.tail.get(FIRST)? as usize + index;
        if ring == 0 || index >= ring {
            return Err(Corrupt);
        }
        Ok(HEADER + slots + at % ring)
    }

    pub(super) fn at(self, index: usize) -> CellResult<usize> {
        Ok(self.tail.get(self.ring_word(index)?)? as usize)
    }

    pub(super) fn set_at(self, index: usize, entry: usize) -> CellResult<()> {
        self.tail.set(self.ring_word(index)?, entry as u32)
    }

    /// Moves the ring's beginning.
    fn turn(self, by: i64) -> CellResult<()> {
        let ring = i64::from(self.tail.get(RING)?);
        let first = i64::from(self.tail.get(FIRST)?) + by;
        self.tail.set(FIRST, first.checked_rem_euclid(ring).ok_or(Corrupt)? as u32)
    }

    /// Moves `count` words of the ring from one place in the order to another.
    fn shift(self, from: usize, to: usize, count: usize) -> CellResult<()> {
        let (slots, ring) = (self.tail.get(SLOTS)? as usize, self.tail.get(RING)? as usize);
        let first = self.tail.get(FIRST)? as usize;
        let words = self.tail.0.get(HEADER + slots..HEADER + slots + ring).ok_or(Corrupt)?;
        if from.max(to).checked_add(count).is_none_or(|end| end > ring) || (first >= ring && count > 0) {
            return Err(Corrupt);
        }
        let word = |index: usize| {
            let at = first + index;
            &words[if at < ring { at } else { at - ring }]
        };
        let step = |i: usize| word(to + i).store(word(from + i).load(Relaxed), Relaxed);
        if from < to {
            (0..count).rev().for_each(step);
        } else {
            (0..count).for_each(step);
        }
        Ok(())
    }

    /// Makes an entry the one at a place in the order of the `len` that there were before.
    pub(super) fn ring_insert(self, len: usize, index: usize, entry: usize) -> CellResult<()> {
        if index < len / 2 {
            self.turn(-1)?;
            self.shift(1, 0, index)?;
        } else {
            self.shift(index, index + 1, len - index)?;
        }
        self.set_at(index, entry)
    }

    /// Takes `count` entries out of the order of the `len` that there were before.
    pub(super) fn ring_remove(self, len: usize, index: usize, count: usize) -> CellResult<()> {
        let behind = len.checked_sub(index + count).ok_or(Corrupt)?;
        if index < behind {
            self.shift(0, count, index)?;
            return self.turn(count as i64);
        }
        self.shift(index + count, index, behind)
    }

    /// Compares a sorted set's entry with one that would have this score and member.
    pub(super) fn compare(self, entry: usize, score: f64, member: &[u8]) -> CellResult<Ordering> {
        // No score is not a number.
        match self.score(entry)?.partial_cmp(&score).ok_or(Corrupt)? {
            Ordering::Equal => {
                let (at, len) = self.key(entry)?;
                self.tail.compare(at, len, member)
            }
            unequal => Ok(unequal),
        }
    }

    /// Returns the number of entries in order for which `is_before` holds: all before the first for
    /// which it does not hold.
    pub(super) fn count_before(self, is_before: impl Fn(usize) -> CellResult<bool>) -> CellResult<usize> {
        let (mut low, mut high) = (0, self.len()?);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(self.at(middle)?)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The place in the order of a score and a member.
    pub(super) fn place(self, score: f64, member: &[u8]) -> CellResult<usize> {
        self.count_before(|entry| Ok(self.compare(entry, score, member)? == Ordering::Less))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::{Edit, begin};
    use super::*;

    #[test]
    fn format_is_as_documented() {
        let words: Vec<AtomicU32> = (0..32).map(|_| AtomicU32::new(u32::MAX)).collect();
        let kind = CollectionKind::Sorted;
        let bag = begin(Tail(&words), kind, 0x1122_3344_5566_7788, 6).expect("inside");
        assert!(bag.lay_out(Room { entries: 2, words: 10 }).expect("inside"));
        bag.edit(&[
            Edit::score(b"later", 1.5),
            Edit::score(b"k", -1.0),
            Edit::Deadline(Some(1 << 40)),
            Edit::Mark(9),
        ])
        .expect("room");
        let words: Vec<u32> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let word = u32::from_le_bytes;
        let header = [
            [word(*b"MPST"), 0x0701, 0x5566_7788, 0x1122_3344],
            [6, 0, u32::MAX, 9],
            [2, 31, 0, 0],
            [4, 2, 0, 1 << 8],
        ];
        assert_eq!(words[..16], header.concat());
        let mut named: Vec<u32> = words[16..20].iter().map(|word| word & ENTRY).collect();
        named.sort_unstable();
        assert_eq!(named, [0, 0, 22, 27], "which slots, the identity says");
        // The one with the lower score is the first.
        assert_eq!(words[20..22], [27, 22]);
        let half = |score: f64| [score.to_bits() as u32, (score.to_bits() >> 32) as u32];
        assert_eq!(words[22..25], [&[5][..], &half(1.5)].concat());
        assert_eq!(words[25..27], [word(*b"late"), word(*b"r\0\0\0")]);
        assert_eq!(words[27..31], [&[1][..], &half(-1.0), &[word(*b"k\0\0\0")]].concat());
        assert_eq!(words[31], u32::MAX);
        assert_eq!(Bag::of(Tail(&[])).map(|_| ()), Err(Corrupt));
    }
}

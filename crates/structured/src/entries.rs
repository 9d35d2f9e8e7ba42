//! The entries of a map, ordered or not: behind the directory, in the order in which they came.
//!
//! An entry is its key, from a word's beginning, and its value, from the next word's beginning;
//! where values vary, a word with the value's length stands between. A word of the directory names
//! an entry by the number of its first word (20 bits). Entries whose values do not vary are used
//! again when they are given back; others are garbage until the map is rebuilt.

use super::StructureOptions;
use super::header::{FREE, GARBAGE, HEADER, Kind, LEN, NEXT, SLOTS, Shape, VARIES};
use memory::cells::{CellResult, Cells as Tail, Corrupt, words_for};

/// Bits of a directory's word that name an entry.
pub(super) const ENTRY_BITS: u32 = 20;
pub(super) const ENTRY: u32 = (1 << ENTRY_BITS) - 1;

/// Entries, and the words that they take: without header and directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) entries: usize,
    pub(super) words: usize,
}

/// The result of putting a value in.
pub(super) enum Put {
    /// Its key has another entry now.
    New(u32),
    /// Its entry is another one now.
    Moved(u32),
    /// Its entry is the same.
    InPlace,
    /// There is no room, but this much would do. Nothing was changed.
    Full(Room),
}

/// The layout of the entries of a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries {
    kind: Kind,
    key_bytes: usize,
    /// `None` = values vary.
    value_bytes: Option<usize>,
}

impl Entries {
    pub(super) const fn new(kind: Kind, key_bytes: usize, value_bytes: Option<usize>) -> Self {
        assert!(key_bytes > 0, "keys of no bytes are all the same: use an array");
        Self { kind, key_bytes, value_bytes }
    }

    pub(super) const fn shape(self) -> Shape {
        let value_bytes = match self.value_bytes {
            Some(bytes) => bytes as u32,
            None => VARIES,
        };
        Shape { kind: self.kind, key_bytes: self.key_bytes as u32, value_bytes }
    }

    const fn words_of(self, value_len: usize) -> usize {
        let length = if self.value_bytes.is_some() { 0 } else { 1 };
        words_for(self.key_bytes) + length + words_for(value_len)
    }

    /// Words of a directory for this many entries. A hashed one is at most three quarters full.
    fn slots(self, entries: usize) -> usize {
        if self.kind == Kind::Map { entries + entries / 3 + 2 } else { entries }
    }

    /// The room that `options` ask for.
    pub(super) fn room(self, options: &StructureOptions) -> Room {
        let value = self.value_bytes.unwrap_or(options.value_bytes.min(u32::MAX as usize));
        // More than fits into any item is refused as too large, and need not be exact.
        let entries = options.entries.clamp(1, u32::MAX as usize);
        Room { entries, words: entries.saturating_mul(self.words_of(value)).min(u32::MAX as usize) }
    }

    /// Words of a tail with this room.
    pub(super) fn tail_words(self, room: Room) -> usize {
        HEADER + self.slots(room.entries) + room.words
    }

    /// Lays an empty tail out for `entries` entries that take `words` words. `false`: they do not
    /// fit.
    pub(super) fn lay_out(self, tail: Tail<'_>, entries: usize, words: usize) -> CellResult<bool> {
        let body = tail.len() - HEADER.min(tail.len());
        // Directory and entries are to be full at the same time, if entries stay as long as they
        // are.
        let fitting = body * entries / (self.slots(entries) + words).max(1);
        let slots = [fitting, entries].map(|entries| self.slots(entries));
        let Some(slots) = slots.into_iter().find(|slots| slots + words <= body) else { return Ok(false) };
        (HEADER..HEADER + slots).try_for_each(|at| tail.set(at, 0))?;
        tail.set(SLOTS, slots as u32)?;
        tail.set(NEXT, (HEADER + slots) as u32)?;
        Ok(true)
    }

    /// Takes all entries out.
    pub(super) fn clear(self, tail: Tail<'_>) -> CellResult<()> {
        let slots = tail.get(SLOTS)? as usize;
        (0..slots).try_for_each(|slot| tail.set(HEADER + slot, 0))?;
        [LEN, FREE, GARBAGE].into_iter().try_for_each(|at| tail.set(at, 0))?;
        tail.set(NEXT, (HEADER + slots) as u32)
    }

    /// Words that the entries take now.
    fn live(self, tail: Tail<'_>) -> CellResult<usize> {
        let (next, slots, garbage) = (tail.get(NEXT)?, tail.get(SLOTS)?, tail.get(GARBAGE)?);
        let live = i64::from(next) - HEADER as i64 - i64::from(slots) - i64::from(garbage);
        usize::try_from(live).map_err(|_| Corrupt)
    }

    /// The room that is needed for an entry more, or to change one that is there, which stays until
    /// the change is made.
    fn needed(self, tail: Tail<'_>, value_len: usize, is_new: bool) -> CellResult<Room> {
        let Room { entries, words } = self.taken(tail)?;
        Ok(Room { entries: entries + usize::from(is_new), words: words + self.words_of(value_len) })
    }

    /// The room that is taken now.
    pub(super) fn taken(self, tail: Tail<'_>) -> CellResult<Room> {
        Ok(Room { entries: tail.get(LEN)? as usize, words: self.live(tail)? })
    }

    /// Puts the value of a key in, whose entry is `found`. The rest is up to the directory.
    pub(super) fn put(
        self,
        tail: Tail<'_>,
        found: Option<usize>,
        key: &[u8],
        value: &[u8],
    ) -> CellResult<Put> {
        if let Some(entry) = found
            && self.overwrite(tail, entry, value)?
        {
            return Ok(Put::InPlace);
        }
        let has_slots =
            found.is_some() || self.slots(tail.get(LEN)? as usize + 1) <= tail.get(SLOTS)? as usize;
        let new = if has_slots { self.append(tail, key, value)? } else { None };
        Ok(match (new, found) {
            (Some(new), Some(old)) => {
                self.give_back(tail, old)?;
                Put::Moved(new)
            }
            (Some(new), None) => {
                self.count(tail, LEN, 1)?;
                Put::New(new)
            }
            (None, found) => Put::Full(self.needed(tail, value.len(), found.is_none())?),
        })
    }

    /// Puts an entry behind the others, or where one was given back. `None`: there is no room.
    fn append(self, tail: Tail<'_>, key: &[u8], value: &[u8]) -> CellResult<Option<u32>> {
        let words = self.words_of(value.len());
        let free = if self.value_bytes.is_some() { tail.get(FREE)? } else { 0 };
        let entry = if free != 0 {
            tail.set(FREE, tail.get(free as usize)?)?;
            self.count(tail, GARBAGE, -(words as i64))?;
            free
        } else {
            let next = tail.get(NEXT)?;
            if next as usize + words > tail.len() || next > ENTRY {
                return Ok(None);
            }
            tail.set(NEXT, next + words as u32)?;
            next
        };
        tail.write(entry as usize, key)?;
        self.put_value(tail, entry as usize, value)?;
        Ok(Some(entry))
    }

    fn put_value(self, tail: Tail<'_>, entry: usize, value: &[u8]) -> CellResult<()> {
        let at = entry + words_for(self.key_bytes);
        if self.value_bytes.is_some() {
            return tail.write(at, value);
        }
        tail.set(at, value.len() as u32)?;
        tail.write(at + 1, value)
    }

    /// Returns the offset of an entry's value, and its length in bytes.
    #[inline]
    pub(super) fn value(self, tail: Tail<'_>, entry: usize) -> CellResult<(usize, usize)> {
        let at = entry + words_for(self.key_bytes);
        match self.value_bytes {
            Some(len) => Ok((at, len)),
            None => Ok((at + 1, tail.get(at)? as usize)),
        }
    }

    /// Words of an entry.
    fn size(self, tail: Tail<'_>, entry: usize) -> CellResult<usize> {
        Ok(self.words_of(self.value(tail, entry)?.1))
    }

    /// Puts another value into an entry. `false`: it is too long for that.
    fn overwrite(self, tail: Tail<'_>, entry: usize, value: &[u8]) -> CellResult<bool> {
        let (old, new) = (self.size(tail, entry)?, self.words_of(value.len()));
        if new > old {
            return Ok(false);
        }
        self.count(tail, GARBAGE, (old - new) as i64)?;
        self.put_value(tail, entry, value)?;
        Ok(true)
    }

    /// Gives an entry back that the directory does not name any more.
    pub(super) fn give_back(self, tail: Tail<'_>, entry: usize) -> CellResult<()> {
        let words = self.size(tail, entry)?;
        if self.value_bytes.is_some() {
            tail.set(entry, tail.get(FREE)?)?;
            tail.set(FREE, entry as u32)?;
        }
        self.count(tail, GARBAGE, words as i64)
    }

    /// Raises or lowers one of the header's counts.
    pub(super) fn count(self, tail: Tail<'_>, at: usize, by: i64) -> CellResult<()> {
        let after = u32::try_from(i64::from(tail.get(at)?) + by).map_err(|_| Corrupt)?;
        tail.set(at, after)
    }

    /// Lays `to` out for what is in `from`, and for so much as `room`. `false`: it does not fit.
    pub(super) fn lay_out_for(self, from: Tail<'_>, to: Tail<'_>, room: Room) -> CellResult<bool> {
        let taken = self.taken(from)?;
        self.lay_out(to, taken.entries.max(room.entries), taken.words.max(room.words))
    }

    /// Copies an entry to another tail with enough room.
    pub(super) fn copy(self, from: Tail<'_>, entry: usize, to: Tail<'_>) -> CellResult<u32> {
        let (words, next) = (self.size(from, entry)?, to.get(NEXT)?);
        from.copy(entry, to, next as usize, words)?;
        to.set(NEXT, next + words as u32)?;
        Ok(next)
    }

    pub(super) fn usage(self, tail: Tail<'_>) -> CellResult<(usize, usize, usize)> {
        Ok((tail.get(LEN)? as usize, self.tail_words(self.taken(tail)?), tail.get(GARBAGE)? as usize))
    }
}

/// The directory's words that name an entry.
pub(super) fn directory(tail: Tail<'_>, kind: Kind) -> CellResult<impl Iterator<Item = usize>> {
    let words = if kind == Kind::Map { tail.get(SLOTS)? } else { tail.get(LEN)? } as usize;
    if HEADER + words > tail.len() {
        return Err(Corrupt);
    }
    Ok((HEADER..HEADER + words).filter_map(move |at| {
        let entry = tail.get(at).unwrap_or(0) & ENTRY;
        (entry != 0).then_some(entry as usize)
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::header::Header;
    use super::*;

    #[test]
    fn format_is_as_documented() {
        let words: Vec<AtomicU32> = (0..28).map(|_| AtomicU32::new(u32::MAX)).collect();
        let tail = Tail(&words);
        let entries = Entries::new(Kind::Ordered, 2, None);
        tail.begin(entries.shape(), 0x1122_3344_5566_7788, 6).expect("inside");
        assert!(entries.lay_out(tail, 2, 6).expect("inside"));
        for (slot, (key, value)) in [(b"k1", &b"value"[..]), (b"k2", b"")].into_iter().enumerate() {
            let entry = entries.append(tail, key, value).expect("inside").expect("room");
            tail.set(HEADER + slot, entry).expect("inside");
            entries.count(tail, LEN, 1).expect("inside");
        }
        assert!(entries.overwrite(tail, 19, b"Val").expect("inside"));
        let word = u32::from_le_bytes;
        let expected = [
            [word(*b"MPST"), 0x0301, 0x5566_7788, 0x1122_3344],
            [6, 0, 2, u32::MAX],
            [2, 25, 0, 1],
            [3, 0, 0, 0],
            // The directory, and the first entry with the word that its value does not need any
            // more.
            [19, 23, 0, word(*b"k1\0\0")],
            [3, word(*b"Val\0"), word([b'e', 0, 0, 0]), word(*b"k2\0\0")],
            [0, u32::MAX, u32::MAX, u32::MAX],
        ];
        let words: Vec<u32> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        assert_eq!(words, expected.concat());
        assert_eq!(tail.identify(entries.shape()).expect("it is one"), 0x1122_3344_5566_7788);
        for other in [
            Entries::new(Kind::Map, 2, None),
            Entries::new(Kind::Ordered, 3, None),
            Entries::new(Kind::Ordered, 2, Some(4)),
        ] {
            assert!(tail.identify(other.shape()).is_err());
        }
        assert!(Tail(&[]).identify(entries.shape()).is_err());
    }
}

//! The first 16 words of every structure. docs/formats/structured-items.md has the table.

use std::sync::atomic::Ordering;

use base::sequence;

use memory::cells::{CellResult, Cells as Tail, Corrupt};

/// `MPST` in memory.
const MAGIC: u32 = u32::from_le_bytes(*b"MPST");
const VERSION: u32 = 1;
/// Words of the header.
pub(super) const HEADER: usize = 16;

const AT_MAGIC: usize = 0;
const AT_KIND: usize = 1;
const AT_ID: usize = 2;
const AT_SEQUENCE: usize = 4;
const AT_FROZEN: usize = 5;
const AT_KEY_BYTES: usize = 6;
const AT_VALUE_BYTES: usize = 7;
/// Entries, or elements of an array.
pub(super) const LEN: usize = 8;
/// The first word that no entry has used yet.
pub(super) const NEXT: usize = 9;
/// The first of the entries that were given back; 0 = none. Each has the next one in its first
/// word.
pub(super) const FREE: usize = 10;
/// Words that removed and overwritten entries left behind.
pub(super) const GARBAGE: usize = 11;
/// Words of the directory.
pub(super) const SLOTS: usize = 12;
/// Collections: a word that is the caller's.
pub(super) const MARK: usize = AT_VALUE_BYTES;
/// Collections with an order: the place in the ring of the first entry.
pub(super) const FIRST: usize = FREE;
/// Collections with an order: words of the ring.
pub(super) const RING: usize = 13;
/// Collections: the end in Unix milliseconds, 64 bits; 0 = none.
pub(super) const DEADLINE: usize = 14;

/// The kinds of structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Array = 1,
    Map = 2,
    Ordered = 3,
    Hash = 4,
    Set = 5,
    List = 6,
    Sorted = 7,
}

/// In the place of a length: values vary.
pub(super) const VARIES: u32 = u32::MAX;

/// The properties that must be the same for a handle to open a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) key_bytes: u32,
    /// [`VARIES`] = each value has its own.
    pub(super) value_bytes: u32,
}

/// The header at the beginning of a tail.
pub(super) trait Header: Copy {
    /// Writes the header of an empty structure that nobody sees yet.
    fn begin(self, shape: Shape, id: u64, sequence: u32) -> CellResult<()>;

    /// The identity of a structure of this shape; an error where it is none.
    fn identify(self, shape: Shape) -> CellResult<u64>;

    /// The kind and the identity of whatever structure it is.
    fn kind_and_id(self) -> CellResult<(u8, u64)>;

    /// The sequence, before what it stands for is read.
    fn sequence(self) -> CellResult<u32>;

    /// Returns whether nothing was written since the sequence was `before`.
    fn is_still(self, before: u32) -> CellResult<bool>;

    /// Runs `change`, which writes, between two steps of the sequence. The caller holds the lock of
    /// the stripe, and the sequence is even. It is left odd where `change` panics (invariant 4).
    fn change<R>(self, change: impl FnOnce(Self) -> CellResult<R>) -> CellResult<R>;

    /// Returns whether the item is frozen by the process of this mark.
    fn is_frozen(self, mark: u32) -> CellResult<bool>;

    /// Freezes the item, or with 0 takes the mark off. The caller holds a reference.
    fn freeze(self, mark: u32) -> CellResult<()>;
}

impl Header for Tail<'_> {
    fn begin(self, shape: Shape, id: u64, sequence: u32) -> CellResult<()> {
        (0..HEADER).try_for_each(|at| self.set(at, 0))?;
        self.set(AT_MAGIC, MAGIC)?;
        self.set(AT_KIND, VERSION | (shape.kind as u32) << 8)?;
        self.set(AT_ID, id as u32)?;
        self.set(AT_ID + 1, (id >> 32) as u32)?;
        self.set(AT_SEQUENCE, sequence)?;
        self.set(AT_KEY_BYTES, shape.key_bytes)?;
        self.set(AT_VALUE_BYTES, shape.value_bytes)
    }

    #[inline]
    fn identify(self, shape: Shape) -> CellResult<u64> {
        let same = self.get(AT_MAGIC)? == MAGIC
            && self.get(AT_KIND)? == VERSION | (shape.kind as u32) << 8
            && self.get(AT_KEY_BYTES)? == shape.key_bytes
            && self.get(AT_VALUE_BYTES)? == shape.value_bytes
            && self.len() >= HEADER;
        if !same {
            return Err(Corrupt);
        }
        Ok(u64::from(self.get(AT_ID)?) | u64::from(self.get(AT_ID + 1)?) << 32)
    }

    #[inline]
    fn kind_and_id(self) -> CellResult<(u8, u64)> {
        let word = self.get(AT_KIND)?;
        if self.get(AT_MAGIC)? != MAGIC || word & 0xff != VERSION || word > 0xffff || self.len() < HEADER {
            return Err(Corrupt);
        }
        let id = u64::from(self.get(AT_ID)?) | u64::from(self.get(AT_ID + 1)?) << 32;
        Ok(((word >> 8) as u8, id))
    }

    #[inline]
    fn sequence(self) -> CellResult<u32> {
        Ok(sequence::current(self.word(AT_SEQUENCE)?))
    }

    #[inline]
    fn is_still(self, before: u32) -> CellResult<bool> {
        Ok(sequence::is_still(self.word(AT_SEQUENCE)?, before))
    }

    fn change<R>(self, change: impl FnOnce(Self) -> CellResult<R>) -> CellResult<R> {
        let (word, before) = (self.word(AT_SEQUENCE)?, self.get(AT_SEQUENCE)?);
        sequence::open(word, before.wrapping_add(1));
        let result = change(self);
        sequence::close(word, before.wrapping_add(2));
        result
    }

    fn is_frozen(self, mark: u32) -> CellResult<bool> {
        Ok(self.word(AT_FROZEN)?.load(Ordering::Acquire) == mark)
    }

    fn freeze(self, mark: u32) -> CellResult<()> {
        self.word(AT_FROZEN)?.store(mark, Ordering::Release);
        Ok(())
    }
}

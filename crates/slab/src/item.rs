//! An item in its chunk, and the state word on which every thread agrees about it.
//!
//! ```text
//! offset  0  state word   u32, atomic (below)
//!         4  lengths      u32: key 8 bits, value 22 bits, layout 2 bits
//!         8  created      u32, Unix seconds
//!        12  expiry       u32, atomic, Unix seconds, 0 = never (layouts Expiring, Flagged, Tagged)
//!        16  client flags u32                                  (layouts Flagged, Tagged)
//!        20  last access  u32, atomic, Unix seconds            (layout Tagged)
//!        24  CAS token    u64                                  (layout Tagged)
//!        then the key, then the value, then the ends of the chain: 8 bytes (items with CHAINED)
//! ```
//!
//! The length of the value says where the value is:
//!
//! | length | CHAINED | value |
//! |---|---|---|
//! | a length | no matter | behind the key |
//! | [`TAILED`] | no | none, but a *tail*: from the next multiple of 4 behind the key on, the rest of the chunk is words that are written while others read them |
//! | [`TAILED`] | yes | *long*: all bytes are in the item's links, in order |
//!
//! The state word, from bit 0: references (14 bits), CHAINED, INDEXED, FETCHED, two user bits,
//! QUEUED, the eviction policy's 8 bits, and the chunk's incarnation (4 bits), which changes each
//! time the chunk is allocated.
//!
//! CHAINED says that the item has room for the ends of a chain of *links*, which are items without
//! a key: see [`link`].
//!
//! Invariants:
//! 1. References are taken only while INDEXED is set, in one compare-and-swap that sees both. The
//!    exception is the first reference, which the allocating thread has from the start.
//! 2. The thread that clears INDEXED unlinks the item, and holds a reference until that is done.
//!    The thread that brings the word to "not INDEXED, no references" frees the chunk: exactly one
//!    thread does, since each step is one atomic operation on the one word.
//! 3. Key, lengths, creation time, CAS token and client flags are written before INDEXED is set and
//!    never after. So is the value. A holder of a reference may therefore read them without
//!    synchronisation. The expiry time and the time of the last access change later, as atomics.
//! 4. QUEUED changes only under the lock of the item's class.
//! 5. A freed chunk is written to only after every thread that protected its pointer (`base::pin`)
//!    before it was freed protects it no more. A thread that protects the pointer and then finds
//!    INDEXED set may therefore read what invariant 3 names, as a holder of a reference may.
//! 6. The words of a tail are only ever touched as atomics, from the item's making to the freeing
//!    of its chunk, and only holders of a reference write to them. A thread that has claimed the
//!    item, to which no references are left, may therefore copy the words: they do not change any
//!    more.

use std::marker::PhantomData;
use std::ptr::NonNull;

use base::sync::atomic::{AtomicU32, Ordering};

pub mod link;
mod state;

pub use state::{Acquired, Claim, StateWord};

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 255;
/// Values are no longer than this, in bytes; a slab's end comes first.
pub const MAX_VALUE_BYTES: usize = (1 << 22) - 2;
/// In the place of a value's length: the item has a tail; or, if it has room for a chain, a long
/// value in that. No value is that long.
pub const TAILED: usize = (1 << 22) - 1;

/// The optional fields of an item's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Layout {
    /// 12 bytes: neither expiry nor tag.
    Plain = 0,
    /// 16 bytes: with an expiry time.
    Expiring = 1,
    /// 20 bytes: with expiry and client flags.
    Flagged = 2,
    /// 32 bytes: with last access and CAS token besides.
    Tagged = 3,
}

impl Layout {
    /// Length of the header, in bytes.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Plain => 12,
            Self::Expiring => 16,
            Self::Flagged => 20,
            Self::Tagged => 32,
        }
    }

    /// Bytes of a chunk that an item needs.
    pub const fn item_bytes(self, key_len: usize, value_len: usize) -> usize {
        self.header_bytes() + key_len + value_len
    }

    /// Bytes of a chunk that an item with a tail needs.
    pub const fn tailed_item_bytes(self, key_len: usize, tail_bytes: usize) -> usize {
        (self.header_bytes() + key_len).next_multiple_of(4) + tail_bytes
    }

    /// Returns whether there is room for an expiry time.
    pub const fn has_expiry(self) -> bool {
        !matches!(self, Self::Plain)
    }

    /// Returns whether there is room for a CAS token and the last access.
    pub const fn has_tag(self) -> bool {
        matches!(self, Self::Tagged)
    }

    /// Returns whether there is room for client flags.
    pub const fn has_flags(self) -> bool {
        matches!(self, Self::Flagged | Self::Tagged)
    }

    const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Plain,
            1 => Self::Expiring,
            2 => Self::Flagged,
            _ => Self::Tagged,
        }
    }
}

/// The header fields that are set once, when an item is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The optional fields of the header.
    pub layout: Layout,
    /// The time at which the item was made, in Unix seconds.
    pub created: u32,
    /// The expiry time, in Unix seconds; 0 = never. Ignored if the layout has no room.
    pub expiry: u32,
    /// The CAS token. Ignored if the layout has no room.
    pub cas: u64,
    /// The client's flags. Ignored if the layout has no room.
    pub client_flags: u32,
}

/// Longer keys are compared by the C library.
const SHORT_KEY_BYTES: usize = 64;

/// Returns whether two keys are the same, by words of 8 bytes and less, none of which overlap.
///
/// The C library compares 16 and 32 bytes at once. A caller that has just put its key together from
/// smaller stores makes such a load wait until they have left the processor's store buffer, and so
/// until all that came before them is done, cache misses included: one find then no longer overlaps
/// with the next, which costs more than half of its speed.
#[inline]
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if a.len() > SHORT_KEY_BYTES {
        return a == b;
    }
    let ((a8, a), (b8, b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a8.iter().zip(b8) {
        if u64::from_ne_bytes(*a) != u64::from_ne_bytes(*b) {
            return false;
        }
    }
    let ((a4, a), (b4, b)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    for (a, b) in a4.iter().zip(b4) {
        if u32::from_ne_bytes(*a) != u32::from_ne_bytes(*b) {
            return false;
        }
    }
    for (a, b) in a.iter().zip(b) {
        if a != b {
            return false;
        }
    }
    true
}

/// A view of a chunk as an item. Copying it is free and says nothing about who may touch what: the
/// state word may be used by anyone at any time, all else only under the duties of each function.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    chunk: NonNull<u8>,
    chunk_bytes: u32,
    arena: PhantomData<&'a StateWord>,
}

impl<'a> Item<'a> {
    /// The item in the chunk at `chunk`.
    ///
    /// # Safety
    /// `chunk` is 8-byte aligned and followed by `chunk_bytes` (at least 64) bytes that stay mapped
    /// for `'a`.
    #[inline]
    pub(crate) unsafe fn at(chunk: NonNull<u8>, chunk_bytes: u32) -> Self {
        Self { chunk, chunk_bytes, arena: PhantomData }
    }

    /// The state word.
    #[inline]
    pub fn state(self) -> &'a StateWord {
        // SAFETY: the first four bytes of a chunk, which is mapped and aligned (invariant 1 of
        // `slab::arena`), are the state word and are only ever accessed as an atomic.
        unsafe { self.chunk.cast::<StateWord>().as_ref() }
    }

    /// Writes header and key; the value is left as it is. A `value_len` of [`TAILED`] makes an item
    /// with a tail.
    ///
    /// # Safety
    /// The caller owns the chunk (invariant 2), and
    /// `fields.layout.item_bytes(key.len(), value_len)` fits into it, or
    /// `fields.layout.tailed_item_bytes(key.len(), 0)`.
    pub unsafe fn init(self, fields: &Fields, key: &[u8], value_len: usize) {
        debug_assert!(key.len() <= MAX_KEY_BYTES && value_len <= TAILED);
        debug_assert!(
            value_len == TAILED
                || fields.layout.item_bytes(key.len(), value_len) <= self.chunk_bytes as usize
        );
        let lengths = key.len() as u32 | (value_len as u32) << 8 | (fields.layout as u32) << 30;
        // SAFETY: all offsets lie inside the chunk (the caller's duty) and are aligned for their
        // types. The caller owns the chunk, so no thread reads them now (invariants 2 and 5).
        unsafe {
            self.chunk.add(4).cast::<u32>().write(lengths);
            self.chunk.add(8).cast::<u32>().write(fields.created);
            if fields.layout.has_expiry() {
                self.chunk.add(12).cast::<u32>().write(fields.expiry);
            }
            if fields.layout.has_flags() {
                self.chunk.add(16).cast::<u32>().write(fields.client_flags);
            }
            if fields.layout.has_tag() {
                self.chunk.add(20).cast::<u32>().write(fields.created);
                self.chunk.add(24).cast::<u64>().write(fields.cas);
            }
            let to = self.chunk.add(fields.layout.header_bytes());
            to.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        }
    }

    /// Makes the chunk `to` a copy of this item, with one reference.
    ///
    /// # Safety
    /// The caller owns both chunks, and this item fits into `to`. Others may still read this item.
    pub unsafe fn copy_to(self, to: Item<'_>) {
        // SAFETY: the caller owns this chunk, so no other thread frees it (invariant 2), and it
        // holds an item.
        debug_assert!(unsafe { self.used_bytes() } <= to.chunk_bytes as usize);
        to.state().begin_copy(self.state());
        // SAFETY: the fields and bytes lie inside both chunks, as the item fits into both. The
        // caller owns both (invariant 2): no other thread reads `to`, and others only read this
        // item (invariants 3 and 6), except for the two times, which are copied as the atomics that
        // they are.
        unsafe {
            let (key_len, value_len, layout) = self.lengths();
            let header = layout.header_bytes();
            to.chunk.add(4).cast::<u64>().write_unaligned(self.chunk.add(4).cast::<u64>().read_unaligned());
            if let Some(expiry) = self.expiry() {
                to.chunk.add(12).cast::<u32>().write(expiry.load(Ordering::Relaxed));
            }
            if let (Some(cas), Some(last_access)) = (self.cas(), self.last_access()) {
                to.chunk.add(20).cast::<u32>().write(last_access.load(Ordering::Relaxed));
                to.chunk.add(24).cast::<u64>().write(cas);
            }
            if layout.has_flags() {
                to.chunk.add(16).cast::<u32>().write(self.client_flags());
            }
            let ends = if self.state().is_chained() { link::CHAIN_BYTES } else { 0 };
            to.chunk.add(header).copy_from_nonoverlapping(self.chunk.add(header), key_len + value_len + ends);
            // The lengths are the same now, and so is the place of the tail.
            for (from, to) in self.tail().into_iter().flatten().zip(to.tail().into_iter().flatten()) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// Returns whether the lengths that the header names fit into the chunk: a check of what
    /// another process left behind.
    ///
    /// # Safety
    /// As for [`Self::key`], but that the item need not be initialised.
    pub unsafe fn is_plausible(self) -> bool {
        // SAFETY: the lengths lie in the header, which every chunk has room for (invariant 2 of
        // `slab::arena`), and do not change while the caller meets the duties of `key` (invariant
        // 3).
        let ((key_len, value_len, layout), tailed) = unsafe { (self.lengths(), self.has_tail()) };
        let chained = self.state().is_chained();
        let bytes = match (tailed, chained) {
            // A tail is all that the key leaves.
            (true, false) => layout.tailed_item_bytes(key_len, 0),
            // The ends of a chain would lie in the tail.
            (true, true) => return false,
            (false, _) => layout.item_bytes(key_len, value_len) + if chained { link::CHAIN_BYTES } else { 0 },
        };
        // Without a key it is a link.
        let is_link = value_len >= link::LINK_BYTES && layout == Layout::Plain && !chained;
        (key_len > 0 || is_link) && bytes <= self.chunk_bytes as usize
    }

    /// Key length, value length and layout.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    unsafe fn lengths(self) -> (usize, usize, Layout) {
        // SAFETY: inside the chunk and aligned; not written while the caller's condition holds
        // (invariant 3).
        let lengths = unsafe { self.chunk.add(4).cast::<u32>().read() };
        let value_len = (lengths >> 8) as usize & TAILED;
        let value_len = if value_len == TAILED { 0 } else { value_len };
        ((lengths & 0xff) as usize, value_len, Layout::from_bits(lengths >> 30))
    }

    /// Returns whether the item has a tail.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn has_tail(self) -> bool {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed, and its lengths
        // do not change (invariants 2, 3 and 5).
        unsafe { self.has_no_length() && !self.state().is_chained() }
    }

    /// Returns whether the item is the head of a long value.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn is_long(self) -> bool {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed, and its lengths
        // do not change (invariants 2, 3 and 5).
        unsafe { self.has_no_length() && self.state().is_chained() }
    }

    /// Returns whether the item's header has no optional fields, and the item has neither a long
    /// value nor a tail. That is so for most items, and takes one comparison.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn is_plain_and_inline(self) -> bool {
        // The layout is above the length, whose highest value is not one.
        // SAFETY: inside the chunk and aligned; not written while the caller meets the duties of
        // `key` (invariant 3).
        unsafe { self.chunk.add(4).cast::<u32>().read() < (TAILED as u32) << 8 }
    }

    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    unsafe fn has_no_length(self) -> bool {
        // SAFETY: inside the chunk and aligned; not written while the caller meets the duties of
        // `key` (invariant 3).
        unsafe { self.chunk.add(4).cast::<u32>().read() >> 8 & TAILED as u32 == TAILED as u32 }
    }

    /// The words behind the key, to the end of the chunk, of an item with a tail.
    ///
    /// # Safety
    /// As for [`Self::key`]. A thread that writes to the words holds a reference (invariant 6).
    pub unsafe fn tail(self) -> Option<&'a [AtomicU32]> {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed (invariants 2 and
        // 5). The words lie inside the chunk, are aligned, as the chunk is, and are touched as
        // atomics alone (invariant 6).
        unsafe {
            if !self.has_tail() {
                return None;
            }
            let (key_len, _, layout) = self.lengths();
            let start = layout.tailed_item_bytes(key_len, 0);
            let words = (self.chunk_bytes as usize).saturating_sub(start) / size_of::<AtomicU32>();
            Some(NonNull::slice_from_raw_parts(self.chunk.add(start).cast(), words).as_ref())
        }
    }

    /// The optional fields of the header.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn layout(self) -> Layout {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed, and its lengths
        // do not change (invariants 2, 3 and 5).
        unsafe { self.lengths() }.2
    }

    /// The key.
    ///
    /// # Safety
    /// For as long as the result is used: the caller holds a reference, owns the chunk, or protects
    /// it (invariant 5); or the item is in the index and the caller holds the lock of the bucket
    /// that points to it. And the item was initialised.
    #[inline]
    pub unsafe fn key(self) -> &'a [u8] {
        // SAFETY: the caller's duty keeps the chunk from being freed (invariants 2 and 5). Key and
        // lengths do not change (invariant 3), and the lengths were checked against the chunk when
        // they were written.
        unsafe {
            let (key_len, _, layout) = self.lengths();
            NonNull::slice_from_raw_parts(self.chunk.add(layout.header_bytes()), key_len).as_ref()
        }
    }

    /// Returns whether the item's key is `key`.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn has_key(self, key: &[u8]) -> bool {
        // SAFETY: the caller meets the duties of `key`, so the key is neither freed nor written
        // (invariants 2, 3 and 5).
        same_bytes(unsafe { self.key() }, key)
    }

    /// The value.
    ///
    /// # Safety
    /// As for [`Self::key`], and nobody uses [`Self::value_mut`] meanwhile.
    #[inline]
    pub unsafe fn value(self) -> &'a [u8] {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed (invariants 2 and
        // 5). The value is not written after publication (invariant 3), nor before it while the
        // result is used (the caller's duty).
        unsafe {
            let (key_len, value_len, layout) = self.lengths();
            NonNull::slice_from_raw_parts(self.chunk.add(layout.header_bytes() + key_len), value_len).as_ref()
        }
    }

    /// The value, to be written.
    ///
    /// # Safety
    /// The caller owns the chunk, or holds the only reference to an item that is not in the index
    /// yet, and uses no other view of the value meanwhile.
    #[inline]
    pub unsafe fn value_mut(self) -> &'a mut [u8] {
        // SAFETY: the caller owns the chunk or has its only reference. Before INDEXED is set no
        // other thread can take one (invariant 1), and the caller uses no other view of the value.
        unsafe {
            let (key_len, value_len, layout) = self.lengths();
            NonNull::slice_from_raw_parts(self.chunk.add(layout.header_bytes() + key_len), value_len).as_mut()
        }
    }

    /// Bytes of the chunk that the item uses.
    ///
    /// # Safety
    /// As for [`Self::key`].
    pub unsafe fn used_bytes(self) -> usize {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed, and its lengths
        // do not change (invariants 2, 3 and 5).
        let ((key_len, value_len, layout), tailed) = unsafe { (self.lengths(), self.has_tail()) };
        let ends = if self.state().is_chained() { link::CHAIN_BYTES } else { 0 };
        // A tail is all that the chunk has.
        if tailed { self.chunk_bytes as usize } else { layout.item_bytes(key_len, value_len) + ends }
    }

    /// Returns the time at which the item was made, in Unix seconds.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn created(self) -> u32 {
        // SAFETY: inside the chunk and aligned; never written after publication (invariant 3).
        unsafe { self.chunk.add(8).cast::<u32>().read() }
    }

    /// Overwrites when the item was made.
    ///
    /// # Safety
    /// The caller owns the chunk or holds the only reference to an item that is not in the index
    /// yet.
    pub unsafe fn set_created(self, created: u32) {
        // SAFETY: inside the chunk and aligned. The caller owns the chunk or has its only
        // reference, and before INDEXED is set no other thread can take one (invariant 1).
        unsafe { self.chunk.add(8).cast::<u32>().write(created) }
    }

    /// The expiry time as an atomic, if the layout has room for one. 0 = never.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn expiry(self) -> Option<&'a AtomicU32> {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed (invariants 2 and
        // 5). The field is inside the chunk, aligned, and after publication only used atomically.
        unsafe { self.layout().has_expiry().then(|| self.chunk.add(12).cast::<AtomicU32>().as_ref()) }
    }

    /// The CAS token, if the layout has room for one.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn cas(self) -> Option<u64> {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed (invariants 2 and
        // 5). The field is inside the chunk, aligned, and never written after publication
        // (invariant 3).
        unsafe { self.layout().has_tag().then(|| self.chunk.add(24).cast::<u64>().read()) }
    }

    /// Overwrites the CAS token.
    ///
    /// # Safety
    /// The layout has a tag, and the caller owns the chunk or holds the only reference to an item
    /// that is not in the index yet.
    pub unsafe fn set_cas(self, cas: u64) {
        // SAFETY: inside the chunk and aligned, as the layout has a tag. The caller owns the chunk
        // or has its only reference, and before INDEXED is set no other thread can take one
        // (invariant 1).
        unsafe { self.chunk.add(24).cast::<u64>().write(cas) }
    }

    /// Overwrites the client's flags. `false`: the layout has no room for any, and they stay 0.
    ///
    /// # Safety
    /// The caller owns the chunk or holds the only reference to an item that is not in the index
    /// yet.
    pub unsafe fn set_client_flags(self, client_flags: u32) -> bool {
        // SAFETY: inside the chunk and aligned. The caller owns the chunk or has its only
        // reference, and before INDEXED is set no other thread can take one (invariant 1).
        unsafe {
            let has_room = self.layout().has_flags();
            if has_room {
                self.chunk.add(16).cast::<u32>().write(client_flags);
            }
            has_room
        }
    }

    /// The time of the last access as an atomic, if the layout has room for one. Unix seconds.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn last_access(self) -> Option<&'a AtomicU32> {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed (invariants 2 and
        // 5). The field is inside the chunk, aligned, and after publication only used atomically.
        unsafe { self.layout().has_tag().then(|| self.chunk.add(20).cast::<AtomicU32>().as_ref()) }
    }

    /// The client's flags; 0 if the layout has no room for them.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn client_flags(self) -> u32 {
        // SAFETY: the caller meets the duties of `key`, so the item is not freed (invariants 2 and
        // 5). The field is inside the chunk, aligned, and never written after publication
        // (invariant 3).
        unsafe { if self.layout().has_flags() { self.chunk.add(16).cast::<u32>().read() } else { 0 } }
    }

    /// The place in a free chunk of the pointer to the next free one.
    ///
    /// # Safety
    /// The chunk is free, and the caller holds the lock of its class.
    #[inline]
    pub(crate) unsafe fn free_link(self) -> NonNull<u32> {
        // SAFETY: inside the chunk, which has at least 64 bytes (invariant 2 of `slab::arena`).
        unsafe { self.chunk.add(4).cast() }
    }

    /// Asks the processor to fetch the chunk's first two cache lines.
    #[inline]
    pub fn prefetch(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch has no effect on memory and never faults; the second line may lie past
        // the chunk.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = self.chunk.as_ptr().cast_const().cast::<i8>();
            _mm_prefetch(at, _MM_HINT_T0);
            _mm_prefetch(at.wrapping_add(64), _MM_HINT_T0);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

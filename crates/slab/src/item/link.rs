//! Chains: items without a key that belong to one with a key.
//!
//! A *link* is an item of layout `Plain` with an empty key, whose value begins with
//!
//! ```text
//! offset  0  next      u32, the pointer of the next link, or NONE
//!         4  parent    u32, the pointer of the item that it is chained to
//!         8  tag       u32, what is the same for all that is ever chained to one key
//!        12  before    u32, the pointer of the link before, or NONE: so that a link is moved or
//!                      replaced without a walk
//!        16  the link's bytes
//! ```
//!
//! and an item that has room for a chain (CHAINED) ends with the pointer of its first link (u32, or
//! NONE) and the number of its links (u32), neither of which is aligned.
//!
//! Invariants:
//! 1. A link has INDEXED if and only if it is in a chain. Both change under the lock that the
//!    chain's tag chooses, and so do `next`, `before`, `parent` and the ends of a chain, once the
//!    link or the item was seen by others.
//! 2. A thread that has unlinked a link or the item of a chain owns it as an item is owned
//!    (invariant 2 of [`super`]).

use std::ptr::NonNull;

use base::sync::atomic::{AtomicU32, Ordering};

use super::{Fields, Item, Layout};
use crate::ptr::ItemPtr;

const NONE: u32 = u32::MAX;
/// The bit of a chain's count that says that the chain is on its way to another item.
const MOVING: u32 = 1 << 31;
/// Bytes before a link's own.
pub const LINK_BYTES: usize = 16;
/// Bytes of the ends of a chain.
pub const CHAIN_BYTES: usize = 8;

/// Bytes of a chunk that a link with `len` bytes of its own needs.
pub const fn link_item_bytes(len: usize) -> usize {
    Layout::Plain.item_bytes(0, LINK_BYTES + len)
}

fn pointer(bits: u32) -> Option<ItemPtr> {
    (bits != NONE).then(|| ItemPtr::from_bits(bits))
}

fn bits(ptr: Option<ItemPtr>) -> u32 {
    ptr.map_or(NONE, ItemPtr::to_bits)
}

impl<'a> Item<'a> {
    /// Writes the header of a link with room for `len` bytes, which is in no chain.
    ///
    /// # Safety
    /// As for [`Self::init`]: the caller owns the chunk, and [`link_item_bytes`] fit into it.
    pub unsafe fn init_link(self, created: u32, tag: u32, len: usize) {
        let fields = Fields { layout: Layout::Plain, created, expiry: 0, cas: 0, client_flags: 0 };
        // SAFETY: the caller owns the chunk, so no other thread uses it (invariant 2 of
        // `slab::item`). The four fields of the link lie in the value, which fits into the chunk.
        unsafe {
            self.init(&fields, b"", LINK_BYTES + len);
            self.set_link(None, None);
            self.set_link_before(None);
            self.link_field(2).store(tag, Ordering::Relaxed);
        }
    }

    /// Returns whether the item is a link.
    ///
    /// # Safety
    /// As for [`Self::key`].
    #[inline]
    pub unsafe fn is_link(self) -> bool {
        // SAFETY: the caller meets the duties of `key`, so the lengths do not change (invariant 3
        // of `slab::item`).
        unsafe { self.lengths() }.0 == 0
    }

    /// Field `number` of a link: next, parent, tag, before.
    ///
    /// # Safety
    /// The item is a link that is initialised, and its chunk stays what it is while the result is
    /// used.
    unsafe fn link_field(self, number: usize) -> &'a AtomicU32 {
        let at = Layout::Plain.header_bytes() + 4 * number;
        // SAFETY: inside the chunk, which has at least 64 bytes (invariant 2 of `slab::arena`); a
        // multiple of 4, and chunks are aligned to 8; and only used as an atomic while others may
        // see the link.
        unsafe { self.chunk.add(at).cast::<AtomicU32>().as_ref() }
    }

    /// The next link and the item that this link is chained to.
    ///
    /// # Safety
    /// As for [`Self::key`], and the item is a link. What comes back means something under the lock
    /// of the chain.
    pub unsafe fn link(self) -> (Option<ItemPtr>, Option<ItemPtr>) {
        // SAFETY: the caller meets the duties of `key`, so the link is not freed (invariants 2 and
        // 5 of `slab::item`), and its fields are only used as atomics.
        let (next, parent) = unsafe { (self.link_field(0), self.link_field(1)) };
        (pointer(next.load(Ordering::Relaxed)), pointer(parent.load(Ordering::Relaxed)))
    }

    /// Changes what [`Self::link`] returns.
    ///
    /// # Safety
    /// As for [`Self::link`], and the caller owns the link or holds the lock of its chain.
    pub unsafe fn set_link(self, next: Option<ItemPtr>, parent: Option<ItemPtr>) {
        // SAFETY: the caller owns the link or holds the lock of its chain, under which alone these
        // fields change (invariant 1); they are used as atomics.
        unsafe {
            self.link_field(0).store(bits(next), Ordering::Relaxed);
            self.link_field(1).store(bits(parent), Ordering::Relaxed);
        }
    }

    /// The link before this one in its chain; `None`: it is the first.
    ///
    /// # Safety
    /// As for [`Self::link`].
    pub unsafe fn link_before(self) -> Option<ItemPtr> {
        // SAFETY: the caller meets the duties of `key`, so the link is not freed (invariants 2 and
        // 5 of `slab::item`), and its fields are only used as atomics.
        pointer(unsafe { self.link_field(3) }.load(Ordering::Relaxed))
    }

    /// Changes what [`Self::link_before`] returns.
    ///
    /// # Safety
    /// As for [`Self::set_link`].
    pub unsafe fn set_link_before(self, before: Option<ItemPtr>) {
        // SAFETY: the caller owns the link or holds the lock of its chain, under which alone
        // `before` changes (invariant 1); it is used as an atomic.
        unsafe { self.link_field(3) }.store(bits(before), Ordering::Relaxed);
    }

    /// The link's tag.
    ///
    /// # Safety
    /// As for [`Self::link`].
    pub unsafe fn link_tag(self) -> u32 {
        // SAFETY: the caller meets the duties of `key`, so the link is not freed (invariants 2 and
        // 5 of `slab::item`), and its fields are only used as atomics.
        unsafe { self.link_field(2) }.load(Ordering::Relaxed)
    }

    /// The link's bytes.
    ///
    /// # Safety
    /// As for [`Self::value`], and the item is a link.
    pub unsafe fn link_value(self) -> &'a [u8] {
        // SAFETY: the caller meets the duties of `value`, so the bytes are neither freed nor
        // written (invariants 2, 3 and 5 of `slab::item`).
        unsafe { self.own_bytes().as_ref() }
    }

    /// The link's bytes, to be written.
    ///
    /// # Safety
    /// As for [`Self::value_mut`], and the item is a link.
    pub unsafe fn link_value_mut(self) -> &'a mut [u8] {
        // SAFETY: the caller meets the duties of `value_mut`: no other thread can take a reference
        // before INDEXED is set (invariant 1 of `slab::item`).
        unsafe { self.own_bytes().as_mut() }
    }

    /// # Safety
    /// As for [`Self::key`], and the item is a link.
    unsafe fn own_bytes(self) -> NonNull<[u8]> {
        // SAFETY: the caller meets the duties of `key`, so the lengths do not change (invariant 3
        // of `slab::item`); they were checked against the chunk when they were written.
        unsafe {
            let len = self.lengths().1 - LINK_BYTES;
            let at = Layout::Plain.header_bytes() + LINK_BYTES;
            NonNull::slice_from_raw_parts(self.chunk.add(at), len)
        }
    }

    /// Gives a freshly initialised item room for a chain, and no links.
    ///
    /// # Safety
    /// The caller owns the chunk, its state word has begun, the item was initialised, and
    /// [`CHAIN_BYTES`] more fit into the chunk.
    pub unsafe fn init_chain(self) {
        self.state().set_chained();
        // SAFETY: the caller owns the item (invariant 2), as `set_chain` requires, and CHAINED was
        // just set.
        unsafe { self.chain_at().cast::<[u32; 2]>().write_unaligned([bits(None), 0]) };
    }

    /// The first link of the chain, and how many links it has.
    ///
    /// # Safety
    /// As for [`Self::key`]; the item has room for a chain, and the caller holds the chain's lock,
    /// or is the only one to know of the item: a link that is moved changes this without a
    /// reference.
    pub unsafe fn chain(self) -> (Option<ItemPtr>, u32) {
        // SAFETY: the two words lie inside the chunk. The caller owns the item or holds the lock
        // under which alone they change (invariant 1).
        unsafe {
            let at = self.chain_at().cast::<[u32; 2]>();
            let [first, count] = at.read_unaligned();
            (pointer(first), count & !MOVING)
        }
    }

    /// Changes what [`Self::chain`] returns. The mark of [`Self::mark_chain`] stays.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn set_chain(self, first: Option<ItemPtr>, count: u32) {
        // SAFETY: the two words lie inside the chunk. The caller owns the item or holds the lock
        // under which alone they change (invariant 1).
        unsafe {
            let at = self.chain_at().cast::<[u32; 2]>();
            let mark = at.read_unaligned()[1] & MOVING;
            at.write_unaligned([bits(first), count | mark]);
        }
    }

    /// Marks the chain as one that is on its way to another item, or removes the mark. If the
    /// process ends before it is removed, the item is not whole.
    ///
    /// # Safety
    /// As for [`Self::chain`].
    pub unsafe fn mark_chain(self, moves: bool) {
        // SAFETY: the two words lie inside the chunk. The caller owns the item or holds the lock
        // under which alone they change (invariant 1).
        unsafe {
            let at = self.chain_at().cast::<[u32; 2]>();
            let [first, count] = at.read_unaligned();
            at.write_unaligned([first, count & !MOVING | if moves { MOVING } else { 0 }]);
        }
    }

    /// Returns whether the chain has that mark.
    ///
    /// # Safety
    /// As for [`Self::chain`].
    pub unsafe fn is_chain_moving(self) -> bool {
        // SAFETY: the two words lie inside the chunk. The caller owns the item or holds the lock
        // under which alone they change (invariant 1).
        unsafe { self.chain_at().cast::<[u32; 2]>().read_unaligned()[1] & MOVING != 0 }
    }

    /// # Safety
    /// As for [`Self::chain`].
    unsafe fn chain_at(self) -> NonNull<u8> {
        // SAFETY: the caller meets the duties of `chain`, so the lengths do not change (invariant 3
        // of `slab::item`), and the item has room for the two words behind its value.
        unsafe {
            let (key_len, value_len, layout) = self.lengths();
            self.chunk.add(layout.item_bytes(key_len, value_len))
        }
    }
}

//! Handles: an item's memory, kept alive and in place.

use std::ops::Deref;
use std::sync::atomic::Ordering;

use slab::{Item, ItemPtr};

use crate::cache::{Core, PoolId};
use crate::config::{Expiry, ItemTag};

/// A reference to an item: its value, without a copy.
///
/// The item is not evicted, moved or reused while the handle lives; it may be replaced or removed meanwhile, and the
/// handle then still shows the old value. At most 32,766 handles of one item may live at once.
pub struct ReadHandle<'c> {
    core: &'c Core,
    item: Item<'c>,
    ptr: ItemPtr,
}

// SAFETY: a handle only reads what is not written while it lives, or uses atomics (invariant 3 of `slab::item`).
unsafe impl Send for ReadHandle<'_> {}
// SAFETY: as above.
unsafe impl Sync for ReadHandle<'_> {}

impl<'c> ReadHandle<'c> {
    /// A handle that takes over one reference, which the caller has.
    #[inline]
    pub(crate) fn adopt(core: &'c Core, ptr: ItemPtr) -> Self {
        Self { core, item: core.arena.item(ptr).0, ptr }
    }

    pub(crate) fn ptr(&self) -> ItemPtr {
        self.ptr
    }

    pub(crate) fn item(&self) -> Item<'c> {
        self.item
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        // SAFETY: the handle holds a reference.
        unsafe { self.item.key() }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        // SAFETY: the handle holds a reference, and the value is not written after publication.
        unsafe { self.item.value() }
    }

    /// When it was made, Unix seconds. Up to a few seconds ahead of the clock right after a flush.
    pub fn created_at(&self) -> u32 {
        // SAFETY: the handle holds a reference.
        unsafe { self.item.created() }
    }

    /// When it expires, Unix seconds; `None` = never.
    pub fn expires_at(&self) -> Option<u32> {
        // SAFETY: the handle holds a reference.
        let time = unsafe { self.item.expiry() }?.load(Ordering::Relaxed);
        (time != 0).then_some(time)
    }

    /// Seconds until it expires, at least 0; `None` = never.
    pub fn ttl_secs_left(&self) -> Option<u32> {
        Some(self.expires_at()?.saturating_sub(self.core.now()))
    }

    /// Changes when it expires, in place. `false`: the item has no room for an expiry time (see
    /// [`crate::ItemOptions::expirable`]); [`crate::Keys::touch`] copies such an item.
    pub fn set_expiry(&self, expiry: Expiry) -> bool {
        // SAFETY: the handle holds a reference.
        match unsafe { self.item.expiry() } {
            Some(field) => {
                field.store(expiry.to_unix_secs(|| self.core.now()), Ordering::Relaxed);
                true
            }
            None => expiry == Expiry::Never,
        }
    }

    /// The tag, if it was made with one.
    #[inline]
    pub fn tag(&self) -> Option<ItemTag> {
        // SAFETY: the handle holds a reference.
        unsafe { Some(ItemTag { cas: self.item.cas()?, client_flags: self.item.client_flags() }) }
    }

    /// When it was last found, Unix seconds, for items with a tag: the time of its making if it never was.
    pub fn last_access(&self) -> Option<u32> {
        // SAFETY: the handle holds a reference.
        unsafe { self.item.last_access() }.map(|time| time.load(Ordering::Relaxed))
    }

    /// Sets the time of the last access to now, for items with a tag, and returns what it was.
    pub fn note_access(&self) -> Option<u32> {
        // SAFETY: the handle holds a reference.
        let field = unsafe { self.item.last_access() }?;
        let (before, now) = (field.load(Ordering::Relaxed), self.core.now());
        if before != now {
            field.store(now, Ordering::Relaxed);
        }
        Some(before)
    }

    /// Whether it was found before (by [`crate::Keys::find`]; a find sees its own access).
    pub fn was_fetched(&self) -> bool {
        self.item.state().is_fetched()
    }

    /// Whether it still is the item of its key.
    pub fn is_current(&self) -> bool {
        self.item.state().is_indexed()
    }

    /// The item's two user bits, which all its holders share.
    pub fn user_bits(&self) -> u8 {
        self.item.state().user_bits()
    }

    /// Sets user bits atomically and returns what they were.
    pub fn set_user_bits(&self, bits: u8) -> u8 {
        self.item.state().set_user_bits(bits)
    }

    /// Clears user bits atomically and returns what they were.
    pub fn clear_user_bits(&self, bits: u8) -> u8 {
        self.item.state().clear_user_bits(bits)
    }

    /// The pool that it is in.
    pub fn pool(&self) -> PoolId {
        PoolId(self.core.arena.info(self.ptr.slab()).pool)
    }

    /// Bytes that header, key and value take.
    pub fn size_bytes(&self) -> usize {
        // SAFETY: the handle holds a reference.
        unsafe { self.item.used_bytes() }
    }
}

impl Deref for ReadHandle<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.value()
    }
}

impl Clone for ReadHandle<'_> {
    fn clone(&self) -> Self {
        self.item.state().duplicate();
        Self { core: self.core, item: self.item, ptr: self.ptr }
    }
}

impl Drop for ReadHandle<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.item.state().release() {
            self.core.free(self.ptr);
        }
    }
}

impl std::fmt::Debug for ReadHandle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadHandle")
            .field("key", &self.key().escape_ascii().to_string())
            .field("value_len", &self.value().len())
            .finish()
    }
}

/// An item that is being made: nobody sees it until it is inserted. Dropping it frees it.
pub struct WriteHandle<'c> {
    core: &'c Core,
    item: Item<'c>,
    ptr: ItemPtr,
    hash: u64,
}

// SAFETY: the handle holds the only reference to an item that is not in the index.
unsafe impl Send for WriteHandle<'_> {}
// SAFETY: shared access only reads.
unsafe impl Sync for WriteHandle<'_> {}

impl<'c> WriteHandle<'c> {
    /// A handle of a freshly initialised chunk with its first reference.
    pub(crate) fn new(core: &'c Core, ptr: ItemPtr, hash: u64) -> Self {
        Self { core, item: core.arena.item(ptr).0, ptr, hash }
    }

    pub(crate) fn ptr(&self) -> ItemPtr {
        self.ptr
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn core(&self) -> &'c Core {
        self.core
    }

    /// Turns into a handle for reading; the item is in the index now.
    pub(crate) fn into_read(self) -> ReadHandle<'c> {
        let this = std::mem::ManuallyDrop::new(self);
        ReadHandle { core: this.core, item: this.item, ptr: this.ptr }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        // SAFETY: the handle holds the only reference.
        unsafe { self.item.key() }
    }

    /// The value as written so far. What was not written yet is arbitrary, and may be what another item left.
    pub fn value(&self) -> &[u8] {
        // SAFETY: the handle holds the only reference, and `&self` keeps `value_mut` away.
        unsafe { self.item.value() }
    }

    /// The value, to be written. All of it should be: what is not keeps what another item left there.
    #[inline]
    pub fn value_mut(&mut self) -> &mut [u8] {
        // SAFETY: the handle holds the only reference to an item that is not in the index, and `&mut self` keeps
        // other views away.
        unsafe { self.item.value_mut() }
    }

    /// Sets the CAS token of an item with a tag. `false`: it has none.
    pub fn set_cas(&mut self, cas: u64) -> bool {
        // SAFETY: as for `value_mut`; the layout is checked first.
        unsafe {
            let tagged = self.item.layout().has_tag();
            if tagged {
                self.item.set_cas(cas);
            }
            tagged
        }
    }

    /// Sets user bits.
    pub fn set_user_bits(&mut self, bits: u8) {
        self.item.state().set_user_bits(bits);
    }

    /// The pool that it was allocated in.
    pub fn pool(&self) -> PoolId {
        PoolId(self.core.arena.info(self.ptr.slab()).pool)
    }
}

impl Drop for WriteHandle<'_> {
    fn drop(&mut self) {
        self.core.release(self.ptr);
    }
}

impl std::fmt::Debug for WriteHandle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteHandle")
            .field("key", &self.key().escape_ascii().to_string())
            .field("value_len", &self.value().len())
            .finish()
    }
}

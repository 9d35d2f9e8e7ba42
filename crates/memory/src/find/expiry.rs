//! Tests of an item: that it has expired, was flushed, or is that of a key.

use std::sync::atomic::Ordering;

use slab::{Item, ItemPtr};

use crate::cache::Core;
use crate::keyspace::Keyspace;
use crate::lifecycle::RemovalCause;

impl Core {
    /// Returns whether an item has expired or was flushed.
    ///
    /// # Safety
    /// As for [`Item::key`].
    #[inline]
    pub(crate) unsafe fn is_dead(&self, item: Item<'_>, space: &Keyspace) -> bool {
        // SAFETY: the caller meets the duties of `key`, so that the item is not freed (invariants 2
        // and 5 of `slab::item`).
        unsafe { (item.expiry().is_some() || space.may_be_flushed()) && self.is_over(item, space) }
    }

    /// [`Self::is_dead`], for items that are likely to have an expiry time or to have been flushed.
    ///
    /// # Safety
    /// As for [`Item::key`].
    #[inline(never)]
    pub(crate) unsafe fn is_over(&self, item: Item<'_>, space: &Keyspace) -> bool {
        // SAFETY: the caller meets the duties of `key`, so that the item is not freed (invariants 2
        // and 5 of `slab::item`); the expiry time is an atomic, and the creation time is not
        // written after publication (invariant 3).
        let (expiry, created) = unsafe { (item.expiry(), item.created()) };
        let expiry = expiry.map_or(0, |time| time.load(Ordering::Relaxed));
        (expiry != 0 && self.now() >= expiry) || space.is_flushed(created, || self.now())
    }

    /// Returns the cause for which an item ends that leaves for `cause`: one that is evicted when
    /// it was over has expired.
    ///
    /// # Safety
    /// As for [`Item::key`].
    #[inline]
    pub(crate) unsafe fn cause_of_end(
        &self,
        cause: RemovalCause,
        item: Item<'_>,
        space: &Keyspace,
    ) -> RemovalCause {
        // SAFETY: the caller meets the duties of `key`, so that the item is not freed (invariants 2
        // and 5 of `slab::item`).
        let is_over = cause == RemovalCause::Evicted && unsafe { self.is_dead(item, space) };
        if is_over { RemovalCause::Expired } else { cause }
    }

    /// Returns whether `ptr`, found in a locked bucket of the index, is the item of `key`.
    #[inline]
    pub(crate) fn is_item_of(&self, ptr: ItemPtr, keyspace: u16, key: &[u8]) -> bool {
        self.arena.item(ptr).0.state().is_indexed() && self.has_key_of(ptr, keyspace, key)
    }

    /// Returns whether `ptr`, found in a locked bucket of the index, is the item of `key` or was,
    /// and is being evicted.
    #[inline]
    pub(crate) fn has_key_of(&self, ptr: ItemPtr, keyspace: u16, key: &[u8]) -> bool {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the bucket that points to the item is locked, so its chunk is not reused
        // (invariant 2 of `Index`).
        info.keyspace == keyspace && unsafe { item.has_key(key) }
    }
}

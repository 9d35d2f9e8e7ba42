//! The end of an evicted item: it is unlinked, and handed down if something is beneath memory.

use index::BucketGuard;
use slab::{Item, ItemPtr};

use crate::cache::Core;
use crate::class::fingerprint;
use crate::lifecycle::{RemovalCause, SecondaryKey, told};

impl Core {
    /// Erases what is beneath of a key that is being written, and what is on its way there: the
    /// slots of its items that were claimed for eviction. `guard` is the bucket of the key, in
    /// which `new` is the item that was just stored, if one was.
    #[inline]
    pub(crate) fn erase_lower(
        &self,
        guard: &mut BucketGuard<'_>,
        new: Option<ItemPtr>,
        (space, hash, bytes): (u16, u64, &[u8]),
    ) {
        let Some(lower) = self.lower_tier.get() else { return };
        let is_leaving = |ptr: ItemPtr| new != Some(ptr) && self.has_key_of(ptr, space, bytes);
        // Whoever evicts one finds no slot then, and does not hand it down.
        while let Some(slot) = guard.find(is_leaving) {
            guard.clear(slot);
        }
        // If it panics, the write still has to be finished.
        told(|| lower.erase(SecondaryKey { space, hash, bytes }));
    }

    /// Returns whether the item is one of a key that is kept, and so is not to be evicted.
    ///
    /// # Safety
    /// As for [`Self::hash_of_item`].
    #[inline]
    pub(crate) unsafe fn is_kept(&self, ptr: ItemPtr) -> bool {
        let Some(lower) = self.lower_tier.get() else { return false };
        // SAFETY: the caller meets the duties of `key`, so that the item is not freed (invariants 2
        // and 5 of `slab::item`).
        lower.keeps(fingerprint(unsafe { self.hash_of_item(ptr) }))
    }

    /// The same of the item that a link with this tag is chained to.
    pub(crate) fn is_kept_by_tag(&self, tag: u32) -> bool {
        self.lower_tier.get().is_some_and(|lower| lower.keeps(tag))
    }

    /// Unlinks an item that this thread has claimed, with a reference. Returns true if its key
    /// keeps its value: the secondary cache admitted the item (one that is evicted and has not
    /// expired), or a write has replaced the item since it was claimed.
    pub(super) fn depart(&self, ptr: ItemPtr, cause: RemovalCause) -> bool {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: this thread holds a reference (invariant 5 of `slab::item`).
        let (hash, key, cause) = unsafe {
            let cause = self.cause_of_end(cause, item, self.keyspace(info.keyspace));
            (self.hash_of_item(ptr), item.key(), cause)
        };
        let Some(lower) = self.lower_tier.get().filter(|_| cause == RemovalCause::Evicted) else {
            self.index.remove(hash, ptr);
            return false;
        };
        let key = SecondaryKey { space: info.keyspace, hash, bytes: key };
        let mut guard = self.index.lock(hash);
        // Without a slot it was written meanwhile, and is out of date.
        let Some(slot) = guard.find(|candidate| candidate == ptr) else { return true };
        // In one hold with the slot (invariant 1 of `secondary`).
        let ticket = has_image(item).then(|| told(|| lower.admit(key)).flatten()).flatten();
        guard.clear(slot);
        drop(guard);
        if let Some(ticket) = ticket {
            // SAFETY: this thread holds a reference (invariant 5 of `slab::item`).
            let departed = unsafe { self.departed(ptr) };
            told(|| lower.insert(key, ticket, departed));
        }
        ticket.is_some()
    }
}

/// Returns whether there are copies of such an item: not of one with links that were chained to it
/// one by one ([`crate::WriteHandle::push_link`]). The caller holds a reference.
pub(crate) fn has_image(item: Item<'_>) -> bool {
    // SAFETY: the caller holds a reference (invariant 5 of `slab::item`).
    !item.state().is_chained() || unsafe { item.is_long() }
}

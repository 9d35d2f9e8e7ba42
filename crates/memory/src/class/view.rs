//! The view that a policy has of a class: its items by their chunks' numbers.

use std::cell::Cell;

use base::hash::key_hash;
use evict::{Claim, Entry, Items};
use slab::{ChunkNumber, Chunks, Item, ItemPtr};

use super::fingerprint;
use crate::cache::Core;
use crate::lifecycle::Hooks;

/// A policy's view of the items of a class whose lock is held.
pub(crate) struct View<'a> {
    core: &'a Core,
    pub(crate) chunks: &'a Chunks,
    /// Seed of the key hash in this key space.
    seed: u64,
    /// The lifecycle hooks, which may keep items from being evicted.
    hooks: Option<&'a Hooks>,
    /// The item whose fingerprint was last asked for.
    asked: Cell<Option<Keyed>>,
}

/// An item with the hash of its key, under which the index has it. Only the hash of that very item
/// is ever put beside its pointer, so that no item is unlinked under the hash of another.
#[derive(Clone, Copy)]
pub(crate) struct Keyed {
    ptr: ItemPtr,
    hash: u64,
}

impl Keyed {
    /// # Safety
    /// As for [`Core::hash_of_item`]; and as long as the result is used, the chunk holds no other
    /// item.
    pub(crate) unsafe fn of(core: &Core, ptr: ItemPtr) -> Self {
        // SAFETY: the caller meets the duties of `hash_of_item`, so that the item is not freed
        // (invariants 2 and 5 of `slab::item`).
        Self { ptr, hash: unsafe { core.hash_of_item(ptr) } }
    }

    pub(crate) fn ptr(self) -> ItemPtr {
        self.ptr
    }

    pub(crate) fn hash(self) -> u64 {
        self.hash
    }
}

impl<'a> View<'a> {
    /// One for what neither asks for fingerprints nor evicts.
    pub(crate) fn new(core: &'a Core, chunks: &'a Chunks) -> Self {
        Self::with_seed(core, chunks, 0)
    }

    pub(crate) fn with_seed(core: &'a Core, chunks: &'a Chunks, seed: u64) -> Self {
        Self { core, chunks, seed, hooks: None, asked: Cell::new(None) }
    }

    /// Asks before an item is claimed.
    pub(crate) fn asking(self, hooks: Option<&'a Hooks>) -> Self {
        Self { hooks, ..self }
    }

    /// An item that was claimed through this view, with its hash: that which the policy has asked
    /// for, if it asked for this item last.
    ///
    /// # Safety
    /// The item in the chunk was claimed through this view, and is not a link.
    pub(crate) unsafe fn keyed(&self, ptr: ItemPtr) -> Keyed {
        // SAFETY: the claim makes the chunk the caller's (invariant 2 of `slab::item`), which uses
        // it for nothing else for as long as the view is there.
        self.asked
            .take()
            .filter(|asked| asked.ptr == ptr)
            .unwrap_or_else(|| unsafe { Keyed::of(self.core, ptr) })
    }

    #[inline]
    fn resolve(&self, entry: Entry) -> Option<(ItemPtr, Item<'a>)> {
        self.chunks.resolve(&self.core.arena, ChunkNumber(entry.0))
    }
}

impl Items for View<'_> {
    #[inline]
    fn bits(&self, entry: Entry) -> Option<u8> {
        let (_, item) = self.resolve(entry)?;
        item.state().is_queued().then(|| item.state().policy())
    }

    #[inline]
    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        if let Some((_, item)) = self.resolve(entry) {
            item.state().set_policy(mask, value);
        }
    }

    #[inline]
    fn claim(&self, entry: Entry) -> Claim {
        let Some((ptr, item)) = self.resolve(entry) else { return Claim::Gone };
        // SAFETY: the policy has seen the item queued, and this thread holds the lock of the class
        // since then: the chunk is not used again meanwhile (invariant 5 of `magazine`).
        let claimed = unsafe {
            if item.is_link() {
                let claimed = self.core.claim_by_link(item, self.hooks);
                if claimed == slab::item::Claim::Taken {
                    item.state().dequeue();
                }
                claimed
            } else if self.core.may_evict(self.hooks, ptr) {
                item.state().claim()
            } else {
                slab::item::Claim::Held
            }
        };
        match claimed {
            slab::item::Claim::Taken => Claim::Taken,
            slab::item::Claim::Held => Claim::Held,
            slab::item::Claim::Gone => {
                // Whoever removed it finds that it is not queued any more.
                item.state().dequeue();
                Claim::Gone
            }
        }
    }

    #[inline]
    fn fingerprint(&self, entry: Entry) -> u32 {
        let Some((ptr, item)) = self.resolve(entry) else { return 0 };
        // SAFETY: the policy has seen the item queued or has just claimed it, and this thread holds
        // the lock of the class since then: the chunk is not used again meanwhile (invariant 5 of
        // `magazine`).
        unsafe {
            if item.is_link() {
                return item.link_tag();
            }
            let hash = key_hash(self.seed, item.key());
            self.asked.set(Some(Keyed { ptr, hash }));
            fingerprint(hash)
        }
    }

    #[inline]
    fn prefetch(&self, entry: Entry) {
        if let Some(ptr) = self.chunks.locate(ChunkNumber(entry.0)) {
            self.core.arena.item(ptr).0.prefetch();
        }
    }
}

//! Moving items out of a slab that leaves, while everybody reads.
//!
//! An item that nobody holds is copied to another chunk of its class and the index is pointed there, under the lock of
//! its bucket. A reader that comes upon the old chunk meanwhile finds it gone and the bucket locked, and looks again; one
//! that already reads it in place goes on, as the old chunk is not written to before nobody does. Nobody ever misses it.
//!
//! The chunks come from the class itself: free ones, or those of the items that would be evicted next. So what a slab
//! less costs is what the class values least, and not what happened to lie in the slab.

use std::sync::atomic::Ordering;

use slab::item::Acquired;
use slab::{ItemPtr, SlabId};

use crate::cache::Core;
use crate::class::{Class, MOVED};
use crate::pool::Pool;

impl Core {
    /// Moves the items of a slab that leaves to other chunks of its class, until there are no more of those.
    pub(crate) fn move_items(&self, pool: &Pool, class: &Class, slab: SlabId) {
        // From here on no magazine gives out chunks of the slab.
        self.empty_magazines(class);
        let (mut moved, mut spare) = (Vec::new(), None);
        for number in 0..class.info.chunks_per_slab() {
            let from = ItemPtr::new(slab, number as u16);
            if !self.arena.item(from).0.state().is_indexed() {
                continue;
            }
            let Some(to) = spare.take().or_else(|| self.take_from_class(pool, class)) else { break };
            if self.relocate(class, from, to) {
                class.counters.add(MOVED, 1);
                moved.push(from);
            } else {
                spare = Some(to);
            }
            if moved.len() == MOST_WAITING {
                self.free_evicted(class, std::mem::take(&mut moved));
            }
        }
        self.free_evicted(class, moved);
        if let Some(spare) = spare {
            self.free_chunk(class, spare);
        }
    }

    /// Moves the item at `from`, if there is one that nobody holds, to `to`, which the caller owns. The caller owns `from`
    /// then, which others may still read.
    fn relocate(&self, class: &Class, from: ItemPtr, to: ItemPtr) -> bool {
        debug_assert_ne!(from.slab(), to.slab(), "a slab that leaves gives out no chunks");
        let (item, target) = (self.arena.item(from).0, self.arena.item(to).0);
        if item.state().acquire() != Acquired::Yes {
            return false;
        }
        // SAFETY: this thread holds a reference.
        let (is_link, hash) = unsafe {
            let is_link = item.is_link();
            (is_link, if is_link { 0 } else { self.hash_of_item(from) })
        };
        self.release(from);
        if is_link {
            let moved = self.relocate_link(class, from, to);
            if let Some((bits, tag)) = moved {
                self.queue_again(class, to, bits, u64::from(tag) << 16);
                self.release(to);
            }
            return moved.is_some();
        }
        let mut guard = self.index.lock(hash);
        let Some(slot) = guard.find(|ptr| ptr == from) else { return false };
        // SAFETY: the bucket that points to the chunk is locked. The chunk may hold another item by now, of another home.
        if unsafe { self.hash_of_item(from) } != hash {
            return false;
        }
        let mut inner = class.inner.lock();
        // Whoever comes by one of its links finds the item here or there.
        let chain = item.state().is_chained().then(|| self.lock_chain_of(hash));
        let Ok(bits) = inner.claim(self, from) else { return false };
        drop(inner);
        // SAFETY: this thread has claimed the one, was given the other, and both are of one class.
        unsafe { item.copy_to(target) };
        target.state().publish();
        guard.exchange(slot, to);
        if chain.is_some() {
            // SAFETY: the chain's lock is held, and this thread owns the item.
            unsafe { self.follow(to) };
        }
        drop((chain, guard));
        self.queue_again(class, to, bits, hash);
        self.release(to);
        true
    }

    /// Queues an item that was queued before with these policy bits. The caller holds a reference.
    fn queue_again(&self, class: &Class, ptr: ItemPtr, bits: u8, hash: u64) {
        let mut inner = class.inner.lock();
        if let Some(entry) = inner.queue_again(self, ptr, bits, hash, self.now()) {
            // SAFETY: the caller holds a reference.
            let expiry =
                unsafe { self.arena.item(ptr).0.expiry() }.map_or(0, |at| at.load(Ordering::Relaxed));
            self.put_in_wheel(&mut inner, entry, expiry);
        }
    }
}

/// Chunks that were moved out of and wait to be freed together.
const MOST_WAITING: usize = 64;

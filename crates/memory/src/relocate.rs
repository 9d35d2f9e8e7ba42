//! Moving items out of a slab that leaves, while everybody reads.
//!
//! An item that nobody holds is copied to another chunk of its class and the index is pointed
//! there, under the lock of its bucket. A reader that comes upon the old chunk meanwhile finds it
//! gone and the bucket locked, and looks again; one that already reads it in place goes on, as the
//! old chunk is not written to before nobody does. Nobody ever misses it.
//!
//! The chunks come from the class itself: free ones, or those of the items that would be evicted
//! next. So what a slab less costs is what the class values least, and not what happened to lie in
//! the slab. The items of a class that the pool allocates from no more ([`crate::tune`]) go to the
//! class that fits them now: to its free chunks, or to a new slab of it; where there is none,
//! within their class as long as it has other slabs; and at last to the place of what that other
//! class values least.

use std::sync::atomic::Ordering;

use slab::item::Acquired;
use slab::{ItemPtr, Run};

use crate::cache::Core;
use crate::class::{BYTES_IN, BYTES_OUT, Class, LINKS_IN, LINKS_OUT, MOVED, MOVED_IN, MOVED_OUT};
use crate::handle::ReadHandle;
use crate::plant::Plant;
use crate::pool::Pool;

impl Core {
    /// Moves the items of a run that leaves, which are in its first `used` chunks, to other chunks,
    /// until there are no more of those.
    pub(crate) fn move_items(&self, pool: &Pool, class: &Class, run: Run, used: u32) {
        // From here on no magazine gives out chunks of the run.
        self.empty_magazines(class);
        if pool.is_class_leaving(class.info.class) {
            return self.move_to_others(pool, class, run, used);
        }
        let (mut moved, mut spare) = (Vec::new(), None);
        for from in (0..used).map(|number| run.chunk(number)) {
            if !self.arena.item(from).0.state().is_indexed() {
                continue;
            }
            let Some(to) = spare.take().or_else(|| self.take_from_class(pool, class)) else { break };
            if self.relocate(class, from, to) {
                self.check_unlinked(from);
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

    /// Moves the items of a run that leaves to the classes that fit them now.
    fn move_to_others<'p>(&self, pool: &'p Pool, class: &'p Class, run: Run, used: u32) {
        let sizes = pool.sizes();
        let has_others = class.inner.lock().chunks.run_count() > 1;
        let mut moved = Vec::new();
        // A search that finds nothing may look at many items: a few of each class are enough, as
        // items that find no place are evicted.
        let mut vain: Vec<&Class> = Vec::new();
        let mut search = |class: &'p Class| {
            if vain.iter().filter(|known| std::ptr::eq(**known, class)).count() >= MOST_VAIN_SEARCHES {
                return None;
            }
            let found = self.take_from_class(pool, class);
            if found.is_none() {
                vain.push(class);
            }
            found
        };
        for from in (0..used).map(|number| run.chunk(number)) {
            let Some((held, bytes)) = self.hold_with_size(from) else { continue };
            drop(held);
            let Some(place) = sizes.place_for(bytes) else { continue };
            let fitting = self.class_at(pool, sizes, place);
            let to = self.take_spare(pool, fitting);
            let to = to.or_else(|| has_others.then(|| search(class)).flatten());
            let Some(to) = to.or_else(|| search(fitting)) else { continue };
            if self.relocate(class, from, to) {
                self.check_unlinked(from);
                moved.push(from);
            } else {
                // SAFETY: this thread owns the chunk, so that its pool and class are there
                // (invariants 1 and 2 of `pools`).
                self.free_chunk(unsafe { self.class_of(self.arena.item(to).1) }, to);
            }
            if moved.len() == MOST_WAITING {
                self.free_evicted(class, std::mem::take(&mut moved));
            }
        }
        self.free_evicted(class, moved);
    }

    /// A handle of the item or link at `ptr`, if there is one, and the bytes that it takes.
    pub(crate) fn hold_with_size(&self, ptr: ItemPtr) -> Option<(ReadHandle<'_>, usize)> {
        let item = self.arena.item(ptr).0;
        if item.state().acquire() != Acquired::Yes {
            return None;
        }
        let handle = ReadHandle::adopt(self, ptr);
        // SAFETY: the handle holds a reference (invariant 2 of `handle`).
        let bytes = unsafe { item.used_bytes() };
        Some((handle, bytes))
    }

    /// A chunk of the class that is free, or one of a new slab: nothing is evicted.
    fn take_spare(&self, pool: &Pool, class: &Class) -> Option<ItemPtr> {
        let mut inner = class.inner.lock();
        inner.chunks.pop(&self.arena).or_else(|| {
            let is_added = self.add_run(pool, class, &mut inner);
            is_added.then(|| inner.chunks.pop(&self.arena)).flatten()
        })
    }

    /// Moves the item at `from`, if there is one that nobody holds, to `to`, which the caller owns,
    /// in the same class or another of the pool. The caller owns `from` then, which others may
    /// still read.
    fn relocate(&self, class: &Class, from: ItemPtr, to: ItemPtr) -> bool {
        let (item, (target, target_info)) = (self.arena.item(from).0, self.arena.item(to));
        if item.state().acquire() != Acquired::Yes {
            return false;
        }
        // SAFETY: this thread holds a reference, so that the item is not freed (invariant 2 of
        // `slab::item`).
        let (is_link, hash) = unsafe {
            let is_link = item.is_link();
            (is_link, if is_link { 0 } else { self.hash_of_item(from) })
        };
        self.release(from);
        if is_link {
            let moved = self.relocate_link(class, from, to);
            if let Some((bits, tag)) = moved {
                self.end_relocation(class, (from, to), bits, u64::from(tag) << 16);
            }
            return moved.is_some();
        }
        let mut guard = self.index.lock(hash);
        let Some(slot) = guard.find(|ptr| ptr == from) else { return false };
        // SAFETY: the bucket that points to the chunk is locked, so that the chunk is not freed
        // (invariant 2 of `Index`). It may already hold another item, of another home.
        if unsafe { self.hash_of_item(from) } != hash {
            return false;
        }
        // SAFETY: the bucket is locked, so that the chunk is not freed (invariant 2 of `Index`). It
        // may also hold another item of the same key.
        if unsafe { item.used_bytes() } > target_info.chunk_bytes as usize {
            return false;
        }
        let mut inner = class.inner.lock();
        // Whoever comes by one of its links finds the item here or there.
        let chain = item.state().is_chained().then(|| self.lock_chain_of(hash));
        // SAFETY: the chain's lock is held, under which alone the ends of the chain change
        // (invariant 1 of `chain`), and the item is in the index, as its bucket says.
        if chain.is_some() && !unsafe { self.is_movable(from) } {
            return false;
        }
        let Ok(bits) = inner.claim(self, from) else { return false };
        drop(inner);
        // SAFETY: this thread has claimed the item, and so owns both chunks (invariant 2 of
        // `slab::item`). The item fits into both.
        unsafe { item.copy_to(target) };
        target.state().publish();
        if !self.strikes(Plant::MovedStays) {
            guard.exchange(slot, to);
        }
        if chain.is_some() {
            // SAFETY: this thread owns the item, and holds the lock under which alone the chain
            // changes (invariant 1 of `chain`).
            unsafe { self.follow(to) };
        }
        drop((chain, guard));
        self.end_relocation(class, (from, to), bits, hash);
        true
    }

    /// Counts and queues an item that was moved, and gives the reference to the copy back. The
    /// caller owns the chunk that it was in.
    fn end_relocation(&self, class: &Class, (from, to): (ItemPtr, ItemPtr), bits: u8, hash: u64) {
        class.counters.add(MOVED, 1);
        let (item, (copy, target_info)) = (self.arena.item(from).0, self.arena.item(to));
        // SAFETY: this thread has a reference to the copy, so that the copy's pool and class are
        // there (invariants 1 and 2 of `pools`).
        let target = unsafe { self.class_of(target_info) };
        if target_info.class != class.info.class {
            // SAFETY: this thread has a reference to the copy and owns the item (invariant 2 of
            // `slab::item`). A tail is as long as its chunk allows.
            let (is_link, taken, left) =
                unsafe { (copy.is_link(), copy.used_bytes() as u64, item.used_bytes() as u64) };
            let (came, went) = if is_link { (LINKS_IN, LINKS_OUT) } else { (MOVED_IN, MOVED_OUT) };
            for (class, count, bytes_count, bytes) in
                [(target, came, BYTES_IN, taken), (class, went, BYTES_OUT, left)]
            {
                class.counters.add(count, 1);
                class.counters.add(bytes_count, bytes);
            }
        }
        self.queue_again(target, to, bits, hash);
        self.note_come(copy, target_info);
        self.release(to);
    }

    /// Queues an item that was queued before with these policy bits. The caller holds a reference.
    fn queue_again(&self, class: &Class, ptr: ItemPtr, bits: u8, hash: u64) {
        let mut inner = class.inner.lock();
        if let Some(entry) = inner.queue_again(self, ptr, bits, hash, self.now()) {
            // SAFETY: the caller holds a reference, so that the item is not freed (invariant 2 of
            // `slab::item`).
            let expiry =
                unsafe { self.arena.item(ptr).0.expiry() }.map_or(0, |at| at.load(Ordering::Relaxed));
            self.put_in_wheel(class, &mut inner, entry, expiry);
        }
    }
}

/// Chunks that were moved out of and wait to be freed together.
const MOST_WAITING: usize = 64;
/// Searches of a class that find no chunk, for items of one run, before it is not searched again.
const MOST_VAIN_SEARCHES: usize = 4;

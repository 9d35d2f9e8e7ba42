//! Filling of magazines: with chunks that were freed before, with free ones, and by eviction.
//!
//! The invariants are those of [`super`].

use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use slab::{ChunkNumber, ItemPtr};

use super::{LOOK_EACH, Magazine};
use crate::cache::Core;
use crate::class::{Class, Inner, View};
use crate::lifecycle::RemovalCause;
use crate::pool::Pool;

/// Entries at which a batch of evictions looks under one hold of the class's lock; the last
/// eviction may add what one takes ([`evict::MAX_SCANNED`]). A batch stays smaller where much has
/// to be looked at for each.
const LOOKS_PER_BATCH: u32 = 2_048;
/// Number of times that eviction is tried if what was evicted turns out to be read.
const ATTEMPTS: u32 = 4;
/// Number of times that a policy is asked to evict in a pool whose [`crate::Lifecycle`] may object,
/// if it finds nothing. Each time it tries [`evict::MAX_HELD_TRIES`] items and more.
const ROUNDS_ASKING: u32 = 64;

impl Core {
    /// A free chunk of the class, one of a new slab, or that of an evicted item.
    pub(crate) fn take_from_class(&self, pool: &Pool, class: &Class) -> Option<ItemPtr> {
        for _ in 0..ATTEMPTS {
            let mut magazine = class.magazines.mine(class).lock();
            let mut ptr = magazine.ready.pop();
            match ptr {
                Some(_) => self.fill_ahead(pool, class, &mut magazine),
                None => {
                    self.fill(pool, class, &mut magazine);
                    ptr = magazine.ready.pop();
                }
            }
            if magazine.ending.is_empty() {
                return ptr;
            }
            let ending = std::mem::take(&mut magazine.ending);
            drop(magazine);
            // Their chunks, and those of their links, go to magazines like this one.
            ending.into_iter().for_each(|ptr| self.unlink_held(ptr, RemovalCause::Evicted));
            if ptr.is_some() {
                return ptr;
            }
        }
        None
    }

    /// Gets a batch of chunks ready, if there are any to be had.
    fn fill(&self, pool: &Pool, class: &Class, magazine: &mut Magazine) {
        for attempt in 0..ATTEMPTS {
            self.take_clear(class, magazine);
            if !magazine.ready.is_empty() {
                return;
            }
            if attempt > 0 || class.retired.count() < class.retired.target() {
                // Others have the lock between two turns of what has to drop many stale entries.
                while self.gather(pool, class, class.inner.lock(), magazine, attempt > 0) {}
            }
            if !magazine.ready.is_empty() || class.retired.count() == 0 {
                return;
            }
            class.retired.scan_if_empty(&self.pins);
        }
        self.take_clear(class, magazine);
    }

    /// Brings the retire list up to what it should be, at a moment when no other thread is at the
    /// class: looks for that now and then, once half of what is ready is used up.
    fn fill_ahead(&self, pool: &Pool, class: &Class, magazine: &mut Magazine) {
        let (batch, left) = (class.batch() as usize, magazine.ready.len());
        // A chunk ahead is a large part of a class that has few.
        if batch == 1
            || left * 2 > batch
            || !left.is_multiple_of(LOOK_EACH)
            || class.retired.count() >= class.retired.target()
        {
            return;
        }
        if let Some(inner) = class.inner.try_lock() {
            self.gather(pool, class, inner, magazine, false);
        }
    }

    /// Takes a batch of clear chunks from the retire list.
    fn take_clear(&self, class: &Class, magazine: &mut Magazine) {
        class.retired.take(class.batch() as usize, &mut magazine.ready);
        if let Some(leaving) = class.leaving_run() {
            for ptr in magazine.ready.extract_if(.., |ptr| leaving.has(*ptr)) {
                class.inner.lock().free(self, ptr);
            }
        }
        if class.retired.is_low() {
            class.retired.scan_ahead(&self.pins);
        }
    }

    /// Brings the queue up to date, and takes a batch of chunks: free ones and those of a new slab,
    /// to be ready; or those of evicted items, for the retire list, as many as it lacks; or one
    /// more than that, if the caller `insists` because all that it has is still read. Returns
    /// whether it got none because it came upon stale entries alone, and has to go on.
    fn gather(
        &self,
        pool: &Pool,
        class: &Class,
        mut inner: MutexGuard<'_, Inner>,
        magazine: &mut Magazine,
        insists: bool,
    ) -> bool {
        let (batch, left) = (class.batch() as usize, magazine.ready.len());
        self.fold(class, &mut inner, magazine);
        if batch > 1 {
            self.take_common(class, &mut inner, magazine);
        }
        self.pop_free(&mut inner, magazine, batch);
        let lacking = class.retired.target().saturating_sub(class.retired.count() + magazine.freed.len());
        let wanted = lacking.max(usize::from(insists)).min(batch);
        let mut goes_on = false;
        if magazine.ready.len() == left && wanted > 0 {
            if self.add_run(pool, class, &mut inner) {
                self.pop_free(&mut inner, magazine, batch);
            } else {
                let could_have_more = self.has_vacant() || self.could_have_more(pool, &inner);
                class.is_starved.store(could_have_more, Ordering::Relaxed);
                goes_on = self.evict(class, &mut inner, magazine, wanted);
            }
        }
        if inner.chunks.free_chunks() == 0 {
            inner.filling = 0;
            if self.has_vacant() {
                class.is_used_up.store(true, Ordering::Relaxed);
            }
        }
        class.note_vacant(self, &inner);
        inner.settle(self);
        drop(inner);
        class.upkeep.note_work();
        self.unlink_evicted(class, magazine);
        class.retired.append(&self.pins, &mut magazine.freed);
        magazine.settle(&self.ledger);
        goes_on
    }

    /// Takes over the chunks that were left in the common magazine when the class got more chunks,
    /// which no thread would look at again. Does not wait for the magazine, whose place is before
    /// the class's lock.
    fn take_common(&self, class: &Class, inner: &mut Inner, magazine: &mut Magazine) {
        let Some(mut common) = class.magazines.common.try_lock() else { return };
        self.fold(class, inner, &mut common);
        magazine.ready.append(&mut common.ready);
        magazine.freed.append(&mut common.freed);
        magazine.evicted.append(&mut common.evicted);
        magazine.ending.append(&mut common.ending);
    }

    fn pop_free(&self, inner: &mut Inner, magazine: &mut Magazine, batch: usize) {
        while magazine.ready.len() < batch
            && let Some(ptr) = inner.chunks.pop(&self.arena)
        {
            magazine.ready.push(ptr);
        }
    }

    /// Evicts up to `wanted` items, as far as [`LOOKS_PER_BATCH`] lets it. They are still in the
    /// index. Returns whether there were none but stale entries to be looked at this time.
    fn evict(&self, class: &Class, inner: &mut Inner, magazine: &mut Magazine, wanted: usize) -> bool {
        let keyspace = self.keyspace(inner.chunks.info().keyspace);
        let Inner { chunks, policy, .. } = inner;
        let view = View::with_seed(self, chunks, self.hash_seed(keyspace)).asking(class.hooks.as_deref());
        // Where an embedder may keep items, more of them may stand in a row than are held
        // otherwise.
        let mut rounds = if class.hooks.is_some() { ROUNDS_ASKING } else { 1 };
        let mut looks = 0;
        let chosen = |magazine: &Magazine| magazine.evicted.len() + magazine.ending.len();
        while chosen(magazine) < wanted && (looks < LOOKS_PER_BATCH || chosen(magazine) == 0) {
            let evicted = policy.evict(&view);
            looks += policy.looks();
            let Some(entry) = evicted else {
                if policy.is_unfinished() {
                    break;
                }
                rounds -= 1;
                if rounds == 0 {
                    break;
                }
                continue;
            };
            let Some(ptr) = view.chunks.locate(ChunkNumber(entry.0)) else { break };
            // SAFETY: the policy has just claimed the item, or that which the link in the chunk is
            // chained to, and the lock of the class is still held (invariant 5 of `magazine`).
            if let Some(parent) = unsafe { self.parent_of_claimed(ptr) } {
                magazine.ending.push(parent);
                continue;
            }
            if self.wants_finish(class, ptr) {
                self.arena.item(ptr).0.state().hold_claimed();
                magazine.ending.push(ptr);
                continue;
            }
            // SAFETY: the item was claimed by the policy, so that the chunk is this thread's
            // (invariant 2 of `slab::item`), and is not a link: no link stays claimed.
            let keyed = unsafe { view.keyed(ptr) };
            self.index.prefetch(keyed.hash());
            magazine.evicted.push(keyed);
        }
        chosen(magazine) == 0 && policy.is_unfinished()
    }
}

//! Removal, new expiry times, copies with more room, and flushes, by key.

use std::sync::atomic::{Ordering, fence};

use super::Keys;
use crate::cache::Core;
use crate::config::{Expiry, ItemOptions, ItemTag};
use crate::error::Error;
use crate::handle::ReadHandle;
use crate::lifecycle::RemovalCause;
use crate::plant::Plant;
use crate::pools::PoolId;
use crate::watch::{EventKind, Timed};

impl<'c> Keys<'c> {
    /// Notes that the item of a key, of this pool, was changed in place.
    #[inline]
    pub(crate) fn note_change(self, pool: PoolId, key: &[u8]) {
        let core = self.cache.core();
        if core.watch.records() || core.fences.get().is_some() {
            let hash = self.hash(key);
            core.void_fences(hash);
            core.note_change(hash, || (pool, key));
        }
    }

    /// Removes the item of `key`. `false`: there was none. Handles of it stay valid.
    pub fn remove(self, key: &[u8]) -> bool {
        let core = self.cache.core();
        let hash = core.hash(self.space(), key);
        let wanted = core.watch.wants(hash);
        if !wanted.any() {
            return self.remove_hashed(hash, key);
        }
        let stopwatch = core.watch.stopwatch(wanted, &core.clock);
        let removed = self.remove_hashed(hash, key);
        core.watch.stop(stopwatch, &core.clock, Timed::Remove, 1);
        if !removed {
            // A larger cache might still have had it.
            if let Some(pool) = self.own_pool().filter(|_| wanted.follows()) {
                core.note_end(hash, pool);
            }
            core.note_absent(EventKind::Remove, hash, key, self.own_pool());
        }
        removed
    }

    fn remove_hashed(self, hash: u64, key: &[u8]) -> bool {
        let core = self.cache.core();
        core.note_writing(self.scope.keyspace());
        let mut guard = core.index.lock(hash);
        // What was asked for elsewhere may be older than the removal, even if there is no item.
        if !core.strikes(Plant::RemovalLeavesFences) {
            core.void_fences(hash);
        }
        let slot = guard.find(|ptr| core.is_item_of(ptr, self.scope.keyspace(), key));
        let present = slot.map(|slot| guard.ptr(slot));
        if !self.is_gone() && !core.strikes(Plant::RemovalLeavesBeneath) {
            core.erase_lower(&mut guard, present, (self.scope.keyspace(), hash, key));
        }
        let Some((slot, ptr)) = slot.zip(present) else { return false };
        // SAFETY: the item is in the index, and the bucket that points to it is locked, so that its
        // chunk is not freed (invariant 2 of `Index`).
        let live = !unsafe { core.is_dead(core.arena.item(ptr).0, self.space()) };
        // Asked now that the item was seen (invariant 5 of `pools`).
        if self.is_gone() {
            return false;
        }
        let unindexed = core.arena.item(ptr).0.state().unindex();
        if !core.strikes(Plant::RemovedStays) {
            guard.clear(slot);
        }
        drop(guard);
        if unindexed {
            let cause = if live { RemovalCause::Removed } else { RemovalCause::Expired };
            core.finish_removal(ptr, cause, false);
        }
        // Otherwise it was evicted a moment ago.
        unindexed && live
    }

    /// Changes when the item of `key` expires. `false`: there is none. An item that was made
    /// without room for an expiry time is copied; then also `false` where there is no memory for
    /// the copy.
    pub fn touch(self, key: &[u8], expiry: Expiry) -> bool {
        loop {
            let Some(old) = self.peek(key) else {
                let core = self.cache.core();
                if core.watch.records() {
                    let hash = core.hash(self.space(), key);
                    core.note_absent(EventKind::Touch, hash, key, self.own_pool());
                }
                return false;
            };
            match self.touch_item(old, expiry) {
                Ok(_) => return true,
                // There is no memory for the copy.
                Err(old) if old.is_current() => return false,
                Err(_) => {}
            }
        }
    }

    /// As [`Self::touch`], for an item that was found: what has come in its place meanwhile is not
    /// changed. Returns the item, or the copy that has taken its place.
    ///
    /// # Errors
    /// The item as it is: it is not the item of its key any more, or the copy finds no memory.
    pub fn touch_item(self, item: ReadHandle<'c>, expiry: Expiry) -> Result<ReadHandle<'c>, ReadHandle<'c>> {
        if item.set_expiry(expiry) {
            // One that `widen` has just put a copy of aside may have been copied before.
            fence(Ordering::SeqCst);
            return if item.is_current() { Ok(item) } else { Err(item) };
        }
        let options = ItemOptions { expiry, expirable: true, ..ItemOptions::default() };
        match self.widen(&item, &options) {
            Ok(Some(copy)) => Ok(copy),
            Ok(None) | Err(_) => Err(item),
        }
    }

    /// The item of a key with a tag: `item` if it has one, or else a copy that takes its place,
    /// with a CAS token that `next_cas` gives. If the key has got another item
    /// meanwhile, that one. So items of which nobody asks for a token do without.
    ///
    /// # Errors
    /// The item as it is: it is no longer in the cache, there is no memory for the copy, or it is a
    /// structured or a long one.
    pub fn give_tag(
        self,
        mut item: ReadHandle<'c>,
        next_cas: impl Fn() -> u64,
    ) -> Result<ReadHandle<'c>, ReadHandle<'c>> {
        loop {
            if item.tag().is_some() {
                return Ok(item);
            }
            if item.is_structured() || item.is_long() {
                return Err(item);
            }
            let tag = ItemTag { cas: next_cas(), client_flags: item.client_flags() };
            let expiry = item.expires_at().map_or(Expiry::Never, Expiry::At);
            let options = ItemOptions { expiry, tag: Some(tag), ..ItemOptions::default() };
            match self.widen(&item, &options) {
                Ok(Some(tagged)) => return Ok(tagged),
                Ok(None) => {}
                Err(_) => return Err(item),
            }
            match self.peek(item.key()) {
                Some(present) if !present.is_structured() => item = present,
                _ => return Err(item),
            }
        }
    }

    /// Puts a copy of `old` in its place that has room for what `options` say, and is otherwise
    /// equal, its age included. `None`: it is not the item of its key any more.
    fn widen(self, old: &ReadHandle<'_>, options: &ItemOptions) -> Result<Option<ReadHandle<'c>>, Error> {
        let options =
            ItemOptions { client_flags: old.client_flags(), user_bits: old.user_bits(), ..*options };
        let mut copy = self.cache.allocate(old.pool(), old.key(), old.len(), &options)?;
        copy.value_mut().copy_from_slice(old);
        copy.age_as(old);
        let Ok(copy) = self.cache.replace_matching(old, copy) else { return Ok(None) };
        // What others changed of it in place meanwhile. Who changes its end from here on looks
        // whether it still is there.
        fence(Ordering::SeqCst);
        if options.tag.is_some() {
            let copied = options.expiry.to_unix_secs(|| self.cache.core().now());
            copy.change_expiry_from(copied, old.expires_at().unwrap_or(0));
        }
        copy.set_user_bits(old.user_bits());
        Ok(Some(copy))
    }

    /// Lets everything in this key space count as gone, at once. Takes no time: items leave when
    /// they are met or evicted, or are taken out by [`crate::Cache::maintain`].
    pub fn flush(self) {
        let core = self.cache.core();
        core.while_there(self.scope.pool(), || self.space().flush(core.now()));
    }

    /// Does so when the Unix second `at` comes, with what was made before it; now, if it has come.
    /// Replaces an earlier such order whose time has not come.
    pub fn flush_at(self, at: u32) {
        let core = self.cache.core();
        core.while_there(self.scope.pool(), || self.space().flush_at(at, core.now()));
    }
}

impl Core {
    /// Does something to the key space of a pool, which nobody else is given meanwhile; nothing if
    /// the pool is not there.
    fn while_there(&self, pool: Option<PoolId>, change: impl FnOnce()) {
        let used = pool.map(|pool| self.pools.get_even_leaving(pool));
        if !matches!(used, Some(None)) {
            change();
        }
    }
}

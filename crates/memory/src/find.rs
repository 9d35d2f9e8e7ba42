//! Look-ups by key.
//!
//! A look-up takes no lock, except to record a sampled key ([`crate::watch`]): it pins, finds the
//! item in the index, and takes a reference to it or protects it. Here are the look-ups themselves;
//! `watched` adds what is recorded of them, `change` removes and alters items by key, `fence` tells
//! whether a key was written since, and `expiry` tells which items have expired or were flushed.

mod change;
mod expiry;
pub(crate) mod fence;
#[cfg(test)]
mod tests;
mod watched;

use std::cell::Cell;

use base::pin::{Hazard, HazardGuard};
use slab::item::Acquired;
use slab::{Item, ItemPtr, SlabInfo};

use crate::cache::{Cache, Core};
use crate::class::{Class, HITS, fingerprint};
use crate::config::Expiry;
use crate::handle::{ItemRef, ReadHandle, View};
use crate::keyspace::Keyspace;
use crate::lifecycle::RemovalCause;
use crate::pools::{PoolId, Scope};
use crate::watch::Timed;

/// Number of look-ups of a batch that are under way at once.
const BATCH: usize = 16;

/// Passed instead of a key's hash for a measurement of a whole batch.
const NO_KEY: u64 = 0;

/// A key space: look-ups and removals by key. Made by [`Cache::keys`].
///
/// It is valid until the pool that it was made for is removed. After that it finds, removes and
/// flushes nothing, even if another pool has received that pool's number.
#[derive(Clone, Copy)]
pub struct Keys<'c> {
    cache: &'c Cache,
    /// Without a pool: the shared key space, asked for without one.
    scope: Scope,
}

impl Cache {
    /// Returns the key space of a pool: its own, or the shared one. If the pool does not exist, the
    /// result finds nothing.
    ///
    /// ```
    /// # use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// cache.add_pool(PoolConfig::named("first"))?;
    /// let tenant = cache.add_pool(PoolConfig::named("tenant"))?;
    /// cache.put(cache.allocate(tenant, b"key", 0, &ItemOptions::default())?);
    /// let keys = cache.keys(tenant);
    /// assert!(keys.find(b"key").is_some() && cache.find(b"key").is_none());
    /// cache.remove_pool(tenant)?;
    /// assert!(keys.is_gone() && keys.find(b"key").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(&self, pool: PoolId) -> Keys<'_> {
        let id = self.core().pools.get_even_leaving(pool).map_or(0, |pool| pool.keyspace);
        Keys { cache: self, scope: Scope::new(id, pool) }
    }

    /// The key space of the pool that was added first. If it is that pool's own, nothing is found
    /// once the pool is removed.
    #[inline]
    fn first_keys(&self) -> Keys<'_> {
        Keys { cache: self, scope: self.core().first_keys.get() }
    }

    /// [`Keys::find`] in the key space of the pool that was added first: for caches with one pool,
    /// or whose pools share their keys.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<ReadHandle<'_>> {
        self.first_keys().find(key)
    }

    /// [`Keys::find_with`] in the key space of the pool that was added first: for caches with one
    /// pool, or whose pools share their keys.
    #[inline]
    pub fn find_with<R>(&self, key: &[u8], seen: impl FnOnce(ItemRef<'_>) -> R) -> Option<R> {
        self.first_keys().find_with(key, seen)
    }

    /// [`Keys::peek`] in the key space of the pool that was added first: for caches with one pool,
    /// or whose pools share their keys.
    pub fn peek(&self, key: &[u8]) -> Option<ReadHandle<'_>> {
        self.first_keys().peek(key)
    }

    /// [`Keys::remove`] in the key space of the pool that was added first: for caches with one
    /// pool, or whose pools share their keys.
    pub fn remove(&self, key: &[u8]) -> bool {
        self.first_keys().remove(key)
    }

    /// [`Keys::touch`] in the key space of the pool that was added first: for caches with one pool,
    /// or whose pools share their keys.
    pub fn touch(&self, key: &[u8], expiry: Expiry) -> bool {
        self.first_keys().touch(key, expiry)
    }
}

/// The result of checking a candidate.
enum Candidate {
    /// A reference was taken.
    Live,
    /// The item of the key has expired or was flushed; a reference was taken.
    Dead,
}

impl<'c> Keys<'c> {
    fn space(self) -> &'c Keyspace {
        self.cache.core().keyspace(self.scope.keyspace())
    }

    /// Returns whether the pool that these keys were asked for was removed.
    #[inline]
    pub fn is_gone(self) -> bool {
        self.scope.pool().is_some_and(|pool| !self.cache.core().pools.has(pool))
    }

    /// The pool whose keys these are, if it has keys of its own.
    fn own_pool(self) -> Option<PoolId> {
        self.scope.pool().filter(|_| self.scope.keyspace() != 0)
    }

    #[inline]
    fn count_miss(self) {
        if !self.is_gone() {
            self.space().count_miss();
        }
    }

    /// Finds the item of `key`, counts a hit or a miss, and informs the eviction policy. A hit
    /// takes no lock.
    ///
    /// An expired item is removed and counts as a miss. An item that already has 16,382 handles
    /// also counts as a miss, but is not removed.
    #[inline]
    pub fn find(self, key: &[u8]) -> Option<ReadHandle<'c>> {
        let core = self.cache.core();
        let hash = core.hash(self.space(), key);
        let wanted = core.watch.wants(hash);
        if wanted.any() {
            return self.find_watched(wanted, hash, key);
        }
        self.find_hashed(hash, key)
    }

    #[inline]
    fn find_hashed(self, hash: u64, key: &[u8]) -> Option<ReadHandle<'c>> {
        let mut collisions = Vec::new();
        let pinned = self.cache.core().pins.pin();
        let found = self.look_up(hash, key, &mut collisions);
        drop(pinned);
        self.judge(hash, found)
    }

    /// Calls `seen` with the item of `key`, in place, and returns its result. Counts a hit or a
    /// miss and informs the eviction policy, as [`Self::find`] does. This is the fastest way to
    /// read: it takes no reference, so that threads that read one item do not contend for its state
    /// word, and the memory accesses of successive finds overlap.
    ///
    /// The item may be removed or replaced while `seen` reads it, but its bytes stay as they are
    /// until `seen` returns. A look-up within `seen` takes a reference to its item, as a thread can
    /// protect only one item at a time.
    #[inline]
    pub fn find_with<R>(self, key: &[u8], seen: impl FnOnce(ItemRef<'_>) -> R) -> Option<R> {
        let core = self.cache.core();
        let space = self.space();
        let hash = core.hash(space, key);
        let wanted = core.watch.wants(hash);
        if wanted.any() {
            return self.find_with_watched(wanted, hash, key, seen);
        }
        self.find_in_place(space, (hash, key), seen)
    }

    #[inline]
    fn find_in_place<R>(
        self,
        space: &Keyspace,
        (hash, key): (u64, &[u8]),
        seen: impl FnOnce(ItemRef<'_>) -> R,
    ) -> Option<R> {
        let core = self.cache.core();
        let Some(guard) = core.pins.guard() else {
            return self.find_hashed(hash, key).map(|found| seen(found.found()));
        };
        let pinned = guard.pin();
        let found = self.protect(hash, key, guard.hazard());
        drop(pinned);
        self.show(space, (hash, key), found, guard, seen)
    }

    /// Calls `seen` for each of `keys`, in order, with the key's position and its item, or `None`
    /// on a miss. Counts as [`Self::find_with`] does, but waits for memory once for up to 16 keys.
    pub fn find_many_with(self, keys: &[&[u8]], mut seen: impl FnMut(usize, Option<ItemRef<'_>>)) {
        for (chunk, keys) in keys.chunks(BATCH).enumerate() {
            let seen = |i, found: Option<ItemRef<'_>>| seen(chunk * BATCH + i, found);
            if self.cache.core().watch.is_on() {
                self.find_batch_watched(keys, seen);
            } else {
                let mut seen = seen;
                self.find_batch(keys, |i, _, found| seen(i, found));
            }
        }
    }

    /// Looks up at most [`BATCH`] keys. Calls `seen` for each, with its position, hash and item.
    #[inline]
    fn find_batch(self, keys: &[&[u8]], mut seen: impl FnMut(usize, u64, Option<ItemRef<'_>>)) {
        let core = self.cache.core();
        let mut hashes = [0_u64; BATCH];
        let pinned = core.pins.pin();
        let space = self.prefetch(keys, &mut hashes);
        drop(pinned);
        for (i, (key, hash)) in keys.iter().zip(hashes).enumerate() {
            if self.find_in_place(space, (hash, key), |found| seen(i, hash, Some(found))).is_none() {
                seen(i, hash, None);
            }
        }
    }

    /// The items of `keys`, in order, appended to `out`. The same as [`Self::find`] of each, but
    /// waits for memory once for up to 16 keys instead of once for each.
    pub fn find_many(self, keys: &[&[u8]], out: &mut Vec<Option<ReadHandle<'c>>>) {
        let core = self.cache.core();
        for keys in keys.chunks(BATCH) {
            let mut hashes = [0_u64; BATCH];
            let mut found = [const { None }; BATCH];
            let stopwatch =
                core.watch.is_on().then(|| core.watch.stopwatch(core.watch.wants(NO_KEY), &core.clock));
            let mut collisions = Vec::new();
            let pinned = core.pins.pin();
            self.prefetch(keys, &mut hashes);
            for ((found, hash), key) in found.iter_mut().zip(&hashes).zip(keys) {
                *found = self.look_up(*hash, key, &mut collisions);
            }
            drop(pinned);
            out.extend(
                hashes.into_iter().zip(found).take(keys.len()).map(|(hash, found)| self.judge(hash, found)),
            );
            if let Some(stopwatch) = stopwatch {
                core.watch.stop(stopwatch, &core.clock, Timed::Find, keys.len());
                let found = &out[out.len() - keys.len()..];
                for ((key, hash), found) in keys.iter().zip(hashes).zip(found) {
                    self.note_find(
                        core.watch.wants(hash),
                        (key, hash),
                        found.as_ref().map(ReadHandle::found),
                    );
                }
            }
        }
    }

    /// The item of `key`; counts nothing and tells the policy nothing. An expired item is `None`.
    pub fn peek(self, key: &[u8]) -> Option<ReadHandle<'c>> {
        let hash = self.cache.core().hash(self.space(), key);
        let mut collisions = Vec::new();
        let pinned = self.cache.core().pins.pin();
        let found = self.look_up(hash, key, &mut collisions);
        drop(pinned);
        match found? {
            (Candidate::Live, handle, _) => Some(handle),
            (Candidate::Dead, ..) => None,
        }
    }

    pub(crate) fn core(self) -> &'c Core {
        self.cache.core()
    }

    /// The number of the key space.
    pub(crate) fn space_number(self) -> u16 {
        self.scope.keyspace()
    }

    /// The hash of a key of this key space.
    pub(crate) fn hash(self, key: &[u8]) -> u64 {
        self.cache.core().hash(self.space(), key)
    }

    /// Clears the item of a key away if it has expired or was flushed. Counts no access.
    pub(crate) fn clear_dead(self, hash: u64, key: &[u8]) {
        let core = self.cache.core();
        let mut collisions = Vec::new();
        let pinned = core.pins.pin();
        let found = self.look_up(hash, key, &mut collisions);
        drop(pinned);
        if let Some((Candidate::Dead, handle, _)) = found {
            core.remove_item(&handle, RemovalCause::Expired);
        }
    }

    /// Hashes up to [`BATCH`] keys and asks for the memory that looking them up needs. Returns
    /// their key space. The caller has pinned.
    #[inline]
    fn prefetch(self, keys: &[&[u8]], hashes: &mut [u64; BATCH]) -> &'c Keyspace {
        let core = self.cache.core();
        let space = self.space();
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = core.hash(space, key);
            core.index.prefetch(*hash);
        }
        for hash in &hashes[..keys.len()] {
            if let Some(ptr) = core.index.likely(*hash) {
                core.arena.item(ptr).0.prefetch();
            }
        }
        space
    }

    /// Finds the item and protects it. The caller has pinned.
    #[inline]
    fn protect(self, hash: u64, key: &[u8], hazard: Hazard<'_>) -> Option<(ItemPtr, Item<'c>, SlabInfo)> {
        let core = self.cache.core();
        core.index.find(hash, move |ptr| {
            let (item, info) = core.arena.item(ptr);
            hazard.protect(ptr.to_bits());
            // SAFETY: the item is protected, and then seen to be in the index (invariant 5 of
            // `slab::item`).
            let ours = info.keyspace == self.scope.keyspace()
                && item.state().is_indexed()
                && unsafe { item.has_key(key) };
            // Checked after the item was seen: it could be that of a later pool with the same
            // number (invariant 5 of `pools`).
            (ours && !self.is_gone()).then_some((ptr, item, info))
        })
    }

    /// Counts a hit or a miss, and shows what was found and is protected.
    #[inline]
    fn show<R>(
        self,
        space: &Keyspace,
        (hash, key): (u64, &[u8]),
        found: Option<(ItemPtr, Item<'c>, SlabInfo)>,
        guard: HazardGuard<'_>,
        seen: impl FnOnce(ItemRef<'_>) -> R,
    ) -> Option<R> {
        let core = self.cache.core();
        let Some((ptr, item, info)) = found else {
            self.count_miss();
            return None;
        };
        // SAFETY: the item is protected until `guard` is dropped (invariant 5 of `slab::item`).
        let is_special = unsafe {
            (!item.is_plain_and_inline() || space.may_be_flushed())
                && (core.is_over(item, space) || item.is_long())
        };
        if is_special {
            drop(guard);
            // `find_hashed` removes a dead item, and searches again in case it was replaced. For a
            // long value, it takes a reference, which keeps the links of the value too.
            return self.find_hashed(hash, key).map(|found| seen(found.found()));
        }
        // SAFETY: the item is protected until `guard` is dropped (invariant 5 of `slab::item`).
        unsafe { self.count_hit(hash, item, info) };
        // SAFETY: the item is protected until `guard` is dropped (invariant 1 of `handle`), and
        // `seen` cannot keep what it is shown.
        let result = seen(ItemRef(unsafe { View::new(core, item, ptr) }));
        drop(guard);
        Some(result)
    }

    /// # Safety
    /// The caller has a reference to the item or protects it.
    #[inline]
    unsafe fn count_hit(self, hash: u64, item: Item<'_>, info: SlabInfo) {
        let core = self.cache.core();
        // SAFETY: the caller holds a reference to the item or protects it, so that its pool and
        // class are there (invariants 1 and 2 of `pools`).
        let class = unsafe { core.class_of(info) };
        match item.state().policy_if_fetched().and_then(|bits| class.rule.unchanged_in(bits)) {
            Some(queue) => class.counters.add(HITS + queue, 1),
            None => self.count_change(hash, item, class),
        }
    }

    /// Counts a hit that may change the item's bits: not a part of [`Self::count_hit`], so that
    /// hits on hot items save no registers.
    #[inline(never)]
    fn count_change(self, hash: u64, item: Item<'_>, class: &Class) {
        let core = self.cache.core();
        let queue = Cell::new(0);
        item.state().record_access(|bits, first| {
            let (bits, number) = class.rule.apply_in(bits, first, || core.now());
            queue.set(number);
            bits
        });
        class.rule.count(|| fingerprint(hash));
        class.counters.add(HITS + queue.get(), 1);
    }

    /// Finds the item and takes a reference. The caller has pinned. Handles of items with another
    /// key (hash collisions), or of a removed pool, are added to `collisions`. The caller drops
    /// them after it has unpinned, since dropping an item's last handle may call the embedder. The
    /// index repeats the search while another thread, which may be preempted, has the bucket
    /// locked: `collisions` sees to it that each such item is acquired only once.
    #[inline]
    fn look_up(
        self,
        hash: u64,
        key: &[u8],
        collisions: &mut Vec<ReadHandle<'c>>,
    ) -> Option<(Candidate, ReadHandle<'c>, SlabInfo)> {
        let core = self.cache.core();
        core.index.find(hash, |ptr| {
            let (item, info) = core.arena.item(ptr);
            let is_known = collisions.iter().any(|held| held.ptr() == ptr);
            // SAFETY: the handle holds a reference (invariant 3 of `slab::item`).
            if is_known && (self.is_gone() || unsafe { !item.has_key(key) })
                || info.keyspace != self.scope.keyspace()
                || item.state().acquire() != Acquired::Yes
            {
                return None;
            }
            let handle = ReadHandle::adopt(core, ptr);
            // SAFETY: the handle holds a reference. For `is_gone` see invariant 5 of `pools`.
            if unsafe { !item.has_key(key) } || self.is_gone() {
                collisions.push(handle);
                return None;
            }
            // SAFETY: the handle holds a reference (invariant 2 of `handle`).
            let dead = unsafe { core.is_dead(item, self.space()) };
            Some((if dead { Candidate::Dead } else { Candidate::Live }, handle, info))
        })
    }

    /// Counts a hit or a miss, and clears a dead item away.
    #[inline]
    fn judge(
        self,
        hash: u64,
        found: Option<(Candidate, ReadHandle<'c>, SlabInfo)>,
    ) -> Option<ReadHandle<'c>> {
        let core = self.cache.core();
        match found {
            Some((Candidate::Live, handle, info)) => {
                // SAFETY: the handle holds a reference (invariant 2 of `handle`).
                unsafe { self.count_hit(hash, handle.item(), info) };
                Some(handle)
            }
            Some((Candidate::Dead, handle, _)) => {
                core.remove_item(&handle, RemovalCause::Expired);
                self.count_miss();
                None
            }
            None => {
                self.count_miss();
                None
            }
        }
    }
}

//! Looking items up.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use base::pin::Guard;
use slab::item::Acquired;
use slab::{Item, ItemPtr, SlabInfo};

use crate::cache::{Cache, Core, PoolId};
use crate::class::{HITS, fingerprint};
use crate::config::{Expiry, ItemOptions, ItemTag};
use crate::error::Error;
use crate::handle::{Found, ReadHandle, View};
use crate::keyspace::Keyspace;
use crate::life::RemovalCause;
use crate::plant::Plant;
use crate::watch::{EventKind, Timed, Wanted};

/// How many look-ups of a batch are under way at once.
const BATCH: usize = 16;

/// A key space: look-ups and removals by key. Made by [`Cache::keys`].
///
/// It ends with the pool that it was asked for: once that was removed, nothing is found, removed or
/// flushed by it any more, whoever has the pool's number then.
#[derive(Clone, Copy)]
pub struct Keys<'c> {
    cache: &'c Cache,
    id: u16,
    /// The pool that it ends with. `None`: it was asked for without one.
    pool: Option<PoolId>,
}

/// The key space of the pool that was added first, in a word that is 0 before: life and number of
/// the pool, and the key space.
#[derive(Default)]
pub(crate) struct FirstKeys(AtomicU64);

impl FirstKeys {
    /// Notes a pool that is being added, which nobody else does meanwhile. The first one stays.
    pub(crate) fn note(&self, PoolId(number, life): PoolId, keyspace: u16) {
        if self.0.load(Ordering::Relaxed) == 0 {
            let word = u64::from(life) << 32 | u64::from(number) << 16 | u64::from(keyspace);
            self.0.store(word, Ordering::Release);
        }
    }

    /// The key space, and the pool with which it ends, if it is that pool's own.
    #[inline]
    fn get(&self) -> (Option<PoolId>, u16) {
        let word = self.0.load(Ordering::Acquire);
        let keyspace = word as u16;
        ((keyspace != 0).then_some(PoolId((word >> 16) as u16, (word >> 32) as u32)), keyspace)
    }
}

impl Cache {
    /// The key space of a pool: its own, or the shared one. Of a pool that does not exist, one in
    /// which there is nothing.
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
        Keys { cache: self, id, pool: Some(pool) }
    }

    /// The key space of the pool that was added first. It ends with that pool, if it is its own.
    #[inline]
    fn first_keys(&self) -> Keys<'_> {
        let (pool, id) = self.core().first_keys.get();
        Keys { cache: self, id, pool }
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
    pub fn find_with<R>(&self, key: &[u8], seen: impl FnOnce(Found<'_>) -> R) -> Option<R> {
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

/// What a candidate turned out to be.
enum Candidate {
    /// A reference was taken.
    Live,
    /// The item of the key has expired or was flushed; a reference was taken.
    Dead,
}

impl<'c> Keys<'c> {
    fn space(self) -> &'c Keyspace {
        self.cache.core().keyspace(self.id)
    }

    /// Whether the pool was removed that these keys were asked for.
    #[inline]
    pub fn is_gone(self) -> bool {
        self.pool.is_some_and(|pool| !self.cache.core().pools.has(pool))
    }

    #[inline]
    fn count_miss(self) {
        if !self.is_gone() {
            self.space().count_miss();
        }
    }

    /// The item of `key`. Counts a hit or a miss and tells the eviction policy. Takes no lock.
    ///
    /// An item that has expired is a miss and is removed. While 16,382 handles of the item are
    /// held, it is a miss too.
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
        let mut strangers = Vec::new();
        let pinned = self.cache.core().pins.pin();
        let found = self.look_up(hash, key, &mut strangers);
        drop(pinned);
        self.judge(hash, found)
    }

    /// Calls `seen` with the item of `key`, in place, and returns what it returns. Counts a hit or
    /// a miss and tells the eviction policy, as [`Self::find`]; unlike it, writes nothing to the
    /// item's reference word, so that threads that read the same item do not wait for each other,
    /// and the misses of successive finds overlap. The fastest way to read.
    ///
    /// The item may be removed or replaced while `seen` reads it, but it stays as it was until
    /// `seen` returns. Inside `seen`, another call on the cache takes references.
    #[inline]
    pub fn find_with<R>(self, key: &[u8], seen: impl FnOnce(Found<'_>) -> R) -> Option<R> {
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
        seen: impl FnOnce(Found<'_>) -> R,
    ) -> Option<R> {
        let core = self.cache.core();
        let Some(guard) = core.pins.guard() else {
            return self.find_hashed(hash, key).map(|found| seen(found.found()));
        };
        let pinned = core.pins.pin();
        let found = self.protect(hash, key, &guard);
        drop(pinned);
        self.show(space, (hash, key), found, guard, seen)
    }

    /// [`Self::find_with`] for each of `keys`, in order; `seen` is told which one, and `None` for a
    /// miss. Waits for memory once for up to 16 keys instead of once for each.
    pub fn find_many_with(self, keys: &[&[u8]], mut seen: impl FnMut(usize, Option<Found<'_>>)) {
        for (chunk, keys) in keys.chunks(BATCH).enumerate() {
            let seen = |i, found: Option<Found<'_>>| seen(chunk * BATCH + i, found);
            if self.cache.core().watch.is_on() {
                self.find_batch_watched(keys, seen);
            } else {
                let mut seen = seen;
                self.find_batch(keys, |i, _, found| seen(i, found));
            }
        }
    }

    /// Looks up to [`BATCH`] keys up; `seen` is told the number and the hash of each.
    #[inline]
    fn find_batch(self, keys: &[&[u8]], mut seen: impl FnMut(usize, u64, Option<Found<'_>>)) {
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
            let mut strangers = Vec::new();
            let pinned = core.pins.pin();
            self.prefetch(keys, &mut hashes);
            for ((found, hash), key) in found.iter_mut().zip(&hashes).zip(keys) {
                *found = self.look_up(*hash, key, &mut strangers);
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
        let mut strangers = Vec::new();
        let pinned = self.cache.core().pins.pin();
        let found = self.look_up(hash, key, &mut strangers);
        drop(pinned);
        match found? {
            (Candidate::Live, handle, _) => Some(handle),
            (Candidate::Dead, ..) => None,
        }
    }

    /// The hash of a key of this key space.
    pub(crate) fn hash(self, key: &[u8]) -> u64 {
        self.cache.core().hash(self.space(), key)
    }

    /// Clears the item of a key away if it has expired or was flushed. Counts no access.
    pub(crate) fn clear_dead(self, hash: u64, key: &[u8]) {
        let core = self.cache.core();
        let mut strangers = Vec::new();
        let pinned = core.pins.pin();
        let found = self.look_up(hash, key, &mut strangers);
        drop(pinned);
        if let Some((Candidate::Dead, handle, _)) = found {
            core.remove_item(&handle, RemovalCause::Expired);
        }
    }

    /// Notes that the item of a key, of this pool, was changed in place.
    #[inline]
    pub(crate) fn note_change(self, pool: PoolId, key: &[u8]) {
        let core = self.cache.core();
        if core.watch.records() {
            core.note_change(self.hash(key), || (pool, key));
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
        core.note_writing(self.id);
        let mut guard = core.index.lock(hash);
        let Some(slot) = guard.find(|ptr| core.is_item_of(ptr, self.id, key)) else { return false };
        let ptr = guard.ptr(slot);
        // SAFETY: the item is in the index, and the bucket that points to it is locked.
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
            core.retire(ptr, cause, false);
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
            if old.set_expiry(expiry) {
                // One that `widen` has just put a copy of aside may have been copied before.
                fence(Ordering::SeqCst);
                if old.is_current() {
                    return true;
                }
                continue;
            }
            let options = ItemOptions { expiry, expirable: true, ..ItemOptions::default() };
            match self.widen(&old, &options) {
                Ok(Some(_)) => return true,
                Ok(None) => {}
                Err(_) => return false,
            }
        }
    }

    /// The item of a key with a tag: `item` if it has one, or else a copy that takes its place,
    /// with a CAS token that `next_cas` gives. If the item of the key is another one by now, that
    /// one. So items of which nobody asks for a token do without.
    ///
    /// # Errors
    /// The item as it is: it has left the cache, there is no memory for the copy, or it is a
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
            let Some(present) = self.peek(item.key()) else { return Err(item) };
            item = present;
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
    /// they are met or evicted.
    pub fn flush(self) {
        let core = self.cache.core();
        core.while_there(self.pool, || self.space().flush(core.now()));
    }

    /// Does so when the Unix second `at` comes, with what was made before it. Replaces an earlier
    /// such order.
    pub fn flush_at(self, at: u32) {
        self.cache.core().while_there(self.pool, || self.space().flush_at(at));
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
    fn protect(self, hash: u64, key: &[u8], guard: &Guard<'_>) -> Option<(ItemPtr, Item<'c>, SlabInfo)> {
        let core = self.cache.core();
        core.index.find(hash, |ptr| {
            let (item, info) = core.arena.item(ptr);
            guard.protect(ptr.to_bits());
            // SAFETY: the item is protected, and then seen to be in the index.
            let ours = info.keyspace == self.id && item.state().is_indexed() && unsafe { item.has_key(key) };
            // Invariant 5 of `pools`.
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
        guard: Guard<'_>,
        seen: impl FnOnce(Found<'_>) -> R,
    ) -> Option<R> {
        let core = self.cache.core();
        let Some((ptr, item, info)) = found else {
            self.count_miss();
            return None;
        };
        // SAFETY: the item is protected until `guard` is dropped.
        if unsafe { core.is_dead(item, space) || item.is_long() } {
            drop(guard);
            // Clears it away, and finds what may have come in its place; or holds it, and with it
            // the links that a long value lies in.
            return self.find_hashed(hash, key).map(|found| seen(found.found()));
        }
        // SAFETY: as above.
        unsafe { self.count_hit(hash, item, info) };
        // SAFETY: the item is protected until `guard` is dropped, and `seen` cannot keep what it is
        // shown.
        let result = seen(Found(unsafe { View::new(core, item, ptr) }));
        drop(guard);
        Some(result)
    }

    /// # Safety
    /// The caller has a reference to the item or protects it.
    #[inline]
    unsafe fn count_hit(self, hash: u64, item: Item<'_>, info: SlabInfo) {
        let core = self.cache.core();
        // SAFETY: the caller's duty.
        let class = unsafe { core.class_of(info) };
        let queue = Cell::new(0);
        item.state().record_access(|bits, first| {
            let (bits, number) = class.rule.apply_in(bits, first, || core.now());
            queue.set(number);
            bits
        });
        class.rule.count(|| fingerprint(hash));
        class.counters.add(HITS + queue.get(), 1);
    }

    /// Finds the item and takes a reference. The caller has pinned, and drops the items of other
    /// keys that were met after that: the last handle of an item may call the embedder.
    #[inline]
    fn look_up(
        self,
        hash: u64,
        key: &[u8],
        strangers: &mut Vec<ReadHandle<'c>>,
    ) -> Option<(Candidate, ReadHandle<'c>, SlabInfo)> {
        let core = self.cache.core();
        core.index.find(hash, |ptr| {
            let (item, info) = core.arena.item(ptr);
            if info.keyspace != self.id || item.state().acquire() != Acquired::Yes {
                return None;
            }
            let handle = ReadHandle::adopt(core, ptr);
            // SAFETY: the handle holds a reference. For the second question see invariant 5 of
            // `pools`.
            if unsafe { !item.has_key(key) } || self.is_gone() {
                strangers.push(handle);
                return None;
            }
            // SAFETY: the handle holds a reference.
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
                // SAFETY: the handle holds a reference.
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

/// Look-ups while something is watched ([`crate::watch`]).
impl<'c> Keys<'c> {
    /// The pool whose keys these are, if it has keys of its own.
    fn own_pool(self) -> Option<PoolId> {
        self.pool.filter(|_| self.id != 0)
    }

    #[inline(never)]
    fn find_watched(self, wanted: Wanted, hash: u64, key: &[u8]) -> Option<ReadHandle<'c>> {
        let core = self.cache.core();
        let stopwatch = core.watch.stopwatch(wanted, &core.clock);
        let found = self.find_hashed(hash, key);
        core.watch.stop(stopwatch, &core.clock, Timed::Find, 1);
        self.note_find(wanted, (key, hash), found.as_ref().map(ReadHandle::found));
        found
    }

    #[inline(never)]
    fn find_with_watched<R>(
        self,
        wanted: Wanted,
        hash: u64,
        key: &[u8],
        seen: impl FnOnce(Found<'_>) -> R,
    ) -> Option<R> {
        let core = self.cache.core();
        let mut stopwatch = core.watch.stopwatch(wanted, &core.clock);
        let result = self.find_in_place(self.space(), (hash, key), |found| {
            stopwatch.pause(&core.clock);
            self.note_find(wanted, (key, hash), Some(found));
            seen(found)
        });
        core.watch.stop(stopwatch, &core.clock, Timed::Find, 1);
        if result.is_none() {
            self.note_find(wanted, (key, hash), None);
        }
        result
    }

    #[inline(never)]
    fn find_batch_watched(self, keys: &[&[u8]], mut seen: impl FnMut(usize, Option<Found<'_>>)) {
        let core = self.cache.core();
        let mut stopwatch = core.watch.stopwatch(core.watch.wants(NO_KEY), &core.clock);
        self.find_batch(keys, |i, hash, found| {
            stopwatch.pause(&core.clock);
            self.note_find(core.watch.wants(hash), (keys[i], hash), found);
            seen(i, found);
            stopwatch.resume(&core.clock);
        });
        core.watch.stop(stopwatch, &core.clock, Timed::Find, keys.len());
    }

    /// Tells those who watch what a look-up found.
    #[inline]
    fn note_find(self, wanted: Wanted, key: (&[u8], u64), found: Option<Found<'_>>) {
        if wanted.any() {
            self.cache.core().tell_find(wanted, key, found, self.own_pool());
        }
    }
}

/// In the place of a key's hash, where a whole batch is meant.
const NO_KEY: u64 = 0;

impl Core {
    /// Does something to the key space of a pool, which nobody else is given meanwhile; nothing if
    /// the pool is not there.
    fn while_there(&self, pool: Option<PoolId>, change: impl FnOnce()) {
        let used = pool.map(|pool| self.pools.get_even_leaving(pool));
        if !matches!(used, Some(None)) {
            change();
        }
    }

    /// Whether an item has expired or was flushed.
    ///
    /// # Safety
    /// As for [`Item::key`].
    #[inline]
    pub(crate) unsafe fn is_dead(&self, item: Item<'_>, space: &Keyspace) -> bool {
        // SAFETY: passed on.
        unsafe { (item.expiry().is_some() || space.may_be_flushed()) && self.is_over(item, space) }
    }

    /// [`Self::is_dead`] of an item that has an expiry time or may have been flushed.
    ///
    /// # Safety
    /// As for [`Item::key`].
    #[inline(never)]
    unsafe fn is_over(&self, item: Item<'_>, space: &Keyspace) -> bool {
        // SAFETY: passed on.
        let (expiry, created) = unsafe { (item.expiry(), item.created()) };
        let expiry = expiry.map_or(0, |time| time.load(Ordering::Relaxed));
        (expiry != 0 && self.now() >= expiry) || space.is_flushed(created, || self.now())
    }

    /// Why an item ends that leaves for `cause`: one that is evicted when it was over has expired.
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
        // SAFETY: passed on.
        let is_over = cause == RemovalCause::Evicted && unsafe { self.is_dead(item, space) };
        if is_over { RemovalCause::Expired } else { cause }
    }

    /// Whether `ptr`, found in a locked bucket of the index, is the item of `key`.
    #[inline]
    pub(crate) fn is_item_of(&self, ptr: ItemPtr, keyspace: u16, key: &[u8]) -> bool {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the bucket that points to the item is locked, so its chunk is not reused
        // (invariant 2 of `Index`).
        info.keyspace == keyspace && item.state().is_indexed() && unsafe { item.has_key(key) }
    }
}

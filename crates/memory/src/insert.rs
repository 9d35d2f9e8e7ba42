//! Putting items into the index and taking them out.

use std::sync::atomic::{AtomicU32, Ordering};

use index::BucketGuard;
use slab::item::Item;
use slab::{ItemPtr, SlabInfo};

use crate::cache::{Cache, Core};
use crate::class::{BYTES_IN, Gone, INSERTS};
use crate::config::Expiry;
use crate::handle::{ReadHandle, WriteHandle};
use crate::lifecycle::RemovalCause;
use crate::plant::Plant;
use crate::watch::{EventKind, EventResult, Timed, gone_for};

/// Buckets of the index that an insertion moves while the index grows: enough to be done before it
/// fills up.
const BUCKETS_PER_INSERT: u32 = 4;
/// If an insertion finds its home full and the index can grow, it moves this many buckets at a
/// time, at most [`MOST_GROWN_ON`] times, before it evicts an item of that home.
const BUCKETS_AT_ONCE: u32 = 256;
const MOST_GROWN_ON: u32 = 64;

/// Each method inserts an item into the cache that allocated it, even if the method is called on
/// another cache. Only [`Self::replace_matching`] and [`Self::put_fenced`] refuse an item of
/// another cache.
impl Cache {
    /// Makes an item visible, in the place of the present item of its key. Returns handles of the
    /// new item and of the replaced one. If neither is needed, [`Self::put`] is cheaper.
    ///
    /// A flush since the item was allocated does not invalidate it: its creation time is now.
    pub fn insert_or_replace<'c>(
        &'c self,
        item: WriteHandle<'c>,
    ) -> (ReadHandle<'c>, Option<ReadHandle<'c>>) {
        let core = item.core();
        let old = match core.publish(&item, |_| Verdict::Replace, true) {
            Published::Done { old, .. } => old.map(|old| ReadHandle::adopt(core, old)),
            Published::Refused => None,
        };
        (item.into_read(), old)
    }

    /// Makes an item visible, in the place of the one that its key has.
    ///
    /// A flush since the item was allocated does not invalidate it, even if its value is the copy
    /// of one that the flush did: its creation time is now.
    pub fn put(&self, item: WriteHandle<'_>) {
        item.core().publish(&item, |_| Verdict::Replace, false);
        drop(item.into_read());
    }

    /// Makes an item visible unless its key has one already.
    ///
    /// A flush since the item was allocated does not invalidate it: its creation time is now.
    ///
    /// # Errors
    /// The item, unchanged, where its key has one.
    pub fn insert<'c>(&'c self, item: WriteHandle<'c>) -> Result<ReadHandle<'c>, WriteHandle<'c>> {
        let core = item.core();
        let space = core.keyspace(core.arena.info_of(item.ptr()).keyspace);
        // SAFETY: `publish` asks with the bucket locked that points to the old item, so that its
        // chunk is not freed (invariant 2 of `Index`).
        let expired = |old: ItemPtr| unsafe { core.is_dead(core.arena.item(old).0, space) };
        let verdict = |old: Option<ItemPtr>| match old {
            Some(old) if !expired(old) => Verdict::Refuse,
            _ => Verdict::Replace,
        };
        core.publish(&item, verdict, false).read_or_return(item)
    }

    /// Makes an item visible in the place of `old`, if that still is the item of its key: a
    /// compare-and-swap by identity, safe because `old` is held and so cannot be reused. A later
    /// flush that takes `old` takes the item too, as the item may be a copy.
    ///
    /// # Errors
    /// Returns `item`, unchanged, if `old` was replaced, removed, evicted or flushed, has expired
    /// or has another key; also if `old` or `item` belongs to another cache.
    pub fn replace_matching<'c>(
        &'c self,
        old: &ReadHandle<'_>,
        item: WriteHandle<'c>,
    ) -> Result<ReadHandle<'c>, WriteHandle<'c>> {
        let core = item.core();
        if !old.is_of(core) || !std::ptr::eq(core, self.core()) {
            return Err(item);
        }
        let space = core.keyspace(core.arena.info_of(item.ptr()).keyspace);
        // A copy of a flushed item must not survive the flush. A flush before this check is seen
        // here; a later one takes the copy too, whose creation time is set already.
        // SAFETY: `old` holds a reference (invariant 1 of `slab::item`).
        let is_gone = || unsafe { core.is_dead(old.item(), space) };
        let verdict = |found: Option<ItemPtr>| {
            if found == Some(old.ptr()) && !is_gone() { Verdict::ReplaceMatching } else { Verdict::Refuse }
        };
        core.publish(&item, verdict, false).read_or_return(item)
    }

    /// Removes `old`, if it still is the item of its key. `false`: it is not, or it is an item of
    /// another cache.
    pub fn remove_matching(&self, old: &ReadHandle<'_>) -> bool {
        let core = self.core();
        if !old.is_of(core) {
            return false;
        }
        core.note_writing(core.arena.info_of(old.ptr()).keyspace);
        core.remove_item(old, RemovalCause::Removed)
    }
}

/// The decision about a new item, seeing the old one.
enum Verdict {
    Replace,
    /// Replace it by an item that may be a copy: a flush that takes the old one takes both.
    ReplaceMatching,
    /// Replace it by an item whose value was read elsewhere at this Unix second: the new item
    /// counts as made then, so that any later flush takes it.
    ReplaceMadeAt(u32),
    Refuse,
}

/// The outcome for a new item.
enum Published {
    Done {
        /// The item that it replaced, with a reference, where one was asked for.
        old: Option<ItemPtr>,
        /// True if it replaced one.
        replaced: bool,
    },
    Refused,
}

impl Published {
    /// The item, visible, if it was not refused.
    ///
    /// # Errors
    /// The item.
    fn read_or_return(self, item: WriteHandle<'_>) -> Result<ReadHandle<'_>, WriteHandle<'_>> {
        match self {
            Self::Refused => Err(item),
            Self::Done { .. } => Ok(item.into_read()),
        }
    }
}

/// The verdict that an item replaces any, and counts as made at `time`, if `holds` returns true.
fn made_at(time: u32, holds: impl Fn() -> bool) -> impl Fn(Option<ItemPtr>) -> Verdict {
    move |_| if holds() { Verdict::ReplaceMadeAt(time) } else { Verdict::Refuse }
}

/// Lets an item count as made at `time`, and as used then at the earliest.
///
/// # Safety
/// As for [`Item::set_created`].
unsafe fn restamp(item: Item<'_>, time: u32) {
    // SAFETY: the caller's duty (invariants 1 and 3 of `slab::item`).
    unsafe {
        item.set_created(time);
        if let Some(used) = item.last_access() {
            used.fetch_max(time, Ordering::Relaxed);
        }
    }
}

impl Core {
    /// Makes an item visible in the place of the present item of its key, if `holds` returns true
    /// while the bucket of the key is locked. The item counts as made at `time`.
    ///
    /// # Errors
    /// The item, unchanged but for its age.
    pub(crate) fn put_made_at<'c>(
        &'c self,
        item: WriteHandle<'c>,
        time: u32,
        holds: impl Fn() -> bool,
    ) -> Result<ReadHandle<'c>, WriteHandle<'c>> {
        self.publish(&item, made_at(time, holds), false).read_or_return(item)
    }

    /// [`Self::put_made_at`] for an item that was in memory before: not a write, of which
    /// watchers and those who follow the key would be told.
    ///
    /// # Errors
    /// The item, unchanged but for its age.
    pub(crate) fn put_back<'c>(
        &'c self,
        item: WriteHandle<'c>,
        time: u32,
        holds: impl Fn() -> bool,
    ) -> Result<ReadHandle<'c>, WriteHandle<'c>> {
        self.publish_unwatched(&item, made_at(time, holds), false).read_or_return(item)
    }

    /// Puts a new item into the index, if `verdict` says so, and into its queue. `hold_old` asks
    /// for a reference to the item that it replaces.
    fn publish(
        &self,
        new: &WriteHandle<'_>,
        verdict: impl Fn(Option<ItemPtr>) -> Verdict,
        hold_old: bool,
    ) -> Published {
        let wanted = self.watch.wants(new.hash());
        if !wanted.any() {
            let published = self.publish_unwatched(new, verdict, hold_old);
            if matches!(published, Published::Done { .. }) {
                self.note_change(new.hash(), || (new.found().pool(), new.key()));
            }
            return published;
        }
        let stopwatch = self.watch.stopwatch(wanted, &self.clock);
        let published = self.publish_unwatched(new, verdict, hold_old);
        self.watch.stop(stopwatch, &self.clock, Timed::Insert, 1);
        if wanted.follows()
            && let Published::Done { replaced, .. } = published
        {
            self.note_insertion(new.hash(), new.found(), replaced);
        }
        if matches!(published, Published::Done { .. }) {
            self.note_change(new.hash(), || (new.found().pool(), new.key()));
        }
        if self.watch.samples(new.hash()) {
            let (kind, result) = match published {
                Published::Done { replaced: false, .. } => (EventKind::Insert, EventResult::Done),
                Published::Done { .. } => (EventKind::Replace, EventResult::Done),
                Published::Refused => (EventKind::Insert, EventResult::Refused),
            };
            self.record_found(kind, result, new.found());
        }
        published
    }

    fn publish_unwatched(
        &self,
        new: &WriteHandle<'_>,
        verdict: impl Fn(Option<ItemPtr>) -> Verdict,
        hold_old: bool,
    ) -> Published {
        let (item, info) = (new.item(), self.arena.info_of(new.ptr()));
        self.note_writing(info.keyspace);
        let mut rounds = MOST_GROWN_ON;
        loop {
            let mut guard = self.index.lock(new.hash());
            let slot = guard.find(|ptr| self.is_item_of(ptr, info.keyspace, new.key()));
            let old = slot.map(|slot| guard.ptr(slot));
            match verdict(old) {
                Verdict::Replace => self.renew(item, info.keyspace),
                Verdict::ReplaceMatching => self.make_as_young(item, old),
                Verdict::ReplaceMadeAt(time) => {
                    // SAFETY: INDEXED was never set, so that the caller's is the only reference
                    // (invariants 1 and 3 of `slab::item`).
                    unsafe { restamp(item, time) };
                    self.make_as_young(item, old);
                }
                Verdict::Refuse => return Published::Refused,
            }
            // Visible as soon as a slot points to it, and not before there is one.
            match slot.filter(|_| !self.strikes(Plant::ReplacedStays)) {
                Some(slot) => {
                    item.state().publish();
                    guard.exchange(slot, new.ptr());
                }
                None if guard.add_after(new.ptr(), || item.state().publish()).is_ok() => {}
                None => {
                    // Hardly ever: growth begins long before, and keeps up with insertions unless
                    // the thread that moves buckets is preempted.
                    if rounds > 0 && self.index.can_spread() {
                        rounds -= 1;
                        drop(guard);
                        // `guard` is dropped, as growth may evict to make room in the ledger, and
                        // an eviction locks other buckets.
                        if !self.index.is_growing() {
                            self.begin_growth();
                        }
                        self.grow_index_on();
                    } else {
                        self.make_room(guard);
                    }
                    continue;
                }
            }
            if !self.strikes(Plant::PutLeavesFences) {
                self.void_fences(new.hash());
            }
            if !self.strikes(Plant::PutLeavesBeneath) {
                let key = (info.keyspace, new.hash(), new.key());
                self.erase_lower(&mut guard, Some(new.ptr()), key);
            }
            // The old item is unlinked only after the slot points to the new one: a reader that
            // fails to acquire the old one retries, and finds the new one. If another thread is
            // evicting the old item, `unindex` returns false and that thread retires it.
            let old = old.filter(|old| self.arena.item(*old).0.state().unindex());
            drop(guard);
            self.enqueue(new, info);
            if let Some(old) = old {
                self.finish_removal(old, RemovalCause::Replaced, hold_old);
            }
            self.grow_index(new.hash());
            return Published::Done { old: old.filter(|_| hold_old), replaced: old.is_some() };
        }
    }

    /// Raises the creation time of an item that is not visible yet to now, if the key space was
    /// flushed since the item was allocated. Otherwise the item would replace one that was stored
    /// after the flush, and count as flushed itself. The caller has locked the bucket of the key,
    /// so that an item that is stored after a later flush replaces this one.
    #[inline]
    fn renew(&self, new: Item<'_>, keyspace: u16) {
        let space = self.keyspace(keyspace);
        // SAFETY: INDEXED was never set, so that the caller's is the only reference (invariants 1
        // and 3 of `slab::item`).
        unsafe {
            if space.is_flushed(new.created(), || self.now()) {
                restamp(new, space.stamp(self.now()));
            }
        }
    }

    /// Raises the creation time of an item that is not visible yet to that of the item that it
    /// replaces, if that is later. Otherwise a flush that came after the allocation of the new
    /// item, and did not take the old one, would take the new one. The caller has locked the bucket
    /// that points to the old item.
    #[inline]
    fn make_as_young(&self, new: Item<'_>, old: Option<ItemPtr>) {
        let Some(old) = old else { return };
        // SAFETY: the bucket that points to the old item is locked (invariant 1 of `slab::item`).
        // INDEXED was never set in the new one, so that the caller's is the only reference
        // (invariants 1 and 3).
        unsafe {
            let made = self.arena.item(old).0.created();
            if new.created() < made {
                restamp(new, made);
            }
        }
    }

    /// To be called before anything is written to a key space, with no lock held.
    #[inline]
    pub(crate) fn note_writing(&self, keyspace: u16) {
        let space = self.keyspace(keyspace);
        if !space.is_written() {
            self.begin_writing(space, keyspace);
        }
    }

    /// Counts and queues an item that has just become visible.
    fn enqueue(&self, new: &WriteHandle<'_>, info: SlabInfo) {
        // SAFETY: the handle holds a reference (invariant 3 of `handle`), so that pool and class
        // are there (invariants 1 and 2 of `pools`).
        let (class, bytes) = unsafe { (self.class_of(info), new.item().used_bytes()) };
        class.counters.add(INSERTS, 1);
        class.counters.add(BYTES_IN, bytes as u64);
        self.queue(class, (new.ptr(), new.item()), new.hash());
        self.note_come(new.item(), info);
    }

    /// Changes the expiration time of the item at `ptr`, which is stored in `field`. The caller
    /// holds a reference to the item or protects it.
    pub(crate) fn change_expiry(&self, ptr: ItemPtr, field: &AtomicU32, expiry: Expiry) {
        let after = expiry.to_unix_secs(|| self.now());
        let before = field.swap(after, Ordering::Relaxed);
        if self.watch.records() {
            // SAFETY: the caller holds a reference or protects the item, so that the item is not
            // freed (invariants 2 and 5 of `slab::item`).
            unsafe { self.note_item(EventKind::Touch, self.hash_of_item(ptr), ptr) };
        }
        // A wheel entry that is due too early is moved when it comes due. One that is due too late
        // would keep the expired item in memory, so the item is queued again.
        if after != 0 && (before == 0 || after < before) {
            let (item, info) = self.arena.item(ptr);
            // SAFETY: the caller holds a reference or protects the item, so that it is not freed
            // (invariants 2 and 5 of `slab::item`) and pool and class are there (invariants 1 and 2
            // of `pools`).
            let (class, hash) = unsafe { (self.class_of(info), self.hash_of_item(ptr)) };
            self.queue(class, (ptr, item), hash);
        }
    }

    /// Changes an item's expiry time to `to` if it still is `from`. Both are Unix seconds; 0 =
    /// never. The caller holds a reference.
    pub(crate) fn change_expiry_from(&self, ptr: ItemPtr, field: &AtomicU32, from: u32, to: u32) {
        let is_changed =
            from != to && field.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_changed && to != 0 && (from == 0 || to < from) {
            let (item, info) = self.arena.item(ptr);
            // SAFETY: the caller holds a reference, so that the item is not freed (invariant 2 of
            // `slab::item`) and pool and class are there (invariants 1 and 2 of `pools`).
            let (class, hash) = unsafe { (self.class_of(info), self.hash_of_item(ptr)) };
            self.queue(class, (ptr, item), hash);
        }
    }

    /// Counts an item that this thread has unindexed, tells the hooks, and drops the reference that
    /// `unindex` gave, unless `keep` is true. The queue entry stays until the chunk is freed.
    pub(crate) fn finish_removal(&self, ptr: ItemPtr, cause: RemovalCause, keep: bool) {
        self.check_unpinned();
        let (item, info) = self.arena.item(ptr);
        // SAFETY: this thread holds the reference that `unindex` gave it, so that the item is not
        // freed (invariant 2 of `slab::item`).
        let cause = unsafe { self.cause_of_end(cause, item, self.keyspace(info.keyspace)) };
        if self.watch.asks_of_end(cause) {
            // SAFETY: this thread holds the reference that `unindex` gave it, so that the item is
            // not freed (invariant 2 of `slab::item`).
            unsafe { self.note_item(gone_for(cause), self.hash_of_item(ptr), ptr) };
        }
        self.account_and_release(ptr, cause, keep);
    }

    /// [`Self::finish_removal`] for an evicted item whose end changes nothing of what its key has
    /// ([`Self::depart`]). Those who follow the key are not told.
    pub(crate) fn retire_unnoticed(&self, ptr: ItemPtr) {
        self.check_unpinned();
        // SAFETY: this thread holds a reference (invariant 5 of `slab::item`).
        unsafe { self.record_eviction(self.hash_of_item(ptr), ptr) };
        self.account_and_release(ptr, RemovalCause::Evicted, false);
    }

    /// Counts an item that has ended, tells the hooks, and drops the reference unless `keep` is
    /// true.
    fn account_and_release(&self, ptr: ItemPtr, cause: RemovalCause, keep: bool) {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: this thread holds a reference that taking the item out of sight gave it, so that
        // pool and class are there (invariants 1 and 2 of `pools`).
        let class = unsafe { self.class_of(info) };
        // Only the statistics of evictions and expirations need the time: others read no clock.
        let by_itself = matches!(cause, RemovalCause::Evicted | RemovalCause::Expired);
        let mut gone = Gone::default();
        // SAFETY: this thread holds that reference, so that the item is not freed (invariant 2 of
        // `slab::item`).
        unsafe { gone.add(item, if by_itself { self.now() } else { 0 }) };
        class.count_gone(cause, &gone);
        if let Some(hooks) = &class.hooks {
            self.tell_removed(hooks, ptr, cause);
        }
        if !keep && item.state().release() {
            self.free(ptr);
        }
    }

    /// Removes a held item if it still is the item of its key.
    pub(crate) fn remove_item(&self, old: &ReadHandle<'_>, cause: RemovalCause) -> bool {
        let space = self.keyspace(self.arena.info_of(old.ptr()).keyspace);
        let hash = self.hash(space, old.key());
        let mut guard = self.index.lock(hash);
        if cause == RemovalCause::Removed {
            self.void_fences(hash);
        }
        let Some(slot) = guard.find(|ptr| ptr == old.ptr()) else { return false };
        let removed = old.item().state().unindex();
        if !self.strikes(Plant::HeldStays) {
            guard.clear(slot);
        }
        drop(guard);
        if removed {
            self.finish_removal(old.ptr(), cause, false);
        }
        removed
    }

    /// Evicts the item of an entry that lies in a full home, so that a new entry fits in.
    pub(crate) fn make_room(&self, guard: BucketGuard<'_>) {
        if let Some(victim) = self.displace(guard) {
            self.finish_removal(victim, RemovalCause::Evicted, false);
        }
    }

    /// Takes an item that lies in a full home out of the index. Prefers an item that may be evicted
    /// to one that [`Lifecycle::may_evict`](crate::Lifecycle::may_evict) refuses to give up. The
    /// caller retires the item.
    pub(crate) fn displace(&self, mut guard: BucketGuard<'_>) -> Option<ItemPtr> {
        let others = guard.home_slots().find(|slot| self.gives_way(guard.ptr(*slot)));
        let slot = others.or_else(|| guard.home_slots().next())?;
        let victim = guard.ptr(slot);
        let unindexed = self.arena.item(victim).0.state().unindex();
        guard.clear(slot);
        unindexed.then_some(victim)
    }

    /// Returns whether the item of an entry, whose bucket is locked, is gone or may be evicted.
    fn gives_way(&self, ptr: ItemPtr) -> bool {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the bucket that points to the item is locked, so its chunk is not used again
        // (invariant 2 of `Index`).
        unsafe {
            let hooks = self.class_of(info).hooks.as_deref();
            !item.state().is_indexed() || self.may_evict(hooks, ptr)
        }
    }

    /// Lets the index grow a little, if it is time.
    #[inline]
    pub(crate) fn grow_index(&self, hash: u64) {
        for ptr in self.displace_by_growth(hash) {
            self.finish_removal(ptr, RemovalCause::Evicted, false);
        }
    }

    /// Has the index begin to grow, after room was made for that on the bill. The caller holds no
    /// lock.
    #[cold]
    fn begin_growth(&self) -> bool {
        let expected = self.expected_entries();
        self.find_room(self.index.growth_bytes(expected));
        self.index.begin_growth(expected)
    }

    /// Moves more buckets than an insertion's share. Waits for a thread that is moving buckets.
    #[cold]
    fn grow_index_on(&self) {
        for ptr in self.move_buckets(BUCKETS_AT_ONCE, true) {
            self.finish_removal(ptr, RemovalCause::Evicted, false);
        }
    }

    /// Moves up to `buckets` buckets of a growing index. If another thread is moving buckets, waits
    /// for it if `waits` is true, and otherwise moves none. The caller retires the returned items,
    /// which found no place.
    fn move_buckets(&self, buckets: u32, waits: bool) -> Vec<ItemPtr> {
        // SAFETY: the index asks about items of buckets that it locked (invariant 2 of `Index`).
        let hash_of = |ptr| unsafe { self.hash_of_item(ptr) };
        let prefetch = |ptr| self.arena.item(ptr).0.prefetch();
        let mut dropped = if waits {
            self.index.grow_on(buckets, hash_of, prefetch)
        } else {
            self.index.grow(buckets, hash_of, prefetch)
        };
        dropped.retain(|ptr| self.arena.item(*ptr).0.state().unindex());
        dropped
    }

    /// [`Self::grow_index`], after which the caller retires those items that found no place in the
    /// index any more.
    #[inline]
    pub(crate) fn displace_by_growth(&self, hash: u64) -> Vec<ItemPtr> {
        self.displace_after(hash, || self.begin_growth())
    }

    /// The same for an item that another process left. No room is made on the bill: that would
    /// evict, and call hooks, which may wait for the recovery. Whoever adds the pool keeps the
    /// limit afterwards.
    pub(crate) fn displace_by_recovery(&self, hash: u64) -> Vec<ItemPtr> {
        self.displace_after(hash, || self.index.begin_growth(self.expected_entries()))
    }

    #[inline]
    fn displace_after(&self, hash: u64, begin_growth: impl FnOnce() -> bool) -> Vec<ItemPtr> {
        // One insertion in 64 asks.
        if hash >> 8 & 63 == 0 && self.index.wants_growth() {
            begin_growth();
        }
        if !self.index.is_growing() {
            return Vec::new();
        }
        self.move_buckets(BUCKETS_PER_INSERT, false)
    }
}

#[cfg(test)]
mod tests;

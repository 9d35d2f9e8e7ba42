//! Allocation of items: from a free chunk, a new slab, or an evicted item's place.
//!
//! `body` has the room that an item needs, `grow` gives a class more memory, and `metadata` has the
//! cost of chunks besides their own memory.

mod body;
mod grow;
mod metadata;

pub(crate) use body::{Body, check_key, layout_for};
pub(crate) use metadata::{LEAST_FOR_CHUNKS, metadata_of, metadata_x100_of};

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Part;
use slab::item::Fields;
use slab::item::link::CHAIN_BYTES;
use slab::{ItemPtr, Layout};

use crate::cache::{Cache, Core, no_such_pool};
use crate::class::{ALLOCATION_FAILURES, ALLOCATIONS, Class};
use crate::config::ItemOptions;
use crate::error::{Error, ErrorKind};
use crate::handle::WriteHandle;
use crate::long_lock::{Alone, CALLS_HOOK, SEARCHES};
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::rebalance::step_for;
use crate::release::{Taking, Why};
use crate::sizes::Sizes;
use crate::watch::{EventKind, EventResult, Timed, Wanted};

/// Number of times an allocation that finds nothing looks again after other threads took slabs from
/// classes, and how long it waits for that each time. Those threads may wait for items that this
/// very thread holds, so it does not wait for as long as they need.
const MOST_ROUNDS: u32 = 8;
const PATIENCE: Duration = Duration::from_millis(20);
/// Longest time that an allocation waits for those that look before it, in all.
const TURN: Duration = Duration::from_millis(200);
/// The part of the limit that classes take at most, besides their chunks, before items are put into
/// larger chunks instead.
const MOST_OF_CLASSES: u64 = 4;

impl Cache {
    /// Makes an item for `key` with room for `value_len` bytes. It is seen by nobody until it is
    /// inserted.
    ///
    /// Takes a free chunk of the smallest class that fits; where there is none, a new slab while
    /// the pool's limit and the cache's memory allow, and then the place of an item that is
    /// evicted. Locks the class. A class that has no slab takes one from another; if a thread is
    /// about that already, this one waits for it, for milliseconds; beside hundreds of others
    /// that find nothing either, for up to about half a second, besides what it waits for a
    /// processor.
    ///
    /// # Errors
    /// [`ErrorKind::KeyLength`], [`ErrorKind::TooLarge`], [`ErrorKind::NoSuchPool`];
    /// [`ErrorKind::OutOfMemory`] where nothing can be evicted.
    pub fn allocate(
        &self,
        pool: PoolId,
        key: &[u8],
        value_len: usize,
        options: &ItemOptions,
    ) -> Result<WriteHandle<'_>, Error> {
        self.core().make_item(pool, key, Body::Value(value_len), options)
    }
}

/// Checks that the key is valid and the pool exists.
///
/// # Errors
/// [`ErrorKind::KeyLength`] and [`ErrorKind::NoSuchPool`].
pub fn check_place(cache: &Cache, pool: PoolId, key: &[u8]) -> Result<(), Error> {
    check_key(key)?;
    cache.core().pool(pool).map(drop)
}

impl Core {
    /// Makes an item: see [`Cache::allocate`].
    pub(crate) fn make_item(
        &self,
        pool: PoolId,
        key: &[u8],
        body: Body,
        options: &ItemOptions,
    ) -> Result<WriteHandle<'_>, Error> {
        let pool = self.pool(pool)?;
        let hash = self.hash(self.keyspace(pool.keyspace), key);
        let wanted = self.watch.wants(hash);
        if wanted.any() {
            return self.allocate_watched(wanted, &pool, (key, hash), body, options);
        }
        self.allocate_unwatched(&pool, (key, hash), body, options)
    }

    #[inline(never)]
    fn allocate_watched(
        &self,
        wanted: Wanted,
        pool: &Pool,
        (key, hash): (&[u8], u64),
        body: Body,
        options: &ItemOptions,
    ) -> Result<WriteHandle<'_>, Error> {
        let stopwatch = self.watch.stopwatch(wanted, &self.clock);
        let made = self.allocate_unwatched(pool, (key, hash), body, options);
        self.watch.stop(stopwatch, &self.clock, Timed::Allocate, 1);
        match &made {
            Ok(item) => self.note(EventKind::Allocate, hash, item.found()),
            Err(_) if self.watch.samples(hash) => {
                let (refused, bytes) = (EventResult::Refused, Some(body.bytes() as u64));
                self.record_absent(EventKind::Allocate, refused, key, Some(pool.id()), bytes);
            }
            Err(_) => {}
        }
        made
    }

    fn allocate_unwatched(
        &self,
        pool: &Pool,
        (key, hash): (&[u8], u64),
        body: Body,
        options: &ItemOptions,
    ) -> Result<WriteHandle<'_>, Error> {
        check_key(key)?;
        let layout = layout_for(options);
        // A tail ends with its chunk.
        let chainable = match body {
            Body::Value(_) => options.chainable,
            Body::Tail(_) => false,
            Body::Long => true,
        };
        let ends = if chainable { CHAIN_BYTES } else { 0 };
        let bytes = body.item_bytes(layout, key.len(), ends);
        let sizes = pool.sizes();
        let place = sizes.place_within(bytes, body.value_len().is_some(), pool)?;
        let value_len = body.value_len().unwrap_or(0);
        let keyspace = self.keyspace(pool.keyspace);
        // Its bucket is needed when the item is inserted, after the value was written.
        self.index.prefetch(hash);
        let ptr = self.take_chunk(pool, sizes, place)?;
        let now = self.now();
        let fields = Fields {
            layout,
            created: keyspace.stamp(now),
            expiry: options.expiry.to_unix_secs(|| now),
            cas: options.tag.map_or(0, |tag| tag.cas),
            client_flags: options.tag.map_or(options.client_flags, |tag| tag.client_flags),
        };
        let (item, info) = self.arena.item(ptr);
        assert!(bytes <= info.chunk_bytes as usize, "a chunk is at least as long as its item");
        // SAFETY: this thread owns a chunk of the run, so that pool and class are there (invariants
        // 1 and 2 of `pools`).
        unsafe { self.class_of(info) }.counters.add(ALLOCATIONS, 1);
        item.state().begin();
        // SAFETY: the chunk was ready, so that this thread owns it and nobody reads what it held
        // (invariant 1 of `magazine`); it is of a class that `bytes` fits into.
        unsafe {
            item.init(&fields, key, value_len);
            if chainable {
                item.init_chain();
            }
        }
        if options.user_bits != 0 {
            item.state().set_user_bits(options.user_bits);
        }
        Ok(WriteHandle::new(self, (ptr, item), hash))
    }

    /// The longest tail that an item of the pool with such a key may have, in bytes.
    pub(crate) fn largest_tail(&self, pool: PoolId, key_len: usize) -> Result<usize, Error> {
        let largest = self.pool(pool)?.sizes().sizes().last().copied().unwrap_or(0) as usize;
        Ok(largest.saturating_sub(Layout::Expiring.tailed_item_bytes(key_len, 0)))
    }

    /// A chunk of the class, owned by the caller; or, where the class has no slab and none can be
    /// had for it, a chunk of a larger class. Where another thread is taking a slab from a class,
    /// waits for that rather than fail.
    pub(crate) fn take_chunk(&self, pool: &Pool, sizes: &Sizes, place: usize) -> Result<ItemPtr, Error> {
        if self.arena.is_parted() {
            let context = "this process was forked from the one that has the cache: open another one here";
            return Err(Error::new(ErrorKind::System, context));
        }
        self.keep_room();
        let place = self.place_with_room(pool, sizes, place)?;
        let class = self.class_at(pool, sizes, place);
        if class.is_starved.load(Ordering::Relaxed) {
            self.feed(pool, class);
        } else if class.is_used_up.load(Ordering::Relaxed) {
            self.take_vacant_before_eviction(pool, class);
        }
        match self.take_from_class(pool, class) {
            Some(ptr) => Ok(ptr),
            None => self.take_chunk_elsewhere(pool, sizes, place),
        }
    }

    /// [`Self::take_chunk`] for a class that had none at once.
    #[cold]
    fn take_chunk_elsewhere(&self, pool: &Pool, sizes: &Sizes, place: usize) -> Result<ItemPtr, Error> {
        let mut turn = TURN;
        for round in 0..MOST_ROUNDS {
            let before = pool.holding();
            if let Some(ptr) = self.take_chunk_in_turn(pool, sizes, place, &mut turn) {
                return Ok(ptr);
            }
            // This thread may be the one that takes the memory away.
            if CALLS_HOOK.get() {
                break;
            }
            pool.wait_for_resizing(before, PATIENCE);
            let is_given = self.wait_for_giver(pool, PATIENCE);
            // What others took for the pool, others again may have used.
            let has_moved = round == 0 || pool.holding() != before;
            let is_late = round > 0 && turn.is_zero();
            if is_late || !is_given && !has_moved {
                break;
            }
        }
        // What no pool has claimed yet may be all the memory.
        if self.discard_unclaimed() > base::ByteSize::new(0)
            && let Some(ptr) = self.try_take_chunk(pool, sizes, place)
        {
            return Ok(ptr);
        }
        if let Some(class) = pool.used_class(sizes.number(place)) {
            class.counters.add(ALLOCATION_FAILURES, 1);
        }
        Err(no_chunk(pool, sizes, place))
    }

    /// [`Self::try_take_chunk`], by one thread at a time in a pool: others would be in its way, and
    /// what it gets may serve them as well. Waits for that for `turn` at most, from which the wait
    /// is subtracted, and then looks although another thread does.
    fn take_chunk_in_turn(
        &self,
        pool: &Pool,
        sizes: &Sizes,
        place: usize,
        turn: &mut Duration,
    ) -> Option<ItemPtr> {
        let alone = if CALLS_HOOK.get() { None } else { Alone::enter(&SEARCHES) };
        let _turn = alone.as_ref().and_then(|_| pool.searching.lock_spending(turn));
        self.try_take_chunk(pool, sizes, place)
    }

    /// The place of the class to allocate from. A class that is not there yet takes memory besides
    /// its chunks: if all that is not slabs would become a large part of the limit, chunks of the
    /// next larger class that has some serve as well.
    #[inline]
    fn place_with_room(&self, pool: &Pool, sizes: &Sizes, place: usize) -> Result<usize, Error> {
        if pool.used_class(sizes.number(place)).is_some() {
            return Ok(place);
        }
        self.place_for_new(pool, sizes, place)
    }

    #[cold]
    fn place_for_new(&self, pool: &Pool, sizes: &Sizes, place: usize) -> Result<usize, Error> {
        // A class without chunks may be there for a value that was refused.
        let has_chunks = |place: &usize| {
            let class = pool.used_class(sizes.number(*place));
            class.is_some_and(|class| class.inner.lock().chunks.run_count() > 0)
        };
        if !self.has_room_for_class(pool, MOST_OF_CLASSES)
            && let Some(larger) = (place + 1..sizes.sizes().len()).find(has_chunks)
        {
            return Ok(larger);
        }
        if !self.has_room_for_class(pool, LEAST_FOR_CHUNKS) {
            self.retire_idle_classes();
            if !self.has_room_for_class(pool, LEAST_FOR_CHUNKS)
                && !self.give_up_class(pool)
                && self.is_full_of_classes(pool)
            {
                return Err(no_chunk(pool, sizes, place));
            }
        }
        let bytes = Class::bytes_with(pool.policy());
        if self.ledger.free() < bytes {
            self.find_room(bytes + self.spare_bytes());
        }
        if self.ledger.free() < bytes { Err(no_chunk(pool, sizes, place)) } else { Ok(place) }
    }

    /// Returns whether the pool has classes, and all that is not chunks would take over three
    /// quarters of the limit with one more: a quarter is for chunks, whatever keeps classes that
    /// have left from being freed.
    fn is_full_of_classes(&self, pool: &Pool) -> bool {
        pool.used_classes().next().is_some() && !self.leaves_room_for_chunks(Class::bytes_with(pool.policy()))
    }

    /// Returns whether a quarter of the limit is left to chunks if `bytes` more are spent on
    /// something else.
    pub(crate) fn leaves_room_for_chunks(&self, bytes: u64) -> bool {
        self.bytes_besides_chunks() + bytes <= self.ledger.limit() / 4 * 3
    }

    /// The memory of size classes, queues and all else that is not chunks, in bytes.
    fn bytes_besides_chunks(&self) -> u64 {
        self.ledger.part(Part::Fixed) + self.ledger.part(Part::Queues)
    }

    /// Returns what all that is not chunks would take with one more class of the pool, in bytes.
    fn class_bytes_with(&self, pool: &Pool) -> u64 {
        self.bytes_besides_chunks() + Class::bytes_with(pool.policy())
    }

    /// Returns whether all that is not chunks would take no more than this part of the limit with
    /// one more class of the pool, once classes that have left are freed.
    pub(crate) fn has_room_for_class(&self, pool: &Pool, part: u64) -> bool {
        self.class_bytes_with(pool) <= self.ledger.limit() / part + self.pools.retired_class_bytes()
    }

    fn try_take_chunk(&self, pool: &Pool, sizes: &Sizes, place: usize) -> Option<ItemPtr> {
        // It may have left meanwhile.
        let place = self.place_with_room(pool, sizes, place).ok()?;
        let class = self.class_at(pool, sizes, place);
        // What other threads have in store may be all there is.
        self.empty_magazines(class);
        if let Some(ptr) = self.take_from_class(pool, class) {
            return Some(ptr);
        }
        if self.take_vacant(pool, class)
            && let Some(ptr) = self.take_from_class(pool, class)
        {
            return Some(ptr);
        }
        if self.reclaim_for(pool, class)
            && let Some(ptr) = self.take_from_class(pool, class)
        {
            return Some(ptr);
        }
        // Memory that is free may lie apart: then it is brought together.
        let least = class.least_bytes();
        if pool.has_room_for(least)
            && self.arena.free_unit_bytes() >= 2 * least
            && self.empty_split_slab(&mut Taking::new(Why::Moved, 0))
            && let Some(ptr) = self.take_from_class(pool, class)
        {
            return Some(ptr);
        }
        // The class has nothing to evict: typically it has no memory at all while other classes
        // have it all. A class with several runs can spare one; else a chunk of a larger class
        // serves; a class's only run is taken last.
        if let Some(ptr) = self.take_after_move(pool, class, 2) {
            return Some(ptr);
        }
        let larger =
            (place + 1..sizes.sizes().len()).filter_map(|place| pool.used_class(sizes.number(place)));
        larger
            .filter(|larger| larger.inner.lock().chunks.run_count() > 0)
            .find_map(|larger| self.take_from_class(pool, larger))
            .or_else(|| self.insist_on_run(pool, class).then(|| self.take_from_class(pool, class)).flatten())
    }

    /// A chunk of the class after a run was taken from another class that has at least
    /// `least_runs`.
    fn take_after_move(&self, pool: &Pool, class: &Class, least_runs: usize) -> Option<ItemPtr> {
        let bytes = step_for(pool.slab_bytes());
        self.move_within_pool(pool, class, least_runs, bytes)
            .then(|| self.take_from_class(pool, class))
            .flatten()
    }
}

/// Error of an allocation that finds no chunk of the size at `place`. The failure is noted in
/// the pool, unless it is being removed and thus has no memory any more.
fn no_chunk(pool: &Pool, sizes: &Sizes, place: usize) -> Error {
    if pool.is_leaving() {
        return no_such_pool(pool.id());
    }
    pool.upkeep.note_failure();
    let context =
        format!("pool `{}` has no chunk of {} bytes and nothing to evict", pool.name, sizes.sizes()[place]);
    Error::new(ErrorKind::OutOfMemory, context)
}

#[cfg(test)]
mod tests;

//! Making items: from a free chunk, a new slab, or an evicted item's place.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Part;
use evict::PolicyKind;
use index::Index;
use slab::item::link::CHAIN_BYTES;
use slab::item::{Fields, MAX_KEY_BYTES, MAX_VALUE_BYTES, TAILED};
use slab::run::{UNIT_BYTES, UNIT_TABLE_BYTES, UNITS, least_units, units_to_grow};
use slab::{ItemPtr, Layout, Run, SLAB_BYTES, SlabInfo};

use crate::cache::{Cache, Core, PoolId, no_such_pool};
use crate::class::{ALLOCATION_FAILURES, ALLOCATIONS, Class, Inner, RUNS_ADDED};
use crate::config::{Expiry, ItemOptions};
use crate::error::{Error, ErrorKind};
use crate::handle::WriteHandle;
use crate::pool::Pool;
use crate::rebalance::step_for;
use crate::release::{Taking, Why};
use crate::sizes::Sizes;
use crate::watch::{EventKind, EventResult, Timed, Wanted};

/// How often an allocation that finds nothing looks again after other threads took slabs from
/// classes, and how long it waits for that each time. They may wait for items that this very thread
/// holds, so it is not for as long as they need.
const MOST_ROUNDS: u32 = 8;
const PATIENCE: Duration = Duration::from_millis(20);
/// The part of the limit that classes take at most, besides their chunks, before items are put into
/// larger chunks instead.
const MOST_OF_CLASSES: u64 = 4;
/// The part of the limit that classes leave to chunks: a change of policy and a restart at least,
/// allocations as far as a pool can give up a class for another.
pub(crate) const LEAST_FOR_CHUNKS: u64 = 2;

impl Cache {
    /// Makes an item for `key` with room for `value_len` bytes. It is seen by nobody until it is
    /// inserted.
    ///
    /// Takes a free chunk of the smallest class that fits; where there is none, a new slab while
    /// the pool's limit and the cache's memory allow, and then the place of an item that is
    /// evicted. Locks the class. A class that has no slab takes one from another; if a thread is
    /// about that already, this one waits for it, for milliseconds.
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

/// What an item has behind its key.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// A value of this many bytes.
    Value(usize),
    /// A tail of at least this many bytes (invariant 6 of `slab::item`).
    Tail(usize),
    /// A long value, in links.
    Long,
}

impl Body {
    /// Bytes behind the key.
    fn bytes(self) -> usize {
        match self {
            Self::Value(bytes) | Self::Tail(bytes) => bytes,
            Self::Long => 0,
        }
    }

    /// Bytes of a chunk that an item needs, `ends` bytes for a chain among them; as many as there
    /// are numbers for where there is no such item.
    fn item_bytes(self, layout: Layout, key_len: usize, ends: usize) -> usize {
        let around = match self {
            Self::Value(_) | Self::Long => layout.item_bytes(key_len, 0),
            Self::Tail(_) => layout.tailed_item_bytes(key_len, 0),
        };
        self.bytes().saturating_add(around + ends)
    }

    /// The length of the value that stands in the header; `None`: no header has room for it.
    fn value_len(self) -> Option<usize> {
        match self {
            Self::Value(len) => (len <= MAX_VALUE_BYTES).then_some(len),
            Self::Tail(_) | Self::Long => Some(TAILED),
        }
    }
}

/// # Errors
/// [`ErrorKind::KeyLength`].
pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let context = format!("a key of {} bytes: keys have 1 to {MAX_KEY_BYTES}", key.len());
        return Err(Error::new(ErrorKind::KeyLength, context));
    }
    Ok(())
}

pub(crate) fn layout_for(options: &ItemOptions) -> Layout {
    match options.tag {
        Some(_) => Layout::Tagged,
        None if options.client_flags != 0 => Layout::Flagged,
        None if options.expirable || options.chainable || options.expiry != Expiry::Never => Layout::Expiring,
        None => Layout::Plain,
    }
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
        // SAFETY: this thread owns a chunk of the slab.
        unsafe { self.class_of(info) }.counters.add(ALLOCATIONS, 1);
        item.state().begin();
        // SAFETY: the chunk was taken from the free list or from an evicted item, so this thread
        // owns it; it is of a class that `bytes` fits into.
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
        }
        match self.take_from_class(pool, class) {
            Some(ptr) => Ok(ptr),
            None => self.take_chunk_elsewhere(pool, sizes, place),
        }
    }

    /// [`Self::take_chunk`] for a class that had none at once.
    #[cold]
    fn take_chunk_elsewhere(&self, pool: &Pool, sizes: &Sizes, place: usize) -> Result<ItemPtr, Error> {
        for round in 0..MOST_ROUNDS {
            let before = (pool.slabs_moved.load(Ordering::Relaxed), pool.slab_bytes());
            if let Some(ptr) = self.try_take_chunk(pool, sizes, place) {
                return Ok(ptr);
            }
            let is_over = pool.resizing.try_lock_for(PATIENCE).is_some();
            let is_given = self.wait_for_giver(pool, PATIENCE);
            // What others took for the pool, others again may have used.
            let has_moved =
                round == 0 || (pool.slabs_moved.load(Ordering::Relaxed), pool.slab_bytes()) != before;
            if !(is_given || is_over && has_moved) {
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

    /// Whether all that is not chunks would take over three quarters of the limit with one more
    /// class of the pool, which has some: a quarter is for chunks, whoever keeps classes that have
    /// left from being freed.
    fn is_full_of_classes(&self, pool: &Pool) -> bool {
        pool.used_classes().next().is_some() && !self.leaves_room_for_chunks(Class::bytes_with(pool.policy()))
    }

    /// Whether a quarter of the limit is left to chunks if so many bytes more are spent on
    /// something else.
    pub(crate) fn leaves_room_for_chunks(&self, bytes: u64) -> bool {
        self.bytes_besides_chunks() + bytes <= self.ledger.limit() / 4 * 3
    }

    /// The memory of size classes, queues and all else that is not chunks, in bytes.
    fn bytes_besides_chunks(&self) -> u64 {
        self.ledger.part(Part::Fixed) + self.ledger.part(Part::Queues)
    }

    /// What all that is not chunks would take with one more class of the pool, in bytes.
    fn class_bytes_with(&self, pool: &Pool) -> u64 {
        self.bytes_besides_chunks() + Class::bytes_with(pool.policy())
    }

    /// Whether all that is not chunks would take no more than this part of the limit with one more
    /// class of the pool, once classes that have left are freed.
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

    /// Whether a class that got no run may get one by [`Self::feed`].
    pub(crate) fn could_have_more(&self, pool: &Pool, inner: &Inner) -> bool {
        // Most classes have more than moves at a time, and need not be told what that is of the
        // pool's classes.
        let has = inner.chunks.bytes();
        (has < step_for(pool.slab_bytes()) && has < pool.least_share())
            || pool.has_room_for(UNIT_BYTES as u64) && self.arena.free_unit_bytes() >= SLAB_BYTES as u64
    }

    /// Gives a class that evicts more memory. If free units that make a slab lie apart, for which
    /// there is no metadata, they are brought together and their slab given back, for runs and
    /// metadata as they come. Else a class is brought up to its least share of the pool
    /// ([`Pool::least_share`]): while there is memory, classes grow with what is stored in them;
    /// one that comes to have many items later would go on with the little that it had until then.
    #[cold]
    fn feed(&self, pool: &Pool, class: &Class) {
        class.is_starved.store(false, Ordering::Relaxed);
        let has = class.inner.lock().chunks.bytes();
        let lacking = pool.least_share().saturating_sub(has);
        let idle = self.arena.free_unit_bytes();
        let Some(turn) = pool.turn_to_move(lacking.max(UNIT_BYTES as u64)) else { return };
        if idle >= SLAB_BYTES as u64 && self.bring_together() {
            pool.note_move(turn);
        } else if lacking > 0 {
            // There may be no room for metadata besides. What gives it is free units, or a slab if
            // those keep their memory.
            let metadata = metadata_of(lacking / u64::from(class.info.chunk_bytes), pool.policy());
            let has_room = self.ledger.total() + self.metadata_to_come() + metadata <= self.ledger.limit();
            let bytes = if has_room {
                lacking
            } else if self.arena.has_bare_units() {
                lacking + metadata
            } else {
                step_for(pool.slab_bytes())
            };
            self.move_within_pool(pool, class, 2, bytes);
        }
    }

    /// Gives the class one more run of chunks, if the pool's limit and the cache's memory allow: as
    /// much as fits the memory that it has and what is left, or else less.
    pub(crate) fn add_run(&self, pool: &Pool, class: &Class, inner: &mut Inner) -> bool {
        if inner.is_gone || inner.leaving.is_some() || !inner.chunks.has_room_for_run() {
            return false;
        }
        let info = inner.chunks.info();
        let least = least_units(info.chunk_bytes);
        let free = self.ledger.free().saturating_sub(self.metadata_to_come()) + self.arena.free_unit_bytes();
        let wanted = units_to_grow(info.chunk_bytes, inner.chunks.bytes(), free.min(pool.room_bytes()));
        let mut units = wanted;
        loop {
            if let Some(run) = self.take_run(pool, info, units, inner.policy.kind()) {
                self.adopt_run(class, inner, run);
                return true;
            }
            if units == least {
                break;
            }
            units = (units / 2).max(least);
        }
        if pool.has_room_for(u64::from(least) * UNIT_BYTES as u64) {
            self.note_short(pool);
        } else {
            pool.set_wants_memory(false);
        }
        false
    }

    /// Gives the class a run of units that are free in split slabs, whatever the cache's limit:
    /// they are on the bill already.
    pub(crate) fn add_units(&self, pool: &Pool, class: &Class, inner: &mut Inner, units: u32) -> bool {
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        if inner.is_gone || !inner.chunks.has_room_for_run() || !pool.try_add(bytes) {
            return false;
        }
        let Some(run) = self.arena.assign_units(class.info, units) else {
            pool.remove(bytes);
            return false;
        };
        let chunks = u64::from(run.chunks(class.info));
        self.add_chunks(chunks, inner.policy.kind());
        self.adopt_run(class, inner, run);
        true
    }

    /// Gives the class a run that was assigned to it.
    fn adopt_run(&self, class: &Class, inner: &mut Inner, run: Run) {
        inner.chunks.add_run(&self.arena, run);
        class.counters.add(RUNS_ADDED, 1);
        class.note_chunks(inner);
        inner.settle(self);
    }

    /// Gives the class memory that was taken from another, as far as that is to be had. Returns how
    /// much it got, in bytes.
    pub(crate) fn grow(&self, pool: &Pool, class: &Class, bytes: u64) -> u64 {
        let mut inner = class.inner.lock();
        let had = inner.chunks.bytes();
        while inner.chunks.bytes() < had + bytes && self.add_run(pool, class, &mut inner) {}
        inner.chunks.bytes() - had
    }

    /// A run of so many units for a class of the pool, if its limits, the cache's memory and the
    /// units that are free in a row allow.
    fn take_run(&self, pool: &Pool, info: SlabInfo, units: u32, policy: PolicyKind) -> Option<Run> {
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        if !pool.try_add(bytes) {
            return None;
        }
        let chunks = u64::from(bytes as u32 / info.chunk_bytes);
        let metadata = metadata_of(chunks, policy);
        let run = if units == UNITS {
            self.take_slab(info, metadata)
        } else {
            self.take_units(info, units, metadata)
        };
        match run {
            Some(_) => self.add_chunks(chunks, policy),
            None => pool.remove(bytes),
        }
        run
    }

    /// A whole slab, with room for the metadata of its items.
    fn take_slab(&self, info: SlabInfo, metadata: u64) -> Option<Run> {
        if !self.charge_slabs(SLAB_BYTES as u64, metadata) {
            return None;
        }
        let run = self.arena.assign(info);
        if run.is_none() {
            self.ledger.release(Part::Slabs, SLAB_BYTES as u64);
        }
        run
    }

    /// Units of a split slab, of one more if those that there are have not as many in a row. If
    /// there is no memory for a whole slab, all units of the new one but these are bare.
    fn take_units(&self, info: SlabInfo, units: u32, metadata: u64) -> Option<Run> {
        if !self.charge_slabs(0, metadata) {
            return None;
        }
        if let Some(run) = self.arena.assign_units(info, units) {
            return Some(run);
        }
        if let Some(run) = self.take_bare_units(info, units, metadata) {
            return Some(run);
        }
        if self.ledger.free() >= SLAB_BYTES as u64 && self.charge_slabs(SLAB_BYTES as u64, metadata) {
            if self.arena.split() {
                return self.arena.assign_units(info, units);
            }
            self.ledger.release(Part::Slabs, SLAB_BYTES as u64);
        }
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        if !self.charge_slabs(bytes + UNIT_TABLE_BYTES as u64, metadata) {
            return None;
        }
        let Some(slab) = self.arena.split_bare() else {
            self.ledger.release(Part::Slabs, bytes + UNIT_TABLE_BYTES as u64);
            return None;
        };
        let run = self.assign_charged_units(info, units);
        // Another slab may have had a shorter row by now.
        self.ledger.release(Part::Slabs, self.arena.give_back_if_empty(slab));
        run
    }

    /// Units of a split slab that has bare ones.
    fn take_bare_units(&self, info: SlabInfo, units: u32, metadata: u64) -> Option<Run> {
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        if self.arena.bare_bytes() == 0 || !self.charge_slabs(bytes, metadata) {
            return None;
        }
        self.assign_charged_units(info, units)
    }

    /// Units that may be bare, all of which were charged. Those that have memory are on the bill
    /// already.
    fn assign_charged_units(&self, info: SlabInfo, units: u32) -> Option<Run> {
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        let assigned = self.arena.assign_bare_units(info, units);
        let spent = assigned.map_or(0, |(_, bytes)| bytes);
        self.ledger.release(Part::Slabs, bytes - spent);
        assigned.map(|(run, _)| run)
    }

    /// Puts memory of slabs on the bill, if there is room for it and for metadata to come, or if
    /// that is to be had from free units.
    fn charge_slabs(&self, bytes: u64, metadata: u64) -> bool {
        let headroom = || self.metadata_to_come() + metadata;
        let charge = || self.ledger.try_charge(Part::Slabs, bytes, headroom());
        if charge() {
            return true;
        }
        let before = self.retired_runs.count();
        if before > 0 && self.free_retired_runs() < before && charge() {
            return true;
        }
        let needed = self.ledger.total() + bytes + headroom();
        let lacking = needed.saturating_sub(self.ledger.limit());
        lacking <= self.arena.free_unit_bytes() && self.release_free_units(lacking) > 0 && charge()
    }

    /// Gives memory of free units back to the system, about so many bytes. Returns how many.
    pub(crate) fn release_free_units(&self, bytes: u64) -> u64 {
        let released = self.arena.release_units(bytes);
        self.ledger.release(Part::Slabs, released);
        released
    }

    /// Notes that there was no memory for a run of the pool.
    fn note_short(&self, pool: &Pool) {
        pool.set_wants_memory(true);
        self.is_short.store(true, Ordering::Release);
    }

    /// Memory that queues, ghosts and index will yet take when all chunks are in use, and what is
    /// kept spare.
    pub(crate) fn metadata_to_come(&self) -> u64 {
        let index = Index::bytes_for(self.chunks.load(Ordering::Relaxed));
        let index = index.saturating_sub(self.ledger.part(Part::Index));
        self.awaited_bytes.load(Ordering::Relaxed) + index + self.spare_bytes()
    }

    /// How many entries the index will hold when the cache is full, if its slabs go on being used
    /// as they are.
    pub(crate) fn expected_entries(&self) -> u64 {
        let chunks = self.chunks.load(Ordering::Relaxed);
        let metadata = self.metadata_x100.load(Ordering::Relaxed) / 100;
        let slabs = self.ledger.part(Part::Slabs).max(1);
        let spent = slabs + metadata;
        let others = [Part::Fixed, Part::Connections, Part::Compact]
            .iter()
            .map(|part| self.ledger.part(*part))
            .sum::<u64>();
        let all = self.ledger.limit().saturating_sub(others).max(spent);
        (chunks as u128 * all as u128 / spent as u128) as u64
    }
}

/// Error of an allocation that finds no chunk of the size at `place`. The pool is told of the
/// failure, unless it is being removed and thus has no memory any more.
fn no_chunk(pool: &Pool, sizes: &Sizes, place: usize) -> Error {
    if pool.is_leaving() {
        return no_such_pool(pool.id());
    }
    pool.upkeep.note_failure();
    let context =
        format!("pool `{}` has no chunk of {} bytes and nothing to evict", pool.name, sizes.sizes()[place]);
    Error::new(ErrorKind::OutOfMemory, context)
}

/// Memory that queues, ghosts and index take for this many chunks, in bytes.
pub(crate) fn metadata_of(chunks: u64, policy: PolicyKind) -> u64 {
    metadata_x100_of(chunks, policy).div_ceil(100)
}

/// The same in hundredths of a byte.
pub(crate) fn metadata_x100_of(chunks: u64, policy: PolicyKind) -> u64 {
    chunks * (policy.bytes_per_item_x100() + Index::BYTES_PER_ENTRY_X100)
}

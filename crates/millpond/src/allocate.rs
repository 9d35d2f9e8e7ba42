//! Making items: from a free chunk, a new slab, or an evicted item's place.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Part;
use evict::PolicyKind;
use index::Index;
use slab::item::link::CHAIN_BYTES;
use slab::item::{Fields, MAX_KEY_BYTES, MAX_VALUE_BYTES, TAILED};
use slab::{ItemPtr, Layout, SLAB_BYTES, SlabInfo};

use crate::cache::{Cache, Core, PoolId};
use crate::class::{ALLOCATION_FAILURES, ALLOCATIONS, Class, Inner, SLABS_ADDED};
use crate::config::{Expiry, ItemOptions};
use crate::error::{Error, ErrorKind};
use crate::handle::WriteHandle;
use crate::pool::Pool;
use crate::sizes::Sizes;
use crate::watch::{EventKind, EventResult, Timed, Wanted};

/// How often an allocation that finds nothing looks again after other threads took slabs from classes, and how long it waits for
/// that each time. They may wait for items that this very thread holds, so it is not for as long as they need.
const MOST_ROUNDS: u32 = 8;
const PATIENCE: Duration = Duration::from_millis(20);

impl Cache {
    /// Makes an item for `key` with room for `value_len` bytes. It is seen by nobody until it is inserted.
    ///
    /// Takes a free chunk of the smallest class that fits; where there is none, a new slab while the pool's limit and
    /// the cache's memory allow, and then the place of an item that is evicted. Locks the class. A class that has no slab takes one from
    /// another; if a thread is about that already, this one waits for it, for milliseconds.
    ///
    /// # Errors
    /// [`ErrorKind::KeyLength`], [`ErrorKind::TooLarge`], [`ErrorKind::NoSuchPool`]; [`ErrorKind::OutOfMemory`] where
    /// nothing can be evicted.
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
}

impl Body {
    /// Bytes behind the key.
    fn bytes(self) -> usize {
        match self {
            Self::Value(bytes) | Self::Tail(bytes) => bytes,
        }
    }

    fn item_bytes(self, layout: Layout, key_len: usize) -> usize {
        match self {
            Self::Value(len) => layout.item_bytes(key_len, len),
            Self::Tail(bytes) => layout.tailed_item_bytes(key_len, bytes),
        }
    }

    /// The length of the value that stands in the header; `None`: no header has room for it.
    fn value_len(self) -> Option<usize> {
        match self {
            Self::Value(len) => (len <= MAX_VALUE_BYTES).then_some(len),
            Self::Tail(_) => Some(TAILED),
        }
    }
}

pub(crate) fn layout_for(options: &ItemOptions) -> Layout {
    match options.tag {
        Some(tag) if tag.client_flags != 0 => Layout::TaggedWithFlags,
        Some(_) => Layout::Tagged,
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
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            let context = format!("a key of {} bytes: keys have 1 to {MAX_KEY_BYTES}", key.len());
            return Err(Error::new(ErrorKind::KeyLength, context));
        }
        let layout = layout_for(options);
        // A tail ends with its chunk.
        let chainable = options.chainable && matches!(body, Body::Value(_));
        let ends = if chainable { CHAIN_BYTES } else { 0 };
        let bytes = body.item_bytes(layout, key.len()) + ends;
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
            client_flags: options.tag.map_or(0, |tag| tag.client_flags),
        };
        let (item, info) = self.arena.item(ptr);
        assert!(bytes <= info.chunk_bytes as usize, "a chunk is at least as long as its item");
        // SAFETY: this thread owns a chunk of the slab.
        unsafe { self.class_of(info) }.counters.add(ALLOCATIONS, 1);
        item.state().begin();
        // SAFETY: the chunk was taken from the free list or from an evicted item, so this thread owns it; it is of a
        // class that `bytes` fits into.
        unsafe {
            item.init(&fields, key, value_len);
            if chainable {
                item.init_chain();
            }
        }
        if options.user_bits != 0 {
            item.state().set_user_bits(options.user_bits);
        }
        Ok(WriteHandle::new(self, ptr, hash))
    }

    /// The longest tail that an item of the pool with such a key may have, in bytes.
    pub(crate) fn largest_tail(&self, pool: PoolId, key_len: usize) -> Result<usize, Error> {
        let largest = self.pool(pool)?.sizes().sizes().last().copied().unwrap_or(0) as usize;
        Ok(largest.saturating_sub(Layout::Expiring.tailed_item_bytes(key_len, 0)))
    }

    /// A chunk of the class, owned by the caller; or, where the class has no slab and none can be had for it, a chunk
    /// of a larger class. Where another thread is taking a slab from a class, waits for that rather than fail.
    pub(crate) fn take_chunk(&self, pool: &Pool, sizes: &Sizes, place: usize) -> Result<ItemPtr, Error> {
        let class = self.class_at(pool, sizes, place);
        for round in 0..MOST_ROUNDS {
            let moves = pool.slabs_moved.load(Ordering::Relaxed);
            if let Some(ptr) = self.try_take_chunk(pool, sizes, place) {
                return Ok(ptr);
            }
            let is_over = pool.resizing.try_lock_for(PATIENCE).is_some();
            if !is_over || (round > 0 && pool.slabs_moved.load(Ordering::Relaxed) == moves) {
                break;
            }
        }
        class.counters.add(ALLOCATION_FAILURES, 1);
        Err(Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "pool `{}` has no chunk of {} bytes and nothing to evict",
                pool.name,
                sizes.sizes()[place]
            ),
        ))
    }

    fn try_take_chunk(&self, pool: &Pool, sizes: &Sizes, place: usize) -> Option<ItemPtr> {
        let class = self.class_at(pool, sizes, place);
        if let Some(ptr) = self.take_from_class(pool, class) {
            return Some(ptr);
        }
        // What other threads have in store may be all there is.
        self.empty_magazines(class);
        if let Some(ptr) = self.take_from_class(pool, class) {
            return Some(ptr);
        }
        if self.reclaim_for(pool)
            && let Some(ptr) = self.take_from_class(pool, class)
        {
            return Some(ptr);
        }
        // The class has nothing to evict: typically it has no slab at all while other classes have them all. A class
        // with several can spare one; else a chunk of a larger class serves; a class's only slab is taken last.
        if let Some(ptr) = self.take_after_move(pool, class, 2) {
            return Some(ptr);
        }
        let larger =
            (place + 1..sizes.sizes().len()).filter_map(|place| pool.used_class(sizes.number(place)));
        larger
            .filter(|larger| larger.inner.lock().chunks.slab_count() > 0)
            .find_map(|larger| self.take_from_class(pool, larger))
            .or_else(|| self.take_after_move(pool, class, 1))
    }

    /// A chunk of the class after a slab was taken from another class that has at least `least_slabs`.
    fn take_after_move(&self, pool: &Pool, class: &Class, least_slabs: usize) -> Option<ItemPtr> {
        self.move_slab_within_pool(pool, class, least_slabs)
            .then(|| self.take_from_class(pool, class))
            .flatten()
    }

    /// Gives the class one more slab, if the pool's limit and the cache's memory allow.
    pub(crate) fn add_slab(&self, pool: &Pool, class: &Class, inner: &mut Inner) -> bool {
        if inner.leaving.is_some() || !inner.chunks.has_room_for_slab() {
            return false;
        }
        if !pool.try_add_slab() {
            pool.set_wants_slab(pool.has_room_for_slab());
            return false;
        }
        let info = inner.chunks.info();
        let (chunks, metadata) = metadata_of_slab(info, pool.policy());
        if !self.ledger.try_charge(Part::Slabs, SLAB_BYTES as u64, self.metadata_to_come() + metadata) {
            pool.remove_slab();
            pool.set_wants_slab(true);
            return false;
        }
        let Some(slab) = self.arena.assign(info) else {
            self.ledger.release(Part::Slabs, SLAB_BYTES as u64);
            pool.remove_slab();
            return false;
        };
        self.add_chunks(chunks, metadata);
        inner.chunks.add_slab(&self.arena, slab);
        class.counters.add(SLABS_ADDED, 1);
        class.note_slabs(inner);
        true
    }

    /// Memory that queues, ghosts and index will yet take when all chunks are in use.
    pub(crate) fn metadata_to_come(&self) -> u64 {
        let expected = self.metadata_bytes.load(Ordering::Relaxed);
        let spent =
            [Part::Index, Part::Queues, Part::Ghosts].iter().map(|part| self.ledger.part(*part)).sum();
        expected.saturating_sub(spent)
    }

    /// How many entries the index will hold when the cache is full, if its slabs go on being used as they are.
    pub(crate) fn expected_entries(&self) -> u64 {
        let chunks = self.chunks.load(Ordering::Relaxed);
        let metadata = self.metadata_bytes.load(Ordering::Relaxed);
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

/// Chunks of a slab, and the memory that queues, ghosts and index take for them, in bytes.
pub(crate) fn metadata_of_slab(info: SlabInfo, policy: PolicyKind) -> (u64, u64) {
    let chunks = u64::from(info.chunks_per_slab());
    let index = Index::bytes_for(chunks);
    (chunks, chunks * policy.bytes_per_item_x100() / 100 + index)
}

//! Evicted items on their way to the cache beneath.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Secondary;
use crate::cache::{Cache, Core};
use crate::handle::ReadHandle;
use crate::lifecycle::RemovedItem;
use crate::owned::OwnedHandle;
use crate::pools::MAX_POOLS;

/// The part of a cache's memory, and of a pool's, that held items may take: one byte in 16.
const SHARE: u64 = 16;

/// An evicted item that is handed down, for as long as [`super::SecondaryCache::insert`] is shown
/// it.
#[derive(Clone, Copy, Debug)]
pub struct DemotedItem<'a> {
    item: RemovedItem<'a>,
    outgoing: &'a Outgoing,
}

impl<'a> DemotedItem<'a> {
    pub(super) fn new(item: RemovedItem<'a>, outgoing: &'a Outgoing) -> Self {
        Self { item, outgoing }
    }

    /// Holds the item in memory beyond its eviction, out of sight, so that it can be written from
    /// where it lies. `None`: its memory is wanted now, as it is to be given away, or held items
    /// would take more than a sixteenth of the cache's memory or of the pool's. Then there is
    /// [`RemovedItem::image`], a copy.
    pub fn hold(&self) -> Option<OutgoingHandle> {
        let (core, ptr) = self.item.place();
        let info = core.arena.info_of(ptr);
        // SAFETY: whoever hands the item down holds a reference (invariant 5 of `slab::item`).
        let (pool, class) = unsafe { (core.pools.of_run(info.pool), core.class_of(info)) };
        if pool.is_leaving() || class.leaving_run().is_some_and(|run| run.has(ptr)) {
            return None;
        }
        let in_links = if self.item.is_long() { self.item.whole_len() as u64 } else { 0 };
        let bytes = u64::from(info.chunk_bytes) + in_links;
        let most = (core.ledger.limit() / SHARE, pool.slab_bytes() / SHARE);
        self.outgoing.begin(info.pool, bytes, most).then_some(())?;
        // The reference of whoever hands it down, which is not given back here.
        let held = ManuallyDrop::new(ReadHandle::adopt(core, ptr));
        // Nobody could use what is held of a cache that is going.
        let Some((core, handle)) = core.me.upgrade().zip(held.try_clone()) else {
            self.outgoing.end(info.pool, bytes);
            return None;
        };
        let handle = handle.into_owned();
        Some(OutgoingHandle { handle, _counted: Counted { core, pool: info.pool, bytes } })
    }
}

impl<'a> Deref for DemotedItem<'a> {
    type Target = RemovedItem<'a>;

    fn deref(&self) -> &RemovedItem<'a> {
        &self.item
    }
}

/// An evicted item that a [`super::SecondaryCache`] holds.
///
/// Keeps the cache in use. To be dropped on a thread that holds no lock of the cache: not by a
/// method of `SecondaryCache`.
pub struct OutgoingHandle {
    handle: OwnedHandle,
    /// Given back after the handle.
    _counted: Counted,
}

/// Bytes that are counted as held.
struct Counted {
    core: Arc<Core>,
    pool: u16,
    bytes: u64,
}

impl OutgoingHandle {
    /// The item: its key, value, times and tag, and a copy of it.
    pub fn item(&self) -> RemovedItem<'_> {
        let (core, ptr) = self.handle.as_handle().parts();
        // SAFETY: the handle holds a reference (invariant 5 of `slab::item`).
        unsafe { core.departed(ptr) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(secondary) = Secondary::of(&self.core) {
            secondary.outgoing.end(self.pool, self.bytes);
        }
    }
}

impl std::fmt::Debug for OutgoingHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutgoingHandle").field("item", &self.item()).finish_non_exhaustive()
    }
}

/// Counts the bytes of chunks that are held, in all and by pool.
#[derive(Debug)]
pub(super) struct Outgoing {
    all: AtomicU64,
    by_pool: Box<[AtomicU64]>,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { all: AtomicU64::new(0), by_pool: (0..MAX_POOLS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Outgoing {
    pub(super) const BYTES: u64 = (MAX_POOLS * size_of::<AtomicU64>()) as u64;

    /// Counts an item of `bytes` of a pool, unless more than `most` would be held then: of all
    /// pools, and of this one.
    fn begin(&self, pool: u16, bytes: u64, most: (u64, u64)) -> bool {
        let add = |count: &AtomicU64, most: u64| {
            let add = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= most);
            count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
        };
        if !add(&self.all, most.0) {
            return false;
        }
        let has_place = add(&self.by_pool[usize::from(pool)], most.1);
        if !has_place {
            self.all.fetch_sub(bytes, Ordering::Relaxed);
        }
        has_place
    }

    fn end(&self, pool: u16, bytes: u64) {
        self.by_pool[usize::from(pool)].fetch_sub(bytes, Ordering::Relaxed);
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Cache {
    /// Returns the bytes of chunks of evicted items that the cache beneath holds.
    #[doc(hidden)]
    pub fn outgoing_bytes(&self) -> u64 {
        Secondary::of(self.core()).map_or(0, |secondary| secondary.outgoing.all.load(Ordering::Relaxed))
    }
}

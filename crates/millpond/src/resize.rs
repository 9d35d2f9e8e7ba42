//! Taking slabs away from classes: when a pool's limit or the cache's memory is lowered, and for a class that has none.
//!
//! A slab leaves in steps: its free chunks are withheld and new frees go to the same list; its items move to other
//! chunks of the class ([`crate::relocate`]), in the place of what would be evicted next; those that find none are evicted;
//! those that somebody holds are waited for; when all chunks are in, the class forgets the slab; when no
//! reader can still look into it (a grace period), its memory goes back to the system.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{ByteSize, Part};
use slab::item::Claim;
use slab::{ItemPtr, SLAB_BYTES, SlabId, Withheld};

use crate::allocate::metadata_of_slab;
use crate::cache::{Cache, Core, PoolId};
use crate::class::{
    BYTES_IN, Class, EVICTIONS, LIMIT_EVICTIONS, MOVE_EVICTIONS, RELEASES_ABORTED, SHIFT_EVICTIONS,
    SLABS_RELEASED,
};
use crate::error::{Error, ErrorKind};
use crate::life::RemovalCause;
use crate::pool::Pool;
use crate::strategy::reclaim::{Stake, first_to_give};

/// Chunks that are looked at under one hold of a class's lock.
const STEP: u16 = 64;
/// How often, and how long each time, held items of a slab are waited for before another slab is tried.
pub(crate) const WAITS: u32 = 10;
/// The same when slabs are rebalanced, which another round may do as well.
pub(crate) const MOVE_WAITS: u32 = 2;
pub(crate) const WAIT: Duration = Duration::from_millis(1);
/// Slabs of a pool that allocations may move between classes as fast as they like.
const FREE_MOVES: u64 = 64;

/// Why a slab leaves its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// For another class or pool, or because the class or its pool goes.
    Moved,
    /// A limit was lowered.
    Limit,
}

impl Cache {
    /// Changes the limit of a pool, while serving. `None`: whatever is free. Lowering it evicts items and gives slabs
    /// back, on the calling thread.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`]; [`ErrorKind::OutOfMemory`] where held items keep too many slabs: the limit is set
    /// all the same, and another call goes on.
    pub fn set_pool_limit(&self, pool: PoolId, limit: Option<ByteSize>) -> Result<(), Error> {
        let core = self.core();
        let pool = core.pool(pool)?;
        pool.set_limit_bytes(limit.map_or(u64::MAX, ByteSize::as_u64));
        pool.resizes.fetch_add(1, Ordering::Relaxed);
        core.shrink_pool(&pool)
    }

    /// Changes the memory of the whole cache, while serving. Lowering it evicts items and gives slabs back, on the
    /// calling thread, from the pools that are farthest over their reserves first.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] above [`Self::max_memory`] or below 8 MiB; [`ErrorKind::OutOfMemory`] where held items
    /// keep too many slabs: the limit is set all the same, and [`Self::maintain`] goes on.
    pub fn set_memory(&self, memory: ByteSize) -> Result<(), Error> {
        if memory > self.max_memory() || memory < ByteSize::mib(8) {
            return Err(Error::new(
                ErrorKind::Config,
                format!("memory of {memory} is not between 8MiB and max_memory, {}", self.max_memory()),
            ));
        }
        self.core().ledger.set_limit(memory.as_u64());
        self.core().shrink_to_limit()
    }

    /// What should be done about once a second: takes expired items out ([`Self::reap`]), ages curves ([`Self::set_curve`]), has chunk
    /// sizes follow items ([`Self::tune_classes`]), lets classes trade slabs
    /// ([`Self::rebalance`]) and pools limits ([`Self::optimize`], where it was asked for), brings pools to their limits
    /// ([`Self::resize_pools`]) and their memory to those that want it ([`Self::reclaim`]), and gives slabs back where more than the
    /// limit is spent, as when an embedder has charged buffers to the ledger of a full cache. Cheap when there is nothing to do. What can take long,
    /// and can wait, is for another thread: [`Self::touch_ahead`].
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] where held items keep too many slabs.
    pub fn maintain(&self) -> Result<(), Error> {
        self.reap();
        self.core().tend_curves();
        self.go_on_removing();
        self.rebalance();
        self.tune();
        self.share()?;
        self.give_back_touched();
        self.core().shrink_to_limit()
    }
}

impl Core {
    /// Takes slabs from the pool until it keeps its limit.
    fn shrink_pool(&self, pool: &Pool) -> Result<(), Error> {
        while pool.slab_bytes() > pool.limit_bytes() {
            if !self.shrink_by_a_slab(pool) {
                return Err(Error::new(
                    ErrorKind::OutOfMemory,
                    format!("pool `{}` cannot shrink to its limit: its items are held", pool.name),
                ));
            }
        }
        Ok(())
    }

    /// Takes slabs from the pools that are farthest over their reserves until the cache keeps its limit.
    pub(crate) fn shrink_to_limit(&self) -> Result<(), Error> {
        while self.ledger.total() > self.ledger.limit() {
            let pools = self.pools.all();
            let stakes: Vec<Stake> = pools.iter().map(Pool::stake).collect();
            let first = first_to_give(&stakes);
            let first = pools.iter().find(|pool| Some(pool.number) == first);
            let taken = first.is_some_and(|pool| self.shrink_by_a_slab(pool));
            if !taken && !self.shrink_compact() {
                return Err(Error::new(
                    ErrorKind::OutOfMemory,
                    "the cache cannot shrink to its limit: items are held, or what remains is neither in slabs nor in compact caches",
                ));
            }
        }
        Ok(())
    }

    /// Takes memory from the largest compact cache that has some to give.
    fn shrink_compact(&self) -> bool {
        let mut stores = self.compact_stores();
        stores.sort_by_key(|store| std::cmp::Reverse(store.bytes()));
        stores.iter().any(|store| store.shrink(self))
    }

    /// Takes a slab from another class than `class`, one of at least `least_slabs`, for an allocation. A move empties a
    /// whole slab, so that after the first [`FREE_MOVES`] there is one for each slab's worth of inserted bytes.
    ///
    /// Does not wait, neither for another thread that takes slabs nor for held items: the caller may hold some itself.
    pub(crate) fn move_slab_within_pool(&self, pool: &Pool, class: &Class, least_slabs: usize) -> bool {
        let inserted = pool.used_classes().map(|(_, class)| class.counters.sum(BYTES_IN)).sum();
        let (count, inserted_before) = *pool.moves.lock();
        if count >= FREE_MOVES && inserted < inserted_before + SLAB_BYTES as u64 {
            return false;
        }
        let Some(_resizing) = pool.resizing.try_lock() else { return false };
        let moved = self.take_slab(pool, Some(class.info.class), least_slabs, (Why::Moved, 0)).is_some();
        if moved {
            pool.slabs_moved.fetch_add(1, Ordering::Relaxed);
            let mut moves = pool.moves.lock();
            *moves = (moves.0 + 1, inserted);
        }
        moved
    }

    /// Takes a slab from the class of the pool that has most, for whoever lowers a limit.
    fn shrink_by_a_slab(&self, pool: &Pool) -> bool {
        let _resizing = pool.resizing.lock();
        self.take_any_slab(pool).is_some()
    }

    /// Takes a slab from the class of the pool that has most, because a limit was lowered, and returns the number of that class. The caller
    /// holds the pool's `resizing`.
    pub(crate) fn take_any_slab(&self, pool: &Pool) -> Option<u8> {
        self.take_slab(pool, None, 1, (Why::Limit, WAITS))
    }

    /// Takes a slab from the class of the pool that has most, other than `except`, and at least `least_slabs`; held items
    /// are waited for `waits` times in each. Returns its number. `None`: there is none, or none could be emptied. The caller holds the
    /// pool's `resizing`.
    pub(crate) fn take_slab(
        &self,
        pool: &Pool,
        except: Option<u8>,
        least_slabs: usize,
        (why, waits): (Why, u32),
    ) -> Option<u8> {
        let mut candidates: Vec<_> = pool
            .used_classes()
            .filter(|(number, _)| Some(*number) != except)
            .map(|(number, class)| {
                (pool.is_class_leaving(number), class.inner.lock().chunks.slab_count(), class)
            })
            .filter(|(_, slabs, _)| *slabs >= least_slabs)
            .collect();
        // Those that leave come first.
        candidates.sort_by_key(|(leaves, slabs, _)| std::cmp::Reverse((*leaves, *slabs)));
        let (_, _, class) =
            candidates.iter().find(|(_, _, class)| self.release_slab(pool, class, (why, waits)))?;
        Some(class.info.class)
    }

    /// Empties a slab of the class and gives it back: of its slabs the one with the lowest ordinal. `false`: items of it are
    /// held for too long, or there is none.
    pub(crate) fn release_slab(&self, pool: &Pool, class: &Class, how: (Why, u32)) -> bool {
        let first = class.inner.lock().chunks.slabs().next();
        first.is_some_and(|slab| self.release_this_slab(pool, class, slab, how))
    }

    /// Empties a slab of the class and gives it back. `false`: items of it are held for too long. The caller holds the pool's
    /// `resizing`.
    pub(crate) fn release_this_slab(
        &self,
        pool: &Pool,
        class: &Class,
        slab: SlabId,
        (why, waits): (Why, u32),
    ) -> bool {
        let evicted = class.counters.sum(EVICTIONS);
        let left = self.empty_slab(pool, class, slab, waits);
        let counter = if why == Why::Limit { LIMIT_EVICTIONS } else { SHIFT_EVICTIONS };
        class.counters.add(counter, class.counters.sum(EVICTIONS).saturating_sub(evicted));
        left
    }

    fn empty_slab(&self, pool: &Pool, class: &Class, slab: SlabId, waits: u32) -> bool {
        self.begin_leave(class, slab);
        let per_slab = class.info.chunks_per_slab();
        // The class's only slab has nowhere to move its items to, unless others have taken its place.
        let moves = !pool.is_leaving()
            && (class.inner.lock().chunks.slab_count() > 1 || pool.is_class_leaving(class.info.class));
        for wait in 0..=waits {
            if wait > 0 {
                base::thread::sleep(WAIT);
            }
            if moves {
                self.move_items(pool, class, slab);
            }
            for first in (0..per_slab).step_by(usize::from(STEP)) {
                self.evict_range(class, slab, first as u16, (per_slab - first).min(u32::from(STEP)) as u16);
            }
            self.empty_magazines(class);
            let mut inner = class.inner.lock();
            let free = inner.leaving.as_ref().map_or(0, Withheld::len);
            if free == per_slab as usize {
                inner.chunks.remove_slab(&self.arena, slab);
                let _ = class.set_leaving(&mut inner, None);
                class.note_slabs(&inner);
                drop(inner);
                self.finish_leave(pool, class, slab);
                class.counters.add(SLABS_RELEASED, 1);
                return true;
            }
        }
        let mut inner = class.inner.lock();
        if let Some(withheld) = class.set_leaving(&mut inner, None) {
            inner.chunks.restore(&self.arena, withheld);
        }
        class.counters.add(RELEASES_ABORTED, 1);
        false
    }

    /// Withholds the chunks of a slab that is to leave.
    fn begin_leave(&self, class: &Class, slab: SlabId) {
        let mut inner = class.inner.lock();
        let withheld = inner.chunks.withhold(&self.arena, slab);
        let _ = class.set_leaving(&mut inner, Some(withheld));
    }

    /// Evicts those of `count` chunks of a leaving slab whose items nobody holds.
    fn evict_range(&self, class: &Class, slab: SlabId, first: u16, count: u16) {
        let (mut evicted, mut parents) = (Vec::new(), Vec::new());
        let mut inner = class.inner.lock();
        for number in first..=first + (count - 1) {
            if inner.leaving.as_ref().is_some_and(|leaving| leaving.is_fresh(number)) {
                continue;
            }
            let ptr = ItemPtr::new(slab, number);
            let item = self.arena.item(ptr).0;
            if !item.state().is_indexed() {
                continue;
            }
            let life = class.life.as_deref();
            // SAFETY: the item was in the index or in a chain with the lock of the class held, without which no chunk that was
            // freed since then is used again.
            unsafe {
                if item.is_link() {
                    if self.claim_by_link(item, life) == Claim::Taken {
                        parents.extend(self.parent_of_claimed(ptr));
                    }
                } else if life.is_none_or(|life| self.may_evict(life, ptr)) && inner.claim(self, ptr).is_ok()
                {
                    evicted.push(ptr);
                }
            }
        }
        drop(inner);
        class.counters.add(MOVE_EVICTIONS, (evicted.len() + parents.len()) as u64);
        self.end_claimed(class, RemovalCause::Evicted, evicted);
        parents.into_iter().for_each(|parent| self.unlink_held(parent, RemovalCause::Evicted));
    }

    /// Gives an emptied slab, which its class has forgotten, back to the system.
    fn finish_leave(&self, pool: &Pool, class: &Class, slab: SlabId) {
        self.fold_magazines(class);
        let (chunks, metadata) = metadata_of_slab(self.arena.info(slab), pool.policy());
        // Readers that found a pointer into the slab before it was emptied may still be looking at a state word.
        self.pins.synchronize();
        // SAFETY: the class has forgotten the slab, all its chunks were free and unprotected, no slot of the index points
        // to them, all readers that might have read such a slot before are done, and no magazine names its chunks
        // (invariant 3 of `magazine`).
        unsafe { self.arena.give_back(slab) };
        self.remove_chunks(chunks, metadata);
        self.ledger.release(Part::Slabs, SLAB_BYTES as u64);
        pool.remove_slab();
    }
}

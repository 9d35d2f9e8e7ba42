//! Removing a pool while serving.
//!
//! A pool that is being removed gets no new items and no slabs; its items leave the index at once,
//! those that somebody holds too. A slab goes when nobody holds or reads anything in it, the pool
//! with its last slab, and its memory when nobody can be looking at it any more ([`crate::pools`]).
//! Nothing of this waits for long: what held items keep is left to [`Cache::maintain`].

use std::sync::atomic::Ordering;

use base::Part;
use slab::Run;

use crate::cache::{Cache, Core};
use crate::error::{Error, ErrorKind};
use crate::handle::ReadHandle;
use crate::lifecycle::RemovalCause;
use crate::pool::Pool;
use crate::pools::{PoolId, Remains};
use crate::release::{Taking, WAIT, WAITS, Why};

/// The result of a removal: see [`Cache::remove_pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRemoval {
    /// Items that this call removed.
    pub items: u64,
    /// True if the pool is gone, and its name free.
    pub is_gone: bool,
    /// Slabs that held items, or items that were being made, keep.
    pub bytes_left: u64,
}

impl Cache {
    /// Removes a pool with all its items, while serving. Handles of its items stay valid, and what
    /// is being read in place stays in place. From now on allocations in the pool are refused, and
    /// finds miss.
    ///
    /// Held items are waited for, some 10 ms, as are items that were allocated and not inserted.
    /// While there are such the pool stays, with the slabs that they lie in and nothing else
    /// ([`crate::PoolStats::is_leaving`]), and so does its name; another call goes on, and so does
    /// [`Self::maintain`]. When it is gone its name, its number, its key space and all its memory
    /// are free.
    ///
    /// Costs a look at each of its chunks and a bucket of the index for each item, on the calling
    /// thread.
    ///
    /// ```
    /// # use millpond::{Cache, CacheConfig, ErrorKind, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// let pool = cache.add_pool(PoolConfig::named("sessions"))?;
    /// cache.put(cache.allocate(pool, b"key", 5, &ItemOptions::default())?);
    /// let removal = cache.remove_pool(pool)?;
    /// assert!(removal.is_gone && removal.items == 1);
    /// assert!(cache.find(b"key").is_none());
    /// let error = cache.allocate(pool, b"key", 5, &ItemOptions::default()).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NoSuchPool);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`].
    pub fn remove_pool(&self, pool: PoolId) -> Result<PoolRemoval, Error> {
        let core = self.core();
        let mut removal = PoolRemoval { items: 0, is_gone: false, bytes_left: 0 };
        for wait in 0..=WAITS {
            if wait > 0 {
                base::thread::sleep(WAIT);
            }
            let Some(found) = core.pools.get_even_leaving(pool) else {
                if wait > 0 {
                    // Another thread has ended it.
                    removal = PoolRemoval { is_gone: true, bytes_left: 0, ..removal };
                    break;
                }
                let context = format!("there is no pool number {} in this cache", pool.number());
                return Err(Error::new(ErrorKind::NoSuchPool, context));
            };
            core.begin_removal(&found);
            removal.items += core.drain(&found);
            removal.bytes_left = found.slab_bytes();
            drop(found);
            core.free_retired_runs();
            removal.is_gone = self.end_removal(pool);
            if removal.is_gone {
                break;
            }
        }
        for _ in 0..WAITS {
            if core.free_retired() == 0 {
                break;
            }
            base::thread::sleep(WAIT);
        }
        Ok(removal)
    }

    /// Goes on with removals that held items have kept from ending.
    pub(crate) fn go_on_removing(&self) {
        let core = self.core();
        if core.removals.load(Ordering::Relaxed) == 0 {
            core.free_retired();
            return;
        }
        let leaving: Vec<PoolId> = {
            let pools = core.pools.all();
            let leaving = pools.iter().filter(|pool| pool.is_leaving());
            leaving.map(|pool| (core.drain(pool), pool.id()).1).collect()
        };
        core.free_retired_runs();
        for pool in leaving {
            self.end_removal(pool);
        }
        core.free_retired();
    }

    /// Takes a pool out of the table if nothing is left of it. `false`: something is.
    fn end_removal(&self, id: PoolId) -> bool {
        let core = self.core();
        let mut names = self.names();
        let Some(pool) = core.pools.get_even_leaving(id) else { return true };
        if !core.is_empty_for_good(&pool) {
            return false;
        }
        names.remove(&pool.name);
        if let Some(kept) = &core.kept {
            kept.forget_name(pool.number);
        }
        let was_watched =
            pool.hot.keys.lock().is_some() || pool.curves.below() > 0 || pool.shadows.below() > 0;
        core.pools.remove(pool.number);
        core.removals.fetch_sub(1, Ordering::Relaxed);
        if was_watched {
            core.watch_as_pools_want();
        }
        true
    }
}

impl Core {
    fn begin_removal(&self, pool: &Pool) {
        let mut grace = pool.removal.grace.lock();
        if !pool.is_leaving() {
            pool.set_leaving();
            self.removals.fetch_add(1, Ordering::Relaxed);
            *grace = Some(self.pools.grace());
        }
    }

    /// Returns whether the pool has no slab and gets none any more.
    fn is_empty_for_good(&self, pool: &Pool) -> bool {
        // A run that is being moved is not counted meanwhile.
        let Some(_resizing) = pool.resizing.try_lock() else { return false };
        let mut grace = pool.removal.grace.lock();
        let Some(before) = &mut *grace else { return false };
        // The calling thread uses the table, but does so since later.
        self.pools.has_passed(before)
            && pool.slab_bytes() == 0
            && !self.retired_runs.has_one_of(pool.number, None)
    }

    /// Removes the items of a pool, and gives those of its slabs back in which nobody holds
    /// anything. Says how many items there were.
    fn drain(&self, pool: &Pool) -> u64 {
        self.note_writing(pool.keyspace);
        let _resizing = pool.resizing.lock();
        let mut removed = 0;
        for (_, class) in pool.used_classes() {
            let runs: Vec<(Run, u32)> = {
                let inner = class.inner.lock();
                inner.chunks.runs().map(|run| (run, inner.chunks.used_chunks_of(run))).collect()
            };
            for (run, used) in runs {
                removed += self.remove_items_of(run, used);
                self.release_run(pool, class, run, &mut Taking::new(Why::Moved, 0));
            }
        }
        self.removed_with_pools.fetch_add(removed, Ordering::Relaxed);
        removed
    }

    /// Takes all items of a run, which are in its first `used` chunks, out of the index, and says
    /// how many there were. The caller keeps the run from leaving its class.
    fn remove_items_of(&self, run: Run, used: u32) -> u64 {
        let chunks = (0..used).map(|number| run.chunk(number));
        let is_removed = |ptr: &slab::ItemPtr| {
            let state = self.arena.item(*ptr).0.state();
            state.acquire() == slab::item::Acquired::Yes
                && self.remove_item(&ReadHandle::adopt(self, *ptr), RemovalCause::Removed)
        };
        chunks.filter(is_removed).count() as u64
    }

    /// Frees what nobody can be looking at any more, and says how much is left.
    pub(crate) fn free_retired(&self) -> usize {
        self.pools.free_retired(|remains| match remains {
            Remains::Pool(pool) => {
                pool.used_classes().for_each(|(_, class)| class.end_bill(self));
                self.ledger.release(Part::Fixed, pool.fixed_bytes());
            }
            Remains::Class(class) => class.end_bill(self),
            Remains::Sizes(sizes) => self.ledger.release(Part::Fixed, sizes.table_bytes() as u64),
        })
    }
}

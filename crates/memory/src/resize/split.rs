//! Emptying of split slabs, so that they get free.

use slab::run::least_units;
use slab::{Run, SlabId, SlabInfo};

use crate::cache::Core;
use crate::class::Class;
use crate::pool::Pool;
use crate::release::{Amount, Taking, Why};

/// Split slabs that are tried if one of them is to get free.
const MOST_SLABS_TRIED: usize = 4;

impl Core {
    /// Empties a split slab whose runs find room in the others, so that it gets free. Does not wait
    /// for anybody.
    pub(crate) fn bring_together(&self) -> bool {
        self.has_emptyable_slab() && self.empty_split_slab(&mut Taking::new(Why::Moved, 0)) && {
            self.free_retired_runs();
            true
        }
    }

    /// Returns whether there is a split slab of which all that is in use would find room in the
    /// others.
    pub(super) fn has_emptyable_slab(&self) -> bool {
        let slabs = self.arena.emptiest_split_slabs();
        let Some(emptiest) = slabs.first() else { return false };
        let elsewhere: u64 = slabs[1..].iter().map(|slab| slab.free_bytes).sum();
        // Free units lie apart, so that not all of them fit.
        elsewhere / 2 >= emptiest.used_bytes
    }

    /// Empties one of the split slabs with most free memory: its runs move to others, whoever they
    /// are of, so that it gets free.
    pub(crate) fn empty_split_slab(&self, taking: &mut Taking) -> bool {
        let slabs = self.arena.emptiest_split_slabs();
        slabs.iter().take(MOST_SLABS_TRIED).any(|split| self.empty_this_split_slab(split.slab, taking))
    }

    fn empty_this_split_slab(&self, slab: SlabId, taking: &mut Taking) -> bool {
        let runs = self.arena.withdraw(slab, true);
        let is_empty =
            !runs.is_empty() && runs.into_iter().all(|(run, info)| self.move_run(run, info, taking));
        if !is_empty {
            self.arena.withdraw(slab, false);
        }
        is_empty
    }

    /// Returns whether the class has free chunks for all that a run may hold, or was given them:
    /// then nothing is evicted if the run leaves.
    fn has_room_beside(&self, pool: &Pool, class: &Class, run: Run) -> bool {
        let mut inner = class.inner.lock();
        let needed = u64::from(run.chunks(class.info));
        // Its own free chunks do not count, and stay as many while the lock is held.
        let beside = inner.chunks.free_chunks_beside(&self.arena, run);
        let within = u64::from(inner.chunks.free_chunks()) - beside;
        // A pool that has no more than its reserve keeps that: a run is not taken from it because
        // it has free chunks.
        let had = inner.chunks.bytes();
        let kept = if pool.slab_bytes() < pool.entitled_bytes() { run.bytes() } else { 0 };
        let (mut units, least) = (run.units, least_units(class.info.chunk_bytes));
        while inner.chunks.bytes() < had + kept || u64::from(inner.chunks.free_chunks()) < needed + within {
            if self.add_units(pool, class, &mut inner, units) {
                continue;
            }
            if units <= least {
                return false;
            }
            units = (units / 2).max(least);
        }
        true
    }

    /// Has the items of a run move to another run of their class. `false`: items are held, or
    /// somebody else is at work in the pool.
    pub(super) fn move_run(&self, run: Run, info: SlabInfo, taking: &mut Taking) -> bool {
        let pools = self.pools.all();
        let Some(pool) = pools.numbered(info.pool) else { return false };
        let Some(_resizing) = pool.resizing.try_lock() else { return false };
        let Some(class) = pool.used_class(info.class) else { return false };
        let used = {
            let inner = class.inner.lock();
            inner.chunks.runs().any(|other| other == run).then(|| inner.chunks.used_chunks_of(run))
        };
        // It was given back meanwhile.
        let Some(used) = used else { return !self.arena.is_there(run, info) };
        // Its place elsewhere would be beyond the pool's limit for as long as a held item keeps the
        // run.
        if !taking.waits_for_holders() && self.held_in(run, used, 1) > 0 {
            return false;
        }
        // What comes for it is not to fail for a limit that counts both.
        pool.remove(run.bytes());
        let is_moved = self.has_room_beside(pool, class, run) && self.release_run(pool, class, run, taking);
        pool.add(run.bytes());
        // An item may have been held only now, or others have taken what was off the count.
        if let Some(over) = pool.slab_bytes().checked_sub(pool.limit_bytes()).filter(|over| *over > 0) {
            let amount = Amount::about(over.min(run.bytes()));
            self.take_bytes(pool, None, 1, amount, &mut Taking::new(Why::Limit, 0));
        }
        is_moved
    }
}

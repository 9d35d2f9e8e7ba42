//! Taking memory away from classes: when a pool's limit or the cache's memory is lowered, and for a
//! class that has none.
//!
//! Which class gives is decided here; how a run of chunks leaves it, in [`crate::release`]. A split
//! slab gets free once nothing of it is in use. So that one does, its runs can be emptied in turn,
//! whichever class they belong to: their items move to runs elsewhere, which is done only if all of
//! them find room there.
//!
//! A class or a pool that cannot give is passed over for the next one: what one of them keeps,
//! because items are held or may not be evicted, the others can still give.
//!
//! Limits are changed here; `within` moves memory between the classes of a pool, and `split`
//! empties split slabs.

mod split;
#[cfg(test)]
mod tests;
mod within;

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{ByteSize, Part};
use rebalance::reclaim::{Stake, first_to_give};
use slab::SLAB_BYTES;
use slab::run::FREE_UNITS;

use crate::cache::{Cache, Core, table_bytes};
use crate::class::Class;
use crate::error::{Error, ErrorKind};
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::release::{Amount, Taking, WAITS, Why};

/// Most free memory of split slabs that cannot be brought together, in bytes, before a limit counts
/// as out of reach.
const MOST_APART_BYTES: u64 = 16 << 20;
/// Pools that one call asks in vain before it gives up.
const MOST_REFUSALS: usize = 64;
/// Number of times that pools give in one call without a slab getting free: each may give but some
/// units of one, and others may take them.
const MOST_VAIN_GIFTS: u32 = FREE_UNITS;
/// Longest time that the cache's own resizing waits for another thread that takes slabs from the
/// same pool.
const PATIENCE: Duration = Duration::from_millis(100);

impl Cache {
    /// Changes the limit of a pool, while serving. `None`: whatever is free. Lowering it evicts
    /// items and gives slabs back, on the calling thread. Held items are waited for 10 ms until a
    /// slab is had, 50 ms in all, and slabs into which somebody still looks another 50 ms; what is
    /// looked into then goes back to the system at a later call, of [`Self::maintain`] at the
    /// latest.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`]; [`ErrorKind::OutOfMemory`] where held items keep too many slabs:
    /// the limit is set all the same, and another call goes on.
    pub fn set_pool_limit(&self, pool: PoolId, limit: Option<ByteSize>) -> Result<(), Error> {
        self.set_pool_limit_lazily(pool, limit)?;
        let core = self.core();
        let pool = core.pool(pool)?;
        let shrunk = core.shrink_pool(&pool);
        drop(pool);
        core.wait_for_retired_runs();
        shrunk
    }

    /// Changes the limit of a pool as [`Self::set_pool_limit`], and leaves to the next rounds of
    /// [`Self::maintain`] what has to leave for it: for threads that others wait for.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`].
    pub fn set_pool_limit_lazily(&self, pool: PoolId, limit: Option<ByteSize>) -> Result<(), Error> {
        let pool = self.core().pool(pool)?;
        pool.set_limit_bytes(limit.map_or(u64::MAX, ByteSize::as_u64));
        pool.resizes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Changes the memory of the whole cache, while serving. Lowering it evicts items and gives
    /// slabs back, on the calling thread, from the pools that are farthest over their reserves
    /// first. A pool whose items are held or may not be evicted is passed over for the next one.
    /// Waits as long as [`Self::set_pool_limit`] at most.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] above [`Self::max_memory`] or below [`Self::least_memory`];
    /// [`ErrorKind::OutOfMemory`] where held items keep too many slabs: the limit is set all the
    /// same, and [`Self::maintain`] goes on.
    pub fn set_memory(&self, memory: ByteSize) -> Result<(), Error> {
        self.set_memory_lazily(memory)?;
        let shrunk = self.core().shrink_to_limit();
        self.core().wait_for_retired_runs();
        // What readers kept may have been all that was left to bring together.
        shrunk.and_then(|()| self.core().shrink_to_limit())
    }

    /// Changes the memory of the whole cache as [`Self::set_memory`], and leaves to the next
    /// [`Self::maintain`] what has to leave for it: for threads that others wait for.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] above [`Self::max_memory`] or below [`Self::least_memory`].
    pub fn set_memory_lazily(&self, memory: ByteSize) -> Result<(), Error> {
        self.check_memory(memory)?;
        let before = self.core().most_memory.fetch_max(memory.as_u64(), Ordering::Relaxed);
        let tables = table_bytes(memory.as_u64()).saturating_sub(table_bytes(before));
        self.core().ledger.charge(Part::Fixed, tables);
        self.core().ledger.set_limit(memory.as_u64());
        self.core().count_grants();
        Ok(())
    }

    /// The least memory that the cache can be lowered to now: 8 MiB, or a slab and a half more than
    /// index, queues and what else is not in slabs take. Index and queues that have grown for many
    /// items give nothing back; with less the cache would be empty, and store nothing.
    pub fn least_memory(&self) -> ByteSize {
        let core = self.core();
        let in_slabs = core.ledger.part(Part::Slabs) + core.ledger.part(Part::Compact);
        let others = core.ledger.total().saturating_sub(in_slabs);
        ByteSize::new(others + SLAB_BYTES as u64 * 3 / 2).max(ByteSize::mib(8))
    }

    /// Says whether the cache's memory can be changed to that. What it has already it may keep.
    ///
    /// # Errors
    /// As [`Self::set_memory_lazily`].
    pub fn check_memory(&self, memory: ByteSize) -> Result<(), Error> {
        let (least, most) = (self.least_memory(), self.max_memory());
        let context = if memory > most {
            format!("memory of {memory} is more than max_memory, {most}")
        } else if memory < ByteSize::mib(8) || memory < least && memory.as_u64() < self.core().ledger.limit()
        {
            format!(
                "memory of {memory} is less than {least}: index and queues have grown for the items that there were, give \
                 nothing back, and would leave no room for others"
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Config, context))
    }

    /// Does what should be done about once a second: takes expired items out ([`Self::reap`]) and
    /// up to 131,072 flushed ones, ages curves ([`Self::set_curve`]), converts the classes of
    /// pools whose policy was changed ([`Self::set_pool_policy_lazily`]), has chunk sizes follow
    /// items ([`Self::tune_classes`]), lets classes trade slabs ([`Self::rebalance`], in pools that
    /// were in use in the last 16 rounds) and pools limits ([`Self::optimize`], if it was asked
    /// for), splits queues by curves ([`Self::set_pool_split`]), brings pools to their limits
    /// ([`Self::resize_pools`]) and their memory to those that want it ([`Self::reclaim`]), and
    /// gives slabs back if more than the limit is spent, as when an embedder has charged buffers to
    /// the ledger of a full cache. Costs some ten nanoseconds for each pool that has nothing to do.
    /// Slow work that can wait is for another thread: [`Self::touch_ahead`].
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] where held items keep too many slabs.
    pub fn maintain(&self) -> Result<(), Error> {
        self.reap();
        self.core().take_out_flushed();
        self.core().tend_curves();
        self.go_on_removing();
        self.core().convert_where_due();
        self.rebalance_where_due();
        self.tune();
        self.scale_cliffs();
        self.core().tend_idle_classes();
        // If one pool cannot give, the others must still be asked.
        let shared = self.share();
        self.give_back_touched();
        let shrunk = self.core().shrink_to_limit();
        self.core().free_retired_runs();
        shared.and(shrunk)
    }
}

impl Core {
    /// Takes memory from the pool until it keeps its limit.
    fn shrink_pool(&self, pool: &Pool) -> Result<(), Error> {
        let mut taking = Taking::new(Why::Limit, WAITS);
        while let Some(over) = pool.slab_bytes().checked_sub(pool.limit_bytes()).filter(|over| *over > 0) {
            let resizing = pool.resizing.lock();
            // One run at a time, so that others that wait for the lock get their turn.
            let amount = Amount::about(over.min(SLAB_BYTES as u64));
            let taken = self.take_bytes(pool, None, 1, amount, &mut taking);
            drop(resizing);
            if taken.is_none() {
                return Err(Error::new(
                    ErrorKind::OutOfMemory,
                    format!("pool `{}` cannot shrink to its limit: its items are held", pool.name),
                ));
            }
            pool.resizing.let_lookers_have_it();
        }
        Ok(())
    }

    /// Takes slabs from the pools that are farthest over their reserves until the cache keeps its
    /// limit. One that cannot give is passed over, and is asked after the others for a while. If
    /// readers keep what was taken, as much as has to go is taken and no more: a later call brings
    /// it together.
    pub(crate) fn shrink_to_limit(&self) -> Result<(), Error> {
        let mut taking = Taking::new(Why::Limit, WAITS);
        let mut refused = HashSet::new();
        let (mut least, mut vain_gifts, mut has_vacant) = (u64::MAX, 0, true);
        if self.ledger.total() > self.ledger.limit() {
            self.retire_idle_classes();
        }
        loop {
            self.free_retired_runs();
            let (slabs, units) = self.retired_bytes();
            let spent = self.ledger.total().saturating_sub(slabs);
            let Some(over) = spent.checked_sub(self.ledger.limit()).filter(|over| *over > units) else {
                return Ok(());
            };
            if self.release_free_units(over - units) > 0 {
                continue;
            }
            vain_gifts = if spent < least { 0 } else { vain_gifts + 1 };
            least = least.min(spent);
            if vain_gifts > MOST_VAIN_GIFTS {
                return Err(Error::new(
                    ErrorKind::OutOfMemory,
                    "the cache cannot shrink to its limit: what some pools give, others take",
                ));
            }
            let mut has_given = self.has_emptyable_slab() && self.empty_split_slab(&mut taking);
            // What is vacant in any pool goes before items of another. If it cannot be brought
            // together, more of it would be of no use.
            if !has_given && has_vacant && vain_gifts == 0 {
                has_vacant = self.release_vacant((over - units).min(SLAB_BYTES as u64)) > 0;
                has_given = has_vacant;
            }
            has_given = has_given
                || refused.len() < MOST_REFUSALS
                    && self.first_to_give(&refused).is_some_and(|number| {
                        let gives = self.give_a_slab(number, &mut taking);
                        // Another one is asked next.
                        gives || refused.insert(number)
                    });
            if !has_given && !self.shrink_a_store() {
                return Err(Error::new(
                    ErrorKind::OutOfMemory,
                    "the cache cannot shrink to its limit: items are held, or what remains is neither in slabs nor in compact caches",
                ));
            }
        }
    }

    /// The pool that should give a slab, of those that have not `refused`: one that did so in
    /// another call only where there is no other.
    pub(crate) fn first_to_give(&self, refused: &HashSet<u16>) -> Option<u16> {
        let (pools, now) = (self.pools.all(), self.now());
        let others = || pools.iter().filter(|pool| !refused.contains(&pool.number));
        let stakes: Vec<Stake> = others().filter(|pool| !pool.has_refused(now)).map(Pool::stake).collect();
        first_to_give(&stakes).or_else(|| first_to_give(&others().map(Pool::stake).collect::<Vec<_>>()))
    }

    /// Has the pool with this number give a slab's worth of memory, or what it has over its reserve
    /// if there is such, because the cache's memory was lowered. `false`: it gave nothing, or what
    /// it gave cannot be brought together.
    fn give_a_slab(&self, number: u16, taking: &mut Taking) -> bool {
        let pools = self.pools.all();
        let Some(pool) = pools.numbered(number) else { return false };
        let most_bytes = match pool.slab_bytes().saturating_sub(pool.entitled_bytes()) {
            0 => u64::MAX,
            over => over,
        };
        let amount = Amount { bytes: most_bytes.min(SLAB_BYTES as u64), most_bytes };
        let resizing = pool.resizing.lock_within(PATIENCE);
        let gives = resizing.is_some() && self.take_bytes(pool, None, 1, amount, taking).is_some();
        drop(resizing);
        self.note_whether_it_gives(pool, gives);
        // What it gave may not have been a slab in one piece: then it may be called upon again,
        // unless items that are held lie in all that are split.
        let free = self.arena.free_unit_bytes();
        gives && (free < SLAB_BYTES as u64 || self.empty_split_slab(taking) || free < MOST_APART_BYTES)
    }

    /// Notes whether a pool gave what it was asked for: one that did not is asked after the others
    /// for a while.
    pub(crate) fn note_whether_it_gives(&self, pool: &Pool, gives: bool) {
        pool.refused_at.store(if gives { 0 } else { self.now() }, Ordering::Relaxed);
    }

    /// Takes about as much as `amount` says from a class of the pool, other than `except`: vacant
    /// memory ([`crate::vacant`]); or else from the class that has most, and at least `least_runs`
    /// runs, or from the next one that can give some. Returns the number of the class. `None`:
    /// none gave anything. The caller holds the pool's `resizing`.
    pub(crate) fn take_bytes(
        &self,
        pool: &Pool,
        except: Option<u8>,
        least_runs: usize,
        amount: Amount,
        taking: &mut Taking,
    ) -> Option<u8> {
        if let Some((number, _)) = self.release_vacant_from(pool, except, amount, None, taking) {
            return Some(number);
        }
        let mut candidates: Vec<_> = pool
            .used_classes()
            .filter(|(number, _)| Some(*number) != except)
            .map(|(number, class)| {
                let inner = class.inner.lock();
                let size = (pool.is_class_leaving(number), inner.chunks.bytes());
                (size, inner.chunks.run_count(), class)
            })
            .filter(|(_, runs, _)| *runs >= least_runs)
            .collect();
        // Those that leave come first.
        candidates.sort_by_key(|(size, _, _)| std::cmp::Reverse(*size));
        let gives = |class: &Class, taking: &mut Taking| self.release_bytes(pool, class, amount, taking) > 0;
        let (_, _, class) = candidates.iter().find(|(_, _, class)| gives(class, taking))?;
        Some(class.info.class)
    }
}

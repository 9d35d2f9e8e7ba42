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

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{ByteSize, Part};
use rebalance::reclaim::{Stake, first_to_give};
use slab::run::{FREE_UNITS, UNIT_TABLE_BYTES, least_units};
use slab::{Run, SLAB_BYTES, SlabId, SlabInfo};

use crate::cache::{Cache, Core, table_bytes};
use crate::class::{BYTES_IN, Class};
use crate::error::{Error, ErrorKind};
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::release::{Amount, Taking, WAITS, Why};

/// Split slabs that are tried if one of them is to get free.
const MOST_SLABS_TRIED: usize = 4;
/// Most free memory of split slabs that cannot be brought together, in bytes, before a limit counts
/// as out of reach.
const MOST_APART_BYTES: u64 = 16 << 20;
/// How often other classes are asked for memory for an item that would be refused.
const MOST_GIVERS: u32 = 64;
/// Moves of memory within a pool that allocations may make as fast as they like.
const FREE_MOVES: u64 = 64;
/// Pools that one call asks in vain before it gives up.
const MOST_REFUSALS: usize = 64;
/// How often pools give in one call without a slab getting free: each may give but some units of
/// one, and others may take them.
const MOST_VAIN_GIFTS: u32 = FREE_UNITS;
/// How long the cache's own resizing waits for another thread that takes slabs from the same pool.
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

    /// What should be done about once a second: takes expired items out ([`Self::reap`]), ages
    /// curves ([`Self::set_curve`]), converts the classes of pools whose policy was changed
    /// ([`Self::set_pool_policy_lazily`]), has chunk sizes follow items ([`Self::tune_classes`]),
    /// lets classes trade slabs ([`Self::rebalance`], in pools that were in use in the last 16
    /// rounds) and pools limits ([`Self::optimize`], where it was asked for), brings pools to their
    /// limits ([`Self::resize_pools`]) and their memory to those that want it ([`Self::reclaim`]),
    /// and gives slabs back where more than the limit is spent, as when an embedder has charged
    /// buffers to the ledger of a full cache. Costs some ten nanoseconds for each pool that has
    /// nothing to do. What can take long, and can wait, is for another thread:
    /// [`Self::touch_ahead`].
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] where held items keep too many slabs.
    pub fn maintain(&self) -> Result<(), Error> {
        self.reap();
        self.core().tend_curves();
        self.go_on_removing();
        self.core().convert_where_due();
        self.rebalance_where_due();
        self.tune();
        self.core().tend_idle_classes();
        // What one pool cannot give is no reason not to ask the others.
        let shared = self.share();
        self.give_back_touched();
        let shrunk = self.core().shrink_to_limit();
        self.core().free_retired_runs();
        shared.and(shrunk)
    }
}

impl Pool {
    /// Whether an allocation may move about so many bytes now; the bytes that were inserted until
    /// then, for [`Self::note_move`].
    pub(crate) fn turn_to_move(&self, bytes: u64) -> Option<u64> {
        let of_classes: u64 = self.used_classes().map(|(_, class)| class.counters.sum(BYTES_IN)).sum();
        let inserted = of_classes + self.past_bytes_in.load(Ordering::Relaxed);
        let (count, inserted_before) = *self.moves.lock();
        (count < FREE_MOVES || inserted >= inserted_before + bytes).then_some(inserted)
    }

    /// Notes that an allocation has moved memory, in a turn that it was given.
    pub(crate) fn note_move(&self, turn: u64) {
        let mut moves = self.moves.lock();
        *moves = (moves.0 + 1, turn);
    }
}

impl Core {
    /// Takes memory from the pool until it keeps its limit.
    fn shrink_pool(&self, pool: &Pool) -> Result<(), Error> {
        let mut taking = Taking::new(Why::Limit, WAITS);
        while let Some(over) = pool.slab_bytes().checked_sub(pool.limit_bytes()).filter(|over| *over > 0) {
            let resizing = pool.resizing.lock();
            // One run at a time, so that others that take memory from it get their turn.
            let amount = Amount::about(over.min(SLAB_BYTES as u64));
            let taken = self.take_bytes(pool, None, 1, amount, &mut taking);
            parking_lot::MutexGuard::unlock_fair(resizing);
            if taken.is_none() {
                return Err(Error::new(
                    ErrorKind::OutOfMemory,
                    format!("pool `{}` cannot shrink to its limit: its items are held", pool.name),
                ));
            }
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
        let (mut least, mut vain_gifts) = (u64::MAX, 0);
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
            has_given = has_given
                || refused.len() < MOST_REFUSALS
                    && self.first_to_give(&refused).is_some_and(|number| {
                        let gives = self.give_a_slab(number, &mut taking);
                        // Another one is asked next.
                        gives || refused.insert(number)
                    });
            if !has_given && !self.shrink_compact() {
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

    /// Empties a split slab whose runs find room in the others, so that it gets free. Does not wait
    /// for anybody.
    pub(crate) fn bring_together(&self) -> bool {
        self.has_emptyable_slab() && self.empty_split_slab(&mut Taking::new(Why::Moved, 0)) && {
            self.free_retired_runs();
            true
        }
    }

    /// Whether there is a split slab of which all that is in use would find room in the others.
    fn has_emptyable_slab(&self) -> bool {
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

    /// Whether the class has free chunks for all that a run may hold, or was given them: then
    /// nothing is evicted if the run leaves.
    fn has_room_beside(&self, pool: &Pool, class: &Class, run: Run) -> bool {
        let mut inner = class.inner.lock();
        let needed = u64::from(run.chunks(class.info));
        // Its own free chunks do not count, and stay as many while the lock is held.
        let beside = inner.chunks.free_chunks_beside(&self.arena, run);
        let within = u64::from(inner.chunks.free_chunks()) - beside;
        // A pool that has no more than its reserve keeps that: free chunks are no reason to take a
        // run from it.
        let had = inner.chunks.bytes();
        let kept = if pool.slab_bytes() < pool.reserve_bytes() { run.bytes() } else { 0 };
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
    fn move_run(&self, run: Run, info: SlabInfo, taking: &mut Taking) -> bool {
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

    /// Takes memory from the largest compact cache that has some to give.
    fn shrink_compact(&self) -> bool {
        let mut stores = self.compact_stores();
        stores.sort_by_key(|store| std::cmp::Reverse(store.bytes()));
        stores.iter().any(|store| store.shrink(self))
    }

    /// Takes about so many bytes from another class than `class`, one of at least `least_runs`
    /// runs, for an allocation. A move empties a whole run, so that after the first [`FREE_MOVES`]
    /// there is one for each time as many bytes were inserted.
    ///
    /// Does not wait, neither for another thread that takes memory nor for held items: the caller
    /// may hold some itself.
    pub(crate) fn move_within_pool(&self, pool: &Pool, class: &Class, least_runs: usize, bytes: u64) -> bool {
        let least = class.least_bytes();
        let bytes = least.max(bytes);
        let Some(turn) = pool.turn_to_move(bytes) else { return false };
        let before = pool.slab_bytes();
        let giver = {
            let Some(_resizing) = pool.resizing.try_lock() else { return false };
            let mut taking = Taking::new(Why::Moved, 0);
            let amount = Amount::about(bytes);
            self.take_bytes(pool, Some(class.info.class), least_runs, amount, &mut taking)
        };
        if let Some(giver) = giver {
            self.wait_for_retired_runs();
            // All of it, so that no other pool has what may be this one's reserve.
            let taken = before.saturating_sub(pool.slab_bytes());
            if self.grow(pool, class, taken) == 0 && self.bring_together() {
                self.grow(pool, class, taken);
            }
            // What is left over may be too short a row for this class, but not for the one that it
            // comes from.
            let left = before.saturating_sub(pool.slab_bytes());
            if left > 0 {
                self.give_back_to(pool, giver, left);
            }
            pool.slabs_moved.fetch_add(1, Ordering::Relaxed);
            pool.note_move(turn);
        }
        giver.is_some()
    }

    /// Takes memory for `class`, which has none that it can use, from other classes of the pool
    /// until it gets a run, however often memory was moved lately; or, if that is not enough, from
    /// other pools that should give, all of it or what is lacking: else an item would be refused.
    /// Does not wait, as [`Self::move_within_pool`]. Returns whether the class got one.
    pub(crate) fn insist_on_run(&self, pool: &Pool, class: &Class) -> bool {
        let least = class.least_bytes();
        // So that all that is given is for the class.
        self.find_room(self.metadata_to_come() + UNIT_TABLE_BYTES as u64);
        self.wait_for_retired_runs();
        // If all that the pool has would not do, its items would leave in vain.
        let lacking = least.saturating_sub(pool.slab_bytes());
        lacking == 0 && self.move_until_grown(pool, class, least)
            || self.reclaim_bytes(pool, least, least) && self.grow(pool, class, least) > 0
            || lacking > 0
                && self.reclaim_bytes(pool, lacking, lacking)
                && self.move_until_grown(pool, class, least)
    }

    /// Takes so many bytes at a time from the largest other classes of the pool, until this one
    /// gets a run.
    fn move_until_grown(&self, pool: &Pool, class: &Class, bytes: u64) -> bool {
        let before = pool.slab_bytes();
        let mut taking = Taking::new(Why::Moved, 0);
        let mut giver = None;
        // One class may not have as much, and what it gave may lie apart.
        let has_grown = (0..MOST_GIVERS).map_while(|_| {
            let resizing = pool.resizing.try_lock()?;
            giver =
                Some(self.take_bytes(pool, Some(class.info.class), 1, Amount::about(bytes), &mut taking)?);
            drop(resizing);
            let is_free = self.wait_for_retired_runs();
            let has_grown = self.grow(pool, class, bytes) > 0;
            // What readers keep is of no use yet, nor would more be.
            (has_grown || is_free).then_some(has_grown)
        });
        let has_grown = has_grown.into_iter().any(|grew| grew);
        let left = before.saturating_sub(pool.slab_bytes());
        if let Some(giver) = giver.filter(|_| left > 0) {
            self.give_back_to(pool, giver, left);
        }
        pool.slabs_moved.fetch_add(u64::from(has_grown), Ordering::Relaxed);
        has_grown
    }

    /// Gives the class with this number memory that was taken from it, unless it leaves: then it
    /// may be gone in a moment, with what it was given. Nor if somebody else is at work in the
    /// pool.
    pub(crate) fn give_back_to(&self, pool: &Pool, number: u8, bytes: u64) {
        let Some(_resizing) = pool.resizing.try_lock() else { return };
        if !pool.is_class_leaving(number)
            && let Some(class) = pool.used_class(number)
        {
            self.grow(pool, class, bytes);
        }
    }

    /// Has the pool with this number give a slab's worth of memory, or what it has over its reserve
    /// if there is such, because the cache's memory was lowered. `false`: it gave nothing, or what
    /// it gave cannot be brought together.
    fn give_a_slab(&self, number: u16, taking: &mut Taking) -> bool {
        let pools = self.pools.all();
        let Some(pool) = pools.numbered(number) else { return false };
        let most_bytes = match pool.slab_bytes().saturating_sub(pool.reserve_bytes()) {
            0 => u64::MAX,
            over => over,
        };
        let amount = Amount { bytes: most_bytes.min(SLAB_BYTES as u64), most_bytes };
        let resizing = pool.resizing.try_lock_for(PATIENCE);
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

    /// Takes about as much as `amount` says from the class of the pool that has most, other than
    /// `except`, and at least `least_runs` runs, or from the next one that can give some. Returns
    /// the number of the class. `None`: none gave anything. The caller holds the pool's `resizing`.
    pub(crate) fn take_bytes(
        &self,
        pool: &Pool,
        except: Option<u8>,
        least_runs: usize,
        amount: Amount,
        taking: &mut Taking,
    ) -> Option<u8> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::tests::while_read;
    use crate::{CacheConfig, ItemOptions, PoolConfig};

    #[test]
    fn a_run_with_a_held_item_does_not_take_its_pool_beyond_its_limit() {
        let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let limit = ByteSize::mib(1);
        let id = cache.add_pool(PoolConfig { limit: Some(limit), ..PoolConfig::named("p") }).expect("a pool");
        let put = |key: u32| {
            let item = cache.allocate(id, &key.to_le_bytes(), 1_000, &ItemOptions::default()).expect("room");
            cache.put(item);
        };
        (0..5_000).for_each(put);
        let core = cache.core();
        let pool = core.pool(id).expect("added");
        let (_, class) = pool.used_classes().next().expect("one has the items");
        // The longest, so that no free memory of the pool's would do in its stead.
        let run = class.inner.lock().chunks.runs().max_by_key(|run| run.units).expect("there are some");
        let held = (0..5_000_u32)
            .filter_map(|key| cache.find(&key.to_le_bytes()))
            .find(|item| (0..run.chunks(class.info)).any(|number| run.chunk(number) == item.ptr()))
            .expect("an item is in it");
        assert!(!core.move_run(run, class.info, &mut Taking::new(Why::Moved, 0)), "an item is held");
        assert!(pool.slab_bytes() <= limit.as_u64(), "{} bytes", pool.slab_bytes());
        // One that waits for the holder has begun the move by then, as one has that finds no item
        // held at first.
        assert!(!core.move_run(run, class.info, &mut Taking::new(Why::Moved, 1)), "an item is held");
        assert!(pool.slab_bytes() <= limit.as_u64(), "{} bytes", pool.slab_bytes());
        drop(held);
        assert!(core.move_run(run, class.info, &mut Taking::new(Why::Moved, 0)));
        assert!(pool.slab_bytes() <= limit.as_u64(), "{} bytes", pool.slab_bytes());
        cache.validate();
    }

    #[test]
    fn a_class_that_insists_on_a_run_takes_no_more_once_readers_keep_what_it_took() {
        let config = CacheConfig { memory: ByteSize::mib(8), huge_pages: false, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let id = cache.add_pool(PoolConfig::named("p")).expect("a pool");
        let allocate = |key: u32, len| cache.allocate(id, &key.to_le_bytes(), len, &ItemOptions::default());
        (0..10_000).for_each(|key| cache.put(allocate(key, 1_000).expect("room")));
        let core = cache.core();
        let pool = core.pool(id).expect("added");
        let place = pool.sizes().place_for(100_000).expect("a class");
        let class = core.class_at(&pool, pool.sizes(), place);
        let before = pool.slab_bytes();
        let taken = while_read(&cache, || {
            assert!(!core.insist_on_run(&pool, class));
            before - pool.slab_bytes()
        });
        assert!(taken > 0 && taken < 1 << 20, "{taken} bytes of {before} were taken in vain");
        assert!(core.insist_on_run(&pool, class));
        cache.validate();
    }
}

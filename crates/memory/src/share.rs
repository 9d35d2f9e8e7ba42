//! Memory between pools: bringing pools to their limits a little at a time, and moving limits to
//! where they bring most.
//!
//! The decisions are those of [`crate::strategy`]: the resizer says how much a pool over its limit
//! gives back in one round, its rebalancer which class gives them, and the optimizer whose limit
//! should be whose.

pub(crate) mod sharing;

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{ByteSize, Part};
use rebalance::reclaim::{Stake, goes_first, lowest_that_wants, victim, victim_and_step};
use slab::SLAB_BYTES;
use slab::run::UNIT_BYTES;

use self::sharing::Sharing;
use crate::cache::{Cache, Core};
use crate::class::Class;
use crate::error::{Error, ErrorKind};
use crate::pool::Pool;
use crate::pools::{AllPools, PoolId};
use crate::rebalance::step_for;
use crate::release::{Amount, MOVE_WAITS, Taking, WAITS, Why};
use crate::strategy::{LimitMove, Move, OptimizerConfig, PoolSize, PoolView, resize};

/// Memory that one pool has given so that another may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// The pool that gave it.
    pub victim: PoolId,
    /// The pool that wanted it.
    pub receiver: PoolId,
    /// The memory moved, in bytes: about a slab, or a part of one if the receiver is small.
    pub bytes: u64,
}

/// One byte in this many of the memory for slabs counts in nobody's grant.
const NOT_GRANTED_PART: u64 = 64;
/// Pools that an allocation asks for memory, at most.
const MOST_ASKED: usize = 8;
/// Pools that give as much as one may in a round; further ones wait for the next.
const POOLS_IN_FULL: u64 = 4;

impl Cache {
    /// Brings pools that are over their limit down, each by at most so many slabs as
    /// [`crate::CacheConfig::resize_slabs`] says, so that a round stays short. Their items move or
    /// are evicted, those of the classes first that the pool's strategy would rather take slabs
    /// from. Returns what was given back, and why. [`Self::maintain`] does so as well.
    ///
    /// A pool is over its limit when the optimizer has lowered it ([`Self::optimize`]), where held
    /// items kept [`Self::set_pool_limit`] from its end, or after a restart with a lower limit.
    pub fn resize_pools(&self) -> Vec<(PoolId, Move)> {
        self.resize_round().0
    }

    /// A round of resizing: what was given back, and the name of a pool that could not give what it
    /// should.
    pub(crate) fn resize_round(&self) -> (Vec<(PoolId, Move)>, Option<String>) {
        let core = self.core();
        let pools = core.pools.all();
        let staying: Vec<&Pool> = pools.iter().filter(|pool| !pool.is_leaving()).collect();
        let sizes: Vec<PoolSize> = staying.iter().map(|pool| pool.size()).collect();
        let (mut given, mut stuck) = (Vec::new(), None);
        let most_bytes = core.sharing.lock().resize_slabs.saturating_mul(SLAB_BYTES as u64);
        let mut left = most_bytes.saturating_mul(POOLS_IN_FULL);
        let mut taking = Taking::new(Why::Limit, WAITS);
        for shrink in resize(&sizes, most_bytes) {
            let Some(pool) = pools.numbered(shrink.pool) else { continue };
            // So that a round ends soon, however many pools there are; the others have their turn
            // in the next ones.
            let bytes = shrink.bytes.min(left);
            left -= bytes;
            let least = pool.slab_bytes().saturating_sub(bytes);
            while let Some(over) = pool.slab_bytes().checked_sub(least).filter(|over| *over > 0) {
                match self.give_back(pool, Amount::about(over.min(step_for(pool.slab_bytes()))), &mut taking)
                {
                    Some(moved) => given.push((pool.id(), moved)),
                    None => {
                        stuck = Some(pool.name.clone());
                        break;
                    }
                }
            }
        }
        (given, stuck)
    }

    /// Moves a slab's worth of limit from the pool that would miss it least to the one that gains
    /// most, of those that have a limit ([`Optimizer`](crate::strategy::Optimizer)). Returns what
    /// was moved, and why; the first call only remembers counts. The slab follows in the next
    /// rounds of [`Self::resize_pools`]. [`Self::maintain`] does so as well where
    /// [`crate::CacheConfig::optimizer`] or [`Self::set_optimizer`] asks for it.
    pub fn optimize(&self) -> Option<LimitMove> {
        let core = self.core();
        let mut sharing = core.sharing.lock();
        let pools = core.pools.all();
        let limited: Vec<&Pool> =
            pools.iter().filter(|pool| !pool.is_leaving() && pool.limit_bytes() != u64::MAX).collect();
        let views: Vec<PoolView> = limited.iter().map(|pool| self.view_of(pool)).collect();
        let decided = sharing.optimizer.decide(&views)?;
        let by_number = |number: u16| limited.iter().find(|pool| pool.number == number);
        let (victim, receiver) = (by_number(decided.victim)?, by_number(decided.receiver)?);
        // A limit that somebody has lowered meanwhile has nothing to give.
        if !victim.lower_limit(decided.bytes, decided.bytes) {
            return None;
        }
        receiver.raise_limit(decided.bytes);
        Some(decided)
    }

    /// Has [`Self::maintain`] move limits between pools ([`Self::optimize`]), or not any more
    /// (`None`). What the optimizer has seen is forgotten.
    pub fn set_optimizer(&self, config: Option<OptimizerConfig>) {
        let mut sharing = self.core().sharing.lock();
        *sharing = Sharing { holds_back: sharing.holds_back, ..Sharing::new(config, sharing.resize_slabs) };
    }

    /// Changes what a pool is entitled to of the memory, while serving: see
    /// [`crate::PoolConfig::reserve`] and [`crate::PoolConfig::weight`]. It takes effect as pools
    /// want memory.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`].
    pub fn set_pool_share(&self, pool: PoolId, reserve: ByteSize, weight: u32) -> Result<(), Error> {
        let core = self.core();
        core.pool(pool)?.set_share(reserve, weight);
        core.count_grants();
        Ok(())
    }

    /// Grants a pool memory, or takes the grant back (`None`). A grant counts as a reserve if it is
    /// more than the pool's reserve, and takes effect as pools want memory: what a pool does not
    /// use of its grant, or leaves vacant, others may use meanwhile. For a policy that moves memory
    /// between pools. If all reserves and grants together are more than is left beside index,
    /// queues and whatever else is charged, grants beyond reserves count in part.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`].
    pub fn set_pool_grant(&self, pool: PoolId, grant: Option<ByteSize>) -> Result<(), Error> {
        self.core().pool(pool)?.set_grant(grant.map_or(0, ByteSize::as_u64));
        Ok(())
    }

    /// Takes memory for pools that want some if none is free: vacant memory of pools that have more
    /// than their reserves, or else slabs of the pools that are farthest over their reserves by
    /// their weights, until they are even; for each at most so many as
    /// [`crate::CacheConfig::resize_slabs`] says, so that a round stays short. Until the next round
    /// a slab that gets free is not had by a pool that stands higher than one that wants it.
    /// Returns who has given to whom. [`Self::maintain`] does so as well.
    ///
    /// A pool whose class has no slab at all does not wait for a round: it takes one as it
    /// allocates.
    pub fn reclaim(&self) -> Vec<Reclaimed> {
        let core = self.core();
        let most = {
            let mut sharing = core.sharing.lock();
            let is_short = core.is_short.swap(false, Ordering::AcqRel);
            if !std::mem::replace(&mut sharing.holds_back, is_short) && !is_short {
                return Vec::new();
            }
            sharing.resize_slabs
        };
        let pools = core.pools.all();
        let staying: Vec<&Pool> = pools.iter().filter(|pool| !pool.is_leaving()).collect();
        let mut stakes: Vec<Stake> = staying.iter().map(|pool| pool.stake()).collect();
        let lowest = lowest_that_wants(&stakes);
        for (pool, stake) in staying.iter().zip(&stakes) {
            pool.set_wants_memory(false);
            let is_held_back = lowest.is_some_and(|lowest| goes_first(&lowest, stake));
            pool.set_ceiling_bytes(if is_held_back { pool.slab_bytes() } else { u64::MAX });
        }
        let wanting: Vec<u16> = stakes.iter().filter(|stake| stake.wants).map(|stake| stake.pool).collect();
        let (mut taken, mut taking) = (Vec::new(), Taking::new(Why::Limit, WAITS));
        let mut vacant: Vec<&Pool> =
            staying.iter().copied().filter(|pool| pool.upkeep.vacant.bytes() > 0).collect();
        for receiver in staying.iter().filter(|pool| wanting.contains(&pool.number)) {
            let step = receiver.step_to_take();
            let mut given = 0;
            while given < most.saturating_mul(SLAB_BYTES as u64) && core.idle_bytes() == 0 {
                let Some((number, step)) = victim_and_step(&stakes, receiver.number, step, UNIT_BYTES as u64)
                else {
                    break;
                };
                let Some(from) = pools.numbered(number) else { break };
                let released = core.reclaim_vacant(&mut vacant, receiver, step, &mut stakes, &mut taken);
                given += released;
                if released > 0 {
                    continue;
                }
                let planned = stakes.iter().find(|stake| stake.pool == number).map_or(0, |stake| stake.bytes);
                // What it was given in this round, and does not have yet, goes on to the other;
                // nothing of its own does.
                let is_passed_on = planned >= from.slab_bytes() + step;
                if is_passed_on {
                    from.set_ceiling_bytes(planned - step);
                } else if !from
                    .give_to_another(step, |amount| self.give_back(from, amount, &mut taking).is_some())
                {
                    // Its items are held: it is none to take from in this round.
                    stakes.retain(|stake| stake.pool != number);
                    continue;
                }
                given += step;
                note_given(&mut stakes, number, receiver.number, step);
                if !is_passed_on {
                    taken.push(Reclaimed { victim: from.id(), receiver: receiver.id(), bytes: step });
                }
            }
        }
        taken
    }

    /// Shares memory between pools, for [`Self::maintain`].
    pub(crate) fn share(&self) -> Result<(), Error> {
        self.core().count_grants();
        self.reclaim();
        if self.core().sharing.lock().is_automatic {
            self.optimize();
        }
        match self.resize_round().1 {
            None => Ok(()),
            Some(name) => Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("pool `{name}` cannot shrink to its limit: its items are held"),
            )),
        }
    }

    /// Takes about as much as `amount` says from the class of a pool over its limit that should
    /// give it, or from another if that one cannot.
    fn give_back(&self, pool: &Pool, amount: Amount, taking: &mut Taking) -> Option<Move> {
        let core = self.core();
        let _resizing = pool.resizing.lock();
        if let Some((victim, _)) = core.release_vacant_from(pool, None, amount, None, taking) {
            return Some(given_back(pool, victim));
        }
        let leaves = pool.used_classes().any(|(number, class)| {
            pool.is_class_leaving(number) && class.inner.lock().chunks.run_count() > 0
        });
        if !leaves {
            let view = self.view_of(pool);
            let decided = pool.rebalancer.lock().victim_for_resizing(&view);
            if let Some(decided) = decided
                && let Some(class) = pool.used_class(decided.victim)
                && core.release_bytes(pool, class, amount, taking.waiting(MOVE_WAITS)) > 0
            {
                return Some(decided);
            }
        }
        let victim = core.take_bytes(pool, None, 1, amount, taking.waiting(WAITS))?;
        Some(given_back(pool, victim))
    }
}

/// Notes that memory goes from one pool to another.
fn note_given(stakes: &mut [Stake], from: u16, to: u16, bytes: u64) {
    for stake in stakes {
        stake.bytes += bytes * u64::from(stake.pool == to);
        stake.bytes = stake.bytes.saturating_sub(bytes * u64::from(stake.pool == from));
    }
}

/// The move of memory of a pool that is over its limit.
fn given_back(pool: &Pool, victim: u8) -> Move {
    let limit = ByteSize::new(pool.limit_bytes());
    let reason = format!("the pool is over its limit of {limit}, and class {victim} could give some memory");
    Move { victim, receiver: None, reason }
}

impl Core {
    /// Has grants count as far as the memory that is left beside index, queues and other uses
    /// allows, less a small part: so there are always pools that have more than others may not take
    /// from them. Returns whether any counts less than it did.
    pub(crate) fn count_grants(&self) -> bool {
        let pools = self.pools.all();
        let staying = || pools.iter().filter(|pool| !pool.is_leaving());
        if staying().all(|pool| pool.granted_bytes() == 0) {
            return false;
        }
        let slabs = self.ledger.room_for(Part::Slabs);
        let left = slabs - slabs / NOT_GRANTED_PART;
        let sum = |of: &dyn Fn(&Pool) -> u64| staying().map(of).fold(0, u64::saturating_add);
        let reserved = sum(&|pool| pool.reserve_bytes());
        let beyond = sum(&|pool| pool.granted_bytes().saturating_sub(pool.reserve_bytes()));
        let part = left.saturating_sub(reserved) as f64 / beyond.max(1) as f64;
        let before = sum(&|pool| pool.entitled_bytes());
        staying().for_each(|pool| pool.count_grant(part.min(1.0)));
        sum(&|pool| pool.entitled_bytes()) < before
    }

    /// Takes vacant memory of these pools for another one that wants a step more: before items of
    /// any pool are evicted for it. Those that can give none are asked once in a round. Returns how
    /// much it was.
    fn reclaim_vacant(
        &self,
        pools: &mut Vec<&Pool>,
        receiver: &Pool,
        step: u64,
        stakes: &mut [Stake],
        taken: &mut Vec<Reclaimed>,
    ) -> u64 {
        let mut given = 0;
        pools.retain(|from| {
            if given >= step || from.number == receiver.number {
                return true;
            }
            let bytes = self.release_vacant_over_reserve(from, step - given);
            if bytes > 0 {
                if from.is_held_back() {
                    from.set_ceiling_bytes(from.slab_bytes());
                }
                from.slabs_reclaimed.fetch_add(1, Ordering::Relaxed);
                note_given(stakes, from.number, receiver.number, bytes);
                taken.push(Reclaimed { victim: from.id(), receiver: receiver.id(), bytes });
                given += bytes;
            }
            bytes > 0
        });
        given
    }

    /// Takes memory for a class of the pool from the pool that should give it, for an allocation.
    /// Waits neither for another thread that takes memory nor for held items, as
    /// [`Core::move_within_pool`].
    pub(crate) fn reclaim_for(&self, pool: &Pool, class: &Class) -> bool {
        let least = class.least_bytes();
        self.reclaim_bytes(pool, least, least.max(pool.step_to_take()))
    }

    /// Takes `step` bytes for the pool from the one that should give them, or `least` if none has
    /// as much to give; if its limit allows `least` of them.
    pub(crate) fn reclaim_bytes(&self, pool: &Pool, least: u64, step: u64) -> bool {
        let take = || self.reclaim_step(pool, step) || least < step && self.reclaim_step(pool, least);
        // Connections and the like may have grown since grants were counted.
        pool.has_room_for(least) && (take() || self.count_grants() && take())
    }

    fn reclaim_step(&self, pool: &Pool, step: u64) -> bool {
        let pools = self.pools.all();
        let gives = self.givers(&pools, pool, step).take(MOST_ASKED).any(|from| {
            // Who is at it already is waited for by the caller, and asked again.
            let Some(_resizing) = from.resizing.try_lock() else { return false };
            pool.set_ceiling_bytes(u64::MAX);
            // The next round lifts the ceiling of the one that gives.
            self.is_short.store(true, Ordering::Release);
            let mut taking = Taking::new(Why::Moved, 0);
            let gives = from.give_to_another(step, |amount| {
                self.take_bytes(from, None, 1, amount, &mut taking).is_some()
            });
            self.note_whether_it_gives(from, gives);
            gives
        });
        if gives {
            self.wait_for_retired_runs();
        }
        gives
    }

    /// The pools that should give another one this many bytes, in the order in which to ask them:
    /// those that could not give lately come last.
    fn givers<'p>(&self, pools: &'p AllPools<'_>, taker: &Pool, step: u64) -> impl Iterator<Item = &'p Pool> {
        let (taker, now) = (taker.number, self.now());
        let staying: Vec<&Pool> = pools.iter().filter(|pool| !pool.is_leaving()).collect();
        let is_willing = |pool: &&&Pool| !pool.has_refused(now) || pool.number == taker;
        let mut willing: Vec<Stake> = staying.iter().filter(is_willing).map(|pool| pool.stake()).collect();
        let mut all: Vec<Stake> = staying.iter().map(|pool| pool.stake()).collect();
        std::iter::from_fn(move || {
            let next = victim(&willing, taker, step).or_else(|| victim(&all, taker, step))?;
            for stakes in [&mut willing, &mut all] {
                stakes.retain(|stake| stake.pool != next);
            }
            Some(next)
        })
        .filter_map(|number| pools.numbered(number))
    }

    /// Waits for another thread that takes memory from the pool which should give this one some,
    /// for as long as that at most. Says whether there was one: then there is, or soon will be,
    /// more to be had.
    pub(crate) fn wait_for_giver(&self, pool: &Pool, patience: Duration) -> bool {
        let pools = self.pools.all();
        let Some(from) = self.givers(&pools, pool, pool.step_to_take()).next() else { return false };
        let is_at_work = from.resizing.is_in_use();
        if is_at_work {
            from.wait_for_resizing(from.holding(), patience);
        }
        is_at_work
    }
}

impl Pool {
    /// Has `take` take this many bytes from it, which get free for another pool. Says whether that
    /// worked.
    fn give_to_another(&self, bytes: u64, take: impl FnOnce(Amount) -> bool) -> bool {
        // Nobody takes its reserve.
        let (has, reserve) = (self.slab_bytes(), self.entitled_bytes());
        // They are not to come back at once. What moves within the reserve, from class to class,
        // is.
        self.set_ceiling_bytes(has.saturating_sub(bytes).max(reserve));
        let is_taken = take(Amount { bytes, most_bytes: has.saturating_sub(reserve) });
        if is_taken {
            self.slabs_reclaimed.fetch_add(1, Ordering::Relaxed);
        } else {
            self.set_ceiling_bytes(self.slab_bytes());
        }
        is_taken
    }

    /// Returns the bytes that it takes from others at a time: more if it lacks part of its reserve.
    pub(crate) fn step_to_take(&self) -> u64 {
        let lacking = self.entitled_bytes().saturating_sub(self.slab_bytes()) / 4;
        step_for(self.slab_bytes()).max(lacking.min(SLAB_BYTES as u64))
    }

    fn size(&self) -> PoolSize {
        let limit = self.limit_bytes();
        PoolSize {
            number: self.number,
            bytes: self.slab_bytes(),
            limit_bytes: (limit != u64::MAX).then_some(limit),
        }
    }
}

//! Carrying out what the strategies decide: slabs between the classes of a pool.
//!
//! The strategies ([`crate::strategy`]) know nothing of this cache. The engine builds a view of a
//! pool from its statistics, asks the pool's rebalancer, and moves the slab. The view is built
//! before the rebalancer is locked, because statistics take that lock too.

use std::sync::atomic::Ordering;

use slab::SLAB_BYTES;
pub(crate) use slab::run::step_for;

use crate::cache::{Cache, Core};
use crate::class::Class;
use crate::error::{Error, ErrorKind};
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::release::{Amount, MOVE_WAITS, Taking, Why};
use crate::stats::ClassStats;
use crate::strategy::{ClassView, Counts, Move, PoolView, Strategy};
use crate::upkeep::BYTES_PER_ROUND;
use crate::watch::Shadows;

/// A class as strategies see it. Projected ages are those with one slab less, where the policy
/// knows.
fn class_view(class: &ClassStats, (step_bytes, gives_bytes): (u64, u64), shadows: &Shadows) -> ClassView {
    ClassView {
        number: class.number,
        chunk_bytes: class.chunk_bytes,
        slabs: class.bytes / step_bytes,
        gives_bytes,
        free_chunks: class.free_chunks,
        items: class.items,
        tail_age_secs: class.tail_age_secs,
        projected_age_secs: class.projected_tail_age_secs,
        counts: Counts {
            hits: class.hits,
            tail_hits: class.tail_hits,
            shadow_hits: shadows.hits(class.number, class.chunk_bytes, step_bytes),
            evictions: class.evictions,
            allocation_failures: class.allocation_failures,
        },
    }
}

impl Cache {
    /// One round of rebalancing in every pool, by its strategy ([`crate::PoolConfig::strategy`]):
    /// at most one slab moves in each. A round that has moved 64 MiB stops, and the next one goes
    /// on from there. Returns what was moved, and why. [`Self::maintain`] does so as well.
    pub fn rebalance(&self) -> Vec<(PoolId, Move)> {
        self.rebalance_those(|_| true)
    }

    /// The same in the pools that were in use lately, or in which an allocation failed if their
    /// strategy goes by that alone. Brings the queues and the bill of those up to date in which
    /// something was done.
    pub(crate) fn rebalance_where_due(&self) {
        self.rebalance_those(|pool| {
            let round = pool.upkeep.begin_round();
            if round.folds {
                pool.upkeep.vain.forget();
                for (_, class) in pool.used_classes() {
                    let folded = self.core().fold_idle_magazines(class);
                    if !folded.is_complete {
                        pool.upkeep.note_work();
                    }
                    // In a small class they may have all chunks, which then serve nobody.
                    if folded.chunks > 0 && class.items() == 0 {
                        self.core().empty_idle_magazines(class);
                    }
                    class.end_filling(self.core());
                }
            }
            round.rebalances
        });
    }

    fn rebalance_those(&self, which: impl Fn(&Pool) -> bool) -> Vec<(PoolId, Move)> {
        let (mut moved, mut taking) = (Vec::new(), Taking::new(Why::Moved, MOVE_WAITS));
        let core = self.core();
        core.rebalance_turn.go_round(&core.pools.all(), BYTES_PER_ROUND, |pool| {
            if !which(pool) {
                return 0;
            }
            if !pool.rebalancer.lock().has_choice(pool.used_classes().count()) {
                return 0;
            }
            let view = self.view_of(pool);
            let Some(decided) = pool.rebalancer.lock().decide(&view) else { return 0 };
            let bytes = pool.rebalanced_step();
            if !core.move_slab(pool, decided.victim, decided.receiver, taking.waiting(MOVE_WAITS)) {
                pool.rebalancer.lock().failed();
                return 0;
            }
            pool.rebalances.fetch_add(1, Ordering::Relaxed);
            moved.push((pool.id(), decided));
            bytes
        });
        moved
    }

    /// A pool as strategies see it. Reads statistics, which lock the pool's rebalancer: the caller
    /// must not hold that lock.
    pub(crate) fn view_of(&self, pool: &Pool) -> PoolView {
        let (stats, is_full) = (self.stats_of(pool), self.core().is_full(pool));
        let spare = stats.limit_bytes.map_or(0, |limit| limit.saturating_sub(stats.slab_bytes));
        let step_bytes = pool.rebalanced_step();
        let lacks_tail_hits = |(_, class): (u8, &Class)| class.inner.lock().policy.tail_hits().is_none();
        let gives = |number| pool.used_class(number).map_or(0, |class| class.would_give(step_bytes));
        // Classes that leave get nothing, and give all that they have anyway.
        let classes = stats.classes.iter().filter(|class| !class.is_leaving);
        PoolView {
            number: stats.id.number(),
            step_bytes,
            free_slabs: if is_full { 0 } else { spare / step_bytes },
            is_full,
            lacks_tail_hits: pool.used_classes().next().is_some_and(lacks_tail_hits),
            classes: classes
                .map(|class| class_view(class, (step_bytes, gives(class.number)), &pool.shadows))
                .collect(),
        }
    }

    /// Changes a pool's strategy, while serving. Hill climbing takes 133 KiB for its shadow queues.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`]; [`ErrorKind::OutOfMemory`] if held items keep the cache from
    /// making room for shadow queues.
    pub fn set_pool_strategy(&self, pool: PoolId, strategy: Strategy) -> Result<(), Error> {
        self.core().watch_shadows(pool, strategy.needs_shadows())?;
        let pool = self.core().pool(pool)?;
        pool.upkeep.set_waits_for_failures(strategy == Strategy::OnFailures);
        pool.rebalancer.lock().set_strategy(strategy);
        Ok(())
    }

    /// Takes a slab from the class `victim` of a pool, and gives it to the class `receiver`, or
    /// back to the pool. Less moves in a pool below 64 MiB, a sixteenth of it, and in one of many
    /// small classes, half of what a class has on average, but at least 64 KiB. Items that nobody
    /// holds move to other chunks of their class in the place of what would be evicted next there.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`]; [`ErrorKind::Config`] where there is no such class, or the victim
    /// has no slab; [`ErrorKind::OutOfMemory`] where items of the slab are held.
    pub fn move_slab(&self, pool: PoolId, victim: u8, receiver: Option<u8>) -> Result<(), Error> {
        let pool = self.core().pool(pool)?;
        let is_there =
            |class: &u8| pool.used_class(*class).is_some() || pool.sizes().place_of(*class).is_some();
        if let Some(class) = [Some(victim), receiver].into_iter().flatten().find(|class| !is_there(class)) {
            let context = format!("pool `{}` has no size class {class}: `stats` lists them", pool.name);
            return Err(Error::new(ErrorKind::Config, context));
        }
        let has_runs = |class: &Class| class.inner.lock().chunks.run_count() > 0;
        if !pool.used_class(victim).is_some_and(has_runs) {
            let context = format!("size class {victim} of pool `{}` has no slab", pool.name);
            return Err(Error::new(ErrorKind::Config, context));
        }
        if self.core().move_slab(&pool, victim, receiver, &mut Taking::new(Why::Moved, MOVE_WAITS)) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "no slab of size class {victim} of pool `{}` could be emptied: items are held",
                pool.name
            ),
        ))
    }
}

impl Core {
    /// Returns whether a pool can get no more memory.
    pub(crate) fn is_full(&self, pool: &Pool) -> bool {
        let free = self.ledger.limit().saturating_sub(self.ledger.total() + self.metadata_to_come());
        let step = step_for(pool.slab_bytes());
        // Units of split slabs may lie apart, so that not all of them can be had.
        !pool.has_room_for(step) || free < SLAB_BYTES as u64 && free + self.arena.free_unit_bytes() < 4 * step
    }

    fn move_slab(&self, pool: &Pool, victim: u8, receiver: Option<u8>, taking: &mut Taking) -> bool {
        let Some(from) = pool.used_class(victim) else { return false };
        // Another thread that takes slabs is doing what this one is about to do.
        let Some(_resizing) = pool.resizing.try_lock() else { return false };
        // A receiver of large chunks can do nothing with less than one.
        let least = receiver.and_then(|class| pool.used_class(class)).map_or(0, Class::least_bytes);
        let amount = Amount::about(pool.rebalanced_step().max(least));
        let released = self.release_bytes(pool, from, amount, taking);
        if released == 0 {
            return false;
        }
        pool.slabs_moved.fetch_add(1, Ordering::Relaxed);
        let sizes = pool.sizes();
        // A class that the pool allocates from no more gets nothing.
        if let Some(place) = receiver.and_then(|receiver| sizes.place_of(receiver)) {
            // If another class was quicker, the memory is at least in use.
            self.grow(pool, self.class_at(pool, sizes, place), released);
        }
        true
    }
}

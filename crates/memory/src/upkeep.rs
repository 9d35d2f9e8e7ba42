//! Marks of the pools that have something due, so that maintenance looks at nothing else.
//!
//! [`crate::Cache::maintain`] is to be called once a second, and a cache may have 4,096 pools of
//! which few are in use at a time. So each pool says in one cache line whether a class of it has
//! items that may have expired, whether it was at work since the last round, whether its sizes are
//! to be looked at, and whether its policy was changed. Threads that work with the pool set these
//! marks, and a round of maintenance reads that line.
//!
//! Invariants:
//! 1. `reap_at` is no later than the first second at which an entry of a class's wheel, or an item
//!    with an expiry that waits in a magazine, is due; 0 stands for such an item. That of a class
//!    is set before that of its pool, and a round takes the pool's before it looks at the classes:
//!    what is said meanwhile is for the next round.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::pool::Pool;
use crate::pools::AllPools;
use crate::vacant::count::{Sum, Vain};

/// Memory that a round over all pools moves between classes, in bytes.
pub(crate) const BYTES_PER_ROUND: u64 = 64 << 20;

/// The pool at which the next round over all pools begins.
#[derive(Default)]
pub(crate) struct PoolCursor(AtomicU16);

impl PoolCursor {
    /// Visits the pools in turn, until what the visits did, as each says, totals `most`: the next
    /// round goes on from there.
    pub(crate) fn go_round(&self, pools: &AllPools<'_>, most: u64, mut visit: impl FnMut(&Pool) -> u64) {
        let mut done = 0;
        for pool in pools.iter_from(self.0.load(Ordering::Relaxed)).filter(|pool| !pool.is_leaving()) {
            if done >= most {
                self.0.store(pool.number, Ordering::Relaxed);
                return;
            }
            done += visit(pool);
        }
    }
}

/// The marks of what is due in a pool.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Upkeep {
    /// The time at which items are due, in Unix seconds.
    reap_at: AtomicU32,
    /// Rounds in which the rebalancer is yet to look at the pool.
    rounds: AtomicU32,
    /// True if the rebalancer acts upon failed allocations alone.
    waits_for_failures: AtomicBool,
    /// True if chunks were taken or freed since the last round.
    worked: AtomicBool,
    /// True if an allocation failed since the last round.
    failed: AtomicBool,
    /// True if the pool has a tuner or classes that leave.
    tunes: AtomicBool,
    /// True if classes of it may have another policy than it has.
    converts: AtomicBool,
    /// Vacant memory of its classes.
    pub(crate) vacant: Sum,
    /// Looks for vacant memory that were in vain.
    pub(crate) vain: Vain,
}

/// The walk over a pool for the sake of a flush ([`crate::flushed`]).
#[derive(Default)]
pub(crate) struct FlushWalk {
    /// No item is left that was made before that Unix second ([`crate::keyspace`]), except for the
    /// items of `has_come`.
    pub(crate) done: AtomicU32,
    /// True if a flushed item is at a new place, which the walk may have passed.
    pub(crate) has_come: AtomicBool,
    pub(crate) place: Mutex<FlushCursor>,
}

/// The place of such a walk.
#[derive(Default)]
pub(crate) struct FlushCursor {
    /// The latest flush. It is walked for at once.
    pub(crate) latest: u32,
    /// The flush that the walk began with. 0: none is under way.
    pub(crate) before: u32,
    pub(crate) class: u8,
    /// The next chunk, by its number within the class.
    pub(crate) chunk: u32,
    /// True if the walk found flushed items, or may not have found all.
    pub(crate) found: bool,
    /// Rounds that are passed over before the walk begins.
    pub(crate) pause: u32,
    /// Rounds from the end of the walk before to this one. 0: it is the first.
    pub(crate) rounds: u32,
}

/// The work of a round of maintenance for a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueWork {
    /// Bring queues and the bill up to date.
    pub(crate) folds: bool,
    /// Ask the rebalancer.
    pub(crate) rebalances: bool,
}

/// Rounds for which a pool that is not in use any more is rebalanced: hold-offs and averages run
/// out meanwhile.
const ROUNDS: u32 = 16;

impl Upkeep {
    /// Nothing is due but by what the pool is like.
    pub(crate) fn new() -> Self {
        Self { reap_at: AtomicU32::new(u32::MAX), ..Self::default() }
    }

    /// Something may be due at that second.
    pub(crate) fn note_due(&self, at: u32) {
        if at < self.reap_at.load(Ordering::Relaxed) {
            self.reap_at.fetch_min(at, Ordering::Release);
        }
    }

    /// Returns whether something may be due. If so, the caller looks at all classes, and says when
    /// the next of them is due.
    pub(crate) fn take_due(&self, now: u32) -> bool {
        self.reap_at.load(Ordering::Relaxed) <= now && self.reap_at.swap(u32::MAX, Ordering::AcqRel) <= now
    }

    /// Chunks were taken or freed.
    #[inline]
    pub(crate) fn note_work(&self) {
        set(&self.worked);
    }

    /// An allocation has failed.
    pub(crate) fn note_failure(&self) {
        set(&self.failed);
    }

    /// Says whether failed allocations alone matter to the rebalancer.
    pub(crate) fn set_waits_for_failures(&self, waits: bool) {
        self.waits_for_failures.store(waits, Ordering::Relaxed);
        self.rounds.store(if waits { 0 } else { ROUNDS }, Ordering::Relaxed);
    }

    /// Returns what is to be done in this round.
    pub(crate) fn begin_round(&self) -> DueWork {
        let folds = take(&self.worked);
        if folds && !self.waits_for_failures.load(Ordering::Relaxed) {
            self.rounds.store(ROUNDS, Ordering::Relaxed);
        }
        let rounds = self.rounds.load(Ordering::Relaxed);
        if rounds > 0 {
            self.rounds.store(rounds - 1, Ordering::Relaxed);
        }
        DueWork { folds, rebalances: take(&self.failed) || rounds > 0 }
    }

    /// Classes may have another policy than the pool.
    pub(crate) fn note_conversion(&self) {
        set(&self.converts);
    }

    /// Returns whether classes may have another policy than the pool. If so, the caller converts
    /// them.
    pub(crate) fn take_conversion(&self) -> bool {
        take(&self.converts)
    }

    /// The pool has a tuner or classes that leave.
    pub(crate) fn note_tuning(&self) {
        set(&self.tunes);
    }

    /// Returns whether its sizes are to be looked at. If so, the caller does, and says so if that
    /// is to go on.
    pub(crate) fn take_tuning(&self) -> bool {
        take(&self.tunes)
    }
}

/// Sets a flag, without a write where it is set.
#[inline]
pub(crate) fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Release);
    }
}

/// Clears a flag, without a write where it is clear. Whether it was set.
fn take(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::AcqRel)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::Clock;

    use super::*;
    use crate::strategy::Strategy;
    use crate::{Cache, CacheConfig, Expiry, ItemOptions, PoolConfig};

    #[test]
    fn maintenance_leaves_alone_what_has_nothing_due() {
        let clock = Clock::manual(1_000_000);
        let cache = Cache::new(CacheConfig { clock, ..CacheConfig::default() }).expect("a cache");
        // Others have rounds for a while after they were used.
        let strategy = Strategy::OnFailures;
        let pool = |name: &str| {
            let pool = PoolConfig { strategy: strategy.clone(), ..PoolConfig::named(name) };
            cache.add_pool(pool).expect("a pool")
        };
        let (unused, lasting, expiring) = (pool("unused"), pool("lasting"), pool("expiring"));
        let put = |pool, key: &[u8], expiry| {
            let options = ItemOptions { expiry, ..ItemOptions::default() };
            cache.put(cache.allocate(pool, key, 10, &options).expect("memory"));
        };
        put(lasting, b"lasting", Expiry::Never);
        put(expiring, b"expiring", Expiry::After(1_000));
        (0..2).for_each(|_| cache.maintain().expect("nothing is over its limit"));
        let core = cache.core();
        let now = core.now();
        for id in [unused, lasting, expiring] {
            let pool = core.pool(id).expect("it is there");
            let upkeep = &pool.upkeep;
            assert_eq!(upkeep.begin_round(), DueWork { folds: false, rebalances: false });
            assert!(
                !upkeep.take_tuning() && !upkeep.take_conversion() && !upkeep.take_due(now),
                "{}",
                pool.name
            );
        }
        // What is asked in vain takes nothing away.
        let due = |id| core.pool(id).expect("it is there").upkeep.reap_at.load(Ordering::Relaxed);
        assert_eq!((due(unused), due(lasting)), (u32::MAX, u32::MAX));
        assert!((now + 900..now + 1_100).contains(&due(expiring)), "{} at {now}", due(expiring));
        put(lasting, b"not lasting", Expiry::After(5));
        assert_eq!((due(lasting), cache.reap()), (0, 0), "it waits in a magazine");
        assert!((now + 5..now + 7).contains(&due(lasting)));
        cache.clock().advance(Duration::from_secs(10));
        assert_eq!(cache.reap(), 1);
        cache.clock().advance(Duration::from_secs(2_000));
        assert_eq!(cache.reap(), 1);
        assert_eq!((due(lasting), due(expiring)), (u32::MAX, u32::MAX));
        cache.validate();
    }

    #[test]
    fn a_round_that_has_moved_much_goes_on_where_it_stopped() {
        let cache = Cache::new(CacheConfig::default()).expect("a cache");
        let ids: Vec<_> =
            (0..5).map(|i| cache.add_pool(PoolConfig::named(i.to_string())).expect("a pool")).collect();
        let (core, turn) = (cache.core(), PoolCursor::default());
        let round = |moves: u64| {
            let mut visited = Vec::new();
            turn.go_round(&core.pools.all(), BYTES_PER_ROUND, |pool| {
                visited.push(pool.number);
                moves
            });
            visited
        };
        assert_eq!(round(0), [0, 1, 2, 3, 4]);
        assert_eq!(round(BYTES_PER_ROUND / 2), [0, 1]);
        assert_eq!(round(BYTES_PER_ROUND / 2), [2, 3]);
        assert_eq!(round(BYTES_PER_ROUND), [4]);
        assert_eq!(round(BYTES_PER_ROUND - 1), [0, 1]);
        cache.remove_pool(ids[2]).expect("it is there");
        assert_eq!(round(1), [3, 4, 0, 1]);
    }

    #[test]
    fn the_earliest_due_time_counts_until_it_is_taken() {
        let upkeep = Upkeep::new();
        assert!(!upkeep.take_due(u32::MAX - 1));
        upkeep.note_due(200);
        upkeep.note_due(100);
        upkeep.note_due(300);
        assert!(!upkeep.take_due(99) && upkeep.take_due(100));
        assert!(!upkeep.take_due(400), "whoever took it says when the next is due");
        upkeep.note_due(0);
        assert!(upkeep.take_due(0));
    }

    #[test]
    fn a_pool_is_rebalanced_while_it_works_and_some_rounds_longer() {
        let upkeep = Upkeep::new();
        upkeep.set_waits_for_failures(false);
        upkeep.note_work();
        assert_eq!(upkeep.begin_round(), DueWork { folds: true, rebalances: true });
        let more = (0..100).take_while(|_| upkeep.begin_round().rebalances).count();
        assert_eq!(more as u32, ROUNDS - 1);
        assert_eq!(upkeep.begin_round(), DueWork { folds: false, rebalances: false });
        upkeep.set_waits_for_failures(true);
        upkeep.note_work();
        assert_eq!(upkeep.begin_round(), DueWork { folds: true, rebalances: false });
        upkeep.note_failure();
        assert_eq!(upkeep.begin_round(), DueWork { folds: false, rebalances: true });
        assert!(!upkeep.begin_round().rebalances);
    }
}

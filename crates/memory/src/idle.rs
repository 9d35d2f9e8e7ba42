//! Size classes without chunks: they give back what they take besides.
//!
//! A class takes 2 to 11 KB for its counters, queues and magazines, by policy. In a cache of many
//! pools and little memory those of classes that were used once would add up to all of it. So a
//! class that has lost its last run, or never got one, leaves its pool when memory is lacking, and
//! is made again when next used; and a pool that wants one more class while all of them take over
//! half of the limit gives up the one with the fewest chunks for it.
//!
//! Invariants:
//! 1. A class leaves only with the pool's `resizing` and its own lock held, without a run, and with
//!    none that readers may look into. From then on it is marked, and takes no run: whoever found
//!    it before finds it empty for good, and looks its number up again.
//! 2. It is freed as [`crate::pools`] says.

pub(crate) mod list;

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Part;
use evict::{Policy, PolicyKind};

use self::list::IdleClass;
use crate::cache::Core;
use crate::class::{BYTES_IN, Class};
use crate::pool::Pool;
use crate::pools::Remains;
use crate::release::{Taking, Why};
use crate::stats::ClassStats;

/// For how long a class is without chunks, at least, before it leaves, in seconds: one that was
/// made just now is about to get some. Those are whole seconds of a clock, so that it may be a
/// second less.
const IDLE_SECS: u32 = 2;
/// Classes without chunks of which it is not asked whether they still are.
const MOST_UNTENDED: usize = 256;
/// The part of the limit that classes which left take, at most, until nobody looks at them any
/// more.
const MOST_RETIRED_PART: u64 = 16;
/// Number of times that a pool that is to give up a class waits for that, and how long each time.
const GRACE_WAITS: u32 = 20;
const GRACE_WAIT: Duration = Duration::from_millis(1);
/// Classes that a pool tries to give up, at most, for another one.
const MOST_TRIED: usize = 4;
/// Longest time that a pool waits for another thread that takes its memory before it gives up a
/// class.
const PATIENCE: Duration = Duration::from_millis(20);

impl Core {
    /// Notes that a class was made, or has lost its last run.
    pub(crate) fn note_idle(&self, class: &Class) {
        if !class.is_noted_idle.swap(true, Ordering::AcqRel) {
            let idle = IdleClass { pool: class.info.pool, class: class.info.class, since: self.now() };
            self.idle.0.lock().push(idle);
        }
    }

    /// Has classes leave that have had no run for a while. The caller holds no lock of a pool or
    /// class.
    pub(crate) fn retire_idle_classes(&self) {
        let now = self.now();
        self.look_at_idle(|pool, class, since| {
            if now < since.saturating_add(IDLE_SECS) || !self.may_retire_classes() {
                return true;
            }
            let Some(_resizing) = pool.resizing.try_lock() else { return true };
            !self.retire_if_idle(pool, class)
        });
        self.free_retired();
    }

    /// Forgets classes that now have runs, or are gone with their pools, once they may be many.
    pub(crate) fn tend_idle_classes(&self) {
        if self.idle.0.lock().len() > MOST_UNTENDED {
            self.look_at_idle(|_, _, _| true);
        }
    }

    /// Returns whether more classes may leave: those that have left, and that some thread still
    /// looks at, do not take much.
    pub(crate) fn may_retire_classes(&self) -> bool {
        self.pools.retired_class_bytes() <= self.ledger.limit() / MOST_RETIRED_PART
    }

    /// Asks of each class that has no run whether it stays noted, with the time since when it has
    /// none.
    fn look_at_idle(&self, stays: impl Fn(&Pool, &Class, u32) -> bool) {
        let pools = self.pools.all();
        let mut idle = std::mem::take(&mut *self.idle.0.lock());
        idle.retain(|idle| {
            let Some(pool) = pools.numbered(idle.pool) else { return false };
            let Some(class) = pool.used_class(idle.class) else { return false };
            // Whoever takes its last run from here on notes it again.
            class.is_noted_idle.store(false, Ordering::Release);
            if pool.is_leaving() || class.inner.lock().chunks.run_count() > 0 {
                return false;
            }
            class.is_noted_idle.store(true, Ordering::Release);
            stays(pool, class, idle.since)
        });
        self.idle.0.lock().append(&mut idle);
    }

    /// Has the pool give up the class with the fewest chunks, and all of its items, for one that is
    /// to be made. The caller holds no lock of a pool or class. `false`: it could give up none.
    pub(crate) fn give_up_class(&self, pool: &Pool) -> bool {
        if !self.wait_for_retired_classes() {
            return false;
        }
        let Some(_resizing) = pool.resizing.try_lock_within(PATIENCE) else { return false };
        let mut classes: Vec<(u64, &Class)> =
            pool.used_classes().map(|(_, class)| (class.inner.lock().chunks.bytes(), class)).collect();
        classes.sort_by_key(|(bytes, _)| *bytes);
        let gives_up = |class: &Class| {
            let runs: Vec<_> = class.inner.lock().chunks.runs().collect();
            let mut taking = Taking::new(Why::Moved, 0);
            runs.into_iter().all(|run| self.try_to_release(pool, class, run, &mut taking))
                && self.retire_if_idle(pool, class)
        };
        // What held items keep is not asked for again and again.
        classes.iter().take(MOST_TRIED).any(|(_, class)| gives_up(class))
    }

    /// Waits until others have stopped looking at enough of the classes that left, for 20 ms at
    /// most. Says whether they have.
    fn wait_for_retired_classes(&self) -> bool {
        for _ in 0..GRACE_WAITS {
            if self.may_retire_classes() {
                return true;
            }
            base::thread::sleep(GRACE_WAIT);
            self.free_retired();
        }
        self.may_retire_classes()
    }

    /// Takes a class without runs out of its pool. `false`: it has some, readers may look into
    /// some, or it left before. The caller holds the pool's `resizing`.
    pub(crate) fn retire_if_idle(&self, pool: &Pool, class: &Class) -> bool {
        let number = class.info.class;
        if self.retired_runs.has_one_of(pool.number, Some(number)) {
            return false;
        }
        {
            let mut inner = class.inner.lock();
            // Another thread may have retired it since it was found; its number may already be that
            // of another class.
            if inner.is_gone || inner.chunks.run_count() > 0 {
                return false;
            }
            // From here on it gets none.
            inner.is_gone = true;
        }
        let (past, bytes_in) = (self.class_stats(number, class, true), class.counters.sum(BYTES_IN));
        {
            // Queues and ghosts are nobody's who does not hold the lock, and go at once.
            let mut inner = class.inner.lock();
            inner.policy = Policy::new(PolicyKind::Sieve, 0);
            inner.wheel = None;
            inner.settle(self);
        }
        let taken = pool.while_counts_move(|| {
            let mut sum = pool.past.lock();
            if sum.is_none() {
                self.ledger.charge(Part::Fixed, size_of::<ClassStats>() as u64);
            }
            sum.get_or_insert_default().add(&past);
            pool.take_class(number)
        });
        if let Some(class) = taken {
            self.pools.retire(Remains::Class(class));
        }
        // Afterwards, so that it is never counted twice.
        pool.past_bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteSize, Cache, CacheConfig, ItemOptions, PoolConfig};

    #[test]
    fn a_class_that_is_found_before_another_thread_retires_it_leaves_once() {
        let config = CacheConfig { memory: ByteSize::mib(64), huge_pages: false, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let id = cache.add_pool(PoolConfig::named("pool")).expect("a pool");
        let put = |key: u32| {
            let options = ItemOptions::default();
            cache.put(cache.allocate(id, &key.to_le_bytes(), 100, &options).expect("room"));
        };
        put(0);
        let core = cache.core();
        let pools = core.pools.all();
        let pool = pools.numbered(id.number()).expect("it is there");
        let (number, found) = pool.used_classes().next().expect("one class");
        cache.move_slab(id, number, None).expect("it has a run");
        cache.maintain().expect("nothing is held");
        {
            let _resizing = pool.resizing.lock();
            assert!(core.retire_if_idle(pool, found));
        }
        (0..1_000).for_each(put);
        {
            let _resizing = pool.resizing.lock();
            assert!(!core.retire_if_idle(pool, found), "it left before");
        }
        for key in 0..1_000_u32 {
            assert!(cache.keys(id).find(&key.to_le_bytes()).is_some());
        }
        assert_eq!(cache.stats().pools[0].sum(|class| class.inserts), 1_001);
        drop(pools);
        cache.validate();
    }

    #[test]
    fn classes_of_pools_that_are_gone_are_forgotten() {
        let config = CacheConfig { memory: ByteSize::mib(64), huge_pages: false, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        for round in 0..100 {
            let pool = cache.add_pool(PoolConfig::named(format!("p{round}"))).expect("a pool");
            for len in (0..40).map(|size| 50 * size) {
                cache.put(cache.allocate(pool, b"key", len, &ItemOptions::default()).expect("room"));
            }
            cache.remove_pool(pool).expect("it is there");
            cache.maintain().expect("nothing is held");
        }
        assert!(cache.core().idle.0.lock().len() <= MOST_UNTENDED);
    }
}

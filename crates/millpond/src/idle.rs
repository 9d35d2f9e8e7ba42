//! Size classes without chunks: they give back what they take besides.
//!
//! A class takes 2 to 11 KB for its counters, queues and magazines, by policy. In a cache of many pools and little memory those of
//! classes that were used once would add up to all of it. So a class that has lost its last run, or never got one, leaves its pool when
//! memory is lacking, and is made again when next used; and a pool that wants one more class while all of them take over half
//! of the limit gives up the one with the fewest chunks for it.
//!
//! Invariants:
//! 1. A class leaves only with the pool's `resizing` and its own lock held, without a run, and with none that readers may look
//!    into. From then on it is marked, and takes no run: whoever found it before finds it empty for good, and looks its number up again.
//! 2. It is freed as [`crate::pools`] says.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cache::Core;
use crate::class::{BYTES_IN, Class};
use crate::pool::Pool;
use crate::pools::Remains;
use crate::release::{Taking, Why};

/// For how long a class is without chunks, at least, before it leaves, in seconds: one that was made just now is about to get some. Those
/// are whole seconds of a clock, so that it may be a second less.
const IDLE_SECS: u32 = 2;
/// How long a pool waits for another thread that takes its memory before it gives up a class.
const PATIENCE: Duration = Duration::from_millis(20);

/// Classes that have no run, or had none when this was noted.
#[derive(Default)]
pub(crate) struct Idle(Mutex<Vec<IdleClass>>);

#[derive(Clone, Copy)]
struct IdleClass {
    pool: u16,
    class: u8,
    since: u32,
}

impl Core {
    /// Notes that a class was made, or has lost its last run.
    pub(crate) fn note_idle(&self, class: &Class) {
        if !class.is_noted_idle.swap(true, Ordering::AcqRel) {
            let idle = IdleClass { pool: class.info.pool, class: class.info.class, since: self.now() };
            self.idle.0.lock().push(idle);
        }
    }

    /// Has classes leave that have had no run for a while. The caller holds no lock of a pool or class.
    pub(crate) fn retire_idle_classes(&self) {
        let (pools, now) = (self.pools.all(), self.now());
        let stays = |idle: &IdleClass| {
            let Some(pool) = pools.numbered(idle.pool) else { return false };
            let Some(class) = pool.used_class(idle.class) else { return false };
            // Whoever takes its last run from here on notes it again.
            class.is_noted_idle.store(false, Ordering::Release);
            if pool.is_leaving() || class.inner.lock().chunks.run_count() > 0 {
                return false;
            }
            class.is_noted_idle.store(true, Ordering::Release);
            if now < idle.since.saturating_add(IDLE_SECS) {
                return true;
            }
            let Some(_resizing) = pool.resizing.try_lock() else { return true };
            !self.retire_if_idle(pool, class)
        };
        let mut idle = std::mem::take(&mut *self.idle.0.lock());
        idle.retain(stays);
        self.idle.0.lock().append(&mut idle);
        drop(pools);
        self.free_retired();
    }

    /// Has the pool give up the class with the fewest chunks, and all of its items, for one that is to be made. The caller holds no lock of a
    /// pool or class.
    pub(crate) fn give_up_class(&self, pool: &Pool) {
        let Some(_resizing) = pool.resizing.try_lock_for(PATIENCE) else { return };
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
        classes.iter().take(MOST_TRIED).any(|(_, class)| gives_up(class));
    }

    /// Takes a class without runs out of its pool. `false`: it has some, or readers may look into some. The caller holds the
    /// pool's `resizing`.
    pub(crate) fn retire_if_idle(&self, pool: &Pool, class: &Class) -> bool {
        let number = class.info.class;
        if self.retired_runs.has_one_of(pool.number, Some(number)) {
            return false;
        }
        {
            let mut inner = class.inner.lock();
            if inner.chunks.run_count() > 0 {
                return false;
            }
            // From here on it gets none.
            inner.is_gone = true;
        }
        let past = self.class_stats(number, class, true);
        pool.past.lock().get_or_insert_default().add(&past);
        pool.past_bytes_in.fetch_add(class.counters.sum(BYTES_IN), Ordering::Relaxed);
        if let Some(class) = pool.take_class(number) {
            self.pools.retire(Remains::Class(class));
        }
        true
    }
}

/// Classes that a pool tries to give up, at most, for another one.
const MOST_TRIED: usize = 4;

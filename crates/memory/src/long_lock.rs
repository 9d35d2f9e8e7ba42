//! The locks of long work on a pool: of the thread that takes slabs away from its classes, and of
//! the allocation that looks for a chunk everywhere.
//!
//! Their holder works for milliseconds, and may have to wait for a processor meanwhile. So nobody
//! queues for such a lock, nor spins: a queue hands it to one thread after the other, each of which
//! first has to get a processor, and `sched_yield` puts a thread behind all that are ready to run.
//! With 1,000 threads on two processors, either took up to 0.3 s, and an operation takes a lock
//! several times. Whoever needs the lock looks, and sleeps between two looks.
//!
//! Invariants:
//!
//! 1. While a thread waits in [`LongLock::lock`] or [`LongLock::lock_spending`], none gets the lock
//!    by [`LongLock::try_lock`], but for those that have looked already: allocations, of which
//!    there may be any number, keep no operation out.
//! 2. A thread that begins to wait while a few others do first sleeps for as long as each of them
//!    sleeps between two looks: an operation that takes the lock again lets them go first. It gives
//!    those that do not queue such a time as well ([`LongLock::let_lookers_have_it`]).
//! 3. However many threads wait, they look about 20 times in a millisecond in all.
//! 4. A thread sleeps for no longer than its time. If it has to wait for a processor after each
//!    sleep, that comes on top: whoever has to finish first waits as well.
//! 5. Within a hook no thread waits for a time that has an end: its own thread may have the lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::LocalKey;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// First time to sleep between two looks, for each of the threads that wait; each next one is twice
/// as long.
const SHORTEST_WAIT: Duration = Duration::from_micros(50);
/// Longest time that a thread sleeps between two looks, if it is the only one that looks.
const LONGEST_WAIT: Duration = Duration::from_millis(1);

thread_local! {
    /// True if this thread looks for a chunk everywhere, in whichever cache.
    pub(crate) static SEARCHES: Cell<bool> = const { Cell::new(false) };
    /// True if this thread calls a hook.
    pub(crate) static CALLS_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// That a thread does something, and not a second time meanwhile: hooks that are called from within
/// may allocate.
pub(crate) struct Alone(&'static LocalKey<Cell<bool>>);

impl Alone {
    /// `None`: it does so already.
    pub(crate) fn enter(does: &'static LocalKey<Cell<bool>>) -> Option<Self> {
        (!does.replace(true)).then(|| Self(does))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A lock of a pool, held for long.
#[derive(Default)]
pub(crate) struct LongLock {
    lock: Mutex<()>,
    /// Number of threads that wait to get it.
    waiting: AtomicU32,
    /// Number of those that wait until it is free.
    looking: AtomicU32,
}

impl LongLock {
    /// Takes the lock if nobody has it or waits for it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        if self.waiting.load(Ordering::Relaxed) > 0 { None } else { self.lock.try_lock() }
    }

    /// Takes the lock, as soon as whoever has it gives it back.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock_within(Duration::MAX).expect("there is no end to the wait")
    }

    /// Takes the lock if it is given back within this time.
    pub(crate) fn lock_within(&self, mut patience: Duration) -> Option<MutexGuard<'_, ()>> {
        self.lock_spending(&mut patience)
    }

    /// Takes the lock if it is given back within `patience`, from which the wait is subtracted.
    pub(crate) fn lock_spending(&self, patience: &mut Duration) -> Option<MutexGuard<'_, ()>> {
        if let Some(guard) = self.try_lock() {
            return Some(guard);
        }
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let first = if others == 0 { SHORTEST_WAIT } else { LONGEST_WAIT };
        let mut looks = Looks::new(*patience, first);
        let mut guard = if others == 0 { self.lock.try_lock() } else { None };
        while guard.is_none() && looks.sleep(self.waiting.load(Ordering::Relaxed)) {
            guard = self.lock.try_lock();
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        *patience = looks.left;
        guard
    }

    /// Takes the lock if it gets free within this time and nobody waits to get it: for any number
    /// of threads.
    pub(crate) fn try_lock_within(&self, patience: Duration) -> Option<MutexGuard<'_, ()>> {
        self.look(patience, || self.try_lock())
    }

    /// Returns whether a thread has the lock, or waits to get it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.lock.is_locked() || self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits until `is_over`, or until no thread has the lock or waits to get it, for this time at
    /// most. For threads that do not need the lock.
    pub(crate) fn wait_within(&self, patience: Duration, is_over: impl Fn() -> bool) {
        self.look(patience, || (!self.is_in_use() || is_over()).then_some(()));
    }

    /// Leaves the lock alone for a moment if threads look for it that do not queue: for an
    /// operation that has given it back and takes it again.
    pub(crate) fn let_lookers_have_it(&self) {
        if self.looking.load(Ordering::Relaxed) > 0 {
            base::thread::sleep(2 * LONGEST_WAIT);
        }
    }

    /// Looks for something within this time.
    fn look<R>(&self, patience: Duration, find: impl Fn() -> Option<R>) -> Option<R> {
        let mut found = find();
        if found.is_none() {
            self.looking.fetch_add(1, Ordering::Relaxed);
            let mut looks = Looks::new(patience, SHORTEST_WAIT);
            while found.is_none() && looks.sleep(self.looking.load(Ordering::Relaxed)) {
                found = find();
            }
            self.looking.fetch_sub(1, Ordering::Relaxed);
        }
        found
    }
}

/// The sleeps of a thread between its looks at the lock.
struct Looks {
    left: Duration,
    next: Duration,
}

impl Looks {
    fn new(patience: Duration, next: Duration) -> Self {
        let is_endless = patience == Duration::MAX;
        let left = if CALLS_HOOK.get() && !is_endless { Duration::ZERO } else { patience };
        Self { left, next }
    }

    /// Sleeps, as one of `threads` that look. `false`: the time is over.
    fn sleep(&mut self, threads: u32) -> bool {
        if self.left.is_zero() {
            return false;
        }
        let wait = self.next.min(LONGEST_WAIT).max(SHORTEST_WAIT * threads).min(self.left);
        base::thread::sleep(wait);
        self.left -= wait;
        self.next = self.next.saturating_mul(2);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use base::Clock;

    use super::*;

    fn wait_until(is_so: impl Fn() -> bool) {
        while !is_so() {
            base::thread::sleep(SHORTEST_WAIT);
        }
    }

    #[test]
    fn those_who_try_never_go_before_one_who_waits() {
        for _ in 0..50 {
            let (lock, has_had_it) = (LongLock::default(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                let held = lock.lock();
                scope.spawn(|| {
                    let _held = lock.lock();
                    has_had_it.store(true, Ordering::Relaxed);
                });
                wait_until(|| lock.waiting.load(Ordering::Relaxed) == 1);
                drop(held);
                wait_until(|| lock.try_lock().is_some());
                assert!(has_had_it.load(Ordering::Relaxed));
            });
            assert!(!lock.is_in_use());
        }
    }

    #[test]
    fn one_who_comes_lets_those_go_first_who_wait() {
        let lock = LongLock::default();
        lock.waiting.store(1, Ordering::Relaxed);
        assert!(lock.lock_within(Duration::ZERO).is_none(), "there was no sleep before");
        let before = Clock::System.monotonic_nanos();
        assert!(lock.lock_within(Duration::MAX).is_some());
        let waited = Duration::from_nanos(Clock::System.monotonic_nanos() - before);
        assert!(waited >= LONGEST_WAIT, "who waits did not look meanwhile");
        assert_eq!(lock.waiting.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn nobody_waits_within_a_hook() {
        let (lock, hours) = (LongLock::default(), Duration::from_secs(7_200));
        let _held = lock.lock();
        let hook = Alone::enter(&CALLS_HOOK);
        assert!(lock.lock_within(hours).is_none());
        assert!(lock.try_lock_within(hours).is_none());
        lock.wait_within(hours, || false);
        drop(hook);
        assert!(lock.lock_within(Duration::from_micros(1)).is_none());
    }

    #[test]
    fn the_wait_has_an_end() {
        let lock = LongLock::default();
        let patience = Duration::from_millis(2);
        let held = lock.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(lock.lock_within(patience).is_none());
                assert!(lock.try_lock_within(patience).is_none());
                lock.wait_within(patience, || false);
                lock.wait_within(Duration::MAX, || true);
            });
        });
        drop(held);
        assert!(!lock.is_in_use(), "who gave up waits no more");
        lock.wait_within(Duration::MAX, || false);
        assert!(lock.lock_within(Duration::ZERO).is_some());
    }
}

//! The pinned threads that have no slot of their own, counted so that a grace period ends however
//! many of them there are.
//!
//! One counter would have to be seen at 0 at one instant, which need never come while threads are
//! preempted as they are pinned. So there are two, and an *epoch* says which of them a pinning
//! thread enters. A thread that waits advances the epoch, so that no more readers enter the
//! previous counter and it drains. (P. E. McKenney, "Sleepable RCU", LWN 2006, flips an index for
//! the same reason; there the counters are per processor and have to be summed.)
//!
//! Invariants:
//! 8. The epoch advances from `n` only after the counter of epoch `n + 1` was seen at 0 during
//!    epoch `n`.
//! 9. A thread counts in one counter from before its first read until after its last. So a period
//!    has passed once each of the two counters was seen at 0 at some moment, not necessarily the
//!    same, after the barrier that began the period.
//!
//! A counter that is not entered drains as soon as the threads in it have unpinned, but for those
//! that read the epoch before it advanced and were preempted there: each of these enters that
//! counter once more. So a period waits for each thread twice at most, plus that.

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Counters of the pinned threads without a slot.
#[derive(Default)]
pub(super) struct Crowd {
    epoch: AtomicU64,
    pinned: [CachePadded<AtomicU64>; 2],
}

/// The counter that an epoch's readers enter.
const fn side(epoch: u64) -> usize {
    (epoch & 1) as usize
}

impl Crowd {
    /// Counts one more pinned thread and returns the counter to decrement when it unpins.
    #[inline]
    pub(super) fn enter(&self) -> &AtomicU64 {
        let counter = &*self.pinned[side(self.epoch.load(Ordering::Relaxed))];
        counter.fetch_add(1, Ordering::SeqCst);
        counter
    }

    /// The sides that may hold threads which were pinned when the caller's barrier ended.
    pub(super) fn wait(&self) -> Waiting {
        let began = self.epoch.load(Ordering::Acquire);
        let mut waiting = Waiting { began, sides: [true; 2] };
        waiting.has_drained(self);
        waiting
    }

    fn is_empty(&self, side: usize) -> bool {
        self.pinned[side].load(Ordering::Acquire) == 0
    }

    /// Advances the epoch if the other counter is drained (invariant 8).
    fn turn(&self) {
        let epoch = self.epoch.load(Ordering::Acquire);
        // The counter must not be read as of a moment before the epoch that was read. Without this
        // fence, a count from before a period's barrier could pass for one from after it.
        fence(Ordering::SeqCst);
        if self.is_empty(side(epoch + 1)) {
            // If another thread advanced the epoch meanwhile, that serves as well.
            let _ = self.epoch.compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// The part of a grace period that concerns threads without a slot.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// The epoch at the beginning of the period.
    began: u64,
    /// Sides not seen at 0 since.
    sides: [bool; 2],
}

impl Waiting {
    /// Returns whether all threads that were counted at the beginning have unpinned since. Advances
    /// the epoch if that helps.
    pub(super) fn has_drained(&mut self, crowd: &Crowd) -> bool {
        loop {
            let epoch = crowd.epoch.load(Ordering::Acquire);
            for side_seen in [0, 1] {
                // The thread that advanced the epoch to `began + 2`, or later, saw the side of that
                // epoch at 0 after the barrier.
                let proven = if side_seen == side(self.began) { self.began + 2 } else { self.began + 3 };
                self.sides[side_seen] &= epoch < proven && !crowd.is_empty(side_seen);
            }
            // The other side drains by itself.
            if !self.sides[side(epoch)] {
                return self.sides == [false; 2];
            }
            crowd.turn();
            if crowd.epoch.load(Ordering::Acquire) == epoch {
                return false;
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::{Pins, SHARED};
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// A thing that pinned threads without a slot read while it is there, and that is overwritten
    /// after a grace period.
    struct Thing {
        pins: Pins,
        there: AtomicBool,
        content: UnsafeCell<u32>,
    }

    impl Thing {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                pins: Pins::fenced(1),
                there: AtomicBool::new(true),
                content: UnsafeCell::new(1),
            })
        }

        fn read(&self) {
            let _pinned = self.pins.pin_at(SHARED);
            if self.there.load(Ordering::Acquire) {
                // SAFETY: what this model checks: nobody writes while a thread is pinned that saw
                // the thing there (invariant 9).
                self.content.with(|content| assert_eq!(unsafe { *content }, 1, "read after the period"));
            }
        }

        fn overwrite(&self) {
            // SAFETY: what this model checks: nobody writes while a thread is pinned that saw the
            // thing there (invariant 9).
            self.content.with_mut(|content| unsafe { *content = 2 });
        }
    }

    fn reader(thing: &Arc<Thing>, times: u32) -> thread::JoinHandle<()> {
        let thing = Arc::clone(thing);
        thread::spawn(move || (0..times).for_each(|_| thing.read()))
    }

    #[test]
    fn loom_threads_without_a_slot_read_nothing_after_its_grace_period() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let thing = Thing::new();
            let readers = [reader(&thing, 1), reader(&thing, 1)];
            thing.there.store(false, Ordering::Release);
            thing.pins.synchronize();
            thing.overwrite();
            readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
        });
    }

    #[test]
    fn loom_a_period_of_another_thread_that_turns_the_epoch_ends_no_period_early() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let thing = Thing::new();
            let reader = reader(&thing, 1);
            let other = {
                let thing = Arc::clone(&thing);
                thread::spawn(move || {
                    // As many as the other period relies on.
                    (0..3).for_each(|_| thing.pins.crowd.turn());
                })
            };
            thing.there.store(false, Ordering::Release);
            thing.pins.synchronize();
            thing.overwrite();
            reader.join().expect("no panic");
            other.join().expect("no panic");
        });
    }

    /// The fault that the models must find: a period that waits for the readers of the present
    /// epoch alone.
    #[test]
    #[should_panic]
    fn loom_a_period_that_waits_for_one_side_is_found() {
        loom::model(|| {
            let thing = Thing::new();
            thing.pins.crowd.turn();
            let reader = reader(&thing, 1);
            thing.there.store(false, Ordering::Release);
            thing.pins.others_fence();
            let crowd = &thing.pins.crowd;
            crowd.turn();
            let side = side(crowd.epoch.load(Ordering::Acquire));
            while !crowd.is_empty(side) {
                crate::sync::spin_hint();
            }
            thing.overwrite();
            reader.join().expect("no panic");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Pins, SHARED};

    /// As many threads do that are preempted while they are pinned: there is no instant at which
    /// none is.
    #[test]
    fn a_period_passes_although_some_thread_is_pinned_at_every_instant() {
        let pins = Pins::new();
        let mut pinned = pins.pin_at(SHARED);
        let mut period = pins.grace();
        let mut turns = 0;
        while !period.has_passed(&pins) {
            let next = pins.pin_at(SHARED);
            pinned = next;
            turns += 1;
            assert!(turns <= 3, "it waits for readers that came after it");
        }
        assert!(turns > 0, "a reader was pinned when it began");
        drop(pinned);
    }

    #[test]
    fn a_period_waits_for_a_reader_of_either_side() {
        let pins = Pins::new();
        for _ in 0..4 {
            let old = pins.pin_at(SHARED);
            let mut first = pins.grace();
            let new = pins.pin_at(SHARED);
            let mut second = pins.grace();
            assert!(!first.has_passed(&pins) && !second.has_passed(&pins));
            drop(old);
            assert!(first.has_passed(&pins), "who pins later does not count");
            assert!(!second.has_passed(&pins), "it began while the new one was pinned");
            drop(new);
            assert!(second.has_passed(&pins));
        }
    }

    #[test]
    fn a_period_that_others_outran_has_passed() {
        let pins = Pins::new();
        let mut reader = pins.pin_at(SHARED);
        let mut outrun = pins.grace();
        for _ in 0..8 {
            let next = pins.pin_at(SHARED);
            let mut other = pins.grace();
            drop(std::mem::replace(&mut reader, next));
            other.has_passed(&pins);
        }
        assert!(outrun.has_passed(&pins));
        drop(reader);
    }
}

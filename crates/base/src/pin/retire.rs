//! A retire list: objects between one use and the next, shared by many threads.
//!
//! Retired objects are unreachable, but some may still be read, under the words that name them:
//! they *wait*. A *scan* asks once which of the waiting objects are protected, and makes the others
//! *clear* for reuse. Because all threads share one list, they need together one barrier per about
//! half a list of objects, however few each of them takes at a time.
//!
//! 4. An object becomes clear only by a scan whose barrier began after it was made unreachable. The
//!    thread that appends takes the mark of the waiting objects with the lists locked, so the mark
//!    is no older than the moment at which any of them became unreachable.
//! 5. An object is in one of the lists, or in the hand of the thread that makes a scan and holds
//!    `scanning`. A thread that locks `scanning` and then the lists sees all objects.

use super::{Mark, Pins};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Retired objects that will be used again. A caller appends a `T` only after it has made it
/// unreachable to all threads that do not yet protect its word; the caller that takes a `T` has
/// exclusive use of it. Callers decide by [`Self::count`] and [`Self::target`] how many to append
/// and take.
pub struct RetireList<T> {
    lists: Mutex<Lists<T>>,
    /// Held by the thread that makes a scan, with the objects it has in hand; empty between scans.
    scanning: Mutex<Vec<T>>,
    /// Number of objects, including those in hand.
    count: AtomicUsize,
    /// Number of objects there should be.
    target: AtomicUsize,
    /// Memory of the lists, in bytes.
    bytes: AtomicUsize,
}

struct Lists<T> {
    waiting: Vec<T>,
    since: Mark,
    clear: Vec<T>,
}

impl<T: Copy + Into<u32>> RetireList<T> {
    /// An empty list that should have `target` objects.
    pub fn new(target: usize) -> Self {
        Self {
            lists: Mutex::new(Lists { waiting: Vec::new(), since: Mark::default(), clear: Vec::new() }),
            scanning: Mutex::new(Vec::new()),
            count: AtomicUsize::new(0),
            target: AtomicUsize::new(target),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Sets how many objects there should be.
    pub fn set_target(&self, target: usize) {
        self.target.store(target, Ordering::Relaxed);
    }

    /// Number of objects.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Memory of the lists, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of objects there should be.
    #[inline]
    pub fn target(&self) -> usize {
        self.target.load(Ordering::Relaxed)
    }

    /// Appends objects that are unreachable but may still be read.
    pub fn append(&self, pins: &Pins, freed: &mut Vec<T>) {
        if freed.is_empty() {
            return;
        }
        let mut lists = self.lists.lock();
        self.count.fetch_add(freed.len(), Ordering::Relaxed);
        lists.waiting.append(freed);
        lists.since = pins.mark();
        self.note_bytes(&lists);
    }

    /// Moves up to `wanted` clear objects to `ready`.
    pub fn take(&self, wanted: usize, ready: &mut Vec<T>) {
        let mut lists = self.lists.lock();
        let left = lists.clear.len().saturating_sub(wanted);
        self.count.fetch_sub(lists.clear.len() - left, Ordering::Relaxed);
        ready.extend(lists.clear.drain(left..));
    }

    /// Returns whether it is time for a scan: few objects are clear, and many wait.
    pub fn is_low(&self) -> bool {
        let (lists, half) = (self.lists.lock(), self.target().div_ceil(2));
        lists.clear.len() < half && lists.waiting.len() >= half
    }

    /// Clears the waiting objects that no thread reads, unless another thread already makes a scan.
    pub fn scan_ahead(&self, pins: &Pins) {
        if let Some(mut hand) = self.scanning.try_lock() {
            self.scan(pins, &mut hand);
        }
    }

    /// Clears the waiting objects that no thread reads, unless some object is already clear.
    pub fn scan_if_empty(&self, pins: &Pins) {
        let mut hand = self.scanning.lock();
        let has_clear = !self.lists.lock().clear.is_empty();
        if !has_clear {
            self.scan(pins, &mut hand);
        }
    }

    /// Takes out all objects that no thread reads, except `kept` of them.
    pub fn scan_and_take(&self, pins: &Pins, kept: usize) -> Vec<T> {
        let mut hand = self.scanning.lock();
        self.scan(pins, &mut hand);
        let mut out = Vec::new();
        self.take(self.count().saturating_sub(kept), &mut out);
        out
    }

    fn scan(&self, pins: &Pins, hand: &mut Vec<T>) {
        let since = {
            let mut lists = self.lists.lock();
            std::mem::swap(&mut lists.waiting, hand);
            lists.since
        };
        if hand.is_empty() {
            return;
        }
        let protected = pins.protected_since(since);
        let mut lists = self.lists.lock();
        for thing in hand.drain(..) {
            // An object that is still read waits together with those appended meanwhile, for longer
            // than necessary.
            let list = if protected.contains(thing.into()) { &mut lists.waiting } else { &mut lists.clear };
            list.push(thing);
        }
        self.note_bytes(&lists);
    }

    fn note_bytes(&self, lists: &Lists<T>) {
        // The vector in hand is swapped with the waiting list, so both may reach that capacity.
        let things = 2 * lists.waiting.capacity() + lists.clear.capacity();
        self.bytes.store(things * size_of::<T>(), Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc as StdArc;

    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    use super::*;

    /// An object that is reachable until it is retired, goes through the list, and is overwritten
    /// by the thread that takes it.
    struct Model {
        pins: Pins,
        retired: RetireList<u32>,
        there: AtomicBool,
        content: UnsafeCell<u32>,
        /// How often it was given out. Not a part of what is checked for races.
        given: StdArc<std::sync::atomic::AtomicUsize>,
    }

    impl Model {
        fn new() -> Self {
            Self {
                pins: Pins::fenced(2),
                retired: RetireList::new(1),
                there: AtomicBool::new(true),
                content: UnsafeCell::new(1),
                given: StdArc::default(),
            }
        }

        fn read(&self) {
            let guard = self.pins.guard_at(0).expect("nothing is protected");
            guard.hazard().protect(7);
            if self.there.load(Ordering::Acquire) {
                // SAFETY: what this model checks: nobody writes while the word is protected and the
                // thing is there (invariant 4).
                self.content
                    .with(|content| assert_eq!(unsafe { *content }, 1, "read after it was overwritten"));
            }
        }

        fn take_away(&self) {
            self.there.store(false, Ordering::Release);
            self.retired.append(&self.pins, &mut vec![7]);
        }

        /// Asks for a chunk as an insertion does.
        fn use_again(&self, urgently: bool) {
            let mut ready = Vec::new();
            if urgently {
                self.retired.scan_if_empty(&self.pins);
            } else {
                self.retired.scan_ahead(&self.pins);
            }
            self.retired.take(1, &mut ready);
            for _ in ready {
                assert_eq!(
                    self.given.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
                    0,
                    "given out twice"
                );
                // SAFETY: what this model checks: nobody writes while the word is protected and the
                // thing is there (invariant 4).
                self.content.with_mut(|content| unsafe { *content = 2 });
            }
        }
    }

    #[test]
    fn loom_what_is_read_is_not_given_out() {
        let given = StdArc::new(std::sync::atomic::AtomicUsize::new(0));
        let sum = StdArc::clone(&given);
        loom::model(move || {
            let model = Arc::new(Model::new());
            let reader = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.read())
            };
            model.take_away();
            model.use_again(true);
            reader.join().expect("no panic");
            sum.fetch_add(
                model.given.load(std::sync::atomic::Ordering::Relaxed),
                std::sync::atomic::Ordering::Relaxed,
            );
        });
        assert!(
            given.load(std::sync::atomic::Ordering::Relaxed) > 0,
            "it is given out where nobody reads it"
        );
    }

    #[test]
    fn loom_two_that_ask_for_it_get_it_once() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let model = Arc::new(Model::new());
            let reader = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.read())
            };
            let other = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    // As a thread with another retire list does.
                    let _ = model.pins.protected();
                    model.use_again(false);
                })
            };
            model.take_away();
            model.use_again(true);
            reader.join().expect("no panic");
            other.join().expect("no panic");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_waits_and_the_rest_is_clear() {
        let (pins, list) = (Pins::new(), RetireList::<u32>::new(8));
        list.append(&pins, &mut (0..8).collect());
        assert!(list.is_low());
        let mut ready = Vec::new();
        list.take(8, &mut ready);
        assert!(ready.is_empty(), "nobody has asked who reads them");
        let guard = pins.guard().expect("nothing is protected");
        guard.hazard().protect(3);
        list.scan_ahead(&pins);
        assert!(!list.is_low());
        list.take(5, &mut ready);
        list.take(5, &mut ready);
        ready.sort_unstable();
        assert_eq!(ready, [0, 1, 2, 4, 5, 6, 7]);
        assert_eq!(list.count(), 1);
        assert!(list.scan_and_take(&pins, 0).is_empty(), "it is read");
        drop(guard);
        list.append(&pins, &mut (8..12).collect());
        assert_eq!(list.scan_and_take(&pins, 2).len(), 3);
        list.scan_if_empty(&pins);
        assert_eq!(list.count(), 2);
    }
}

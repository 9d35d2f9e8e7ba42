//! One barrier for many callers: a thread that can keep unreachable objects for a while needs no
//! barrier of its own if another thread passes one meanwhile.
//!
//! Barriers are numbered as they begin. A [`Mark`] holds the number of the last barrier begun.
//! Objects made unreachable before a mark was taken are unreachable to all threads once any barrier
//! of a later number is done.
//!
//! 3. A mark is taken behind a fence, and a number is drawn by a read-modify-write: a barrier whose
//!    number exceeds the mark's began after everything that its taker did before. Barriers may end
//!    in another order than they began in; the highest number that is done belongs to such a
//!    barrier, even if others still run.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// A moment: see [`Pins::mark`](super::Pins::mark).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u64);

/// Barriers that began and ended.
#[derive(Default)]
pub(super) struct Barriers {
    begun: AtomicU64,
    done: AtomicU64,
}

impl Barriers {
    /// The present moment.
    pub(super) fn mark(&self) -> Mark {
        fence(Ordering::SeqCst);
        Mark(self.begun.load(Ordering::Relaxed))
    }

    /// Returns once a barrier that began after `mark` is done; passes one if there was none.
    pub(super) fn pass_since(&self, mark: Mark, pass: impl FnOnce()) {
        if self.done.load(Ordering::Acquire) > mark.0 {
            return;
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        pass();
        self.done.fetch_max(number, Ordering::AcqRel);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// The barrier of this model: it reads what two threads made unreachable, as a reader that the
    /// barrier interrupts would.
    struct Model {
        barriers: Barriers,
        gone: [AtomicBool; 2],
        /// The flag of the other thread, as each thread's own barrier saw it.
        seen: [AtomicBool; 2],
    }

    impl Model {
        fn run(&self, me: usize) {
            self.gone[me].store(true, Ordering::Relaxed);
            let mark = self.barriers.mark();
            let mut passed_my_own = false;
            self.barriers.pass_since(mark, || {
                fence(Ordering::SeqCst);
                let seen = self.gone[1 - me].load(Ordering::Relaxed);
                self.seen[me].store(seen, Ordering::Relaxed);
                passed_my_own = true;
            });
            if !passed_my_own {
                assert!(
                    self.seen[1 - me].load(Ordering::Relaxed),
                    "a barrier that counts saw what was done before"
                );
            }
        }
    }

    #[test]
    fn loom_a_barrier_of_another_thread_saw_what_was_done_before_the_mark() {
        loom::model(|| {
            let model = Arc::new(Model {
                barriers: Barriers::default(),
                gone: [AtomicBool::new(false), AtomicBool::new(false)],
                seen: [AtomicBool::new(false), AtomicBool::new(false)],
            });
            let other = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.run(1))
            };
            model.run(0);
            other.join().expect("no panic");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_serves_all_marks_before_it() {
        let barriers = Barriers::default();
        let (first, second) = (barriers.mark(), barriers.mark());
        let mut passed = 0;
        barriers.pass_since(first, || passed += 1);
        barriers.pass_since(second, || passed += 1);
        assert_eq!(passed, 1);
        barriers.pass_since(barriers.mark(), || passed += 1);
        assert_eq!(passed, 2, "none that began before the mark will do");
    }
}

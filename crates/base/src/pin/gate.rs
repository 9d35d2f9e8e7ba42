//! A gate that many threads pass, and that closes for a moment for an operation that must not
//! interleave with any of them.
//!
//! A pass costs a plain store and a load ([`super::Pins`]). A thread that closes the gate waits
//! until all passes are over, which should be soon. A thread whose pass is slow [announces
//! it](Gate::begin_slow), and a thread that must not wait does not close the gate during that time.
//! No pass may wait for the closing thread: a thread that finds the gate closed, or about to be
//! closed by another thread when it wants to close the gate itself, backs off and retries. So no
//! thread waits for a thread that waits.
//!
//! Invariants:
//! 6. From when [`Gate::close`] returns a [`Closed`] until that value is dropped, no thread has a
//!    [`Passed`] of this gate.
//! 7. A thread that closes a gate has no [`Passed`] of that gate.

use super::{Pinned, Pins};
use crate::counter::stripe;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A barrier that threads pass at low cost, and that one thread at a time can close.
pub struct Gate {
    pins: Pins,
    closed: AtomicBool,
    /// Slow passes that are under way or about to begin.
    slow: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        Self { pins: Pins::new(), closed: AtomicBool::new(false), slow: AtomicU64::new(0) }
    }
}

/// A pass of a gate by a thread, which ends when this is dropped. A thread has at most one pass of
/// a gate at a time.
pub struct Passed<'a> {
    _pinned: Pinned<'a>,
}

/// A closed gate; it opens when this is dropped.
pub struct Closed<'a>(&'a Gate);

impl Gate {
    /// Passes, unless the gate is closed. Passes must not be nested.
    #[inline]
    pub fn pass(&self) -> Option<Passed<'_>> {
        self.pass_at(stripe())
    }

    #[inline]
    fn pass_at(&self, stripe: usize) -> Option<Passed<'_>> {
        let pinned = self.pins.pin_at(stripe);
        // Acquires the writes that were made while the gate was closed.
        (!self.closed.load(Ordering::Acquire)).then_some(Passed { _pinned: pinned })
    }

    /// Closes the gate, unless it is closed, and waits until all passes are over. The caller must
    /// not have a pass (invariant 7).
    pub fn close(&self) -> Option<Closed<'_>> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return None;
        }
        self.pins.synchronize();
        Some(Closed(self))
    }

    /// Announces a slow pass.
    pub fn begin_slow(&self) {
        self.slow.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports the end of a slow pass.
    pub fn end_slow(&self) {
        self.slow.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether slow passes are announced: closing the gate may then wait for them.
    pub fn has_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.closed.store(false, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// The data behind a gate: two counts that are changed one after the other, and are the same
    /// while no thread changes them.
    struct Guarded {
        gate: Gate,
        counts: [UnsafeCell<u32>; 2],
    }

    impl Guarded {
        fn new() -> Arc<Self> {
            let pins = Pins::fenced(2);
            let gate = Gate { pins, closed: AtomicBool::new(false), slow: AtomicU64::new(0) };
            Arc::new(Self { gate, counts: [UnsafeCell::new(0), UnsafeCell::new(0)] })
        }

        fn counts(&self) -> [u32; 2] {
            // SAFETY: what this model checks: nobody writes while somebody has passed (invariant
            // 6).
            self.counts.each_ref().map(|count| count.with(|count| unsafe { *count }))
        }

        /// Looks at both, if the gate is open; how often they had been changed.
        fn pass(&self, stripe: usize) -> Option<u32> {
            let passed = self.gate.pass_at(stripe)?;
            let counts = self.counts();
            assert_eq!(counts[0], counts[1], "half of what is done behind the closed gate was seen");
            drop(passed);
            Some(counts[0])
        }

        /// Changes both, if nobody else has closed the gate; whether it did.
        fn close(&self) -> bool {
            let Some(_closed) = self.gate.close() else { return false };
            for count in &self.counts {
                // SAFETY: what this model checks: while the gate is closed nobody else is behind it
                // (invariant 6).
                count.with_mut(|count| unsafe { *count += 1 });
            }
            true
        }
    }

    #[test]
    fn loom_nobody_has_passed_while_a_gate_is_closed() {
        loom::model(|| {
            let guarded = Guarded::new();
            let passing = {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || {
                    let (first, second) = (guarded.pass(0), guarded.pass(0));
                    assert!(second.is_none() || second >= first, "what was seen done is not undone");
                })
            };
            assert!(guarded.close(), "nobody else closes it");
            passing.join().expect("no panic");
            assert_eq!(guarded.pass(1), Some(1), "it is open again");
        });
    }

    #[test]
    fn loom_two_that_pass_and_then_close_exclude_each_other_and_wait_for_nobody_who_waits() {
        loom::model(|| {
            let guarded = Guarded::new();
            let work = |guarded: &Guarded, stripe: usize| {
                // Invariant 7: through before it closes.
                guarded.pass(stripe);
                u32::from(guarded.close())
            };
            let other = {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || work(&guarded, 0))
            };
            let done = work(&guarded, 1) + other.join().expect("no panic");
            assert!(done > 0, "both gave way");
            assert_eq!(guarded.counts(), [done; 2]);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_closed_gate_lets_nobody_pass() {
        let gate = Gate::default();
        drop(gate.pass().expect("open"));
        let closed = gate.close().expect("open");
        assert!(gate.pass().is_none() && gate.close().is_none());
        drop(closed);
        drop(gate.pass().expect("open again"));
        drop(gate.close().expect("open again"));
    }

    /// A thread that closes the gate changes two cells, one after the other; a thread that passes
    /// must find them equal. It changes a third cell in two steps, which a thread that closes must
    /// find complete.
    #[test]
    fn nobody_sees_half_of_what_is_done_behind_a_closed_gate() {
        let gate = Arc::new(Gate::default());
        let cells = Arc::new([const { AtomicU64::new(0) }; 2]);
        let steps = Arc::new([const { AtomicU64::new(0) }; 4]);
        let threads: Vec<_> = (0..4_usize)
            .map(|thread| {
                let (gate, cells, steps) = (Arc::clone(&gate), Arc::clone(&cells), Arc::clone(&steps));
                crate::thread::spawn("client", move || {
                    let (mut closed, mut passed) = (0, 0);
                    while closed < 200 || passed < 2_000 {
                        if let Some(_passed) = gate.pass() {
                            let (first, second) = (&cells[0], &cells[1]);
                            assert_eq!(first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
                            steps[thread].fetch_add(1, Ordering::Relaxed);
                            std::hint::spin_loop();
                            steps[thread].fetch_add(1, Ordering::Relaxed);
                            passed += 1;
                        }
                        if passed % 10 == 0
                            && let Some(_closed) = gate.close()
                        {
                            cells[0].fetch_add(1, Ordering::Relaxed);
                            assert!(steps.iter().all(|step| step.load(Ordering::Relaxed).is_multiple_of(2)));
                            cells[1].fetch_add(1, Ordering::Relaxed);
                            closed += 1;
                        }
                    }
                    closed
                })
                .expect("a thread")
            })
            .collect();
        let closed: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        assert_eq!((cells[0].load(Ordering::Relaxed), cells[1].load(Ordering::Relaxed)), (closed, closed));
    }
}

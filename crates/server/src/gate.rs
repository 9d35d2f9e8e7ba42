//! A gate before a key space: turns of connections pass it, and what nobody may interleave with closes it for a moment.
//!
//! A turn passes at the cost of a plain store and a load ([`base::pin`]). Who closes the gate waits until every turn that has
//! passed is over, which is soon, as turns are bounded, and no turn waits for anything: one that finds the gate closed, and one
//! that finds it being closed by another when it wants to close it itself, gives way and is asked again. So nobody waits for
//! somebody who waits.
//!
//! Invariants:
//! 1. From [`Gate::close`] returning something until that is dropped, no thread has a [`Passed`] of this gate.
//! 2. Who closes a gate has not passed it.

use std::sync::atomic::{AtomicBool, Ordering};

use base::pin::{Pinned, Pins};

/// The gate of one key space.
#[derive(Default)]
pub(crate) struct Gate {
    pins: Pins,
    closed: AtomicBool,
}

/// A turn that has passed; it ends when this is dropped. A thread has one at a time.
pub(crate) struct Passed<'a> {
    _pinned: Pinned<'a>,
}

/// A closed gate; it opens when this is dropped.
pub(crate) struct Closed<'a>(&'a Gate);

impl Gate {
    /// Passes, unless the gate is closed.
    #[inline]
    pub(crate) fn pass(&self) -> Option<Passed<'_>> {
        let pinned = self.pins.pin();
        // Acquires what was done behind the closed gate.
        (!self.closed.load(Ordering::Acquire)).then_some(Passed { _pinned: pinned })
    }

    /// Closes the gate, unless it is closed, and waits until all who have passed are through.
    pub(crate) fn close(&self) -> Option<Closed<'_>> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return None;
        }
        self.pins.synchronize();
        Some(Closed(self))
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.closed.store(false, Ordering::Release);
    }
}

#[cfg(test)]
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

    /// Who closes changes two cells, one after the other; who passes must find them alike, and changes a third in two steps, which who
    /// closes must find whole.
    #[test]
    fn nobody_sees_half_of_what_is_done_behind_a_closed_gate() {
        let gate = Arc::new(Gate::default());
        let cells = Arc::new([const { AtomicU64::new(0) }; 2]);
        let steps = Arc::new([const { AtomicU64::new(0) }; 4]);
        let threads: Vec<_> = (0..4_usize)
            .map(|thread| {
                let (gate, cells, steps) = (Arc::clone(&gate), Arc::clone(&cells), Arc::clone(&steps));
                base::thread::spawn("client", move || {
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

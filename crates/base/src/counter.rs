//! Counters that threads bump without sharing a cache line.
//!
//! Each thread owns a *stripe*: a number below [`STRIPES`] handed out at its first use and returned
//! when it ends. A block of counters keeps one copy per stripe and sums them when read. Invariant
//! 1: a stripe below `STRIPES - 1` has at most one owner at a time, so that its counters may be
//! bumped by a plain load and store; the last stripe is shared by all threads that found no free
//! stripe, and is bumped by an atomic add.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::striped::Striped;

/// Stripes of a counter block: 63 owned ones and a shared one.
pub const STRIPES: usize = 64;
const SHARED: usize = STRIPES - 1;

/// Bit `i` is set while stripe `i` is free.
static FREE: AtomicU64 = AtomicU64::new(u64::MAX >> 1);

/// The stripe of a thread that has not asked yet.
const UNKNOWN: usize = usize::MAX;

thread_local! {
    /// The thread's stripe, in a form that is read by one instruction: it needs no drop.
    static STRIPE: Cell<usize> = const { Cell::new(UNKNOWN) };
    static OWNED: Owned = Owned(claim());
}

/// A thread's stripe, until the thread ends.
struct Owned(usize);

impl Drop for Owned {
    fn drop(&mut self) {
        // First, as the stripe may have another owner from the next line on (invariant 1).
        STRIPE.set(SHARED);
        if self.0 != SHARED {
            FREE.fetch_or(1 << self.0, Ordering::Release);
        }
    }
}

fn claim() -> usize {
    let mut free = FREE.load(Ordering::Relaxed);
    while free != 0 {
        let stripe = free.trailing_zeros() as usize;
        match FREE.compare_exchange_weak(free, free & !(1 << stripe), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return stripe,
            Err(now) => free = now,
        }
    }
    SHARED
}

/// The calling thread's stripe. A thread that is ending, whose locals are gone, uses the shared
/// one.
#[inline]
pub fn stripe() -> usize {
    match STRIPE.get() {
        UNKNOWN => first_stripe(),
        stripe => stripe,
    }
}

#[cold]
fn first_stripe() -> usize {
    let stripe = OWNED.try_with(|owned| owned.0).unwrap_or(SHARED);
    STRIPE.set(stripe);
    stripe
}

/// Adds `n` to a counter of the calling thread's own stripe `stripe`.
#[inline]
pub fn bump(counter: &AtomicU64, stripe: usize, n: u64) {
    if stripe == SHARED {
        counter.fetch_add(n, Ordering::Relaxed);
    } else {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
}

/// A block of `N` counters, a copy per stripe; a copy is allocated when its stripe first bumps it.
pub struct Counters<const N: usize> {
    stripes: Striped<CachePadded<[AtomicU64; N]>>,
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self { stripes: Striped::default() }
    }
}

impl<const N: usize> Counters<N> {
    /// Adds `n` to counter `i`. No lock, no shared cache line.
    ///
    /// # Panics
    /// If `i >= N`.
    #[inline]
    pub fn add(&self, i: usize, n: u64) {
        let stripe = stripe();
        let zeroes = || CachePadded::new([const { AtomicU64::new(0) }; N]);
        let block = self.stripes.get_or_make(stripe, zeroes);
        bump(&block[i], stripe, n);
    }

    /// The sum over all stripes; exact once the bumping threads have been synchronised with.
    pub fn sum(&self, i: usize) -> u64 {
        self.stripes.iter().fold(0_u64, |sum, block| sum.wrapping_add(block[i].load(Ordering::Relaxed)))
    }

    /// Memory of the copies, in bytes.
    pub fn bytes(&self) -> usize {
        self.stripes.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};

    #[test]
    fn no_count_is_lost_with_more_threads_than_stripes() {
        let counters = Arc::new(Counters::<2>::default());
        let threads: Vec<_> = (0..STRIPES + 8)
            .map(|i| {
                let counters = Arc::clone(&counters);
                crate::thread::spawn(format!("count-{i}"), move || {
                    for _ in 0..1_000 {
                        counters.add(1, 1);
                    }
                })
                .expect("a thread")
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(counters.sum(0), 0);
        assert_eq!(counters.sum(1), 1_000 * (STRIPES as u64 + 8));
    }

    /// Tells, when its thread ends, which stripe the thread still has.
    struct Probe(Cell<Option<mpsc::Sender<usize>>>);

    impl Drop for Probe {
        fn drop(&mut self) {
            if let Some(told) = self.0.take() {
                let _ = told.send(stripe());
            }
        }
    }

    thread_local! {
        static EARLIER: Probe = const { Probe(Cell::new(None)) };
        static LATER: Probe = const { Probe(Cell::new(None)) };
    }

    #[test]
    fn a_thread_that_ends_has_its_stripe_until_that_is_given_back() {
        let (told, seen) = mpsc::channel();
        let thread = crate::thread::spawn("ends", move || {
            // Thread-locals are dropped in the opposite order, so one probe on either side.
            EARLIER.with(|probe| probe.0.set(Some(told.clone())));
            let own = stripe();
            LATER.with(|probe| probe.0.set(Some(told)));
            own
        });
        let own = thread.expect("a thread").join().expect("no panic");
        let mut seen: Vec<usize> = seen.iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, [own, SHARED]);
    }
}

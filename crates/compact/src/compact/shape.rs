//! The number of buckets, and the home of a hash among them, while their number changes.
//!
//! The upper half of a hash, taken as a fraction, names a place in the array, as in the index. A
//! larger array has each place at the same bucket or a later one, so that buckets are moved from
//! the last to the first; a smaller one has it at the same or an earlier one, and they are moved
//! from the first to the last. The *frontier* parts those that were moved from those that were not.
//! It moves under the lock of the bucket that it passes.

use std::sync::atomic::{AtomicU32, Ordering};

use base::sequence;

use super::bucket::pause;

/// Sizes and frontier. One thread changes them at a time.
#[derive(Debug)]
pub(super) struct Shape {
    /// Odd while the others change.
    sequence: AtomicU32,
    old: AtomicU32,
    new: AtomicU32,
    frontier: AtomicU32,
}

/// The mapping at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) old: u32,
    /// The same as `old` while the number of buckets does not change.
    pub(super) new: u32,
    /// In terms of `old`: growing, the first bucket that was moved; shrinking, the first one that
    /// was not.
    pub(super) frontier: u32,
}

/// Returns the place of a fraction among this many buckets.
#[inline]
pub(super) fn place(fraction: u32, buckets: u32) -> u32 {
    ((u64::from(fraction) * u64::from(buckets)) >> 32) as u32
}

/// The least fraction that lies at `place`.
fn start(place: u32, buckets: u32) -> u64 {
    (u64::from(place) << 32).div_ceil(u64::from(buckets))
}

impl View {
    fn is_moved(self, old_place: u32) -> bool {
        if self.new >= self.old { old_place >= self.frontier } else { old_place < self.frontier }
    }

    /// The home of a fraction.
    #[inline]
    pub(super) fn home(self, fraction: u32) -> u32 {
        let old = place(fraction, self.old);
        if self.new != self.old && self.is_moved(old) { place(fraction, self.new) } else { old }
    }

    /// The first fraction behind `fraction` that may have another home.
    pub(super) fn next_home(self, fraction: u32) -> u64 {
        let old = place(fraction, self.old);
        if self.new == self.old || !self.is_moved(old) {
            return start(old + 1, self.old);
        }
        let end = start(place(fraction, self.new) + 1, self.new);
        if self.new > self.old { end } else { end.min(start(self.frontier, self.old)) }
    }
}

impl Shape {
    pub(super) fn new(buckets: u32) -> Self {
        Self {
            sequence: AtomicU32::new(0),
            old: AtomicU32::new(buckets),
            new: AtomicU32::new(buckets),
            frontier: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(super) fn load(&self) -> View {
        let mut spins = 0;
        loop {
            let before = sequence::current(&self.sequence);
            let view = View {
                old: self.old.load(Ordering::Relaxed),
                new: self.new.load(Ordering::Relaxed),
                frontier: self.frontier.load(Ordering::Relaxed),
            };
            if before.is_multiple_of(2) && sequence::is_still(&self.sequence, before) {
                return view;
            }
            pause(&mut spins);
        }
    }

    /// Changes the mapping. Called by one thread at a time.
    pub(super) fn store(&self, view: View) {
        let before = self.sequence.load(Ordering::Relaxed);
        sequence::open(&self.sequence, before.wrapping_add(1));
        self.old.store(view.old, Ordering::Relaxed);
        self.new.store(view.new, Ordering::Relaxed);
        self.frontier.store(view.frontier, Ordering::Relaxed);
        sequence::close(&self.sequence, before.wrapping_add(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::mix64;

    #[test]
    fn homes_move_one_bucket_at_a_time_and_end_where_the_new_size_says() {
        let fractions: Vec<u32> = (0..2_000).map(|i| mix64(i) as u32).chain([0, u32::MAX]).collect();
        for (old, new) in [(10, 23), (23, 24), (24, 7), (7, 1), (1, 40), (40, 39)] {
            let steps: Vec<u32> = if new > old { (0..old).rev().collect() } else { (0..old).collect() };
            let mut view = View { old, new, frontier: if new > old { old } else { 0 } };
            for moved in steps {
                let after = View { frontier: if new > old { moved } else { moved + 1 }, ..view };
                for &fraction in &fractions {
                    if place(fraction, old) != moved {
                        assert_eq!(
                            after.home(fraction),
                            view.home(fraction),
                            "only the keys of one bucket move"
                        );
                    } else {
                        assert_eq!(
                            (view.home(fraction), after.home(fraction)),
                            (moved, place(fraction, new))
                        );
                    }
                    // What lies before the next home has this one.
                    let next = after.next_home(fraction);
                    assert!(next > fraction.into());
                    assert_eq!(after.home((next - 1) as u32), after.home(fraction));
                    if next <= u32::MAX.into() {
                        assert!(after.home(next as u32) != after.home(fraction) || new < old);
                    }
                }
                view = after;
            }
        }
    }
}

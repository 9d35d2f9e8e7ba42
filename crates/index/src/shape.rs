//! The number of buckets, and the home of a hash, while the index grows.
//!
//! A hash's upper 32 bits, taken as a fraction, name a place in the array:
//! `home = fraction * buckets`. Growth from `old` to `new` buckets keeps the order, and a home
//! never moves down; so buckets are moved from the last to the first, within the one array. The
//! *frontier* is the first bucket (in `old` terms) that has been moved.
//!
//! Generation and frontier lie in one word. The sizes of a generation and of the next are kept
//! apart, four deep, and a reader takes them only if the word is the same before and after.

use base::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Sizes and frontier.
pub(crate) struct Shape {
    /// Generation in the upper half, frontier in the lower.
    word: AtomicU64,
    sizes: [AtomicU32; 4],
    max: u32,
}

/// The mapping at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    word: u64,
    pub(crate) old: u32,
    pub(crate) new: u32,
}

impl View {
    #[inline]
    pub(crate) fn frontier(self) -> u32 {
        self.word as u32
    }

    /// Returns whether there may still be buckets to move.
    pub(crate) fn is_growing(self) -> bool {
        self.new != 0
    }

    /// The home of `hash`.
    #[inline]
    pub(crate) fn home(self, hash: u64) -> u32 {
        let old = place(hash, self.old);
        if old < self.frontier() { old } else { place(hash, self.new) }
    }
}

/// The upper 32 bits of `hash`, as a fraction, times `buckets`.
#[inline]
pub(crate) fn place(hash: u64, buckets: u32) -> u32 {
    (((hash >> 32) * u64::from(buckets)) >> 32) as u32
}

impl Shape {
    pub(crate) fn new(buckets: u32, max: u32) -> Self {
        let sizes = [AtomicU32::new(buckets), AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)];
        Self { word: AtomicU64::new(u64::from(buckets)), sizes, max }
    }

    #[inline]
    pub(crate) fn load(&self) -> View {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let generation = (word >> 32) as usize;
            let size = |i: usize| self.sizes[i & 3].load(Ordering::Acquire);
            let view = View { word, old: size(generation), new: size(generation + 1) };
            fence(Ordering::Acquire);
            match self.word.load(Ordering::Acquire) {
                now if now == word => return view,
                now => word = now,
            }
        }
    }

    /// Most buckets that the index may ever have.
    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    /// The present size, or the one that is being grown to.
    pub(crate) fn largest(&self) -> u32 {
        let view = self.load();
        view.old.max(view.new)
    }

    /// Announces growth to `new` buckets. Called by the grower, while not growing.
    pub(crate) fn begin(&self, new: u32) {
        let view = self.load();
        debug_assert!(!view.is_growing() && new >= view.old && new <= self.max);
        let generation = (view.word >> 32) as usize;
        // The size after next is cleared first: no generation is ever seen growing before it is.
        self.sizes[(generation + 2) & 3].store(0, Ordering::Release);
        self.sizes[(generation + 1) & 3].store(new, Ordering::Release);
    }

    /// Makes `frontier` the first moved bucket. Called by the grower, under the lock of that
    /// bucket. At 0 all buckets are moved, and the next generation begins.
    pub(crate) fn advance(&self, frontier: u32) {
        let view = self.load();
        debug_assert!(view.is_growing() && frontier + 1 == view.frontier());
        let generation = view.word >> 32;
        let word = if frontier == 0 {
            (generation.wrapping_add(1) & 0xffff_ffff) << 32 | u64::from(view.new)
        } else {
            generation << 32 | u64::from(frontier)
        };
        self.word.store(word, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use base::hash::mix64;

    #[test]
    fn homes_never_move_down_and_end_where_the_new_size_says() {
        let shape = Shape::new(10, 100);
        let hashes: Vec<u64> = (0..1_000).map(mix64).collect();
        for (old, new) in [(10, 23), (23, 24), (24, 99)] {
            shape.begin(new);
            for frontier in (0..old).rev() {
                let before = shape.load();
                shape.advance(frontier);
                let after = shape.load();
                for &hash in &hashes {
                    assert!(after.home(hash) >= before.home(hash));
                    if place(hash, old) != frontier {
                        assert_eq!(after.home(hash), before.home(hash), "only the frontier's keys move");
                    }
                }
            }
            let view = shape.load();
            assert!(!view.is_growing());
            assert_eq!(view.old, new);
            assert!(hashes.iter().all(|&hash| view.home(hash) == place(hash, new)));
        }
    }
}

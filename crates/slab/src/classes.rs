//! Size classes: which chunk sizes a pool's slabs are cut into.
//!
//! By factor, as memcached and CacheLib do (default 1.25), or by a list. Each size is rounded *up
//! to* a multiple of 8 bytes and then grown to the largest size that yields the same number of
//! chunks per slab, which costs nothing.

use base::geometry::best_size;

use crate::{CHUNK_ALIGN, MIN_CHUNK_BYTES, SLAB_BYTES};

/// Largest number of classes in a pool (CacheLib: 128).
pub const MAX_CLASSES: usize = 255;

/// The chunk sizes of a pool, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeClasses {
    sizes: Box<[u32]>,
    /// For each [`step`] of bytes, the smallest class that fits its first number: a start for the
    /// search.
    start: Box<[u8; STEPS]>,
}

/// Parts of an octave in the look-up table: with sizes that grow by a quarter, a search takes one
/// step or none.
const PARTS: usize = 8;
/// Octaves of it, from the smallest chunk up to a slab.
const OCTAVES: usize = (SLAB_BYTES / MIN_CHUNK_BYTES as usize).ilog2() as usize;
const STEPS: usize = OCTAVES * PARTS + 1;

/// The step of the look-up table that a size of `bytes` bytes lies in.
#[inline]
const fn step(bytes: usize) -> usize {
    let bytes = if bytes < MIN_CHUNK_BYTES as usize { MIN_CHUNK_BYTES as usize } else { bytes };
    let octave = bytes.ilog2();
    let part = (bytes >> (octave - PARTS.ilog2())) - PARTS;
    (octave - MIN_CHUNK_BYTES.ilog2()) as usize * PARTS + part
}

/// The least number of bytes of a step.
const fn first_of(step: usize) -> usize {
    let octave = MIN_CHUNK_BYTES as usize * (1 << (step / PARTS));
    octave + octave / PARTS * (step % PARTS)
}

/// The error of a set of size classes that was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClassError {
    /// The factor would not make sizes grow.
    #[error("size-class factor {0} must be above 1.0 and at most 4.0")]
    Factor(f64),
    /// A size is out of range.
    #[error("chunk size {size} must be from {MIN_CHUNK_BYTES} to {SLAB_BYTES} bytes")]
    Size {
        /// The size in question, in bytes.
        size: u64,
    },
    /// Smallest above largest.
    #[error("smallest chunk {min} is above the largest, {max}")]
    Order {
        /// Smallest chunk, in bytes.
        min: u32,
        /// Largest chunk, in bytes.
        max: u32,
    },
    /// None, or more than [`MAX_CLASSES`].
    #[error("{0} size classes: there must be 1 to {MAX_CLASSES}; use a larger factor")]
    Count(usize),
}

impl SizeClasses {
    /// Sizes from `min` to `max` bytes, each `factor` times the one before. Defaults elsewhere:
    /// 1.25, 64 B, 4 MiB.
    ///
    /// # Errors
    /// [`ClassError`] if the numbers make no sense.
    pub fn by_factor(factor: f64, min: u32, max: u32) -> Result<Self, ClassError> {
        if !(factor > 1.0 && factor <= 4.0) {
            return Err(ClassError::Factor(factor));
        }
        check_size(min)?;
        check_size(max)?;
        if min > max {
            return Err(ClassError::Order { min, max });
        }
        let mut sizes = Vec::new();
        let mut size = f64::from(min);
        while size < f64::from(max) {
            sizes.push(size as u32);
            size = (size * factor).max(size + f64::from(CHUNK_ALIGN));
        }
        sizes.push(max);
        Self::by_list(&sizes)
    }

    /// The sizes of `list`, in bytes, in any order; equal ones after rounding are merged.
    ///
    /// # Errors
    /// [`ClassError`] if a size is out of range or there are too many.
    pub fn by_list(list: &[u32]) -> Result<Self, ClassError> {
        let mut sizes = Vec::with_capacity(list.len());
        for &size in list {
            check_size(size)?;
            sizes.push(best_size(size));
        }
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() || sizes.len() > MAX_CLASSES {
            return Err(ClassError::Count(sizes.len()));
        }
        let start = |step| sizes.partition_point(|&size| (size as usize) < first_of(step)) as u8;
        let start = Box::new(std::array::from_fn(start));
        Ok(Self { sizes: sizes.into(), start })
    }

    /// The smallest class whose chunks hold `bytes`, or `None` if none does.
    #[inline]
    pub fn class_for(&self, bytes: usize) -> Option<u8> {
        if bytes > *self.sizes.last()? as usize {
            return None;
        }
        let mut class = usize::from(self.start[step(bytes)]);
        while (self.sizes[class] as usize) < bytes {
            class += 1;
        }
        Some(class as u8)
    }

    /// Chunk size of `class`, in bytes.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn size(&self, class: u8) -> u32 {
        self.sizes[usize::from(class)]
    }

    /// Memory of the tables, in bytes.
    pub fn table_bytes(&self) -> usize {
        size_of_val::<[u32]>(&self.sizes) + self.start.len()
    }

    /// All chunk sizes, ascending, in bytes.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }
}

fn check_size(size: u32) -> Result<(), ClassError> {
    if (MIN_CHUNK_BYTES..=SLAB_BYTES as u32).contains(&size) {
        Ok(())
    } else {
        Err(ClassError::Size { size: u64::from(size) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_factor_gives_few_classes_with_bounded_slack() {
        let classes = SizeClasses::by_factor(1.25, 64, SLAB_BYTES as u32).expect("defaults are valid");
        assert!((40..=60).contains(&classes.sizes().len()), "{:?}", classes.sizes());
        assert_eq!(classes.sizes()[0], 64);
        assert_eq!(*classes.sizes().last().expect("not empty"), SLAB_BYTES as u32);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(SizeClasses::by_factor(1.0, 64, 4096), Err(ClassError::Factor(1.0)));
        assert_eq!(SizeClasses::by_factor(1.25, 63, 4096), Err(ClassError::Size { size: 63 }));
        assert_eq!(SizeClasses::by_factor(1.25, 4096, 64), Err(ClassError::Order { min: 4096, max: 64 }));
        assert_eq!(SizeClasses::by_list(&[]), Err(ClassError::Count(0)));
        assert!(SizeClasses::by_list(&[5 << 20]).is_err());
        assert!(matches!(SizeClasses::by_factor(1.001, 64, SLAB_BYTES as u32), Err(ClassError::Count(_))));
    }

    #[test]
    fn lists_become_useful_sizes() {
        let useful: Vec<u32> = base::geometry::useful_sizes().collect();
        for size in [64, 65, 1_000, 5_800, 100_000, 3 << 20] {
            let classes = SizeClasses::by_list(&[size]).expect("in range");
            assert!(useful.binary_search(&classes.sizes()[0]).is_ok(), "{size}");
        }
    }

    proptest! {
        #[test]
        fn the_class_is_the_smallest_that_fits(
            list in prop::collection::vec(64_u32..=SLAB_BYTES as u32, 1..40),
            bytes in 0_usize..=SLAB_BYTES + 1,
        ) {
            let classes = SizeClasses::by_list(&list).expect("in range");
            let expected = classes.sizes().iter().position(|&size| size as usize >= bytes);
            prop_assert_eq!(classes.class_for(bytes).map(usize::from), expected);
            for &size in classes.sizes() {
                prop_assert_eq!(size % CHUNK_ALIGN, 0);
                let per_slab = SLAB_BYTES as u32 / size;
                prop_assert!((size + CHUNK_ALIGN) * per_slab > SLAB_BYTES as u32, "{} could grow", size);
            }
        }
    }
}

//! Base: a slab for the class whose allocations fail.

use base::rng::{RngExt, SeededRng};

use super::view::ClassView;

/// The choice of the class that gives a slab to one whose allocations fail, if the strategy has no
/// victim of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VictimRule {
    /// The class with most slabs, among those with two or more.
    #[default]
    MostSlabs,
    /// A random class among those with the largest chunks.
    LargestChunks {
        /// The least number of slabs of a candidate. CacheLib: 10.
        min_slabs: u64,
        /// The number of candidates. CacheLib: 10.
        among: usize,
    },
}

impl VictimRule {
    /// The rule for the largest chunks, with CacheLib's numbers.
    pub const LARGEST_CHUNKS: Self = Self::LargestChunks { min_slabs: 10, among: 10 };

    pub(super) fn pick(
        &self,
        classes: &[ClassView],
        except: u8,
        rng: &mut SeededRng,
    ) -> Option<(u8, String)> {
        match *self {
            Self::MostSlabs => most_slabs(classes, Some(except), 2),
            Self::LargestChunks { min_slabs, among } => {
                let mut large: Vec<_> = classes
                    .iter()
                    .filter(|class| class.slabs >= min_slabs.max(2) && class.number != except)
                    .collect();
                large.sort_by_key(|class| std::cmp::Reverse(class.chunk_bytes));
                large.truncate(among);
                if large.is_empty() {
                    return None;
                }
                let class = large.get(rng.random_range(0..large.len()))?;
                Some((class.number, format!("{class} is one of those with large chunks")))
            }
        }
    }
}

/// The class with most failed allocations.
pub(super) fn receiver(classes: &[ClassView]) -> Option<&ClassView> {
    let failing = classes.iter().filter(|class| class.counts.allocation_failures > 0);
    failing.min_by_key(|class| std::cmp::Reverse(class.counts.allocation_failures))
}

/// The class with most slabs, among those with at least `least`.
pub(super) fn most_slabs(classes: &[ClassView], except: Option<u8>, least: u64) -> Option<(u8, String)> {
    let rich = classes.iter().filter(|class| class.slabs >= least && Some(class.number) != except);
    let class = rich.min_by_key(|class| (std::cmp::Reverse(class.slabs), class.number))?;
    Some((class.number, format!("{class} has most slabs, {}", class.slabs)))
}

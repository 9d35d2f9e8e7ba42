//! Tenants in the order of one figure, of which only the first few are ever read, while figures
//! change often.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::rank::Rank;

/// A tournament: each node holds the least of the two figures below it, down to one leaf for each
/// tenant.
///
/// A change costs as many comparisons as there are levels above it that it reaches,
/// `O(log tenants)` at most, in contiguous memory; finding the first tenant costs one way down.
/// Among equal figures the first tenant comes first.
#[derive(Clone, Default)]
pub(super) struct Tournament {
    /// The root is node 1, the nodes below node `i` are `2 i` and `2 i + 1`, and leaves fill the
    /// second half. Infinity stands for no figure.
    least: Vec<f64>,
}

impl Tournament {
    /// Creates a tournament among tenants, each with its figure or `None`.
    pub(super) fn of(figures: impl ExactSizeIterator<Item = Option<f64>>) -> Self {
        let leaves = figures.len().next_power_of_two();
        let mut least = vec![f64::INFINITY; 2 * leaves];
        for (leaf, figure) in least[leaves..].iter_mut().zip(figures) {
            *leaf = figure.unwrap_or(f64::INFINITY);
        }
        for node in (1..leaves).rev() {
            least[node] = least[2 * node].min(least[2 * node + 1]);
        }
        Self { least }
    }

    /// Sets the figure of tenant `who`, or removes it.
    pub(super) fn set(&mut self, who: usize, figure: Option<f64>) {
        let mut node = self.least.len() / 2 + who;
        let mut least = figure.unwrap_or(f64::INFINITY);
        while self.least[node] != least {
            self.least[node] = least;
            if node == 1 {
                break;
            }
            least = least.min(self.least[node ^ 1]);
            node /= 2;
        }
    }

    /// The tenant with the least figure.
    pub(super) fn first(&self) -> Option<(f64, usize)> {
        let least = *self.least.get(1)?;
        let leaves = self.least.len() / 2;
        let mut node = 1;
        while node < leaves {
            node = 2 * node + usize::from(self.least[2 * node] != least);
        }
        least.is_finite().then(|| (least, node - leaves))
    }

    /// All tenants with a figure, the least first. Each costs `O(log tenants)`.
    pub(super) fn iter(&self) -> impl Iterator<Item = (f64, usize)> + '_ {
        let leaves = self.least.len() / 2;
        // A node is ordered by its least figure, and among equals by its first leaf: the leaves of
        // a node are adjacent, so that among equals the first tenant comes out first.
        let mut line = BinaryHeap::new();
        line.extend(self.least.get(1).map(|&least| Reverse((Rank(least), 0, 1))));
        std::iter::from_fn(move || {
            loop {
                let Reverse((Rank(least), leaf, node)) =
                    line.pop().filter(|first| first.0.0.0.is_finite())?;
                if node >= leaves {
                    return Some((least, leaf));
                }
                // The level of a node follows from its highest bit.
                let width = leaves >> (2 * node).ilog2();
                line.push(Reverse((Rank(self.least[2 * node]), leaf, 2 * node)));
                line.push(Reverse((Rank(self.least[2 * node + 1]), leaf + width, 2 * node + 1)));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_orders_as_sorting_does(
            start in proptest::collection::vec(proptest::option::of(0_i8..9), 0..40),
            changes in proptest::collection::vec((0_usize..40, proptest::option::of(0_i8..9)), 0..60),
        ) {
            let mut figures = start;
            let mut tournament = Tournament::of(figures.iter().map(|figure| figure.map(f64::from)));
            for (who, figure) in std::iter::once((usize::MAX, None)).chain(changes) {
                if who < figures.len() {
                    figures[who] = figure;
                    tournament.set(who, figure.map(f64::from));
                }
                let mut sorted: Vec<(f64, usize)> = figures
                    .iter()
                    .enumerate()
                    .filter_map(|(who, figure)| figure.map(|figure| (f64::from(figure), who)))
                    .collect();
                sorted.sort_by_key(|&(figure, who)| (Rank(figure), who));
                prop_assert_eq!(tournament.first(), sorted.first().copied());
                prop_assert_eq!(tournament.iter().collect::<Vec<_>>(), sorted);
            }
        }
    }
}

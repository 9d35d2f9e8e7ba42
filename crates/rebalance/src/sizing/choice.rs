//! The sizes with the least slack, exactly.
//!
//! Let the useful chunk sizes be s₁ < s₂ < …, Wᵢ the number of items that fit into sᵢ, and uᵢ the
//! bytes of its slab that a chunk of sᵢ takes. A class of size sᵢ above one of size sⱼ takes (Wᵢ −
//! Wⱼ) · uᵢ. The least memory of k classes up to sᵢ is then the minimum over j of the least memory
//! of k − 1 classes up to sⱼ, plus that: a dynamic programme with a layer for each class. The cost
//! satisfies the quadrangle inequality ((Wⱼ′ − Wⱼ)(uᵢ − uᵢ′) ≤ 0), even if steps that are too large
//! cost infinity. So the best j grows with i, and a layer is found by halving: n log n instead of
//! n² (Knuth; Galil and Park, "Dynamic programming with convexity, concavity and sparsity", TCS
//! 1992). For 48 classes of 1,440 sizes that is a few milliseconds, and less if the pool is so
//! small that fewer classes earn their price.

use super::Range;
use super::histogram::{SizeHistogram, chunk_share, useful_sizes};

/// The share of the memory, and the bytes, that a further size must save. Each size has a slab that
/// is not full, and in a pool with more classes than slabs, allocations compete for slabs.
const LEAST_EARNING: Earning = Earning { share: 0.0002, bytes: 262_144.0 };

/// The chunk sizes with the least slack for these items, ascending, in bytes: at most as many as
/// `range` allows, including its largest. A further size must save 0.02 % of the memory and 256
/// KiB, a 16th of a slab.
pub fn choose(items: &SizeHistogram, range: &Range) -> Vec<u32> {
    let programme = Programme::new(items, range);
    let least_step = Range::GREATEST_STEP;
    // If there are too few classes for the greatest step, a greater step is used.
    let mut step = least_step;
    loop {
        if let Some(sizes) = programme.solve(range.most_classes.max(1), step, &LEAST_EARNING) {
            return sizes;
        }
        step *= 1.25;
    }
}

/// The least savings of a further size.
pub(super) struct Earning {
    pub(super) share: f64,
    pub(super) bytes: f64,
}

/// Sizes to choose from, and the items below each.
pub(super) struct Programme {
    sizes: Vec<u32>,
    /// The bytes of a slab that a chunk takes.
    unit: Vec<f64>,
    /// Items that fit.
    items: Vec<f64>,
    min_bytes: f64,
}

/// The memory of the best classes up to each size, and the size below the last of them.
struct Layer {
    cost: Vec<f64>,
    below: Vec<u16>,
}

/// Marks that there is no class below, or no further class.
const NONE: u16 = u16::MAX;

impl Programme {
    pub(super) fn new(histogram: &SizeHistogram, range: &Range) -> Self {
        let (mut sizes, mut items, mut sum) = (Vec::new(), Vec::new(), 0.0);
        for (size, count) in useful_sizes().iter().zip(histogram.counts()) {
            sum += count as f64;
            if *size >= range.min_bytes {
                sizes.push(*size);
                items.push(sum);
            }
            // The largest chunk is the first useful size of at least the maximum.
            if *size >= range.max_bytes {
                break;
            }
        }
        let unit = sizes.iter().map(|size| chunk_share(*size)).collect();
        Self { sizes, unit, items, min_bytes: range.min_bytes.into() }
    }

    /// The best sizes with steps of at most `step`, or `None` if `most` sizes cannot reach from the
    /// smallest to the largest.
    pub(super) fn solve(&self, most: usize, step: f64, least: &Earning) -> Option<Vec<u32>> {
        let last = self.sizes.len().checked_sub(1)?;
        let first = |i: usize| {
            let in_reach = f64::from(self.sizes[i]) <= self.min_bytes * step || i == 0;
            if in_reach { self.items[i] * self.unit[i] } else { f64::INFINITY }
        };
        let mut layers = vec![Layer { cost: (0..=last).map(first).collect(), below: vec![NONE; last + 1] }];
        // The first place from which a step reaches each size.
        let from: Vec<usize> = (self.sizes.iter())
            .map(|size| self.sizes.partition_point(|below| f64::from(*below) * step < f64::from(*size)))
            .collect();
        for _ in 1..most.min(last + 1) {
            let before = layers.last()?;
            let mut layer = Layer { cost: before.cost.clone(), below: vec![NONE; last + 1] };
            self.halve(before, &mut layer, &from, (1, last), (0, last));
            let saved = before.cost[last] - layer.cost[last];
            layers.push(layer);
            // The savings of each further class fall with the number of classes. The price by
            // `share` is then of slightly more memory, by kilobytes of a price of over 256 KiB.
            if saved < least.bytes {
                break;
            }
        }
        let costs: Vec<f64> = layers.iter().map(|layer| layer.cost[last]).collect();
        let best = costs.last().copied().filter(|cost| cost.is_finite())?;
        let earning = least.bytes.max(least.share * best);
        let with_price = |k: usize| costs[k] + earning * k as f64;
        let chosen = (0..costs.len()).reduce(|a, b| if with_price(b) < with_price(a) { b } else { a })?;
        Some(self.sizes_of(&layers[..=chosen], last))
    }

    /// Finds the best place below for sizes `(first, last)`, which is among `(least, most)`.
    fn halve(
        &self,
        before: &Layer,
        layer: &mut Layer,
        from: &[usize],
        (first, last): (usize, usize),
        (least, most): (usize, usize),
    ) {
        if first > last {
            return;
        }
        let middle = first + (last - first) / 2;
        let mut best = (f64::INFINITY, None);
        for below in least.max(from[middle])..=most.min(middle - 1) {
            let cost = before.cost[below] + (self.items[middle] - self.items[below]) * self.unit[middle];
            if cost < best.0 {
                best = (cost, Some(below));
            }
        }
        if let (cost, Some(below)) = best
            && cost < layer.cost[middle]
        {
            layer.cost[middle] = cost;
            layer.below[middle] = below as u16;
        }
        let (left, right) = (best.1.unwrap_or(most), best.1.unwrap_or(least));
        self.halve(before, layer, from, (first, middle - 1), (least, left));
        self.halve(before, layer, from, (middle + 1, last), (right, most));
    }

    fn sizes_of(&self, layers: &[Layer], last: usize) -> Vec<u32> {
        let (mut sizes, mut at) = (vec![self.sizes[last]], last);
        for layer in layers.iter().rev() {
            // A layer without a better choice than the previous one keeps that choice.
            if layer.below[at] != NONE {
                at = usize::from(layer.below[at]);
                sizes.push(self.sizes[at]);
            }
        }
        sizes.reverse();
        sizes
    }
}

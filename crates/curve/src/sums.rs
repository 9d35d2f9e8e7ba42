//! Weights by place, and the sum of all weights behind a place.
//!
//! Places come in blocks of eight. Above the blocks is a tree whose nodes have eight children, in
//! the order of a heap: the parent of node `i` is node `(i - 1) / 8`. A node holds for each child
//! the weight of the children *behind* it: a sum reads one figure of each node on its way up, and a
//! weight is subtracted from all children before it with a few wide subtractions and no branch.
//! (Fenwick's tree takes a step for every bit, where each depends on the place.)
//!
//! Places are filled from the first to the last. The *open* block, which is being filled, is
//! counted separately and enters the tree when it is full. So the tree is written only when weights
//! are removed or changed, not when they are added.
//!
//! Invariants:
//! 1. Places from `next` on have weight 0.
//! 2. `open` is the weight of the block that `next` lies in; in the tree the weight of that block
//!    is 0.
//! 3. The blocks are the whole last level of the heap.

/// Places of a block.
const BLOCK: usize = 8;
/// Children of a node.
const FAN: usize = 8;

/// Masks with all bits set for the places of a block behind the given one.
const BEHIND: [[u32; BLOCK]; BLOCK] = {
    let mut masks = [[0; BLOCK]; BLOCK];
    let mut at = 0;
    while at < BLOCK * BLOCK {
        masks[at / BLOCK][at % BLOCK] = if at % BLOCK > at / BLOCK { u32::MAX } else { 0 };
        at += 1;
    }
    masks
};
/// Masks with all bits set for the children of a node before the given one.
const BEFORE: [Node; FAN] = {
    let mut masks = [Node([0; FAN]); FAN];
    let mut at = 0;
    while at < FAN * FAN {
        masks[at / FAN].0[at % FAN] = if at % FAN < at / FAN { u64::MAX } else { 0 };
        at += 1;
    }
    masks
};

type Block = [u32; BLOCK];

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node([u64; FAN]);

impl Node {
    /// Adds to the figures of all children before one. Wraps, so that it can also subtract.
    #[inline]
    fn add_before(&mut self, child: usize, weight: u64) {
        // Whole lines by value, so that they are known to be aligned; all children, so that no
        // branch depends on which it is.
        let (mut figures, masks) = (*self, BEFORE[child]);
        for (figure, mask) in figures.0.iter_mut().zip(masks.0) {
            *figure = figure.wrapping_add(weight & mask);
        }
        *self = figures;
    }
}

/// Weights by place.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    blocks: Vec<Block>,
    /// The nodes that have a block below them, and all nodes of each level above the last.
    nodes: Vec<Node>,
    /// The number that the first block has in the heap.
    first_block: usize,
    next: usize,
    open: u64,
}

impl Sums {
    /// The number of blocks for `places` places, the number of the first block, and the number of
    /// nodes.
    fn shape(places: usize) -> (usize, usize, usize) {
        let blocks = places.div_ceil(BLOCK).max(2);
        let (mut first_block, mut level) = (1, FAN);
        while level < blocks {
            first_block += level;
            level *= FAN;
        }
        // The last node is the parent of the last block.
        (blocks, first_block, (first_block + blocks - 2) / FAN + 1)
    }

    /// Room for `places` places, rounded up to whole blocks.
    pub(crate) fn new(places: usize) -> Self {
        let (blocks, first_block, nodes) = Self::shape(places);
        let (blocks, nodes) = (vec![[0; BLOCK]; blocks], vec![Node([0; FAN]); nodes]);
        Self { blocks, nodes, first_block, next: 0, open: 0 }
    }

    pub(crate) fn places(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// The first place that is not filled yet.
    #[inline]
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> u32 {
        self.blocks[place / BLOCK][place % BLOCK]
    }

    /// Prefetches the cache lines that [`Self::take`] reads first.
    #[inline]
    pub(crate) fn prefetch(&self, place: usize) {
        let block = place / BLOCK;
        base::sync::prefetch(&self.blocks[block]);
        base::sync::prefetch(&self.nodes[(self.first_block + block - 1) / FAN]);
    }

    /// Fills the next place.
    ///
    /// # Panics
    /// If all places are filled.
    #[inline]
    pub(crate) fn push(&mut self, weight: u32) {
        let (block, within) = (self.next / BLOCK, self.next % BLOCK);
        self.blocks[block][within] = weight;
        self.open += u64::from(weight);
        self.next += 1;
        if within == BLOCK - 1 {
            self.close(block);
        }
    }

    /// Enters a full block into the tree.
    #[inline(never)]
    fn close(&mut self, block: usize) {
        let weight = std::mem::take(&mut self.open);
        self.change(block, weight);
    }

    /// Adds weight to a block in the tree, and returns the weight of the blocks behind it. Wraps,
    /// so that it can also subtract.
    #[inline]
    fn change(&mut self, block: usize, weight: u64) -> u64 {
        let mut sum = 0;
        let mut child = self.first_block + block;
        while child > 0 {
            let within = (child - 1) % FAN;
            child = (child - 1) / FAN;
            let node = &mut self.nodes[child];
            sum += node.0[within];
            node.add_before(within, weight);
        }
        sum
    }

    /// The weight of the places behind this one in its block.
    #[inline]
    fn behind_in_block(&self, place: usize) -> u64 {
        let masks = &BEHIND[place % BLOCK];
        let weights = self.blocks[place / BLOCK].iter().zip(masks);
        weights.map(|(weight, mask)| u64::from(weight & mask)).sum()
    }

    /// The sum of the weights behind a place.
    pub(crate) fn behind(&self, place: usize) -> u64 {
        let block = place / BLOCK;
        let mut sum = self.behind_in_block(place);
        sum += if block == self.next / BLOCK { 0 } else { self.open };
        let mut child = self.first_block + block;
        while child > 0 {
            let within = (child - 1) % FAN;
            child = (child - 1) / FAN;
            sum += self.nodes[child].0[within];
        }
        sum
    }

    /// Empties a place, and returns the weight behind it.
    #[inline]
    pub(crate) fn take(&mut self, place: usize) -> u64 {
        let block = place / BLOCK;
        let behind = self.behind_in_block(place);
        let weight = u64::from(std::mem::take(&mut self.blocks[block][place % BLOCK]));
        if block == self.next / BLOCK {
            self.open -= weight;
            return behind;
        }
        behind + self.open + self.change(block, weight.wrapping_neg())
    }

    /// Sets the weight of a filled place.
    pub(crate) fn put(&mut self, place: usize, weight: u32) {
        let block = place / BLOCK;
        let before = std::mem::replace(&mut self.blocks[block][place % BLOCK], weight);
        let (before, weight) = (u64::from(before), u64::from(weight));
        if block == self.next / BLOCK {
            self.open = self.open - before + weight;
        } else {
            self.change(block, weight.wrapping_sub(before));
        }
    }

    /// Moves the places with a weight together at the beginning, in their order, and the elements
    /// of `along` at those places with them.
    pub(crate) fn gather(&mut self, along: &mut [u32]) {
        let filled = std::mem::take(&mut self.next);
        let (weights, along) = (&mut self.blocks.as_flattened_mut()[..filled], &mut along[..filled]);
        let mut to = 0;
        // No branch depends on the weights: about every other place is empty, in no pattern that a
        // processor could predict.
        for from in 0..filled {
            let weight = weights[from];
            (weights[to], along[to]) = (weight, along[from]);
            to += usize::from(weight > 0);
        }
        weights[to..].fill(0);
        self.next = to;
        self.count();
    }

    /// Returns a copy with room for `places` places, which must suffice.
    pub(crate) fn resized(&self, places: usize) -> Self {
        let mut resized = Self::new(places);
        let blocks = self.next.div_ceil(BLOCK);
        resized.blocks[..blocks].copy_from_slice(&self.blocks[..blocks]);
        resized.next = self.next;
        resized.count();
        resized
    }

    /// Rebuilds the tree.
    fn count(&mut self) {
        let weigh = |block: &Block| block.iter().map(|weight| u64::from(*weight)).sum::<u64>();
        let open = self.next / BLOCK;
        self.open = self.blocks.get(open).map_or(0, weigh);
        let mut weights: Vec<u64> = self.blocks[..open].iter().map(weigh).collect();
        self.nodes.fill(Node([0; FAN]));
        let mut first = self.first_block;
        while first > 0 {
            // From the children of a level to their parents.
            first = (first - 1) / FAN;
            let parents = weights.chunks(FAN).zip(&mut self.nodes[first..]);
            let sums = parents.map(|(children, node)| {
                let mut behind = 0;
                for (weight, figure) in children.iter().zip(&mut node.0).rev() {
                    *figure = behind;
                    behind += weight;
                }
                // Figures of missing children stay 0, as nothing lies behind those.
                behind
            });
            weights = sums.collect();
        }
    }

    /// The memory for `places` places, in bytes.
    pub(crate) fn bytes_for(places: usize) -> usize {
        let (blocks, _, nodes) = Self::shape(places);
        blocks * size_of::<Block>() + nodes * size_of::<Node>()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>() + self.nodes.capacity() * size_of::<Node>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_are_those_of_a_list(
            places in 1_usize..3000,
            steps in prop::collection::vec((0_u32..6, any::<u32>(), any::<prop::sample::Index>()), 1..600),
        ) {
            let mut sums = Sums::new(places);
            let mut plain: Vec<u32> = Vec::new();
            for (what, weight, which) in steps {
                if sums.next() == sums.places() {
                    sums = sums.resized(sums.places() * 2);
                }
                match what {
                    0 if !plain.is_empty() => {
                        let place = which.index(plain.len());
                        let behind = plain[place + 1..].iter().map(|weight| u64::from(*weight)).sum::<u64>();
                        prop_assert_eq!(sums.behind(place), behind);
                        prop_assert_eq!(sums.take(place), behind);
                        plain[place] = 0;
                    }
                    5 if !plain.is_empty() => {
                        let place = which.index(plain.len());
                        sums.put(place, weight >> (weight % 32));
                        plain[place] = weight >> (weight % 32);
                    }
                    1 if weight % 64 == 0 => {
                        let mut along: Vec<u32> = (0..plain.len() as u32).collect();
                        sums.gather(&mut along);
                        along.truncate(sums.next());
                        let live = (0_u32..).zip(&plain).filter(|(_, weight)| **weight > 0).map(|(place, _)| place);
                        prop_assert_eq!(along, live.collect::<Vec<_>>());
                        plain.retain(|weight| *weight > 0);
                    }
                    _ => {
                        for _ in 0..=weight % 37 {
                            if sums.next() < sums.places() {
                                sums.push(weight >> (weight % 32));
                                plain.push(weight >> (weight % 32));
                            }
                        }
                    }
                }
                prop_assert_eq!(sums.next(), plain.len());
            }
            let mut behind = 0;
            for (place, weight) in plain.iter().enumerate().rev() {
                prop_assert_eq!((sums.behind(place), sums.get(place)), (behind, *weight));
                behind += u64::from(*weight);
            }
        }
    }
}

//! Weights by place, and the sum of all behind a place: a tree whose nodes have 16 children and hold their sums.
//!
//! A sum looks at one node on each level, which is two cache lines side by side; the same in a binary indexed tree touches four times
//! as many, far apart.

const FAN: usize = 16;

/// Weights by place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    /// The weights, then their sums by 16, and so on up to one node.
    levels: Vec<Vec<u64>>,
}

impl Sums {
    /// `places` places, rounded up to whole nodes, each of weight 0.
    pub(crate) fn new(places: usize) -> Self {
        let mut levels = Vec::new();
        let mut nodes = places.div_ceil(FAN).max(1);
        loop {
            levels.push(vec![0; nodes * FAN]);
            if nodes == 1 {
                return Self { levels };
            }
            nodes = nodes.div_ceil(FAN);
        }
    }

    pub(crate) fn places(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> u64 {
        self.levels[0][place]
    }

    /// Sets the weight of a place.
    #[inline]
    pub(crate) fn set(&mut self, mut place: usize, weight: u64) {
        // Sums wrap on the way down and are right again at the end.
        let more = weight.wrapping_sub(self.levels[0][place]);
        for level in &mut self.levels {
            level[place] = level[place].wrapping_add(more);
            place /= FAN;
        }
    }

    /// The sum of the weights behind `place`.
    #[inline]
    pub(crate) fn behind(&self, mut place: usize) -> u64 {
        let mut sum = 0;
        for level in &self.levels {
            let node = place / FAN * FAN;
            let within = place - node;
            let children: &[u64; FAN] = level[node..node + FAN].try_into().expect("a node has its children");
            // All children, so that no branch depends on the place.
            for (i, child) in children.iter().enumerate() {
                sum += if i > within { *child } else { 0 };
            }
            place = node / FAN;
        }
        sum
    }

    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum()
    }
}

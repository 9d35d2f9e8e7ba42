//! Drawing one of many by weight in constant time: Walker's alias table in Vose's form.
//!
//! Source: M. D. Vose, "A Linear Algorithm For Generating Random Numbers With a Given
//! Distribution", IEEE Transactions on Software Engineering 17(9), 1991.

use base::rng::{Rng, SeededRng};

/// A table from which index `i` is drawn in proportion to the `i`-th weight. A draw costs one
/// random number and one look into 8 bytes per entry; building is linear.
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    /// The share of a slot, in 2^-32, that belongs to the slot itself; and whose the rest is.
    slots: Vec<(u32, u32)>,
}

impl Alias {
    /// A table over `weights`; `None` where there are none, one is negative or not a number, or
    /// their sum is zero.
    pub(crate) fn new(weights: &[f64]) -> Option<Self> {
        let sum: f64 = weights.iter().sum();
        let fine = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if !fine || !sum.is_finite() || sum <= 0.0 || weights.len() > u32::MAX as usize {
            return None;
        }
        let scale = weights.len() as f64 / sum;
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let (mut poor, mut rich): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|i| shares[*i as usize] < 1.0);
        let mut slots: Vec<(u32, u32)> = (0..weights.len() as u32).map(|i| (u32::MAX, i)).collect();
        while let (Some(small), Some(large)) = (poor.pop(), rich.last().copied()) {
            let share = shares[small as usize];
            slots[small as usize] = ((share * 4_294_967_296.0) as u32, large);
            shares[large as usize] -= 1.0 - share;
            if shares[large as usize] < 1.0 {
                rich.pop();
                poor.push(large);
            }
        }
        Some(Self { slots })
    }

    /// Draws an index.
    #[inline]
    pub(crate) fn sample(&self, rng: &mut SeededRng) -> usize {
        let random = rng.next_u64();
        let slot = (((random >> 32) * self.slots.len() as u64) >> 32) as usize;
        let (share, other) = self.slots[slot];
        if (random as u32) < share { slot } else { other as usize }
    }
}

/// A number below `n`, every one as likely as the others to within n/2^64; 0 where `n` is 0.
#[inline]
pub(crate) fn below(rng: &mut SeededRng, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

/// A number in [0, 1).
#[inline]
pub(crate) fn unit(rng: &mut SeededRng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_weights() {
        let weights = [1.0, 0.0, 5.0, 94.0, 900.0];
        let alias = Alias::new(&weights).expect("a table");
        let mut rng = base::rng::seeded(1);
        let mut counts = [0_u32; 5];
        for _ in 0..1_000_000 {
            counts[alias.sample(&mut rng)] += 1;
        }
        assert_eq!(counts[1], 0);
        for (count, weight) in counts.iter().zip(weights) {
            // Six standard deviations of a Poisson count.
            let wanted = weight * 1_000.0;
            assert!((f64::from(*count) - wanted).abs() <= 6.0 * wanted.sqrt(), "{count} for {weight}");
        }
    }

    #[test]
    fn weights_that_mean_nothing_are_refused() {
        for weights in [&[][..], &[0.0], &[1.0, -1.0], &[f64::NAN], &[f64::INFINITY]] {
            assert!(Alias::new(weights).is_none(), "{weights:?}");
        }
    }
}

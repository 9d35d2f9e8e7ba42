//! Keys that are drawn by Zipf's law.

use base::hash::mix64;
use base::rng::{SeededRng, seeded};
use rand_distr::{Distribution, Zipf};

/// Hashes of keys that are drawn by Zipf's law.
pub(crate) struct ZipfKeys {
    rng: SeededRng,
    ranks: Zipf<f64>,
}

impl ZipfKeys {
    pub(crate) fn new(seed: u64, keys: u64, exponent: f64) -> Self {
        let ranks = Zipf::new(keys as f64, exponent).expect("there are keys, and the exponent is positive");
        Self { rng: seeded(seed), ranks }
    }
}

impl Iterator for ZipfKeys {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(mix64(self.ranks.sample(&mut self.rng) as u64))
    }
}

//! Keys, and the order in which they are asked for.
//!
//! A key is 16 letters and digits made from a number by a mixing function, the same for every
//! contestant and every server. Orders are drawn before anything is timed, so that a timed loop
//! reads the next number from a table and mixes it: a few nanoseconds, the same for all.

use base::hash::mix64;
use base::rng;
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};

/// A key: text, so that servers take it as well.
pub(crate) type Key = [u8; 16];

/// Number of keys in a batched find.
pub(crate) const BATCH: usize = 16;

/// The key of a number.
#[inline]
pub(crate) fn key(number: u64) -> Key {
    // Each half byte becomes one of `@` to `O`: text without a branch or a table.
    const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const TEXT: u64 = 0x4040_4040_4040_4040;
    let mixed = mix64(number);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&((mixed & LOW) | TEXT).to_le_bytes());
    key[8..].copy_from_slice(&(((mixed >> 4) & LOW) | TEXT).to_le_bytes());
    key
}

/// The distribution of requests over keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Spread {
    /// All keys alike.
    Uniform,
    /// Zipf's law: the k-th most popular key in proportion to `k` to the power of minus this many
    /// hundredths.
    Zipf(u8),
}

/// Zipf with the exponent that YCSB made usual.
pub(crate) const ZIPF: Spread = Spread::Zipf(99);

impl Spread {
    /// The name in tables.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Uniform => "uniform".to_owned(),
            Self::Zipf(hundredths) => format!("Zipf {:.2}", f64::from(hundredths) / 100.0),
        }
    }
}

/// A prime above every number of keys that is used: multiplying by it modulo that number permutes
/// the keys, so that the popular ones were not inserted next to each other.
const SCATTER: u64 = 4_294_967_291;

/// `length` numbers below `keys`, drawn by `spread` from `seed`.
pub(crate) fn order(spread: Spread, keys: u32, length: usize, seed: u64) -> Vec<u32> {
    let mut source = Source::new(spread, keys, seed);
    (0..length).map(|_| source.draw()).collect()
}

/// Draws key numbers one by one.
pub(crate) struct Source {
    rng: rng::SeededRng,
    keys: u64,
    zipf: Option<Zipf<f64>>,
}

impl Source {
    /// Numbers below `keys`, drawn by `spread` from `seed`.
    pub(crate) fn new(spread: Spread, keys: u32, seed: u64) -> Self {
        let keys = u64::from(keys.max(1));
        let zipf = match spread {
            Spread::Zipf(hundredths) => Zipf::new(keys as f64, f64::from(hundredths) / 100.0).ok(),
            Spread::Uniform => None,
        };
        Self { rng: rng::seeded(seed), keys, zipf }
    }

    /// The next number.
    #[inline]
    pub(crate) fn draw(&mut self) -> u32 {
        use rng::Rng as _;
        let number = match &self.zipf {
            Some(zipf) => (zipf.sample(&mut self.rng) as u64 - 1) % self.keys * SCATTER % self.keys,
            None => ((u128::from(self.rng.next_u64()) * u128::from(self.keys)) >> 64) as u64,
        };
        number as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_different_text() {
        let keys: HashSet<Key> = (0..100_000).map(key).collect();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().flatten().all(|byte| byte.is_ascii_graphic()));
    }

    #[test]
    fn orders_stay_below_the_number_of_keys_and_scatter_all_of_them() {
        for spread in [Spread::Uniform, ZIPF, Spread::Zipf(60)] {
            let drawn = order(spread, 1_000, 50_000, 7);
            assert!(drawn.iter().all(|number| *number < 1_000));
            assert_eq!(drawn, order(spread, 1_000, 50_000, 7), "{spread:?} repeats");
        }
        let scattered: HashSet<u64> = (0..1_000).map(|rank| rank * SCATTER % 1_000).collect();
        assert_eq!(scattered.len(), 1_000);
    }

    #[test]
    fn zipf_prefers_a_few() {
        let mut counts = vec![0_u32; 10_000];
        for number in order(ZIPF, 10_000, 100_000, 7) {
            counts[number as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let head: u32 = counts[..100].iter().sum();
        assert!((50_000..60_000).contains(&head), "1 % of the keys took {head} of 100000 requests");
    }
}

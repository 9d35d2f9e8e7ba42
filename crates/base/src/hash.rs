//! Key hashing: XXH3 with a seed, specified and stable, so that it may one day be written to shared
//! memory.

pub use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// The hash of `key` under `seed`. The seed is random per cache, so that a client cannot aim at one
/// bucket.
#[inline]
pub fn key_hash(seed: u64, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, seed)
}

/// A hash of 128 bits, for uses in which no key may be mistaken for another.
#[inline]
pub fn key_hash_128(seed: u64, key: &[u8]) -> u128 {
    xxh3_128_with_seed(key, seed)
}

/// Spreads the bits of `x`; a bijection. Used where one hash must yield a second, independent one.
#[inline]
pub const fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published vectors of XXH3-64 (xxHash 0.8 sanity checks): the empty input under seeds 0 and
    /// PRIME64.
    #[test]
    fn matches_the_published_vectors() {
        assert_eq!(key_hash(0, b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(key_hash(0x9e37_79b1_85eb_ca8d, b""), 0xa8a6_b918_b2f0_364a);
        assert_eq!(key_hash_128(0, b""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
    }

    #[test]
    fn mix_is_a_bijection_on_a_sample() {
        let mut seen: Vec<u64> = (0..10_000).map(mix64).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 10_000);
    }
}

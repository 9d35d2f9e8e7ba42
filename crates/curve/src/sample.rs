//! Spatial sampling: keys are selected by their hash alone, so that either all accesses to a key
//! are recorded or none.
//!
//! Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015,
//! section 3: a key is tracked if `hash mod P < T`, at the rate `T / P`. As there, `P` is 2^24. The
//! 24 bits are the upper ones of the hash times an odd constant, and depend on all its bits, so
//! that a table indexed by some bits of the hash has tracked keys everywhere.

/// The number of possible places of a key.
pub const PLACES: u32 = 1 << 24;

/// 2^64 over the golden ratio, odd: a product with it has well-mixed upper bits.
pub(crate) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The key's place among [`PLACES`]: the key is tracked while the threshold lies above its place.
#[inline]
pub fn place(hash: u64) -> u32 {
    (hash.wrapping_mul(SPREAD) >> 40) as u32
}

/// The key's group among `groups`, a power of two. Independent of the key's place.
#[inline]
pub(crate) fn group(hash: u64, groups: usize) -> usize {
    (hash.wrapping_mul(SPREAD) >> 8) as usize & (groups - 1)
}

/// The threshold that tracks this share of all keys, at least one place of [`PLACES`].
///
/// # Panics
/// If the rate is not above 0 and at most 1.
pub fn threshold(rate: f64) -> u32 {
    assert!(rate > 0.0 && rate <= 1.0, "a sampling rate is above 0 and at most 1, not {rate}");
    ((rate * f64::from(PLACES)).round() as u32).max(1)
}

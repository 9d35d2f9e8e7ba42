//! The values that the checker writes: each names its key and version, and has a checksum over
//! every byte.
//!
//! A value is a header of 32 bytes – its key's number, its version, its length, a checksum over all
//! that follows and all that precedes – and bytes that depend on key and version. A value that is
//! cut, mixed from two, or written over while it is read does not pass; one that passes names the
//! write that it comes from.

use base::hash::{key_hash, mix64};
use base::rng::Rng;

/// The smallest value: its header.
pub(crate) const LEAST_VALUE_BYTES: u32 = 32;
/// The random bytes out of which values are cut.
const STOCK_BYTES: usize = 1 << 16;
const CHECKSUM_SEED: u64 = 0x6d69_6c6c_706f_6e64;

/// The key and version that a whole value names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) key: u64,
    pub(crate) version: u64,
}

/// A source of values; one per thread.
pub(crate) struct Values {
    stock: Vec<u8>,
    value: Vec<u8>,
}

impl Values {
    pub(crate) fn new() -> Self {
        let mut rng = base::rng::seeded(1);
        let stock = (0..STOCK_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        Self { stock, value: Vec::new() }
    }

    /// The value of a version, of `size` bytes but no fewer than [`LEAST_VALUE_BYTES`].
    pub(crate) fn make(&mut self, stamp: Stamp, size: u32) -> &[u8] {
        let size = size.max(LEAST_VALUE_BYTES) as usize;
        self.value.clear();
        self.value.extend_from_slice(&stamp.key.to_le_bytes());
        self.value.extend_from_slice(&stamp.version.to_le_bytes());
        self.value.extend_from_slice(&(size as u64).to_le_bytes());
        self.value.extend_from_slice(&[0; 8]);
        let mut from = mix64(stamp.key ^ mix64(stamp.version)) as usize % (STOCK_BYTES / 2);
        while self.value.len() < size {
            let part = (size - self.value.len()).min(STOCK_BYTES - from);
            self.value.extend_from_slice(&self.stock[from..from + part]);
            from = 0;
        }
        let checksum = checksum(&self.value);
        self.value[24..32].copy_from_slice(&checksum.to_le_bytes());
        &self.value
    }
}

/// Reads the key and version from `value`; `None` if the value isn't whole.
pub(crate) fn read(value: &[u8]) -> Option<Stamp> {
    let word = |at: usize| Some(u64::from_le_bytes(value.get(at..at + 8)?.try_into().ok()?));
    let (key, version, size, sum) = (word(0)?, word(8)?, word(16)?, word(24)?);
    (size == value.len() as u64 && sum == checksum(value)).then_some(Stamp { key, version })
}

/// Over everything but the checksum's own place. The caller has at least a header.
fn checksum(value: &[u8]) -> u64 {
    let (head, rest) = value.split_at(LEAST_VALUE_BYTES as usize);
    key_hash(key_hash(CHECKSUM_SEED, &head[..24]), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_who_it_is_and_no_byte_of_it_can_change() {
        let mut values = Values::new();
        for size in [0, 31, 32, 33, 100, 1_000, 200_000] {
            let stamp = Stamp { key: 7, version: u64::from(size) };
            let mut value = values.make(stamp, size).to_vec();
            assert_eq!(value.len(), size.max(LEAST_VALUE_BYTES) as usize);
            assert_eq!(read(&value), Some(stamp));
            for at in (0..value.len()).step_by(1.max(value.len() / 97)) {
                value[at] ^= 1;
                assert_eq!(read(&value), None, "byte {at} of {size}");
                value[at] ^= 1;
            }
            assert_eq!(read(&value[..value.len() - 1]), None);
        }
        assert_eq!(read(b"short"), None);
    }

    #[test]
    fn halves_of_two_values_are_no_value() {
        let mut values = Values::new();
        let mut one = values.make(Stamp { key: 1, version: 1 }, 500).to_vec();
        let two = values.make(Stamp { key: 1, version: 2 }, 500);
        one[250..].copy_from_slice(&two[250..]);
        assert_eq!(read(&one), None);
    }
}

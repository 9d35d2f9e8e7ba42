//! The values that the bench writes, and the check of values that it reads.
//!
//! A value begins with a stamp made of its key's number, and goes on with bytes that do not
//! compress. A read checks length and stamp, so that a cache that mixes up keys, or hands out
//! memory that has been used again, fails the run instead of being fast.

use base::rng::Rng;

use crate::workload::Operation;

const STAMP_BYTES: usize = 8;

/// A buffer out of which values are cut; one per thread.
#[derive(Debug)]
pub struct Values {
    bytes: Vec<u8>,
}

impl Values {
    /// Room for values of up to `largest` bytes.
    pub fn new(largest: usize) -> Self {
        let mut rng = base::rng::seeded(largest as u64);
        let words = largest.div_ceil(8).max(1);
        Self { bytes: (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect() }
    }

    /// The value of the operation's key. Costs 8 bytes of writing.
    #[inline]
    pub fn of(&mut self, operation: &Operation) -> &[u8] {
        let size = (operation.value_size as usize).min(self.bytes.len());
        let stamped = size.min(STAMP_BYTES);
        self.bytes[..stamped].copy_from_slice(&stamp(operation.key)[..stamped]);
        &self.bytes[..size]
    }
}

/// Returns whether `value` is the value of the operation's key.
#[inline]
pub fn is_value_of(operation: &Operation, value: &[u8]) -> bool {
    let stamped = value.len().min(STAMP_BYTES);
    value.len() == operation.value_size as usize && value[..stamped] == stamp(operation.key)[..stamped]
}

#[inline]
fn stamp(key: u64) -> [u8; STAMP_BYTES] {
    base::hash::mix64(key ^ 0x6d69_6c6c_706f_6e64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::OpKind;

    #[test]
    fn a_value_is_known_by_its_key_and_size() {
        let operation = |key, value_size| Operation {
            kind: OpKind::Set,
            pool: 0,
            key_size: 16,
            key,
            value_size,
            ttl_secs: 0,
        };
        let mut values = Values::new(1_000);
        for size in [0, 1, 7, 8, 9, 1_000] {
            let value = values.of(&operation(5, size)).to_vec();
            assert_eq!(value.len(), size as usize);
            assert!(is_value_of(&operation(5, size), &value));
            assert!(!is_value_of(&operation(5, size + 1), &value));
            assert_eq!(is_value_of(&operation(6, size), &value), size == 0);
        }
    }
}

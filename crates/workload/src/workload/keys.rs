//! Keys as text: a key's number in base 64, padded to the key's size.
//!
//! Keys of different numbers differ whatever their sizes, because the padding isn't a digit. A size
//! that is too small for the number is exceeded; CacheBench instead draws random letters, and short
//! keys may coincide.

/// The digits; none of them is blank or a control character, as memcached's protocol demands.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const PADDING: u8 = b'.';

/// The longest key that is written, in bytes: memcached's limit.
pub const MAX_KEY_BYTES: usize = 250;

/// Writes the key of number `number` into `out` (cleared first), `size` bytes long if that is
/// enough for the number.
#[inline]
pub fn write_key(number: u64, size: usize, out: &mut Vec<u8>) {
    let mut digits = [PADDING; 16];
    let (mut rest, mut length) = (number, 0);
    loop {
        digits[length] = DIGITS[(rest & 63) as usize];
        length += 1;
        rest >>= 6;
        if rest == 0 {
            break;
        }
    }
    out.clear();
    // Most keys fit into the digits with their padding.
    let wanted = size.clamp(length, MAX_KEY_BYTES);
    out.extend_from_slice(&digits[..wanted.min(digits.len())]);
    if wanted > digits.len() {
        out.resize(wanted, PADDING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_differ_and_have_their_size() {
        let mut seen = HashSet::new();
        let mut key = Vec::new();
        for number in (0..70_000).chain([u64::MAX, u64::MAX - 1, 1 << 40]) {
            write_key(number, 16, &mut key);
            assert_eq!(key.len(), 16);
            assert!(key.iter().all(u8::is_ascii_graphic));
            assert!(seen.insert(key.clone()), "{number}");
        }
        write_key(u64::MAX, 1, &mut key);
        assert_eq!(key.len(), 11, "a number that does not fit makes the key longer");
        write_key(1, 100_000, &mut key);
        assert_eq!(key.len(), MAX_KEY_BYTES);
        assert!(!seen.contains(&key));
    }
}

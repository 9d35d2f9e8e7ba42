//! Decimal numbers, read as memcached reads them and written without the formatting machinery.

/// Reads an unsigned number of 64 bits as C's `strtoull` and memcached's checks around it do:
/// leading white space and one sign are allowed, the digits end at the end of the word or at white
/// space, and a negative number is none.
#[inline]
pub(crate) fn unsigned(word: &[u8]) -> Option<u64> {
    match word {
        // One digit is by far the most common number: no flags, no expiry.
        [digit @ b'0'..=b'9'] => Some(u64::from(digit & 0x0f)),
        _ => match magnitude(word)? {
            (true, 1..) => None,
            (_, value) => Some(value),
        },
    }
}

/// Reads a signed number of 64 bits as C's `strtoll` and memcached's checks around it do.
#[inline]
pub(crate) fn signed(word: &[u8]) -> Option<i64> {
    match word {
        [digit @ b'0'..=b'9'] => Some(i64::from(digit & 0x0f)),
        _ => match magnitude(word)? {
            (true, value) => 0_i64.checked_sub_unsigned(value),
            (false, value) => i64::try_from(value).ok(),
        },
    }
}

/// Sign (true is minus) and magnitude of a number of at most 64 bits.
fn magnitude(word: &[u8]) -> Option<(bool, u64)> {
    let word = word.trim_ascii_start();
    let (minus, digits) = match word.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, word),
    };
    let mut value = 0_u64;
    let mut seen = false;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            if is_c_space(byte) {
                break;
            }
            return None;
        }
        seen = true;
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    seen.then_some((minus, value))
}

/// Returns whether C's `isspace` accepts `byte`.
const fn is_c_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Reads nothing but digits, as the answers of a server have them.
pub(crate) fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// The decimal digits of 00 to 99, two each.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut n = 0;
    #[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "evaluated by the compiler")]
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// Appends `value` in decimal. Costs a few nanoseconds; nothing is allocated beyond what `out`
/// needs to grow.
///
/// ```
/// let mut out = b"s".to_vec();
/// millpond_protocol::memcached::write_u64(&mut out, 18_446_744_073_709_551_615);
/// assert_eq!(out, b"s18446744073709551615");
/// ```
#[inline]
pub fn write_u64(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        out.push(b'0' | value as u8);
        return;
    }
    let mut buffer = [b'0'; 20];
    let mut rest = value;
    let mut written = 0_usize;
    // Fills from the right, two digits at a time.
    for slot in buffer.rchunks_exact_mut(2) {
        let pair = PAIRS.get((rest % 100) as usize).copied().unwrap_or_default();
        slot.copy_from_slice(&pair);
        written = written.saturating_add(2);
        rest /= 100;
        if rest == 0 {
            break;
        }
    }
    let start = buffer.len().saturating_sub(written);
    let digits = buffer.get(start..).unwrap_or_default();
    out.extend_from_slice(digits.strip_prefix(b"0").unwrap_or(digits));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unsigned_numbers_are_read_as_memcached_does() {
        let max = b"18446744073709551615";
        for (word, value) in [
            (&b"0"[..], Some(0)),
            (b"9", Some(9)),
            (b"10", Some(10)),
            (b"+1", Some(1)),
            (b"-0", Some(0)),
            (b"-1", None),
            (b"0000000000000000000000000000000001", Some(1)),
            (max, Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"", None),
            (b"+", None),
            (b"-", None),
            (b"+-1", None),
            (b"+\t1", None),
            (b"x", None),
            (b"1x", None),
            (b"0x1", None),
            (b"\t1", Some(1)),
            (b"1\t", Some(1)),
            (b"1\r", Some(1)),
            (b"1\rjunk", Some(1)),
            (b"\t", None),
            (b"1.5", None),
            (b"\xb1", None),
        ] {
            assert_eq!(unsigned(word), value, "{}", word.escape_ascii());
        }
    }

    #[test]
    fn signed_numbers_have_64_bits() {
        for (word, value) in [
            (&b"0"[..], Some(0)),
            (b"-1", Some(-1)),
            (b"+7", Some(7)),
            (b"9223372036854775807", Some(i64::MAX)),
            (b"9223372036854775808", None),
            (b"-9223372036854775808", Some(i64::MIN)),
            (b"-9223372036854775809", None),
            (b"--1", None),
        ] {
            assert_eq!(signed(word), value, "{}", word.escape_ascii());
        }
    }

    #[test]
    fn digits_are_digits_only() {
        assert_eq!(digits(b"0042"), Some(42));
        for word in [&b""[..], b"+1", b"-1", b" 1", b"1 ", b"18446744073709551616"] {
            assert_eq!(digits(word), None, "{}", word.escape_ascii());
        }
    }

    #[test]
    fn numbers_at_the_edges_are_written() {
        for value in
            [0, 1, 9, 10, 99, 100, 101, 999, 1_000, 12_345, u64::from(u32::MAX), u64::MAX - 1, u64::MAX]
        {
            let mut out = Vec::new();
            write_u64(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            write_u64(&mut out, value);
            prop_assert_eq!(std::str::from_utf8(&out).unwrap(), value.to_string());
            prop_assert_eq!(unsigned(&out), Some(value));
            prop_assert_eq!(digits(&out), Some(value));
        }
    }
}

//! Numbers: `INCR` and its relatives.

use millpond::ReadHandle;
use protocol::resp::{number, reply};

use super::arguments::{arg, integer};
use super::commands::{Change, Commands, stamp_of};
use super::writer::{Failure, Outcome, Writer};

impl<'c> Commands<'_, 'c> {
    pub(super) fn subtract(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let delta = integer(arg(args, 2))?.checked_neg();
        self.add_number(arg(args, 1), delta.ok_or(Failure::new("ERR decrement would overflow"))?, w)
    }

    pub(super) fn add_number(&mut self, key: &[u8], delta: i64, w: &mut Writer<'_, 'c>) -> Outcome {
        let sum = self.modify(key, |old| {
            let before = old.map_or(Some(0), |old| number(old)).ok_or(Failure::NOT_AN_INTEGER)?;
            let sum =
                before.checked_add(delta).ok_or(Failure::new("ERR increment or decrement would overflow"))?;
            let mut digits = Vec::with_capacity(20);
            reply::decimal(&mut digits, sum);
            Ok(Change::Put(self.item_of(key, &[&digits], stamp_of(old))?, sum))
        })?;
        w.integer(sum);
        Ok(())
    }

    pub(super) fn add_fraction(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let delta = arg(args, 2);
        let key = arg(args, 1);
        let sum = self.modify(key, |old| {
            let before: &[u8] = old.map_or(b"0", |old: &ReadHandle<'_>| old);
            if float(before).is_none() || float(delta).is_none() {
                return Err(Failure::NOT_A_FLOAT);
            }
            let sum =
                add(before, delta).ok_or(Failure::new("ERR increment would produce NaN or Infinity"))?;
            Ok(Change::Put(self.item_of(key, &[sum.as_bytes()], stamp_of(old))?, sum))
        })?;
        w.bulk(sum.as_bytes());
        Ok(())
    }
}

/// A number with a fraction as C's `strtod` reads it, without white space, NaN, and numbers beyond
/// the largest or below the smallest.
pub(super) fn float(text: &[u8]) -> Option<f64> {
    let number = unbounded_float(text)?;
    let text = std::str::from_utf8(text).ok()?;
    let is_named = text.contains(['n', 'N']);
    let digits = text.split(['e', 'E', 'p', 'P']).next()?.trim_start_matches(['+', '-']);
    let digits = digits.trim_start_matches("0x").trim_start_matches("0X");
    let is_zero = || digits.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let is_in_range = (number.is_finite() || is_named) && (number != 0.0 || is_zero());
    is_in_range.then_some(number)
}

/// As [`float`], with infinity and 0 for numbers out of range.
fn unbounded_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: f64 = match text.parse() {
        Ok(number) => number,
        Err(_) => hexadecimal(text)?,
    };
    (!number.is_nan()).then_some(number)
}

/// A number as `strtod` reads it in the middle of a text: white space before it does not matter,
/// and nothing is 0.
pub(super) fn loose_float(text: &[u8]) -> Option<f64> {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r')).unwrap_or(text.len());
    if text.is_empty() { Some(0.0) } else { unbounded_float(text.get(start..)?) }
}

/// `0x1.8p3`: a number in hexadecimal digits, with an exponent of two in decimal ones.
fn hexadecimal(text: &str) -> Option<f64> {
    let (sign, magnitude) = match text.as_bytes().first()? {
        b'-' => (-1.0, text.get(1..)?),
        b'+' => (1.0, text.get(1..)?),
        _ => (1.0, text),
    };
    let digits = magnitude.strip_prefix("0x").or_else(|| magnitude.strip_prefix("0X"))?;
    let (digits, power) = match digits.find(['p', 'P']) {
        Some(at) => (digits.get(..at)?, exponent(digits.get(at + 1..)?)?),
        None => (digits, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    // Digits beyond what rounding needs are kept as whether there was any.
    let (mut mantissa, mut shift) = (0_u64, 0_i64);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | digit;
        } else {
            mantissa |= u64::from(digit != 0);
            shift += 4;
        }
    }
    let power = power.saturating_add(shift).saturating_sub(4 * fraction.len() as i64).clamp(-2_000, 2_000);
    // In two steps, as one alone may be beyond what a number of this size can be.
    let half = power / 2;
    let scaled = mantissa as f64 * 2_f64.powi(half as i32) * 2_f64.powi((power - half) as i32);
    Some(sign * scaled)
}

/// The exponent of such a number; large ones as large as matters.
fn exponent(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| sign * digits.parse().unwrap_or(i64::MAX / 4))
}

/// Digits behind the point that are kept, as in Redis.
const PLACES: usize = 17;

/// The sum of two numbers, in decimal without zeros at the end. Exact where both have at most 17
/// digits behind the point and 20 before it, else that of 64-bit floating-point numbers. `None`: it
/// is infinite.
pub(super) fn add(a: &[u8], b: &[u8]) -> Option<String> {
    if let (Some(a), Some(b)) = (scaled(a), scaled(b)) {
        return Some(unscaled(a + b));
    }
    let sum = float(a)? + float(b)?;
    if !sum.is_finite() {
        return None;
    }
    let text = format!("{sum:.PLACES$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    Some(if text == "-0" { "0".to_owned() } else { text.to_owned() })
}

/// A plain decimal, times 10^17.
fn scaled(text: &[u8]) -> Option<i128> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let (digits, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => {
            let exponent = std::str::from_utf8(digits.get(at + 1..)?).ok()?.parse::<i32>().ok()?;
            (digits.get(..at)?, exponent)
        }
        None => (digits, 0),
    };
    let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = (digits.get(..point)?, digits.get(point + 1..).unwrap_or_default());
    // How far the point is moved: behind the last digit, then by the exponent and 17 places.
    let zeros = usize::try_from(PLACES as i64 + i64::from(exponent) - fraction.len() as i64).ok()?;
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() + zeros > 37 {
        return None;
    }
    let zeros = std::iter::repeat_n(&b'0', zeros);
    let sum =
        whole.iter().chain(fraction).chain(zeros).try_fold(0_i128, |sum, digit| {
            digit.is_ascii_digit().then(|| sum * 10 + i128::from(digit - b'0'))
        })?;
    Some(if negative { -sum } else { sum })
}

fn unscaled(number: i128) -> String {
    let (magnitude, scale) = (number.unsigned_abs(), 10_u128.pow(PLACES as u32));
    let sign = if number < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:017}", magnitude / scale, magnitude % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_decimals() {
        for (a, b, sum) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3", "0"),
            ("-1.5", "1", "-0.5"),
            ("0", "0.00000000000000001", "0.00000000000000001"),
            ("99999999999999999999", "0.5", "99999999999999999999.5"),
            ("5200", "1e-5", "5200.00001"),
            ("1.5e3", "-1E+2", "1400"),
            ("1e300", "1e300", &format!("{:.0}", 2e300)),
        ] {
            assert_eq!(add(a.as_bytes(), b.as_bytes()).as_deref(), Some(sum), "{a} {b}");
        }
        assert_eq!(add(b"1.7e308", b"1.7e308"), None);
        assert!(
            float(b" 1").is_none()
                && float(b"nan").is_none()
                && float(b"").is_none()
                && float(b"1x").is_none()
        );
        for (text, number) in [
            ("0x10", Some(16.0)),
            ("-0X1p3", Some(-8.0)),
            ("+0x.8p1", Some(1.0)),
            ("0x1.8P-1", Some(0.75)),
            ("0x1fffffffffffff8p0", Some(144_115_188_075_855_864.0)),
            ("0x10000000000000801", Some(18_446_744_073_709_555_712.0)),
            ("0x1p99999999999999999999", None),
            ("1e400", None),
            ("-1e400", None),
            ("1e-400", None),
            ("0e-400", Some(0.0)),
            ("0x0.0p5", Some(0.0)),
            ("-.0", Some(-0.0)),
            ("-INF", Some(f64::NEG_INFINITY)),
            ("+infinity", Some(f64::INFINITY)),
            ("0x", None),
            ("0x.p1", None),
            ("0x1p", None),
            ("0x1g", None),
            ("x1", None),
            ("0x-1", None),
        ] {
            assert_eq!(float(text.as_bytes()), number, "{text}");
        }
        assert_eq!([&b""[..], b" \t2", b"2 "].map(loose_float), [Some(0.0), Some(2.0), None]);
        assert_eq!(loose_float(b"1e400"), Some(f64::INFINITY), "a bound may be beyond all numbers");
        assert!(float(b"inf").is_some() && float(b"-1.5e3").is_some());
    }
}

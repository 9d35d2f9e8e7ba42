//! Quantities of memory, written by people: `64MiB`, `1.5 GiB`, `4096`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes.
///
/// Parses `123`, `64KiB`, `64 MiB`, `1.5GiB`, `2TiB` (powers of 1024; `K`, `M`, `G`, `T` alone mean
/// the same, as memcached and Redis users expect) and the decimal `kB`, `MB`, `GB`, `TB` (powers of
/// 1000). Case is ignored.
///
/// ```
/// use millpond_base::ByteSize;
/// assert_eq!("1.5 GiB".parse::<ByteSize>().unwrap().as_u64(), 1_610_612_736);
/// assert_eq!(ByteSize::mib(64).to_string(), "64MiB");
/// assert!("12 parsecs".parse::<ByteSize>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

/// The most that a text may say: what a signed number, as those of TOML, can be.
const MOST: u64 = i64::MAX as u64;

/// Suffix, in lower case, and the number of bytes it stands for.
const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

impl ByteSize {
    /// Exactly `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// The number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The number of bytes as a `usize`.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// The error for a text that is not a byte size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a size in bytes: write a number and a unit, as in 512KiB, 64MiB or 1.5GiB")]
pub struct ParseByteSizeError {
    text: String,
}

impl FromStr for ByteSize {
    type Err = ParseByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseByteSizeError { text: text.to_owned() };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim().to_ascii_lowercase();
        let factor = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?.1;
        let bytes = match number.parse::<u64>() {
            Ok(whole) => whole.checked_mul(factor),
            Err(_) => {
                let bytes = number.parse::<f64>().map_err(|_| error())? * factor as f64;
                (bytes.is_finite() && bytes >= 0.0).then(|| bytes.round() as u64)
            }
        };
        bytes.filter(|bytes| *bytes <= MOST).map(Self).ok_or_else(error)
    }
}

impl ByteSize {
    /// The size as it is displayed, if that is exact, else in bytes.
    pub fn exact(self) -> String {
        let text = self.to_string();
        if text.parse() == Ok(self) { text } else { format!("{} B", self.0) }
    }
}

impl fmt::Display for ByteSize {
    /// The largest binary unit in which the value has at most two decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            let one = 1_u64 << shift;
            if self.0 >= one {
                let value = self.0 as f64 / one as f64;
                let text = format!("{value:.2}");
                let text = text.trim_end_matches('0').trim_end_matches('.');
                return f.pad(&format!("{text}{unit}"));
            }
        }
        f.pad(&format!("{}B", self.0))
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes or a text such as \"64MiB\"")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ByteSize, E> {
                u64::try_from(value)
                    .map(ByteSize)
                    .map_err(|_| E::custom("a size in bytes cannot be negative"))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<ByteSize, E> {
                value.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_as_people_write_them() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("64 kb", 64_000),
            ("1.5GiB", 1_610_612_736),
            ("2t", 2 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse::<ByteSize>().map(ByteSize::as_u64), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for text in ["", "MiB", "-1", "1.2.3", "12 parsecs", "99999999999TiB", "1e5"] {
            let error = text.parse::<ByteSize>().expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn display_parses_back() {
        for bytes in [0, 1, 1023, 1024, 64 << 20, 3 << 30] {
            let size = ByteSize::new(bytes);
            assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
        }
    }
}

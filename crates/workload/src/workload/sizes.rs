//! Sizes: of values, of keys, in bytes.
//!
//! A distribution is a list of ranges with weights; within a range every size is equally likely. A
//! workload draws a table of [`TABLE_SIZES`] sizes from it once and gives each key the size at its
//! number modulo the table, so that a key always has the same size and a draw costs one load. The
//! table is stratified: its `i`-th entry comes from the `i`-th of equal slices of the distribution,
//! so that its mean is that of the distribution even where rare sizes are huge. (CacheBench's
//! online generator draws the same number of sizes, but independently.)

use std::fmt;
use std::str::FromStr;

use base::ByteSize;
use serde::{Deserialize, Serialize};

use super::WorkloadError;
use super::alias::{below, unit};

/// Number of sizes in a table; 128 KiB.
pub(super) const TABLE_SIZES: usize = 1 << 15;

/// A distribution of sizes in bytes. Parses from `100`, `1KiB`, `64-1KiB` (every size from 64 to
/// 1024 alike) and `64:50,1KiB:30,4KiB-8KiB:20` (sizes or ranges with weights, which need not sum
/// to anything).
///
/// ```
/// let sizes: millpond_workload::Sizes = "100:3,1KiB-2KiB:1".parse().unwrap();
/// assert_eq!(sizes.mean(), 459.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TextOrNumber", into = "String")]
pub struct Sizes {
    /// Smallest size, largest size, weight.
    parts: Vec<(u32, u32, f64)>,
}

/// The forms in a TOML file: `value_size = 100` or `value_size = "64-1KiB"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Number(u32),
    Text(String),
}

impl TryFrom<TextOrNumber> for Sizes {
    type Error = WorkloadError;

    fn try_from(value: TextOrNumber) -> Result<Self, WorkloadError> {
        match value {
            TextOrNumber::Number(size) => Ok(Self::fixed(size)),
            TextOrNumber::Text(text) => text.parse(),
        }
    }
}

impl From<Sizes> for String {
    fn from(sizes: Sizes) -> Self {
        sizes.to_string()
    }
}

impl Sizes {
    /// One size.
    pub fn fixed(size: u32) -> Self {
        Self { parts: vec![(size, size, 1.0)] }
    }

    /// Ranges (smallest, largest, weight); `None` where a range is upside down, a weight is
    /// negative or not a number, or all are zero.
    pub fn weighted(parts: Vec<(u32, u32, f64)>) -> Option<Self> {
        let fine =
            parts.iter().all(|(low, high, weight)| low <= high && weight.is_finite() && *weight >= 0.0);
        let sum: f64 = parts.iter().map(|(.., weight)| weight).sum();
        (fine && sum > 0.0 && sum.is_finite()).then_some(Self { parts })
    }

    /// The mean of the distribution.
    pub fn mean(&self) -> f64 {
        let middle = |low, high| (f64::from(low) + f64::from(high)) * 0.5;
        self.parts.iter().map(|(low, high, weight)| middle(*low, *high) * weight).sum::<f64>() / self.weight()
    }

    /// The largest size that can occur.
    pub fn largest(&self) -> u32 {
        self.parts.iter().filter(|part| part.2 > 0.0).map(|(_, high, _)| *high).max().unwrap_or(0)
    }

    /// The smallest size below or at which the share `share` (0 to 1) of the distribution lies.
    pub fn quantile(&self, share: f64) -> u32 {
        let mut sorted: Vec<_> = self.parts.iter().filter(|part| part.2 > 0.0).copied().collect();
        sorted.sort_by_key(|part| part.0);
        let mut left = share * self.weight();
        for (low, high, weight) in &sorted {
            if left <= *weight {
                let step = (left / weight * (f64::from(*high) - f64::from(*low) + 1.0)).ceil() as u32;
                return (*low + step.saturating_sub(1)).min(*high);
            }
            left -= weight;
        }
        self.largest()
    }

    fn weight(&self) -> f64 {
        self.parts.iter().map(|(.., weight)| weight).sum()
    }

    /// The sizes of keys by their number modulo the length, which is a power of two.
    pub fn table(&self, seed: u64) -> Vec<u32> {
        if let [(low, high, _)] = self.parts[..]
            && low == high
        {
            return vec![low];
        }
        let mut rng = base::rng::seeded(seed);
        let slice = self.weight() / TABLE_SIZES as f64;
        let mut table = Vec::with_capacity(TABLE_SIZES);
        let mut parts = self.parts.iter().filter(|part| part.2 > 0.0);
        let (mut low, mut high, mut until) = (0, 0, 0.0);
        for i in 0..TABLE_SIZES {
            let at = (i as f64 + unit(&mut rng)) * slice;
            while at >= until {
                let Some(part) = parts.next() else { break };
                (low, high) = (part.0, part.1);
                until += part.2;
            }
            table.push(low + below(&mut rng, u64::from(high - low) + 1) as u32);
        }
        for i in (1..table.len()).rev() {
            table.swap(i, below(&mut rng, i as u64 + 1) as usize);
        }
        table
    }
}

impl FromStr for Sizes {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let wanted = "`100`, `64-1KiB` or `64:50,1KiB:30,4KiB-8KiB:20` (size:weight)";
        let error = || WorkloadError::text("size", text, wanted);
        let size = |text: &str| -> Result<u32, WorkloadError> {
            let bytes = text.parse::<ByteSize>().map_err(|_| error())?;
            u32::try_from(bytes.as_u64()).map_err(|_| error())
        };
        let mut parts = Vec::new();
        for part in text.split(',') {
            let (range, weight) = match part.split_once(':') {
                Some((range, weight)) => (range, weight.trim().parse().map_err(|_| error())?),
                None => (part, 1.0),
            };
            let (low, high) = match range.split_once('-') {
                Some((low, high)) => (size(low)?, size(high)?),
                None => (size(range)?, size(range)?),
            };
            parts.push((low, high, weight));
        }
        Self::weighted(parts).ok_or_else(error)
    }
}

impl fmt::Display for Sizes {
    /// Text that parses back to the same distribution.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (low, high, weight)) in self.parts.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{low}")?;
            if low != high {
                write!(f, "-{high}")?;
            }
            if self.parts.len() > 1 {
                write!(f, ":{weight}")?;
            }
        }
        Ok(())
    }
}

//! Statistics of the sampled keys in groups, by hash. The differences between the groups give the
//! error of the whole sample; the relation of misses to requests gives the correction for a sample
//! that has more or fewer requests than its share.
//!
//! A sample represents `W` requests while `N` were made: by chance it has more or fewer keys, or
//! hot keys, than its share. With the misses `M` of the sample, the estimates are
//!
//! - `M / W`, SHARDS as first published: right if requests are missing because keys are;
//! - `M / N`, SHARDS_adj (the same paper, section 3.4): missing requests count as hits at the
//!   smallest size, which is right if they are those of hot keys;
//! - `(M - b * (W - N)) / N` with `b` from the sample itself: the further misses per further
//!   request, from one group of keys to another (a regression estimate; Cochran, "Sampling
//!   Techniques", 1977, chapter 7). It is `M / W` for a loop, whose keys are all alike, and `M / N`
//!   under hot keys. Its error is smaller on average than that of SHARDS_adj, but larger if hot
//!   keys change, since the sample's own `b` is uncertain. So SHARDS_adj is the default;
//!   `docs/curves.md` has the figures.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::histogram::last_of;

/// The correction of a sampled curve for having more or fewer requests than its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Correction {
    /// Not at all: SHARDS as first published, and the ghost cache of HopperKV.
    None,
    /// Missing requests count as hits at the smallest size: SHARDS_adj.
    #[default]
    Count,
    /// By the regression of misses on requests over groups of keys.
    Regression,
}

impl FromStr for Correction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "count" => Ok(Self::Count),
            "regression" => Ok(Self::Regression),
            _ => Err(format!("`{text}` is none of none, count and regression")),
        }
    }
}

/// Number of groups of keys.
pub(crate) const GROUPS: usize = 32;
/// Buckets of a histogram with [`Groups::BITS`] that groups count together: a quarter of an octave.
const TOGETHER: usize = 16;

/// Requests by group and coarse distance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    by_distance: Vec<[f64; GROUPS]>,
    cold: [f64; GROUPS],
}

impl Groups {
    /// The bits of the histogram whose buckets give the distances.
    pub(crate) const BITS: u32 = 7;
    /// Memory for the distances of an octave.
    pub(crate) const BYTES_PER_OCTAVE: usize = (size_of::<[f64; GROUPS]>() << (Self::BITS - 1)) / TOGETHER;

    /// Adds an access to the key with this hash at the distance of a bucket; `None` is an access
    /// that hits in no cache.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64, bucket: Option<usize>, weight: f64) {
        let group = crate::sample::group(hash, GROUPS);
        match bucket {
            None => self.cold[group] += weight,
            Some(bucket) => match self.by_distance.get_mut(bucket / TOGETHER) {
                Some(row) => row[group] += weight,
                None => self.widen(bucket / TOGETHER, group, weight),
            },
        }
    }

    #[cold]
    fn widen(&mut self, row: usize, group: usize, weight: f64) {
        self.by_distance.reserve_exact(row + 1 - self.by_distance.len());
        self.by_distance.resize(row + 1, [0.0; GROUPS]);
        self.by_distance[row][group] = weight;
    }

    pub(crate) fn halve(&mut self) {
        self.by_distance.iter_mut().chain([&mut self.cold]).flatten().for_each(|weight| *weight /= 2.0);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.by_distance.capacity() * size_of::<[f64; GROUPS]>() + size_of_val(&self.cold)
    }

    /// The groups' accesses that would hit in no cache: the first ones to keys.
    pub(crate) fn cold(&self) -> &[f64; GROUPS] {
        &self.cold
    }

    /// The spread of the groups' misses at each size, under this correction.
    pub(crate) fn spread(&self, correction: Correction) -> Spread {
        let mut requests = [0.0; GROUPS];
        for row in self.by_distance.iter().chain([&self.cold]) {
            requests.iter_mut().zip(row).for_each(|(sum, weight)| *sum += *weight);
        }
        let mut misses = requests;
        let mut rows = vec![(0, Regression::of(correction, &requests, &misses))];
        for (bucket, row) in self.by_distance.iter().enumerate() {
            misses.iter_mut().zip(row).for_each(|(sum, weight)| *sum -= *weight);
            rows.push((
                last_of::<{ Self::BITS }>(bucket * TOGETHER + TOGETHER - 1),
                Regression::of(correction, &requests, &misses),
            ));
        }
        Spread { rows }
    }
}

/// Misses against requests over the groups.
#[derive(Clone)]
struct Regression {
    /// Further misses for a further request.
    slope: f64,
    /// The distance of each group's misses, after this correction, from the mean of all groups.
    off: [f64; GROUPS],
}

impl Regression {
    fn of(correction: Correction, requests: &[f64; GROUPS], misses: &[f64; GROUPS]) -> Self {
        let mean = |values: &[f64; GROUPS]| values.iter().sum::<f64>() / GROUPS as f64;
        let (r, m) = (mean(requests), mean(misses));
        let pairs = || requests.iter().zip(misses).map(|(x, y)| (x - r, y - m));
        let (xx, xy): (f64, f64) = pairs().fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + x * x, xy + x * y));
        let slope = match correction {
            Correction::None => m / r.max(f64::MIN_POSITIVE),
            Correction::Count => 0.0,
            // A further request adds between no miss and one miss.
            Correction::Regression if xx > 0.0 => (xy / xx).clamp(0.0, 1.0),
            Correction::Regression => 0.0,
        };
        let mut off = [0.0; GROUPS];
        off.iter_mut().zip(pairs()).for_each(|(off, (x, y))| *off = y - slope * x);
        Self { slope, off }
    }
}

/// The relation of misses to requests, by size.
pub(crate) struct Spread {
    rows: Vec<(u64, Regression)>,
}

impl Spread {
    /// Further misses for a further request, in a cache of this size.
    pub(crate) fn slope(&self, size: u64) -> f64 {
        let above = self.rows.partition_point(|row| row.0 <= size);
        let Some((left, low)) = above.checked_sub(1).and_then(|i| self.rows.get(i)) else { return 1.0 };
        let Some((right, high)) = self.rows.get(above) else { return low.slope };
        low.slope + (high.slope - low.slope) * (size - left) as f64 / (right - left) as f64
    }

    /// The standard error of misses, averaged over all sizes up to `most` evenly. `shares` are the
    /// groups' shares of the sample's size; `misses` are those at each size, of all groups
    /// together.
    ///
    /// In a group with more than its share of the keys, all distances are too large by the same
    /// factor: a drop of the curve at a size comes later by that part of the size. So the group's
    /// misses are off by the height of the drops, times their sizes, times its surplus.
    pub(crate) fn mean_error(&self, most: f64, shares: &[f64; GROUPS], misses: impl Fn(f64) -> f64) -> f64 {
        let all: f64 = shares.iter().sum();
        let surplus = shares.map(|share| if all > 0.0 { share / all - 1.0 / GROUPS as f64 } else { 0.0 });
        let (mut sum, mut from, mut missed) = (0.0, 0.0, misses(0.0));
        let last = self.rows.last().map(|(_, row)| (u64::MAX, row.clone()));
        let ends = self.rows.iter().skip(1).chain(&last);
        for ((_, before), (size, after)) in self.rows.iter().zip(ends) {
            let to = (*size as f64).min(most);
            if to <= from {
                continue;
            }
            let left = misses(to);
            let later = (missed - left) * (from + to) / 2.0 / (to - from);
            let off = |group: usize| (before.off[group] + after.off[group]) / 2.0 + later * surplus[group];
            let squares: f64 = (0..GROUPS).map(|group| off(group).powi(2)).sum();
            sum += (to - from) * (squares * GROUPS as f64 / (GROUPS - 2) as f64).sqrt();
            (from, missed) = (to, left);
        }
        sum / most.max(1.0)
    }
}

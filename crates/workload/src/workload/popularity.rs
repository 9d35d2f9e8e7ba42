//! Which key is asked for next.
//!
//! All distributions are independent draws (no recency, no churn) but for the scan. Which keys are
//! the popular ones is scattered over the key numbers by a bijection, so that popularity has
//! nothing to do with the order in which keys are loaded; CacheLib's buckets keep CacheBench's
//! order, in which the most popular objects have the lowest numbers.

use std::fmt;
use std::str::FromStr;

use base::rng::SeededRng;

use super::WorkloadError;
use super::alias::{Alias, below, unit};

/// The distribution of requests over the keys. Parses from `zipf:0.99`, `uniform`, `scan` and
/// `normal`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// The `k`-th most popular key is asked for in proportion to `k^-alpha`.
    Zipf {
        /// The exponent, 0 (uniform) to 10.
        alpha: f64,
    },
    /// All keys alike.
    Uniform,
    /// Every key in turn, over and over; each thread begins elsewhere.
    Scan,
    /// Normal around the middle key number, with a quarter of the keys as standard deviation: what
    /// CacheBench does where nothing is said.
    Normal,
}

/// The largest exponent that is accepted.
const MAX_ALPHA: f64 = 10.0;

impl FromStr for Popularity {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let wanted = "`zipf:ALPHA` with ALPHA from 0 to 10, `uniform`, `scan` or `normal`";
        let error = || WorkloadError::text("popularity", text, wanted);
        match text.trim() {
            "uniform" => Ok(Self::Uniform),
            "scan" => Ok(Self::Scan),
            "normal" => Ok(Self::Normal),
            other => {
                let alpha = other.strip_prefix("zipf:").ok_or_else(error)?;
                let alpha: f64 = alpha.trim().parse().map_err(|_| error())?;
                if (0.0..=MAX_ALPHA).contains(&alpha) { Ok(Self::Zipf { alpha }) } else { Err(error()) }
            }
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zipf { alpha } => write!(f, "zipf:{alpha}"),
            Self::Uniform => f.write_str("uniform"),
            Self::Scan => f.write_str("scan"),
            Self::Normal => f.write_str("normal"),
        }
    }
}

/// A popularity over a certain number of keys, with its tables.
#[derive(Debug)]
pub(super) enum Popular {
    Uniform { keys: u64 },
    Scan { keys: u64 },
    Normal { keys: u64 },
    Zipf { ranks: ZipfRanks, scatter: Scatter },
    Buckets(Buckets),
}

impl Popular {
    pub(super) fn new(popularity: Popularity, keys: u64) -> Self {
        match popularity {
            Popularity::Uniform => Self::Uniform { keys },
            Popularity::Scan => Self::Scan { keys },
            Popularity::Normal => Self::Normal { keys },
            Popularity::Zipf { alpha } => {
                Self::Zipf { ranks: ZipfRanks::new(keys, alpha), scatter: Scatter::new(keys) }
            }
        }
    }

    /// The next key number. `cursor` is the caller's place in a scan.
    #[inline]
    pub(super) fn sample(&self, rng: &mut SeededRng, cursor: &mut u64) -> u64 {
        match self {
            Self::Uniform { keys } => below(rng, *keys),
            Self::Scan { keys } => {
                let key = *cursor % keys;
                *cursor = key + 1;
                key
            }
            Self::Normal { keys } => normal(rng, *keys),
            Self::Zipf { ranks, scatter } => scatter.apply(ranks.sample(rng)),
            Self::Buckets(buckets) => buckets.sample(rng),
        }
    }

    /// Returns the number of different keys that can ever be asked for.
    pub(super) fn distinct(&self) -> u64 {
        match self {
            Self::Uniform { keys } | Self::Scan { keys } | Self::Normal { keys } => *keys,
            Self::Zipf { scatter, .. } => scatter.keys,
            Self::Buckets(buckets) => buckets.keys,
        }
    }
}

/// A popularity with its tables, from which key numbers are drawn that keep their rank: key 0 is
/// the most popular one under Zipf's law, however many keys there are. So the number of keys can
/// change without all keys changing.
#[derive(Debug)]
pub struct Ranks(Popular);

impl Ranks {
    /// The tables for `keys` keys, at least one. Costs up to 32,768 powers.
    pub fn new(popularity: Popularity, keys: u64) -> Self {
        let keys = keys.max(1);
        Self(match popularity {
            Popularity::Zipf { alpha } => {
                Popular::Zipf { ranks: ZipfRanks::new(keys, alpha), scatter: Scatter::none(keys) }
            }
            other => Popular::new(other, keys),
        })
    }

    /// The next key number, below the number of keys. `cursor` is the caller's place in a scan.
    #[inline]
    pub fn sample(&self, rng: &mut SeededRng, cursor: &mut u64) -> u64 {
        self.0.sample(rng, cursor)
    }
}

/// Around the middle, by the polar method; what falls outside is drawn again.
fn normal(rng: &mut SeededRng, keys: u64) -> u64 {
    let (middle, deviation) = ((keys as f64 - 1.0) * 0.5, (keys as f64 - 1.0) * 0.25);
    loop {
        let (x, y) = (unit(rng) * 2.0 - 1.0, unit(rng) * 2.0 - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            let key = (middle + deviation * x * (-2.0 * square.ln() / square).sqrt()).round();
            if key >= 0.0 && key < keys as f64 {
                return key as u64;
            }
        }
    }
}

/// Number of the most popular ranks with a slot of their own: 256 KiB of table, which stays in a
/// core's cache.
const HEAD_RANKS: u64 = 1 << 15;

/// Zipf-distributed ranks from 0. The head is drawn exactly from an alias table; the tail by
/// inverting the integral of `x^-alpha`, whose difference from the sum is below 10^-8 of a rank's
/// weight so far out (midpoint rule).
#[derive(Debug)]
pub(super) struct ZipfRanks {
    head: Alias,
    head_ranks: u64,
    ranks: u64,
    alpha: f64,
    tail_from: f64,
    tail_to: f64,
}

impl ZipfRanks {
    pub(super) fn new(ranks: u64, alpha: f64) -> Self {
        let head_ranks = ranks.min(HEAD_RANKS);
        let mut weights: Vec<f64> = (1..=head_ranks).map(|rank| (rank as f64).powf(-alpha)).collect();
        let tail_from = integral(head_ranks as f64 + 0.5, alpha);
        let tail_to = integral(ranks as f64 + 0.5, alpha);
        if ranks > head_ranks {
            weights.push(tail_to - tail_from);
        }
        let head = Alias::new(&weights).unwrap_or_else(|| unreachable!("positive weights"));
        Self { head, head_ranks, ranks, alpha, tail_from, tail_to }
    }

    #[inline]
    pub(super) fn sample(&self, rng: &mut SeededRng) -> u64 {
        let slot = self.head.sample(rng) as u64;
        if slot < self.head_ranks {
            return slot;
        }
        let area = self.tail_from + unit(rng) * (self.tail_to - self.tail_from);
        let rank = inverse_integral(area, self.alpha).round() as u64;
        rank.clamp(self.head_ranks + 1, self.ranks) - 1
    }
}

/// The integral of `t^-alpha` from 1 to `x`.
fn integral(x: f64, alpha: f64) -> f64 {
    let power = 1.0 - alpha;
    if power.abs() < 1e-9 { x.ln() } else { ((x.ln() * power).exp_m1()) / power }
}

/// The `x` whose [`integral`] is `area`.
fn inverse_integral(area: f64, alpha: f64) -> f64 {
    let power = 1.0 - alpha;
    if power.abs() < 1e-9 { area.exp() } else { ((area * power).ln_1p() / power).exp() }
}

/// A bijection of the numbers below `keys`: multiplication by a number that has no divisor in
/// common with it, modulo `keys`.
#[derive(Debug)]
pub(super) struct Scatter {
    keys: u64,
    factor: u64,
    /// `factor / keys` as a fraction of 2^64, rounded up.
    fraction: u64,
}

impl Scatter {
    /// The one that leaves every number where it is.
    fn none(keys: u64) -> Self {
        Self {
            keys,
            factor: 1,
            fraction: (1_u128 << 64).div_ceil(u128::from(keys)).min(u128::from(u64::MAX)) as u64,
        }
    }

    pub(super) fn new(keys: u64) -> Self {
        // The golden section spreads neighbours farthest apart.
        let mut factor = ((keys as f64 * 0.618_033_988_749_894_9) as u64).max(1);
        while greatest_common_divisor(factor, keys) != 1 {
            factor += 1;
        }
        let fraction = (u128::from(factor % keys) << 64).div_ceil(u128::from(keys)) as u64;
        Self { keys, factor, fraction }
    }

    #[inline]
    pub(super) fn apply(&self, rank: u64) -> u64 {
        if self.keys <= u64::from(u32::MAX) {
            // The fractional part of `rank * factor / keys`, times `keys`: two multiplications
            // instead of a division. The fraction is too large by less than 2^-64, `rank` times
            // that is less than 1/keys: exact.
            let part = rank.wrapping_mul(self.fraction);
            ((u128::from(part) * u128::from(self.keys)) >> 64) as u64
        } else {
            (u128::from(rank) * u128::from(self.factor) % u128::from(self.keys)) as u64
        }
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Number of buckets of equal weight into which a popularity file is cut.
const EQUAL_BUCKETS: f64 = 2_048.0;

/// CacheBench's popularity: groups of objects that share a weight, cut again into buckets of equal
/// weight, whose numbers of objects are scaled to the number of keys. A draw takes a bucket and
/// then a key in it, all alike.
///
/// An object that is heavier than a bucket becomes several objects, one per bucket, as in
/// CacheBench. Unlike there, the last bucket is kept where rounding leaves it a little short of its
/// weight.
#[derive(Debug)]
pub(super) struct Buckets {
    /// The start of each bucket's objects; one more than there are buckets.
    offsets: Vec<u64>,
    /// Keys per object. Where it is below 1, several objects are one key, and buckets may share
    /// one.
    scale: f64,
    keys: u64,
}

impl Buckets {
    /// `objects[i]` objects share `weights[i]`. `keys` is the number of keys they are scaled to;
    /// `None` leaves the objects' numbers as they are (`useLegacyKeyGen`).
    pub(super) fn new(mut objects: Vec<u64>, mut weights: Vec<f64>, keys: Option<u64>) -> Option<Self> {
        let total_objects: f64 = objects.iter().map(|objects| *objects as f64).sum();
        let total_weight: f64 = weights.iter().sum();
        let fine = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if objects.len() != weights.len() || !fine || total_weight <= 0.0 || total_objects <= 0.0 {
            return None;
        }
        let bucket_weight = total_weight / EQUAL_BUCKETS;
        let mut offsets = vec![0_u64];
        let (mut weight_seen, mut objects_seen) = (0.0, 0_u64);
        for (objects, weight) in objects.iter_mut().zip(&mut weights) {
            while weight_seen + *weight >= bucket_weight {
                let share = (bucket_weight - weight_seen) / *weight;
                let part = (share * *objects as f64) as u64;
                offsets.push(offsets[offsets.len() - 1] + (objects_seen + part).max(1));
                *objects -= part.min(*objects);
                *weight -= share * *weight;
                (weight_seen, objects_seen) = (0.0, 0);
            }
            weight_seen += *weight;
            objects_seen += *objects;
        }
        if weight_seen > bucket_weight * 0.5 {
            offsets.push(offsets[offsets.len() - 1] + objects_seen.max(1));
        }
        let distinct = offsets[offsets.len() - 1];
        let scale = keys.map_or(1.0, |keys| keys as f64 / distinct as f64);
        Some(Self { offsets, scale, keys: keys.unwrap_or(distinct).max(1) })
    }

    #[inline]
    fn sample(&self, rng: &mut SeededRng) -> u64 {
        let bucket = below(rng, self.offsets.len() as u64 - 1) as usize;
        let (from, to) = (self.offsets[bucket], self.offsets[bucket + 1]);
        // A real number of objects, so that every key of a scaled bucket can be drawn.
        let object = from as f64 + unit(rng) * (to - from) as f64;
        ((self.scale * object) as u64).min(self.keys - 1)
    }

    /// Returns the number of objects in the file.
    #[cfg(test)]
    pub(super) fn objects(&self) -> u64 {
        self.offsets[self.offsets.len() - 1]
    }

    /// The share of requests that go to the most popular `share` of the objects, by the table.
    #[cfg(test)]
    pub(super) fn requests_of_top(&self, share: f64) -> f64 {
        let mut sizes: Vec<u64> = self.offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        sizes.sort_unstable();
        let mut left = share * self.offsets[self.offsets.len() - 1] as f64;
        let mut buckets = 0.0;
        for size in &sizes {
            let taken = left.min(*size as f64);
            buckets += taken / *size as f64;
            left -= taken;
        }
        buckets / sizes.len() as f64
    }
}

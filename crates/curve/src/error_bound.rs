//! The reported error of a curve: a bound on its distance from the exact one.
//!
//! The distance between the two curves is averaged over sizes spread evenly up to the size of all
//! keys together; 95 of 100 curves keep the bound. A sampled curve has four sources of error:
//!
//! 1. *Which keys are in the sample.* The differences between the misses of groups of keys
//!    ([`crate::groups`]) show how much those of another sample would differ. Sizes count by their
//!    width, as in the distance: the small ones, at which hot keys make groups differ most,
//!    contribute very little.
//! 2. *The number of keys in the sample.* In a sample with more keys than its share, all distances
//!    are too large by the same factor. This error and the first one are correlated: if all keys
//!    are alike, the surplus keys also miss too often.
//! 3. *Buckets*: within a bucket the curve is a straight line.
//! 4. *Few keys*: the groups of a sample of a dozen keys give a poor estimate of their own spread.
//!
//! The first two give a standard error, and 1.96 times that bounds 95 %: no parameter is fitted.
//! Experiment X40 checks the bound on the shared traces, and `docs/curves.md` has its figures.

use crate::groups::{GROUPS, Spread};

/// The number of standard errors within which 95 % lie.
const WITHIN: f64 = 1.96;

/// The data that a curve was learnt from.
pub(crate) struct Sample {
    /// The requests that the curve describes.
    pub(crate) requests: f64,
    /// The share of requests that were recorded.
    pub(crate) rate: f64,
    /// Tracked keys.
    pub(crate) keys: f64,
    /// The size up to which the distance is averaged, in the unit of the curve: that of all keys
    /// together.
    pub(crate) footprint: f64,
    /// The size of the keys of each group together.
    pub(crate) shares: [f64; GROUPS],
}

impl Sample {
    /// The size of the keys of each group, from the hashes and sizes of all keys.
    pub(crate) fn shares(keys: impl Iterator<Item = (u64, f64)>) -> [f64; GROUPS] {
        let mut shares = [0.0; GROUPS];
        keys.for_each(|(hash, size)| shares[crate::sample::group(hash, GROUPS)] += size);
        shares
    }

    /// The bound on the mean distance. `misses` are those at rising sizes; `spread` is that of the
    /// groups, `None` if all keys are tracked.
    pub(crate) fn bound(&self, misses: &[(u64, f64)], spread: Option<&Spread>) -> f64 {
        if self.requests <= 0.0 {
            return 0.0;
        }
        let footprint = self.footprint.max(1.0);
        let steps = misses.iter().scan((0, self.requests), |before, &(size, missed)| {
            let (from, drop) = (before.0, (before.1 - missed).max(0.0));
            *before = (size, missed);
            Some((from as f64, size as f64, drop))
        });
        // The worst case within a bucket is a straight line in place of a step: a quarter of the
        // bucket's area.
        let areas = steps
            .filter(|step| step.0 < footprint)
            .map(|(from, to, drop)| drop * (to.min(footprint) - from) / 4.0);
        // The sum of no values is -0.0; starting at 0.0 keeps the sign out of reports.
        let buckets = areas.fold(0.0, |sum, area| sum + area) / footprint / self.requests;
        let Some(spread) = spread else { return buckets.min(1.0) };
        let at = |size: f64| {
            let after = misses.partition_point(|point| point.0 as f64 <= size);
            let (left, low) = after.checked_sub(1).map_or((0, self.requests), |i| misses[i]);
            let Some(&(right, high)) = misses.get(after) else { return low };
            low + (high - low) * (size - left as f64) / (right - left) as f64
        };
        let left_out = (1.0 - self.rate).clamp(0.0, 1.0);
        let error = spread.mean_error(footprint, &self.shares, at) * left_out.sqrt() / self.requests;
        (WITHIN * error + 0.5 / self.keys.max(1.0) + buckets).min(1.0)
    }
}

//! The told error of a curve: how far it may lie from the exact one.
//!
//! What is told is a bound on the distance between the two curves, averaged over sizes spread
//! evenly up to all keys together, that 95 curves of 100 keep. Four things make a sampled curve
//! err:
//!
//! 1. *Which keys are in the sample.* How far the misses of groups of keys differ
//!    ([`crate::groups`]) tells how far those of another sample would. Sizes count by their width,
//!    as they do in the distance: the small ones, at which hot keys make groups differ most, take
//!    next to nothing of it.
//! 2. *How many they are.* A sample that has more keys than its share has all distances too large
//!    by as much. This and the first go together: where all keys are alike, the same keys that are
//!    too many miss too often.
//! 3. *Buckets*: within one the curve is a straight line.
//! 4. *Few keys*: the groups of a sample of a dozen keys know little of themselves.
//!
//! The first two are a standard error, and 1.96 of it bound 95 %: nothing is fitted. Experiment X40
//! checks the bound on the shared traces, and `docs/curves.md` has its figures.

use crate::groups::{GROUPS, Spread};

/// Of standard errors, where 95 % lie.
const WITHIN: f64 = 1.96;

/// What a curve was learnt from.
pub(crate) struct Sample {
    /// The requests that the curve is of.
    pub(crate) requests: f64,
    /// The share of requests that were looked at.
    pub(crate) rate: f64,
    /// Keys that are followed.
    pub(crate) keys: f64,
    /// Up to which size the distance is averaged, in the unit of the curve: all keys together.
    pub(crate) footprint: f64,
    /// What the keys of each group take together.
    pub(crate) shares: [f64; GROUPS],
}

impl Sample {
    /// What the keys of each group take, by the hashes and sizes of all.
    pub(crate) fn shares(keys: impl Iterator<Item = (u64, f64)>) -> [f64; GROUPS] {
        let mut shares = [0.0; GROUPS];
        keys.for_each(|(hash, size)| shares[crate::sample::group(hash, GROUPS)] += size);
        shares
    }

    /// The bound on the mean distance. `misses` are those at sizes that rise; `spread` is what the
    /// groups say, `None` if all keys are followed.
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
        // On a straight line in place of a step, at worst, within a bucket: a quarter of its area.
        let areas = steps
            .filter(|step| step.0 < footprint)
            .map(|(from, to, drop)| drop * (to.min(footprint) - from) / 4.0);
        // A sum of nothing is -0.0, and was shown as that.
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

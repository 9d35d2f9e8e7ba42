//! The accuracy of simulation in miniature relative to simulation in full, policy by policy.

use std::path::Path;

use anyhow::{Result, bail};
use curve::{Estimator, Miniature, StackDistance, Unit};
use millpond::PolicyKind;
use serde::Serialize;

use super::{MINIATURE_KEYS, PolicyCache, Source};

/// Caches that are simulated, as shares of all keys: small ones lie close, since there miniatures
/// hold few items.
const SHARES: [f64; 8] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7];

/// The results of a policy's miniature for a trace.
#[derive(Clone, Debug, Serialize)]
pub struct MiniatureError {
    /// The policy.
    pub policy: String,
    /// The share of keys that was simulated.
    pub rate: f64,
    /// Keys of the trace.
    pub keys: u64,
    /// Its requests.
    pub requests: u64,
    /// Mean absolute distance of the miss ratios from those of full caches, over 8 sizes from 0.5
    /// to 70 % of the keys.
    pub error: f64,
    /// The largest of the distances.
    pub worst: f64,
    /// The size at which it is, as a share of the keys.
    pub worst_at: f64,
    /// Items that the miniature of that size holds.
    pub worst_items: u64,
    /// The error that the miniature tells itself: the distance that 95 curves of 100 keep, but for
    /// what small caches do otherwise.
    pub told: f64,
}

/// Simulates each policy in full and in miniature over items, and says how far the one lies from
/// the other.
///
/// `rate` is the share of keys of the miniatures; `None`: about 16,384 keys, as for a curve. Costs
/// the time of eight full caches a policy.
///
/// # Errors
/// Where the trace cannot be read, or is empty.
pub fn compare_policies(
    trace: &Path,
    source: &Source,
    policies: &[PolicyKind],
    rate: Option<f64>,
) -> Result<Vec<MiniatureError>> {
    let mut known = StackDistance::new(Unit::Items);
    let requests = source.feed(trace, &mut [&mut known])?;
    let keys = known.keys();
    if requests == 0 {
        bail!("{}: there is no request in it", trace.display());
    }
    let rate = rate.unwrap_or_else(|| Miniature::<PolicyCache>::rate_for(MINIATURE_KEYS, keys));
    let mut sizes = SHARES.map(|share| ((keys as f64 * share) as u64).max(1)).to_vec();
    sizes.dedup();
    policies
        .iter()
        .map(|&policy| {
            let make = |capacity| PolicyCache::new(policy, capacity);
            let mut full = Miniature::new(Unit::Items, sizes.iter().copied(), 1.0, make);
            let mut small = Miniature::new(Unit::Items, sizes.iter().copied(), rate, make);
            source.feed(trace, &mut [&mut full, &mut small])?;
            let (full, small) = (full.curve(), small.curve());
            let off = |size: u64| (full.miss_ratio(size as f64) - small.miss_ratio(size as f64)).abs();
            let worst_size = sizes.iter().copied().max_by(|a, b| off(*a).total_cmp(&off(*b))).unwrap_or(1);
            Ok(MiniatureError {
                policy: policy.to_string(),
                rate,
                keys,
                requests,
                error: sizes.iter().map(|size| off(*size)).sum::<f64>() / sizes.len() as f64,
                worst: off(worst_size),
                worst_at: worst_size as f64 / keys as f64,
                worst_items: (worst_size as f64 * rate).round() as u64,
                told: small.confidence().map_or(0.0, |known| known.error),
            })
        })
        .collect()
}

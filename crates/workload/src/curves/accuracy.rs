//! The accuracy of estimated curves relative to exact ones, trace by trace.

use std::path::{Path, PathBuf};

use anyhow::Result;
use curve::{Correction, Estimator, GhostCache, Shards, StackDistance, Unit};
use serde::Serialize;

use super::{Source, mean_error};

/// Sizes at which curves are compared: evenly spread up to all keys together.
const SIZES: u32 = 100;
/// Fewest keys of a trace for which the ghost cache at HopperKV's rate is used.
pub const GHOST_LEAST_KEYS: u64 = 1_000_000;
/// The mean absolute error that a curve may have.
pub const MOST_ERROR: f64 = 0.01;

/// An estimator's results for a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// Which estimator.
    pub method: &'static str,
    /// Mean absolute distance of its miss ratios from the exact ones.
    pub error: f64,
    /// The error that it tells itself: the distance that 95 curves of 100 keep.
    pub told: f64,
    /// The same without correction.
    pub uncorrected: f64,
    /// The same, corrected by regression.
    pub regression: f64,
    /// Keys that it followed at the end.
    pub keys: u64,
    /// Its memory at the end, in bytes.
    pub bytes: usize,
    /// True if the bound on the error is meant to hold for it.
    pub is_bound: bool,
}

/// The estimates of a trace over one unit.
#[derive(Clone, Debug, Serialize)]
pub struct Accuracy {
    /// The trace.
    pub trace: PathBuf,
    /// The unit of sizes.
    pub unit: Unit,
    /// True if sizes are made up: 200 B and, for one key in ten, 10,000 B.
    pub is_bimodal: bool,
    /// Its requests.
    pub requests: u64,
    /// Its keys.
    pub keys: u64,
    /// All of them together, in the unit.
    pub footprint: u64,
    /// SHARDS of fixed size, and the ghost cache.
    pub estimates: Vec<Estimate>,
}

/// Compares SHARDS of fixed size, with `keys` keys, and the ghost cache, at `ghost_rate`, with
/// exact curves: over items, and over bytes, which are made up where the trace does not tell them.
///
/// # Errors
/// Where a trace cannot be read.
pub fn compare(trace: &Path, source: &Source, keys: usize, ghost_rate: f64) -> Result<Vec<Accuracy>> {
    let tells = source.tells_sizes(trace)?;
    let bytes = Source { bimodal: !tells, ..source.clone() };
    [(Unit::Items, source), (Unit::Bytes, &bytes)]
        .into_iter()
        .map(|(unit, source)| {
            let is_bimodal = unit == Unit::Bytes && !tells;
            one(trace, source, unit, keys, ghost_rate, is_bimodal)
        })
        .collect()
}

fn one(
    trace: &Path,
    source: &Source,
    unit: Unit,
    keys: usize,
    ghost_rate: f64,
    is_bimodal: bool,
) -> Result<Accuracy> {
    let mut exact = StackDistance::new(unit);
    let mut shards = Shards::fixed_size(unit, keys);
    let requests = source.feed(trace, &mut [&mut exact, &mut shards])?;
    let footprint = exact.footprint().max(1);
    let mut ghost = GhostCache::even(unit, footprint, curve::ghost::DEFAULT_TICKS, ghost_rate);
    source.feed(trace, &mut [&mut ghost])?;
    let truth = exact.curve();
    let off = |estimator: &dyn Estimator| mean_error(&truth, &estimator.curve(), footprint, SIZES);
    let estimate =
        |method, best: &dyn Estimator, plain: &dyn Estimator, regressed: &dyn Estimator, is_bound| {
            let confidence = best.curve().confidence();
            Estimate {
                method,
                error: off(best),
                told: confidence.map_or(0.0, |known| known.error),
                uncorrected: off(plain),
                regression: off(regressed),
                keys: confidence.map_or(0, |known| known.keys),
                bytes: best.bytes(),
                is_bound,
            }
        };
    let (none, regression) = (Correction::None, Correction::Regression);
    let (plain, regressed) =
        (shards.clone().with_correction(none), shards.clone().with_correction(regression));
    let of_shards = estimate("shards", &shards, &plain, &regressed, true);
    let (plain, regressed) = (ghost.clone().with_correction(none), ghost.clone().with_correction(regression));
    let of_ghost = estimate("ghost", &ghost, &plain, &regressed, exact.keys() >= GHOST_LEAST_KEYS);
    Ok(Accuracy {
        trace: trace.to_owned(),
        unit,
        is_bimodal,
        requests,
        keys: exact.keys(),
        footprint,
        estimates: vec![of_shards, of_ghost],
    })
}

impl Accuracy {
    /// The estimates that err by more than they may.
    pub fn misses(&self) -> impl Iterator<Item = &Estimate> {
        self.estimates.iter().filter(|estimate| estimate.is_bound && estimate.error > MOST_ERROR)
    }
}

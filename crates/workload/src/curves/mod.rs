//! Curves of traces: what a cache of any size would miss on recorded requests, by any estimator and
//! for any policy.
//!
//! A trace is read by a thread of its own, in batches, while the estimators work; it is never in
//! memory as a whole. Estimators that must know the largest size beforehand, as the ghost cache and
//! miniature simulation do, get it from a pass with SHARDS.

mod accesses;
pub mod accuracy;
mod answer;
mod engine_policy;
mod estimator;
mod key_sizes;
pub mod miniature;
pub mod published;
mod report;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Result, bail};
use base::Clock;
use curve::{Correction, Estimator, MissRatioCurve, Shards, StackDistance, Unit};
use millpond::PolicyKind;

pub use accesses::{Source, Writes, traces_in};
pub use answer::{Answer, Tried, answer};
pub use engine_policy::PolicyCache;
pub use estimator::Method;
pub use key_sizes::{KeySizes, Unsized};
pub use report::{CurveReport, chart};

/// The curve to estimate, and the method.
#[derive(Clone, Debug)]
pub struct CurveOptions {
    /// Method by which the curve is learnt.
    pub method: Method,
    /// Of which policy. Another than LRU is simulated in miniature.
    pub policy: PolicyKind,
    /// The unit of sizes. `None`: bytes if the trace has sizes, else items.
    pub unit: Option<Unit>,
    /// The share of keys that is followed, where the method has one. `None`: its default.
    pub rate: Option<f64>,
    /// Most keys that SHARDS follows.
    pub keys: usize,
    /// The largest size that is asked about. `None`: all keys together.
    pub max_size: Option<u64>,
    /// Ticks of the ghost cache, and sizes that are simulated.
    pub ticks: usize,
    /// Correction of a sample.
    pub correction: Correction,
    /// The size around which shadow queues and tail hits tell the curve. `None`: a tenth of the
    /// largest.
    pub at: Option<u64>,
}

/// Keys that a simulation in miniature follows by default: small caches of fewer items err by their
/// size.
const MINIATURE_KEYS: u64 = 16_384;
/// Sizes that are simulated by default, where each costs a cache of its own.
const MINIATURE_SIZES: usize = 32;
/// The smallest cache that is simulated has this many items in miniature.
const MINIATURE_LEAST: u64 = 64;

/// Learns the curve of a trace.
///
/// # Errors
/// Where the trace cannot be read or is empty, or the unit needs sizes that it does not tell.
pub fn learn(trace: &Path, source: &Source, options: &CurveOptions) -> Result<CurveReport> {
    let began = Clock::System.monotonic_nanos();
    let unit = match options.unit {
        Some(unit) => unit,
        None if source.tells_sizes(trace)? => Unit::Bytes,
        None => Unit::Items,
    };
    let engine = source.engine.as_deref().filter(|_| unit == Unit::Bytes);
    // Estimators count what items take; who asks thinks of the memory of a whole cache.
    let held = |memory: u64| engine.map_or(memory, |engine| engine.held_by(memory));
    let options =
        &CurveOptions { max_size: options.max_size.map(held), at: options.at.map(held), ..options.clone() };
    let (footprint, keys) = if options.method.needs_max_size() {
        survey(trace, source, unit)?
    } else {
        (options.max_size.unwrap_or(u64::MAX), 0)
    };
    // A tenth more than all keys seem to take: the sample that is to come may have more of them.
    let max_size = options.max_size.unwrap_or(footprint.saturating_add(footprint / 10)).max(1);
    let mut estimator = make(options, unit, max_size, keys);
    let requests = source.feed(trace, &mut [&mut *estimator])?;
    if requests == 0 {
        bail!("{}: there is no request in it", trace.display());
    }
    let seconds = (Clock::System.monotonic_nanos() - began) as f64 / 1e9;
    let mut report = CurveReport::new(trace, options, unit, engine, &*estimator, requests, seconds);
    let assumed = (source.writes != Writes::Fill).then_some(source.value_size);
    report.writes = source.writes;
    report.keys_without_size =
        source.sizes.as_ref().filter(|_| unit == Unit::Bytes).and_then(|sizes| sizes.without(assumed));
    Ok(report)
}

/// The size of all keys together, and how many there are, estimated.
fn survey(trace: &Path, source: &Source, unit: Unit) -> Result<(u64, u64)> {
    let mut sizes = Shards::fixed_size(unit, curve::shards::DEFAULT_KEYS);
    source.feed(trace, &mut [&mut sizes])?;
    Ok(((sizes.footprint() as u64).max(1), (sizes.keys() as f64 / sizes.rate()) as u64))
}

/// The estimator that the options ask for.
fn make(options: &CurveOptions, unit: Unit, max_size: u64, keys: u64) -> Box<dyn Estimator> {
    let even = |count: usize| {
        let mut sizes: Vec<u64> =
            (1..=count as u128).map(|i| (u128::from(max_size) * i / count as u128) as u64).collect();
        sizes.retain(|size| *size > 0);
        sizes.dedup();
        sizes
    };
    // Small caches differ most, and are asked about as often as large ones. Below some dozen items
    // a miniature says nothing.
    let log = |count: usize, rate: f64| {
        let least = (MINIATURE_LEAST as f64 / (keys.max(1) as f64 * rate)).min(0.5);
        let mut sizes: Vec<u64> = (0..count)
            .map(|i| (max_size as f64 * least.powf(i as f64 / (count.max(2) - 1) as f64)) as u64)
            .rev()
            .collect();
        if let Some(last) = sizes.last_mut() {
            *last = max_size;
        }
        sizes.retain(|size| *size > 0);
        sizes.dedup();
        sizes
    };
    let bounded = |shards: Shards| {
        shards.with_max_size(options.max_size.unwrap_or(u64::MAX)).with_correction(options.correction)
    };
    match options.method {
        Method::Exact => Box::new(StackDistance::new(unit)),
        Method::Shards => Box::new(bounded(Shards::new(unit, options.rate.unwrap_or(1.0), options.keys))),
        Method::ShardsFixedRate => Box::new(bounded(Shards::fixed_rate(unit, options.rate.unwrap_or(0.01)))),
        Method::Ghost => {
            let rate = options.rate.unwrap_or(curve::ghost::DEFAULT_RATE);
            Box::new(
                curve::GhostCache::new(unit, even(options.ticks), rate).with_correction(options.correction),
            )
        }
        Method::Shadow => {
            let (at, some) = around(options, max_size);
            Box::new(curve::ShadowQueue::new(unit, at, some, some, options.rate.unwrap_or(1.0)))
        }
        Method::Tail => {
            let (at, some) = around(options, max_size);
            Box::new(curve::TailHits::new(unit, at, some))
        }
        Method::Mini => {
            let rate = options
                .rate
                .unwrap_or_else(|| curve::Miniature::<PolicyCache>::rate_for(MINIATURE_KEYS, keys));
            let sizes = log(options.ticks.min(MINIATURE_SIZES), rate);
            let make = |capacity| PolicyCache::new(options.policy, capacity);
            Box::new(curve::Miniature::new(unit, sizes, rate, make).with_correction(options.correction))
        }
    }
}

/// A cache's present size, and a sixteenth of it: a tail, and a shadow.
fn around(options: &CurveOptions, max_size: u64) -> (u64, u64) {
    let at = options.at.unwrap_or(max_size / 10).max(2);
    (at, (at / 16).max(1))
}

/// The mean distance between two curves, over `count` even sizes up to `max_size`.
pub fn mean_error(exact: &MissRatioCurve, estimated: &MissRatioCurve, max_size: u64, count: u32) -> f64 {
    let sizes = (1..=count).map(|i| max_size as f64 * f64::from(i) / f64::from(count));
    let errors = sizes.map(|size| (exact.miss_ratio(size) - estimated.miss_ratio(size)).abs());
    errors.sum::<f64>() / f64::from(count)
}

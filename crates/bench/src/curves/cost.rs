//! What learning a curve costs: an estimator for an access, and the engine at full speed.
//!
//! The engine is measured in pairs: the same finds with and without a curve, one after the other, many times, and the median of the ratios is told.
//! What else the machine does then falls on both.

use std::sync::Arc;

use anyhow::Result;
use base::hash::mix64;
use base::rng::seeded;
use curve::{Correction, Estimator, Ghost, Kind, Shards, StackDistance, Unit};
use millpond::watch::CurveConfig;
use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig, PoolId};
use rand_distr::{Distribution, Zipf};
use serde::Serialize;

/// Accesses that are timed at a stretch.
const STRETCH: usize = 1 << 17;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct CostOptions {
    /// Keys of the workload, drawn by Zipf's law with an exponent of 0.9.
    pub keys: u64,
    /// Threads that drive the engine.
    pub threads: usize,
    /// Pairs of stretches.
    pub rounds: usize,
    /// How the engine learns.
    pub config: CurveConfig,
}

/// What an access to a followed key costs an estimator.
#[derive(Clone, Debug, Serialize)]
pub struct EstimatorCost {
    /// Which.
    pub method: &'static str,
    /// Median of the stretches, in nanoseconds.
    pub nanos_per_sample: f64,
    /// Memory at the end.
    pub bytes: usize,
}

/// What learning costs the engine.
#[derive(Clone, Debug, Serialize)]
pub struct EngineCost {
    /// Threads that look up.
    pub threads: usize,
    /// A find without a curve, in nanoseconds of a thread.
    pub nanos_per_find: f64,
    /// Median of the throughputs with a curve over those without; a quarter of them are below the first of the quartiles, three below
    /// the last.
    pub throughput_ratio: f64,
    /// Quartiles of the ratio.
    pub quartiles: [f64; 2],
    /// The share of keys that was followed at the end.
    pub rate: f64,
    /// What a find of a followed key costs more, from the median: in nanoseconds.
    pub nanos_per_followed_find: f64,
    /// Accesses that were left out.
    pub lost: u64,
}

fn zipf(seed: u64, keys: u64, count: usize) -> Vec<u64> {
    let ranks = Zipf::new(keys as f64, 0.9).expect("there are keys, and the exponent is positive");
    let mut rng = seeded(seed);
    (0..count).map(|_| ranks.sample(&mut rng) as u64).collect()
}

fn median(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| figures[figures.len() * quarter / 4])
}

/// Times accesses to keys that are followed, one estimator after the other.
pub fn estimators(options: &CostOptions) -> Vec<EstimatorCost> {
    let clock = Clock::System;
    let all: Vec<u64> = zipf(1, options.keys, STRETCH * 16).into_iter().map(mix64).collect();
    let ghost = || Ghost::even(Unit::Bytes, options.keys * 500, 64, 1.0 / 32.0);
    let made: [(&'static str, Box<dyn Estimator>); 4] = [
        ("shards", Box::new(Shards::fixed_size(Unit::Bytes, options.config.keys))),
        ("ghost, 64 ticks", Box::new(ghost())),
        ("ghost, 64 ticks, uncorrected", Box::new(ghost().with_correction(Correction::None))),
        ("exact", Box::new(StackDistance::new(Unit::Bytes))),
    ];
    let time = |(method, mut estimator): (&'static str, Box<dyn Estimator>)| {
        all.iter().for_each(|hash| estimator.record(*hash, 500, Kind::Read));
        let followed: Vec<u64> = all.iter().copied().filter(|hash| estimator.follows(*hash)).collect();
        let stretches = (0..options.rounds.min(64)).map(|_| {
            let before = clock.monotonic_nanos();
            let taken = followed.iter().take(STRETCH);
            let count = taken.clone().count().max(1);
            taken.for_each(|hash| estimator.record(*hash, 500, Kind::Read));
            (clock.monotonic_nanos() - before) as f64 / count as f64
        });
        let [_, nanos_per_sample, _] = median(stretches.collect());
        EstimatorCost { method, nanos_per_sample, bytes: estimator.bytes() }
    };
    made.into_iter().map(time).collect()
}

/// Finds, with and without a curve in turn, from several threads.
///
/// # Errors
/// Where the cache cannot be made.
pub fn engine(options: &CostOptions) -> Result<EngineCost> {
    let memory = ByteSize::new((options.keys * 200).max(64 << 20));
    let cache = Arc::new(Cache::new(CacheConfig { memory, ..CacheConfig::default() })?);
    let pool = cache.add_pool(PoolConfig { own_keys: true, ..PoolConfig::named("measured") })?;
    for key in 0..=options.keys {
        let mut item = cache.allocate(pool, &key.to_le_bytes(), 100, &ItemOptions::default())?;
        item.value_mut().fill(1);
        cache.put(item);
    }
    let (mut plain, mut ratios) = (Vec::new(), Vec::new());
    let (mut rate, mut lost) = (0.0, 0);
    for round in 0..options.rounds {
        let mut nanos = [0.0; 2];
        // The one and the other first, in turn.
        for which in [round % 2, 1 - round % 2] {
            cache.set_curve(pool, (which == 1).then_some(options.config))?;
            // The first stretch has the sample fill.
            stretch(&cache, pool, options, round as u64)?;
            nanos[which] = stretch(&cache, pool, options, round as u64)?;
            if let Some(learnt) = cache.curve(pool)? {
                (rate, lost) = (learnt.rate, lost + learnt.lost);
            }
        }
        plain.push(nanos[0]);
        ratios.push(nanos[0] / nanos[1]);
    }
    let [_, nanos_per_find, _] = median(plain);
    let [low, throughput_ratio, high] = median(ratios);
    let more = nanos_per_find / throughput_ratio - nanos_per_find;
    Ok(EngineCost {
        threads: options.threads,
        nanos_per_find,
        throughput_ratio,
        quartiles: [low, high],
        rate,
        nanos_per_followed_find: more / rate,
        lost,
    })
}

/// Nanoseconds of a find, of each thread's time.
fn stretch(cache: &Arc<Cache>, pool: PoolId, options: &CostOptions, round: u64) -> Result<f64> {
    let threads = (0..options.threads as u64).map(|thread| {
        let cache = Arc::clone(cache);
        let keys = zipf(round << 8 | thread, options.keys, STRETCH);
        let body = move || {
            let clock = Clock::System;
            let space = cache.keys(pool);
            let before = clock.monotonic_nanos();
            let mut found = 0;
            for key in &keys {
                found += usize::from(space.find_with(&key.to_le_bytes(), |found| found.len()).is_some());
            }
            let nanos = clock.monotonic_nanos() - before;
            assert!(found > 0, "most keys are there");
            nanos as f64 / keys.len() as f64
        };
        base::thread::spawn("finds", body)
    });
    let threads = threads.collect::<std::io::Result<Vec<_>>>()?;
    let count = threads.len() as f64;
    let all = threads.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN));
    Ok(all.sum::<f64>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_costs_are_measured_and_nothing_is_lost_on_one_thread() {
        let config = CurveConfig { rate: 0.25, keys: 500, ..CurveConfig::default() };
        let options = CostOptions { keys: 2_000, threads: 1, rounds: 2, config };
        let estimators = estimators(&CostOptions { rounds: 1, ..options });
        assert!(estimators.iter().all(|cost| cost.nanos_per_sample > 0.0 && cost.bytes > 0));
        let engine = engine(&options).unwrap();
        assert!(engine.throughput_ratio > 0.0 && engine.rate > 0.0 && engine.rate <= 0.25, "{engine:?}");
        assert_eq!(engine.lost, 0);
    }
}

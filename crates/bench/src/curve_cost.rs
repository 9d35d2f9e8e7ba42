//! The cost of learning a curve: of an estimator for an access, and of the engine at full speed.
//!
//! The engine is measured in pairs: the same finds in a cache that learns a curve and in one that
//! does not, some thousands at a time in turn, so that what else the machine does falls on both.
//! Then the caches change places, so that what makes one of them faster than the other, such as
//! where its memory lies, falls on both sides as well. A round gives one ratio; the rounds give its
//! median, and an interval that has the true one in 19 cases of 20.

use std::sync::{Arc, Barrier};

use anyhow::{Result, anyhow};
use base::hash::mix64;
use base::rng::seeded;
use curve::{Access, Correction, Estimator, GhostCache, Kind, Shards, StackDistance, Unit};
use millpond::watch::CurveConfig;
use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig, PoolId};
use rand_distr::{Distribution, Zipf};
use serde::Serialize;

/// Accesses that an estimator is handed at a time: as many as the buffer of a live pool has.
const BATCH: usize = 128;
/// Accesses that are timed at a stretch.
const STRETCH: usize = 1 << 17;
/// Batches that are timed with cold memory, and how much is written to between them: more than a
/// core has for itself.
const COLD_BATCHES: usize = 400;
const COLD_BYTES: usize = 4 << 20;
/// Finds that are timed at a time: a thousandth of a second or less, so that most see one state of
/// the machine.
const CHUNK: usize = 4096;
/// Stretches before a half, in which the sample of a new curve fills.
const WARM_UP: usize = 4;

/// The workload and the engine that are measured.
#[derive(Clone, Copy, Debug)]
pub struct CostOptions {
    /// Keys of the workload, drawn by Zipf's law with an exponent of 0.9.
    pub keys: u64,
    /// Threads that drive the engine.
    pub threads: usize,
    /// Rounds of the engine, each of two halves; and stretches of an estimator, up to 64.
    pub rounds: usize,
    /// Chunks of 4096 finds with and without a curve in half a round, of each thread.
    pub pairs: usize,
    /// The engine's settings for its curves.
    pub config: CurveConfig,
}

/// The cost of an access to a followed key in an estimator.
#[derive(Clone, Debug, Serialize)]
pub struct EstimatorCost {
    /// Which.
    pub method: &'static str,
    /// Median of the stretches, in nanoseconds.
    pub nanos_per_sample: f64,
    /// The quickest of them: what it takes when nothing else has the processor.
    pub quickest: f64,
    /// Median of batches of 128 where its memory is in none of the core's own caches, as where the
    /// live pool's buffer is full after thousands of calls, in nanoseconds.
    pub nanos_cold: f64,
    /// Memory at the end.
    pub bytes: usize,
}

/// The cost of learning a curve in the engine.
#[derive(Clone, Debug, Serialize)]
pub struct EngineCost {
    /// Threads that look up.
    pub threads: usize,
    /// A find without a curve, in nanoseconds of a thread: the median.
    pub nanos_per_find: f64,
    /// Median of the throughputs with a curve over those without.
    pub throughput_ratio: f64,
    /// In 19 cases of 20 the true median lies between these.
    pub interval: [f64; 2],
    /// The share of keys that was followed at the end.
    pub rate: f64,
    /// Extra cost of a find of a followed key, from the median: in nanoseconds.
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
    let ghost = || GhostCache::even(Unit::Bytes, options.keys * 500, 64, 1.0 / 32.0);
    let made: [(&'static str, Box<dyn Estimator>); 4] = [
        ("shards", Box::new(Shards::fixed_size(Unit::Bytes, options.config.keys))),
        ("ghost, 64 ticks", Box::new(ghost())),
        ("ghost, 64 ticks, uncorrected", Box::new(ghost().with_correction(Correction::None))),
        ("exact", Box::new(StackDistance::new(Unit::Bytes))),
    ];
    let time = |(method, mut estimator): (&'static str, Box<dyn Estimator>)| {
        all.iter().for_each(|hash| estimator.record(*hash, 500, Kind::Read));
        let followed = all.iter().filter(|hash| estimator.follows(**hash)).take(STRETCH);
        let followed: Vec<Access> =
            followed.map(|hash| Access { hash: *hash, size: 500, kind: Kind::Read }).collect();
        let stretches = (0..options.rounds.min(64)).map(|_| {
            let before = clock.monotonic_nanos();
            followed.chunks(BATCH).for_each(|batch| estimator.record_all(batch));
            (clock.monotonic_nanos() - before) as f64 / followed.len().max(1) as f64
        });
        let stretches: Vec<f64> = stretches.collect();
        let quickest = stretches.iter().copied().fold(f64::INFINITY, f64::min);
        let [_, nanos_per_sample, _] = median(stretches);
        let nanos_cold = cold(&clock, &mut *estimator, &followed);
        EstimatorCost { method, nanos_per_sample, quickest, nanos_cold, bytes: estimator.bytes() }
    };
    made.into_iter().map(time).collect()
}

/// Nanoseconds of an access where the processor's caches have been used for something else between
/// batches.
fn cold(clock: &Clock, estimator: &mut dyn Estimator, followed: &[Access]) -> f64 {
    let mut elsewhere = vec![0_u8; COLD_BYTES];
    let batches = followed.chunks(BATCH).cycle().take(if followed.is_empty() { 0 } else { COLD_BATCHES });
    let times = batches.map(|batch| {
        elsewhere.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
        let before = clock.monotonic_nanos();
        estimator.record_all(batch);
        (clock.monotonic_nanos() - before) as f64 / batch.len() as f64
    });
    let times: Vec<f64> = times.collect();
    if times.is_empty() { f64::NAN } else { median(times)[1] }
}

/// A cache that has all keys.
struct Filled {
    cache: Cache,
    pool: PoolId,
}

impl Filled {
    fn new(keys: u64) -> Result<Self> {
        let memory = ByteSize::new((keys * 200).max(64 << 20));
        let cache = Cache::new(CacheConfig { memory, ..CacheConfig::default() })?;
        let pool = cache.add_pool(PoolConfig { own_keys: true, ..PoolConfig::named("measured") })?;
        for key in 0..=keys {
            let mut item = cache.allocate(pool, &key.to_le_bytes(), 100, &ItemOptions::default())?;
            item.value_mut().fill(1);
            cache.put(item);
        }
        Ok(Self { cache, pool })
    }

    /// Nanoseconds of a find of each of these keys.
    fn time(&self, keys: &[u64]) -> f64 {
        let space = self.cache.keys(self.pool);
        let clock = Clock::System;
        let before = clock.monotonic_nanos();
        let mut found = 0;
        for key in keys {
            found += usize::from(space.find_with(&key.to_le_bytes(), |found| found.len()).is_some());
        }
        let nanos = clock.monotonic_nanos() - before;
        assert!(found > 0, "most keys are there");
        nanos as f64 / keys.len() as f64
    }
}

/// Finds, with and without a curve in turn, from several threads.
///
/// # Errors
/// Where a cache cannot be made, or a thread.
pub fn engine(options: &CostOptions) -> Result<EngineCost> {
    let caches = Arc::new([Filled::new(options.keys)?, Filled::new(options.keys)?]);
    let keys: Vec<Arc<Vec<u64>>> =
        (0..options.threads as u64).map(|thread| Arc::new(zipf(thread + 2, options.keys, STRETCH))).collect();
    let (mut plain, mut ratios) = (Vec::new(), Vec::new());
    let (mut rate, mut lost) = (0.0, 0);
    for _ in 0..options.rounds {
        let mut logs = 0.0;
        for learns in [0, 1] {
            let (with, without) = (&caches[learns], &caches[1 - learns]);
            without.cache.set_curve(without.pool, None)?;
            with.cache.set_curve(with.pool, Some(options.config))?;
            // Miniatures begin when the curve is first asked for.
            let _ = with.cache.curve(with.pool)?;
            let pairs = half(&caches, learns, &keys, options.pairs)?;
            plain.extend(pairs.iter().map(|pair| pair[0]));
            let [_, log, _] = median(pairs.iter().map(|[without, with]| (without / with).ln()).collect());
            logs += log / 2.0;
            if let Some(learnt) = with.cache.curve(with.pool)? {
                (rate, lost) = (learnt.rate, lost + learnt.lost);
            }
        }
        ratios.push(logs.exp());
    }
    let [_, nanos_per_find, _] = median(plain);
    let (throughput_ratio, interval) = median_and_interval(ratios);
    let more = nanos_per_find / throughput_ratio - nanos_per_find;
    Ok(EngineCost {
        threads: options.threads,
        nanos_per_find,
        throughput_ratio,
        interval,
        rate,
        nanos_per_followed_find: more / rate,
        lost,
    })
}

/// Half a round, in which the cache with this number learns: nanoseconds of a find without and with
/// a curve, of chunks that were looked up one after the other, of all threads.
fn half(
    caches: &Arc<[Filled; 2]>,
    learns: usize,
    keys: &[Arc<Vec<u64>>],
    pairs: usize,
) -> Result<Vec<[f64; 2]>> {
    let together = Arc::new(Barrier::new(keys.len()));
    let threads = keys.iter().map(|keys| {
        let (caches, keys, together) = (Arc::clone(caches), Arc::clone(keys), Arc::clone(&together));
        let body = move || {
            for _ in 0..WARM_UP {
                caches[learns].time(&keys);
            }
            let mut figures = Vec::new();
            for (number, chunk) in keys.chunks(CHUNK).cycle().take(pairs).enumerate() {
                let mut nanos = [0.0; 2];
                // The one and the other first, in turn; all threads in the same cache.
                for kind in [number % 2, 1 - number % 2] {
                    together.wait();
                    nanos[kind] = caches[if kind == 1 { learns } else { 1 - learns }].time(chunk);
                }
                figures.push(nanos);
            }
            figures
        };
        base::thread::spawn("finds", body)
    });
    let threads = threads.collect::<std::io::Result<Vec<_>>>()?;
    let mut figures = Vec::new();
    for thread in threads {
        figures.extend(thread.join().map_err(|_| anyhow!("a thread that looks up panicked"))?);
    }
    Ok(figures)
}

/// The median of independent figures, and two of them between which that of their distribution lies
/// in 19 cases of 20, whatever the distribution: how many lie below it is binomial.
fn median_and_interval(mut figures: Vec<f64>) -> (f64, [f64; 2]) {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() as f64 / 2.0;
    let off = 0.98 * (figures.len() as f64).sqrt();
    let low = (half - off).floor().max(0.0) as usize;
    let high = ((half + off).ceil() as usize).min(figures.len() - 1);
    (figures[figures.len() / 2], [figures[low], figures[high]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_costs_are_measured_and_nothing_is_lost_on_one_thread() {
        let config = CurveConfig { rate: 0.25, keys: 500, ..CurveConfig::default() };
        let options = CostOptions { keys: 2_000, threads: 1, rounds: 1, pairs: 4, config };
        let estimators = estimators(&options);
        assert!(estimators.iter().all(|cost| cost.quickest > 0.0 && cost.nanos_cold > 0.0 && cost.bytes > 0));
        let engine = engine(&options).unwrap();
        let [low, high] = engine.interval;
        assert!(0.0 < low && low <= engine.throughput_ratio && engine.throughput_ratio <= high);
        assert!(engine.rate > 0.0 && engine.rate <= 0.25, "{engine:?}");
        assert_eq!(engine.lost, 0);
    }

    #[test]
    fn an_interval_is_as_wide_as_the_binomial_distribution_asks() {
        // Of 41 figures 14 or fewer lie on one side of the true median in 1 case of 40 each.
        let figures = (0..41).map(f64::from).rev().collect();
        assert_eq!(median_and_interval(figures), (20.0, [14.0, 27.0]));
        assert_eq!(median_and_interval(vec![3.0]), (3.0, [3.0, 3.0]));
    }
}

//! The miss ratio of LRU under independent references, computed: Che, Tung and Wang, "Hierarchical
//! Web Caching Systems", IEEE JSAC 2002, and Fricker, Robert and Roberts, "A versatile and accurate
//! approximation for LRU cache performance", ITC 2012.
//!
//! Each key is requested with a fixed probability `p`, independent of earlier requests. In a cache
//! of a given size every key stays for about the same *characteristic time* `t` after each request
//! for it, so it is present with probability `1 - exp(-p*t)`. That is the time at which the
//! expected size of the present items equals the cache's size.

use crate::mrc::{MissRatioCurve, Point, Unit};

/// A key's relative request probability, and its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Popularity {
    /// Any positive scale.
    pub weight: f64,
    /// In the unit of the curve.
    pub size: f64,
}

/// The popularity of `keys` keys of one `size` under Zipf's law: the key of rank `i`, from 1 on,
/// weighs `i^-exponent`. 0 is uniform.
pub fn zipf(keys: u64, exponent: f64, size: f64) -> Vec<Popularity> {
    (1..=keys).map(|rank| Popularity { weight: (rank as f64).powf(-exponent), size }).collect()
}

/// The curve of LRU over keys of this popularity, at `points` sizes evenly spread up to `max_size`.
///
/// Costs about six passes over the keys for each point: the time of one size is where the search
/// for the next begins.
///
/// # Panics
/// If there is no key, no point, or `max_size` is less than `points`.
pub fn curve(unit: Unit, keys: &[Popularity], max_size: u64, points: u64) -> MissRatioCurve {
    assert!(!keys.is_empty() && points > 0 && max_size >= points, "a curve needs keys, points and sizes");
    let mut time = 0.0;
    let points = (1..=points).map(|i| {
        let size = (u128::from(max_size) * u128::from(i) / u128::from(points)) as u64;
        let miss_ratio = miss_ratio_from(keys, size as f64, &mut time);
        Point { size, miss_ratio }
    });
    MissRatioCurve::new(unit, points).expect("sizes rise, and a miss ratio is clamped to its range")
}

/// The miss ratio of LRU over keys of this popularity, in a cache of `size`.
pub fn miss_ratio(keys: &[Popularity], size: f64) -> f64 {
    miss_ratio_from(keys, size, &mut 0.0)
}

/// The same, given that the characteristic time is at least `time`; sets `time` to it.
fn miss_ratio_from(keys: &[Popularity], size: f64, time: &mut f64) -> f64 {
    let total_weight: f64 = keys.iter().map(|key| key.weight).sum();
    let total_size: f64 = keys.iter().map(|key| key.size).sum();
    if size >= total_size {
        return 0.0;
    }
    if size <= 0.0 {
        return 1.0;
    }
    *time = characteristic_time(keys, size, *time);
    let missed: f64 = keys.iter().map(|key| key.weight * (-key.weight * *time).exp()).sum();
    (missed / total_weight).clamp(0.0, 1.0)
}

/// The time at which the expected size of the present items reaches `size`, by Newton's steps from
/// an earlier time. The expected size grows ever more slowly with time, so each step ends before
/// the goal and none can overshoot.
fn characteristic_time(keys: &[Popularity], size: f64, from: f64) -> f64 {
    let mut time = from;
    for _ in 0..200 {
        let (mut occupied, mut speed) = (0.0, 0.0);
        for key in keys {
            let absent = (-key.weight * time).exp();
            occupied += key.size * (1.0 - absent);
            speed += key.size * key.weight * absent;
        }
        let step = (size - occupied) / speed;
        if !step.is_finite() || step <= 1e-10 * time {
            break;
        }
        time += step;
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_keys_give_a_straight_line() {
        let keys = zipf(1000, 0.0, 1.0);
        let curve = curve(Unit::Items, &keys, 1000, 10);
        for point in curve.points() {
            assert!((point.miss_ratio - (1.0 - point.size as f64 / 1000.0)).abs() < 1e-6, "{point:?}");
        }
    }

    #[test]
    fn a_larger_key_costs_what_it_takes() {
        let small = zipf(1000, 0.9, 10.0);
        let large = zipf(1000, 0.9, 20.0);
        assert!((miss_ratio(&small, 2000.0) - miss_ratio(&large, 4000.0)).abs() < 1e-9);
    }

    /// Exact LRU over the same popularity, by drawing requests.
    #[test]
    fn it_agrees_with_an_lru_that_is_run() {
        use base::rng::{RngExt, seeded};
        let keys = zipf(500, 0.8, 1.0);
        let total: f64 = keys.iter().map(|key| key.weight).sum();
        let mut rng = seeded(7);
        let mut recency: Vec<usize> = Vec::new();
        let (mut misses, requests) = (0, 60_000);
        for request in 0..requests + 5_000 {
            let mut draw = rng.random::<f64>() * total;
            let key = keys.iter().position(|key| {
                draw -= key.weight;
                draw < 0.0
            });
            let key = key.unwrap_or(keys.len() - 1);
            let rank = recency.iter().position(|&seen| seen == key);
            misses += u32::from(request >= 5_000 && rank.is_none_or(|rank| rank >= 100));
            if let Some(rank) = rank {
                recency.remove(rank);
            }
            recency.insert(0, key);
        }
        let run = f64::from(misses) / f64::from(requests);
        assert!(
            (run - miss_ratio(&keys, 100.0)).abs() < 0.01,
            "{run} by running, {} computed",
            miss_ratio(&keys, 100.0)
        );
    }
}

//! The curve from idle times: which part of the memory was used within each time.
//!
//! Denning and Schwartz, "Properties of the Working-Set Model", CACM 1972: the keys used within the
//! last `T` seconds are the working set of `T`, and the rate at which their mean number grows with
//! `T` is the rate of accesses to keys that were not used within `T`, the misses of a cache that
//! keeps each key for `T`. An LRU cache of the size of that working set has about these misses
//! ([`curve::che`] has the same relation). So a random sample of keys with idle times and sizes, at
//! one moment, together with the rate of reads, gives the curve up to the present size. It needs no
//! time to learn, and costs the server a few commands for each key of the sample.
//!
//! 1. A miss ratio that falls as memory grows makes the number of keys a concave function of `T`.
//!    The estimate is the least concave function above the sampled one (Grenander's estimator).
//! 2. Redis counts idle times in whole seconds on a coarse clock: `k` is between `k-1` and `k+1`.
//!    Keys that were used within half a second are not told apart, and a cache that turns over in
//!    a few seconds has no such curve.
//! 3. Among the keys that are idle for longest, some were evicted already, as Redis evicts the
//!    oldest of a few random ones. There the slope falls below the measured miss ratio; these
//!    points are left out, and the curve ends at the memory in use with that ratio.
//! 4. Writes of keys that are present make them recent too, and count as reads would. Under a load
//!    that writes much the curve is too high. Expired keys make it too low.

use curve::{Confidence, MissRatioCurve, Point, Unit};

/// A sampled key: seconds since it was used, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Age {
    pub(super) idle: u64,
    pub(super) bytes: u64,
}

/// The figures of a server besides ages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    /// All keys.
    pub(super) keys: u64,
    /// Memory in use, and that of a server without keys.
    pub(super) used: u64,
    pub(super) startup: u64,
    pub(super) reads_per_sec: f64,
    pub(super) miss_ratio: f64,
}

/// A vertex of the function: seconds, and the shares of keys and of bytes used within them.
#[derive(Clone, Copy, Debug, Default)]
struct Vertex {
    secs: f64,
    keys: f64,
    bytes: f64,
}

/// The curve up to the memory in use; `None` if there are no ages or no reads.
pub(super) fn curve(mut ages: Vec<Age>, rates: &Rates) -> Option<MissRatioCurve> {
    if ages.is_empty() || !(rates.reads_per_sec > 0.0 && rates.reads_per_sec.is_finite()) {
        return None;
    }
    let measured = rates.miss_ratio.clamp(0.0, 1.0);
    let samples = ages.len() as f64;
    ages.sort_unstable_by_key(|age| age.idle);
    let hull = hull(&ages);
    let in_keys = rates.used.saturating_sub(rates.startup) as f64;
    let mut points: Vec<Point> = Vec::new();
    for pair in hull.windows(2) {
        let [from, to] = pair else { continue };
        let rate = (to.keys - from.keys) * rates.keys as f64 / (to.secs - from.secs);
        let miss_ratio = (rate / rates.reads_per_sec).min(1.0);
        let size = rates.startup as f64 + in_keys * (from.bytes + to.bytes) / 2.0;
        let size = size as u64;
        if miss_ratio > measured && points.last().map_or(0, |last| last.size) < size {
            points.push(Point { size, miss_ratio });
        }
    }
    if points.last().is_none_or(|last| last.size < rates.used) && rates.used > 0 {
        points.push(Point { size: rates.used, miss_ratio: measured });
    }
    let confidence = Confidence {
        keys: ages.len() as u64,
        samples,
        requests: samples,
        seen: ages.len() as u64,
        error: 0.0,
    };
    Some(MissRatioCurve::new(Unit::Bytes, points).ok()?.with_confidence(confidence))
}

/// The least concave function above the shares by time, by its vertices.
fn hull(ages: &[Age]) -> Vec<Vertex> {
    let (count, total) = (ages.len() as f64, ages.iter().map(|age| age.bytes as f64).sum::<f64>().max(1.0));
    let mut hull = vec![Vertex::default()];
    let (mut keys, mut bytes) = (0.0, 0.0);
    for same in ages.chunk_by(|a, b| a.idle == b.idle) {
        keys += same.len() as f64;
        bytes += same.iter().map(|age| age.bytes as f64).sum::<f64>();
        let secs = same.first().map_or(0.0, |age| age.idle as f64) + 0.5;
        let vertex = Vertex { secs, keys: keys / count, bytes: bytes / total };
        while let [.., a, b] = hull[..] {
            if slope(a, b) > slope(b, vertex) {
                break;
            }
            hull.pop();
        }
        hull.push(vertex);
    }
    hull
}

fn slope(a: Vertex, b: Vertex) -> f64 {
    (b.keys - a.keys) / (b.secs - a.secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{RngExt, seeded};
    use curve::che;
    use proptest::prelude::*;

    /// Keys under Zipf's law in an LRU cache, at a moment.
    fn zipf_ages(
        keys: u64,
        exponent: f64,
        reads_per_sec: f64,
        size: f64,
        samples: usize,
    ) -> (Vec<Age>, f64, f64) {
        let popularity = che::zipf(keys, exponent, 100.0);
        let total: f64 = popularity.iter().map(|key| key.weight).sum();
        let mut rng = seeded(11);
        let mut ages: Vec<f64> = popularity
            .iter()
            .map(|key| -rng.random::<f64>().max(1e-300).ln() / (key.weight / total * reads_per_sec))
            .collect();
        ages.sort_unstable_by(f64::total_cmp);
        ages.truncate((size / 100.0) as usize);
        let resident = ages.len() as f64;
        let sampled = (0..samples)
            .map(|_| {
                let at = rng.random_range(0..ages.len());
                Age { idle: ages[at] as u64, bytes: 100 }
            })
            .collect();
        (sampled, resident, che::miss_ratio(&popularity, size))
    }

    #[test]
    fn ages_under_zipf_give_the_curve_of_lru() {
        for (exponent, size) in [(0.8, 1e6), (1.0, 1e6), (1.0, 3e6), (0.9, 5e5)] {
            let (ages, resident, miss_ratio) = zipf_ages(100_000, exponent, 500.0, size, 4096);
            let used = size as u64;
            let rates = Rates { keys: resident as u64, used, startup: 0, reads_per_sec: 500.0, miss_ratio };
            let learnt = curve(ages, &rates).expect("a curve");
            let exact = che::curve(Unit::Bytes, &che::zipf(100_000, exponent, 100.0), used, 50);
            let errors = (1..=50).map(|i| size * f64::from(i) / 50.0);
            let errors = errors.map(|size| (learnt.miss_ratio(size) - exact.miss_ratio(size)).abs());
            let mean = errors.sum::<f64>() / 50.0;
            assert!(mean < 0.05, "zipf {exponent} at {size}: {mean}");
            assert!((learnt.miss_ratio(size) - miss_ratio).abs() < 1e-9);
        }
    }

    #[test]
    fn without_reads_or_keys_there_is_no_curve() {
        let rates = Rates { keys: 1, used: 9, startup: 0, reads_per_sec: 0.0, miss_ratio: 0.0 };
        assert_eq!(curve(vec![Age { idle: 1, bytes: 1 }], &rates), None);
        assert_eq!(curve(Vec::new(), &Rates { reads_per_sec: 1.0, ..rates }), None);
    }

    proptest! {
        #[test]
        fn whatever_a_server_says_gives_a_curve_or_none(
            ages in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..50),
            (keys, used, startup) in any::<(u64, u64, u64)>(),
            reads_per_sec in any::<f64>(), miss_ratio in any::<f64>(),
        ) {
            let ages = ages.into_iter().map(|(idle, bytes)| Age { idle, bytes }).collect();
            let _ = curve(ages, &Rates { keys, used, startup, reads_per_sec, miss_ratio });
        }
    }
}

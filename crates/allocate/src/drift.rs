//! Loads that become others, as curves show them.
//!
//! A pool that has memory enough for two loads misses nothing of either, so that its misses do not
//! tell one from the other, though it could give memory under the one and not under the other. The
//! requests that were added to a curve since a while ago show it at other sizes too.

use std::sync::Arc;

use curve::MissRatioCurve;

/// Requests in the sample after which what was added is compared with what was known.
const LEAST_SAMPLES: f64 = 400.0;
/// The difference at one of these parts of the memory that is another load, beyond this many times
/// what chance explains.
const PARTS: [f64; 3] = [0.25, 0.5, 0.75];
const CHANGED: f64 = 0.1;
const CHANGED_BY_CHANCE: f64 = 6.0;

/// A curve as it was when it was compared last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drift {
    known: Option<Arc<MissRatioCurve>>,
}

impl Drift {
    /// Takes the curve as it is now, of a pool with this much memory in its unit. Returns whether
    /// the requests since the last comparison are of another load than those before.
    pub fn changed(&mut self, curve: &MissRatioCurve, memory: f64) -> bool {
        let both = self.known.as_ref().and_then(|known| Some((known, known.confidence()?)));
        let (Some((known, before)), Some(now)) = (both, curve.confidence()) else {
            self.known = Some(Arc::new(curve.clone()));
            return false;
        };
        let (requests, samples) = (now.requests - before.requests, now.samples - before.samples);
        if (0.0..LEAST_SAMPLES).contains(&samples) {
            return false;
        }
        // If there are fewer, it was aged meanwhile.
        let is_changed = samples > 0.0 && requests > 0.0 && before.samples >= LEAST_SAMPLES && {
            PARTS.iter().any(|part| {
                let [was, is] = [&**known, curve].map(|curve| curve.miss_ratio(part * memory));
                let added = (is * now.requests - was * before.requests) / requests;
                let chance = (was * (1.0 - was) / samples.min(before.samples)).sqrt();
                (added - was).abs() > CHANGED + CHANGED_BY_CHANCE * chance
            })
        };
        self.known = Some(Arc::new(curve.clone()));
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use curve::{Confidence, Point, Unit};

    use super::*;

    /// A curve of this many requests, of which an eighth is in the sample, of loads that miss these
    /// parts with half of the memory, and nothing with all.
    fn curve(loads: &[(f64, f64)]) -> MissRatioCurve {
        let requests: f64 = loads.iter().map(|load| load.0).sum();
        let missed = loads.iter().map(|load| load.0 * load.1).sum::<f64>() / requests;
        let points = [(50, missed), (100, 0.0)].map(|(size, miss_ratio)| Point { size, miss_ratio });
        let curve = MissRatioCurve::new(Unit::Bytes, points).expect("a curve");
        let seen = requests as u64;
        curve.with_confidence(Confidence { keys: 100, samples: requests / 8.0, requests, seen, error: 0.0 })
    }

    #[test]
    fn another_load_is_seen_though_a_pool_misses_nothing() {
        let mut drift = Drift::default();
        assert!(!drift.changed(&curve(&[(8e5, 0.5)]), 100.0));
        assert!(!drift.changed(&curve(&[(9e5, 0.5)]), 100.0));
        // Few requests say nothing yet.
        assert!(!drift.changed(&curve(&[(9e5, 0.5), (800.0, 0.1)]), 100.0));
        assert!(drift.changed(&curve(&[(9e5, 0.5), (8e3, 0.1)]), 100.0));
        // Then the curve is aged, and learns the new one.
        assert!(!drift.changed(&curve(&[(1e5, 0.5), (8e3, 0.1)]), 100.0));
        assert!(!Drift::default().changed(&curve(&[(8e5, 0.5)]), 100.0));
        let mut little = Drift::default();
        little.changed(&curve(&[(8e5, 0.5)]), 100.0);
        assert!(!little.changed(&curve(&[(8e5, 0.5), (8e3, 0.45)]), 100.0));
    }
}

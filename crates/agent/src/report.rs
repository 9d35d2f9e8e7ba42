//! Reports of pools: what changed since the last one.

use std::collections::{HashMap, HashSet};

use control::curve as messages;
use control::v1::{Curve, PoolReport, StatsResponse};
use curve::{MissRatioCurve, Point, Unit};

/// A curve is told again if a miss ratio differs by more than this.
const LIKE: f64 = 0.005;

/// A curve as a message: sizes are multiplied by `scale`.
pub(crate) fn curve(curve: &MissRatioCurve, scale: f64) -> Curve {
    let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
    let scaled = curve.scaled(Unit::Bytes, scale).thinned(control::MOST_CURVE_POINTS);
    let points = scaled.points().iter().map(|point| (point.size, point.miss_ratio));
    let mut message = messages::write(points);
    if let Some(known) = curve.confidence() {
        (message.samples, message.error) = (known.samples, known.error);
    }
    message
}

/// The last report.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    number: u64,
    /// By pool, with the curve that was told last.
    told: HashMap<u32, PoolReport>,
}

impl Reports {
    /// Writes what changed since the report `known`, or everything if that was not the last one.
    pub(crate) fn write(&mut self, pools: &[PoolReport], known: u64, response: &mut StatsResponse) {
        let is_whole = known == 0 || known != self.number;
        if is_whole {
            self.told.clear();
        }
        self.number += 1;
        let here: HashSet<u32> = pools.iter().map(|pool| pool.id).collect();
        (response.number, response.is_whole) = (self.number, is_whole);
        for now in pools {
            let before = self.told.get(&now.id);
            let curve_is_like = before.is_some_and(|before| is_like(&before.curve, &now.curve));
            let mut told = now.clone();
            if curve_is_like {
                told.curve = before.and_then(|before| before.curve.clone());
            }
            if before.is_some_and(|before| *before == told) {
                continue;
            }
            let mut written = told.clone();
            if curve_is_like {
                written.curve = None;
            }
            if before.is_some_and(|before| before.name == now.name) {
                written.name.clear();
            }
            response.pools.push(written);
            self.told.insert(now.id, told);
        }
        if !is_whole {
            response.gone = self.told.keys().copied().filter(|id| !here.contains(id)).collect();
            response.gone.sort_unstable();
        }
        self.told.retain(|id, _| here.contains(id));
    }
}

/// Returns whether two curves miss about the same at all sizes of either.
fn is_like(before: &Option<Curve>, now: &Option<Curve>) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return before.is_none() == now.is_none() };
    let (Some(before), Some(now)) = (read(before), read(now)) else { return false };
    let near = |of: &MissRatioCurve, other: &MissRatioCurve| {
        let missed = |point: &Point| (point.miss_ratio - other.miss_ratio(point.size as f64)).abs();
        of.points().iter().all(|point| missed(point) <= LIKE)
    };
    near(&before, &now) && near(&now, &before)
}

/// The curve in a message; `None`: there is none that could be read.
pub(crate) fn read(curve: &Curve) -> Option<MissRatioCurve> {
    let points = messages::read(curve).ok()?;
    let points = points.into_iter().map(|(size, miss_ratio)| Point { size, miss_ratio });
    MissRatioCurve::new(Unit::Bytes, points).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(id: u32, reads: u64, points: &[(u64, f64)]) -> PoolReport {
        let curve = (!points.is_empty()).then(|| messages::write(points.iter().copied()));
        PoolReport { id, name: format!("p{id}"), reads, curve, ..PoolReport::default() }
    }

    fn written(reports: &mut Reports, pools: &[PoolReport], known: u64) -> StatsResponse {
        let mut response = StatsResponse::default();
        reports.write(pools, known, &mut response);
        response
    }

    #[test]
    fn only_what_changed_is_told() {
        let mut reports = Reports::default();
        let curve = [(100, 0.5), (200, 0.25)];
        let first = written(&mut reports, &[pool(1, 10, &curve), pool(2, 10, &[])], 0);
        assert!(first.is_whole && first.pools.len() == 2 && first.pools[0].curve.is_some());

        let second = written(&mut reports, &[pool(1, 20, &curve), pool(2, 10, &[])], first.number);
        assert!(!second.is_whole);
        assert_eq!(second.pools.iter().map(|pool| pool.id).collect::<Vec<_>>(), [1]);
        assert!(second.pools[0].curve.is_none() && second.pools[0].name.is_empty());

        let third = written(&mut reports, &[pool(1, 20, &[(100, 0.5), (200, 0.2)])], second.number);
        assert!(third.pools[0].curve.is_some(), "another curve");
        assert_eq!(third.gone, [2]);
        let fourth = written(&mut reports, &[pool(1, 20, &[(100, 0.5), (200, 0.2)])], third.number);
        assert!(fourth.pools.is_empty() && fourth.gone.is_empty());
    }

    #[test]
    fn after_a_lost_report_all_is_told() {
        let mut reports = Reports::default();
        let pools = [pool(1, 10, &[(100, 0.5)]), pool(2, 10, &[])];
        let first = written(&mut reports, &pools, 0);
        written(&mut reports, &pools, first.number);
        let again = written(&mut reports, &pools, first.number);
        assert!(again.is_whole && again.pools.len() == 2);
        assert!(again.pools[0].curve.is_some() && again.pools[0].name == "p1");
    }

    #[test]
    fn a_curve_that_drifts_slowly_is_told_in_time() {
        let mut reports = Reports::default();
        let mut known = 0;
        let mut told = 0.5;
        for step in 0..100_u32 {
            let missed = 0.5 - f64::from(step) * 0.001;
            let response = written(&mut reports, &[pool(1, step.into(), &[(100, missed)])], known);
            known = response.number;
            if let Some(curve) = &response.pools[0].curve {
                told = messages::read(curve).unwrap()[0].1;
            }
            assert!((told - missed).abs() <= LIKE + 1e-5, "step {step}: {told} for {missed}");
        }
    }
}

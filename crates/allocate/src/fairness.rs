//! The fairness of an allocation: each pool's throughput relative to that with its own static
//! share.
//!
//! Ye et al., "Cache-Centric Multi-Resource Allocation for Storage Services", FAST 2026, section
//! 3.1. The *baseline* splits everything by weight. A pool's *normalised throughput* is its
//! throughput divided by that of the baseline; the *sharing incentive* holds if no pool is below 1;
//! HARE maximises the least of all.

use crate::partition::shares;
use crate::{Grant, Outcome, View};

/// The grants of each pool without any sharing: its part of everything by weight, within its floor
/// and its ceiling.
pub fn baseline(view: &View) -> Vec<Grant> {
    let weights: Vec<f64> = view.pools.iter().map(|pool| pool.weight).collect();
    shares(view, &weights)
}

/// The throughput of each pool with `grants`, relative to that with `baseline`.
///
/// A pool that needs only memory carries any number of requests; its ratio is 1. The ratio of 0 to
/// 0 is 1 too.
pub fn normalised(view: &View, baseline: &[Grant], grants: &[Grant]) -> Vec<f64> {
    let each = view.pools.iter().zip(baseline).zip(grants);
    each.map(|((pool, before), after)| relative(Outcome::of(pool, before), Outcome::of(pool, after)))
        .collect()
}

/// The ratio of one throughput to another.
pub(crate) fn relative(before: Outcome, after: Outcome) -> f64 {
    let (before, after) = (before.throughput, after.throughput);
    if before == after { 1.0 } else { after / before }
}

/// The least of [`normalised`] against the baseline by weight; 1 if there is no pool.
pub fn least_normalised(view: &View, grants: &[Grant]) -> f64 {
    normalised(view, &baseline(view), grants).into_iter().reduce(f64::min).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Demand, Pool, Resource};
    use curve::{MissRatioCurve, Unit};

    #[test]
    fn it_relates_what_is_to_an_equal_share() {
        let mut pool = Pool::new("a", MissRatioCurve::uniform(Unit::Bytes, 100), 0);
        (pool.demands, pool.grants) = (vec![Demand::new(1.0, 1.0)], vec![0.0]);
        let resources = vec![Resource { name: "reads".into(), total: 100.0 }];
        let view = View { memory: 100, resources, pools: vec![pool.clone(), pool], ..View::default() };
        let mut grants = baseline(&view);
        assert_eq!(normalised(&view, &baseline(&view), &grants), [1.0, 1.0]);
        (grants[0].memory, grants[1].memory) = (75, 25);
        let normalised = normalised(&view, &baseline(&view), &grants);
        assert!((normalised[0] - 2.0).abs() < 1e-12 && (normalised[1] - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(least_normalised(&View::default(), &[]), 1.0);
    }
}

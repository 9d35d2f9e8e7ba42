//! HARE without trades with pools whose curves are unstable.
//!
//! HARE's promise (FAST 2026, section 3.1: no pool below its share) holds for the curve that it
//! sees. A pool whose requests come in phases has another curve once memory has moved: it has
//! traded its memory, or its backend units for memory, and stays below its share until the next
//! decision, which is wrong again.
//!
//! [`Steady`] checks that each decision would have kept the promise by the curves of earlier
//! decisions too. A pool that fails this check keeps exactly its share of memory by weight, and the
//! others trade without it. Its surplus of the other resources still lifts all pools, as under DRF.
//! The pool trades again once it passes the check with every remembered curve.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use curve::MissRatioCurve;

use crate::hare::Hare;
use crate::rank::in_order_of_names;
use crate::{Decision, Grant, Outcome, Policy, Pool, View, fairness};

/// HARE, checked against the earlier curves of pools.
#[derive(Clone, Debug)]
pub struct Steady {
    /// The wrapped policy.
    pub hare: Hare,
    /// The number of decisions for which curves are remembered. Default: 8.
    pub back: usize,
    /// The fraction by which a pool may fall below the throughput of its share of everything, by
    /// any of those curves. Default: 0.1.
    pub loss: f64,
    /// The curves of each pool, by name, the oldest first.
    curves: HashMap<Arc<str>, VecDeque<Arc<MissRatioCurve>>>,
}

impl Steady {
    /// Wraps `hare`, with the defaults.
    pub fn new(hare: Hare) -> Self {
        Self { hare, back: 8, loss: 0.1, curves: HashMap::new() }
    }

    /// Returns whether `grant` keeps the promise to a pool by each of its remembered curves.
    fn keeps(&self, pool: &Pool, baseline: &Grant, grant: &Grant) -> bool {
        let mut curves = self.curves.get(&pool.name).into_iter().flatten();
        curves.all(|curve| {
            let then = Pool { curve: Arc::clone(curve), ..pool.clone() };
            let carried = |grant: &Grant| Outcome::of(&then, grant).throughput;
            let (promised, granted) = (carried(baseline), carried(grant));
            granted == promised || granted >= promised * (1.0 - self.loss)
        })
    }

    fn remember(&mut self, view: &View) {
        let names: HashSet<&str> = view.pools.iter().map(|pool| &*pool.name).collect();
        self.curves.retain(|name, _| names.contains(&**name));
        for pool in &view.pools {
            let curves = self.curves.entry(pool.name.clone()).or_default();
            curves.push_back(Arc::clone(&pool.curve));
            curves.drain(..curves.len().saturating_sub(self.back));
        }
    }
}

impl Default for Steady {
    fn default() -> Self {
        Self::new(Hare::default())
    }
}

impl Policy for Steady {
    fn name(&self) -> &'static str {
        "hare-steady"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let baseline = fairness::baseline(view);
            let mut bounded = view.clone();
            let mut held = vec![false; view.pools.len()];
            // A held pool changes the remaining resources for the others, so HARE decides again.
            // Each round holds one more pool, or is the last.
            let mut decision = loop {
                let decision = self.hare.decide(&bounded);
                let broken: Vec<usize> = (0..view.pools.len())
                    .filter(|&i| !held[i] && !self.keeps(&view.pools[i], &baseline[i], &decision.grants[i]))
                    .collect();
                if broken.is_empty() {
                    break decision;
                }
                for i in broken {
                    held[i] = true;
                    (bounded.pools[i].floor, bounded.pools[i].ceiling) =
                        (baseline[i].memory, baseline[i].memory);
                }
            };
            self.remember(view);
            for step in &mut decision.moves {
                let is_held = [step.from, step.to].into_iter().flatten().find(|&i| held[i]);
                if let Some(i) = is_held {
                    let name = &view.pools[i].name;
                    step.reason = format!(
                        "{name} goes back to its share: by a curve that it had lately it would have lost by the trade"
                    );
                }
            }
            decision
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Demand, Resource};
    use curve::{Point, Unit};

    /// A pool that fits into 40 units of memory, or misses all whatever it has.
    fn phase(fits: bool) -> Arc<MissRatioCurve> {
        let missed = if fits { 0.0 } else { 1.0 };
        let points = [Point { size: 39, miss_ratio: 1.0 }, Point { size: 40, miss_ratio: missed }];
        Arc::new(MissRatioCurve::new(Unit::Bytes, points).unwrap())
    }

    fn view(fits: bool) -> View {
        let pool = |name: &str, curve: Arc<MissRatioCurve>| {
            let mut pool = Pool::new(name, curve, 50);
            pool.demands = vec![Demand { fixed: 0.0, on_miss: 1.0 }, Demand { fixed: 1.0, on_miss: 0.0 }];
            pool.grants = vec![50.0, 200.0];
            pool
        };
        let resources = [("reads", 100.0), ("requests", 400.0)];
        let resources = resources.map(|(name, total)| Resource { name: name.into(), total });
        let steady = Arc::new(MissRatioCurve::uniform(Unit::Bytes, 120));
        let pools = vec![pool("phases", phase(fits)), pool("steady", steady)];
        View { memory: 100, resources: resources.to_vec(), pools, ..View::default() }
    }

    /// Returns the throughput of the pool in phases relative to that of its share, after its curve
    /// has changed since the decision.
    fn after_the_change(policy: &mut dyn Policy) -> f64 {
        let grants = policy.decide(&view(false)).grants;
        let now = view(true);
        fairness::normalised(&now, &fairness::baseline(&now), &grants)[0]
    }

    #[test]
    fn a_pool_in_phases_keeps_its_share_and_is_traded_with_again_when_it_is_calm() {
        // It misses all: HARE gives its memory away, and when it would fit it has a fraction of its
        // share.
        let mut hare = Hare::default();
        assert!(after_the_change(&mut hare) < 0.6, "HARE alone trusts the curve");

        let mut steady = Steady::default();
        steady.decide(&view(true));
        assert!(after_the_change(&mut steady) > 0.9);
        for _ in 0..steady.back {
            steady.decide(&view(false));
        }
        let grants = steady.decide(&view(false)).grants;
        assert!(grants[0].memory < 40, "what it was is forgotten: {grants:?}");
    }

    #[test]
    fn where_curves_hold_still_it_is_hare() {
        let mut steady = Steady::default();
        for _ in 0..3 {
            assert_eq!(steady.decide(&view(false)).grants, Hare::default().decide(&view(false)).grants);
        }
    }
}

//! Dominant resource fairness for the demands that remain given a share of memory.
//!
//! Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI
//! 2011, as in HARE (FAST 2026, sections 2.2 and 3.5). DRF's steps, and their place here:
//!
//! | DRF | here |
//! |---|---|
//! | a user's *demand vector*: the needs of a task for each resource | the needs of a request; memory is split by weight, so that the miss ratio and with it the demand is fixed |
//! | its *dominant share*: the largest share that it has of any resource | of the equal split: [`Pool::carried`](crate::Pool::carried) is that of its dominant resource, and `Market::initialize` takes the part of the others that it cannot use |
//! | *progressive filling*: the user with the lowest dominant share gets its next task, until a resource is used up | all at once, since requests are many and small: all are lifted by the same share until the first resource is used up (`redistribute::Lift`). In relation to weights all then have the same dominant share |
//! | the surplus stays unassigned | `drf-strict`; the default gives it out in proportion (HARE, section 3.5, *conserving redistribution*) |

use crate::hare::{self, Settings};
use crate::rank::in_order_of_names;
use crate::{Decision, Grant, Policy, View, fairness, guard};

/// Dominant resource fairness, with memory split by weight.
#[derive(Clone, Debug)]
pub struct Drf {
    /// True if the surplus of resources that limit no pool is given out too, in proportion to each
    /// pool's grants. DRF leaves it unassigned, so that a false demand gains nothing. Default:
    /// true.
    pub conserving: bool,
    /// Added to each miss ratio, as in [`Settings::salt`]. Default: 0.01.
    pub salt: f64,
}

impl Default for Drf {
    fn default() -> Self {
        Self { conserving: true, salt: 0.01 }
    }
}

impl Drf {
    fn settings(&self) -> Settings {
        Settings { conserving: self.conserving, salt: self.salt, ..Settings::default() }
    }
}

/// DRF over pools with this memory, in bytes, from whatever source.
pub fn with_memory(view: &View, drf: &Drf, memory: &[u64]) -> Vec<Grant> {
    let mut baseline = fairness::baseline(view);
    for (grant, &memory) in baseline.iter_mut().zip(memory) {
        grant.memory = memory;
    }
    hare::without_trade(view, &drf.settings(), &baseline).grants
}

impl Policy for Drf {
    fn name(&self) -> &'static str {
        if self.conserving { "drf" } else { "drf-strict" }
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let allocation = hare::without_trade(view, &self.settings(), &fairness::baseline(view));
            let lifted = 100.0 * allocation.improvement;
            let mut decision = Decision::to(view, allocation.grants, |_, _| {
                format!(
                    "memory by weight; the other resources carry {lifted:.1} % more than shares of them would"
                )
            });
            decision.unmet = guard::unmet(view, &decision);
            decision
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Demand, Pool, Resource};
    use curve::{MissRatioCurve, Unit};

    /// Section 4.1 of the paper: 9 processors and 18 GB, tasks that need <1, 4> and <3, 1>. Three
    /// of A's and two of B's run, and either has two thirds of its dominant resource.
    #[test]
    fn the_papers_example_comes_out() {
        let user = |name: &str, processors, gigabytes| {
            let mut pool = Pool::new(name, MissRatioCurve::uniform(Unit::Bytes, 10), 0);
            pool.demands = [processors, gigabytes].map(|fixed| Demand { fixed, on_miss: 0.0 }).to_vec();
            pool.grants = vec![0.0; 2];
            pool
        };
        let resources = [("processors", 9.0), ("gigabytes", 18.0)];
        let resources = resources.map(|(name, total)| Resource { name: name.into(), total }).to_vec();
        let view = View {
            memory: 20,
            resources,
            pools: vec![user("A", 1.0, 4.0), user("B", 3.0, 1.0)],
            ..View::default()
        };
        let strict = Drf { conserving: false, ..Drf::default() }.decide(&view);
        let expected = [[3.0, 12.0], [6.0, 2.0]];
        for (grant, expected) in strict.grants.iter().zip(expected) {
            assert!(grant.resources.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{grant:?}");
        }
    }
}

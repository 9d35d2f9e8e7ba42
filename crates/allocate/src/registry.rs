//! All policies by name, as configurations and reports name them.

use crate::cliffhanger::Cliffhanger;
use crate::drf::Drf;
use crate::dynacache::Dynacache;
use crate::fair::Fair;
use crate::guard::Aim;
use crate::hare::{Hare, Settings};
use crate::holpaca::Holpaca;
use crate::marginal::MarginalHits;
use crate::memshare::{Memshare, MemshareDrf};
use crate::most_hits::MostHits;
use crate::partition::{Equal, Weighted};
use crate::problem::Objective;
use crate::shared::{NonPartitioned, Shared};
use crate::steady::Steady;
use crate::talus::OnHulls;
use crate::{Decision, Policy, View};

/// A policy that can be created by name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name: lower case, words joined by hyphens.
    pub name: &'static str,
    /// The measure that its decisions improve; `None`: it divides memory by another rule.
    pub aim: Option<Aim>,
    /// A short description.
    pub summary: &'static str,
    make: fn() -> Box<dyn Policy>,
}

impl Entry {
    /// Creates the policy with its defaults and without state.
    pub fn make(&self) -> Box<dyn Policy> {
        (self.make)()
    }

    /// Creates the policy so that it can be cloned, as [`crate::guard::Guarded`] does for each
    /// node.
    pub fn registered(&'static self) -> Registered {
        Registered { entry: self, policy: self.make() }
    }
}

/// A policy with its entry. A clone is made by the entry, without state.
pub struct Registered {
    entry: &'static Entry,
    policy: Box<dyn Policy>,
}

impl Clone for Registered {
    fn clone(&self) -> Self {
        self.entry.registered()
    }
}

impl Policy for Registered {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn decide(&mut self, view: &View) -> Decision {
        self.policy.decide(view)
    }
}

/// Leaves everything as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stay;

impl Policy for Stay {
    fn name(&self) -> &'static str {
        "static"
    }

    fn decide(&mut self, view: &View) -> Decision {
        Decision::stay(view)
    }
}

/// All policies.
pub fn policies() -> &'static [Entry] {
    POLICIES
}

/// The policy of this name, with its defaults; `None` if there is none.
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    entry(name).map(Entry::make)
}

/// The entry of this name; `None` if there is none.
pub fn entry(name: &str) -> Option<&'static Entry> {
    policies().iter().find(|entry| entry.name == name)
}

const POLICIES: &[Entry] = &[
    Entry { name: "static", aim: None, summary: "everything stays as it is", make: || Box::new(Stay) },
    Entry { name: "equal", aim: None, summary: "equal shares", make: || Box::new(Equal) },
    Entry {
        name: "weighted",
        aim: None,
        summary: "shares in proportion to weights",
        make: || Box::new(Weighted),
    },
    Entry {
        name: "drf",
        aim: None,
        summary: "memory by weight, the other resources by dominant resource fairness",
        make: || Box::<Drf>::default(),
    },
    Entry {
        name: "drf-strict",
        aim: None,
        summary: "the same, and what no dominant resource needs stays unassigned",
        make: || Box::new(Drf { conserving: false, ..Drf::default() }),
    },
    Entry {
        name: "hare",
        aim: Some(Aim::Fairness),
        summary: "memory is traded for other resources, until everybody has most",
        make: || Box::<Hare>::default(),
    },
    Entry {
        name: "hare-steady",
        aim: Some(Aim::Fairness),
        summary: "HARE, but nothing is traded with pools whose curves do not hold still",
        make: || Box::<Steady>::default(),
    },
    Entry {
        name: "hare-published",
        aim: Some(Aim::Fairness),
        summary: "HARE as its program was published",
        make: || Box::new(Hare { settings: Settings::published() }),
    },
    Entry {
        name: "fair",
        aim: Some(Aim::Fairness),
        summary: "the least gain over shares by weight is highest, if memory alone moves; nobody loses",
        make: || Box::<Fair>::default(),
    },
    Entry {
        name: "memshare",
        aim: Some(Aim::Misses),
        summary: "half of the memory is reserved, the rest goes where it saves most misses",
        make: || Box::<Memshare>::default(),
    },
    Entry {
        name: "memshare-drf",
        aim: Some(Aim::Misses),
        summary: "the same, the other resources by dominant resource fairness",
        make: || Box::<MemshareDrf>::default(),
    },
    Entry {
        name: "non-partitioned",
        aim: None,
        summary: "what becomes of pools that share one cache and its queues",
        make: || Box::<NonPartitioned>::default(),
    },
    Entry {
        name: "non-partitioned-drf",
        aim: None,
        summary: "what becomes of pools that share one cache, the other resources by DRF",
        make: || Box::new(NonPartitioned { shared: Shared::Cache(Drf::default()) }),
    },
    Entry {
        name: "hill-climbing",
        aim: Some(Aim::Misses),
        summary: "Cliffhanger's credits for hits in shadow queues",
        make: || Box::new(Cliffhanger::hill_climbing()),
    },
    Entry {
        name: "cliffhanger",
        aim: Some(Aim::Misses),
        summary: "the same, and queues that scale their cliffs",
        make: || Box::<Cliffhanger>::default(),
    },
    Entry {
        name: "dynacache",
        aim: Some(Aim::Misses),
        summary: "most hits by the hulls of curves that are not split",
        make: || Box::new(Dynacache),
    },
    Entry {
        name: "talus",
        aim: Some(Aim::Misses),
        summary: "most hits by hulls, with queues split on them",
        make: || Box::new(OnHulls),
    },
    Entry {
        name: "most-hits",
        aim: Some(Aim::Misses),
        summary: "most hits by curves as they are, for queues that are not split",
        make: || Box::new(MostHits),
    },
    Entry {
        name: "marginal-hits",
        aim: Some(Aim::Misses),
        summary: "CacheLib's optimizer: a slab per round by hits in the last slab",
        make: || Box::<MarginalHits>::default(),
    },
    Entry {
        name: "holpaca",
        aim: Some(Aim::Throughput),
        summary: "most throughput by annealing, a hundredth of memory per round; floors and promises kept",
        make: || Box::<Holpaca>::default(),
    },
    Entry {
        name: "holpaca-exact",
        aim: Some(Aim::Throughput),
        summary: "the same, solved exactly",
        make: || Box::new(Holpaca::exact()),
    },
    Entry {
        name: "holpaca-as-described",
        aim: Some(Aim::Throughput),
        summary: "HOLPACA as its paper describes it, without a floor",
        make: || Box::new(Holpaca::described()),
    },
    Entry {
        name: "holpaca-as-published",
        aim: Some(Aim::Throughput),
        summary: "HOLPACA as its program was published: a random walk",
        make: || Box::new(Holpaca::published()),
    },
    Entry {
        name: "exact-throughput",
        aim: Some(Aim::Throughput),
        summary: "most throughput at once, wherever pools stand; floors and promises kept",
        make: || Box::new(Holpaca::at_once(Objective::Throughput)),
    },
    Entry {
        name: "exact-hit-rate",
        aim: Some(Aim::Misses),
        summary: "most hits at once by hulls; floors and promises kept",
        make: || Box::new(Holpaca::at_once(Objective::HitRate)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Demand, Pool, Resource};
    use base::rng::{RngExt, seeded};
    use curve::{MissRatioCurve, Unit};

    #[test]
    fn each_policy_goes_by_its_own_name() {
        for entry in policies() {
            assert_eq!(entry.make().name(), entry.name);
            assert!(by_name(entry.name).is_some());
        }
        assert!(by_name("nobody").is_none());
    }

    /// The contract of [`Policy::decide`], for every policy, over random views with bounds, idle
    /// pools and pools whose data fits, for a few rounds each.
    #[test]
    fn no_policy_exceeds_totals_or_breaks_bounds() {
        for seed in 0..40 {
            let mut rng = seeded(seed);
            let n = rng.random_range(1..6_u64);
            let memory = rng.random_range(1..200_u64) << 20;
            let pools = (0..n).map(|i| {
                let curve = MissRatioCurve::uniform(Unit::Bytes, rng.random_range(1..memory * 2));
                let mut pool = Pool::new(format!("p{i}"), curve, memory / n);
                pool.floor = rng.random_range(0..=memory / n / 2);
                pool.ceiling = if rng.random_bool(0.3) { memory / n } else { u64::MAX };
                pool.request_rate = if rng.random_bool(0.2) { 0.0 } else { rng.random_range(1.0..1e5) };
                pool.min_request_rate = if rng.random_bool(0.3) { rng.random_range(1.0..1e6) } else { 0.0 };
                pool.demands = vec![Demand::new(1.0, rng.random_range(0.0..1.0))];
                pool.grants = vec![5000.0 / n as f64];
                pool
            });
            let resources = vec![Resource { name: "reads".into(), total: 5000.0 }];
            let view = View { memory, resources, pools: pools.collect(), ..View::default() };
            view.validate().unwrap();
            // Two walk half a million steps per round.
            let quick = |entry: &&Entry| seed < 4 || !entry.name.contains("-as-");
            // Where nothing is partitioned nobody enforces bounds.
            let enforced = |entry: &&Entry| !entry.name.starts_with("non-partitioned");
            for entry in policies().iter().filter(quick).filter(enforced) {
                let (mut view, mut policy) = (view.clone(), entry.make());
                for round in 0..3 {
                    let decision = policy.decide(&view);
                    let case = format!("seed {seed}, {}, round {round}", entry.name);
                    let given: u64 = decision.grants.iter().map(|grant| grant.memory).sum();
                    assert!(given <= view.memory, "{case}: {given} of {}", view.memory);
                    for (pool, grant) in view.pools.iter().zip(&decision.grants) {
                        let bounds = pool.floor..=pool.ceiling;
                        assert!(bounds.contains(&grant.memory), "{case}: {} in {bounds:?}", grant.memory);
                        assert!(grant.resources.iter().all(|grant| grant.is_finite()), "{case}");
                    }
                    assert!(decision.after.iter().all(|outcome| outcome.miss_ratio.is_finite()), "{case}");
                    for (pool, grant) in view.pools.iter_mut().zip(decision.grants) {
                        (pool.size, pool.used) = (grant.memory, grant.memory);
                        pool.grants = grant.resources;
                    }
                }
            }
        }
    }
}

//! Cliffhanger: hill climbing between queues, and cliff scaling within each, driven only by hits in
//! shadow queues. Cidon, Eisenman, Alizadeh and Katti, "Cliffhanger: Scaling Performance Cliffs in
//! Web Memory Caches", NSDI '16.
//!
//! Two plain values implement it per request, at the cost of a few additions for a hit at an edge
//! of a queue:
//!
//! - [`HillClimber`] moves memory between queues (Algorithm 1);
//! - [`SplitQueue`] splits one queue in two if it is on a cliff (Algorithms 2 and 3).
//!
//! Both together are the combined algorithm of section 4.3 ([`HillClimber`] over queues that are
//! each a [`SplitQueue`]): a queue has two partitions; each has the small shadow of `SplitQueue`
//! right behind its items, and behind that its part of the long shadow of `HillClimber`, in
//! proportion to its size. If the pointers are farther apart than that shadow reaches, [`Slope`]
//! measures the queue's gain from more memory.
//!
//! Given a view of curves rather than a stream of hits, the policy [`Cliffhanger`] computes in one
//! step what Algorithm 1 would do in a window of time, averaged over its random choices.

mod hill;
mod slope;
mod split;

pub use hill::{HillClimber, Queue, Transfer};
pub use slope::Slope;
pub use split::{CliffConfig, Edge, Form, Side, SplitQueue};

use crate::rank::in_order_of_names;
use crate::view::{Pool, View};
use crate::{Decision, Grant, Policy, partition, talus};

/// Algorithm 1 over a view: the credits of all shadow hits between two decisions, at once.
///
/// Hits in shadows are computed from the pools' curves, not counted by shadow queues. With
/// [`Self::scales_cliffs`] they come from the hulls, which follow from a learnt curve, while shadow
/// queues must search for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cliffhanger {
    /// The size of a shadow queue, as a part of the mean memory per pool. Default 1/16: the paper's
    /// 1 MiB at 16 MiB a pool. A fixed size would be too small to measure a large pool and would
    /// step over the hill of a small one.
    pub shadow: f64,
    /// The credit for a hit in a shadow, as a part of the mean memory per pool. Default 1/1,024.
    /// The paper uses 1 to 4 KB, whatever the size; with a 1,000th of a queue, hill climbing
    /// reaches its optimum (C5).
    pub credit: f64,
    /// The most that a pool gains or loses in a decision, as a part of all memory. Default 0.05.
    /// The paper needs no such bound, as its shadows react to each step before the next; here a
    /// curve is read once per interval.
    pub max_step: f64,
    /// True if the pools scale their cliffs, so that their gains are those of their hulls. Default
    /// true; otherwise this is only hill climbing, which gets stuck at the foot of a cliff.
    pub scales_cliffs: bool,
}

/// Number of parts of an interval.
const PARTS: u32 = 64;

impl Default for Cliffhanger {
    fn default() -> Self {
        Self { shadow: 1.0 / 16.0, credit: 1.0 / 1_024.0, max_step: 0.05, scales_cliffs: true }
    }
}

impl Cliffhanger {
    /// Creates the policy without cliff scaling.
    pub fn hill_climbing() -> Self {
        Self { scales_cliffs: false, ..Self::default() }
    }

    /// Hits in the pool's shadow between two decisions: `f_i (h_i(m_i + δ) - h_i(m_i))` of section
    /// 4.1, weighted as in equation 1.
    fn shadow_hits(&self, view: &View, pool: &Pool, size: u64) -> f64 {
        let behind = size as f64 + self.shadow * view.mean_share();
        let saved = pool.curve.miss_ratio(size as f64) - pool.curve.miss_ratio(behind);
        pool.weight * pool.request_rate * view.interval_secs * saved
    }

    /// The credits of one interval, in bytes: each pool earns `ε` for each hit in its own shadow,
    /// and pays it with equal chance for each hit in another's. Section 4.1 gives the two rates;
    /// the sizes at which they are equal for all (equation 2) are the best.
    fn credits(&self, view: &View, sizes: &[u64]) -> Vec<f64> {
        let hits = view.pools.iter().zip(sizes).map(|(pool, &size)| self.shadow_hits(view, pool, size));
        let hits: Vec<f64> = hits.collect();
        let all: f64 = hits.iter().sum();
        // A pool does not pay for its own hits (Algorithm 1, line 3). The paper divides by the
        // number of all pools, which makes no difference if there are many.
        let others = (hits.len().max(2) - 1) as f64;
        let credit = self.credit * view.mean_share();
        hits.iter().map(|own| credit * (own - (all - own) / others)).collect()
    }

    /// The size of each pool after the interval, computed part by part: credits of the whole
    /// interval at the initial slopes would carry pools far beyond the point of equal slopes, and
    /// back at the next decision.
    fn climb(&self, view: &View, present: &[u64]) -> Vec<u64> {
        let part = View { interval_secs: view.interval_secs / f64::from(PARTS), ..view.clone() };
        let most = self.max_step * view.memory as f64 / f64::from(PARTS);
        (0..PARTS).fold(present.to_vec(), |sizes, _| self.step(&part, &sizes, most))
    }

    /// The size of each pool after a part of the interval: changed by its own credits, less its
    /// share of the others', as far as floors and ceilings allow.
    fn step(&self, view: &View, sizes: &[u64], most: f64) -> Vec<u64> {
        let wanted = self.credits(view, sizes).into_iter();
        let change = wanted.zip(&view.pools).zip(sizes).map(|((wanted, pool), &size)| {
            let (least, room) = (pool.floor as f64 - size as f64, (pool.ceiling - size) as f64);
            wanted.clamp(-most, most).clamp(least.min(0.0), room)
        });
        transferred(sizes, &change.collect::<Vec<f64>>())
    }
}

/// Sizes after all changes. If gains and losses differ, as they do when a pool is at a bound, the
/// larger sum is scaled down to the smaller.
fn transferred(sizes: &[u64], change: &[f64]) -> Vec<u64> {
    let sum = |sign: f64| change.iter().map(|by| (by * sign).max(0.0)).sum::<f64>();
    let (got, given) = (sum(1.0), sum(-1.0));
    let (scale_got, scale_given) =
        if got > given { (given / got, 1.0) } else { (1.0, if given > 0.0 { got / given } else { 0.0 }) };
    let mut left = 0;
    let mut after: Vec<u64> = sizes.to_vec();
    for (size, by) in after.iter_mut().zip(change).filter(|(_, by)| **by < 0.0) {
        let bytes = (-by * scale_given) as u64;
        *size -= bytes;
        left += bytes;
    }
    for (size, by) in after.iter_mut().zip(change).filter(|(_, by)| **by > 0.0) {
        let bytes = ((by * scale_got) as u64).min(left);
        *size += bytes;
        left -= bytes;
    }
    // Bytes lost to rounding go back to the pools that gave them, in their order.
    for (size, was) in after.iter_mut().zip(sizes) {
        let bytes = was.saturating_sub(*size).min(left);
        *size += bytes;
        left -= bytes;
    }
    after
}

impl Policy for Cliffhanger {
    fn name(&self) -> &'static str {
        if self.scales_cliffs { "cliffhanger" } else { "hill-climbing" }
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let mut seen = view.clone();
            if self.scales_cliffs {
                for pool in &mut seen.pools {
                    pool.curve = pool.curve.hull().into();
                }
            }
            let sizes = self.climb(&seen, &partition::present(view));
            let grants = seen.pools.iter().zip(sizes);
            let grants: Vec<Grant> =
                grants.map(|(pool, memory)| Grant { memory, resources: pool.grants.clone() }).collect();
            let cliffs = if self.scales_cliffs { talus::cliffs(view, &grants) } else { Vec::new() };
            let decision = Decision::to(&seen, grants, |from, to| {
                let hits = |pool: &Pool| {
                    format!(
                        "{} hits its shadow {:.1} times per interval",
                        pool.name,
                        self.shadow_hits(&seen, pool, pool.size)
                    )
                };
                let words: Vec<String> = to.into_iter().chain(from).map(hits).collect();
                words.join(", and ")
            });
            Decision { cliffs, ..decision }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve::{MissRatioCurve, Point, Unit};
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn pool(name: &str, points: &[(u64, f64)], size: u64) -> Pool {
        let points = points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
        let mut pool = Pool::new(name, MissRatioCurve::new(Unit::Bytes, points).unwrap(), size);
        (pool.request_rate, pool.floor) = (1000.0, MIB);
        pool
    }

    fn run(policy: &mut Cliffhanger, view: &mut View, rounds: usize) -> Decision {
        for _ in 0..rounds {
            let decision = policy.decide(view);
            for (pool, grant) in view.pools.iter_mut().zip(&decision.grants) {
                pool.size = grant.memory;
            }
        }
        policy.decide(view)
    }

    #[test]
    fn it_climbs_to_where_curves_are_equally_steep() {
        // Misses as 1 / size: the optimum for rates 4 : 1 is 2 : 1.
        let curve: Vec<_> = (1..=300).map(|mib| (mib * MIB, 1.0 / mib as f64)).collect();
        let mut view = View { memory: 90 * MIB, ..View::default() };
        view.pools = vec![pool("hot", &curve, 45 * MIB), pool("cold", &curve, 45 * MIB)];
        view.pools[0].request_rate = 400_000.0;
        view.pools[1].request_rate = 100_000.0;
        run(&mut Cliffhanger::hill_climbing(), &mut view, 500);
        let share = view.pools[0].size as f64 / (90 * MIB) as f64;
        assert!((share - 2.0 / 3.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn hill_climbing_alone_is_stuck_before_a_cliff() {
        let cliff = [(10 * MIB, 0.99), (50 * MIB, 0.97), (60 * MIB, 0.1)];
        let gentle = [(200 * MIB, 0.5)];
        let mut view = View { memory: 100 * MIB, ..View::default() };
        view.pools = vec![pool("cliff", &cliff, 30 * MIB), pool("gentle", &gentle, 70 * MIB)];
        let total =
            |decision: &Decision| decision.after.iter().map(|outcome| outcome.miss_ratio).sum::<f64>();
        let mut alone = view.clone();
        let stuck = run(&mut Cliffhanger::hill_climbing(), &mut alone, 2000);
        let both = run(&mut Cliffhanger::default(), &mut view, 2000);
        assert!(total(&both) < total(&stuck) - 0.3, "{} against {}", total(&both), total(&stuck));
        assert!(view.pools[0].size > 55 * MIB);
        let reason = &Cliffhanger::default().decide(&view).moves;
        assert!(reason.iter().all(|step| step.reason.contains("hits its shadow")));
    }

    /// Credits must not depend on the interval between decisions, nor on the unit of memory: a
    /// window of one second at decisions each 20 s paid a twentieth of the credits, and a shadow of
    /// 1 MiB spanned all of a small pool.
    #[test]
    fn the_climb_follows_the_interval_and_the_size_of_the_cache() {
        let share_after_a_minute = |interval_secs: f64, scale: u64| {
            let unit = MIB / 1024 * scale;
            let curve: Vec<_> = (1..=300).map(|i| (i * unit, 1.0 / i as f64)).collect();
            let mut view = View { memory: 90 * unit, interval_secs, ..View::default() };
            view.pools = vec![pool("hot", &curve, 45 * unit), pool("cold", &curve, 45 * unit)];
            view.pools.iter_mut().for_each(|pool| pool.floor = 0);
            view.pools[0].request_rate = 3_000.0;
            view.pools[1].request_rate = 750.0;
            let rounds = (60.0 / interval_secs) as usize;
            run(&mut Cliffhanger::hill_climbing(), &mut view, rounds);
            view.pools[0].size as f64 / view.memory as f64
        };
        let each_second = share_after_a_minute(1.0, 1024);
        assert!((0.54..0.66).contains(&each_second), "it is on its way: {each_second}");
        for (interval_secs, scale) in [(5.0, 1024), (20.0, 1024), (5.0, 1), (5.0, 64 * 1024)] {
            let share = share_after_a_minute(interval_secs, scale);
            assert!((share - each_second).abs() < 0.01, "{interval_secs} s, {scale}: {share}");
        }
    }

    proptest! {
        #[test]
        fn memory_is_conserved_within_bounds(
            pools in prop::collection::vec((0_u64..50, 0_u64..50, 0_u64..80, 0.0..1e7_f64), 1..6),
            spare in 0_u64..20, scales_cliffs: bool,
        ) {
            let cliff = [(10 * MIB, 0.99), (50 * MIB, 0.97), (60 * MIB, 0.1)];
            let pools: Vec<Pool> = pools.iter().enumerate().map(|(i, &(floor, above, room, rate))| {
                let mut pool = pool("p", &cliff[i % 2..], (floor + above) * MIB);
                (pool.floor, pool.ceiling) = (floor * MIB, (floor + above + room) * MIB);
                pool.request_rate = rate;
                pool
            }).collect();
            let ceilings: u64 = pools.iter().map(|pool| pool.ceiling).sum();
            let memory = pools.iter().map(|pool| pool.size).sum::<u64>() + spare * MIB;
            let view = View { memory, pools, ..View::default() };
            view.validate().unwrap();
            let decision = Cliffhanger { scales_cliffs, ..Cliffhanger::default() }.decide(&view);
            prop_assert_eq!(decision.grants.iter().map(|grant| grant.memory).sum::<u64>(), view.memory.min(ceilings));
            for (pool, grant) in view.pools.iter().zip(&decision.grants) {
                prop_assert!((pool.floor..=pool.ceiling).contains(&grant.memory));
            }
        }
    }
}

//! Equal and weighted shares: static partitioning, and the baseline of every other policy.

use crate::rank::in_order_of_names;
use crate::view::View;
use crate::{Decision, Grant, Policy};

/// Each pool gets the same share of everything, within its floor and its ceiling.
#[derive(Clone, Copy, Debug, Default)]
pub struct Equal;

/// Each pool gets a share of everything in proportion to its weight, within its floor and its
/// ceiling.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weighted;

impl Policy for Equal {
    fn name(&self) -> &'static str {
        "equal"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let grants = shares(view, &vec![1.0; view.pools.len()]);
            Decision::to(view, grants, |_, _| "each pool gets an equal share".to_owned())
        })
    }
}

impl Policy for Weighted {
    fn name(&self) -> &'static str {
        "weighted"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let weights: Vec<f64> = view.pools.iter().map(|pool| pool.weight).collect();
            let grants = shares(view, &weights);
            Decision::to(view, grants, |_, _| "each pool gets a share in proportion to its weight".to_owned())
        })
    }
}

/// The present memory of the pools of `view`, as a valid starting point for a policy. If the sizes
/// add up to the memory of the view and are within floors and ceilings, they are returned
/// unchanged; otherwise shares in proportion to them.
pub fn present(view: &View) -> Vec<u64> {
    let sizes: Vec<u64> = view.pools.iter().map(|pool| pool.size).collect();
    let fits = view.pools.iter().all(|pool| (pool.floor..=pool.ceiling).contains(&pool.size));
    if fits && sizes.iter().sum::<u64>() == view.memory {
        return sizes;
    }
    let weights: Vec<f64> = sizes.iter().map(|&size| size as f64).collect();
    shares(view, &weights).into_iter().map(|grant| grant.memory).collect()
}

/// All resources, split in proportion to `weights`, or equally if all weights are 0.
pub fn shares(view: &View, weights: &[f64]) -> Vec<Grant> {
    let total: f64 = weights.iter().sum();
    let share = |i: usize| if total > 0.0 { weights[i] / total } else { 1.0 / weights.len() as f64 };
    let memory = memory_shares(view, &share);
    memory
        .into_iter()
        .enumerate()
        .map(|(i, memory)| {
            let resources = view.resources.iter().map(|resource| resource.total * share(i)).collect();
            Grant { memory, resources }
        })
        .collect()
}

/// Memory by shares between floors and ceilings: a pool that would get less than its floor gets the
/// floor, one that would get more than its ceiling gets the ceiling, and the others share the rest.
/// Adds up to the memory of the view, or to all ceilings.
fn memory_shares(view: &View, share: &impl Fn(usize) -> f64) -> Vec<u64> {
    let shares: Vec<f64> = (0..view.pools.len()).map(share).collect();
    let clamped = |level: f64| {
        view.pools
            .iter()
            .zip(&shares)
            .map(move |(pool, share)| ((share * level) as u64).clamp(pool.floor, pool.ceiling))
    };
    // The level at which the clamped sizes add up to the memory, by bisection: the sum rises with
    // the level.
    let fits =
        |level: f64| clamped(level).try_fold(0_u64, u64::checked_add).is_some_and(|sum| sum <= view.memory);
    let (mut low, mut high) = (0.0, view.memory as f64 * 2.0 + 1.0);
    while fits(high) && high < view.memory as f64 * 1e9 {
        high *= 2.0;
    }
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if fits(middle) { low = middle } else { high = middle }
    }
    let mut sizes: Vec<u64> = clamped(low).collect();
    // Bytes lost to rounding go to the first pools by name that have room.
    let mut left = view.memory.saturating_sub(sizes.iter().sum());
    for i in crate::rank::by_name(view) {
        let (pool, size) = (&view.pools[i], &mut sizes[i]);
        let more = left.min(pool.ceiling - *size).min(if pool.weight > 0.0 { left } else { 0 });
        *size += more;
        left -= more;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Resource};
    use curve::{MissRatioCurve, Unit};
    use proptest::prelude::*;

    fn view(memory: u64, pools: &[(u64, u64, f64)]) -> View {
        let pools = pools.iter().map(|&(floor, ceiling, weight)| {
            let mut pool = Pool::new("p", MissRatioCurve::uniform(Unit::Bytes, 1000), 0);
            (pool.floor, pool.ceiling, pool.weight) = (floor, ceiling, weight);
            pool.demands.push(crate::Demand::new(1.0, 1.0));
            pool.grants.push(0.0);
            pool
        });
        View {
            memory,
            resources: vec![Resource { name: "reads".into(), total: 90.0 }],
            pools: pools.collect(),
            ..View::default()
        }
    }

    fn sizes(decision: &Decision) -> Vec<u64> {
        decision.grants.iter().map(|grant| grant.memory).collect()
    }

    #[test]
    fn equal_shares_are_equal_and_weighted_ones_are_not() {
        let view = view(900, &[(0, u64::MAX, 1.0), (0, u64::MAX, 2.0)]);
        assert_eq!(sizes(&Equal.decide(&view)), [450, 450]);
        assert_eq!(sizes(&Weighted.decide(&view)), [300, 600]);
        assert_eq!(Weighted.decide(&view).grants[1].resources, [60.0]);
    }

    #[test]
    fn floors_and_ceilings_hold_and_the_others_share_the_rest() {
        let view = view(900, &[(500, u64::MAX, 1.0), (0, 100, 1.0), (0, u64::MAX, 1.0)]);
        assert_eq!(sizes(&Equal.decide(&view)), [500, 100, 300]);
    }

    proptest! {
        #[test]
        fn all_memory_is_given_and_bounds_hold(
            memory in 0_u64..1 << 40,
            pools in proptest::collection::vec((0.0_f64..1.0, 0.0_f64..2.0, 0.01_f64..10.0), 1..20),
        ) {
            let n = pools.len() as f64;
            let bounds: Vec<_> = pools.iter().map(|&(floor, above, weight)| {
                let floor = (floor * memory as f64 / n) as u64;
                (floor, floor + (above * memory as f64) as u64, weight)
            }).collect();
            let view = view(memory, &bounds);
            let decision = Weighted.decide(&view);
            let ceilings: u64 = bounds.iter().map(|bound| bound.1).sum();
            prop_assert_eq!(sizes(&decision).iter().sum::<u64>(), memory.min(ceilings));
            for (grant, bound) in decision.grants.iter().zip(&bounds) {
                prop_assert!((bound.0..=bound.1).contains(&grant.memory));
            }
        }
    }
}

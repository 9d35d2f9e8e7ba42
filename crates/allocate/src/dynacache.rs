//! Dynacache's solver: memory goes to the pool in which one more unit saves most misses. Cidon,
//! Eisenman, Alizadeh and Katti, "Dynacache: Dynamic Cloud Caching", HotCloud '15; the problem is
//! equation 1 of Cliffhanger (NSDI '16, section 2.1): maximise the sum of weight, request rate and
//! hit rate of all queues, with their memory bounded.
//!
//! Curves are assumed to be piecewise linear and concave. A curve that is not is replaced by its
//! hull, the lowest concave curve above it. Dynacache uses a convex solver; for such curves, taking
//! the pieces of all curves by their slope is exact, which needs a sort and no solver. A cache that
//! does not split its queues falls short of the hull on a cliff. That is why the solver loses in
//! the paper's application 19, and why [`crate::talus::OnHulls`] does not.

use std::cmp::Ordering;

use crate::rank::in_order_of_names;
use crate::view::{Pool, View};
use crate::{Decision, Grant, Policy, partition};

/// Memory by the hulls of curves, for caches that do not split their queues.
///
/// The decision's outcomes are those of the curves themselves, which on a cliff are worse than the
/// hulls that the decision is based on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dynacache;

impl Policy for Dynacache {
    fn name(&self) -> &'static str {
        "dynacache"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| Decision::by_worth(view, solve(view), |_, _| String::new()))
    }
}

/// A piece of a curve: a number of bytes, and the misses per second that each of them saves,
/// `w_i f_i h_i'(m_i)`.
#[derive(Clone, Copy, Debug)]
struct Piece {
    pool: usize,
    bytes: u64,
    gain_per_byte: f64,
}

/// Equation 1 over hulls: `maximise Σ w_i f_i h_i(m_i)` where `Σ m_i ≤ M`. The best memory for each
/// pool of `view` by the hulls of their curves, within floors and ceilings; the other resources
/// stay as they are.
///
/// Memory that saves nothing stays with its present pool; the remaining memory is shared equally,
/// up to ceilings. Costs a sort of the points of all hulls.
pub fn solve(view: &View) -> Vec<Grant> {
    let mut sizes: Vec<u64> = view.pools.iter().map(|pool| pool.floor).collect();
    let mut left = view.memory.saturating_sub(sizes.iter().sum());
    let mut pieces: Vec<Piece> =
        view.pools.iter().enumerate().flat_map(|(i, pool)| pieces(i, pool)).collect();
    // The sort is stable, so that pieces of one pool that are equally steep stay in their order.
    pieces.sort_by(|a, b| b.gain_per_byte.partial_cmp(&a.gain_per_byte).unwrap_or(Ordering::Equal));
    for piece in pieces.iter().filter(|piece| piece.gain_per_byte > 0.0) {
        let bytes = piece.bytes.min(left);
        sizes[piece.pool] += bytes;
        left -= bytes;
    }
    let grants = view.pools.iter().zip(settle(view, sizes));
    grants.map(|(pool, memory)| Grant { memory, resources: pool.grants.clone() }).collect()
}

/// Sizes of which each saves all that it can, and the memory that saves nothing: as much as
/// possible stays with its present pool, and the rest is shared equally, up to ceilings.
pub(crate) fn settle(view: &View, mut sizes: Vec<u64>) -> Vec<u64> {
    let mut left = view.memory.saturating_sub(sizes.iter().sum());
    for (pool, size) in view.pools.iter().zip(&mut sizes) {
        let kept = pool.size.min(pool.ceiling).saturating_sub(*size).min(left);
        *size += kept;
        left -= kept;
    }
    if left > 0 { shared_out(view, &sizes) } else { sizes }
}

/// The pieces of a pool's hull between its floor and its ceiling, the steepest first.
fn pieces(index: usize, pool: &Pool) -> impl Iterator<Item = Piece> {
    let hull = pool.curve.hull();
    let rate = pool.weight * pool.request_rate;
    let ends: Vec<u64> = hull.points().iter().map(|point| point.size).collect();
    let mut from = pool.floor;
    let ceiling = pool.ceiling;
    ends.into_iter().filter_map(move |end| {
        let end = end.min(ceiling);
        let bytes = end.checked_sub(from).filter(|bytes| *bytes > 0)?;
        let gain_per_byte = rate * hull.gain_per_unit(from as f64);
        from = end;
        Some(Piece { pool: index, bytes, gain_per_byte })
    })
}

/// All memory of the view, with no pool below `sizes`.
fn shared_out(view: &View, sizes: &[u64]) -> Vec<u64> {
    let mut raised = view.clone();
    for (pool, size) in raised.pools.iter_mut().zip(sizes) {
        pool.floor = *size;
    }
    let equally = vec![1.0; sizes.len()];
    partition::shares(&raised, &equally).into_iter().map(|grant| grant.memory).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use curve::{MissRatioCurve, Point, Unit};
    use proptest::prelude::*;

    /// A pool with a curve through these points, and this many requests per second.
    pub(crate) fn pool(points: &[(u64, f64)], rate: f64) -> Pool {
        let points = points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
        let mut pool = Pool::new("p", MissRatioCurve::new(Unit::Bytes, points).unwrap(), 0);
        pool.request_rate = rate;
        pool
    }

    /// The points of a curve that falls by these steps: of width, and by miss ratio.
    pub(crate) fn falling(steps: &[(u64, f64)]) -> Vec<(u64, f64)> {
        let (mut size, mut miss_ratio) = (0, 1.0_f64);
        let point = |&(width, fall): &(u64, f64)| {
            (size, miss_ratio) = (size + width, (miss_ratio - fall).max(0.0));
            (size, miss_ratio)
        };
        steps.iter().map(point).collect()
    }

    fn sizes(view: &View) -> Vec<u64> {
        view.validate().unwrap();
        solve(view).iter().map(|grant| grant.memory).collect()
    }

    #[test]
    fn memory_goes_where_curves_are_steepest() {
        let mut view = View { memory: 100, ..View::default() };
        view.pools =
            vec![pool(&[(50, 0.5), (200, 0.2)], 10.0), pool(&[(50, 0.2)], 10.0), pool(&[(1000, 0.0)], 1.0)];
        assert_eq!(sizes(&view), [50, 50, 0]);
        view.memory = 120;
        assert_eq!(sizes(&view), [70, 50, 0]);
        view.pools[2].weight = 200.0;
        assert_eq!(sizes(&view), [0, 0, 120], "weights count as rates do");
    }

    #[test]
    fn what_saves_nothing_stays_where_it_is() {
        let mut view = View { memory: 1000, ..View::default() };
        view.pools = vec![pool(&[(100, 0.0)], 1.0), pool(&[(100, 0.0)], 1.0)];
        (view.pools[0].size, view.pools[1].size) = (700, 300);
        assert_eq!(sizes(&view), [700, 300]);
        assert!(Dynacache.decide(&view).moves.is_empty());
        view.pools[0].size = 0;
        assert_eq!(sizes(&view), [500, 500], "what nobody has is shared equally");
    }

    /// Section 3.5: a solver that takes a curve for its hull misjudges a queue on a cliff.
    #[test]
    fn a_cliff_is_taken_for_its_hull() {
        let mut view = View { memory: 600, ..View::default() };
        view.pools = vec![pool(&[(900, 0.9), (1000, 0.1)], 10.0), pool(&[(1000, 0.5)], 10.0)];
        let decision = Dynacache.decide(&view);
        assert_eq!(decision.grants[0].memory, 600);
        assert!(decision.after[0].miss_ratio > 0.93, "the cliff is not reached");
    }

    /// The best total over all splits into whole units, by dynamic programming.
    fn brute_force(view: &View) -> f64 {
        let hulls: Vec<_> = view.pools.iter().map(|pool| pool.curve.hull()).collect();
        let memory = view.memory as usize;
        let mut best = vec![0.0_f64; memory + 1];
        for (pool, hull) in view.pools.iter().zip(&hulls) {
            let mut next = vec![f64::NEG_INFINITY; memory + 1];
            for (used, so_far) in best.iter().enumerate() {
                for own in pool.floor..=pool.ceiling.min((memory - used) as u64) {
                    let hits = pool.weight * pool.request_rate * (1.0 - hull.miss_ratio(own as f64));
                    let at = used + own as usize;
                    next[at] = next[at].max(so_far + hits);
                }
            }
            best = next;
        }
        best.into_iter().fold(f64::NEG_INFINITY, f64::max)
    }

    proptest! {
        #[test]
        fn greedy_is_exact_on_hulls(
            memory in 1_u64..60,
            pools in prop::collection::vec(
                (prop::collection::vec((1_u64..12, 0.0..0.4_f64), 1..6), 0.0..5.0_f64, 0.0..2.0_f64, 0_u64..8, 0_u64..40),
                1..5,
            ),
        ) {
            let mut view = View { memory, ..View::default() };
            view.pools = pools.iter().map(|(steps, rate, weight, floor, above)| {
                let mut pool = pool(&falling(steps), *rate);
                (pool.weight, pool.floor, pool.ceiling) = (*weight, *floor, floor + above);
                pool
            }).collect();
            prop_assume!(view.validate().is_ok());
            let sizes = sizes(&view);
            prop_assert!(sizes.iter().sum::<u64>() <= memory);
            let total: f64 = view.pools.iter().zip(&sizes).map(|(pool, size)| {
                assert!((pool.floor..=pool.ceiling).contains(size));
                pool.weight * pool.request_rate * (1.0 - pool.curve.hull().miss_ratio(*size as f64))
            }).sum();
            let best = brute_force(&view);
            prop_assert!((total - best).abs() <= 1e-9 * (1.0 + best), "{total} against {best}: {sizes:?}");
        }
    }
}

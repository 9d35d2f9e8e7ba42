//! HARE's fairness if memory alone moves: the highest least normalised throughput.
//!
//! Ye et al., "Cache-Centric Multi-Resource Allocation for Storage Services", FAST 2026, section
//! 3.1, want the pool that gains least over its own share to gain most. [`crate::hare`] trades
//! memory for backend units to get there. If each pool keeps a backend of its own, its throughput
//! is what that backend carries, in inverse proportion to its miss ratio. So a pool's normalised
//! throughput, its *lift*, is its miss ratio with its share by weight, divided by that with its
//! grant. Every lift is 1 or more by the curves (the sharing incentive), the least lift is the
//! highest that there is, and then the least of the others, for eight such levels at most. Memory
//! comes from pools that do not need all of their shares for what they have; if none has such
//! memory, the shares by weight stand.
//!
//! As in HARE, an idle pool keeps its share, and [`Fair::salt`] keeps lifts near a miss ratio of 0
//! from counting without bound (section 4.3).

use crate::rank::in_order_of_names;
use crate::view::{Pool, View};
use crate::{Decision, Grant, Policy, dynacache, fairness};

/// Levels at which a cliff may hold some pools back while others rise. Each costs a bisection.
const MOST_LEVELS: usize = 8;
/// Halvings of the interval in which a level lies.
const HALVINGS: usize = 60;
/// A pool that cannot have this part more lift stays at its level.
const RISE: f64 = 1e-6;

/// The highest least lift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fair {
    /// Added to each miss ratio. Default: 0.01, as in HARE.
    pub salt: f64,
}

impl Default for Fair {
    fn default() -> Self {
        Self { salt: 0.01 }
    }
}

impl Policy for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let claims = claims(view, self.salt);
            let sizes = dynacache::settle(view, highest(&claims, view.memory));
            let lifts: Vec<f64> =
                claims.iter().zip(&sizes).map(|(claim, size)| claim.lift(*size as f64)).collect();
            let grants = view.pools.iter().zip(sizes);
            let grants = grants.map(|(pool, memory)| Grant { memory, resources: pool.grants.clone() });
            Decision::by_place(view, grants.collect(), |from, to| reason(view, &lifts, from, to))
        })
    }
}

fn reason(view: &View, lifts: &[f64], from: Option<usize>, to: Option<usize>) -> String {
    let name = |place: usize| &view.pools[place].name;
    match (from, to) {
        (_, Some(to)) => {
            format!("{} then serves {:.2} times as much as with its own share", name(to), lifts[to])
        }
        (Some(from), None) => {
            format!("{} still serves {:.2} times as much as with its own share", name(from), lifts[from])
        }
        (None, None) => String::new(),
    }
}

/// The sizes that a pool needs for lifts.
struct Claim<'a> {
    pool: &'a Pool,
    salt: f64,
    /// Its share by weight, in bytes.
    share: u64,
    /// The salted miss ratio with its share.
    missed: f64,
    /// The least size that misses as rarely as the most that it may have.
    best: u64,
}

fn claims(view: &View, salt: f64) -> Vec<Claim<'_>> {
    let shares = fairness::baseline(view);
    let claims = view.pools.iter().zip(shares).map(|(pool, share)| {
        let missed = pool.curve.miss_ratio(share.memory as f64) + salt;
        let most = pool.ceiling.min(view.memory).max(pool.floor);
        let best = least_size(pool, pool.curve.miss_ratio(most as f64)).clamp(pool.floor, most);
        Claim { pool, salt, share: share.memory, missed, best }
    });
    claims.collect()
}

impl Claim<'_> {
    /// The lift that a size gives.
    fn lift(&self, size: f64) -> f64 {
        let missed = self.pool.curve.miss_ratio(size) + self.salt;
        if missed > 0.0 { self.missed / missed } else { 1.0 }
    }

    /// The least size with a lift, or the best one if there is none.
    fn size(&self, lift: f64) -> u64 {
        let size = least_size(self.pool, self.missed / lift - self.salt).max(self.pool.floor).min(self.best);
        // By the last bit of a quotient, the share itself may seem too little for a lift of 1.
        if lift > 1.0 { size } else { size.min(self.share) }
    }
}

/// The least size, in whole bytes, at which the pool's curve is at `miss_ratio` or below; the end
/// of the curve if that is nowhere.
fn least_size(pool: &Pool, miss_ratio: f64) -> u64 {
    let points = pool.curve.points();
    let after = points.partition_point(|point| point.miss_ratio > miss_ratio);
    let Some(right) = points.get(after) else { return pool.curve.max_size() };
    let Some(left) = after.checked_sub(1).map(|before| points[before]) else { return right.size };
    let share = (left.miss_ratio - miss_ratio) / (left.miss_ratio - right.miss_ratio);
    let size = left.size + (share * (right.size - left.size) as f64).ceil() as u64;
    size.min(right.size)
}

/// Sizes of the highest least lift, and of the highest next to that for those that can have it.
fn highest(claims: &[Claim<'_>], memory: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = claims.iter().map(|claim| claim.size(1.0)).collect();
    let mut free: Vec<usize> = (0..claims.len()).collect();
    let mut memory = memory;
    for _ in 0..MOST_LEVELS {
        let needed = |lift: f64| free.iter().map(|&i| claims[i].size(lift)).fold(0, u64::saturating_add);
        let all = |i: &usize| claims[*i].lift(claims[*i].best as f64);
        let (mut level, mut above) = (1.0, free.iter().map(all).fold(1.0, f64::max));
        if needed(above) <= memory {
            level = above;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(level, above);
            if needed(middle) <= memory { level = middle } else { above = middle }
        }
        free.iter().for_each(|&i| sizes[i] = claims[i].size(level));
        let spare = memory.saturating_sub(needed(level));
        let rises = |i: &usize| {
            let more = claims[*i].size(level * (1.0 + RISE)) - sizes[*i];
            sizes[*i] < claims[*i].best && more <= spare
        };
        let (rising, held): (Vec<usize>, Vec<usize>) = free.iter().copied().partition(rises);
        if rising.is_empty() || held.is_empty() {
            break;
        }
        memory -= held.iter().map(|&i| sizes[i]).sum::<u64>();
        free = rising;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynacache::tests::{falling, pool};
    use proptest::prelude::*;

    fn view(memory: u64, pools: Vec<Pool>) -> View {
        let mut view = View { memory, pools, ..View::default() };
        for (at, pool) in view.pools.iter_mut().enumerate() {
            pool.name = format!("p{at}").into();
        }
        view.validate().unwrap();
        view
    }

    fn sizes(view: &View) -> Vec<u64> {
        Fair::default().decide(view).grants.iter().map(|grant| grant.memory).collect()
    }

    #[test]
    fn what_one_does_not_need_lifts_all_others_alike() {
        let small = pool(&[(100, 0.1)], 1.0);
        let (wide, wider) = (pool(&[(3000, 0.0)], 50.0), pool(&[(6000, 0.4)], 1.0));
        let view = view(3000, vec![small, wide, wider]);
        let sizes = sizes(&view);
        assert_eq!(sizes[0], 100, "it misses no more than with a third of the memory");
        let lifts: Vec<f64> =
            claims(&view, 0.01).iter().zip(&sizes).map(|(claim, &size)| claim.lift(size as f64)).collect();
        assert!(lifts[1] > 1.05 && (lifts[1] - lifts[2]).abs() < 0.01, "{lifts:?}");
    }

    #[test]
    fn nobody_loses_for_the_sake_of_others() {
        let view = view(1000, vec![pool(&[(1000, 0.0)], 1.0), pool(&[(1000, 0.0)], 1000.0)]);
        assert_eq!(sizes(&view), [500, 500], "all need all of their shares");
        let mut weighted = view;
        weighted.pools[1].weight = 3.0;
        assert_eq!(sizes(&weighted), [250, 750]);
    }

    #[test]
    fn a_cliff_out_of_reach_holds_nobody_else_back() {
        let cliff = pool(&[(899, 1.0), (900, 0.1)], 1.0);
        let view = view(1000, vec![cliff, pool(&[(1000, 0.0)], 1.0)]);
        assert_eq!(sizes(&view), [0, 1000]);
    }

    proptest! {
        /// Nobody misses more than with its share, and no other allocation has a higher least lift.
        #[test]
        fn the_least_lift_is_the_highest(
            memory in 3_u64..40,
            pools in prop::collection::vec(
                (prop::collection::vec((1_u64..12, 0.0..0.4_f64), 1..6), 0_u64..3, 0.1..2.0_f64),
                3,
            ),
        ) {
            let pools = pools.iter().map(|(steps, floor, weight)| {
                let mut pool = pool(&falling(steps), 1.0);
                (pool.floor, pool.weight) = ((*floor).min(memory / 3), *weight);
                pool
            });
            let view = view(memory, pools.collect());
            let sizes = sizes(&view);
            prop_assert!(sizes.iter().sum::<u64>() <= memory);
            let claims = claims(&view, 0.01);
            let least = |sizes: &[u64]| {
                let lifts = claims.iter().zip(sizes).map(|(claim, &size)| claim.lift(size as f64));
                lifts.fold(f64::INFINITY, f64::min)
            };
            let ours = least(&sizes);
            prop_assert!(ours >= 1.0 - 1e-9, "{sizes:?} give {ours}");
            let floors = [0, 1, 2].map(|i| view.pools[i].floor);
            for a in floors[0]..=memory {
                for b in floors[1]..=memory.saturating_sub(a) {
                    let c = memory - a - b;
                    prop_assert!(c < floors[2] || least(&[a, b, c]) <= ours + 1e-6, "{sizes:?}: {a}, {b}, {c}");
                }
            }
        }
    }
}

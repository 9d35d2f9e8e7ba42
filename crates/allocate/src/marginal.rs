//! CacheLib's marginal hits: memory goes, step by step, from the pool whose last step of memory has
//! fewest hits to the one whose last step has most (`CacheLib`, `MarginalHitsOptimizeStrategy`,
//! sources as of 2026).
//!
//! Candidates are compared by smoothed ranks of their hits in the last step of their memory. With
//! ranks alone some candidate is always the lowest and some the highest, and memory moves in every
//! round, for ever ([`MarginalHits::as_in_cachelib`]). So the hits themselves must also differ by
//! two thresholds, and a recent receiver cannot be a victim for some rounds.
//!
//! The strategy's steps: the tail hits of each candidate (`tail_hits`), their ranks and the moving
//! average of them ([`Ranks::update`]), the lowest candidate that may give as victim and the
//! highest that may take as receiver (`pick`).
//!
//! The engine's rebalancer and optimizer, which see counted hits rather than curves, rank by the
//! same [`Ranks`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rank::in_order_of_names;
use crate::view::{Pool, View};
use crate::{Decision, Grant, Policy, partition};

/// The ranks of candidates by a score, as moving averages over rounds. The lowest score has rank 0.
#[derive(Clone, Debug)]
pub struct Ranks<K>(BTreeMap<K, f64>);

impl<K> Default for Ranks<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Ranks<K> {
    /// Ranks the scores and folds the ranks in: `keep` of the old average and `1 - keep` of the new
    /// rank. Equal scores share the mean of their ranks, so that none precedes another. A new
    /// candidate has the rank itself; a missing one is forgotten.
    pub fn update<S: PartialOrd>(&mut self, mut scores: Vec<(K, S)>, keep: f64) {
        scores.sort_by(|(_, a), (_, b)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        let mut smoothed = BTreeMap::new();
        let mut first = 0;
        for tied in scores.chunk_by(|a, b| a.1 == b.1) {
            let rank = first as f64 + (tied.len() - 1) as f64 / 2.0;
            first += tied.len();
            for (who, _) in tied {
                let average = self.0.get(who).map_or(rank, |old| keep * old + (1.0 - keep) * rank);
                smoothed.insert(*who, average);
            }
        }
        self.0 = smoothed;
    }

    /// The smoothed rank; 0 for a candidate that was not ranked.
    pub fn of(&self, who: K) -> f64 {
        self.0.get(&who).copied().unwrap_or(0.0)
    }
}

/// A policy that moves a step of memory per round from the pool that would lose least to the one
/// that would gain most.
#[derive(Clone, Debug)]
pub struct MarginalHits {
    /// The bytes that move at once. Default none: a 64th of the mean memory per pool, which is a
    /// slab at 256 MiB per pool. A fixed step is more than a small pool can give. `CacheLib`: a
    /// slab of 4 MiB.
    pub step_bytes: Option<u64>,
    /// The weight of the old average rank. Default 0.3.
    pub moving_average: f64,
    /// Least difference of the hits per second in the last step. Default 1; `CacheLib`: none.
    pub min_difference: f64,
    /// Least difference of these hits, as a part of the receiver's. Default 0.1; `CacheLib`: none.
    pub min_difference_ratio: f64,
    /// Rounds for which a receiver cannot be a victim. Default 10; `CacheLib`: none.
    pub hold_off_rounds: u32,
    /// The number of each pool, by name: the count of pools seen before it.
    numbers: BTreeMap<Arc<str>, usize>,
    seen: usize,
    ranks: Ranks<usize>,
    /// The rounds for which a pool cannot be a victim, by its number.
    hold_off: BTreeMap<usize, u32>,
}

impl Default for MarginalHits {
    fn default() -> Self {
        Self {
            step_bytes: None,
            moving_average: 0.3,
            min_difference: 1.0,
            min_difference_ratio: 0.1,
            hold_off_rounds: 10,
            numbers: BTreeMap::new(),
            seen: 0,
            ranks: Ranks::default(),
            hold_off: BTreeMap::new(),
        }
    }
}

impl MarginalHits {
    /// Creates the policy without thresholds and hold-off.
    pub fn as_in_cachelib() -> Self {
        Self {
            step_bytes: Some(4 << 20),
            min_difference: 0.0,
            min_difference_ratio: 0.0,
            hold_off_rounds: 0,
            ..Self::default()
        }
    }

    /// The bytes that move at once among the pools of a view, at least 1.
    fn step(&self, view: &View) -> u64 {
        self.step_bytes.unwrap_or((view.mean_share() / 64.0) as u64).max(1)
    }

    /// Hits per second in the last step of the memory of `pool`: the cost of a step less.
    fn tail_hits(&self, pool: &Pool, size: u64, step: u64) -> f64 {
        let less = size.saturating_sub(step) as f64;
        pool.weight * pool.request_rate * (pool.curve.miss_ratio(less) - pool.curve.miss_ratio(size as f64))
    }

    /// The number of each pool, which does not depend on its place in a view.
    fn numbers(&mut self, view: &View) -> Vec<usize> {
        let mut known = std::mem::take(&mut self.numbers);
        for pool in &view.pools {
            let number = known.remove(&pool.name).unwrap_or_else(|| {
                self.seen += 1;
                self.seen - 1
            });
            self.numbers.insert(pool.name.clone(), number);
        }
        view.pools.iter().map(|pool| self.numbers[&pool.name]).collect()
    }

    /// Chooses the pool that gives a step and the pool that receives it.
    fn pick(&self, view: &View, numbers: &[usize], sizes: &[u64], hits: &[f64]) -> Option<(usize, usize)> {
        let step = self.step(view);
        let rank = |i: &usize| self.ranks.of(numbers[*i]);
        let may_give = |i: &usize| {
            sizes[*i] >= view.pools[*i].floor.saturating_add(step)
                && !self.hold_off.contains_key(&numbers[*i])
        };
        let victim =
            (0..sizes.len()).filter(may_give).reduce(|a, b| if rank(&b) < rank(&a) { b } else { a })?;
        let may_take = |i: &usize| {
            let pool = &view.pools[*i];
            let unused = pool.size.saturating_sub(pool.used);
            *i != victim && sizes[*i].saturating_add(step) <= pool.ceiling && unused < step
        };
        let receiver =
            (0..sizes.len()).filter(may_take).reduce(|a, b| if rank(&b) > rank(&a) { b } else { a })?;
        let has_threshold = self.min_difference > 0.0 || self.min_difference_ratio > 0.0;
        let difference = hits[receiver] - hits[victim];
        let is_enough = !has_threshold
            || difference >= self.min_difference && difference >= self.min_difference_ratio * hits[receiver];
        (rank(&receiver) > rank(&victim) && is_enough).then_some((victim, receiver))
    }
}

impl Policy for MarginalHits {
    fn name(&self) -> &'static str {
        "marginal-hits"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let mut sizes = partition::present(view);
            let step = self.step(view);
            let hits = view.pools.iter().zip(&sizes).map(|(pool, &size)| self.tail_hits(pool, size, step));
            let hits: Vec<f64> = hits.collect();
            let numbers = self.numbers(view);
            self.ranks
                .update(numbers.iter().copied().zip(hits.iter().copied()).collect(), self.moving_average);
            let picked = self.pick(view, &numbers, &sizes, &hits);
            self.hold_off.retain(|_, rounds| {
                *rounds -= 1;
                *rounds > 0
            });
            if let Some((victim, receiver)) = picked {
                sizes[victim] -= step;
                sizes[receiver] += step;
                if self.hold_off_rounds > 0 {
                    self.hold_off.insert(numbers[receiver], self.hold_off_rounds);
                }
            }
            let grants = view.pools.iter().zip(sizes);
            let grants =
                grants.map(|(pool, memory)| Grant { memory, resources: pool.grants.clone() }).collect();
            Decision::to(view, grants, |from, to| {
                let words = |pool: &Pool| {
                    format!(
                        "{} has {:.1} hits/s in its last step",
                        pool.name,
                        self.tail_hits(pool, pool.size, step)
                    )
                };
                let words: Vec<String> = from.into_iter().chain(to).map(words).collect();
                words.join(", and ")
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve::{MissRatioCurve, Point, Unit};

    fn all(ranks: &Ranks<u16>) -> Vec<(u16, f64)> {
        ranks.0.iter().map(|(who, rank)| (*who, (rank * 1e6).round() / 1e6)).collect()
    }

    #[test]
    fn ranks_are_averages_over_rounds() {
        let mut ranks = Ranks::default();
        ranks.update(vec![(1, 50), (2, 10), (3, 99)], 0.3);
        assert_eq!(all(&ranks), [(1, 1.0), (2, 0.0), (3, 2.0)]);
        ranks.update(vec![(1, 50), (2, 100), (3, 0)], 0.3);
        assert_eq!(all(&ranks), [(1, 1.0), (2, 1.4), (3, 0.6)]);
        ranks.update(vec![(1, 50), (2, 100)], 0.3);
        assert_eq!(all(&ranks), [(1, 0.3), (2, 1.12)]);
        assert_eq!(ranks.of(3), 0.0, "who is gone is forgotten");
    }

    #[test]
    fn equal_scores_have_one_rank() {
        let mut ranks = Ranks::default();
        ranks.update(vec![(1, 7), (2, 7), (3, 7), (4, 9)], 0.3);
        assert_eq!(all(&ranks), [(1, 1.0), (2, 1.0), (3, 1.0), (4, 3.0)]);
    }

    fn view() -> View {
        let mib = 1 << 20;
        let pool = |name: &str, working_set: u64, size: u64, rate: f64| {
            // Misses fall ever more slowly.
            let points = (1..=50).map(|i| Point {
                size: working_set * mib * i / 50,
                miss_ratio: (1.0 - i as f64 / 50.0).powi(2),
            });
            let mut pool = Pool::new(name, MissRatioCurve::new(Unit::Bytes, points).unwrap(), size * mib);
            (pool.request_rate, pool.floor) = (rate, 4 * mib);
            pool
        };
        let pools = vec![pool("wide", 400, 100, 1000.0), pool("narrow", 100, 100, 1000.0)];
        View { memory: 200 * mib, pools, ..View::default() }
    }

    fn rounds(policy: &mut MarginalHits, view: &mut View, rounds: usize) -> usize {
        let mut moved = 0;
        for _ in 0..rounds {
            let decision = policy.decide(view);
            moved += decision.moves.len();
            for (pool, grant) in view.pools.iter_mut().zip(&decision.grants) {
                (pool.size, pool.used) = (grant.memory, grant.memory);
            }
        }
        moved
    }

    #[test]
    fn a_step_goes_where_it_is_hit_most_and_the_reason_says_how_often() {
        let mut view = view();
        for (policy, bytes) in
            [(MarginalHits::default(), 1_638_400), (MarginalHits::as_in_cachelib(), 4 << 20)]
        {
            let decision = policy.clone().decide(&view);
            let step = &decision.moves[0];
            assert_eq!((step.from, step.to, step.bytes), (Some(1), Some(0), bytes));
            assert!(step.reason.contains("wide has") && step.gain > 0.0, "{step:?}");
        }
        view.pools[0].used = 50 << 20;
        assert!(MarginalHits::default().decide(&view).moves.is_empty(), "it has not filled what it has");
    }

    #[test]
    fn it_comes_to_rest_and_cachelibs_does_not() {
        let (mut ours, mut theirs) = (view(), view());
        let (mut policy, mut as_in_cachelib) = (MarginalHits::default(), MarginalHits::as_in_cachelib());
        rounds(&mut policy, &mut ours, 200);
        rounds(&mut as_in_cachelib, &mut theirs, 200);
        assert_eq!(rounds(&mut policy, &mut ours, 50), 0);
        assert!(rounds(&mut as_in_cachelib, &mut theirs, 50) > 10);
        // Equally steep at 1 - x = 4 (1 - y) with 4x + y = 2: x = 0.29, y = 0.82.
        let share = ours.pools[0].size as f64 / ours.memory as f64;
        assert!((share - 0.59).abs() < 0.04, "{share}");
    }

    #[test]
    fn floors_and_ceilings_hold() {
        let mut view = view();
        view.pools[1].floor = 90 << 20;
        rounds(&mut MarginalHits::default(), &mut view, 100);
        let step = view.memory / 128;
        assert!((90 << 20..(90 << 20) + step).contains(&view.pools[1].size), "{}", view.pools[1].size);
    }

    /// A share of less than a slab used to be less than a step, and nothing ever moved.
    #[test]
    fn shares_of_less_than_a_slab_come_to_the_same_as_large_ones() {
        let shares = [1, 1 << 10].map(|scale| {
            let mib = scale << 10;
            let pool = |name: &str, working_set: u64| {
                let curve = MissRatioCurve::uniform(Unit::Bytes, working_set * mib);
                let mut pool = Pool::new(name, curve, 100 * mib);
                pool.request_rate = 1000.0;
                pool
            };
            let mut view = View { memory: 200 * mib, ..View::default() };
            view.pools = vec![pool("narrow", 110), pool("wide", 800)];
            rounds(&mut MarginalHits::default(), &mut view, 100);
            view.pools[0].size as f64 / view.memory as f64
        });
        assert!(shares[0] > 0.54, "the narrow one has what it can use: {shares:?}");
        assert!((shares[0] - shares[1]).abs() < 1e-3, "{shares:?}");
    }
}

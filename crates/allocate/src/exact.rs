//! Sizes of the greatest total worth, for worths of any shape, with a bound on the distance from
//! the optimum.
//!
//! The fill over hulls ([`hull::fill`]) is exact if worths are concave. Otherwise it is an upper
//! bound on the optimum, and errs in one pool only: the one at which memory ended within a piece of
//! its hull. So the solver branches and bounds: it cuts the range of that pool in two at the size
//! that the pool got, so that the hulls of both halves lie closer to the worth, and then handles
//! the open range with the highest bound. Each fill is also a proposal; exchanges between two
//! pools, from large amounts to small ones, improve it until none brings a gain. Once no open range
//! promises more than the best proposal, that proposal is the result.
//!
//! HOLPACA's annealer solves the same problem ([`anneal`](crate::anneal)); this solver is its
//! reference.

use std::collections::BinaryHeap;
use std::rc::Rc;

use crate::hull::{self, Corners, Filled};
use crate::problem::Problem;

/// Sizes, their worth, and an upper bound on the worth of any sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The size of each pool, in bytes.
    pub sizes: Vec<u64>,
    /// Their total worth.
    pub value: f64,
    /// An upper bound on the worth, by the hulls. It covers all sizes if worths are linear between
    /// points, and only the sampled sizes if worths are smooth.
    pub bound: f64,
}

impl Solution {
    /// Returns whether no sizes covered by [`Self::bound`] can be better, to within rounding.
    pub fn is_optimal(&self) -> bool {
        self.bound - self.value <= 1e-9 * self.bound.abs()
    }
}

/// Most ranges to cut in two; a proof of the last thousandth may take very many more.
const CUTS: usize = 300;
/// For more pools than this the fill over hulls suffices: it errs in only one of them, by no more
/// than [`Solution::bound`] shows.
const MANY_POOLS: usize = 500;
/// Exchanges to try on a proposal, and on the result.
const QUICK_LOOKS: usize = 60;
const THOROUGH_LOOKS: usize = 4_000;

/// Solves `problem`. The result is nearly always optimal; [`Solution::bound`] shows its distance
/// from the optimum.
///
/// Costs `O(S)` for `S` points if worths are concave or there are more than 500 pools; otherwise up
/// to 600 times that. 10,000 pools of 64 points take some tens of milliseconds, and so do 32 pools
/// with worths of any shape.
///
/// # Panics
/// If the least sizes add up to more than the memory.
pub fn solve(problem: &Problem) -> Solution {
    let hulls: Vec<Rc<Corners>> = hull::hulls(problem).map(Rc::new).collect();
    let root = Range::new(problem.total(), hulls);
    let mut bound = root.filled.bound;
    let mut best = Proposal { value: problem.value(&root.filled.sizes), sizes: root.filled.sizes.clone() };
    let is_open = |bound: f64, best: &Proposal| bound - best.value > 1e-9 * bound.abs();
    if problem.choices.len() <= MANY_POOLS {
        best.better(problem, &root.filled.sizes, THOROUGH_LOOKS);
        let mut open = BinaryHeap::from([root]);
        for _ in 0..CUTS {
            bound = open.peek().map_or(best.value, |range| range.filled.bound);
            if !is_open(bound, &best) {
                break;
            }
            let halves = open.pop().map_or_else(Vec::new, |range| range.halves(problem));
            for half in halves {
                best.better(problem, &half.filled.sizes, QUICK_LOOKS);
                open.push(half);
            }
        }
        let sizes = best.sizes.clone();
        best.better(problem, &sizes, THOROUGH_LOOKS);
    }
    Solution { bound: bound.max(best.value), sizes: best.sizes, value: best.value }
}

/// The best sizes so far.
struct Proposal {
    value: f64,
    sizes: Vec<u64>,
}

impl Proposal {
    /// Takes `sizes`, improved by exchanges, if they are worth more. Exchanges are tried only if
    /// they might suffice.
    fn better(&mut self, problem: &Problem, sizes: &[u64], looks: usize) {
        if problem.value(sizes) < 0.9 * self.value {
            return;
        }
        let sizes = exchanged(problem, sizes.to_vec(), looks);
        let value = problem.value(&sizes);
        if value > self.value {
            *self = Self { value, sizes };
        }
    }
}

/// A part of the feasible region: a range of sizes for each pool, with the hull over it.
struct Range {
    hulls: Vec<Rc<Corners>>,
    filled: Filled,
}

impl Range {
    fn new(total: u64, hulls: Vec<Rc<Corners>>) -> Self {
        let filled = hull::fill_over(total, hulls.iter().map(|corners| &**corners));
        Self { hulls, filled }
    }

    /// The two halves of the range, cut at the size of the pool that lies within a piece of its
    /// hull; none if no pool does.
    fn halves(&self, problem: &Problem) -> Vec<Self> {
        let Some((pool, from, to)) = self.filled.split else { return Vec::new() };
        let (corners, cut) = (&self.hulls[pool], self.filled.sizes[pool]);
        let (low, high) = (corners[0].0, corners[corners.len() - 1].0);
        // Near an end of the piece the hull is almost exact, so a cut in the middle of the piece
        // removes more.
        let near = (to - from) / 16;
        let cut = if cut - from <= near || to - cut <= near { u64::midpoint(from, to) } else { cut };
        let total = problem.total();
        let halves = [(low, cut), (cut, high)].into_iter().filter_map(|(low, high)| {
            let mut hulls = self.hulls.clone();
            hulls[pool] = Rc::new(problem.choices[pool].worth.concave(low, high, hull::detail(problem)));
            let least: u64 = hulls.iter().map(|corners| corners[0].0).sum();
            let most =
                hulls.iter().fold(0_u64, |sum, corners| sum.saturating_add(corners[corners.len() - 1].0));
            (least <= total && total <= most).then(|| Self::new(total, hulls))
        });
        if from < cut && cut < to { halves.collect() } else { Vec::new() }
    }
}

/// Ranges are handled in the order of their bounds.
impl Ord for Range {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.filled.bound.total_cmp(&other.filled.bound)
    }
}

impl PartialOrd for Range {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Range {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Range {}

/// The best sizes of which each is its pool's least size plus a number of chunks, by dynamic
/// programming: the memory above the least sizes is cut into `chunks` equal chunks, and the
/// greatest worth of the first `i` pools with `j` chunks follows from that of the first `i - 1`
/// pools with fewer. Bytes that do not fill a chunk go to the pools with room.
///
/// # Panics
/// If the least sizes add up to more than the memory, or `chunks` is 0.
pub fn by_chunks(problem: &Problem, chunks: u64) -> Vec<u64> {
    let lows: Vec<u64> = problem.choices.iter().map(|choice| choice.low).collect();
    let spare = problem.total().checked_sub(lows.iter().sum()).expect("the least sizes fit into memory");
    let chunk = (spare / chunks).max(1);
    let chunks = (spare / chunk) as usize;

    // The greatest worth of the pools so far with `j` chunks, and the number of chunks that the
    // last pool then has.
    let mut worth = vec![f64::NEG_INFINITY; chunks + 1];
    worth[0] = 0.0;
    let mut taken: Vec<Vec<u32>> = Vec::with_capacity(problem.choices.len());
    for choice in &problem.choices {
        let most = (((choice.high - choice.low) / chunk) as usize).min(chunks);
        let values: Vec<f64> =
            (0..=most).map(|k| choice.worth.value((choice.low + k as u64 * chunk) as f64)).collect();
        let mut with = vec![f64::NEG_INFINITY; chunks + 1];
        let mut took = vec![0_u32; chunks + 1];
        for (j, (with, took)) in with.iter_mut().zip(&mut took).enumerate() {
            for (k, value) in values.iter().enumerate().take(j + 1) {
                let sum = worth[j - k] + value;
                if sum > *with {
                    (*with, *took) = (sum, k as u32);
                }
            }
        }
        worth = with;
        taken.push(took);
    }
    // Not all chunks may fit if the largest sizes are not multiples of a chunk.
    let mut left = (0..=chunks).rev().find(|&j| worth[j] > f64::NEG_INFINITY).unwrap_or(0);
    let mut sizes = lows;
    for (size, took) in sizes.iter_mut().zip(&taken).rev() {
        *size += u64::from(took[left]) * chunk;
        left -= took[left] as usize;
    }
    problem.nearest(&sizes)
}

/// Moves memory between two pools as long as that brings a gain: from the pool that loses least to
/// the pool that gains most, first in large amounts, then in ever smaller ones. Ends after `looks`
/// passes over all pools.
pub fn exchanged(problem: &Problem, mut sizes: Vec<u64>, mut looks: usize) -> Vec<u64> {
    let spare =
        problem.choices.iter().zip(&sizes).map(|(choice, &size)| size - choice.low).max().unwrap_or(0);
    let mut amount = spare;
    while amount > 0 && looks > 0 {
        looks -= 1;
        match exchange(problem, &sizes, amount) {
            Some((from, to, bytes)) => {
                sizes[from] -= bytes;
                sizes[to] += bytes;
            }
            None => amount /= 2,
        }
    }
    sizes
}

/// The best exchange of `amount` bytes, or of as many as fit, between two pools: the giver, the
/// receiver, and the bytes.
fn exchange(problem: &Problem, sizes: &[u64], amount: u64) -> Option<(usize, usize, u64)> {
    // The two best of each side, so that the giver is not the receiver.
    let (mut costs, mut gains) = ([None; 2], [None; 2]);
    for (pool, (choice, &size)) in problem.choices.iter().zip(sizes).enumerate() {
        let value = choice.worth.value(size as f64);
        let less = amount.min(size - choice.low);
        let more = amount.min(choice.high - size);
        let rank = |best: &mut [Option<(f64, usize, u64)>; 2], per_byte: f64, bytes: u64| {
            let entry = Some((per_byte, pool, bytes));
            if best[0].is_none_or(|held| per_byte > held.0) {
                *best = [entry, best[0]];
            } else if best[1].is_none_or(|held| per_byte > held.0) {
                best[1] = entry;
            }
        };
        if less > 0 {
            let cost = value - choice.worth.value((size - less) as f64);
            rank(&mut costs, -cost / less as f64, less);
        }
        if more > 0 {
            let gain = choice.worth.value((size + more) as f64) - value;
            rank(&mut gains, gain / more as f64, more);
        }
    }
    let pairs = costs.iter().flatten().flat_map(|cost| gains.iter().flatten().map(move |gain| (cost, gain)));
    let exchanges = pairs.filter(|(cost, gain)| cost.1 != gain.1).filter_map(|(cost, gain)| {
        let (from, to, bytes) = (cost.1, gain.1, cost.2.min(gain.2));
        let worth = |pool: usize, size: u64| problem.choices[pool].worth.value(size as f64);
        let (before, after) = (
            worth(from, sizes[from]) + worth(to, sizes[to]),
            worth(from, sizes[from] - bytes) + worth(to, sizes[to] + bytes),
        );
        // The gain must exceed rounding, or exchanges would never end.
        (after > before + 1e-12 * before.abs()).then_some((after - before, (from, to, bytes)))
    });
    exchanges.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, exchange)| exchange)
}

#[cfg(test)]
mod tests;

//! HOLPACA's two algorithms: as much throughput as there can be, and that with a least throughput
//! for some. Peixoto et al., "HOLPACA: Holistic and Adaptable Cache Management for Shared
//! Environments", ICPE '26, section 4.3.
//!
//! What the paper's *compute* step does in each control cycle, which is a round here:
//!
//! | section 4.3 | here |
//! |---|---|
//! | "begins by collecting runtime metrics from all active tenants" | `collect`, which smooths them: 0.7 of the new figure and 0.3 of what was held |
//! | "for all new tenants … evenly reclaiming a small fraction from active tenants, proportional to cache size / #tenants" | `admit_new`: tenants without a history get an equal share, which the active ones give in proportion to what they have |
//! | "converts each tenant's MRC into throughput estimation curve, IOPS = IOPS_storage / miss ratio" | `throughput_estimation`, by [`Worth::of`] |
//! | "spline interpolation to obtain smooth, continuous functions" | [`Worth::throughput`], by [`curve::MonotoneCubic`] |
//! | "restrict the maximum memory that can be reallocated per control loop iteration (default: 1%)" | `restrict`, a window around each size; and `in_part`, for what moves in all |
//! | "simulated annealing … to explore thousands of memory distribution configurations and selects the one that yields the highest aggregated throughput" | `search`, by [`Annealer::solve`] or, instead, [`exact::solve`] |
//! | QoS: "tenants whose measured throughput falls below their defined threshold are excluded from memory reduction decisions" | `promise::Promises`, and `restrict`, which has their least sizes |
//!
//! *Collect*, *enforce* and *sleep* (section 4.2) are the business of whoever calls;
//! [`interval`](crate::interval) says how long to sleep.
//!
//! A pool that was promised a throughput and has not got it, with a tenth to spare, gives nothing,
//! and grows toward the least size at which its curve keeps the promise before others are served.
//! One that has it is never shrunk below that size. A promise that no size could keep, or that
//! there is no memory for beside the others', is told ([`Unmet`]) and otherwise passed over.
//!
//! The sum of throughputs alone knows no fairness: a pool that has more gains more by still more,
//! and an optimiser that works takes everything from flat pools. The paper says that nobody
//! starves; its rule has nothing to that end, so [`Options::floor_of_equal`] stands here for it.
//! [`Mode`] says what else the modes change.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::anneal::{Annealer, Annealing};
use crate::problem::{Choice, Objective, Problem, Worth, nearest};
use crate::rank::in_order_of_names;
use crate::{Decision, Grant, Policy, Pool, Unmet, View, exact, partition};

mod promise;
#[cfg(test)]
mod tests;

use promise::{Need, Promises};

/// Whose rules apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The paper's rules with what they lack: a floor for all, promises that a pool grows toward
    /// and that can be told unkeepable, a cap per pool and one on what moves in all.
    #[default]
    Repaired,
    /// The paper's words and no more: no floor; a hundredth of memory moves per cycle in all; who
    /// has not got what it was promised only gives nothing.
    Described,
    /// The program that was published with the paper, with its faults: sizes start from the memory
    /// that pools use, a curve of fewer than three points makes a pool new, measures start from
    /// nothing, and the annealer walks at random ([`anneal`](crate::anneal)).
    Published,
}

/// What finds the sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Solver {
    /// Simulated annealing, as in the paper.
    #[default]
    Anneal,
    /// The exact solver.
    Exact,
}

/// What HOLPACA is told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct Options {
    /// Whose rules apply.
    pub mode: Mode,
    /// What finds the sizes.
    pub solver: Solver,
    /// What is to be as large as it can.
    pub objective: Objective,
    /// How far a pool's size may change in a round, as a share of all memory; 0.01 by default.
    pub step: f64,
    /// How much memory may move in a round, as a share of all memory; 0.05 by default. A move of
    /// more is made in part.
    pub moved: f64,
    /// No pool is shrunk below this share of an equal share of memory; 0.4 by default. Pools that
    /// have less grow to it first.
    pub floor_of_equal: f64,
    /// How much more than it was promised a pool should have, as a share of the promise; 0.1 by
    /// default. Less where memory is short.
    pub margin: f64,
    /// The weight of a new measure against what was held; 0.7 by default.
    pub newest: f64,
    /// Sizes are left alone where a change promises less than this share of what they are worth;
    /// 0.0001 by default.
    pub least_gain: f64,
    /// The seed of the annealer; 0 by default.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Repaired,
            solver: Solver::Anneal,
            objective: Objective::Throughput,
            step: 0.01,
            moved: 0.05,
            floor_of_equal: 0.4,
            margin: 0.1,
            newest: 0.7,
            least_gain: 1e-4,
            seed: 0,
        }
    }
}

/// The weight of a new measure where promises are judged.
const STEADY: f64 = 0.1;

/// What is held of a pool between rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measures {
    /// Misses per second: what the backend carried for it.
    backend_rate: f64,
    /// Requests per second.
    throughput: f64,
    /// Both smoothed over ten rounds: what promises are judged by, since a measure that is off by a
    /// hundredth may change what a flat curve needs by a tenth.
    steady: [f64; 2],
    /// The round in which it was last seen.
    seen: u64,
}

/// HOLPACA's throughput maximisation, with a least throughput for those who were promised one.
#[derive(Clone, Debug)]
pub struct Holpaca {
    options: Options,
    annealer: Annealer,
    /// By name; who is not seen for a round is forgotten.
    measures: HashMap<String, Measures>,
    round: u64,
}

impl Default for Holpaca {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Holpaca {
    /// A policy that has seen nothing yet.
    pub fn new(options: Options) -> Self {
        let annealing = match options.mode {
            Mode::Repaired => Annealing::REPAIRED,
            Mode::Described => Annealing::DESCRIBED,
            Mode::Published => Annealing::PUBLISHED,
        };
        Self { annealer: Annealer::new(annealing, options.seed), options, measures: HashMap::new(), round: 0 }
    }

    /// The policy with the paper's words and no more.
    pub fn described() -> Self {
        Self::new(Options {
            mode: Mode::Described,
            moved: 0.01,
            floor_of_equal: 0.0,
            margin: 0.0,
            ..Options::default()
        })
    }

    /// The policy as its published program has it.
    pub fn published() -> Self {
        Self::new(Options {
            mode: Mode::Published,
            moved: 1.0,
            floor_of_equal: 0.0,
            least_gain: 0.0,
            ..Options::default()
        })
    }

    /// The policy with the exact solver in the annealer's place.
    pub fn exact() -> Self {
        Self::new(Options { solver: Solver::Exact, ..Options::default() })
    }

    /// The sizes that are worth most at once, wherever pools stand: the goal that the cycles of
    /// [`Self::exact`] approach.
    pub fn at_once(objective: Objective) -> Self {
        Self::new(Options { solver: Solver::Exact, objective, step: 1.0, moved: 1.0, ..Options::default() })
    }

    /// What it was told.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Smooths what was measured, and tells who is new, and what is held of each: nothing is known
    /// of its curve, or it came after others had been seen. In published mode a curve of fewer than
    /// three points is new, and what is held starts from nothing.
    fn collect(&mut self, view: &View) -> (Vec<bool>, Vec<Measures>) {
        let published = self.options.mode == Mode::Published;
        let first_round = self.round == 0;
        self.round += 1;
        let mut new = Vec::with_capacity(view.pools.len());
        let mut all = Vec::with_capacity(view.pools.len());
        for pool in &view.pools {
            let filled = pool.used.min(pool.size);
            let backend_rate = pool.request_rate * pool.misses(filled, &pool.grants).all;
            let throughput = pool.request_rate;
            let steady = [backend_rate, throughput];
            let sample = Measures { backend_rate, throughput, steady, seen: self.round };
            let entry = self.measures.get_mut(&pool.name);
            let held = entry.as_deref().copied();
            new.push(if published {
                pool.curve.points().len() < 3
            } else {
                pool.curve.max_size() == 0 || (held.is_none() && !first_round)
            });
            let nothing = Measures { backend_rate: 0.0, throughput: 0.0, steady: [0.0; 2], seen: 0 };
            let start = if published { nothing } else { sample };
            let slowly = |held: f64, sample: f64| held + STEADY * (sample - held);
            let smooth = |held: f64, sample: f64| held + self.options.newest * (sample - held);
            let held = held.unwrap_or(start);
            let measures = Measures {
                backend_rate: smooth(held.backend_rate, sample.backend_rate),
                throughput: smooth(held.throughput, sample.throughput),
                steady: [0, 1].map(|i| slowly(held.steady[i], sample.steady[i])),
                seen: self.round,
            };
            match entry {
                Some(entry) => *entry = measures,
                None => drop(self.measures.insert(pool.name.clone(), measures)),
            }
            all.push(measures);
        }
        self.measures.retain(|_, measures| measures.seen == self.round);
        (new, all)
    }

    /// Where the round starts: new pools have an equal share, and active ones what they have,
    /// scaled to the rest of the memory.
    fn admit_new(&self, view: &View, new: &[bool]) -> Vec<u64> {
        let equal = view.memory as f64 / view.pools.len() as f64;
        let held = |pool: &Pool| {
            // A pool that fills has less than it was granted; to start from that, as published,
            // shrinks whoever fills.
            let size = if self.options.mode == Mode::Published { pool.used } else { pool.size };
            size.max(1) as f64
        };
        let fresh = new.iter().filter(|&&new| new).count() as f64 * equal;
        let sum: f64 = view.pools.iter().zip(new).filter(|(_, new)| !**new).map(|(pool, _)| held(pool)).sum();
        let rest = (view.memory as f64 - fresh).max(0.0);
        let full = view.pools.iter().map(|pool| pool.size).sum::<u64>() == view.memory
            && view.pools.iter().all(|pool| (pool.floor..=pool.ceiling).contains(&pool.size));
        if full && fresh == 0.0 && self.options.mode != Mode::Published {
            return view.pools.iter().map(|pool| pool.size).collect();
        }
        let weights: Vec<f64> = view
            .pools
            .iter()
            .zip(new)
            .map(|(pool, &new)| if new { equal } else { held(pool) * rest / sum })
            .collect();
        partition::shares(view, &weights).into_iter().map(|grant| grant.memory).collect()
    }

    /// Each pool's curve as throughput at each size, `IOPS_storage / miss ratio`, joined smoothly;
    /// or as hits, where those are the objective.
    fn throughput_estimation(&self, view: &View, measures: &[Measures]) -> Vec<Worth> {
        let each = view.pools.iter().zip(measures);
        each.map(|(pool, measures)| Worth::of(pool, self.options.objective, measures.backend_rate)).collect()
    }

    /// Windows around the base within floors and ceilings, and above what each needs: who has more
    /// than it needs is not shrunk below that; who has less gives nothing, and grows by a step at
    /// most, as far as what others can give suffices.
    fn restrict(&self, view: &View, base: &[u64], new: &[bool], needs: &[Need]) -> Vec<(u64, u64)> {
        let step = (self.options.step * view.memory as f64) as u64;
        let mut bounds: Vec<(u64, u64)> = Vec::with_capacity(base.len());
        for (((pool, &base), &new), need) in view.pools.iter().zip(base).zip(new).zip(needs) {
            let (low, high) =
                if new { (base, base) } else { (base.saturating_sub(step), base.saturating_add(step)) };
            let low = low.max(need.bytes.min(base)).max(if need.lacking { base } else { 0 });
            bounds.push((low.clamp(pool.floor, pool.ceiling), high.clamp(pool.floor, pool.ceiling)));
        }
        if self.options.mode == Mode::Repaired {
            let mut spare = view.memory.saturating_sub(bounds.iter().map(|bound| bound.0).sum());
            let mut lacking: Vec<usize> = (0..bounds.len()).filter(|&i| needs[i].bytes > base[i]).collect();
            lacking.sort_by(|&a, &b| view.pools[b].weight.total_cmp(&view.pools[a].weight));
            for i in lacking {
                let (low, high) = bounds[i];
                let raise = needs[i].bytes.min(high).saturating_sub(low).min(spare);
                bounds[i].0 += raise;
                spare -= raise;
            }
        }
        bounds
    }

    /// Sizes that are worth most between bounds, starting from `base`.
    fn search(&mut self, problem: &Problem, base: &[u64]) -> Vec<u64> {
        let start = problem.nearest(base);
        let found = match self.options.solver {
            Solver::Anneal => self.annealer.solve(problem, &start),
            Solver::Exact => exact::solve(problem).sizes,
        };
        let (before, after) = (problem.value(&start), problem.value(&found));
        let found = if after - before < self.options.least_gain * before.abs() { start } else { found };
        self.in_part(problem, base, found)
    }

    /// A part of the way to `sizes`, where more would move than may. What lies on the way between
    /// two sizes that keep their bounds keeps them too; only what was to be raised to a bound may
    /// have further to go.
    fn in_part(&self, problem: &Problem, base: &[u64], sizes: Vec<u64>) -> Vec<u64> {
        let moved: u64 = sizes.iter().zip(base).map(|(&size, &base)| size.saturating_sub(base)).sum();
        let most = self.options.moved * problem.memory as f64;
        if moved as f64 <= most {
            return sizes;
        }
        let share = most / moved as f64;
        let part = sizes
            .iter()
            .zip(base)
            .map(|(&size, &base)| (base as f64 + (size as f64 - base as f64) * share).round() as u64);
        let bounds: Vec<(u64, u64)> = problem
            .choices
            .iter()
            .zip(base)
            .map(|(choice, &base)| (choice.low.min(base), choice.high.max(base)))
            .collect();
        let most = bounds.iter().fold(0_u64, |sum, bounds| sum.saturating_add(bounds.1));
        nearest(problem.memory.min(most), &bounds, &part.collect::<Vec<_>>())
    }
}

impl Policy for Holpaca {
    fn name(&self) -> &'static str {
        match (self.options.mode, self.options.solver, self.options.objective) {
            (Mode::Repaired, Solver::Anneal, _) => "holpaca",
            (Mode::Repaired, Solver::Exact, _) if self.options.step < 1.0 => "holpaca-exact",
            (Mode::Repaired, Solver::Exact, Objective::Throughput) => "exact-throughput",
            (Mode::Repaired, Solver::Exact, Objective::HitRate) => "exact-hit-rate",
            (Mode::Described, ..) => "holpaca-as-described",
            (Mode::Published, ..) => "holpaca-as-published",
        }
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            if view.pools.is_empty() {
                return Decision::stay(view);
            }
            let (new, measures) = self.collect(view);
            let base = self.admit_new(view, &new);
            let worths = self.throughput_estimation(view, &measures);
            let published = self.options.mode == Mode::Published;
            let promises = Promises::new(view, &self.options, &new, |pool| measures[pool].steady[0]);
            let throughput =
                measures.iter().map(|held| if published { held.throughput } else { held.steady[1] });
            let throughput: Vec<f64> = throughput.collect();
            let (needs, unmet) = promises.needs(&throughput);
            let bounds = self.restrict(view, &base, &new, &needs);
            let choices = worths
                .into_iter()
                .zip(&bounds)
                .map(|(worth, &(low, high))| Choice { low, high: high.max(low), worth })
                .collect();
            let problem = Problem { memory: view.memory, choices };
            let sizes = self.search(&problem, &base);
            decision(view, &problem, sizes, &new, &needs, unmet)
        })
    }
}

/// The decision for `sizes`, with reasons in words.
fn decision(
    view: &View,
    problem: &Problem,
    sizes: Vec<u64>,
    new: &[bool],
    needs: &[Need],
    unmet: Vec<Unmet>,
) -> Decision {
    let name = |i: usize| &view.pools[i].name;
    let change = |i: usize| {
        let worth = &problem.choices[i].worth;
        (worth.value(sizes[i] as f64) - worth.value(view.pools[i].size as f64)).abs()
    };
    let gets = |i: usize| {
        if new[i] {
            format!("{} is new and gets an equal share", name(i))
        } else if sizes[i] <= needs[i].bytes {
            format!("{} has less than {}", name(i), needs[i].why())
        } else {
            format!("{} gains {:.0} per second by it", name(i), change(i))
        }
    };
    let reason = |from: Option<usize>, to: Option<usize>| match (from, to) {
        (Some(from), Some(to)) => format!("{}; {} loses {:.0}", gets(to), name(from), change(from)),
        (None, Some(to)) => format!("{}; nobody had it", gets(to)),
        (Some(from), None) => format!("{} has more than there is room for", name(from)),
        (None, None) => String::new(),
    };
    let grants = view
        .pools
        .iter()
        .zip(&sizes)
        .map(|(pool, &memory)| Grant { memory, resources: pool.grants.clone() })
        .collect();
    Decision { unmet, ..Decision::by_place(view, grants, reason) }
}

//! HOLPACA's two algorithms: throughput maximisation, without and with minimum throughputs. Peixoto
//! et al., "HOLPACA: Holistic and Adaptable Cache Management for Shared Environments", ICPE '26,
//! section 4.3.
//!
//! The paper's *compute* step in each control cycle, which is a round here:
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
//! *Collect*, *enforce* and *sleep* (section 4.2) are left to the caller;
//! [`interval`](crate::interval) computes how long to sleep.
//!
//! A pool whose throughput is below its promise plus a tenth gives no memory, and grows toward the
//! least size at which its curve keeps the promise before others are served. A pool at or above
//! that is never shrunk below that size. A promise that no size could keep, or that does not fit
//! beside the others, is reported ([`Unmet`]) and otherwise ignored.
//!
//! The sum of throughputs alone is not fair: a larger pool gains more from further memory, and a
//! working optimiser takes everything from flat pools. The paper claims that no pool starves, but
//! its rule does not ensure that, so [`Options::floor_of_equal`] does so here. [`Mode`] lists the
//! other differences of the modes.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::anneal::{Annealer, Annealing};
use crate::problem::{Choice, Objective, Problem, Worth, nearest};
use crate::rank::in_order_of_names;
use crate::{Decision, Grant, Policy, Pool, Unmet, View, exact, partition};

mod promise;
#[cfg(test)]
mod tests;

use promise::{Need, Promises};

/// The rules to apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The paper's rules with additions: a floor for all pools, promises that a pool grows toward
    /// and that can be reported as unkeepable, and caps on the moves of each pool and of all.
    #[default]
    Repaired,
    /// Exactly the paper's rules: no floor; a hundredth of memory moves per cycle in all; a pool
    /// below its promise is only exempt from giving.
    Described,
    /// The program that was published with the paper, with its faults: sizes start from the memory
    /// that pools use, a curve of fewer than three points makes a pool new, measures start from 0,
    /// and the annealer makes a random walk ([`anneal`](crate::anneal)).
    Published,
}

/// The solver that finds the sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Solver {
    /// Simulated annealing, as in the paper.
    #[default]
    Anneal,
    /// The exact solver.
    Exact,
}

/// The options of HOLPACA.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct Options {
    /// The rules to apply.
    pub mode: Mode,
    /// The solver that finds the sizes.
    pub solver: Solver,
    /// The function to maximise.
    pub objective: Objective,
    /// The largest change of a pool's size in a round, as a share of all memory; 0.01 by default.
    pub step: f64,
    /// The most memory that may move in a round, as a share of all memory; 0.05 by default. A
    /// larger move is made in part.
    pub moved: f64,
    /// The floor of all pools, as a share of an equal share of memory; 0.4 by default. Smaller
    /// pools grow to it first.
    pub floor_of_equal: f64,
    /// The margin above a pool's promise, as a share of the promise; 0.1 by default. Smaller if
    /// memory is scarce.
    pub margin: f64,
    /// The weight of a new measure against the held one; 0.7 by default.
    pub newest: f64,
    /// The least gain of a change, as a share of the worth of the present sizes; 0.0001 by default.
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

/// The weight of a new measure when promises are checked.
const STEADY: f64 = 0.1;

/// The measures of a pool that are held between rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measures {
    /// Misses per second that the backend served for the pool.
    backend_rate: f64,
    /// Requests per second.
    throughput: f64,
    /// Both smoothed over ten rounds, for checking promises: a measure with an error of a hundredth
    /// may change the size that a flat curve needs by a tenth.
    steady: [f64; 2],
    /// The round in which the pool was last seen.
    seen: u64,
}

/// HOLPACA's throughput maximisation, with minimum throughputs for pools with a promise.
#[derive(Clone, Debug)]
pub struct Holpaca {
    options: Options,
    annealer: Annealer,
    /// By name; a pool that is missing for a round is forgotten.
    measures: HashMap<Arc<str>, Measures>,
    round: u64,
}

impl Default for Holpaca {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Holpaca {
    /// Creates a policy without measures.
    pub fn new(options: Options) -> Self {
        let annealing = match options.mode {
            Mode::Repaired => Annealing::REPAIRED,
            Mode::Described => Annealing::DESCRIBED,
            Mode::Published => Annealing::PUBLISHED,
        };
        Self { annealer: Annealer::new(annealing, options.seed), options, measures: HashMap::new(), round: 0 }
    }

    /// The policy with exactly the paper's rules.
    pub fn described() -> Self {
        Self::new(Options {
            mode: Mode::Described,
            moved: 0.01,
            floor_of_equal: 0.0,
            margin: 0.0,
            ..Options::default()
        })
    }

    /// The policy of the published program.
    pub fn published() -> Self {
        Self::new(Options {
            mode: Mode::Published,
            moved: 1.0,
            floor_of_equal: 0.0,
            least_gain: 0.0,
            ..Options::default()
        })
    }

    /// The policy with the exact solver in place of the annealer.
    pub fn exact() -> Self {
        Self::new(Options { solver: Solver::Exact, ..Options::default() })
    }

    /// The policy that moves to the best sizes in one round, whatever the present sizes: the goal
    /// that the cycles of [`Self::exact`] approach.
    pub fn at_once(objective: Objective) -> Self {
        Self::new(Options { solver: Solver::Exact, objective, step: 1.0, moved: 1.0, ..Options::default() })
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Smooths the measures. Returns, for each pool, true if it is new, and its held measures. A
    /// pool is new if its curve is unknown, or if it appeared after the first round. In published
    /// mode, a pool with a curve of fewer than three points is new, and held measures start from 0.
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

    /// The sizes at the start of the round: new pools have an equal share, and active ones their
    /// present size, scaled to the rest of the memory.
    fn admit_new(&self, view: &View, new: &[bool]) -> Vec<u64> {
        let equal = view.memory as f64 / view.pools.len() as f64;
        let held = |pool: &Pool| {
            // A pool that fills uses less than its grant; starting from its use, as published,
            // shrinks it.
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

    /// Each pool's curve as throughput at each size, `IOPS_storage / miss ratio`, interpolated
    /// smoothly; or as hits, if those are the objective.
    fn throughput_estimation(&self, view: &View, measures: &[Measures]) -> Vec<Worth> {
        let each = view.pools.iter().zip(measures);
        each.map(|(pool, measures)| Worth::of(pool, self.options.objective, measures.backend_rate)).collect()
    }

    /// Windows around the base within floors and ceilings, and above each pool's need. A pool above
    /// its need is not shrunk below it; a pool below its need gives no memory, and grows by at most
    /// a step, as far as the memory that others can give suffices.
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

    /// The sizes of greatest worth between bounds, starting from `base`.
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

    /// A part of the way to `sizes`, if more would move than allowed. Any point between two sizes
    /// that keep their bounds keeps them too; only a size that was to be raised to a bound may
    /// remain below it.
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
            let unit = match self.options.objective {
                Objective::Throughput => "requests",
                Objective::HitRate => "hits",
            };
            decision(view, &problem, sizes, (&new, &needs, unit), unmet)
        })
    }
}

/// The decision for `sizes`, with reasons in words.
fn decision(
    view: &View,
    problem: &Problem,
    sizes: Vec<u64>,
    (new, needs, unit): (&[bool], &[Need], &str),
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
        } else if sizes[i] <= needs[i].bytes || view.pools[i].size < needs[i].bytes {
            format!("{} has less than {}", name(i), needs[i].why())
        } else {
            format!("{} can have {:.0} {unit}/s more", name(i), change(i))
        }
    };
    let reason = |from: Option<usize>, to: Option<usize>| match (from, to) {
        (Some(from), Some(to)) => {
            format!("{}; {} can have {:.0} {unit}/s less", gets(to), name(from), change(from))
        }
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

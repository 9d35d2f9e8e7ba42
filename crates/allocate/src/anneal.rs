//! Simulated annealing over sizes: HOLPACA (ICPE '26, section 4.3) explores thousands of
//! distributions of memory with it and takes the one with the greatest worth.
//!
//! The terms of simulated annealing here: a *configuration* is a state's sizes; its *energy*, which
//! is minimised, is their worth with the sign reversed ([`Problem::value`]); a *step* is
//! `Annealer::step`; `k` is `Annealer::scale`; the schedule is [`Annealing`]. The paper gives no
//! details of its annealing; schedule and step as published are those of its program.
//!
//! A state is a plain vector of sizes. A move takes a random amount from one pool and gives it to
//! another, as far as the bounds of both have room, so that the sum never changes and two worths
//! suffice to evaluate the move. An improving move is accepted; a worsening one is accepted with
//! probability `exp(-loss / (k * temperature))`, while the temperature falls from level to level.
//! The best state found is the result.
//!
//! The published program differs from this in three ways, each of which breaks the search; together
//! they make it return the last state of a random walk ([`Faults`]):
//! 1. the library that runs the search copies states byte by byte, and the states own tables:
//!    present, candidate and best state are the same object, a rejected move is not undone, and
//!    restoring the best state restores nothing;
//! 2. `k` is the mean energy, which is negative, as energy is throughput with the sign reversed:
//!    `exp` of a positive number is more than 1, so every worsening move is accepted;
//! 3. the random number generator is created anew in each cycle, with the same seed: each cycle
//!    makes the same walk.

use base::rng::{RngExt, SeededRng, seeded};
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// The scale of temperatures: Boltzmann's constant `k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// The mean loss of the worsening moves in a sample from the first state: at a temperature of 1
    /// about a third of all worsening moves are accepted, whatever the units.
    MeanLoss,
    /// The worth of the first state, divided by the number of pools.
    MeanWorth,
}

/// The faults of the published program to reproduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", default)]
pub struct Faults {
    /// Present, candidate and best state are the same object: no move is rejected, and the last
    /// state is the result.
    pub shared_states: bool,
    /// The constant that scales temperatures has the wrong sign.
    pub negative_scale: bool,
    /// The generator starts from the same seed in each call.
    pub seeded_each_time: bool,
}

/// The parameters of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Annealing {
    /// Moves tried at each temperature.
    pub moves: u32,
    /// The first temperature, in units of the scale.
    pub hottest: f64,
    /// The temperature below which the search ends.
    pub coldest: f64,
    /// The divisor from one temperature to the next; more than 1.
    pub cooling: f64,
    /// The number of temperatures below 1 without a new best state after which the search ends;
    /// `None` = only at the coldest.
    pub patience: Option<usize>,
    /// The unit of temperatures.
    pub scale: Scale,
    /// Faults to reproduce; none by default.
    pub faults: Faults,
}

impl Annealing {
    /// The default: from a temperature at which nearly all moves are accepted to one at which
    /// almost no worsening move is, in 1,390 levels of 250 moves, or until 100 cold levels in a row
    /// bring no new best state.
    pub const REPAIRED: Self = Self {
        moves: 250,
        hottest: 1e3,
        coldest: 1e-3,
        cooling: 1.01,
        patience: Some(100),
        scale: Scale::MeanLoss,
        faults: Faults { shared_states: false, negative_scale: false, seeded_each_time: false },
    };

    /// The published schedule, run as the paper describes it: 2,272 levels of 250 moves, with the
    /// best state as the result.
    pub const DESCRIBED: Self = Self {
        hottest: 90.0,
        coldest: 0.1,
        cooling: 1.003,
        patience: None,
        scale: Scale::MeanWorth,
        ..Self::REPAIRED
    };

    /// The published schedule with the published faults.
    pub const PUBLISHED: Self = Self {
        faults: Faults { shared_states: true, negative_scale: true, seeded_each_time: true },
        ..Self::DESCRIBED
    };
}

/// A search by simulated annealing, with its own generator of random numbers.
#[derive(Clone, Debug)]
pub struct Annealer {
    options: Annealing,
    seed: u64,
    rng: SeededRng,
}

impl Annealer {
    /// Creates a search with a random number generator seeded by `seed`.
    pub fn new(options: Annealing, seed: u64) -> Self {
        Self { options, seed, rng: seeded(seed) }
    }

    /// Searches for sizes of great worth from `start`, which must be admitted by `problem`. Without
    /// faults the result is never worth less than `start`.
    ///
    /// Costs two worths per move; with the defaults at most 348,000 moves, some tens of
    /// milliseconds.
    ///
    /// # Panics
    /// If `start` is not admitted.
    pub fn solve(&mut self, problem: &Problem, start: &[u64]) -> Vec<u64> {
        assert!(problem.admits(start), "a search starts from sizes that keep their bounds and add up");
        if self.options.faults.seeded_each_time {
            self.rng = seeded(self.seed);
        }
        let mut state = State::new(problem, start);
        if state.sizes.len() < 2 {
            return state.sizes;
        }
        let k = self.scale(&state) * if self.options.faults.negative_scale { -1.0 } else { 1.0 };
        let mut best = (state.value, state.sizes.clone());
        let mut temperature = self.options.hottest;
        let mut barren_levels = 0;
        while temperature >= self.options.coldest
            && self.options.patience.is_none_or(|most| barren_levels < most)
        {
            barren_levels += usize::from(temperature < 1.0);
            for _ in 0..self.options.moves {
                let Some(step) = self.step(&state) else { continue };
                let accepted =
                    step.gain >= 0.0 || self.rng.random::<f64>() < (step.gain / (k * temperature)).exp();
                if !accepted && !self.options.faults.shared_states {
                    continue;
                }
                state.make(&step);
                if state.value > best.0 {
                    // A gain within rounding does not prolong the search.
                    barren_levels =
                        if state.value > best.0 + 1e-7 * best.0.abs() { 0 } else { barren_levels };
                    best.0 = state.value;
                    best.1.clone_from(&state.sizes);
                }
            }
            temperature /= self.options.cooling;
        }
        if self.options.faults.shared_states { state.sizes } else { best.1 }
    }

    /// The constant `k`, the factor of temperatures.
    fn scale(&mut self, state: &State<'_>) -> f64 {
        match self.options.scale {
            Scale::MeanWorth => state.value.abs() / state.sizes.len() as f64,
            Scale::MeanLoss => {
                let steps = (0..self.options.moves).filter_map(|_| self.step(state));
                let losses: Vec<f64> = steps.filter(|step| step.gain < 0.0).map(|step| -step.gain).collect();
                losses.iter().sum::<f64>() / losses.len().max(1) as f64
            }
        }
        .max(f64::MIN_POSITIVE)
    }

    /// Draws a random move between two pools: of all bytes that fit, since the best sizes often lie
    /// at a bound; or up to a point of the taker's worth, since they often lie at a bend of a
    /// curve; or of any magnitude. The published program draws uniformly from all amounts that fit.
    fn step(&mut self, state: &State<'_>) -> Option<Step> {
        let n = state.sizes.len();
        let from = self.rng.random_range(0..n);
        let to = (from + self.rng.random_range(1..n)) % n;
        let (giver, taker) = (&state.problem.choices[from], &state.problem.choices[to]);
        let room = (state.sizes[from] - giver.low).min(taker.high - state.sizes[to]);
        if room == 0 {
            return None;
        }
        let draw = self.rng.random::<f64>();
        let bytes = if self.options.faults.shared_states {
            (room as f64 * draw) as u64
        } else if draw < 0.2 {
            room
        } else if draw < 0.6 {
            let target = taker.worth.point((draw - 0.2) / 0.4);
            target.saturating_sub(state.sizes[to])
        } else {
            (room as f64).powf((draw - 0.6) / 0.4) as u64
        };
        let bytes = bytes.min(room);
        let values = [
            giver.worth.value((state.sizes[from] - bytes) as f64),
            taker.worth.value((state.sizes[to] + bytes) as f64),
        ];
        let gain = values[0] + values[1] - state.values[from] - state.values[to];
        Some(Step { from, to, bytes, values, gain })
    }
}

/// Sizes, with the worth of each.
struct State<'a> {
    problem: &'a Problem,
    sizes: Vec<u64>,
    values: Vec<f64>,
    /// The sum of the values.
    value: f64,
}

/// Bytes to move from one pool to another, and the worth of both afterwards.
struct Step {
    from: usize,
    to: usize,
    bytes: u64,
    values: [f64; 2],
    gain: f64,
}

impl<'a> State<'a> {
    fn new(problem: &'a Problem, sizes: &[u64]) -> Self {
        let values: Vec<f64> = problem
            .choices
            .iter()
            .zip(sizes)
            .map(|(choice, &size)| choice.worth.value(size as f64))
            .collect();
        Self { problem, sizes: sizes.to_vec(), value: values.iter().sum(), values }
    }

    fn make(&mut self, step: &Step) {
        self.sizes[step.from] -= step.bytes;
        self.sizes[step.to] += step.bytes;
        (self.values[step.from], self.values[step.to]) = (step.values[0], step.values[1]);
        self.value += step.gain;
    }
}

//! The papers' figures as experiments, each with criteria that were seen to be reachable, and the
//! experiments that go beyond the papers.
//!
//! | family | subject |
//! |---|---|
//! | [`hare`] | HARE's allocations, by model (FAST '26) |
//! | [`dynamics`] | HARE's applications over time, by simulation (FAST '26); all policies on traces |
//! | [`holpaca`] | HOLPACA's throughput and service levels (ICPE '26) |
//! | [`cliffhanger`] | hill climbing, cliffs, partitions of one cache (NSDI '16) |
//! | [`curves`] | how well curves are learnt |
//!
//! An experiment is a constant beside its code, and one line in the list of its family.

pub mod cliffhanger;
pub mod curves;
pub mod dynamics;
pub mod expected;
pub mod hare;
pub mod holpaca;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::time::{ClockId, clock_gettime};

use crate::report::Report;

/// The middle one of some figures; of an even number, the higher of the two in the middle.
fn median(figures: impl Into<Vec<f64>>) -> f64 {
    let mut sorted = figures.into();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Nanoseconds that this thread has had a processor, so that other work on the machine matters less
/// than by the clock.
fn thread_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// A figure of a paper, or a claim of our own, that can be run.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// A letter for its paper and a number: `H1`.
    pub name: &'static str,
    /// The paper: its systems, and its venue.
    pub paper: &'static str,
    /// The figure, table or section of the paper.
    pub figure: &'static str,
    /// The subject of the experiment, in a few words.
    pub title: &'static str,
    /// Runs it. From the same seed the same report follows, unless a criterion says that it is
    /// measured on the clock.
    pub run: fn(&mut Context) -> Report,
}

/// HARE, HopperKV and BunnyFS.
pub const HARE: &str = "HARE (FAST '26)";
/// HOLPACA.
pub const HOLPACA: &str = "HOLPACA (ICPE '26)";
/// Cliffhanger.
pub const CLIFFHANGER: &str = "Cliffhanger (NSDI '16)";
/// The source of an experiment that no paper has.
pub const OURS: &str = "Millpond";

/// All experiments, family by family.
pub const ALL: [&[Experiment]; 5] = [
    hare::EXPERIMENTS,
    dynamics::EXPERIMENTS,
    holpaca::EXPERIMENTS,
    cliffhanger::EXPERIMENTS,
    curves::EXPERIMENTS,
];

/// All experiments in the order of their names: by letters, then by number.
pub fn all() -> Vec<Experiment> {
    let mut all: Vec<Experiment> = ALL.concat();
    all.sort_by_key(|experiment| order(experiment.name));
    all
}

/// Experiments that take seconds at most and need no trace: `millpond experiment run quick`, and
/// part of the tests with three seeds.
pub const QUICK: [&str; 8] = ["C1", "H1", "H2", "H3", "H4", "H6", "H11", "H13"];

fn order(name: &str) -> (&str, u32) {
    let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (letters, number) = name.split_at(digits);
    (letters, number.parse().unwrap_or(u32::MAX))
}

/// The inputs of an experiment.
#[derive(Clone, Debug)]
pub struct Context {
    seed: u64,
    traces: Option<PathBuf>,
    progress: Arc<AtomicU32>,
}

impl Context {
    /// The whole of an experiment, as [`Self::share_done`] counts it.
    const WHOLE: f64 = 1000.0;

    /// A context with a seed and the folder of published traces, if there is one.
    pub fn new(seed: u64, traces: Option<PathBuf>) -> Self {
        Self { seed, traces, progress: Arc::default() }
    }

    /// The seed of part `part` of the experiment: of a run, of a tenant. Different parts get
    /// unrelated seeds.
    pub fn seed(&self, part: u64) -> u64 {
        base::hash::mix64(self.seed ^ base::hash::mix64(part.wrapping_add(1)))
    }

    /// The folder of published traces, which holds `STATS.csv`; `None` if there is none here.
    pub fn traces(&self) -> Option<PathBuf> {
        self.traces.clone()
    }

    /// Says how much of the experiment is done, from 0 to 1.
    pub fn progress(&self, share: f64) {
        self.progress.store((share * Self::WHOLE) as u32, Ordering::Relaxed);
    }

    /// How much is done, from 0 to 1.
    pub fn share_done(&self) -> f64 {
        f64::from(self.progress.load(Ordering::Relaxed)) / Self::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_in_order() {
        let all = all();
        for pair in all.windows(2) {
            assert!(order(pair[0].name) < order(pair[1].name), "{} and {}", pair[0].name, pair[1].name);
        }
        for experiment in &all {
            let Experiment { name, paper, figure, title, .. } = *experiment;
            assert!(order(name).1 < 1000, "{name} has no number");
            assert!(![paper, figure, title].contains(&""), "{name} does not say what it shows");
        }
    }

    #[test]
    fn parts_have_seeds_of_their_own() {
        let context = Context::new(1, None);
        assert_ne!(context.seed(0), context.seed(1));
        assert_eq!(context.seed(3), Context::new(1, None).seed(3));
        assert_ne!(context.seed(0), Context::new(2, None).seed(0));
    }
}

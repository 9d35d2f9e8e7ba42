//! An experiment, its inputs, and the figures that experiments have in common.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::report::Report;

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

    /// Returns the share of the work that is done, from 0 to 1.
    pub fn share_done(&self) -> f64 {
        f64::from(self.progress.load(Ordering::Relaxed)) / Self::WHOLE
    }
}

/// The middle one of some figures; of an even number, the higher of the two in the middle.
pub(crate) fn median(figures: impl Into<Vec<f64>>) -> f64 {
    let mut sorted = figures.into();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

//! A bar that shows how far a run is, on a terminal and nowhere else.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;

use base::Clock;
use indicatif::{ProgressBar, ProgressStyle};

use super::{Length, Shared, Stage};

/// The bar of a run; nothing where standard error is no terminal.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    stage: Option<u64>,
    /// When the stage began, and how many operations were done by then.
    began: (u64, u64),
}

impl Progress {
    pub(super) fn new(wanted: bool) -> Self {
        let bar = (wanted && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{prefix:>8} {bar:40} {percent:>3} %  {msg}");
            ProgressBar::new(1_000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, stage: None, began: (0, 0) }
    }

    /// Draws the bar anew.
    pub(super) fn show(&mut self, shared: &Shared) {
        let Some(bar) = &self.bar else { return };
        let number = shared.stage.load(Ordering::Relaxed);
        let Some(stage) = shared.stages.get(number as usize) else { return };
        let operations = shared.progress.iter().map(|one| one.0.load(Ordering::Relaxed)).sum::<u64>();
        let now = Clock::System.monotonic_nanos();
        if self.stage != Some(number) {
            self.stage = Some(number);
            self.began = (now, operations);
        }
        let secs = (now - self.began.0) as f64 / 1e9;
        let done = (operations - self.began.1) as f64;
        let (name, share) = match stage {
            Stage::Load => ("load", done / shared.workload.distinct_keys().max(1) as f64),
            Stage::WarmUp(length) => ("warm-up", share(length, done, secs)),
            Stage::Measure(length) => ("measure", share(length, done, secs)),
        };
        bar.set_prefix(name);
        bar.set_position((share * 1_000.0).min(1_000.0) as u64);
        bar.set_message(format!("{:.0} operations/s", done / secs.max(1e-3)));
    }

    /// Takes the bar away.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn share(length: &Length, done: f64, secs: f64) -> f64 {
    match length {
        Length::Operations(all) => done / (*all).max(1) as f64,
        Length::Time(time) => secs / time.as_secs_f64().max(1e-9),
    }
}

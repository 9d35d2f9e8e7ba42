//! A bar that shows how far a run is, on a terminal and nowhere else.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;

use base::Clock;
use indicatif::{ProgressBar, ProgressStyle};

use super::{Shared, Stage};

/// A progress bar; nothing if standard error isn't a terminal.
#[derive(Debug)]
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar with a word in front of it, if one is wanted.
    pub fn new(wanted: bool, word: &'static str) -> Self {
        Self((wanted && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{prefix:>8} {bar:40} {percent:>3} %  {msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(1_000).with_style(style).with_prefix(word)
        }))
    }

    /// Draws the bar anew: the share that is done, 0 to 1, and operations per second.
    pub fn show(&mut self, share: f64, rate: f64) {
        if let Some(bar) = &self.0 {
            bar.set_position((share * 1_000.0).min(1_000.0) as u64);
            bar.set_message(format!("{rate:.0} operations/s"));
        }
    }

    fn set_word(&mut self, word: &'static str) {
        if let Some(bar) = &self.0 {
            bar.set_prefix(word);
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

/// The bar of a run.
pub(super) struct Progress {
    bar: Bar,
    stage: Option<u64>,
    /// Start of the stage, and number of operations done before it.
    began: (u64, u64),
}

impl Progress {
    pub(super) fn new(wanted: bool) -> Self {
        Self { bar: Bar::new(wanted, ""), stage: None, began: (0, 0) }
    }

    /// Draws the bar anew.
    pub(super) fn show(&mut self, shared: &Shared) {
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
            Stage::WarmUp(length) => ("warm-up", length.share_done(done, secs)),
            Stage::Measure(length) => ("measure", length.share_done(done, secs)),
        };
        self.bar.set_word(name);
        self.bar.show(share, done / secs.max(1e-3));
    }

    /// Takes the bar away.
    pub(super) fn finish(self) {
        self.bar.finish();
    }
}

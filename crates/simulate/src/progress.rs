//! How far runs are, as a bar on standard error.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar for each thing that is run.
pub const STEPS: f64 = 1000.0;

/// A bar on standard error for `runs` runs of 1,000 steps each; hidden if standard error is not
/// a terminal.
pub fn bar(runs: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed}  {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new((runs as f64 * STEPS) as u64).with_style(style)
}

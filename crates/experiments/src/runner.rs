//! Runs experiments in parallel, one to a processor, and hands their reports over in order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::Clock;
use serde::Serialize;
use simulate::progress::{STEPS, bar};

use crate::report::{Criterion, Report, Verdict};
use crate::{Context, Experiment};

/// Options of a run of experiments.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Names all random sequences.
    pub seed: u64,
    /// Number of experiments that run at a time, at least 1.
    pub jobs: usize,
    /// The folder of published traces, if there is one.
    pub traces: Option<PathBuf>,
}

/// An experiment that was run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// Its paper.
    pub paper: &'static str,
    /// Its figure.
    pub figure: &'static str,
    /// The subject of the experiment.
    pub title: &'static str,
    /// Duration in seconds of the wall clock.
    pub seconds: f64,
    /// True if no criterion was missed.
    pub holds: bool,
    /// The findings.
    #[serde(flatten)]
    pub report: Report,
}

impl Outcome {
    /// A heading and the report as text.
    pub fn render(&self) -> String {
        let Self { name, paper, figure, title, seconds, report, .. } = self;
        let (passed, missed) = (report.count(Verdict::Passed), report.count(Verdict::Missed));
        let word = if self.holds { "holds" } else { "MISSED" };
        let demanded = passed + missed;
        format!(
            "{name}  {title}\n  {paper}, {figure}: {word}, {passed} of {demanded} criteria passed, {seconds:.1} s\n\n{}",
            report.render()
        )
    }
}

/// Runs `experiments` and calls `finished` for each, in their order, as soon as it and all before
/// it are done. An experiment that panics counts as missed. A bar on standard error shows how far
/// they are, if standard error is a terminal.
///
/// # Errors
/// If the operating system refuses a thread.
pub fn run(
    experiments: &[Experiment],
    options: &RunOptions,
    mut finished: impl FnMut(Outcome),
) -> std::io::Result<()> {
    let contexts: Vec<Context> =
        experiments.iter().map(|_| Context::new(options.seed, options.traces.clone())).collect();
    let next = Arc::new(AtomicUsize::new(0));
    let running = Arc::new(Mutex::new(BTreeMap::<usize, &'static str>::new()));
    let (send, receive) = channel::<(usize, Outcome)>();
    let mut threads = Vec::new();
    for job in 0..options.jobs.clamp(1, experiments.len().max(1)) {
        let (next, running, send) = (Arc::clone(&next), Arc::clone(&running), send.clone());
        let work: Vec<(Experiment, Context)> =
            experiments.iter().copied().zip(contexts.iter().cloned()).collect();
        threads.push(base::thread::spawn(format!("experiment-{job}"), move || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some((experiment, context)) = work.get(i) else { break };
                running.lock().unwrap_or_else(PoisonError::into_inner).insert(i, experiment.name);
                let outcome = run_one(experiment, &mut context.clone());
                context.progress(1.0);
                running.lock().unwrap_or_else(PoisonError::into_inner).remove(&i);
                if send.send((i, outcome)).is_err() {
                    break;
                }
            }
        })?);
    }
    drop(send);
    let bar = bar(experiments.len());
    let (mut waiting, mut due) = (BTreeMap::new(), 0);
    loop {
        match receive.recv_timeout(Duration::from_millis(200)) {
            Ok((i, outcome)) => {
                waiting.insert(i, outcome);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let done: f64 = contexts.iter().map(Context::share_done).sum();
        bar.set_position((done * STEPS) as u64);
        let names = running.lock().unwrap_or_else(PoisonError::into_inner);
        bar.set_message(names.values().copied().collect::<Vec<_>>().join(" "));
        drop(names);
        while let Some(outcome) = waiting.remove(&due) {
            bar.suspend(|| finished(outcome));
            due += 1;
        }
    }
    bar.finish_and_clear();
    for thread in threads {
        // A worker catches the panics of experiments and has none of its own.
        let _ = thread.join();
    }
    Ok(())
}

fn run_one(experiment: &Experiment, context: &mut Context) -> Outcome {
    let Experiment { name, paper, figure, title, run } = *experiment;
    let began = Clock::System.monotonic_nanos();
    let report = catch_unwind(AssertUnwindSafe(|| run(context))).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        let mut report = Report::new();
        let end = Criterion::holds("it ends", false, "it panicked", "no panic");
        report.check(end.missed_because(words.unwrap_or_else(|| "without a message".to_owned())));
        report
    });
    let seconds = (Clock::System.monotonic_nanos() - began) as f64 / 1e9;
    let holds = report.count(Verdict::Missed) == 0;
    Outcome { name, paper, figure, title, seconds, holds, report }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing(context: &mut Context) -> Report {
        let mut report = Report::new();
        report.check(Criterion::number("seed", context.seed(0) as f64).at_least(0.0));
        report
    }

    fn panicking(_: &mut Context) -> Report {
        panic!("no such luck")
    }

    #[test]
    fn reports_come_in_order_and_a_panic_is_a_miss() {
        let make = |name, run| Experiment { name, paper: "p", figure: "f", title: "t", run };
        let experiments =
            [make("A1", passing as fn(&mut Context) -> Report), make("A2", panicking), make("A3", passing)];
        let options = RunOptions { seed: 1, jobs: 3, traces: None };
        let mut outcomes = Vec::new();
        run(&experiments, &options, |outcome| outcomes.push(outcome)).unwrap();
        assert_eq!(
            outcomes.iter().map(|one| (one.name, one.holds)).collect::<Vec<_>>(),
            [("A1", true), ("A2", false), ("A3", true)]
        );
        assert!(outcomes[1].render().contains("no such luck"));
    }
}

//! `cargo xtask ci`: every check and every test, with the time that each step took.
//!
//! All steps run, whatever the earlier ones found, so that one run shows everything that is wrong.
//! A step that cannot run here says why, and the summary repeats it. The output ends as `cargo
//! test` ends, with the sums over all steps, and with one plain line `N passed, N failed`, which
//! counts a step that failed for another reason than a failed test as one.
//!
//! A test that cannot run in full prints a line `skipped: REASON`. The output of passing tests is
//! shown, so that the reason is seen where it arises, and the summary repeats it.

mod count;
mod disk;
mod packages;
mod steps;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use base::Clock;

use crate::repository;
use count::{Counts, Failures};
use disk::Disk;
pub(crate) use steps::steps;

/// Settings of builds that leave out what a whole run never reads and most of the target folder
/// is: what is kept for a later change of the code, and lines of code for a debugger, of which each
/// test program has a copy. A panic says its line without them.
const SMALL_BUILDS: [(&str, &str); 2] = [("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")];

/// A part of the run, in the order of [`steps()`].
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    run: fn(&mut Run) -> anyhow::Result<Outcome>,
}

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed(String),
    /// It cannot run here, for this reason.
    Skipped(String),
}

/// State that the steps share: the folder in which they run, and the tests that they have counted.
struct Run {
    root: PathBuf,
    counts: Counts,
    /// Reasons that tests gave for not running in full, each once.
    skips: BTreeSet<String>,
    failures: Failures,
    /// Receives the output of tests as it comes.
    out: Box<dyn Write>,
}

/// A step that has ended.
struct Report {
    name: &'static str,
    secs: f64,
    counts: Counts,
    outcome: Outcome,
}

/// The command: runs all steps, or those that the arguments name.
pub(crate) fn command(arguments: &[String]) -> anyhow::Result<bool> {
    let all = steps();
    if let Some(unknown) = arguments.iter().find(|name| !all.iter().any(|step| step.name == **name)) {
        anyhow::bail!("there is no step `{unknown}`: `cargo xtask help` lists the steps");
    }
    let clock = Clock::default();
    let seconds_since = |start: u64| clock.monotonic_nanos().saturating_sub(start) as f64 / 1e9;
    let start = clock.monotonic_nanos();
    let mut run = Run::new(Box::new(std::io::stdout()));
    let disk = Disk::of_builds(&run.root);
    let mut reports = Vec::new();
    for step in
        all.iter().filter(|step| arguments.is_empty() || arguments.iter().any(|name| name == step.name))
    {
        println!("\n==> {}: {}", step.name, step.summary);
        let start = clock.monotonic_nanos();
        run.counts = Counts::default();
        let outcome = (step.run)(&mut run).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        reports.push(Report { name: step.name, secs: seconds_since(start), counts: run.counts, outcome });
    }
    print!("{}", summarize(&reports, &run, &disk.report(), seconds_since(start)));
    Ok(reports.iter().all(|report| !matches!(report.outcome, Outcome::Failed(_))))
}

/// The closing lines: a line per step, the state of the disk, what failed tests printed, `cargo
/// test`'s own last line with the sums, and the plain one.
fn summarize(reports: &[Report], run: &Run, disk: &str, total_secs: f64) -> String {
    let mut text = String::from("\nsteps:\n");
    let mut sum = Counts::default();
    for report in reports {
        let tests = match report.counts.total() {
            0 => String::new(),
            _ => format!("{} passed, {} failed", report.counts.passed, report.counts.failed),
        };
        let (word, reason) = match &report.outcome {
            Outcome::Passed => ("ok", ""),
            Outcome::Failed(reason) => ("FAILED", reason.as_str()),
            Outcome::Skipped(reason) => ("skipped", reason.as_str()),
        };
        let line = format!("  {:<10} {word:<8} {:>7.1}s  {tests}  {reason}", report.name, report.secs);
        text.push_str(line.trim_end());
        text.push('\n');
        sum.add(&report.counts);
        if matches!(report.outcome, Outcome::Failed(_)) && report.counts.failed == 0 {
            sum.failed += 1;
        }
    }
    text.push_str(disk);
    let mut list = |heading: &str, lines: &mut dyn Iterator<Item = &String>| {
        let mut lines = lines.peekable();
        if lines.peek().is_some() {
            text.push_str(&format!("\n{heading}:\n"));
        }
        lines.for_each(|line| text.push_str(&format!("  {line}\n")));
    };
    list("tests that did not run in full", &mut run.skips.iter());
    list("what failed tests printed", &mut run.failures.lines().iter());
    let word = if sum.failed == 0 { "ok" } else { "FAILED" };
    text.push_str(&format!(
        "\ntest result: {word}. {} passed; {} failed; {} ignored; {} measured; {} filtered out; finished in {total_secs:.2}s\n\
         \n{} passed, {} failed\n",
        sum.passed, sum.failed, sum.ignored, sum.measured, sum.filtered, sum.passed, sum.failed
    ));
    text
}

impl Run {
    fn new(out: Box<dyn Write>) -> Self {
        Self {
            root: repository::root(),
            counts: Counts::default(),
            skips: BTreeSet::new(),
            failures: Failures::default(),
            out,
        }
    }

    /// A `cargo` command in the repository, with [`SMALL_BUILDS`] unless the caller sets them.
    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = repository::cargo();
        command.current_dir(&self.root).args(arguments);
        let unset = SMALL_BUILDS.iter().filter(|(name, _)| std::env::var_os(name).is_none());
        command.envs(unset.copied());
        command
    }

    /// Runs a command to its end, with its output as it comes.
    fn execute(&self, mut command: Command) -> anyhow::Result<Outcome> {
        println!("{}", words_of(&command));
        let status = command.status().with_context(|| format!("cannot run {}", words_of(&command)))?;
        Ok(if status.success() {
            Outcome::Passed
        } else {
            Outcome::Failed(format!("{} ended with {status}", words_of(&command)))
        })
    }

    /// Runs a command whose output has `cargo test`'s closing lines, and counts its tests.
    fn execute_tests(&mut self, mut command: Command) -> anyhow::Result<Outcome> {
        println!("{}", words_of(&command));
        let cannot_run = format!("cannot run {}", words_of(&command));
        let mut child = command.stdout(Stdio::piped()).spawn().context(cannot_run.clone())?;
        let mut output = BufReader::new(child.stdout.take().context("the child has no output")?);
        let mut line = Vec::new();
        let before = self.counts;
        let mut lists = count::NameLists::default();
        while output.read_until(b'\n', &mut line).context("cannot read the tests' output")? > 0 {
            let text = String::from_utf8_lossy(&line);
            if !lists.hides(&text) {
                self.out.write_all(&line)?;
            }
            self.counts.read_line(&text);
            self.failures.read_line(&text);
            if let Some(reason) = text.trim().strip_prefix("skipped: ") {
                self.skips.insert(reason.to_owned());
            }
            line.clear();
        }
        let status = child.wait().context(cannot_run)?;
        let failed = self.counts.failed - before.failed;
        let ran = self.counts.total() - before.total();
        Ok(match (status.success(), failed, ran) {
            (true, 0, 0) => Outcome::Failed("no test ran".to_owned()),
            (true, 0, _) => Outcome::Passed,
            (_, 0, _) => Outcome::Failed(format!("{} ended with {status}", words_of(&command))),
            _ => Outcome::Failed(format!("{failed} tests failed")),
        })
    }
}

/// The command as one would type it.
fn words_of(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}=\"{}\"", name.to_string_lossy(), value?.to_string_lossy()))
    });
    let program = PathBuf::from(command.get_program());
    let program =
        program.file_name().map_or_else(|| program.to_string_lossy(), |name| name.to_string_lossy());
    let words = std::iter::once(program.into_owned());
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    set.chain(words).chain(arguments).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;

//! `millpond experiment list` and `run`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use simulate::table::Table;

use crate::expected::surprises;
use crate::report::Verdict;
use crate::runner::{Outcome, RunOptions, run};
use crate::{Experiment, QUICK, all, live};

/// Reproduces the papers' figures, and reports which criteria hold.
#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// List the experiments
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Run experiments; the exit status is not 0 if a criterion is missed that is not listed as
    /// such, or a listed one passes
    Run(RunArgs),
}

impl ExperimentCommand {
    /// Returns whether it runs real servers.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Run(args) if args.live)
    }
}

/// Flags of `millpond experiment run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Names as `millpond experiment list` has them, such as H1 or C5; all = all of them; quick =
    /// those that take seconds
    #[arg(value_name = "NAME", required_unless_present = "live")]
    pub names: Vec<String>,
    /// Run experiments with real servers, one after the other, in real time: those that are named,
    /// or else all of them; a minute to five each, and nothing else should use the machine
    #[arg(long)]
    pub live: bool,
    /// Names all random sequences: the same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of experiments that run at a time [default: one for each processor]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// A folder for figures and their points, created if it is missing [default: none are drawn]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The folder of published traces [default: ../shared/traces, if there is one]
    #[arg(long, value_name = "DIR", env = "MILLPOND_TRACES")]
    pub traces: Option<PathBuf>,
    /// Print the reports as JSON
    #[arg(long)]
    pub json: bool,
}

/// Executes the command.
///
/// # Errors
/// If there is no such experiment, the folder for figures cannot be written, or a criterion was
/// missed.
pub fn execute(command: &ExperimentCommand) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match command {
        ExperimentCommand::List { json } => list(*json, &mut out),
        ExperimentCommand::Run(args) => run_named(args, &mut out),
    }
}

fn list(json: bool, out: &mut dyn Write) -> Result<()> {
    let all: Vec<Experiment> = all().into_iter().chain(live::EXPERIMENTS.iter().copied()).collect();
    if json {
        let entry = |one: &Experiment| serde_json::json!({ "name": one.name, "paper": one.paper, "figure": one.figure, "title": one.title });
        serde_json::to_writer_pretty(&mut *out, &all.iter().map(entry).collect::<Vec<_>>())?;
        writeln!(out)?;
        return Ok(());
    }
    let mut table = Table::new("", ["name", "paper", "figure", "shows that"]);
    for Experiment { name, paper, figure, title, .. } in &all {
        table.row([*name, *paper, *figure, *title]);
    }
    write!(out, "{}", table.render(0))?;
    Ok(())
}

/// The experiments of these names, each once, in their own order.
fn named(names: &[String], live: bool) -> Result<Vec<Experiment>> {
    let all = if live { live::EXPERIMENTS.to_vec() } else { all() };
    if live && names.is_empty() || names.iter().any(|name| name == "all") {
        return Ok(all);
    }
    if names.iter().any(|name| name == "quick") {
        return Ok(all.into_iter().filter(|one| QUICK.contains(&one.name)).collect());
    }
    for name in names {
        if !all.iter().any(|one| one.name.eq_ignore_ascii_case(name)) {
            let upper = name.to_ascii_uppercase();
            match base::suggest::nearest(&upper, all.iter().map(|one| one.name)) {
                _ if !live && live::EXPERIMENTS.iter().any(|one| one.name == upper) => {
                    bail!("{upper} runs real servers: `millpond experiment run --live {upper}`")
                }
                Some(near) => bail!("there is no experiment `{name}`; did you mean `{near}`?"),
                None => bail!("there is no experiment `{name}`; `millpond experiment list` has them all"),
            }
        }
    }
    let wanted = |one: &Experiment| names.iter().any(|name| one.name.eq_ignore_ascii_case(name));
    Ok(all.into_iter().filter(wanted).collect())
}

fn run_named(args: &RunArgs, out: &mut dyn Write) -> Result<()> {
    let experiments = named(&args.names, args.live)?;
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    let options = RunOptions {
        seed: args.seed,
        jobs: if args.live { 1 } else { args.jobs.unwrap_or_else(base::thread::available_cpus) },
        traces: traces(args.traces.as_deref())?,
    };
    let (mut outcomes, mut failure) = (Vec::new(), None);
    run(&experiments, &options, |outcome| {
        let written =
            if args.json { Ok(()) } else { writeln!(out, "{}", outcome.render()).map_err(Into::into) };
        let drawn = args.out.as_deref().map_or(Ok(()), |folder| write_figures(&outcome, folder));
        failure = failure.take().or(written.and(drawn).err());
        outcomes.push(outcome);
    })?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &outcomes)?;
        writeln!(out)?;
    }
    verdict(&outcomes, args.json, out)
}

/// Writes the last line, and returns an error that names the unexpected results: criteria that were
/// missed but not listed, and listed ones that passed.
fn verdict(outcomes: &[Outcome], json: bool, out: &mut dyn Write) -> Result<()> {
    let count = |verdict| outcomes.iter().map(|outcome| outcome.report.count(verdict)).sum::<usize>();
    let (passed, missed) = (count(Verdict::Passed), count(Verdict::Missed));
    if !json {
        writeln!(
            out,
            "{} experiments, {} criteria: {passed} passed, {missed} missed",
            outcomes.len(),
            passed + missed
        )?;
    }
    let surprises: Vec<String> =
        outcomes.iter().flat_map(|outcome| surprises(outcome.name, outcome.report.criteria())).collect();
    if surprises.is_empty() {
        if !json && missed > 0 {
            writeln!(
                out,
                "all misses are listed ones, whose reasons stand above and in docs/experiments.md"
            )?;
        }
        return Ok(());
    }
    bail!("not as expected:\n  {}", surprises.join("\n  "))
}

/// Returns the named folder, or the one beside the repository; `None` if there is none.
fn traces(named: Option<&Path>) -> Result<Option<PathBuf>> {
    let holds_traces = |folder: &Path| folder.join("STATS.csv").is_file();
    match named {
        Some(folder) if !holds_traces(folder) => {
            bail!("{} has no STATS.csv: it is not a folder of traces", folder.display())
        }
        Some(folder) => Ok(Some(folder.to_owned())),
        None => Ok(Some(PathBuf::from("../shared/traces")).filter(|folder| holds_traces(folder))),
    }
}

/// Writes each chart's points as `NAME-NUMBER.csv`, and draws it as `NAME-NUMBER.svg`.
fn write_figures(outcome: &Outcome, folder: &Path) -> Result<()> {
    for (number, chart) in (1..).zip(outcome.report.charts()) {
        let path = folder.join(format!("{}-{number}.csv", outcome.name));
        std::fs::write(&path, chart.csv())
            .with_context(|| format!("{} cannot be written", path.display()))?;
        let mut chart = chart.drawn();
        chart.title = format!("{}: {}", outcome.name, chart.title);
        chart.write(&path.with_extension("svg"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_args(names: &[&str]) -> RunArgs {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        RunArgs { names, seed: 1, live: false, jobs: Some(1), out: None, traces: None, json: false }
    }

    #[test]
    fn names_are_found_in_any_case_and_mistakes_get_the_nearest() {
        assert_eq!(named(&["h11".into()], false).unwrap()[0].name, "H11");
        assert_eq!(named(&["all".into()], false).unwrap().len(), all().len());
        assert_eq!(named(&["quick".into()], false).unwrap().len(), QUICK.len());
        assert_eq!(named(&[], true).unwrap().len(), live::EXPERIMENTS.len());
        assert_eq!(named(&["l1".into()], true).unwrap()[0].name, "L1");
        assert!(named(&["L1".into()], false).unwrap_err().to_string().contains("run --live L1"));
        let error = named(&["H111".into()], false).unwrap_err().to_string();
        assert_eq!(error, "there is no experiment `H111`; did you mean `H11`?");
        assert!(named(&["colour".into()], false).unwrap_err().to_string().contains("experiment list"));
    }

    #[test]
    fn a_run_prints_both_figures_and_writes_the_points_of_its_charts() {
        let folder = tempfile::tempdir().unwrap();
        let mut args = run_args(&["H11"]);
        args.out = Some(folder.path().join("figures"));
        let mut text = Vec::new();
        run_named(&args, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("HARE (FAST '26)") && text.contains("1 experiments, 4 criteria: 4 passed"),
            "{text}"
        );
        let points = std::fs::read_to_string(folder.path().join("figures/H11-1.csv")).unwrap();
        assert!(points.starts_with("series,x,y\n\"the limit\",0,0\n"), "{points}");
        assert!(std::fs::read_to_string(folder.path().join("figures/H11-1.svg")).unwrap().contains("</svg>"));

        args.json = true;
        let mut json = Vec::new();
        run_named(&args, &mut json).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let criterion = &json[0]["criteria"][0];
        assert_eq!((&json[0]["name"], &criterion["verdict"]), (&"H11".into(), &"passed".into()));
        assert!(criterion["value"].as_f64().unwrap() < 1.0);
    }
}

//! `millpond simulate`: what each tenant of a file would get under each of several policies.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use base::ByteSize;
use bench::plot::{Axis, Chart, Figure, Series};
use clap::Args;
use serde::Serialize;

use crate::file::{SimulationFile, policies, setup};
use crate::report::Table;
use crate::runner::bar;
use crate::world::{Figures, Prepared, Run, prepare, run};

/// Flags of `millpond simulate`.
#[derive(Clone, Debug, Args)]
pub struct SimulateArgs {
    /// The simulation's file, as docs/simulation.md describes it; config/simulation.toml is a commented example
    #[arg(value_name = "FILE", required_unless_present = "list_policies")]
    pub file: Option<PathBuf>,
    /// The policies to compare, the first as the baseline; replaces those of the file
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub policies: Vec<String>,
    /// List the policies
    #[arg(long)]
    pub list_policies: bool,
    /// Names all random sequences; replaces the file's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Draw memory and throughput over time into this file, .svg or .png
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Say what was decided when, and why
    #[arg(long)]
    pub decisions: bool,
    /// Print all that is known as JSON: totals, intervals, decisions, rounds of migrations
    #[arg(long)]
    pub json: bool,
}

/// Does what the command says.
///
/// # Errors
/// Where the file is wrong, a trace of it cannot be read, or the plot cannot be written.
pub fn execute(args: &SimulateArgs) -> Result<()> {
    simulate(args, &mut std::io::stdout().lock())
}

/// A policy's run beside the baseline's.
#[derive(Serialize)]
struct Compared {
    #[serde(flatten)]
    run: Run,
    hit_ratio: f64,
    requests_per_sec: f64,
    /// Each tenant's throughput relative to the baseline's.
    normalised: Vec<f64>,
    least_normalised: f64,
    /// Requests simulated per second of processor time.
    simulated_per_sec: f64,
}

fn simulate(args: &SimulateArgs, out: &mut dyn Write) -> Result<()> {
    if args.list_policies {
        let mut table = Table::new("", ["policy", "what it does"]);
        for (name, summary) in policies() {
            table.row([name, summary]);
        }
        write!(out, "{}", table.render(0))?;
        return Ok(());
    }
    let path = args.file.as_deref().context("name a file")?;
    let mut file = SimulationFile::read(path)?;
    file.seed = args.seed.unwrap_or(file.seed);
    if !args.policies.is_empty() {
        file.policies.clone_from(&args.policies);
    }
    let prepared = prepare(&file.scenario, file.seed)?;
    let runs = run_all(&file, prepared.clone())?;
    let compared = compare(runs);
    if let Some(plot) = &args.plot {
        draw(&file, &compared, plot)?;
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &compared)?;
        writeln!(out)?;
        return Ok(());
    }
    tell(&file, &prepared, &compared, out)?;
    if args.decisions { tell_decisions(&compared, out) } else { Ok(()) }
}

/// All policies side by side, one to a processor: each run, and the processor time that it took, in seconds.
fn run_all(file: &SimulationFile, prepared: Vec<Prepared>) -> Result<Vec<(Run, f64)>> {
    let known: Vec<&str> = policies().iter().map(|(name, _)| *name).collect();
    for name in &file.policies {
        if !known.contains(&name.as_str()) {
            match base::suggest::nearest(name, known.iter().copied()) {
                Some(near) => bail!("there is no policy `{name}`; did you mean `{near}`?"),
                None => {
                    bail!("there is no policy `{name}`; `millpond simulate --list-policies` has them all")
                }
            }
        }
    }
    let shared = Arc::new((file.scenario.clone(), prepared, file.seed));
    let next = Arc::new(AtomicU64::new(0));
    let done: Arc<Vec<AtomicU64>> = Arc::new(file.policies.iter().map(|_| AtomicU64::new(0)).collect());
    let mut threads = Vec::new();
    for worker in 0..base::thread::available_cpus().min(file.policies.len()) {
        let (shared, next, done) = (Arc::clone(&shared), Arc::clone(&next), Arc::clone(&done));
        let (names, guard) = (file.policies.clone(), file.guard);
        threads.push(base::thread::spawn(format!("simulate-{worker}"), move || {
            let mut runs = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed) as usize;
                let Some(setup) = names.get(i).and_then(|name| setup(name, guard)) else { break };
                let (scenario, prepared, seed) = &*shared;
                let began = processor_secs();
                let ran = run(scenario, prepared, setup, *seed, &mut |share| {
                    done[i].store((share * 1_000.0) as u64, Ordering::Relaxed);
                });
                done[i].store(1_000, Ordering::Relaxed);
                runs.push((i, ran, processor_secs() - began));
            }
            runs
        })?);
    }
    let bar = bar(file.policies.len());
    while threads.iter().any(|thread| !thread.is_finished()) {
        bar.set_position(done.iter().map(|share| share.load(Ordering::Relaxed)).sum());
        base::thread::sleep(Duration::from_millis(50));
    }
    bar.finish_and_clear();
    let mut runs = Vec::new();
    for thread in threads {
        runs.extend(thread.join().map_err(|_| anyhow!("a simulation panicked; the message stands above"))?);
    }
    runs.sort_by_key(|(i, ..)| *i);
    Ok(runs.into_iter().map(|(_, run, secs)| (run, secs)).collect())
}

/// Processor time of this thread, in seconds.
fn processor_secs() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn compare(runs: Vec<(Run, f64)>) -> Vec<Compared> {
    let baseline = runs.first().map(|(run, _)| run.clone());
    let compared = |(run, secs): (Run, f64)| {
        let normalised = baseline.as_ref().map(|baseline| run.normalised(baseline)).unwrap_or_default();
        Compared {
            hit_ratio: run.hit_ratio(),
            requests_per_sec: run.requests_per_sec(),
            least_normalised: normalised.iter().copied().fold(f64::INFINITY, f64::min),
            normalised,
            simulated_per_sec: run.simulated as f64 / secs.max(1e-9),
            run,
        }
    };
    runs.into_iter().map(compared).collect()
}

fn tell(
    file: &SimulationFile,
    prepared: &[Prepared],
    compared: &[Compared],
    out: &mut dyn Write,
) -> Result<()> {
    let scenario = &file.scenario;
    let measured = scenario.duration_secs - scenario.warm_up_secs;
    writeln!(
        out,
        "{} of memory, {measured} s measured after {} s of warm-up, seed {}\n",
        scenario.memory, scenario.warm_up_secs, file.seed
    )?;
    let mut tenants = Table::new("", ["tenant", "keys", "all of them take"]);
    for (tenant, prepared) in scenario.tenants.iter().zip(prepared) {
        let (keys, size) =
            (prepared.distinct_keys(), prepared.mean_size() + f64::from(scenario.item_overhead));
        tenants.row([
            tenant.name.clone(),
            keys.to_string(),
            ByteSize::new((keys as f64 * size) as u64).to_string(),
        ]);
    }
    writeln!(out, "{}", tenants.render(0))?;

    let against = compared.first().map_or("", |first| first.run.policy.as_str());
    let mut columns =
        ["policy", "tenant", "memory", "used", "hit ratio", "requests/s"].map(str::to_owned).to_vec();
    columns.push(format!("of {against}"));
    columns.extend(["p50 ms", "p99 ms"].map(str::to_owned));
    columns.extend(scenario.resources.iter().map(|resource| format!("{}/s", resource.name)));
    let mut table = Table::new("", columns);
    for Compared { run, normalised, .. } in compared {
        for ((name, figures), normalised) in run.names.iter().zip(&run.totals).zip(normalised) {
            table.row(row(&run.policy, name, figures, *normalised));
        }
    }
    writeln!(out, "{}", table.render(0))?;

    let mut all =
        Table::new("", ["policy", "hit ratio", "requests/s", "least of tenants", "decisions", "simulated/s"]);
    for one in compared {
        let applied = one.run.decisions.iter().filter(|decided| decided.applied).count();
        all.row([
            one.run.policy.clone(),
            format!("{:.4}", one.hit_ratio),
            format!("{:.0}", one.requests_per_sec),
            format!("{:.3}", one.least_normalised),
            format!("{applied} of {}", one.run.decisions.len()),
            format!("{:.1} M", one.simulated_per_sec / 1e6),
        ]);
    }
    write!(out, "{}", all.render(0))?;
    Ok(())
}

fn row(policy: &str, tenant: &str, figures: &Figures, normalised: f64) -> Vec<String> {
    let bytes = |bytes: f64| ByteSize::new(bytes as u64).to_string();
    let mut cells = vec![
        policy.to_owned(),
        tenant.to_owned(),
        bytes(figures.memory),
        bytes(figures.used),
        format!("{:.4}", figures.hit_ratio),
        format!("{:.0}", figures.requests_per_sec),
        format!("{normalised:.3}"),
        format!("{:.2}", figures.p50_ms),
        format!("{:.2}", figures.p99_ms),
    ];
    cells.extend(figures.grants.iter().map(|grant| format!("{grant:.0}")));
    cells
}

fn tell_decisions(compared: &[Compared], out: &mut dyn Write) -> Result<()> {
    for Compared { run, .. } in compared.iter().filter(|one| !one.run.decisions.is_empty()) {
        writeln!(out, "\n{}", run.policy)?;
        for decided in &run.decisions {
            let word = if decided.applied { "applied" } else { "stays" };
            let memory: Vec<String> =
                decided.memory.iter().map(|bytes| ByteSize::new(*bytes).to_string()).collect();
            writeln!(out, "  {:>8.1} s  {word}  {}", decided.at_secs, memory.join(", "))?;
            for reason in &decided.reasons {
                writeln!(out, "              {reason}")?;
            }
        }
    }
    Ok(())
}

/// Two charts for each policy: memory and throughput of the tenants over time.
fn draw(file: &SimulationFile, compared: &[Compared], path: &Path) -> Result<()> {
    let mut charts = Vec::new();
    for Compared { run, .. } in compared {
        let lines = |figure: fn(&Figures) -> f64| {
            let line =
                |(number, name): (usize, &String)| Series::line(name.clone(), run.over_time(number, figure));
            run.names.iter().enumerate().map(line).collect::<Vec<_>>()
        };
        let chart = |what: &str, y: Axis, series| Chart {
            title: format!("{}: {what}", run.policy),
            x: Axis::new("time (s)"),
            y,
            series,
            ..Chart::default()
        };
        charts.push(chart("memory", Axis::bytes("memory"), lines(|figures| figures.memory)));
        charts.push(chart(
            "throughput",
            Axis::new("requests per second"),
            lines(|figures| figures.requests_per_sec),
        ));
    }
    let title = format!("{} for {} tenants", file.scenario.memory, file.scenario.tenants.len());
    Figure { title, charts, columns: 2 }.write(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
        duration_secs = 20
        memory = \"64KiB\"
        policies = [\"equal\", \"exact-hit-rate\", \"non-partitioned\"]
        [control]
        interval_secs = 2
        sample_one_in = 1
        [[resource]]
        name = \"reads\"
        cost = \"read-units\"
        total_per_sec = 2000
        [[tenant]]
        name = \"fits\"
        workload = { keys = 350, popularity = \"uniform\" }
        [[tenant]]
        name = \"scans\"
        workload = { keys = 9000, popularity = \"scan\" }
    ";

    fn simulated(change: impl FnOnce(&mut SimulateArgs)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("what-if.toml");
        std::fs::write(&path, FILE).unwrap();
        let mut args = SimulateArgs {
            file: Some(path),
            policies: Vec::new(),
            list_policies: false,
            seed: None,
            plot: Some(folder.path().join("plot.svg")),
            decisions: true,
            json: false,
        };
        change(&mut args);
        let mut out = Vec::new();
        simulate(&args, &mut out).unwrap();
        assert!(std::fs::read_to_string(args.plot.unwrap()).unwrap().contains("</svg>"));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_tenant_is_told_under_each_policy() {
        let text = simulated(|_| {});
        for word in ["equal", "exact-hit-rate", "non-partitioned", "fits", "scans", "reads/s", "applied"] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
    }

    #[test]
    fn json_has_what_came_of_it() {
        let json: serde_json::Value = serde_json::from_str(&simulated(|args| args.json = true)).unwrap();
        let memory = |policy: usize| json[policy]["totals"][0]["memory"].as_f64().unwrap();
        assert!(
            memory(1) > 1.3 * memory(0),
            "who gains from memory gets it: {} after {}",
            memory(1),
            memory(0)
        );
        assert!(json[1]["normalised"][0].as_f64().unwrap() > 1.3);
        assert_eq!(json[0]["least_normalised"], 1.0);
        assert_eq!(json[2]["policy"], "non-partitioned");
    }
}

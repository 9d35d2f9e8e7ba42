//! `millpond simulate`: what each tenant of a file would get under each of several policies.

mod draw;
mod tell;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use base::ByteSize;
use base::thread::processor_time;
use clap::Args;
use evict::PolicyKind;
use serde::Serialize;
use workload::engine_memory::EngineMemory;
use workload::plot;

use crate::file::{SimulationFile, policies, setup};
use crate::progress::{STEPS, bar};
use crate::scenario::ItemCost;
use crate::table::Table;
use crate::world::{Eviction, Prepared, Run, prepare, run};

const EXAMPLE: &[u8] = include_bytes!("../../../../config/simulation.toml");

/// Flags of `millpond simulate`.
#[derive(Clone, Debug, Default, Args)]
pub struct SimulateArgs {
    /// The simulation's file; --print-example prints a commented one
    #[arg(value_name = "FILE", required_unless_present_any = ["list_policies", "print_example"])]
    pub file: Option<PathBuf>,
    /// Print a commented file to begin with
    #[arg(long)]
    pub print_example: bool,
    /// The policies to compare, the first as the baseline; replaces those of the file
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub policies: Vec<String>,
    /// List the policies
    #[arg(long)]
    pub list_policies: bool,
    /// All memory, in bytes or with a unit; replaces the file's. Several, as 64MiB,128MiB,256MiB,
    /// are simulated one after the other and compared: how much is needed?
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub memory: Vec<ByteSize>,
    /// Names all random sequences; replaces the file's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Draw into this file, .svg or .png: all policies beside each other, and memory and throughput
    /// over time; of several memories, hits and throughput by memory
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print each decision with its time and reason
    #[arg(long)]
    pub decisions: bool,
    /// Print all that is known as JSON: totals, intervals, decisions, rounds of migrations
    #[arg(long)]
    pub json: bool,
}

/// Executes the command.
///
/// # Errors
/// If the file is wrong, a trace of it cannot be read, or the plot cannot be written.
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
    if args.print_example {
        return Ok(out.write_all(EXAMPLE)?);
    }
    if args.list_policies {
        let mut table = Table::new("", ["policy", "what it does"]);
        for (name, summary) in policies() {
            table.row([name, summary]);
        }
        write!(out, "{}", table.render(0))?;
        return Ok(());
    }
    if let Some(plot) = &args.plot {
        plot::check_name(plot)?;
    }
    let path = args.file.as_deref().context("name a file")?;
    let mut file = SimulationFile::read(path)?;
    file.seed = args.seed.unwrap_or(file.seed);
    if !args.policies.is_empty() {
        file.policies.clone_from(&args.policies);
    }
    check_policies(&file)?;
    let prepared = prepare(&file.scenario, file.seed)?;
    let asked = if file.asks_engine { Some(Arc::new(ask(&file, &prepared)?)) } else { None };
    let memories = if args.memory.is_empty() { vec![file.scenario.memory] } else { args.memory.clone() };
    let mut sweep = Vec::new();
    for memory in memories {
        file.scenario.memory = memory;
        if let Some(asked) = &asked {
            file.scenario.item_cost = ItemCost::of_engine(asked, memory.as_u64());
        }
        let compared = compare(run_all(&file, prepared.clone())?);
        sweep.push(Simulated { memory, policies: compared });
    }
    if let Some(plot) = &args.plot {
        draw::draw(&file, &sweep, plot)?;
    }
    let [only] = &sweep[..] else {
        if args.json {
            serde_json::to_writer_pretty(&mut *out, &sweep)?;
            return Ok(writeln!(out)?);
        }
        return tell::sweep(&file, &sweep, out);
    };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &only.policies)?;
        return Ok(writeln!(out)?);
    }
    tell::tell(&file, &prepared, &only.policies, out)?;
    if args.decisions { tell::decisions(&only.policies, out) } else { Ok(()) }
}

/// All policies with one memory.
#[derive(Serialize)]
struct Simulated {
    memory: ByteSize,
    policies: Vec<Compared>,
}

/// Asks the engine for the memory that items of all tenants take.
fn ask(file: &SimulationFile, prepared: &[Prepared]) -> Result<EngineMemory> {
    /// Items of each tenant.
    const EXAMPLES: usize = 8_192;
    let each: Vec<_> = prepared.iter().map(|one| one.examples(EXAMPLES, file.seed)).collect();
    // One of each in turn, as they would come.
    let mixed: Vec<_> =
        (0..EXAMPLES).flat_map(|i| each.iter().filter_map(move |items| items.get(i))).copied().collect();
    let policy = match file.scenario.eviction {
        Eviction::ExactLru => PolicyKind::Lru { refresh_secs: 0 },
        Eviction::Engine(policy) => policy,
    };
    EngineMemory::ask(policy, &mixed)
}

/// Refuses a policy that there is none of, before anything is read.
fn check_policies(file: &SimulationFile) -> Result<()> {
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
    Ok(())
}

/// All policies side by side, one to a processor: each run, and the processor time that it took, in
/// seconds.
fn run_all(file: &SimulationFile, prepared: Vec<Prepared>) -> Result<Vec<(Run, f64)>> {
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
                let began = processor_time();
                let ran = run(scenario, prepared, setup, *seed, &mut |share| {
                    done[i].store((share * STEPS) as u64, Ordering::Relaxed);
                });
                done[i].store(STEPS as u64, Ordering::Relaxed);
                runs.push((i, ran, (processor_time() - began).as_secs_f64()));
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

#[cfg(test)]
mod against_engine;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
        duration_secs = 20
        memory = \"64KiB\"
        item_overhead_bytes = 24
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
        simulated_file(FILE, change)
    }

    fn simulated_file(text: &str, change: impl FnOnce(&mut SimulateArgs)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("what-if.toml");
        std::fs::write(&path, text).unwrap();
        let mut args = SimulateArgs {
            file: Some(path),
            plot: Some(folder.path().join("plot.svg")),
            decisions: true,
            ..SimulateArgs::default()
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
        assert!(text.contains(" of memory, 15 s measured after 5 s of warm-up, "), "{text}");
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

    /// A promise that nobody can keep passed without a word.
    #[test]
    fn a_promise_that_cannot_be_kept_is_told() {
        let text =
            told(&FILE.replace("name = \"scans\"", "name = \"scans\"\nmin_requests_per_sec = 6_000_000"));
        assert!(text.contains("not kept: scans was promised 6000000 requests/s and had"), "{text}");
        assert!(!told(FILE).contains("not kept"));
    }

    fn told(file: &str) -> String {
        simulated_file(file, |_| {})
    }

    /// The engine holds less than its memory: values alone said up to 6.6 points too many hits.
    #[test]
    fn items_take_what_the_engine_spends_unless_the_file_says_otherwise() {
        let hits = |file: &str| {
            let file = file
                .replace("64KiB", "24MiB")
                .replace("keys = 350", "keys = 20_000\nvalue_size = 1_000")
                .replace(
                    "workload = { keys = 20_000\nvalue_size = 1_000, popularity = \"uniform\" }",
                    "[tenant.workload]\nkeys = 20_000\nvalue_size = 1_000\npopularity = \"uniform\"",
                );
            let json: serde_json::Value =
                serde_json::from_str(&simulated_file(&file, |args| args.json = true)).unwrap();
            json[0]["totals"][0]["hit_ratio"].as_f64().unwrap()
        };
        let (values, engine) = (hits(FILE), hits(&FILE.replace("item_overhead_bytes = 24", "")));
        assert!(engine < values - 0.01, "{engine}, by values {values}");
    }

    #[test]
    fn the_example_is_a_file_that_can_be_read() {
        let mut out = Vec::new();
        simulate(&SimulateArgs { print_example: true, ..SimulateArgs::default() }, &mut out).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("example.toml");
        std::fs::write(&path, out).unwrap();
        let file = SimulationFile::read(&path).unwrap();
        assert_eq!((file.policies[0].as_str(), file.scenario.tenants.len()), ("equal", 3));
    }

    #[test]
    fn a_sweep_tells_hits_by_memory_and_a_wrong_name_of_a_plot_is_refused_first() {
        let text = simulated(|args| args.memory = vec![ByteSize::kib(32), ByteSize::kib(128)]);
        for word in ["32KiB", "128KiB", "hits fits", "hits scans"] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
        let args = SimulateArgs {
            file: Some("/no/such/file".into()),
            plot: Some("plot.pdf".into()),
            ..SimulateArgs::default()
        };
        assert!(simulate(&args, &mut Vec::new()).unwrap_err().to_string().contains(".svg"));
    }

    /// A trace that is read once misses what comes for the first time; one that began anew did not.
    #[test]
    fn a_trace_is_replayed_as_often_as_asked_at_its_times_and_by_tenant() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = String::from("ts,tenant,op,key,size,ttl\n");
        for second in 0..40 {
            for key in 0..10 {
                log += &format!("{second},shop,get,{key},500,15\n{second},blog,get,{key},100,\n");
            }
        }
        std::fs::write(folder.path().join("log.csv"), log).unwrap();
        let file = |tenant: &str| {
            format!(
                "duration_secs = 1000\nmemory = \"1MiB\"\nitem_overhead_bytes = 0\npolicies = [\"equal\"]\n\
                 [[tenant]]\nname = \"shop\"\ntrace = \"{}\"\ntrace_tenant = \"shop\"\n{tenant}",
                folder.path().join("log.csv").display()
            )
        };
        let run = |tenant: &str| -> serde_json::Value {
            let text = simulated_file(&file(tenant), |args| args.json = true);
            serde_json::from_str::<serde_json::Value>(&text).unwrap()[0].clone()
        };
        let once = run("trace_passes = 1\nclients = 1\n");
        let total = &once["totals"][0];
        assert_eq!((&total["requests"], &total["hits"]), (&400.into(), &390.into()), "of one tenant, once");
        assert_eq!(once["passes"][0], 1.0);
        assert!(once["ended_secs"].as_f64().unwrap() < 10.0);
        let timed = run("trace_passes = 2\ntrace_times = \"s\"\n");
        // Each 15 s all keys expire: 3 of 40 rounds miss, in both passes.
        let total = &timed["totals"][0];
        assert_eq!((&total["requests"], &total["hits"]), (&800.into(), &(800 - 6 * 10).into()), "{timed}");
        assert!(
            (39.0 * 2.0..90.0).contains(&timed["ended_secs"].as_f64().unwrap()),
            "{}",
            timed["ended_secs"]
        );
        let wrong = file("trace_passes = 1").replace("trace_tenant = \"shop\"", "trace_tenant = \"shops\"");
        let path = folder.path().join("wrong.toml");
        std::fs::write(&path, wrong).unwrap();
        let args = SimulateArgs { file: Some(path), ..SimulateArgs::default() };
        let error = format!("{:#}", simulate(&args, &mut Vec::new()).unwrap_err());
        assert!(error.contains("tenant `shops`") && error.contains("blog, shop"), "{error}");
        let text = told(&file("trace_passes = 1\nclients = 1\n"));
        assert!(text.contains("a trace, once") && text.contains("passes"), "{text}");
    }
}

//! X32 to X35: every policy on sets of tenants that replay published traces through caches of their own, which are resized by the
//! policy's decisions in virtual time.

use std::path::Path;

use allocate::registry;
use base::ByteSize;

use crate::experiments::{Context, Experiment, OURS};
use crate::report::{Chart, Criterion, Report, Style, Table};
use crate::scenario::{Apply, Backend, Control, Cost, Load, Resource, Scenario, Source, Tenant};
use crate::world::{Prepared, Run, Setup, run as simulate};

/// HOLPACA's four tenants.
pub(super) const X32: Experiment =
    experiment("X32", "policies on HOLPACA's four Twitter tenants", |context| run(context, &HOLPACAS));
/// Twitter tenants with the sizes of their items.
pub(super) const X33: Experiment =
    experiment("X33", "policies on six Twitter tenants with items of unlike sizes", |context| {
        run(context, &TWITTERS)
    });
/// Block I/O.
pub(super) const X34: Experiment =
    experiment("X34", "policies on three tenants with block I/O", |context| run(context, &BLOCKS));
/// A mix with a cliff.
pub(super) const X35: Experiment =
    experiment("X35", "policies on a mix of four tenants, one with a cliff", |context| run(context, &MIXED));

const fn experiment(name: &'static str, title: &'static str, run: fn(&mut Context) -> Report) -> Experiment {
    Experiment { name, paper: OURS, figure: "comparison of policies", title, run }
}

/// Tenants, and what they have together.
struct Set {
    name: &'static str,
    /// A trace, and the size of an item in bytes where the trace does not tell.
    traces: &'static [(&'static str, u32)],
    /// Memory, as a share of all their keys.
    memory: f64,
    /// Misses and writes per second that the backend carries, for all.
    backend: f64,
}

const HOLPACAS: Set = Set {
    name: "HOLPACA's four",
    traces: &[("twlike_c19", 1000), ("twlike_c40", 1000), ("twlike_c53", 1000), ("twlike_c18", 1000)],
    memory: 0.05,
    backend: 1_500.0,
};
/// Key and value as in the statistics of Yang et al., "A large scale analysis of hundreds of in-memory cache clusters at Twitter",
/// OSDI '20; three of the six are among HARE's (section 5.2).
const TWITTERS: Set = Set {
    name: "six Twitter tenants",
    traces: &[
        ("twlike_c8", 9520),
        ("twlike_c18", 55),
        ("twlike_c19", 143),
        ("twlike_c34", 355),
        ("twlike_c40", 199),
        ("twlike_c53", 9249),
    ],
    memory: 0.05,
    backend: 2_000.0,
};
const BLOCKS: Set = Set {
    name: "block I/O",
    traces: &[("arc_P2", 4096), ("arc_P6", 4096), ("arc_P12", 4096)],
    memory: 0.1,
    backend: 3_000.0,
};
const MIXED: Set = Set {
    name: "a mix",
    traces: &[("arc_P6", 1000), ("scarab_recs", 1000), ("orm_busy", 1000), ("ibm_docker", 1000)],
    memory: 0.05,
    backend: 2_000.0,
};

/// Virtual time of a run, and what of it is left out of the figures, in seconds.
const DURATION: f64 = 300.0;
const WARM_UP: f64 = 120.0;
/// The time between decisions, in seconds.
const INTERVAL: f64 = 3.0;

/// The trace's file.
fn file(traces: &Path, name: &str) -> std::path::PathBuf {
    traces.join(name).join(format!("{name}.csv.zst"))
}

/// The scenario of a set, and its traces; an error where one cannot be read.
fn scenario(set: &Set, traces: &Path) -> anyhow::Result<(Scenario, Vec<Prepared>)> {
    let mut scenario = Scenario {
        duration_secs: DURATION,
        warm_up_secs: WARM_UP,
        record_secs: INTERVAL,
        item_overhead: 0,
        resources: vec![Resource::new("backend", Cost::Fetches, set.backend)],
        backend: Backend { latency_ms: 1.0, ..Backend::default() },
        control: Control { interval_secs: INTERVAL, apply: Apply::AtOnce, ..Control::default() },
        ..Scenario::default()
    };
    let (mut prepared, mut all) = (Vec::new(), 0.0);
    for &(name, default_size) in set.traces {
        let source = Source::Trace { path: file(traces, name), requests: 3_000_000, default_size };
        let trace = Prepared::new(&source, 0)?;
        all += trace.distinct_keys() as f64 * trace.mean_size();
        prepared.push(trace);
        let mut tenant = Tenant::new(name, source);
        tenant.load = Load::Closed { clients: 64, think_ms: 0.0 };
        scenario.tenants.push(tenant);
    }
    scenario.memory = ByteSize::new((all * set.memory) as u64);
    Ok((scenario, prepared))
}

fn run(context: &mut Context, set: &Set) -> Report {
    let mut report = Report::new();
    let Some(traces) = context.traces() else {
        report.note("Left out: there are no published traces here; --traces names their folder.");
        return report;
    };
    let (scenario, prepared) = match scenario(set, &traces) {
        Ok(ready) => ready,
        Err(error) => {
            report.check(Criterion::holds(
                "the traces can be read",
                false,
                format!("{error:#}"),
                "all of them",
            ));
            return report;
        }
    };
    let policies = registry::policies();
    let mut setups: Vec<Setup> = vec![Setup::equal(), Setup::non_partitioned()];
    // Equal shares that stay are the baseline; the model of a shared cache is replaced by one that is shared.
    let modelled =
        |name: &str| ["static", "equal", "weighted"].contains(&name) || name.starts_with("non-partitioned");
    setups.extend(policies.iter().filter(|entry| !modelled(entry.name)).map(|entry| Setup::of(entry.make())));
    let seed = context.seed(0);
    let count = setups.len() as f64;
    let mut runs: Vec<(String, Run)> = Vec::new();
    for (i, setup) in setups.into_iter().enumerate() {
        let name = setup.name.clone();
        let run = simulate(&scenario, &prepared, setup, seed, &mut |_| ());
        context.progress((i as f64 + 1.0) / count);
        runs.push((name, run));
    }
    tell(&mut report, set, &scenario, &runs);
    report
}

/// The table, the chart, and who is best at what.
fn tell(report: &mut Report, set: &Set, scenario: &Scenario, runs: &[(String, Run)]) {
    let baseline = &runs[0].1;
    let mut columns = vec!["policy".to_owned(), "hit ratio".into(), "throughput x".into(), "least x".into()];
    columns.extend(set.traces.iter().map(|trace| format!("hits {}", trace.0)));
    let title = format!(
        "{}: {:.1} MB, backend {:.0}/s, a decision each {INTERVAL} s, seconds {WARM_UP} to {DURATION}",
        set.name,
        scenario.memory.as_u64() as f64 / 1e6,
        set.backend,
    );
    let mut table = Table::new(title, columns);
    let mut chart = Chart::new(
        format!("{}: throughput against fairness", set.name),
        "throughput of all, of equal shares",
        "least served, of equal shares",
    );
    let mut best: [(f64, &str); 3] = [(0.0, ""); 3];
    for (name, run) in runs {
        let throughput = run.requests_per_sec() / baseline.requests_per_sec();
        let least = run.least_normalised(baseline);
        let mut row = vec![
            name.clone(),
            format!("{:.4}", run.hit_ratio()),
            format!("{throughput:.3}"),
            format!("{least:.3}"),
        ];
        row.extend(run.totals.iter().map(|tenant| format!("{:.3}", tenant.hit_ratio)));
        table.row(row);
        chart = chart.with(name.as_str(), [(throughput, least)], Style::Dots);
        for (best, figure) in best.iter_mut().zip([run.hit_ratio(), throughput, least]) {
            if figure > best.0 + 1e-9 && name != "equal" {
                *best = (figure, name);
            }
        }
    }
    let [hits, throughput, least] = best;
    report
        .check(Criterion::number(format!("most hits: {}", hits.1), hits.0))
        .check(Criterion::number(format!("most throughput: {}", throughput.1), throughput.0).unit("x"))
        .check(Criterion::number(format!("the least served best off: {}", least.1), least.0).unit("x"));
    let of = |policy: &str| runs.iter().find(|run| run.0 == policy).map(|run| &run.1);
    if let Some(exact) = of("holpaca-exact") {
        let gain = exact.requests_per_sec() / baseline.requests_per_sec();
        report.check(
            Criterion::number("holpaca-exact: throughput, of equal shares", gain).unit("x").at_least(0.99),
        );
    }
    if let Some(hare) = of("hare") {
        let least = hare.least_normalised(baseline);
        report.check(Criterion::number("hare: the least served, of equal shares", least).unit("x"));
    }
    report.table(table).chart(chart);
    report.note(
        "Caches are plain LRU: what cliffhanger and talus gain by splitting queues is not in these figures, only how they divide memory. \
         Each tenant has 64 clients that do not think and at first an equal part of the backend.",
    );
}

//! H10: BunnyFS' dynamic experiment (HARE, FAST '26, section 5.2.2, figure 12), with bytes divided
//! by 64.
//!
//! Four tenants read blocks; over time each needs less of the device. Times are the paper's, after
//! 15 s of warm-up.

use allocate::drf::Drf;
use allocate::hare::{Hare, Settings};
use base::ByteSize;
use simulate::scenario::{
    Apply, Backend, Change, Control, Cost, ItemCost, Load, Pattern, Resource, Scenario, Source, Tenant,
};
use simulate::table::Table;
use simulate::world::{Decided, Run, Setup};
use workload::{Popularity, Sizes};

use super::phases::{changes, mean, relative, run_all};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, HARE};

/// BunnyFS under changing workloads.
pub(super) const H10: Experiment = Experiment {
    name: "H10",
    paper: HARE,
    figure: "figure 12",
    title: "a file server's HARE re-allocates within two periods, and a shared cache breaks the sharing incentive",
    run,
};

/// Bytes of a block.
const BLOCK: u32 = 4096;
/// A gigabyte of the paper, scaled, in blocks.
const GB: u64 = (1 << 30) / 64 / BLOCK as u64;
/// BunnyFS begins to decide after 14.5 s.
const WARM_UP: f64 = 15.0;
/// Seconds of the figure.
const LENGTH: f64 = 45.0;

fn tenant(name: &str, keys: u64, popularity: Popularity, change: Change) -> Tenant {
    let pattern =
        Pattern { keys, popularity, key_size: 0, value_size: Sizes::fixed(BLOCK), ..Pattern::default() };
    // Four threads, each with a queue of eight.
    let load = Load::Closed { clients: 32, think_ms: 0.0 };
    let changes = vec![Change { at_secs: WARM_UP + change.at_secs, ..change }];
    Tenant { load, changes, ..Tenant::new(name, Source::Pattern(pattern)) }
}

fn scenario() -> Scenario {
    let keys = |at_secs, keys| Change { at_secs, keys: Some(keys), ..Change::default() };
    let skewed = Popularity::Zipf { alpha: 0.99 };
    let skews = Change { at_secs: 25.0, popularity: Some(skewed), ..Change::default() };
    Scenario {
        duration_secs: WARM_UP + LENGTH,
        warm_up_secs: WARM_UP,
        record_secs: 0.25,
        memory: ByteSize::mib(32),
        item_cost: ItemCost::Bytes(0),
        resources: vec![
            Resource::new("device", Cost::FetchedBytes, f64::from(32 << 20)),
            // Copies of 4 workers at 1.9 G cycles of their 2.1, about a cycle per byte, scaled.
            Resource::new("processor", Cost::RequestBytes, 7.6e9 / 64.0),
        ],
        // The device is a 64th as fast, and so is an answer of its 11 us.
        backend: Backend { latency_ms: 0.7, round_trip_ms: 0.2, ..Backend::default() },
        control: Control {
            interval_secs: 1.0,
            window: 1,
            apply: Apply::Unthrottled,
            poll_secs: 0.1,
            sample_one_in: 1,
            curve_points: 128,
            ..Control::default()
        },
        tenants: vec![
            tenant("T1", 2 * GB, Popularity::Uniform, keys(5.0, GB)),
            tenant("T2", 2 * GB, skewed, keys(15.0, GB)),
            tenant("T3", 3 * GB / 2, Popularity::Zipf { alpha: 0.5 }, skews),
            tenant("T4", 2 * GB, Popularity::Scan, keys(35.0, GB / 2)),
        ],
        ..Scenario::default()
    }
}

fn setups() -> Vec<Setup> {
    // BunnyFS has neither salt nor a threshold.
    let hare = Hare { settings: Settings { salt: 0.0, apply_threshold: 0.0, ..Settings::default() } };
    let drf = || Drf { salt: 0.0, ..Drf::default() };
    vec![
        Setup::equal(),
        Setup::of(Box::new(drf())),
        Setup::of(Box::new(hare)),
        Setup { name: "NonPartCache+DRF".into(), ..Setup::shared_cache(Box::new(drf())) },
    ]
}

fn run(context: &mut Context) -> Report {
    let scenario = scenario();
    let runs = run_all(&scenario, setups(), context.seed(0), |share| context.progress(share));
    let [equal, drf, hare, shared] = &runs[..] else { unreachable!("four policies were run") };
    let changes = changes(&scenario);
    // From 2 s after a change to the next one.
    let ends = changes.iter().copied().skip(1).chain([scenario.duration_secs]);
    let phases: Vec<(f64, f64)> = changes.iter().map(|at| at + 2.0).zip(ends).collect();

    let mut report = Report::new();
    let mut table = Table::new(
        "requests per second relative to equal shares, from 2 s after each change",
        ["policy", "seconds", "T1", "T2", "T3", "T4"],
    );
    let (mut least, mut against_drf) = (f64::INFINITY, f64::INFINITY);
    for run in &runs[1..] {
        for &(from, until) in &phases {
            let gains: Vec<f64> = (0..4).map(|tenant| relative(run, equal, tenant, from, until)).collect();
            let mut row =
                vec![run.policy.clone(), format!("{:.0} to {:.0}", from - WARM_UP, until - WARM_UP)];
            row.extend(gains.iter().map(|gain| format!("{gain:.2}")));
            table.row(row);
            if std::ptr::eq(run, hare) {
                least = gains.iter().copied().fold(least, f64::min);
                let of_drf = |tenant| relative(hare, drf, tenant, from, until);
                against_drf = (0..4).map(of_drf).fold(against_drf, f64::min);
            }
        }
    }
    report.check(
        Criterion::number("HARE: least throughput of equal shares, any tenant, any phase", least)
            .paper("never below 1")
            .at_least(1.0),
    );
    report.check(Criterion::number("HARE: the same of DRF", against_drf).paper("never below 1"));
    reactions(&mut report, &scenario, hare);
    let (from, until) = phases[phases.len() - 1];
    report.check(
        Criterion::number(
            "NonPartCache+DRF: T4 of equal shares after the last change",
            relative(shared, equal, 3, from, until),
        )
        .paper("far below 1")
        .at_most(0.999),
    );
    report.check(Criterion::number(
        "HARE: all tenants' throughput of equal shares, all phases",
        all(hare) / all(equal),
    ));
    report.table(table);
    for number in 0..4 {
        let chart = Chart::new(format!("Tenant {}", equal.names[number]), "time (s)", "MB/s");
        let points = |run: &Run| {
            run.over_time(number, |figures| figures.requests_per_sec * f64::from(BLOCK) / 1e6)
                .into_iter()
                .map(|(at, rate)| (at - WARM_UP, rate))
                .filter(|(at, _)| *at >= 0.0)
                .collect::<Vec<_>>()
        };
        report.chart(runs.iter().fold(chart, |chart, run| chart.line(run.policy.clone(), points(run))));
    }
    report
}

fn reactions(report: &mut Report, scenario: &Scenario, hare: &Run) {
    let slowest = |of: fn(&Decided, &Decided, &[f64]) -> f64| {
        let totals: Vec<f64> = scenario.resources.iter().map(|resource| resource.total_per_sec).collect();
        changes(scenario).iter().map(|at| reaction(hare, *at, |a, b| of(a, b, &totals))).fold(0.0, f64::max)
    };
    let anything =
        |a: &Decided, b: &Decided, totals: &[f64]| moved_memory(a, b, totals).max(moved_rates(a, b, totals));
    report.check(
        Criterion::number(
            "HARE: periods of 1 s from a change until a hundredth of anything is re-allocated, at most",
            slowest(anything),
        )
        .decimals(1)
        .at_most(2.0),
    );
    report.check(Criterion::number("HARE: the same until memory moves", slowest(moved_memory)).decimals(1));
}

fn all(run: &Run) -> f64 {
    (0..4).map(|tenant| mean(run, tenant, WARM_UP, WARM_UP + LENGTH)).sum()
}

/// Seconds from a change to the first decision after it that differs by a hundredth, or more, from
/// the last one before it.
fn reaction(run: &Run, change: f64, differ: impl Fn(&Decided, &Decided) -> f64) -> f64 {
    let Some(before) = run.decisions.iter().rfind(|decided| decided.at_secs <= change) else {
        return f64::INFINITY;
    };
    let mut after = run.decisions.iter().filter(|decided| decided.at_secs > change);
    after
        .find(|decided| differ(before, decided) >= 0.01)
        .map_or(f64::INFINITY, |decided| decided.at_secs - change)
}

/// The most memory that a tenant has more or less of after one decision than after another, as a
/// share of all.
fn moved_memory(a: &Decided, b: &Decided, _totals: &[f64]) -> f64 {
    let all: u64 = a.memory.iter().sum();
    let most = a.memory.iter().zip(&b.memory).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
    most as f64 / all.max(1) as f64
}

/// The same of the other resources, of which there are these totals.
fn moved_rates(a: &Decided, b: &Decided, totals: &[f64]) -> f64 {
    let each = a.resources.iter().zip(&b.resources);
    let shares = each.flat_map(|(a, b)| a.iter().zip(b).zip(totals).map(|((a, b), all)| (a - b).abs() / all));
    shares.fold(0.0, f64::max)
}

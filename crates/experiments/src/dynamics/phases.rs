//! The shared part of the experiments over time: runs side by side, throughput relative to equal
//! shares, over windows that leave out changes.

use simulate::scenario::Scenario;
use simulate::world::{Prepared, Run, Setup, prepare, run};

/// Runs a scenario, whose tenants have declared workloads only, under each policy. `done` is called
/// with the share of all work that is done.
pub(super) fn run_all(scenario: &Scenario, setups: Vec<Setup>, seed: u64, done: impl Fn(f64)) -> Vec<Run> {
    let prepared = prepare(scenario, seed).expect("declared workloads need no file");
    run_prepared(scenario, &prepared, setups, seed, done)
}

/// The same with sources that were read before.
pub(super) fn run_prepared(
    scenario: &Scenario,
    prepared: &[Prepared],
    setups: Vec<Setup>,
    seed: u64,
    done: impl Fn(f64),
) -> Vec<Run> {
    let all = setups.len() as f64;
    let runs = setups
        .into_iter()
        .enumerate()
        .map(|(i, setup)| run(scenario, prepared, setup, seed, &mut |share| done((i as f64 + share) / all)));
    runs.collect()
}

/// Times at which any tenant's workload changes, in seconds, in order.
pub(super) fn changes(scenario: &Scenario) -> Vec<f64> {
    let mut times: Vec<f64> =
        scenario.tenants.iter().flat_map(|tenant| &tenant.changes).map(|change| change.at_secs).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// A tenant's mean throughput over the intervals that end after `from` and by `until`.
pub(super) fn mean(run: &Run, tenant: usize, from: f64, until: f64) -> f64 {
    let inside = run
        .intervals
        .iter()
        .filter(|interval| interval.at_secs > from + 1e-9 && interval.at_secs <= until + 1e-9);
    let (sum, count) = inside.fold((0.0, 0_u32), |(sum, count), interval| {
        (sum + interval.tenants[tenant].requests_per_sec, count + 1)
    });
    if count > 0 { sum / f64::from(count) } else { 0.0 }
}

/// A tenant's throughput relative to the baseline's, both as means over the same time.
pub(super) fn relative(run: &Run, baseline: &Run, tenant: usize, from: f64, until: f64) -> f64 {
    let base = mean(baseline, tenant, from, until);
    if base > 0.0 { mean(run, tenant, from, until) / base } else { 1.0 }
}

/// The least relative throughput of all tenants over a sliding window that ends at each interval.
pub(super) fn least_over_time(run: &Run, baseline: &Run, window_secs: f64) -> Vec<(f64, f64)> {
    let ends = run.intervals.iter().map(|interval| interval.at_secs).filter(|end| *end >= window_secs);
    let least = |end: f64| {
        let relative =
            (0..run.names.len()).map(|tenant| relative(run, baseline, tenant, end - window_secs, end));
        (end, relative.fold(f64::INFINITY, f64::min))
    };
    ends.map(least).collect()
}

/// Points that are not within `secs` after a change.
pub(super) fn settled(points: &[(f64, f64)], changes: &[f64], secs: f64) -> Vec<(f64, f64)> {
    let is_settled = |at: f64| !changes.iter().any(|change| (*change..*change + secs).contains(&at));
    points.iter().copied().filter(|(at, _)| is_settled(*at)).collect()
}

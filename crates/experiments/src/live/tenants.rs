//! L1: P1 with a real server: four unlike tenants, each with a backend of its own, share its
//! memory.

use std::time::Duration;

use anyhow::{Context as _, Result};
use base::rng::seeded;
use rand_distr::{Distribution, Zipf};
use simulate::table::Table;
use trial::served::Served;

use super::load::{Keys, Load, Tenant};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, HOLPACA};

/// Throughput of four tenants in one server, with and without the policy.
pub(super) const L1: Experiment = Experiment {
    name: "L1",
    paper: HOLPACA,
    figure: "figure 5, synthetic, live",
    title: "the throughput of four unlike tenants of a real server grows as memory moves",
    run,
};

/// Keys of each tenant, and bytes of a value.
const KEYS: u64 = 200_000;
const VALUE_BYTES: usize = 1_000;
/// Exponents of their popularity; 0 = each key is asked for as often.
const EXPONENTS: [f64; 4] = [1.2, 0.9, 0.6, 0.0];
const NAMES: [&str; 4] = ["T1", "T2", "T3", "T4"];
/// Fetches per second of each tenant's backend.
const BACKEND_PER_SEC: f64 = 2_000.0;
/// The memory for items that P1 has, and what else the server needs.
const MEMORY: &str = "90MiB";
/// Seconds with equal shares, and with the policy; the last ones of each are measured.
const EQUAL_SECS: u32 = 60;
const MOVED_SECS: u32 = 180;
const MEASURED_SECS: usize = 30;

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    if let Err(error) = measure(context, &mut report) {
        report.check(Criterion::holds("it runs", false, format!("{error:#}"), "no error"));
    }
    report
}

fn config(control: &str) -> String {
    let tenants: String = NAMES
        .iter()
        .map(|name| {
            format!("[[tenant]]\nname = \"{name}\"\n[[listener]]\nname = \"{name}\"\ntenant = \"{name}\"\n")
        })
        .collect();
    // A floor of a tenth of all memory for each of four, as in P1.
    format!(
        "memory = \"{MEMORY}\"\nthreads = 1\n[watch]\nhot_keys = 0\ncurve_one_in = 8\n[control]\nmode = \"{control}\"\n\
         policy = \"exact-throughput\"\nleast_share_percent = 40\n{tenants}"
    )
}

fn keys(exponent: f64, seed: u64) -> Result<Keys> {
    let zipf = Zipf::new(KEYS as f64, exponent).context("a distribution of keys")?;
    let mut rng = seeded(seed);
    Ok(Box::new(move || zipf.sample(&mut rng) as u64))
}

/// Reads and misses per second of each tenant, second by second.
type Course = Vec<Vec<(f64, f64)>>;

/// Watches the load for some seconds; `done` is called with the number of seconds so far.
fn watch(load: &Load, secs: u32, mut done: impl FnMut(u32)) -> Result<Course> {
    let mut course = Vec::new();
    let mut before = load.counts()?;
    for second in 1..=secs {
        base::thread::sleep(Duration::from_secs(1));
        let now = load.counts()?;
        let of = |(then, now): (&(u64, u64), &(u64, u64))| ((now.0 - then.0) as f64, (now.1 - then.1) as f64);
        course.push(before.iter().zip(&now).map(of).collect());
        before = now;
        done(second);
    }
    Ok(course)
}

/// The mean reads per second of each tenant over the last seconds, and its miss ratio.
fn last(course: &Course) -> Vec<(f64, f64)> {
    let measured = &course[course.len().saturating_sub(MEASURED_SECS)..];
    (0..NAMES.len())
        .map(|tenant| {
            let reads: f64 = measured.iter().map(|second| second[tenant].0).sum();
            let misses: f64 = measured.iter().map(|second| second[tenant].1).sum();
            (reads / measured.len() as f64, misses / reads.max(1.0))
        })
        .collect()
}

fn measure(context: &Context, report: &mut Report) -> Result<()> {
    let mut served = Served::start(&Served::own_program()?, &config("off"))?;
    let tenants = NAMES.iter().zip(EXPONENTS).zip(0..).map(|((name, exponent), number)| {
        let keys = keys(exponent, context.seed(number))?;
        let tenant = Tenant { name, keys, value_bytes: VALUE_BYTES, backend_per_sec: BACKEND_PER_SEC };
        Ok((tenant, served.address(name)?))
    });
    let load = Load::start(tenants.collect::<Result<_>>()?)?;
    let all = f64::from(EQUAL_SECS + MOVED_SECS);
    let equal = watch(&load, EQUAL_SECS, |second| context.progress(f64::from(second) / all))?;
    served.rewrite(&config("on"))?;
    let moved = watch(&load, MOVED_SECS, |second| context.progress(f64::from(EQUAL_SECS + second) / all))?;
    let decisions = served.decisions()?;
    load.stop()?;
    tell(report, &equal, &moved, &decisions);
    Ok(())
}

fn tell(report: &mut Report, equal: &Course, moved: &Course, decisions: &serde_json::Value) {
    let (before, after) = (last(equal), last(moved));
    let total = |figures: &[(f64, f64)]| figures.iter().map(|figure| figure.0).sum::<f64>();
    report.check(
        Criterion::number("throughput of all, of equal shares", total(&after) / total(&before))
            .paper("1.45; exact corner 1.67")
            .unit("x")
            .at_least(1.4),
    );
    let memory = decisions["memory_bytes"].as_f64().unwrap_or(f64::NAN);
    let pools = decisions["pools"].as_array().map_or(&[][..], Vec::as_slice);
    let granted = |name: &str| {
        let pool = pools.iter().find(|pool| pool["name"] == name);
        pool.and_then(|pool| pool["granted_bytes"].as_f64()).unwrap_or(f64::NAN) / memory
    };
    let least = NAMES.iter().map(|name| granted(name)).fold(f64::INFINITY, f64::min);
    report.check(Criterion::number("least part of the memory of any", least).at_least(0.0995));
    let sum: f64 = NAMES.iter().map(|name| granted(name)).sum();
    report.check(Criterion::number("sum of all grants, of the memory", sum).at_most(1.0));
    let error = decisions["prediction_error"].as_f64().unwrap_or(f64::INFINITY);
    let compared = decisions["predictions"].as_f64().unwrap_or(0.0);
    report.check(
        Criterion::number("mean difference of predicted and measured miss ratios", error)
            .decimals(4)
            .at_most(0.02),
    );
    report.check(Criterion::number("predictions that were compared", compared).decimals(0).at_least(8.0));
    let mut table = Table::new(
        "reads per second and miss ratios, with equal shares and with the policy",
        ["tenant", "equal", "moved", "times", "missed, equal", "moved", "memory %"],
    );
    for (tenant, name) in NAMES.iter().enumerate() {
        let ((reads, missed), (reads_moved, missed_moved)) = (before[tenant], after[tenant]);
        table.row([
            (*name).to_owned(),
            format!("{reads:.0}"),
            format!("{reads_moved:.0}"),
            format!("{:.2}", reads_moved / reads),
            format!("{missed:.3}"),
            format!("{missed_moved:.3}"),
            format!("{:.1}", 100.0 * granted(name)),
        ]);
    }
    report.table(table);
    let course = equal.iter().chain(moved).zip(1_u32..);
    let times = course.map(|(second, at)| {
        (f64::from(at), second.iter().map(|tenant| tenant.0).sum::<f64>() / total(&before))
    });
    report.chart(
        Chart::new("throughput of all tenants", "second", "times that of equal shares")
            .line("measured", times),
    );
}

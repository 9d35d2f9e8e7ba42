//! Four unlike tenants, each with a backend of its own, share the memory of a real server: with
//! distributions (L1), and with traces (L2). First with equal shares, then with the policy.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use base::rng::seeded;
use rand_distr::{Distribution, Zipf};
use simulate::table::Table;
use trial::lookaside::{Keys, Load, Tenant, Wire};
use trial::served::Served;
use workload::trace::{Op, TraceReader};

use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, HOLPACA};

/// P1 with a real server.
pub(super) const L1: Experiment = Experiment {
    name: "L1",
    paper: HOLPACA,
    figure: "figure 5, synthetic, live",
    title: "the throughput of four unlike tenants of a real server grows as memory moves",
    run: |context| report(context, &SYNTHETIC),
};

/// The same with tenants that replay traces.
pub(super) const L2: Experiment = Experiment {
    name: "L2",
    paper: HOLPACA,
    figure: "figure 5, traces, live",
    title: "the same with traces that have the published curves of Twitter's clusters",
    run: |context| report(context, &TRACES),
};

/// Promises with a real server, as in P3: each tenant is promised 0.95 of its throughput with equal
/// shares.
pub(super) const L3: Experiment = Experiment {
    name: "L3",
    paper: HOLPACA,
    figure: "figure 6, synthetic, live",
    title: "promises to four tenants of a real server are kept while their throughput grows",
    run: |context| {
        report(context, &Scene { promised: 0.95, least_gain: Some(1.0), least_part: 0.025, ..SYNTHETIC })
    },
};

/// Tenants, of one server or of a server each.
pub(super) struct Scene {
    pub(super) names: &'static [&'static str],
    pub(super) keys: fn(&Context, usize) -> Result<Keys>,
    /// The memory of the server.
    pub(super) memory: &'static str,
    pub(super) value_bytes: usize,
    /// Fetches per second of each tenant's backend: few enough for the load to stay far below what
    /// the server carries.
    pub(super) backend_per_sec: f64,
    /// The promise to each tenant, as a part of its throughput with equal shares; 0 = nothing, and
    /// a tenth of all memory is the least that each has.
    pub(super) promised: f64,
    /// The least throughput of all with the policy, in times of that with equal shares. `None`: it
    /// is only told.
    pub(super) least_gain: Option<f64>,
    /// The part of all memory that each tenant keeps at least.
    pub(super) least_part: f64,
}

/// Seconds with equal shares, and with the policy; the last ones of each are measured.
pub(super) const EQUAL_SECS: u32 = 60;
pub(super) const MOVED_SECS: u32 = 180;
const MEASURED_SECS: usize = 30;
/// The miss ratio of a tenant whose backend may be idle.
const LEAST_MISSED: f64 = 0.001;
/// The part of its backend's rate that each tenant must fetch, or the machine was the limit.
const LEAST_FETCHED: f64 = 0.9;

/// P1's 80 MB for items, and what else the server needs.
pub(super) const SYNTHETIC: Scene = Scene {
    names: &["T1", "T2", "T3", "T4"],
    keys: zipf,
    memory: "90MiB",
    value_bytes: 1_000,
    backend_per_sec: 2_000.0,
    promised: 0.0,
    least_gain: Some(1.4),
    least_part: 0.1,
};
/// About a twentieth of what all traces together ask for.
const TRACES: Scene = Scene {
    names: &["twlike_c18", "twlike_c19", "twlike_c40", "twlike_c53"],
    keys: replayed,
    memory: "128MiB",
    value_bytes: 4_000,
    backend_per_sec: 500.0,
    promised: 0.0,
    least_gain: Some(1.4),
    least_part: 0.1,
};

/// P1's tenants: 200,000 keys each, with these exponents of popularity; 0 = each key is asked for
/// as often.
fn zipf(context: &Context, tenant: usize) -> Result<Keys> {
    const KEYS: f64 = 200_000.0;
    const EXPONENTS: [f64; 4] = [1.2, 0.9, 0.6, 0.0];
    let zipf = Zipf::new(KEYS, EXPONENTS[tenant]).context("a distribution of keys")?;
    let mut rng = seeded(context.seed(tenant as u64));
    Ok(Box::new(move || zipf.sample(&mut rng) as u64))
}

/// The reads of a trace, over and over.
fn replayed(context: &Context, tenant: usize) -> Result<Keys> {
    replay(context, TRACES.names[tenant])
}

/// The reads of a trace of this name, over and over.
pub(super) fn replay(context: &Context, name: &str) -> Result<Keys> {
    let folder = context.traces().context("there are no traces; name their folder with --traces")?;
    let keys = reads_of(&folder.join(name).join(format!("{name}.csv.zst")))?;
    let mut next = 0;
    Ok(Box::new(move || {
        next = (next + 1) % keys.len();
        keys[next]
    }))
}

fn reads_of(file: &Path) -> Result<Vec<u64>> {
    let (mut trace, mut keys, mut key) = (TraceReader::open(file)?, Vec::new(), Vec::new());
    while let Some(request) = trace.next_request()? {
        if request.op == Op::Get {
            request.write_key(&mut key);
            keys.push(base::hash::key_hash(0, &key));
        }
    }
    anyhow::ensure!(!keys.is_empty(), "{} has no reads", file.display());
    Ok(keys)
}

fn report(context: &Context, scene: &Scene) -> Report {
    let mut report = Report::new();
    if let Err(error) = measure(context, scene, &mut report) {
        report.check(Criterion::holds("it runs", false, format!("{error:#}"), "no error"));
    }
    report
}

impl Scene {
    /// The configuration, with these promises in requests per second.
    fn config(&self, control: &str, promises: &[f64]) -> String {
        let tenants = self.names.iter().enumerate().map(|(number, name)| {
            let promise = promises.get(number).copied().unwrap_or(0.0);
            format!(
                "[[tenant]]\nname = \"{name}\"\nbackend_per_sec = {:.0}\nmin_operations_per_sec = {promise:.0}\n\
                 [[listener]]\nname = \"{name}\"\ntenant = \"{name}\"\n",
                self.backend_per_sec
            )
        });
        // As a part of an equal share.
        let least = 100.0 * self.least_part * self.names.len() as f64;
        format!(
            "memory = \"{}\"\nthreads = 1\n[watch]\nhot_keys = 0\ncurve_keys = 1024\ncurve_one_in = 8\n[control]\n\
             mode = \"{control}\"\npolicy = \"exact-throughput\"\nleast_share_percent = {least:.0}\n{}",
            self.memory,
            tenants.collect::<String>()
        )
    }
}

/// The reads per second of a tenant, and its miss ratio.
type Figures = (f64, f64);

/// Reads and misses per second of each tenant, second by second.
pub(super) type Course = Vec<Vec<(f64, f64)>>;

/// Watches the load for some seconds; `done` is called with the number of seconds so far.
pub(super) fn watch(load: &Load, secs: u32, mut done: impl FnMut(u32)) -> Result<Course> {
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
fn last(course: &Course) -> Vec<Figures> {
    let measured = &course[course.len().saturating_sub(MEASURED_SECS)..];
    (0..measured[0].len())
        .map(|tenant| {
            let reads: f64 = measured.iter().map(|second| second[tenant].0).sum();
            let misses: f64 = measured.iter().map(|second| second[tenant].1).sum();
            (reads / measured.len() as f64, misses / reads.max(1.0))
        })
        .collect()
}

fn measure(context: &Context, scene: &Scene, report: &mut Report) -> Result<()> {
    let mut served = Served::start(&Served::own_program()?, &scene.config("off", &[]))?;
    let tenants = scene.names.iter().zip(0..).map(|(name, number)| {
        let (keys, backend_per_sec) = ((scene.keys)(context, number)?, scene.backend_per_sec);
        let tenant =
            Tenant { name, keys, value_bytes: scene.value_bytes, backend_per_sec, wire: Wire::Memcached };
        Ok((tenant, served.address(name)?))
    });
    let load = Load::start(tenants.collect::<Result<_>>()?)?;
    let all = f64::from(EQUAL_SECS + MOVED_SECS);
    let equal = watch(&load, EQUAL_SECS, |second| context.progress(f64::from(second) / all))?;
    let promises: Vec<f64> = last(&equal).iter().map(|(reads, _)| scene.promised * reads).collect();
    served.rewrite(&scene.config("on", &promises))?;
    let moved = watch(&load, MOVED_SECS, |second| context.progress(f64::from(EQUAL_SECS + second) / all))?;
    let decisions = served.decisions()?;
    load.stop()?;
    let is_valid = tell(report, scene, (&equal, &moved), &decisions);
    if scene.promised > 0.0 && is_valid {
        judge_promises(report, &moved, &promises);
    }
    Ok(())
}

/// Says in how many spells of a few seconds each tenant had what it was promised, after the first.
fn judge_promises(report: &mut Report, moved: &Course, promises: &[f64]) {
    const SPELL: usize = 5;
    let warm = &moved[moved.len() / 3..];
    let least = (0..promises.len()).map(|tenant| {
        let spells: Vec<f64> = warm
            .chunks_exact(SPELL)
            .map(|spell| spell.iter().map(|second| second[tenant].0).sum::<f64>() / SPELL as f64)
            .collect();
        let kept = spells.iter().filter(|reads| **reads >= promises[tenant]).count();
        kept as f64 / spells.len().max(1) as f64
    });
    let least = least.fold(f64::INFINITY, f64::min);
    report.check(
        Criterion::number("spells of 5 s in which the worst served has what it was promised", 100.0 * least)
            .paper("all")
            .unit("%")
            .decimals(1)
            .at_least(95.0),
    );
}

/// Checks the throughput, the bounds and the predictions, and adds the course to the report.
/// Returns whether throughputs can be compared.
pub(super) fn tell(
    report: &mut Report,
    scene: &Scene,
    (equal, moved): (&Course, &Course),
    decisions: &serde_json::Value,
) -> bool {
    let (before, after) = (last(equal), last(moved));
    let total = |figures: &[Figures]| figures.iter().map(|figure| figure.0).sum::<f64>();
    // One that misses nothing is as fast as its client.
    let some = before.iter().chain(&after).filter(|(_, missed)| *missed > LEAST_MISSED);
    let fetched = some.map(|(reads, missed)| reads * missed / scene.backend_per_sec);
    let fetched = fetched.fold(f64::INFINITY, f64::min);
    let is_valid = fetched >= LEAST_FETCHED;
    report.check(
        Criterion::number("least part of what its backend carries that any tenant fetches", fetched)
            .at_least(LEAST_FETCHED),
    );
    if is_valid {
        let gain = total(&after) / total(&before);
        let throughput = Criterion::number("throughput of all, of equal shares", gain).unit("x");
        report.check(match scene.least_gain {
            Some(least) if scene.promised > 0.0 => throughput.at_least(least),
            Some(least) => throughput.paper("1.45; exact corner 1.67").at_least(least),
            None => throughput,
        });
    } else {
        report.note(
            "no gain is told, as the machine and not the backends limited the load: run it again on one with \
             nothing else to do",
        );
    }
    let memory = decisions["memory_bytes"].as_f64().unwrap_or(f64::NAN);
    let pools = decisions["pools"].as_array().map_or(&[][..], Vec::as_slice);
    let granted_bytes = |name: &str| {
        let pool = pools.iter().find(|pool| pool["name"] == name);
        pool.and_then(|pool| pool["granted_bytes"].as_f64()).unwrap_or(f64::NAN)
    };
    let granted = |name: &str| granted_bytes(name) / memory;
    let least = scene.names.iter().map(|name| granted(name)).fold(f64::INFINITY, f64::min);
    let least = Criterion::number("least part of the memory of any", least);
    report.check(least.at_least(0.995 * scene.least_part));
    // Bytes are added, as parts would be rounded, to more than the whole.
    let sum = scene.names.iter().map(|name| granted_bytes(name)).sum::<f64>() / memory;
    report.check(Criterion::number("sum of all grants, of the memory", sum).at_most(1.0));
    let error = decisions["prediction_error"].as_f64().unwrap_or(f64::INFINITY);
    let compared = decisions["predictions"].as_f64().unwrap_or(0.0);
    report.check(
        Criterion::number("mean difference of predicted and measured miss ratios", error)
            .decimals(4)
            .at_most(0.02),
    );
    report.check(Criterion::number("predictions that were compared", compared).decimals(0).at_least(8.0));
    add_figures(report, scene, (&before, &after), is_valid, granted);
    if is_valid {
        let course = equal.iter().chain(moved).zip(1_u32..);
        let times = course.map(|(second, at)| {
            (f64::from(at), second.iter().map(|tenant| tenant.0).sum::<f64>() / total(&before))
        });
        report.chart(
            Chart::new("throughput of all tenants", "second", "times that of equal shares")
                .line("measured", times),
        );
    }
    is_valid
}

/// Adds a table of all tenants, with gains if they mean something.
fn add_figures(
    report: &mut Report,
    scene: &Scene,
    (before, after): (&[Figures], &[Figures]),
    is_valid: bool,
    granted: impl Fn(&str) -> f64,
) {
    let mut table = Table::new(
        "reads per second and miss ratios, with equal shares and with the policy",
        ["tenant", "equal", "moved", "times", "missed, equal", "moved", "memory %"],
    );
    for (tenant, name) in scene.names.iter().enumerate() {
        let ((reads, missed), (reads_moved, missed_moved)) = (before[tenant], after[tenant]);
        table.row([
            (*name).to_owned(),
            format!("{reads:.0}"),
            format!("{reads_moved:.0}"),
            if is_valid { format!("{:.2}", reads_moved / reads) } else { "-".to_owned() },
            format!("{missed:.3}"),
            format!("{missed_moved:.3}"),
            format!("{:.1}", 100.0 * granted(name)),
        ]);
    }
    report.table(table);
}

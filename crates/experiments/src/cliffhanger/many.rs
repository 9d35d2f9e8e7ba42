//! Cliffs that a local search does not see: one behind a plateau, and several on one curve; and
//! what learning the whole curve does about them.

use allocate::cliffhanger::{CliffConfig, Form};
use allocate::talus::Talus;
use base::hash::mix64;
use curve::{Estimator, Kind, MissRatioCurve, StackDistance, Unit};
use simulate::scenario::TraceSource;
use simulate::table::Table;
use simulate::world::Trace;
use workload::queues::{ByCurves, CurveRules, Density, Profile, QueueCache, QueueConfig, Range, Splitting};

use super::{median, run};
use crate::report::{Chart, Criterion, Report};
use crate::{CLIFFHANGER, Context, Experiment, OURS};

/// A cliff behind a plateau.
pub(super) const STEP: Experiment = Experiment {
    name: "C7",
    paper: CLIFFHANGER,
    figure: "section 3.5 (sequential scans)",
    title: "a step behind a plateau: local search does not see it, the whole curve does",
    run: step,
};

/// Several cliffs.
pub(super) const MANY: Experiment = Experiment {
    name: "X20",
    paper: OURS,
    figure: "beyond Cliffhanger, section 4.2",
    title: "several cliffs on one curve, made and in traces",
    run: many,
};

fn range(share: f64, above: u64, upto: u64, density: Density) -> Range {
    Range { share, above, upto, density }
}

/// The ways to run one queue that are compared.
#[derive(Clone, Copy)]
enum Way {
    Lru,
    Printed,
    Repaired,
    Curves(f64),
}

/// Hits per request of the second half.
fn hits(way: Way, items: u64, keys: impl Iterator<Item = u64>, requests: usize) -> f64 {
    let queue = QueueConfig::items(items);
    let splitting = match way {
        Way::Lru => Splitting::Whole,
        Way::Printed => Splitting::ByHits(CliffConfig {
            form: Form::Printed,
            credit: Some((items / 1000).max(1)),
            window: 128,
            ..CliffConfig::default()
        }),
        Way::Repaired => Splitting::ByHits(CliffConfig::default()),
        Way::Curves(margin) => {
            let mut cache = ByCurves::new([queue], CurveRules { margin, ..CurveRules::default() });
            let hits = keys.take(requests).enumerate();
            let hits = hits.filter(|(i, key)| cache.access(0, *key) && *i >= requests / 2).count();
            return hits as f64 / (requests - requests / 2) as f64;
        }
    };
    let mut cache = QueueCache::new([QueueConfig { splitting, ..queue }]);
    run(&mut cache, keys.map(|key| (0, key)), requests, |_, _| {}).total
}

fn of_three(context: &Context, way: Way, items: u64, profile: &Profile, requests: usize) -> f64 {
    median([0, 1, 2].map(|part| hits(way, items, profile.requests(context.seed(part)), requests)))
}

fn step(context: &mut Context) -> Report {
    const ITEMS: u64 = 8000;
    const REQUESTS: usize = 2_000_000;
    let profile =
        Profile::new([range(0.456, 0, 2000, Density::Falling), range(0.45, 13_000, 13_500, Density::Even)]);
    let curve = profile.curve(135);
    let talus = Talus::new(curve.clone(), 0.0);
    let told = Splitting::Told(talus.split(ITEMS));
    let told = median([0, 1, 2].map(|part| {
        let mut cache = QueueCache::new([QueueConfig { splitting: told, ..QueueConfig::items(ITEMS) }]);
        let stream = profile.requests(context.seed(part)).map(|key| (0, key));
        run(&mut cache, stream, REQUESTS, |_, _| {}).total
    }));
    context.progress(0.2);
    let of = |way| of_three(context, way, ITEMS, &profile, REQUESTS);
    let lru = of(Way::Lru);
    let (printed, repaired) = (of(Way::Printed), of(Way::Repaired));
    context.progress(0.7);
    let (exact, margin) = (of(Way::Curves(0.0)), of(Way::Curves(0.02)));
    let mut report = Report::new();
    report
        .check(Criterion::number("hit ratio of LRU", lru).within(0.456, 0.005))
        .check(Criterion::number("Talus with the known curve (hull: 0.691)", told))
        .check(
            Criterion::number("cliff scaling as printed: it does not see the step", printed)
                .between(0.42, 0.46),
        )
        .check(Criterion::number("cliff scaling repaired: neither does this", repaired).between(0.42, 0.46))
        .check(Criterion::number("SHARDS and hull, margin of 2 %", margin).at_least(0.66))
        .check(Criterion::number("SHARDS and hull without a margin", exact));
    let sizes = || (0..=160).map(|i| f64::from(i) * 100.0);
    report.chart(
        Chart::new("A step behind a plateau", "items", "hits per request")
            .line("LRU", sizes().map(|size| (size, profile.hit_ratio(size))))
            .line("hull", sizes().map(|size| (size, 1.0 - talus.hull().miss_ratio(size)))),
    );
    report.note("Beyond the pointers' windows the curve is flat: nothing is hit there, so that no pointer moves. This is a limit of any local search.");
    report
}

/// Curves with two and with three cliffs.
fn made() -> [(&'static str, Profile); 2] {
    use Density::{Falling, Rising};
    let two =
        [range(0.2, 0, 1000, Falling), range(0.3, 1000, 5000, Rising), range(0.4, 6000, 20_000, Rising)];
    let three = [
        range(0.15, 0, 800, Falling),
        range(0.2, 800, 4000, Rising),
        range(0.3, 4500, 11_000, Rising),
        range(0.25, 12_000, 24_000, Rising),
    ];
    [("two cliffs", Profile::new(two)), ("three cliffs", Profile::new(three))]
}

/// Traces with cliffs, from the shared folder; the first two million requests of each.
const TRACES: [&str; 8] = [
    "arc_P6",
    "mrclike_cp_w02",
    "mrclike_msr_prxy_1",
    "mrclike_fiu_online",
    "twlike_c34",
    "twlike_c8",
    "cloudphysics_io_4k",
    "arc_P12",
];

fn many(context: &mut Context) -> Report {
    const REQUESTS: usize = 3_000_000;
    let mut report = Report::new();
    let columns = ["curve", "items", "LRU", "printed", "repaired", "curve learnt", "hull"];
    let mut table = Table::new("hits per request of the second half; medians of three seeds", columns);
    let (mut behind, mut gained) = (0.0_f64, Vec::new());
    for (name, profile) in made() {
        for items in [3000, 9000, 14_000, 18_000] {
            let of = |way| of_three(context, way, items, &profile, REQUESTS);
            let all = [Way::Lru, Way::Printed, Way::Repaired, Way::Curves(0.02)].map(of);
            let hull = 1.0 - profile.curve(240).hull().miss_ratio(items as f64);
            behind = behind.max(hull - all[3]);
            gained.push((all[2] - all[0], all[3] - all[0], hull - all[0]));
            row(&mut table, name, items, all, hull);
        }
        context.progress(if name == "two cliffs" { 0.3 } else { 0.6 });
    }
    report.table(table);
    let mean = |of: fn(&(f64, f64, f64)) -> f64| gained.iter().map(of).sum::<f64>() / gained.len() as f64;
    report
        .check(Criterion::number("learnt curve: farthest behind the hull", behind).at_most(0.03))
        .check(Criterion::number("mean gain over LRU: cliff scaling", mean(|gain| gain.0)))
        .check(
            Criterion::number("mean gain over LRU: curve learnt", mean(|gain| gain.1))
                .at_least(mean(|gain| gain.0)),
        )
        .check(Criterion::number("mean gain over LRU: the hulls themselves", mean(|gain| gain.2)));
    for (name, profile) in made() {
        let hull = profile.curve(240).hull();
        let sizes = || (0..=250).map(|i| f64::from(i) * 100.0);
        report.chart(
            Chart::new(format!("A curve with {name}"), "items", "hits per request")
                .line("LRU", sizes().map(|size| (size, profile.hit_ratio(size))))
                .line("hull", sizes().map(|size| (size, 1.0 - hull.miss_ratio(size)))),
        );
    }
    in_traces(context, &mut report, columns);
    report.note(
        "Where the printed rules hit more than the hull, their partitions add up to more than the queue.",
    );
    report.note("Two partitions are enough for any number of cliffs: each point of a hull lies between two points of the curve. What several cliffs need is not more partitions, but to know which two points.");
    report
}

fn row(table: &mut Table, name: &str, items: u64, all: [f64; 4], hull: f64) {
    let mut row = vec![name.to_owned(), items.to_string()];
    row.extend(all.iter().chain([&hull]).map(|hits| format!("{hits:.3}")));
    table.row(row);
}

/// Each trace at the size where its curve is farthest from its hull.
fn in_traces(context: &Context, report: &mut Report, columns: [&str; 7]) {
    let Some(folder) = context.traces() else {
        report.note("skipped: there are no shared traces here.");
        return;
    };
    let mut table = Table::new("traces, at the size where the curve is farthest from its hull", columns);
    let mut gained = Vec::new();
    for name in TRACES {
        let path = folder.join(name).join(format!("{name}.csv.zst"));
        let trace = match Trace::read(&TraceSource {
            path,
            requests: 2_000_000,
            default_size: 1,
            ..TraceSource::default()
        }) {
            Ok(trace) => trace,
            Err(error) => {
                report.note(format!("skipped: {error}"));
                continue;
            }
        };
        let keys = || (0..trace.len()).map(|i| trace.get(i).key);
        let (items, hull) = farthest(keys());
        let all = [Way::Lru, Way::Printed, Way::Repaired, Way::Curves(0.02)]
            .map(|way| hits(way, items, keys(), trace.len()));
        gained.push((all[2] - all[0], all[3] - all[0]));
        row(&mut table, name, items, all, 1.0 - hull);
    }
    report.table(table);
    let count = gained.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| gained.iter().map(of).sum::<f64>() / count;
    let worst = gained.iter().map(|gain| gain.1).fold(f64::INFINITY, f64::min);
    report
        .check(Criterion::number("traces: mean gain over LRU, cliff scaling", mean(|gain| gain.0)))
        .check(
            Criterion::number("traces: mean gain over LRU, curve learnt", mean(|gain| gain.1))
                .at_least(mean(|gain| gain.0)),
        )
        .check(Criterion::number("traces: least gain over LRU, curve learnt", worst));
}

/// The size at which the exact curve is farthest from its hull, and the hull's miss ratio there, of
/// the whole trace.
fn farthest(keys: impl Iterator<Item = u64>) -> (u64, f64) {
    let mut exact = StackDistance::new(Unit::Items);
    for key in keys {
        exact.record(mix64(key), 1, Kind::Read);
    }
    let curve: MissRatioCurve = exact.curve();
    let hull = curve.hull();
    let gap = |size: u64| curve.miss_ratio(size as f64) - hull.miss_ratio(size as f64);
    let sizes = (1..=400).map(|i| curve.max_size() * i / 400);
    let size = sizes.max_by(|a, b| gap(*a).total_cmp(&gap(*b))).unwrap_or(1).max(1);
    (size, hull.miss_ratio(size as f64))
}

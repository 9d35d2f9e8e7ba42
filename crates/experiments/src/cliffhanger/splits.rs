//! Queues of the engine that are split by the pool's live curve, on every shared trace that is long
//! enough, at sizes that were not chosen for it; and beside hill climbing between size classes.

use std::collections::HashSet;

use base::hash::mix64;
use millpond::strategy::Strategy;
use millpond::watch::CurveConfig;
use millpond::{ByteSize, Cache, PoolId};
use simulate::scenario::TraceSource;
use simulate::table::Table;
use simulate::world::Trace;

use super::engine::{LOADS, Replay, requests_of};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, OURS};

/// Splits of the engine.
pub(super) const SPLITS: Experiment = Experiment {
    name: "X23",
    paper: OURS,
    figure: "beyond Cliffhanger, figures 8 and 9, in the engine",
    title: "queues of the engine split by live curves, with and without hill climbing",
    run: splits,
};

/// All shared traces of 100,000 requests and 15,000 keys and more.
pub(crate) const TRACES: [&str; 22] = [
    "scarab_recs",
    "orm_busy",
    "weblog424",
    "ibm_docker",
    "arc_OLTP",
    "arc_P2",
    "arc_P6",
    "arc_P12",
    "cloudphysics_io",
    "cloudphysics_io_4k",
    "mooncake_conversation",
    "mooncake_synthetic",
    "twlike_c8",
    "twlike_c18",
    "twlike_c19",
    "twlike_c34",
    "twlike_c40",
    "twlike_c53",
    "tragen_tc-0",
    "mrclike_cp_w02",
    "mrclike_fiu_online",
    "mrclike_meta_kv1",
];
/// Parts of a trace's keys that memory holds, in percent.
const SHARES: [u64; 4] = [5, 10, 20, 40];
/// Requests that are read of a trace.
const REQUESTS: usize = 1_000_000;
/// Requests of a second, and so of a round of maintenance.
pub(crate) const PER_SECOND: usize = 1_000;
/// Memory of the cache for traces without sizes; values are as long as it takes.
pub(crate) const MEMORY: ByteSize = ByteSize::mib(32);
/// Part of it that items get, about, and what an item takes besides its value, in bytes.
const ITEMS_PERCENT: u64 = 90;
const ITEM_BYTES: u64 = 48;
/// The largest loss of hits that may be noise.
const NOISE: f64 = 0.005;

/// The reason that a split which costs hits is kept.
const OLDER: &str = "a split ends if the pool misses more than its curve says of LRU; if the hit ratio rises all the time, the \
                     curve remembers worse times, and says too much";

/// The outcome of a run, over the second half of its requests.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Hits per request.
    hits: f64,
    /// Hits that the learnt curve's hull promised beyond the curve, on average.
    promised: f64,
    /// Splits that were made or changed, and that failed.
    made: u64,
    failed: u64,
}

fn run(
    requests: &[(u64, u32)],
    memory: ByteSize,
    (policy, strategy): (&str, &str),
) -> Result<Outcome, String> {
    let replay = Replay::new(memory, policy, Strategy::by_name(strategy)?)?;
    let (cache, pool) = (&replay.cache, replay.pool);
    // A server learns the curves of all pools; what they take is not the cost of splits.
    let curve = CurveConfig { rate: 1.0 / 16.0, ..CurveConfig::default() };
    cache.set_curve(pool, Some(curve)).map_err(|error| error.to_string())?;
    let (mut hits, half) = (0_u64, requests.len() / 2);
    let mut promised = (0.0, 0_u32);
    for (i, &request) in requests.iter().enumerate() {
        hits += u64::from(replay.request(request) && i >= half);
        if (i + 1) % PER_SECOND == 0 {
            replay.maintain_after(1);
        }
        if i >= half && (i + 1) % (20 * PER_SECOND) == 0 {
            promised.0 += promised_gain(cache, pool);
            promised.1 += 1;
        }
    }
    let split = cache.pool_stats(pool).ok().and_then(|stats| stats.split).unwrap_or_default();
    Ok(Outcome {
        hits: hits as f64 / (requests.len() - half).max(1) as f64,
        promised: promised.0 / f64::from(promised.1.max(1)),
        made: split.made,
        failed: split.failed,
    })
}

/// The gain of the hull over the curve at the pool's size, as learnt now.
fn promised_gain(cache: &Cache, pool: PoolId) -> f64 {
    let Ok(Some(learnt)) = cache.curve(pool) else { return 0.0 };
    let size = learnt.memory_bytes as f64 / learnt.memory_per_byte;
    learnt.curve.miss_ratio(size) - learnt.curve.hull().miss_ratio(size)
}

/// The keys of a trace's requests.
pub(crate) fn unsized_requests(name: &str, context: &Context) -> Result<Vec<u64>, String> {
    let folder = context.traces().ok_or("there are no shared traces here")?;
    let path = folder.join(name).join(format!("{name}.csv.zst"));
    let source = TraceSource { path, requests: REQUESTS, default_size: 64, ..TraceSource::default() };
    let trace = Trace::read(&source).map_err(|error| error.to_string())?;
    Ok((0..trace.len()).map(|i| mix64(trace.get(i).key)).collect())
}

/// The size of values of which this many fill [`MEMORY`].
pub(crate) fn value_bytes(items: u64) -> u32 {
    let of_each = MEMORY.as_u64() * ITEMS_PERCENT / 100 / items.max(1);
    of_each.saturating_sub(ITEM_BYTES).clamp(1, 1 << 19) as u32
}

const ALONE: [(&str, &str); 3] = [("lru:0", "base"), ("lru+split", "base"), ("s3-fifo", "base")];

/// Every trace in one size class, at four sizes.
fn alone(context: &Context, report: &mut Report) {
    let mut table = Table::new(
        "one size class: hits per request of the second half",
        ["trace", "keys held", "lru", "lru+split", "gain", "promised", "splits made", "failed", "s3-fifo"],
    );
    let mut gains: Vec<(String, f64)> = Vec::new();
    for (done, name) in TRACES.into_iter().enumerate() {
        let keys = match unsized_requests(name, context) {
            Ok(keys) => keys,
            Err(error) => {
                report.note(format!("skipped: {name}: {error}"));
                continue;
            }
        };
        let distinct = keys.iter().collect::<HashSet<_>>().len() as u64;
        let mut of_trace = Vec::new();
        for share in SHARES {
            let value = value_bytes(distinct * share / 100);
            let requests: Vec<(u64, u32)> = keys.iter().map(|key| (*key, value)).collect();
            let [lru, split, s3] = ALONE.map(|way| run(&requests, MEMORY, way).unwrap_or_default());
            let gain = split.hits - lru.hits;
            table.row([
                name.to_owned(),
                format!("{share} %"),
                format!("{:.4}", lru.hits),
                format!("{:.4}", split.hits),
                format!("{gain:+.4}"),
                format!("{:+.4}", split.promised),
                split.made.to_string(),
                split.failed.to_string(),
                format!("{:.4}", s3.hits),
            ]);
            of_trace.push(gain);
        }
        let worst = of_trace.iter().copied().fold(f64::INFINITY, f64::min);
        let what = format!("{name}: least gain of lru+split over lru, of four sizes");
        report.check(Criterion::number(what, worst).decimals(4).at_least(-NOISE).missed_because(OLDER));
        gains.push((name.to_owned(), of_trace.iter().sum::<f64>() / of_trace.len() as f64));
        context.progress((done + 1) as f64 / (TRACES.len() + LOADS.len()) as f64);
    }
    report.table(table);
    if gains.is_empty() {
        return;
    }
    let mean = gains.iter().map(|(_, gain)| gain).sum::<f64>() / gains.len() as f64;
    report.check(Criterion::number("mean gain over all traces and sizes", mean).decimals(4).at_least(0.0));
    let chart = Chart::new("Mean gain of splits", "trace", "hits per request")
        .over(gains.iter().map(|(name, _)| name.clone()));
    report.chart(chart.bars("lru+split over lru", gains.iter().map(|(_, gain)| *gain)));
}

const WITH_CLASSES: [(&str, &str); 5] = [
    ("lru:0", "base"),
    ("lru+split", "base"),
    ("lru:0", "hill-climbing"),
    ("lru+split", "hill-climbing"),
    ("s3-fifo", "base"),
];

/// The loads of X22, with sizes, with and without hill climbing.
fn with_classes(context: &Context, report: &mut Report) {
    let headings = [
        "trace",
        "memory",
        "lru",
        "lru+split",
        "lru, hills",
        "lru+split, hills",
        "s3-fifo",
        "made",
        "failed",
    ];
    let mut table = Table::new("many size classes: hits per request of the second half", headings);
    for (done, load) in LOADS.iter().enumerate() {
        let requests = match requests_of(load, context) {
            Ok(requests) => requests,
            Err(error) => {
                report.note(format!("skipped: {}: {error}", load.name));
                continue;
            }
        };
        let mut known = HashSet::new();
        let bytes = |&(key, size): &(u64, u32)| if known.insert(key) { u64::from(size) + 64 } else { 0 };
        let footprint: u64 = requests.iter().map(bytes).sum();
        let memory = ByteSize::new((footprint / load.memory_part).max(16 << 20));
        let all = WITH_CLASSES.map(|way| run(&requests, memory, way).unwrap_or_default());
        let mut cells = vec![load.name.to_owned(), memory.to_string()];
        cells.extend(all.iter().map(|outcome| format!("{:.4}", outcome.hits)));
        cells.push(format!("{}, {}", all[1].made, all[3].made));
        cells.push(format!("{}, {}", all[1].failed, all[3].failed));
        table.row(cells);
        for (way, with, without) in [("", 1, 0), (", with hill climbing", 3, 2)] {
            let what = format!("{}: lru+split above lru{way}", load.name);
            let gain = all[with].hits - all[without].hits;
            report.check(Criterion::number(what, gain).decimals(4).at_least(-NOISE));
        }
        context.progress((TRACES.len() + done + 1) as f64 / (TRACES.len() + LOADS.len()) as f64);
    }
    report.table(table);
}

fn splits(context: &mut Context) -> Report {
    let mut report = Report::new();
    if context.traces().is_none() {
        report.note("skipped: there are no shared traces here.");
        return report;
    }
    alone(context, &mut report);
    with_classes(context, &mut report);
    report.note("Up to a million requests of each trace, a thousand in a second; writes count as reads. Every pool has a curve.");
    report
}

//! X40: the error that a learnt curve reports of itself, compared with the true one.

use std::path::Path;

use base::hash::mix64;
use curve::{Estimator, Kind, Shards, StackDistance, Unit};
use simulate::table::Table;
use workload::trace::TraceReader;

use crate::report::{Criterion, Report};
use crate::zipf::ZipfKeys;
use crate::{Context, Experiment, OURS, median};

/// The reported error is a bound, and a narrow one.
pub(super) const X40: Experiment = Experiment {
    name: "X40",
    paper: OURS,
    figure: "miss-ratio curves",
    title: "the told error of a curve bounds the true one in 95 of 100 cases, and is of its size",
    run,
};

/// The first requests of each trace.
const REQUESTS: usize = 300_000;
/// Samples of each kind of each trace.
const SAMPLES: u64 = 6;
/// Sizes at which curves are compared, evenly spread up to all keys together.
const SIZES: u64 = 100;

/// Samples: most keys, and the share of them.
const KINDS: [(&str, usize, f64); 6] = [
    ("512 keys", 512, 1.0),
    ("2,048 keys", 2_048, 1.0),
    ("8,192 keys", 8_192, 1.0),
    ("one key in 64", 8_192, 1.0 / 64.0),
    ("one key in 16", 8_192, 1.0 / 16.0),
    ("one key in 4", 8_192, 1.0 / 4.0),
];

/// A request: the key's number, and the size of its object, 0 if the trace does not state it.
type Asked = (u64, u32);

/// The first requests of a trace.
fn read(path: &Path) -> Option<Vec<Asked>> {
    let mut reader = TraceReader::open(path).ok()?;
    let (mut key, mut requests) = (Vec::new(), Vec::new());
    while requests.len() < REQUESTS
        && let Some(request) = reader.next_request().ok()?
    {
        request.write_key(&mut key);
        let size = request.size.map_or(0, |size| size.clamp(1, u64::from(u32::MAX)) as u32);
        requests.push((base::hash::key_hash(1, &key), size));
    }
    Some(requests)
}

/// Requests if there are no traces: hot keys, keys that are all alike, a loop beside hot keys.
fn made_up(context: &Context) -> Vec<(String, Vec<Asked>)> {
    let zipf = |part: u64, exponent| ZipfKeys::new(context.seed(part), 40_000, exponent);
    let of = |hashes: Vec<u64>| hashes.into_iter().map(|hash| (hash, 0)).collect();
    let half = REQUESTS / 2;
    let with_loop =
        zipf(3, 0.9).take(half).zip(0..).flat_map(|(hot, i): (u64, u64)| [hot, mix64((1 << 40) + i % 9_000)]);
    vec![
        ("Zipf 0.9".to_owned(), of(zipf(1, 0.9).take(REQUESTS).collect())),
        ("Zipf 0.5".to_owned(), of(zipf(2, 0.5).take(REQUESTS).collect())),
        ("uniform".to_owned(), of(zipf(4, 0.01).take(REQUESTS).collect())),
        ("Zipf 0.9 and a loop".to_owned(), of(with_loop.collect())),
    ]
}

/// A sample: its source, and the true and the reported error.
struct Case {
    kind: usize,
    real: f64,
    told: f64,
}

/// All samples of a trace over a unit. Sizes that the trace does not state are 200 bytes, or 10,000
/// for one key in ten.
fn cases(context: &Context, requests: &[Asked], unit: Unit) -> Vec<Case> {
    let size = |&(key, size): &Asked| match (unit, size) {
        (Unit::Items, _) => 1,
        (Unit::Bytes, 0) => [200, 10_000][usize::from(key % 10 == 3)],
        (Unit::Bytes, size) => size,
    };
    let mut exact = StackDistance::new(unit);
    requests.iter().for_each(|asked| exact.record(mix64(asked.0), size(asked), Kind::Read));
    let (truth, footprint) = (exact.curve(), exact.footprint() as f64);
    let mut cases = Vec::new();
    for (kind, &(_, keys, rate)) in KINDS.iter().enumerate() {
        for sample in 0..SAMPLES {
            let seed = context.seed(1_000 + sample);
            let mut shards = Shards::new(unit, rate, keys);
            requests.iter().for_each(|asked| shards.record(mix64(asked.0 ^ seed), size(asked), Kind::Read));
            let learnt = shards.curve();
            let at = |i: u64| footprint * i as f64 / SIZES as f64;
            let off = (1..=SIZES).map(|i| (truth.miss_ratio(at(i)) - learnt.miss_ratio(at(i))).abs());
            let told = learnt.confidence().map_or(0.0, |known| known.error);
            cases.push(Case { kind, real: off.sum::<f64>() / SIZES as f64, told });
        }
    }
    cases
}

/// The requests of each shared trace, with its name.
fn traces_of(context: &Context) -> Vec<(String, Vec<Asked>)> {
    let mut sources = Vec::new();
    for path in
        context.traces().and_then(|folder| workload::curves::traces_in(&folder).ok()).unwrap_or_default()
    {
        if path.to_string_lossy().contains(".lis") {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        sources.extend(read(&path).filter(|requests| !requests.is_empty()).map(|requests| (name, requests)));
    }
    sources
}

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let mut sources = traces_of(context);
    if sources.is_empty() {
        report.note("There are no traces here, so requests were made up; --traces names their folder.");
        sources = made_up(context);
    }
    let count = sources.len();
    let mut all = Vec::new();
    for (done, (_, requests)) in sources.iter().enumerate() {
        for unit in [Unit::Items, Unit::Bytes] {
            all.extend(cases(context, requests, unit));
        }
        context.progress((done + 1) as f64 / count as f64);
    }
    let mut table = Table::new(
        format!("{count} traces, over items and over bytes, {SAMPLES} samples each"),
        [
            "sample",
            "curves",
            "within the told error, %",
            "true error, median",
            "told, median",
            "told by true, median",
        ],
    );
    let mut tell = |name: &str, cases: &[&Case]| {
        let within = cases.iter().filter(|case| case.real <= case.told).count();
        let share = 100.0 * within as f64 / cases.len().max(1) as f64;
        let of = |figure: fn(&Case) -> f64| median(cases.iter().map(|case| figure(case)).collect::<Vec<_>>());
        // A curve that follows all keys has no error but that of its buckets.
        let sampled: Vec<f64> = cases
            .iter()
            .filter(|case| case.told > 0.0006)
            .map(|case| case.told / case.real.max(1e-9))
            .collect();
        let ratio = if sampled.is_empty() { 0.0 } else { median(sampled) };
        table.row([
            name.to_owned(),
            cases.len().to_string(),
            format!("{share:.1}"),
            format!("{:.4}", of(|case| case.real)),
            format!("{:.4}", of(|case| case.told)),
            format!("{ratio:.2}"),
        ]);
        (share, ratio)
    };
    for (kind, (name, ..)) in KINDS.iter().enumerate() {
        tell(name, &all.iter().filter(|case| case.kind == kind).collect::<Vec<_>>());
    }
    let (share, ratio) = tell("all", &all.iter().collect::<Vec<_>>());
    report
        .check(
            Criterion::number("true errors within the told one", share).decimals(1).unit("%").at_least(95.0),
        )
        .check(
            Criterion::number("the told error, of the true one, in the median", ratio)
                .decimals(2)
                .at_most(3.0),
        );
    report.table(table);
    report
}

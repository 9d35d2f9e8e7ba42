//! P7: SHARDS comes near the exact curve; and the requests that HOLPACA's data layer feeds it
//! reveal nothing of larger caches.

use curve::{Estimator, Kind, MissRatioCurve, Shards, StackDistance, Unit};

use super::{errors, points};
use crate::report::{Chart, Criterion, Report};
use crate::zipf::ZipfKeys;
use crate::{Context, Experiment, HOLPACA};

/// SHARDS is near, and must be fed with misses.
pub(super) const P7: Experiment = Experiment {
    name: "P7",
    paper: HOLPACA,
    figure: "section 4, miss-ratio curves",
    title: "SHARDS comes near the exact curve, and knows of larger caches only if misses are fed",
    run,
};

const KEYS: u64 = 200_000;
const REQUESTS: usize = 1_000_000;
/// The cache whose hits and misses are fed, in items.
const CACHE: u64 = 20_000;

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let unit = Unit::Items;
    let mut exact = StackDistance::new(unit);
    let mut of_rate = [0.01, 0.1].map(|rate| (rate, Shards::fixed_rate(unit, rate)));
    let mut fixed = Shards::fixed_size(unit, curve::shards::DEFAULT_KEYS);
    let mut hits_alone = Shards::fixed_rate(unit, 0.1);
    let mut lru = StackDistance::new(unit);
    for (i, hash) in ZipfKeys::new(context.seed(0), KEYS, 0.9).take(REQUESTS).enumerate() {
        exact.record(hash, 1, Kind::Read);
        fixed.record(hash, 1, Kind::Read);
        of_rate.iter_mut().for_each(|(_, shards)| shards.record(hash, 1, Kind::Read));
        // The published layer feeds a find that hits. A miss is inserted by a call that feeds only
        // if it replaces something.
        if lru.distance(hash, 1).is_some_and(|distance| distance <= CACHE) {
            hits_alone.record(hash, 1, Kind::Read);
        }
        if i % 100_000 == 0 {
            context.progress(i as f64 / REQUESTS as f64);
        }
    }
    let truth = exact.curve();
    let keys = exact.keys();
    let sizes: Vec<u64> = (1..=100).map(|i| keys * i / 100).collect();
    let mut chart = Chart::new("SHARDS on a million requests, Zipf 0.9", "cache size (items)", "miss ratio")
        .line("exact", points(&truth, keys));
    for (rate, shards) in &of_rate {
        let (mean, _) = errors(&truth, &shards.curve(), &sizes);
        let what = format!("mean error of SHARDS at a rate of {rate}");
        report.check(Criterion::number(what, mean).decimals(4).at_most(0.02));
        chart = chart.line(format!("rate {rate}"), points(&shards.curve(), keys));
    }
    let (mean, _) = errors(&truth, &fixed.curve(), &sizes);
    report.check(
        Criterion::number("mean error of SHARDS of fixed size, 8,192 keys", mean).decimals(4).at_most(0.01),
    );
    let beyond = |curve: &MissRatioCurve| curve.gain(CACHE as f64, (keys - CACHE) as f64);
    let (real, ours, theirs) = (beyond(&truth), beyond(&of_rate[1].1.curve()), beyond(&hits_alone.curve()));
    let what = format!("misses that a larger cache saves, as the curve of a cache of {CACHE} items says");
    report.check(Criterion::number(format!("{what}: exact"), real).at_least(0.05));
    report.check(Criterion::number(format!("{what}: fed with every get"), ours).within(real, 0.02));
    report.check(
        Criterion::number(format!("{what}: fed as published, with hits"), theirs).at_most(real / 10.0),
    );
    report.chart(chart.line("rate 0.1, fed with hits alone", points(&hits_alone.curve(), keys)));
    report.note(
        "The published data layer feeds finds that hit, and insertions that replace: a miss is never seen with its distance, and \
         the curve is flat beyond the cache that there is. Here every get is fed.",
    );
    report
}

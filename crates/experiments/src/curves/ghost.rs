//! H12: HopperKV's ghost cache counts exactly the hits that a list of keys by recency gives, and
//! its sample is close.

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use curve::ghost::{DEFAULT_RATE, DEFAULT_TICKS, Mode};
use curve::{Correction, Estimator, GhostCache, Kind, StackDistance, Unit};

use super::{errors, points};
use crate::report::{Chart, Criterion, Report, Style};
use crate::zipf::ZipfKeys;
use crate::{Context, Experiment, HARE};

/// A ghost cache is exact at full rate, and near at 1/32.
pub(super) const H12: Experiment = Experiment {
    name: "H12",
    paper: HARE,
    figure: "section 4.2, ghost cache",
    title: "a ghost cache counts what a list of keys says, and a sample of 1/32 comes near",
    run,
};

const BRUTE_REQUESTS: u32 = 100_000;
const ZIPF_KEYS: u64 = 1_000_000;
const ZIPF_REQUESTS: usize = 4_000_000;

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let ratios = readme();
    report.check(
        Criterion::holds(
            "hit ratios of the README's example at sizes 4, 6 and 8",
            ratios == [0.375, 0.5, 0.75],
            format!("{ratios:?}"),
            "exactly those",
        )
        .paper("0.375, 0.5, 0.75"),
    );
    let layouts: [(&str, Vec<u64>); 3] = [
        ("64 even ticks", (1..=64).map(|tick| tick * 32).collect()),
        ("uneven ticks", vec![1, 2, 3, 100, 101, 1500]),
        ("one tick", vec![700]),
    ];
    for (part, (name, ticks)) in (0..).zip(layouts) {
        let differ = against_a_list(context.seed(part), &ticks);
        let what =
            format!("ticks whose counts differ from those of a list, {BRUTE_REQUESTS} requests, {name}");
        report.check(Criterion::number(what, differ as f64).decimals(0).within(0.0, 0.0));
        context.progress(0.1 * f64::from(part as u32 + 1));
    }
    sampled(context, &mut report);
    report
}

/// The example of gcache's README: blocks 1 to 8, then eight accesses that count.
fn readme() -> [f64; 3] {
    let mut ghost = GhostCache::new(Unit::Items, [4, 6, 8], 1.0);
    (1..=8).for_each(|block| ghost.access(mix64(block), 0, Mode::Count));
    ghost.reset_counts();
    for block in [8, 5, 3, 2, 2, 1, 9, 10] {
        ghost.access(mix64(block), 0, Mode::Count);
    }
    let mut hits = 0.0;
    let (by_tick, misses) = ghost.counts();
    let all = by_tick.iter().sum::<f64>() + misses;
    [0, 1, 2].map(|tick| {
        hits += by_tick[tick];
        hits / all
    })
}

/// Returns the number of ticks whose count differs from that of a plain list of keys with the last
/// used at the end.
fn against_a_list(seed: u64, ticks: &[u64]) -> usize {
    let mut rng = seeded(seed);
    let mut ghost = GhostCache::new(Unit::Items, ticks.iter().copied(), 1.0);
    let mut list: Vec<u64> = Vec::new();
    let mut counts = vec![0.0; ticks.len() + 1];
    for _ in 0..BRUTE_REQUESTS {
        let key = (rng.random::<f64>().powi(2) * 2500.0) as u64;
        let at = list.iter().rposition(|held| *held == key);
        let distance = at.map(|at| (list.len() - at) as u64);
        let tick = distance.and_then(|distance| ticks.iter().position(|tick| distance <= *tick));
        counts[tick.unwrap_or(ticks.len())] += 1.0;
        if let Some(at) = at {
            list.remove(at);
        }
        list.push(key);
        ghost.access(mix64(key), 0, Mode::Count);
    }
    let (hits, misses) = ghost.counts();
    let ours = hits.iter().chain([&misses]);
    ours.zip(&counts).filter(|(ours, theirs)| ours != theirs).count()
}

/// A sample of 1/32 of a million keys.
fn sampled(context: &mut Context, report: &mut Report) {
    let mut exact = StackDistance::new(Unit::Items);
    let mut ghost = GhostCache::even(Unit::Items, ZIPF_KEYS, DEFAULT_TICKS, DEFAULT_RATE);
    for (i, hash) in ZipfKeys::new(context.seed(10), ZIPF_KEYS, 0.9).take(ZIPF_REQUESTS).enumerate() {
        exact.record(hash, 1, Kind::Read);
        ghost.record(hash, 1, Kind::Read);
        if i % 100_000 == 0 {
            context.progress(0.3 + 0.7 * i as f64 / ZIPF_REQUESTS as f64);
        }
    }
    let (truth, ours) = (exact.curve(), ghost.curve());
    let original = ghost.clone().with_correction(Correction::None).curve();
    let (mean, most) = errors(&truth, &ours, ghost.ticks());
    let (_, most_original) = errors(&truth, &original, ghost.ticks());
    report.check(
        Criterion::number("largest error of 64 ticks, 1/32 of 10^6 Zipf keys", most)
            .decimals(4)
            .at_most(0.02),
    );
    report.check(Criterion::number("mean error of the same", mean).decimals(4));
    report.check(
        Criterion::number("largest error without correction, as HopperKV has it", most_original).decimals(4),
    );
    report.chart(
        Chart::new("A ghost cache of 1/32 of a million keys, Zipf 0.9", "cache size (items)", "miss ratio")
            .line("exact", points(&truth, ZIPF_KEYS))
            .with("ghost cache", points(&ours, ZIPF_KEYS), Style::Dots),
    );
}

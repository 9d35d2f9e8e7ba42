//! Several queues: hill climbing on concave curves, and hill climbing with cliff scaling when one
//! has a cliff.

use allocate::cliffhanger::CliffConfig;
use allocate::{Pool, View, dynacache};
use base::rng::{RngExt, SeededRng, seeded};
use curve::{MissRatioCurve, Unit, che};
use rand_distr::{Distribution, Zipf};
use simulate::table::Table;
use workload::queues::{Density, Profile, QueueCache, QueueConfig, Range};

use super::{Run, median, run};
use crate::report::{Chart, Criterion, Report};
use crate::{CLIFFHANGER, Context, Experiment};

/// Hill climbing.
pub(super) const CLIMBING: Experiment = Experiment {
    name: "C5",
    paper: CLIFFHANGER,
    figure: "algorithm 1, section 4.1",
    title: "hill climbing reaches the optimum of concave curves",
    run: climbing,
};

/// Both algorithms.
pub(super) const COMBINED: Experiment = Experiment {
    name: "C6",
    paper: CLIFFHANGER,
    figure: "table 4",
    title: "hill climbing and cliff scaling add up",
    run: combined,
};

/// The load on one queue: Zipf's law over this many keys.
#[derive(Clone, Copy, Debug)]
struct Load {
    share: f64,
    keys: u64,
    exponent: f64,
}

impl Load {
    fn curve(&self, points: u64) -> MissRatioCurve {
        che::curve(Unit::Items, &che::zipf(self.keys, self.exponent, 1.0), self.keys, points)
    }
}

/// Four queues with very unequal request rates.
const LOADS: [Load; 4] = [
    Load { share: 0.70, keys: 20_000, exponent: 0.8 },
    Load { share: 0.20, keys: 20_000, exponent: 0.9 },
    Load { share: 0.08, keys: 40_000, exponent: 0.7 },
    Load { share: 0.02, keys: 40_000, exponent: 1.0 },
];
const MEMORY: u64 = 16_000;

/// Requests for keys of several Zipf laws, by their shares of one another.
struct ZipfStream {
    laws: Vec<(f64, Zipf<f64>)>,
    rng: SeededRng,
}

impl ZipfStream {
    fn new(loads: &[Load], seed: u64) -> Self {
        let law = |load: &Load| Zipf::new(load.keys as f64, load.exponent).expect("keys and an exponent");
        let all: f64 = loads.iter().map(|load| load.share).sum();
        Self { laws: loads.iter().map(|load| (load.share / all, law(load))).collect(), rng: seeded(seed) }
    }
}

impl Iterator for ZipfStream {
    type Item = (usize, u64);

    fn next(&mut self) -> Option<(usize, u64)> {
        let mut at: f64 = self.rng.random();
        let mut queue = 0;
        while queue + 1 < self.laws.len() && at >= self.laws[queue].0 {
            at -= self.laws[queue].0;
            queue += 1;
        }
        Some((queue, self.laws[queue].1.sample(&mut self.rng) as u64))
    }
}

/// The hit ratio of these sizes, and the best that any sizes have, by Che's approximation.
fn by_model(sizes: &[u64]) -> (f64, f64) {
    let mut view = View { memory: MEMORY, ..View::default() };
    view.pools = LOADS
        .iter()
        .map(|load| {
            let mut pool = Pool::new("queue", load.curve(400), 0);
            (pool.request_rate, pool.floor) = (load.share, 128);
            pool
        })
        .collect();
    let hits = |sizes: &[u64]| {
        let parts = view.pools.iter().zip(sizes);
        1.0 - parts.map(|(pool, &size)| pool.request_rate * pool.curve.miss_ratio(size as f64)).sum::<f64>()
    };
    let best: Vec<u64> = dynacache::solve(&view).iter().map(|grant| grant.memory).collect();
    (hits(sizes), hits(&best))
}

fn climbing(context: &mut Context) -> Report {
    const REQUESTS: usize = 4_000_000;
    let equal = QueueConfig::items(MEMORY / 4);
    let simulate = |shadow: u64, credit: Option<u64>, part: u64| {
        let queues = [equal.shadowed(shadow); 4];
        let mut cache = match credit {
            Some(credit) => QueueCache::climbing(queues, credit, credit, context.seed(part + 10)),
            None => QueueCache::new(queues),
        };
        let stream = ZipfStream::new(&LOADS, context.seed(part));
        let run = run(&mut cache, stream, REQUESTS, |_, _| {});
        (run.total, cache.items())
    };
    let (equal_by_model, best) = by_model(&[MEMORY / 4; 4]);
    let before = median([0, 1, 2].map(|part| simulate(0, None, part).0));
    let mut report = Report::new();
    report
        .check(Criterion::number("hit ratio of equal shares", before))
        .check(Criterion::number("the same by Che's approximation", equal_by_model))
        .check(Criterion::number("optimum by Che's approximation", best));
    let mut table = Table::new(
        "16,000 items, 4 M requests, medians of three seeds",
        ["credit", "shadow", "hit ratio", "of the gap", "sizes"],
    );
    for (done, (credit, shadow)) in
        [(1, 1000), (4, 1000), (16, 1000), (64, 1000), (4, 128)].into_iter().enumerate()
    {
        let runs = [0, 1, 2].map(|part| simulate(shadow, Some(credit), part));
        let total = median([0, 1, 2].map(|i| runs[i].0));
        let gap = (total - before) / (best - before);
        table.row([
            credit.to_string(),
            shadow.to_string(),
            format!("{total:.4}"),
            format!("{:.1} %", 100.0 * gap),
            format!("{:?}", runs[0].1),
        ]);
        let criterion =
            Criterion::number(format!("share of the gap closed, credit {credit}, shadow {shadow}"), gap);
        report.check(if credit <= 16 && shadow == 1000 { criterion.at_least(0.97) } else { criterion });
        context.progress((done + 1) as f64 / 6.0);
    }
    report.table(table).chart(over_time(context, equal));
    report
}

/// The sizes of the queues as they change (figure 8 of the paper).
fn over_time(context: &Context, equal: QueueConfig) -> Chart {
    const REQUESTS: usize = 4_000_000;
    let mut cache = QueueCache::climbing([equal.shadowed(1000); 4], 4, 4, context.seed(10));
    let mut sizes = vec![Vec::new(); 4];
    run(&mut cache, ZipfStream::new(&LOADS, context.seed(0)), REQUESTS, |share, cache| {
        for (points, items) in sizes.iter_mut().zip(cache.items()) {
            points.push((share * REQUESTS as f64 / 1e6, items as f64));
        }
    });
    let chart = Chart::new("Hill climbing: sizes of the queues", "million requests", "items");
    sizes.into_iter().zip(LOADS).fold(chart, |chart, (points, load)| {
        chart.line(format!("{:.0} % of the requests", 100.0 * load.share), points)
    })
}

/// Three queues without a cliff beside one that has one.
const CONCAVE: [Load; 3] = [Load { share: 1.0 / 6.0, keys: 4500, exponent: 0.0 }; 3];

/// Four queues, of which the first has a cliff.
#[derive(Clone, Copy)]
struct Mix {
    name: &'static str,
    /// The share of its requests below the cliff and on it, and the end of the cliff.
    low: f64,
    steep: f64,
    upto: u64,
    others: [Load; 3],
}

/// The queue with a cliff has a curve that is convex from 300 to 10,000 items, so that it gains
/// little by the next item wherever hill climbing begins below the middle, and most of all by all
/// of them.
const MIX: Mix = Mix { name: "as measured", low: 0.05, steep: 0.90, upto: 10_000, others: CONCAVE };

/// The same mix with one thing changed, each. The criteria of `MIX` hold for none of them.
const VARIATIONS: [Mix; 4] = [
    Mix { name: "the cliff ends at 8,000", upto: 8_000, ..MIX },
    Mix { name: "the cliff ends at 13,000", upto: 13_000, ..MIX },
    Mix { name: "20 % below the cliff, 60 % on it", low: 0.20, steep: 0.60, ..MIX },
    Mix {
        name: "the others by Zipf 0.8 over 20,000 keys",
        others: [Load { share: 1.0 / 6.0, keys: 20_000, exponent: 0.8 }; 3],
        ..MIX
    },
];

impl Mix {
    fn cliff(&self) -> Profile {
        Profile::new([
            Range { share: self.low, above: 0, upto: 300, density: Density::Falling },
            Range { share: self.steep, above: 300, upto: self.upto, density: Density::Rising },
        ])
    }
}

/// Requests of a run of both algorithms.
const COMBINED_REQUESTS: usize = 6_000_000;

/// Which of both algorithms are at work.
#[derive(Clone, Copy)]
struct Algorithms {
    name: &'static str,
    scales: bool,
    climbs: bool,
    by_slope: bool,
}

const ALGORITHMS: [Algorithms; 5] = [
    Algorithms { name: "none", scales: false, climbs: false, by_slope: false },
    Algorithms { name: "cliff scaling", scales: true, climbs: false, by_slope: false },
    Algorithms { name: "hill climbing", scales: false, climbs: true, by_slope: false },
    Algorithms { name: "both, by shadows as in the paper", scales: true, climbs: true, by_slope: false },
    Algorithms { name: "both", scales: true, climbs: true, by_slope: true },
];

/// The variations, each with all algorithms, a run each: hit ratios in percent.
fn variations(context: &Context) -> Table {
    let mut columns = vec!["the same queues, but".to_owned()];
    columns.extend(ALGORITHMS.map(|algorithms| algorithms.name.to_owned()));
    columns.push("both, above hill climbing".to_owned());
    let mut table = Table::new("how far that holds: hit ratio in percent, a run of each", columns);
    for (number, mix) in VARIATIONS.iter().enumerate() {
        let hits = ALGORITHMS.map(|algorithms| 100.0 * run_combined(context, mix, 0, algorithms).0.total);
        let mut row = vec![mix.name.to_owned()];
        row.extend(hits.map(|hits| format!("{hits:.1}")));
        row.push(format!("{:+.1} points", hits[4] - hits[2]));
        table.row(row);
        context.progress(0.5 + 0.5 * (number + 1) as f64 / VARIATIONS.len() as f64);
    }
    table
}

/// A run with these algorithms, and the sizes at its end.
fn run_combined(
    context: &Context,
    mix: &Mix,
    part: u64,
    Algorithms { scales, climbs, by_slope, .. }: Algorithms,
) -> (Run, Vec<u64>) {
    let plain = QueueConfig::items(3000).shadowed(if climbs { 500 } else { 0 });
    let rules = CliffConfig { credit: Some(6), ..CliffConfig::default() };
    let queue = QueueConfig { by_slope, ..if scales { plain.scaled(rules) } else { plain } };
    let mut cache = if climbs {
        QueueCache::climbing([queue; 4], 1, 1, context.seed(part + 10))
    } else {
        QueueCache::new([queue; 4])
    };
    let mut cliff = mix.cliff().requests(context.seed(part));
    let mut others = ZipfStream::new(&mix.others, context.seed(part + 20));
    let mut rng = seeded(context.seed(part + 30));
    let share: f64 = mix.others.iter().map(|load| load.share).sum();
    let stream = std::iter::from_fn(|| {
        if rng.random::<f64>() >= share {
            return cliff.next().map(|key| (0, key));
        }
        others.next().map(|(queue, key)| (queue + 1, key))
    });
    let run = run(&mut cache, stream, COMBINED_REQUESTS, |_, _| {});
    (run, cache.items())
}

fn combined(context: &mut Context) -> Report {
    let mut table = Table::new(
        "medians of three seeds; queue 0 has the cliff",
        ["algorithms", "hit ratio", "queue 0", "queue 1", "queue 2", "queue 3", "sizes"],
    );
    let (mut totals, mut by_queue) = (Vec::new(), Vec::new());
    for (done, algorithms) in ALGORITHMS.into_iter().enumerate() {
        let runs = [0, 1, 2].map(|part| run_combined(context, &MIX, part, algorithms));
        let total = median([0, 1, 2].map(|i| runs[i].0.total));
        let mut row = vec![algorithms.name.to_owned(), format!("{:.1} %", 100.0 * total)];
        let queues = [0, 1, 2, 3].map(|q| 100.0 * median([0, 1, 2].map(|i| runs[i].0.by_queue[q])));
        row.extend(queues.iter().map(|percent| format!("{percent:.1} %")));
        row.push(format!("{:?}", runs[0].1));
        table.row(row);
        totals.push(100.0 * total);
        by_queue.push(queues);
        context.progress((done + 1) as f64 / 10.0);
    }
    let mut report = Report::new();
    report
        .check(
            Criterion::number("cliff scaling alone, above none of them", totals[1] - totals[0])
                .decimals(1)
                .unit("points")
                .paper("8.2 points (37.3 to 45.5 %)")
                .at_least(7.0),
        )
        .check(
            Criterion::number("both, above hill climbing alone", totals[4] - totals[2])
                .decimals(1)
                .unit("points")
                .paper("1.8 points (70.3 to 72.1 %)")
                .at_least(1.5),
        );
    let chart = Chart::new("Four queues, one of them with a cliff", "algorithms", "% hits")
        .over(["none", "cliff scaling", "hill climbing", "both, as in the paper", "both, by the slope"])
        .bars("all queues", totals)
        .bars("the queue with the cliff", by_queue.iter().map(|queues| queues[0]))
        .bars("the others' mean", by_queue.iter().map(|queues| queues[1..].iter().sum::<f64>() / 3.0));
    report.table(table).chart(chart).table(variations(context));
    report.note("These queues were chosen so that both algorithms together gain: on the variations they mostly lose to hill climbing alone.");
    report.note("By shadows alone, both algorithms together end at the foot of the cliff when they run twice as long: behind a partition that is at the top of a cliff there is nothing to hit.");
    report
}

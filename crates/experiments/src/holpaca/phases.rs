//! P8: learnt curves after the workload has changed. HOLPACA's program never forgets: its
//! histograms grow for ever.

use allocate::holpaca::Holpaca;
use base::hash::mix64;
use base::rng::{RngExt, SeededRng, seeded};
use curve::{Estimator, Kind, Shards, Unit};

use super::model::{Cycle, EXPONENTS, KEY_BYTES, KEYS, MEMORY, Model};
use super::throughput::shares;
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, HOLPACA};

/// A change of phase.
pub(super) const P8: Experiment = Experiment {
    name: "P8",
    paper: HOLPACA,
    figure: "section 4.1, curves over time",
    title: "two tenants swap their distributions, and memory follows where curves age",
    run,
};

/// The cycle after which T1 and T4 swap, and the last one.
const CHANGE: usize = 60;
const LAST: usize = 120;
/// The interval at which curves age, in cycles.
const AGEING: usize = 5;
/// The share of keys that curves are learnt from.
const RATE: f64 = 0.1;

/// Draws keys by Zipf's law.
pub(super) struct Requests {
    /// The sum of weights up to each rank.
    sums: Vec<f64>,
}

impl Requests {
    pub(super) fn new(exponent: f64) -> Self {
        let mut sum = 0.0;
        let weight = |rank: u64| (rank as f64).powf(-exponent);
        let sums = (1..=KEYS).map(|rank| {
            sum += weight(rank);
            sum
        });
        Self { sums: sums.collect() }
    }

    /// The rank of a key, from 0 on.
    pub(super) fn draw(&self, rng: &mut SeededRng) -> u64 {
        let at = rng.random::<f64>() * self.sums[self.sums.len() - 1];
        self.sums.partition_point(|sum| *sum <= at) as u64
    }
}

/// Runs the cycles with curves that are learnt from each tenant's requests of each second, and age
/// if `ages`.
fn cycles(context: &Context, ages: bool) -> Vec<Cycle> {
    let mut rng = seeded(context.seed(0));
    let mut sources: Vec<Requests> = EXPONENTS.iter().map(|exponent| Requests::new(*exponent)).collect();
    let mut model = Model::new(4);
    let mut policy = Holpaca::exact();
    let mut learners: Vec<Shards> =
        (0..4).map(|_| Shards::fixed_rate(Unit::Bytes, RATE).with_max_size(2 * MEMORY)).collect();
    let mut cycles = Vec::with_capacity(LAST);
    for cycle in 0..LAST {
        if cycle == CHANGE {
            model.swap(0, 3);
            sources.swap(0, 3);
        }
        for (tenant, throughput) in model.throughputs().into_iter().enumerate() {
            let learner = &mut learners[tenant];
            for _ in 0..throughput as u64 {
                let hash = mix64(sources[tenant].draw(&mut rng) + tenant as u64 * KEYS + 1);
                if learner.follows(hash) {
                    learner.record(hash, KEY_BYTES as u32, Kind::Read);
                } else {
                    learner.count_unsampled(1);
                }
            }
            model.learn(tenant, learner.curve().thinned(128));
            if ages && cycle % AGEING == AGEING - 1 {
                learner.age();
            }
        }
        cycles.push(model.cycle(&mut policy, &mut |_| 1.0));
    }
    cycles
}

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let mut chart = Chart::new("T1 and T4 swap after cycle 60", "cycle", "requests per second, all tenants");
    for (name, ages) in [("with ageing", true), ("without ageing", false)] {
        let cycles = cycles(context, ages);
        context.progress(if ages { 0.5 } else { 1.0 });
        let before = cycles[CHANGE - 1].total();
        let after = cycles[LAST - 1].total();
        let recovered =
            Criterion::number(format!("{name}: 60 cycles later, of before"), after / before * 100.0)
                .unit("%");
        report.check(if ages { recovered.at_least(90.0) } else { recovered });
        let share = cycles[LAST - 1].shares()[3] * 100.0;
        report.check(Criterion::number(format!("{name}: T4's share then"), share).unit("%"));
        chart = chart.line(name, cycles.iter().enumerate().map(|(i, cycle)| (i as f64 + 1.0, cycle.total())));
        if ages {
            report.chart(shares("shares of memory, curves that age", &cycles));
        }
    }
    report.chart(chart).note(format!(
        "Curves are learnt from one key in {:.0} of each tenant's requests; ageing halves what was counted each {AGEING} cycles.",
        1.0 / RATE
    ));
    report
}

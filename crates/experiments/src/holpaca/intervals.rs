//! X31: a control interval chosen by observation, compared with fixed intervals. HOLPACA leaves the
//! choice to its user (section 4.2).

use allocate::Policy;
use allocate::holpaca::Holpaca;
use allocate::interval::{Interval, Tempo};
use base::hash::mix64;
use base::rng::seeded;
use curve::{Estimator, Kind, Shards, Unit};
use simulate::table::Table;

use super::model::{EXPONENTS, KEY_BYTES, KEYS, MEMORY, Model, noise};
use super::phases::Requests;
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, OURS};

/// The experiment on the interval between decisions.
pub(super) const X31: Experiment = Experiment {
    name: "X31",
    paper: OURS,
    figure: "control interval",
    title: "an interval that follows change, beside fixed ones of 1, 5 and 20 s",
    run,
};

/// Seconds of a run.
const SECONDS: u32 = 600;
/// One request in this many is sampled, and of these one key in ten.
const LOOKED_AT: f64 = 10.0;
const RATE: f64 = 0.1;
/// The interval at which curves age, in seconds.
const AGEING: u32 = 5;
/// Measured throughputs are off by up to this part.
const NOISE: f64 = 0.02;

/// The results of a run.
struct Outcome {
    /// Mean requests per second of all tenants.
    throughput: f64,
    decisions: u32,
    moved: u64,
    /// Seconds, and the interval then.
    course: Vec<(f64, f64)>,
}

/// Runs a workload in which T1 and T4 swap each `swap` seconds, with an interval that stays at
/// `fixed` or is chosen.
fn simulate(context: &Context, swap: Option<u32>, fixed: Option<f64>) -> Outcome {
    let (mut draws, mut errors) = (seeded(context.seed(1)), seeded(context.seed(2)));
    let mut noise = noise(&mut errors, NOISE);
    let mut sources: Vec<Requests> = EXPONENTS.iter().map(|exponent| Requests::new(*exponent)).collect();
    let (mut model, mut policy) = (Model::new(4), Holpaca::exact());
    let mut learners: Vec<Shards> =
        (0..4).map(|_| Shards::fixed_rate(Unit::Bytes, RATE).with_max_size(2 * MEMORY)).collect();
    let mut interval = Interval::new(Tempo { item_bytes: KEY_BYTES as f64, ..Tempo::default() });
    let (mut next, mut sum) = (1.0, 0.0);
    let mut outcome = Outcome { throughput: 0.0, decisions: 0, moved: 0, course: Vec::new() };
    for second in 1..=SECONDS {
        if swap.is_some_and(|swap| second % swap == 0) {
            model.swap(0, 3);
            sources.swap(0, 3);
        }
        model.second(&mut noise);
        for (tenant, throughput) in model.throughputs().into_iter().enumerate() {
            sum += throughput;
            for _ in 0..(throughput / LOOKED_AT) as u64 {
                let hash = mix64(sources[tenant].draw(&mut draws) + tenant as u64 * KEYS + 1);
                if learners[tenant].follows(hash) {
                    learners[tenant].record(hash, KEY_BYTES as u32, Kind::Read);
                } else {
                    learners[tenant].count_unsampled(1);
                }
            }
        }
        if f64::from(second) >= next {
            for (tenant, learner) in learners.iter().enumerate() {
                let learnt = learner.curve();
                let curve = learnt.thinned(128);
                model.learn(
                    tenant,
                    learnt.confidence().map_or(curve.clone(), |known| curve.with_confidence(known)),
                );
            }
            let decision = policy.decide(&model.view);
            interval.after(&model.view, &decision);
            outcome.decisions += 1;
            outcome.moved += decision.moved_bytes();
            model.resize(&decision);
            let secs = fixed.unwrap_or(interval.secs());
            outcome.course.push((f64::from(second), secs));
            next = f64::from(second) + secs;
        }
        if second % AGEING == 0 {
            learners.iter_mut().for_each(Estimator::age);
        }
    }
    outcome.throughput = sum / f64::from(SECONDS);
    outcome
}

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let mut table = Table::new(
        format!("{SECONDS} s, mean throughput in thousands per second; decisions; memory moved"),
        ["workload", "interval", "throughput", "decisions", "moved MB"],
    );
    let mut chart = Chart::new("the interval that is chosen", "seconds", "interval, seconds");
    let workloads =
        [("steady", None), ("T1 and T4 swap each 150 s", Some(150)), ("they swap each 30 s", Some(30))];
    for (row, (workload, swap)) in workloads.into_iter().enumerate() {
        let fixed: Vec<(f64, Outcome)> =
            [1.0, 5.0, 20.0].map(|secs| (secs, simulate(context, swap, Some(secs)))).into();
        let chosen = simulate(context, swap, None);
        context.progress((row + 1) as f64 / workloads.len() as f64);
        let best = fixed.iter().map(|(_, outcome)| outcome.throughput).fold(0.0, f64::max);
        let tell = |table: &mut Table, name: String, outcome: &Outcome| {
            table.row([
                workload.to_owned(),
                name,
                format!("{:.1}", outcome.throughput / 1e3),
                outcome.decisions.to_string(),
                format!("{:.1}", outcome.moved as f64 / 1e6),
            ]);
        };
        for (secs, outcome) in &fixed {
            tell(&mut table, format!("{secs:.0} s"), outcome);
        }
        tell(&mut table, "chosen".into(), &chosen);
        report.check(
            Criterion::number(
                format!("{workload}: throughput, of the best fixed one in hindsight"),
                chosen.throughput / best,
            )
            .unit("x")
            .at_least(0.97)
            .missed_because(
                "an interval that was calm has to be given up before a change is followed, and what is missed until then counts where \
                 changes are large and rare",
            ),
        );
        let saved = 1.0 - f64::from(chosen.decisions) / f64::from(fixed[0].1.decisions);
        let saved =
            Criterion::number(format!("{workload}: decisions saved against 1 s"), saved * 100.0).unit("%");
        report.check(if swap.is_none() { saved.at_least(50.0) } else { saved });
        chart = chart.line(workload, chosen.course);
    }
    report.table(table).chart(chart);
    report.note(
        "A decision moves at most a hundredth of memory, so that short intervals also follow faster; pools fill what they were given by \
         their misses. The decision itself costs nothing in this model: what is saved is the orchestrator's time and the agents'.",
    );
    report
}

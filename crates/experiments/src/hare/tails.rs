//! X10: a bound on tail latency, which HARE leaves as future work; and promises beside it.

use allocate::hare::tail::{TailBound, latencies};
use allocate::hare::{Mode, Settings, allocate};
use allocate::{Demand, Grant, Pool, Resource, View};
use base::rng::{RngExt, seeded};
use curve::{MissRatioCurve, Point, Unit, che};
use simulate::table::Table;

use super::model::{MB, hare, least, normalised, presently_equal};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, OURS};

pub(super) const X10: Experiment = Experiment {
    name: "X10",
    paper: OURS,
    figure: "HARE, section 4.3, future work",
    title: "HARE with promises and a bound on p999",
    run: x10,
};

/// Requests in relation to the capacity of an equal share.
const LOAD: f64 = 0.9;
/// The bound on p999, in seconds; a tenant that an equal share leaves above it must not get worse.
const BOUND: f64 = 0.3;
/// Requests that are drawn to measure a tail.
const DRAWN: usize = 2_000_000;

/// Three tenants of a backend: one that nearly fits, one that is skewed, one with a large set.
fn latency_tenants() -> View {
    let points = [(1000, 0.1), (1200, 0.005), (10_000, 0.004)];
    let points = points.map(|(megabytes, miss_ratio)| Point { size: megabytes * MB, miss_ratio });
    let curves = [
        ("nearly-fits", MissRatioCurve::new(Unit::Bytes, points).expect("sizes rise")),
        ("skewed", che::curve(Unit::Bytes, &che::zipf(40_000, 0.6, 4e5), 16_000 * MB, 128)),
        ("large", MissRatioCurve::uniform(Unit::Bytes, 20_000 * MB)),
    ];
    let pools = curves.into_iter().map(|(name, curve)| {
        let mut pool = Pool::new(name, curve, 0);
        (pool.demands, pool.grants) = (vec![Demand::new(1.0, 1.0), Demand::new(1.0, 0.0)], vec![0.0; 2]);
        pool
    });
    let resources = [("read-units", 600.0), ("requests", 9000.0)];
    let resources = resources.map(|(name, total)| Resource { name: name.into(), total });
    let mut view = presently_equal(View {
        memory: 3000 * MB,
        resources: resources.to_vec(),
        pools: pools.collect(),
        ..View::default()
    });
    // Clients in an open loop, at nine tenths of the capacity of an equal share.
    view.pools.iter_mut().for_each(|pool| pool.request_rate *= LOAD);
    view
}

/// The p999 of waiting for the backend, in seconds, by a queue that is run: Poisson requests, of
/// which some miss and bring exponential work, served in turn at the granted rate.
fn measured(pool: &Pool, grant: &Grant, seed: u64) -> f64 {
    let mut rng = seeded(seed);
    let mut exponential = |mean: f64| -mean * (1.0 - rng.random::<f64>()).ln();
    let miss_ratio = pool.misses(grant.memory, &grant.resources).all;
    let (mut now, mut free) = (0.0_f64, 0.0_f64);
    let mut missed = seeded(seed ^ 1);
    let mut waits: Vec<f64> = (0..DRAWN)
        .map(|_| {
            now += exponential(1.0 / pool.request_rate);
            if missed.random::<f64>() >= miss_ratio {
                return 0.0;
            }
            let wait = (free - now).max(0.0);
            free = now + wait + exponential(1.0 / grant.resources[0]);
            wait
        })
        .collect();
    waits.sort_by(f64::total_cmp);
    waits[DRAWN / 1000 * 999]
}

/// Three random tenants with the demands of these, which an equal split serves at nine tenths of
/// its capacity.
fn any_three(like: &View, seed: u64) -> View {
    let mut view = like.clone();
    let mut rng = seeded(seed);
    for pool in &mut view.pools {
        let set = rng.random_range(500..=20_000) * MB;
        // Keys that are requested only once are missed at any size.
        let (knee, rest) = (rng.random_range(0.02..0.6), rng.random_range(0.001..0.02));
        let points =
            [(set / 10, knee), (set, rest)].map(|(size, miss_ratio): (u64, f64)| Point { size, miss_ratio });
        pool.curve = MissRatioCurve::new(Unit::Bytes, points).expect("sizes rise").into();
    }
    let mut view = presently_equal(view);
    view.pools.iter_mut().for_each(|pool| pool.request_rate *= LOAD);
    view
}

/// Returns how many of `sets` random sets have a tenant whose p999 gets worse than both an equal
/// split's and the bound, and the mean of the least gains.
fn broken(context: &Context, settings: &Settings, bound: &TailBound, sets: u64) -> (usize, f64) {
    let (mut broken, mut gains) = (0, 0.0);
    let like = latency_tenants();
    for set in 0..sets {
        let view = any_three(&like, context.seed(100 + set));
        let equal: Vec<Grant> = view.pools.iter().map(Grant::present).collect();
        let grants = allocate(&view, settings).grants;
        let (before, after) = (latencies(&view, &equal, bound), latencies(&view, &grants, bound));
        let worse =
            before.iter().zip(&after).any(|(before, after)| *after > before.max(bound.seconds) * 1.001);
        broken += usize::from(worse);
        gains += least(&normalised(&view, &grants)) / sets as f64;
    }
    (broken, gains)
}

/// The results of one way for the three tenants.
struct Seen {
    gains: Vec<f64>,
    /// p999 by the model and by a queue that is run, in milliseconds.
    model: Vec<f64>,
    run: Vec<f64>,
    unmet: usize,
}

/// Returns the results of `settings`, with the last tenant promised `promise` times what an equal
/// share carries.
fn look(context: &Context, settings: &Settings, promise: f64, bound: &TailBound) -> Seen {
    let mut view = latency_tenants();
    view.pools[2].min_request_rate = view.pools[2].request_rate / LOAD * promise;
    let grants = allocate(&view, settings).grants;
    let model = latencies(&view, &grants, bound).iter().map(|seconds| 1e3 * seconds).collect();
    let gains = normalised(&view, &grants);
    let run = tails(context, &view, &grants);
    let decision = allocate::Decision::to(&view, grants, |_, _| String::new());
    Seen { gains, model, run, unmet: allocate::guard::unmet(&view, &decision).len() }
}

/// The p999 of each tenant by a queue that is run, in milliseconds.
fn tails(context: &Context, view: &View, grants: &[Grant]) -> Vec<f64> {
    let each = view.pools.iter().zip(grants).zip(0..);
    each.map(|((pool, grant), part)| 1e3 * measured(pool, grant, context.seed(part))).collect()
}

fn most(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(0.0, f64::max)
}

fn x10(context: &mut Context) -> Report {
    let bound = TailBound { share: 0.001, seconds: BOUND, ..TailBound::default() };
    let plain = hare(Mode::Repaired, 0.0);
    let bounded = Settings { tail: Some(bound), ..plain.clone() };
    let ways = [
        ("HARE", plain.clone(), 0.0),
        ("with salt 1 %", hare(Mode::Repaired, 0.01), 0.0),
        ("with a bound on p999", bounded.clone(), 0.0),
        ("with a bound and a promise", bounded, 1.6),
    ];
    let mut report = Report::new();
    let columns = ["way", "gains", "p999 by model, ms", "p999 by a queue that is run, ms", "unmet"];
    let mut table = Table::new("three tenants at nine tenths of their share", columns);
    let mut seen = Vec::new();
    for (word, settings, promise) in &ways {
        let one = look(context, settings, *promise, &bound);
        let show = |figures: &[f64], decimals: usize| {
            figures.iter().map(|figure| format!("{figure:.decimals$}")).collect::<Vec<_>>().join(" ")
        };
        let cells = [show(&one.gains, 3), show(&one.model, 1), show(&one.run, 1), one.unmet.to_string()];
        table.row(std::iter::once((*word).to_owned()).chain(cells));
        seen.push(one);
    }
    let equal = latency_tenants();
    let equal = tails(context, &equal, &equal.pools.iter().map(Grant::present).collect::<Vec<_>>());
    report.check(Criterion::number("worst p999 of an equal split, run", most(&equal)).unit("ms"));
    report.check(Criterion::number("worst p999 of HARE, run", most(&seen[0].run)).unit("ms"));
    let kept = Criterion::number("worst p999 with the bound, run", most(&seen[2].run)).unit("ms");
    report.check(kept.at_most(most(&equal).max(1e3 * BOUND) * 1.1));
    report.check(Criterion::number("least gain without the bound", least(&seen[0].gains)));
    report.check(Criterion::number("least gain with the bound", least(&seen[2].gains)).at_least(1.0 - 1e-6));
    let pairs = seen.iter().flat_map(|one| one.model.iter().zip(&one.run)).filter(|(model, _)| **model > 1.0);
    let apart: Vec<f64> = pairs.map(|(model, run)| (run / model - 1.0).abs()).collect();
    let apart = Criterion::number("the model apart from the queue that is run, at most", most(&apart));
    report.check(apart.at_most(0.25));
    let promised = Criterion::number("gain of the tenant with a promise of 1.6", seen[3].gains[2]);
    report.check(promised.at_least(1.6 - 1e-6));
    report.check(Criterion::number("least gain beside it", least(&seen[3].gains)).at_least(1.0 - 1e-6));
    report.table(table);
    random_sets(context, &ways, &bound, &mut report);
    report
}

/// Reports the results of the ways on random sets of tenants, and the cost of the bound by how
/// tight it is.
fn random_sets(context: &Context, ways: &[(&str, Settings, f64)], bound: &TailBound, report: &mut Report) {
    let columns = ["way", "sets with a p999 that breaks", "mean least gain"];
    let mut table = Table::new("500 random sets of three tenants", columns);
    let mut counts = Vec::new();
    for (word, settings, _) in &ways[..3] {
        let (broken, gain) = broken(context, settings, bound, 500);
        table.row([(*word).to_owned(), broken.to_string(), format!("{gain:.3}")]);
        counts.push((broken as f64, gain));
    }
    report.check(Criterion::number("sets of 500 whose p999 HARE breaks", counts[0].0).decimals(0));
    report.check(Criterion::number("with salt", counts[1].0).decimals(0));
    report.check(Criterion::number("with the bound", counts[2].0).decimals(0).within(0.0, 0.0));
    let cost = Criterion::number("least gain that the bound costs, mean", counts[0].1 - counts[2].1);
    report.check(cost.at_most(0.1));
    let milliseconds = [50.0, 100.0, 150.0, 200.0, 300.0, 500.0, 1000.0];
    let line = milliseconds.map(|milliseconds| {
        let tail = TailBound { seconds: milliseconds / 1e3, ..*bound };
        let settings = Settings { tail: Some(tail), ..ways[0].1.clone() };
        (milliseconds, broken(context, &settings, &tail, 100).1)
    });
    let chart = Chart::new("what a bound on p999 costs", "bound on p999, ms", "least normalised throughput");
    report.table(table).chart(chart.line("HARE with the bound, mean of 100 random sets", line));
}

//! H1, H2 and H13: the paper's two examples, and tenants that miss nothing.

use allocate::drf::Drf;
use allocate::hare::{Mode, Settings, allocate};
use allocate::{Demand, Grant, Policy, Pool, Resource, View};
use curve::{MissRatioCurve, Unit};
use simulate::table::Table;

use super::model::{MB, hare, least, normalised, presently_equal};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, HARE};

pub(super) const H1: Experiment = Experiment {
    name: "H1",
    paper: HARE,
    figure: "section 3.2.2, figure 3",
    title: "two tenants trade cache for bandwidth until one has all of it",
    run: h1,
};

pub(super) const H2: Experiment = Experiment {
    name: "H2",
    paper: HARE,
    figure: "section 2.2",
    title: "DRF divides read and write units, with and without conserving redistribution",
    run: h2,
};

pub(super) const H13: Experiment = Experiment {
    name: "H13",
    paper: HARE,
    figure: "sections 3.5 and 4.3",
    title: "where everybody fits, HARE is DRF, with salt and without",
    run: h13,
};

/// Working sets with uniform requests, which share 4 GB and 3000 MB/s.
fn two(working_sets: [u64; 2]) -> View {
    let pools = working_sets.iter().zip(["A", "B"]).map(|(&bytes, name)| {
        let mut pool = Pool::new(name, MissRatioCurve::uniform(Unit::Bytes, bytes), 0);
        (pool.demands, pool.grants) = (vec![Demand::new(1.0, 1.0)], vec![0.0]);
        pool
    });
    let resources = vec![Resource { name: "bandwidth".into(), total: 3000.0 }];
    presently_equal(View { memory: 4000 * MB, resources, pools: pools.collect(), ..View::default() })
}

fn h1(_: &mut Context) -> Report {
    let view = two([5000 * MB, 8000 * MB]);
    let mut report = Report::new();
    let mut table = Table::new("by chunk", ["chunk", "mode", "rounds", "A", "B", "harvested", "normalised"]);
    let mut chart = Chart::new("the harvest, deal by deal", "memory of A, GB", "bandwidth harvested, MB/s");
    for (part, rounds) in [(4, 4), (8, 8), (32, 32), (64, 64)] {
        for mode in [Mode::Repaired, Mode::Published] {
            let chunk = Some(2000 * MB / part);
            let allocation = allocate(&view, &Settings { chunk, ..hare(mode, 0.0) });
            let [a, b] = [0, 1].map(|i| &allocation.grants[i]);
            let normalised = normalised(&view, &allocation.grants);
            let give =
                |grant: &Grant| format!("{} GB & {:.0} MB/s", grant.memory as f64 / 1e9, grant.resources[0]);
            let word = if mode == Mode::Repaired { "repaired" } else { "published" };
            table.row([
                format!("{} MB", 2000 / part),
                word.to_owned(),
                allocation.deals.len().to_string(),
                give(a),
                give(b),
                format!("{:.1} MB/s", allocation.harvest[0]),
                format!("{:.4} {:.4}", normalised[0], normalised[1]),
            ]);
            let of = |what: &str| format!("{what}, {} MB, {word}", 2000 / part);
            report.check(
                Criterion::number(of("rounds"), allocation.deals.len() as f64)
                    .decimals(0)
                    .within(rounds as f64, 0.0),
            );
            report.check(
                Criterion::number(of("least gain"), least(&normalised)).paper("1.20").within(1.2, 0.001),
            );
            report.check(
                Criterion::number(of("harvested"), allocation.harvest[0])
                    .paper("500 MB/s")
                    .unit("MB/s")
                    .within(500.0, 1.0),
            );
            let ends = a.memory == 4000 * MB
                && (a.resources[0] - 600.0).abs() < 1.0
                && (b.resources[0] - 2400.0).abs() < 1.0;
            report.check(
                Criterion::holds(
                    of("A and B end"),
                    ends,
                    format!("{}, {}", give(a), give(b)),
                    "4 GB & 600, 0 & 2400",
                )
                .paper("4 GB & 600, 0 & 2400"),
            );
            if mode == Mode::Repaired {
                let mut harvested = 0.0;
                let mut points = vec![(2.0, 0.0)];
                for (i, deal) in allocation.deals.iter().enumerate() {
                    harvested += deal.relinquished[0] - deal.compensated[0];
                    points.push((2.0 + (i + 1) as f64 * 2.0 / part as f64, harvested));
                }
                chart = chart.line(format!("chunks of {} MB", 2000 / part), points);
            }
        }
    }
    report.table(table).chart(chart);
    report
}

fn h2(_: &mut Context) -> Report {
    let rigid = |name: &str, reads, writes| {
        let mut pool = Pool::new(name, MissRatioCurve::uniform(Unit::Bytes, 1), 0);
        pool.demands = vec![Demand { fixed: reads, on_miss: 0.0 }, Demand { fixed: writes, on_miss: 0.0 }];
        pool.grants = vec![0.0; 2];
        pool
    };
    let resources = ["read-units", "write-units"].map(|name| Resource { name: name.into(), total: 1200.0 });
    let pools = vec![rigid("A", 1.0, 2.0), rigid("B", 4.0, 1.0)];
    let view = presently_equal(View { memory: 2, resources: resources.to_vec(), pools, ..View::default() });
    let mut report = Report::new();
    let mut table = Table::new("units per second", ["redistribution", "A", "B", "unassigned"]);
    let show = |grant: &Grant| format!("<{:.1}, {:.1}>", grant.resources[0], grant.resources[1]);
    for conserving in [false, true] {
        let decision = Drf { conserving, ..Drf::default() }.decide(&view);
        let sum = |k: usize| decision.grants.iter().map(|grant| grant.resources[k]).sum::<f64>();
        let left = [1200.0 - sum(0), 1200.0 - sum(1)];
        let word = if conserving { "conserving" } else { "as DRF" };
        table.row([
            word.to_owned(),
            show(&decision.grants[0]),
            show(&decision.grants[1]),
            format!("<{:.1}, {:.1}>", left[0].abs(), left[1].abs()),
        ]);
        let gains = normalised(&view, &decision.grants);
        for (name, gain) in ["A", "B"].into_iter().zip(gains) {
            let gain = Criterion::number(format!("{name} {word}"), gain).decimals(4).paper("1.33");
            report.check(gain.within(4.0 / 3.0, 0.0001));
        }
        if conserving {
            let least = Criterion::number("units that nobody has", left[0].max(left[1])).decimals(6);
            report.check(least.within(0.0, 1e-6));
        } else {
            let expected = [[400.0, 800.0], [800.0, 200.0]];
            let apart = |(grant, expected): (&Grant, &[f64; 2])| {
                (grant.resources[0] - expected[0]).abs().max((grant.resources[1] - expected[1]).abs())
            };
            let apart = decision.grants.iter().zip(&expected).map(apart).fold(0.0, f64::max);
            let ours = format!("{}, {}", show(&decision.grants[0]), show(&decision.grants[1]));
            let same = Criterion::holds("what A and B get", apart < 1e-6, ours, "<400, 800>, <800, 200>");
            report.check(same.paper("<400, 800>, <800, 200>"));
        }
    }
    let chart = Chart::new("DRF", "tenant", "share of the dominant resource").over(["A", "B"]);
    let shares = Drf { conserving: false, ..Drf::default() }.decide(&view);
    let largest = |grant: &Grant| grant.resources.iter().copied().fold(0.0, f64::max) / 1200.0;
    let drf: Vec<f64> = shares.grants.iter().map(largest).collect();
    report.table(table).chart(chart.bars("equal split", [0.5; 2]).bars("DRF", drf));
    report
}

fn h13(_: &mut Context) -> Report {
    let mut report = Report::new();
    let mut table = Table::new("bandwidth where both fit", ["salt", "mode", "HARE", "DRF"]);
    let mut chart = Chart::new("bandwidth of A where both fit", "salt", "MB/s");
    for mode in [Mode::Repaired, Mode::Published] {
        let mut points = Vec::new();
        for salt in [0.0, 0.001, 0.01, 0.05] {
            let view = two([500 * MB, 1500 * MB]);
            let hare = allocate(&view, &hare(mode, salt)).grants;
            let drf = Drf { salt, ..Drf::default() }.decide(&view).grants;
            let figures: Vec<f64> = hare.iter().chain(&drf).map(|grant| grant.resources[0]).collect();
            let word = if mode == Mode::Repaired { "repaired" } else { "published" };
            table.row([
                format!("{salt}"),
                word.to_owned(),
                format!("{:.1} {:.1}", figures[0], figures[1]),
                format!("{:.1} {:.1}", figures[2], figures[3]),
            ]);
            let same = figures.iter().all(|figure| figure.is_finite()) && hare == drf;
            let ours = format!("{figures:.1?}");
            report.check(Criterion::holds(format!("{word}, salt {salt}"), same, ours, "no NaN, as DRF"));
            points.push((salt, figures[0]));
        }
        chart = chart.line(format!("{mode:?}").to_lowercase(), points);
    }
    report.table(table).chart(chart);
    report
}

//! H9: BunnyFS with 32 tenants, by model.

use allocate::drf::Drf;
use allocate::hare::{Hare, Mode, Settings};
use allocate::partition::Equal;
use allocate::shared::{NonPartitioned, Shared};
use allocate::{Demand, Grant, Policy, Pool, Resource, View};
use curve::{MissRatioCurve, Unit, che};
use simulate::table::Table;

use super::model::{MB, hare, least, normalised, presently_equal, sequential};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, HARE, median};

pub(super) const H9: Experiment = Experiment {
    name: "H9",
    paper: HARE,
    figure: "section 5.2.1, figure 11",
    title: "thirty-two tenants of BunnyFS",
    run: h9,
};

/// Bytes of a block.
const BLOCK: u64 = 4096;

/// Groups of uniform, Zipf 0.99, Zipf 0.5 and sequential reads, each of 64, 128, … 512 MB; 2 GB of
/// cache, 2 GB/s, and four workers.
fn tenants() -> View {
    let mut pools = Vec::new();
    for group in 0..4 {
        for step in 1..=8_u64 {
            let bytes = 64 * MB * step;
            let zipf = |exponent| {
                let keys = che::zipf(bytes / BLOCK / 4, exponent, (4 * BLOCK) as f64);
                che::curve(Unit::Bytes, &keys, bytes, 256)
            };
            let curve = match group {
                0 => MissRatioCurve::uniform(Unit::Bytes, bytes),
                1 => zipf(0.99),
                2 => zipf(0.5),
                _ => sequential(bytes),
            };
            let mut pool = Pool::new(format!("T{:02}", pools.len() + 1), curve, 0);
            // Per megabyte: I/O on misses, and the cost of copying in the workers' cycles, a little
            // more for smaller files.
            let cycles = 0.6 + 0.4 * (8 - step) as f64 / 7.0;
            pool.demands = vec![Demand::new(1.0, 1.0), Demand { fixed: cycles, on_miss: 0.0 }];
            pool.grants = vec![0.0; 2];
            pool.item_size = BLOCK as f64;
            pool.floor = 128 * BLOCK;
            pools.push(pool);
        }
    }
    // Four workers of 1900 usable Mcycles/s.
    let resources = [("bandwidth", 2000.0), ("cycles", 7600.0)];
    let resources = resources.map(|(name, total)| Resource { name: name.into(), total });
    presently_equal(View { memory: 2048 * MB, resources: resources.to_vec(), pools, ..View::default() })
}

/// A policy, the throughput of each tenant under it, and its grants.
type Seen = (&'static str, Vec<f64>, Vec<Grant>);

fn table(view: &View, seen: &[Seen]) -> Table {
    let mut columns = vec!["tenant", "misses with an equal share"];
    columns.extend(seen.iter().skip(1).map(|(name, ..)| *name));
    columns.extend(["memory, published", "memory"]);
    let mut table = Table::new("normalised throughput", columns);
    for (i, pool) in view.pools.iter().enumerate() {
        let mut row =
            vec![pool.name.to_string(), format!("{:.1} %", 100.0 * pool.curve.miss_ratio(pool.size as f64))];
        row.extend(seen.iter().skip(1).map(|(_, gains, _)| format!("{:.2}", gains[i])));
        row.extend(
            seen.iter().skip(3).map(|(.., grants)| format!("{:.1} MB", grants[i].memory as f64 / 1e6)),
        );
        table.row(row);
    }
    table
}

fn chart(seen: &[Seen]) -> Chart {
    let mut chart = Chart::new("figure 11 by model", "normalised throughput", "share of tenants");
    for (name, gains, _) in seen {
        let mut sorted = gains.clone();
        sorted.sort_by(f64::total_cmp);
        let points = sorted.iter().enumerate().map(|(i, &gain)| (gain, (i + 1) as f64 / sorted.len() as f64));
        chart = chart.line(*name, points.collect::<Vec<_>>());
    }
    chart
}

fn h9(_: &mut Context) -> Report {
    let view = tenants();
    // Fine-grained chunks, no salt, as in BunnyFS.
    let fine = |mode| Settings { chunk: Some(4 * MB), ..hare(mode, 0.0) };
    let drf = Drf { salt: 0.0, ..Drf::default() };
    let policies: Vec<(&'static str, Box<dyn Policy>)> = vec![
        ("equal", Box::new(Equal)),
        ("DRF", Box::new(drf.clone())),
        ("shared cache+DRF", Box::new(NonPartitioned { shared: Shared::Cache(drf) })),
        ("HARE, published", Box::new(Hare { settings: fine(Mode::Published) })),
        ("HARE", Box::new(Hare { settings: fine(Mode::Repaired) })),
    ];
    let mut seen = Vec::new();
    for (name, mut policy) in policies {
        let grants = policy.decide(&view).grants;
        seen.push((name, normalised(&view, &grants), grants));
    }
    let gains =
        |name: &str| seen.iter().find(|(known, ..)| *known == name).expect("it is compared").1.clone();
    let mut report = Report::new();
    report.check(Criterion::number("DRF, median", median(gains("DRF"))).paper("1.10").between(1.05, 1.20));
    for name in ["HARE, published", "HARE"] {
        report.check(
            Criterion::number(format!("{name}, median"), median(gains(name)))
                .paper("1.40")
                .between(1.30, 1.50),
        );
        report.check(
            Criterion::number(format!("{name}, least"), least(&gains(name)))
                .paper("above 1")
                .at_least(1.0 - 1e-6),
        );
    }
    // The first chunk that a tenant cannot give without falling below the least remains.
    let most = |(_, _, grants): &Seen| {
        grants[25..].iter().map(|grant| grant.memory as f64 / 1e6).fold(0.0, f64::max)
    };
    let ours =
        Criterion::number("memory of sequential tenants above 64 MB, published, at most", most(&seen[3]))
            .unit("MB");
    report.check(ours.paper("none").at_most(4.6));
    report.check(Criterion::number("the same, repaired", most(&seen[4])).unit("MB"));
    report.note(
        "Repaired, HARE takes the sequential tenant of 128 MB across its cliff: it fits then, and what it needs no more lifts \
         everybody.",
    );
    let shared = gains("shared cache+DRF");
    let fits = |i: &usize| view.pools[*i].curve.miss_ratio(view.pools[*i].size as f64) < 0.15;
    let hurt = (0..view.pools.len()).filter(fits).filter(|&i| shared[i] < 1.0).count();
    let ours = Criterion::number("tenants with few misses below 1 where the cache is shared", hurt as f64)
        .decimals(0);
    report.check(ours.paper("3").at_least(1.0));
    report.table(table(&view, &seen)).chart(chart(&seen));
    report
}

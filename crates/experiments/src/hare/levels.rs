//! X11: one allocation over two levels of cache and all that they spare and cost.

use allocate::hare::{Mode, Settings, allocate};
use allocate::{Demand, Flash, Grant, Pool, Resource, View};
use base::rng::{RngExt, seeded};
use curve::{MissRatioCurve, Unit, che};
use simulate::table::Table;

use super::model::{MB, hare, least, normalised, presently_equal};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, OURS};

/// Random sets of tenants.
const SETS: u64 = 12;

pub(super) const X11: Experiment = Experiment {
    name: "X11",
    paper: OURS,
    figure: "beyond HARE",
    title: "memory, flash, flash writes, bandwidth and backend units in one allocation",
    run: x11,
};

/// Eight tenants over DRAM and flash, whose curves continue beyond DRAM.
fn two_levels(seed: u64) -> View {
    let mut rng = seeded(seed);
    let capacity = 1;
    // Now the one is scarce, now the other.
    let resources = [
        ("backend-units", 2000.0 * f64::from(rng.random_range(1..=6_u32))),
        ("flash", 64_000.0 * MB as f64),
        ("flash-writes", 15e6 * f64::from(rng.random_range(1..=6_u32))),
        ("flash-reads", 400e6),
        ("network", 800e6),
    ];
    let pools = (0..8).map(|i| {
        let theta = [0.0, 0.4, 0.7, 0.99][i % 4];
        let gigabytes = rng.random_range(4..=24_u64);
        let value = [1000.0, 4000.0][i / 4];
        let curve = if theta == 0.0 {
            MissRatioCurve::uniform(Unit::Bytes, gigabytes * 1000 * MB)
        } else {
            let keys = 5_000;
            let size = (gigabytes * 1000 * MB) as f64 / keys as f64;
            che::curve(Unit::Bytes, &che::zipf(keys, theta, size), gigabytes * 1000 * MB, 256)
        };
        let mut pool = Pool::new(format!("T{}", i + 1), curve, 0);
        pool.demands = vec![
            Demand::new(1.0, 1.0),
            Demand::default(),
            Demand::default(),
            Demand::default(),
            Demand { fixed: value, on_miss: value },
        ];
        pool.grants = vec![0.0; resources.len()];
        // Half of DRAM's evictions are admitted to flash.
        let on_eviction = vec![0.0, 0.0, 0.5 * value, 0.0, 0.0];
        pool.flash = Some(Flash { capacity, on_hit: vec![0.0, 0.0, 0.0, value, 0.0], on_eviction });
        pool.floor = 10 * MB;
        pool
    });
    let pools = pools.collect();
    let resources = resources.map(|(name, total)| Resource { name: name.into(), total }).to_vec();
    presently_equal(View { memory: 8000 * MB, resources, pools, ..View::default() })
}

/// The least gains of one set of tenants.
struct Gains {
    drf: f64,
    memory: f64,
    flash: f64,
    both: f64,
    /// The bytes written to flash with both traded, relative to the budget.
    written: f64,
}

fn look(view: &View) -> Gains {
    let settings = hare(Mode::Repaired, 0.0);
    let gain = |settings: &Settings| {
        let grants = allocate(view, settings).grants;
        (least(&normalised(view, &grants)), grants)
    };
    let (both, grants) = gain(&settings);
    let writes = |(pool, grant): (&Pool, &Grant)| {
        let misses = pool.misses(grant.memory, &grant.resources);
        pool.carried(misses, &grant.resources) * pool.cost(2, misses)
    };
    Gains {
        drf: gain(&Settings { max_rounds: Some(0), ..settings.clone() }).0,
        memory: gain(&Settings { goods: [true, false], ..settings.clone() }).0,
        flash: gain(&Settings { goods: [false, true], ..settings.clone() }).0,
        both,
        written: view.pools.iter().zip(&grants).map(writes).sum::<f64>() / view.resources[2].total,
    }
}

fn x11(context: &mut Context) -> Report {
    let columns =
        ["tenants", "DRF", "memory traded", "flash traded", "both traded", "writes used, of the budget"];
    let mut table = Table::new("least normalised throughput, of which an equal split is 1", columns);
    let mut sets = Vec::new();
    for set in 0..SETS {
        let gains = look(&two_levels(context.seed(set)));
        let Gains { drf, memory, flash, both, written } = gains;
        let figures = [drf, memory, flash, both].map(|gain| format!("{gain:.3}"));
        let row =
            [vec![format!("set {}", set + 1)], figures.to_vec(), vec![format!("{:.1} %", 100.0 * written)]];
        table.row(row.concat());
        sets.push(gains);
        context.progress((set + 1) as f64 / SETS as f64);
    }
    let mean = |of: fn(&Gains) -> f64| sets.iter().map(of).sum::<f64>() / sets.len() as f64;
    let mut report = Report::new();
    report.check(Criterion::number("DRF, mean of the least gain", mean(|gains| gains.drf)));
    report.check(Criterion::number("memory traded", mean(|gains| gains.memory)));
    report.check(Criterion::number("flash traded", mean(|gains| gains.flash)));
    let one = mean(|gains| gains.memory.max(gains.flash));
    report.check(Criterion::number("the better of both for each set", one));
    report.check(Criterion::number("both traded", mean(|gains| gains.both)).at_least(one));
    let best = sets.iter().filter(|gains| gains.both >= gains.memory.max(gains.flash) - 0.01).count();
    let best = Criterion::number(
        format!("sets of {SETS} in which both are best, or within 0.01 of it"),
        best as f64,
    );
    report.check(best.decimals(0).at_least(10.0));
    let worst = sets.iter().map(|gains| gains.both).fold(f64::INFINITY, f64::min);
    report.check(Criterion::number("nobody loses: least gain of all sets", worst).at_least(1.0 - 1e-6));
    let most = sets.iter().map(|gains| gains.written).fold(0.0, f64::max);
    report.check(Criterion::number("flash writes, share of the budget, at most", most).at_most(1.0 + 1e-6));
    let chart = Chart::new("one allocation over two levels", "set of tenants", "least normalised throughput")
        .over((1..=sets.len()).map(|set| set.to_string()))
        .bars("DRF", sets.iter().map(|gains| gains.drf))
        .bars("memory traded", sets.iter().map(|gains| gains.memory))
        .bars("flash traded", sets.iter().map(|gains| gains.flash))
        .bars("both traded", sets.iter().map(|gains| gains.both));
    report.table(table).chart(chart);
    report
}

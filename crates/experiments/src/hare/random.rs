//! H3: HARE's claims about any tenants, on random pairs of them.

use allocate::drf::Drf;
use allocate::hare::{Mode, Settings, allocate};
use allocate::{Grant, Policy, View};
use base::rng::{RngExt, seeded};
use simulate::table::Table;

use super::model::{Hopper, MB, hare, hopper, least, normalised, presently_equal};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, HARE};

/// Random pairs.
const PAIRS: u64 = 1000;

pub(super) const H3: Experiment = Experiment {
    name: "H3",
    paper: HARE,
    figure: "sections 3.2.2 and 3.5, figure 3e",
    title: "nobody loses by HARE, and it is no worse than DRF, on random pairs",
    run: h3,
};

/// Sets of 0.5 to 16 GB, 50 to 100 % reads, 1 to 4 GB of cache for each.
fn pair(seed: u64) -> View {
    let mut rng = seeded(seed);
    let cache = rng.random_range(1000..=4000) * MB;
    let mut tenant = || {
        let bytes = rng.random_range(500..=16_000) * MB;
        Hopper { reads: rng.random_range(0.5..=1.0), ..Hopper::micro(bytes / 550, 0.0) }
    };
    let tenants = [tenant(), tenant()];
    presently_equal(View { memory: 2 * cache, ..hopper(&tenants, seed) })
}

/// The observations of all pairs with one way to trade.
#[derive(Default)]
struct Seen {
    least: Vec<f64>,
    lost_against_share: usize,
    lost_against_drf: usize,
    most_rounds: usize,
    not_conserved: usize,
    depends_on_order: usize,
}

fn look(context: &Context, settings: &Settings) -> Seen {
    let mut seen = Seen::default();
    for round in 0..PAIRS {
        let view = pair(context.seed(round));
        let allocation = allocate(&view, settings);
        let least = |grants: &[Grant]| least(&normalised(&view, grants));
        let (hare, drf) = (
            least(&allocation.grants),
            least(&Drf { salt: settings.salt, ..Drf::default() }.decide(&view).grants),
        );
        seen.least.push(hare);
        seen.lost_against_share += usize::from(hare < 1.0 - 1e-6);
        seen.lost_against_drf += usize::from(hare < drf - 1e-6);
        seen.most_rounds = seen.most_rounds.max(allocation.deals.len());
        let memory: u64 = allocation.grants.iter().map(|grant| grant.memory).sum();
        let units = |k: usize| allocation.grants.iter().map(|grant| grant.resources[k]).sum::<f64>();
        let kept = view
            .resources
            .iter()
            .enumerate()
            .all(|(k, resource)| (units(k) / resource.total - 1.0).abs() < 1e-9);
        seen.not_conserved += usize::from(memory != view.memory || !kept);
        let mut turned = view.clone();
        turned.pools.reverse();
        let mut turned = allocate(&turned, settings).grants;
        turned.reverse();
        seen.depends_on_order += usize::from(least(&turned) < hare - 1e-6 || least(&turned) > hare + 1e-6);
    }
    seen
}

fn h3(context: &mut Context) -> Report {
    let mut report = Report::new();
    let mut table = Table::new(
        format!("{PAIRS} random pairs, by the curve as it is"),
        ["way", "below a share", "below DRF", "most rounds", "least", "mean"],
    );
    let mut chart = Chart::new(
        "least normalised throughput of random pairs",
        "share of pairs",
        "least normalised throughput",
    );
    for (word, settings) in [
        ("repaired, salt 1 %", hare(Mode::Repaired, 0.01)),
        ("repaired, no salt", hare(Mode::Repaired, 0.0)),
        ("published, salt 1 %", hare(Mode::Published, 0.01)),
    ] {
        let mut seen = look(context, &settings);
        seen.least.sort_by(f64::total_cmp);
        let mean = seen.least.iter().sum::<f64>() / seen.least.len() as f64;
        table.row([
            word.to_owned(),
            seen.lost_against_share.to_string(),
            seen.lost_against_drf.to_string(),
            seen.most_rounds.to_string(),
            format!("{:.4}", seen.least[0]),
            format!("{mean:.3}"),
        ]);
        let points = seen.least.iter().enumerate().map(|(i, &least)| (i as f64 / PAIRS as f64, least));
        chart = chart.line(word, points.collect::<Vec<_>>());
        let none =
            |what: &str, count: usize| Criterion::number(format!("{what}, {word}"), count as f64).decimals(0);
        if word.starts_with("repaired") {
            report.check(
                none("pairs in which one has less than its share", seen.lost_against_share)
                    .paper("0")
                    .within(0.0, 0.0),
            );
            report
                .check(none("pairs worse than with DRF", seen.lost_against_drf).paper("0").within(0.0, 0.0));
            report.check(none("pairs not conserved", seen.not_conserved).within(0.0, 0.0));
            report.check(none("pairs that depend on order", seen.depends_on_order).within(0.0, 0.0));
        } else {
            report.check(
                none("pairs in which one has less than its share", seen.lost_against_share).paper("0"),
            );
        }
        report.check(none("most rounds", seen.most_rounds).at_most(9999.0));
    }
    report.note(
        "As published, what is kept is the throughput by the curve with salt. By the curve itself a tenant that nearly fits \
         gives cache away for half of what it then needs; repaired, both curves must keep it.",
    );
    report.table(table).chart(chart);
    report
}

//! H4, H6 and H7: HopperKV's evaluation by model.

use allocate::hare::{Mode, allocate};
use allocate::{Grant, View};
use simulate::table::Table;

use super::model::{Hopper, MB, compared, hare, hopper, least, normalised};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, HARE};

pub(super) const H4: Experiment = Experiment {
    name: "H4",
    paper: HARE,
    figure: "section 4.4.1, figure 6a",
    title: "two tenants of HopperKV, by the working set of one",
    run: h4,
};

pub(super) const H6: Experiment = Experiment {
    name: "H6",
    paper: HARE,
    figure: "section 4.4.1, figure 6b",
    title: "two tenants of HopperKV, by the skew of one",
    run: h6,
};

pub(super) const H7: Experiment = Experiment {
    name: "H7",
    paper: HARE,
    figure: "section 4.4.2, figure 7",
    title: "sixteen tenants of HopperKV",
    run: h7,
};

/// The least normalised throughput of a model of the paper's, by millions of keys of the first
/// tenant: DRF and HARE with salt.
const MODEL: [(u64, f64, f64); 11] = [
    (1, 1.68, 1.77),
    (2, 1.68, 1.77),
    (3, 1.68, 1.77),
    (4, 1.00, 1.58),
    (5, 1.00, 1.25),
    (6, 1.00, 1.00),
    (8, 1.00, 1.28),
    (10, 1.00, 1.43),
    (12, 1.00, 1.53),
    (14, 1.00, 1.60),
    (16, 1.00, 1.65),
];

/// Returns the figure that the paper prints for HARE there.
fn printed(millions: u64) -> &'static str {
    match millions {
        4 => "1.56",
        6 => "1.00",
        16 => "up to 1.63",
        _ => "",
    }
}

fn h4(_: &mut Context) -> Report {
    let mut report = Report::new();
    let columns = [
        "keys of T1",
        "DRF",
        "Memshare+DRF",
        "non-partitioned",
        "HARE",
        "published",
        "HARE, no salt",
        "memory of T1",
    ];
    let mut table = Table::new("least normalised throughput", columns);
    let mut lines: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    let mut memshare_loses = Vec::new();
    for (millions, drf_model, hare_model) in MODEL {
        let tenants = [Hopper::micro(millions * 1_000_000, 0.0), Hopper::micro(6_000_000, 0.0)];
        let view = hopper(&tenants, 0);
        let mut row = vec![format!("{millions} M")];
        let gain = |grants: &[Grant]| least(&normalised(&view, grants));
        let mut by_name = Vec::new();
        for (name, mut policy) in compared(&tenants).into_iter().skip(1) {
            let decision = policy.decide(&view);
            by_name.push((name, gain(&decision.grants), decision.grants[0].memory));
        }
        let published = gain(&allocate(&view, &hare(Mode::Published, 0.01)).grants);
        let unsalted = gain(&allocate(&view, &hare(Mode::Repaired, 0.0)).grants);
        row.extend(by_name.iter().map(|(_, gain, _)| format!("{gain:.3}")));
        row.extend([
            format!("{published:.3}"),
            format!("{unsalted:.3}"),
            format!("{:.2} GB", by_name[3].2 as f64 / 1e9),
        ]);
        table.row(row);
        for &(name, gain, _) in by_name.iter().chain([&("published", published, 0)]) {
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push((millions as f64, gain)),
                None => lines.push((name, vec![(millions as f64, gain)])),
            }
        }
        if millions >= 8 {
            memshare_loses.push(by_name[1].1);
        }
        report.check(Criterion::number(format!("DRF, {millions} M"), by_name[0].1).within(drf_model, 0.05));
        let ours = Criterion::number(format!("HARE, {millions} M"), by_name[3].1).paper(printed(millions));
        report.check(ours.within(hare_model, 0.05));
    }
    let worst = Criterion::number("Memshare+DRF from 8 M on, its least", least(&memshare_loses));
    report.check(worst.paper("below 1").at_most(0.9999));
    let chart = Chart::new("figure 6a by model", "keys of T1, millions", "least normalised throughput");
    report
        .table(table)
        .chart(lines.into_iter().fold(chart, |chart, (name, points)| chart.line(name, points)));
    report.note("At 3 M keys and fewer the paper has DRF and HARE alike: its driver applies nothing that is less than 5 % better.");
    report
}

fn h6(context: &mut Context) -> Report {
    let mut report = Report::new();
    let mut table = Table::new(
        "least normalised throughput",
        ["skew of T1", "DRF", "Memshare+DRF", "of T2", "HARE", "memory of T1 by Memshare", "by HARE"],
    );
    let (mut hares, mut drfs, mut small_theta) = (Vec::new(), Vec::new(), f64::INFINITY);
    let mut lines = [("DRF", Vec::new()), ("Memshare+DRF", Vec::new()), ("HARE", Vec::new())];
    let thetas = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99];
    for (i, theta) in thetas.into_iter().enumerate() {
        let tenants = [Hopper::micro(12_000_000, theta), Hopper::micro(6_000_000, 0.99)];
        let view = hopper(&tenants, 0);
        let mut figures = Vec::new();
        for (name, mut policy) in compared(&tenants) {
            if let Some(line) = lines.iter_mut().find(|(line, _)| *line == name) {
                let grants = policy.decide(&view).grants;
                let each = normalised(&view, &grants);
                line.1.push((theta, least(&each)));
                figures.push((least(&each), each[1], grants[0].memory as f64 / 1e9));
            }
        }
        let [drf, memshare, hare] = figures[..] else { unreachable!("three policies are compared") };
        table.row([
            format!("{theta}"),
            format!("{:.3}", drf.0),
            format!("{:.3}", memshare.0),
            format!("{:.3}", memshare.1),
            format!("{:.3}", hare.0),
            format!("{:.2} GB", memshare.2),
            format!("{:.2} GB", hare.2),
        ]);
        drfs.push((drf.0 - 1.0).abs());
        hares.push(hare.0);
        if theta <= 0.4 {
            small_theta = small_theta.min(memshare.1);
        }
        context.progress((i + 1) as f64 / thetas.len() as f64);
    }
    let apart = drfs.into_iter().fold(0.0, f64::max);
    report.check(Criterion::number("DRF apart from an equal split", apart).paper("0").within(0.0, 0.01));
    let most = hares.into_iter().fold(0.0, f64::max);
    report.check(Criterion::number("HARE, at most", most).paper("1.38").between(1.25, 1.45));
    let ours = Criterion::number("T2 by Memshare+DRF, skew of T1 up to 0.4, its least", small_theta);
    report.check(ours.paper("about 0.5").at_most(0.7));
    let chart = Chart::new("figure 6b by model", "skew of T1", "least normalised throughput");
    report
        .table(table)
        .chart(lines.into_iter().fold(chart, |chart, (name, points)| chart.line(name, points)));
    report
}

/// Groups A, B, C and E, each with 6 and 12 million keys of 500 and 2000 bytes.
fn sixteen() -> Vec<Hopper> {
    let groups = [(0.5, false), (0.95, false), (1.0, false), (0.95, true)];
    let sizes = [(6_000_000, 500), (6_000_000, 2000), (12_000_000, 500), (12_000_000, 2000)];
    let tenants = groups.iter().flat_map(|&(reads, scan)| {
        sizes.iter().map(move |&(keys, value_bytes)| Hopper { keys, theta: 0.99, reads, value_bytes, scan })
    });
    tenants.collect()
}

fn h7(context: &mut Context) -> Report {
    let tenants = sixteen();
    let view: View = hopper(&tenants, context.seed(0));
    let mut report = Report::new();
    let mut policies = Vec::new();
    for (name, mut policy) in compared(&tenants) {
        let grants = policy.decide(&view).grants;
        policies.push((name, normalised(&view, &grants), grants));
    }
    let mut columns = vec!["tenant"];
    columns.extend(policies.iter().map(|(name, ..)| *name));
    columns.extend(["memory by HARE", "misses"]);
    let mut table = Table::new("normalised throughput", columns);
    let names = view.pools.iter().map(|pool| pool.name.to_string());
    let chart =
        Chart::new("figure 7 by model", "tenant", "normalised throughput, cut at 4").over(names).up_to(4.0);
    for (i, pool) in view.pools.iter().enumerate() {
        let mut row = vec![pool.name.to_string()];
        row.extend(policies.iter().map(|(_, gains, _)| format!("{:.2}", gains[i])));
        let memory = policies[4].2[i].memory;
        let misses =
            [2000 * MB, memory].map(|bytes| format!("{:.1} %", 100.0 * pool.curve.miss_ratio(bytes as f64)));
        row.extend([format!("{:.2} GB", memory as f64 / 1e9), misses.join(" → ")]);
        table.row(row);
    }
    let chart =
        policies.iter().fold(chart, |chart, (name, gains, _)| chart.bars(*name, gains.iter().copied()));
    let gains = |name: &str| &policies.iter().find(|(known, ..)| *known == name).expect("it is compared").1;
    let (drf, hare) = (gains("DRF"), gains("HARE"));
    report.check(Criterion::number("DRF, its least", least(drf)).paper("1.2").at_least(1.0 - 1e-6));
    report.check(Criterion::number("HARE, its least", least(hare)).paper("1.6").at_least(1.0 - 1e-6));
    let best = |i: &usize| policies.iter().all(|(_, others, _)| others[*i] <= hare[*i] + 1e-9);
    let count = (0..view.pools.len()).filter(best).count();
    let ours = Criterion::number("tenants that have most with HARE, of 16", count as f64).decimals(0);
    report.check(ours.paper("13").at_least(11.0).missed_because(
        "tenants with values of 2000 bytes (T02, T04, T10, T12) have most where nothing is partitioned, which the paper says too \
         but prints no figure of; and Memshare, by the curve that is computed for scans, lets two of group E fit",
    ));
    let given: f64 = (0..4).map(|i| 2.0 - policies[4].2[i].memory as f64 / 1e9).sum();
    report.check(
        Criterion::number("memory that group A gives", given).unit("GB").paper("major donor").at_least(0.0),
    );
    let hurt = gains("non-partitioned").iter().filter(|&&gain| gain < 1.0).count();
    report.check(
        Criterion::number("tenants below 1 where nothing is partitioned", hurt as f64).decimals(0).paper("6"),
    );
    let most = |gains: &[f64]| gains.iter().copied().fold(0.0, f64::max);
    report.check(Criterion::number("DRF, its most", most(drf)).paper("1.9"));
    report.check(Criterion::number("HARE, its most", most(hare)).paper("2.7"));
    report.table(table).chart(chart);
    report
}

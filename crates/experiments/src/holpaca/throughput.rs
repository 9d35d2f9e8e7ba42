//! P1: as much throughput as there can be. The paper's section 3 sets a distribution by hand and
//! finds 1.44 times the throughput of equal shares; CacheLib's optimizer finds 1.45.

use allocate::Policy;
use allocate::holpaca::{Holpaca, Options};
use simulate::table::Table;

use super::model::{CYCLES, Cycle, MEMORY, Model};
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, HOLPACA};

/// Throughput grows as far as bounds allow.
pub(super) const P1: Experiment = Experiment {
    name: "P1",
    paper: HOLPACA,
    figure: "figures 2 and 5, synthetic",
    title: "throughput of four unlike tenants grows by moving a hundredth of memory per cycle",
    run,
};

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let equal = Model::new(4).total();
    let custom = Model::new(4).total_at(&[0.55, 0.25, 0.15, 0.05]) / equal;
    report.check(
        Criterion::number("static 55:25:15:5, of equal shares", custom)
            .paper("1.44")
            .unit("x")
            .within(1.45, 0.03),
    );
    let corner = Model::new(4).total_at(&[0.7, 0.1, 0.1, 0.1]) / equal;
    report.check(
        Criterion::number("static 70:10:10:10, the best that a floor of 10 % allows", corner)
            .paper("optimizer 1.45")
            .unit("x"),
    );

    let policies: [(&str, Holpaca); 4] = [
        ("repaired", Holpaca::default()),
        ("exact", Holpaca::exact()),
        ("as described", Holpaca::described()),
        ("as published", Holpaca::published()),
    ];
    let mut table = Table::new(
        "throughput of all, in thousands per second, and shares of memory after the last cycle",
        ["mode", "cycle 1", "20", "35", "40", "60", "T1 %", "T2 %", "T3 %", "T4 %"],
    );
    let mut total = Chart::new("throughput of all tenants", "cycle", "times that of equal shares");
    for (mode, mut policy) in policies {
        let cycles = Model::new(4).run(&mut policy, CYCLES);
        judge(&mut report, mode, &policy, &cycles, equal);
        let at = |cycle: usize| format!("{:.0}", cycles[cycle - 1].total() / 1e3);
        let mut row = vec![mode.to_owned(), at(1), at(20), at(35), at(40), at(60)];
        row.extend(cycles[cycles.len() - 1].shares().iter().map(|share| format!("{:.1}", share * 100.0)));
        table.row(row);
        let course = cycles.iter().enumerate().map(|(i, cycle)| (i as f64 + 1.0, cycle.total() / equal));
        total = total.line(mode, course);
        if mode == "repaired" {
            report.chart(shares("shares of memory, repaired", &cycles));
        }
    }
    walks(context, &mut report, equal);
    report.table(table).chart(total);
    report.note(
        "The sum of throughputs is convex near full caching: without a floor whoever has most takes all. The paper's figures are of a \
         real machine, 100 times the data.",
    );
    report
}

/// The published program takes another path with each seed, and the same path in each cycle: its
/// result is chance.
fn walks(context: &Context, report: &mut Report, equal: f64) {
    let gains: Vec<f64> = (0..5)
        .map(|part| {
            let seed = context.seed(part);
            let options = Options { seed, ..*Holpaca::published().options() };
            let cycles = Model::new(4).run(&mut Holpaca::new(options), 40);
            cycles[39].total() / equal
        })
        .collect();
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let most = gains.iter().copied().fold(0.0, f64::max);
    report
        .check(Criterion::number("as published, cycle 40, the worst of five seeds", least).unit("x"))
        .check(Criterion::number("as published, cycle 40, the best of five seeds", most).unit("x"));
}

/// The criteria of one mode: demanded of the repaired one by either solver, written down of the
/// others.
fn judge(report: &mut Report, mode: &str, policy: &Holpaca, cycles: &[Cycle], equal: f64) {
    let gain = |cycle: usize| cycles[cycle - 1].total() / equal;
    let late = Criterion::number(format!("{mode}: after 60 cycles, of equal shares"), gain(60)).unit("x");
    let early = Criterion::number(format!("{mode}: after 35 cycles"), gain(35)).unit("x");
    if !["holpaca", "holpaca-exact"].contains(&policy.name()) {
        report.check(early).check(late);
        return;
    }
    report.check(early.paper("1.44 to 1.45").at_least(1.4)).check(late.paper("1.44 to 1.45").at_least(1.6));
    let least = cycles.iter().flat_map(|cycle| cycle.shares()).fold(1.0, f64::min);
    report.check(
        Criterion::number(format!("{mode}: least share of any tenant"), least * 100.0)
            .unit("%")
            .at_least(9.999),
    );
    let whole = cycles.iter().all(|cycle| cycle.sizes.iter().sum::<u64>() == MEMORY);
    report.check(Criterion::holds(
        format!("{mode}: sizes add up to all memory"),
        whole,
        if whole { "in each cycle" } else { "not always" },
        "in each cycle",
    ));
    let mut before = vec![MEMORY / 4; 4];
    let mut step = 0;
    for cycle in cycles {
        let steps = cycle.sizes.iter().zip(&before).map(|(now, before)| now.abs_diff(*before));
        step = step.max(steps.max().unwrap_or(0));
        before.clone_from(&cycle.sizes);
    }
    report.check(
        Criterion::number(format!("{mode}: largest step of a pool"), step as f64 / MEMORY as f64 * 100.0)
            .paper("1 %")
            .unit("%")
            .at_most(1.0),
    );
}

/// Shares of memory over time.
pub(super) fn shares(title: &str, cycles: &[Cycle]) -> Chart {
    (0..4).fold(Chart::new(title, "cycle", "% of memory"), |chart, tenant| {
        let points = cycles
            .iter()
            .enumerate()
            .filter_map(|(i, cycle)| cycle.shares().get(tenant).map(|share| (i as f64 + 1.0, share * 100.0)));
        chart.line(format!("T{}", tenant + 1), points)
    })
}

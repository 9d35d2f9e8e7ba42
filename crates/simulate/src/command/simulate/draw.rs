//! The results of a simulation, as a figure whose panels can be compared by eye: the same quantity
//! has the same axis in all of them.

use std::path::Path;

use anyhow::Result;
use workload::plot::{Axis, Chart, Figure, Series};

use super::{Compared, Simulated};
use crate::file::SimulationFile;
use crate::world::Figures;

/// Of one memory: bars of all policies, then memory and throughput of the tenants over time, for
/// each. Of several: hits and throughput by memory, a line for each policy.
pub(super) fn draw(file: &SimulationFile, sweep: &[Simulated], path: &Path) -> Result<()> {
    let tenants = file.scenario.tenants.len();
    let (title, charts) = match sweep {
        [only] => (format!("{} for {tenants} tenants", only.memory), over_time(&only.policies)),
        _ => (format!("{tenants} tenants by memory"), by_memory(sweep)),
    };
    Figure { title, charts, columns: 2 }.write(path)?;
    Ok(())
}

fn bars(compared: &[Compared], title: &str, y: Axis, figure: impl Fn(&Figures) -> f64) -> Chart {
    let names = compared.first().map(|one| one.run.names.clone()).unwrap_or_default();
    let series = names.into_iter().enumerate().map(|(tenant, name)| {
        let heights = compared.iter().enumerate();
        Series::line(name, heights.map(|(at, one)| (at as f64, figure(&one.run.totals[tenant]))))
    });
    Chart {
        title: title.to_owned(),
        x: Axis::new("policy"),
        y,
        categories: compared.iter().map(|one| one.run.policy.clone()).collect(),
        series: series.collect(),
        ..Chart::default()
    }
}

fn over_time(compared: &[Compared]) -> Vec<Chart> {
    let mut charts = vec![
        bars(compared, "requests per second, by tenant", Axis::new("requests per second"), |figures| {
            figures.requests_per_sec
        }),
        bars(compared, "hit ratio, by tenant", Axis::new("hit ratio").range(0.0, 1.0), |figures| {
            figures.hit_ratio
        }),
    ];
    let most = |figure: fn(&Figures) -> f64| {
        let tenants = compared.iter().flat_map(|one| &one.run.intervals).flat_map(|at| &at.tenants);
        tenants.map(figure).fold(0.0, f64::max).max(1.0)
    };
    let memory: fn(&Figures) -> f64 = |figures| figures.memory;
    let throughput: fn(&Figures) -> f64 = |figures| figures.requests_per_sec;
    for (what, axis, figure) in [
        ("memory", Axis::bytes("memory"), memory),
        ("throughput", Axis::new("requests per second"), throughput),
    ] {
        let y = axis.range(0.0, 1.05 * most(figure));
        charts.extend(compared.iter().map(|Compared { run, .. }| {
            let line =
                |(number, name): (usize, &String)| Series::line(name.clone(), run.over_time(number, figure));
            Chart {
                title: format!("{}: {what}", run.policy),
                x: Axis::new("time (s)"),
                y: y.clone(),
                series: run.names.iter().enumerate().map(line).collect(),
                ..Chart::default()
            }
        }));
    }
    charts
}

fn by_memory(sweep: &[Simulated]) -> Vec<Chart> {
    let policies = sweep.first().map_or(0, |first| first.policies.len());
    let lines = |figure: fn(&Compared) -> f64| -> Vec<Series> {
        let line = |policy: usize| {
            let points = sweep.iter().map(|one| (one.memory.as_u64() as f64, figure(&one.policies[policy])));
            Series::line(sweep[0].policies[policy].run.policy.clone(), points)
        };
        (0..policies).map(line).collect()
    };
    let chart = |title: &str, y: Axis, series| Chart {
        title: title.to_owned(),
        x: Axis::bytes("memory"),
        y,
        series,
        ..Chart::default()
    };
    vec![
        chart("hit ratio of all tenants", Axis::new("hit ratio").range(0.0, 1.0), lines(|one| one.hit_ratio)),
        chart(
            "requests per second of all tenants",
            Axis::new("requests per second"),
            lines(|one| one.requests_per_sec),
        ),
    ]
}

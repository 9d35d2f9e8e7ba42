//! Tables of servers.

use super::{Placement, Row, Scenario, Shape};
use crate::machine::load_average;
use crate::report::{Middle, Table};

/// Prints the scenarios of one placement and length of values.
pub(super) fn print(scenarios: &[Scenario]) {
    let Some(first) = scenarios.first() else { return };
    let place = match first.shape.placement {
        Placement::Apart => "server on processor 0, load on processor 1",
        Placement::Together => "server and load on both processors, two threads each",
    };
    let tls = if first.shape.tls { ", TLS" } else { "" };
    println!("## On loopback: values of {} B, {place}{tls}\n", first.shape.value_len);
    println!(
        "Thousands of requests a second: median (least–most) of the rounds; x: Millpond's in the same protocol over"
    );
    println!(
        "that server's, round by round. p50 and p99 in microseconds. server: its processor time for a request, in microseconds.\n"
    );
    let mut table = Table::new([
        "load",
        "pipeline",
        "connections",
        "server",
        "k/s",
        "millpond is",
        "p50",
        "p99",
        "p99: millpond's is",
        "server us",
        "others' CPU",
    ]);
    for scenario in scenarios {
        for row in &scenario.rows {
            table.row(cells(scenario.shape, row));
        }
    }
    println!("{}", table.text());
    println!("Load average: {}.\n", load_average());
}

fn cells(shape: Shape, row: &Row) -> Vec<String> {
    let times =
        |ratio: Option<Middle>| ratio.map_or_else(String::new, |ratio| format!("{} x", ratio.show(2)));
    let mut name = row.name.clone();
    if row.miss_ratio > 0.001 {
        name += &format!(" (misses {:.1} %)", row.miss_ratio * 100.0);
    }
    vec![
        if shape.writes_of_ten == 0 { "get" } else { "get 90, set 10" }.to_owned(),
        shape.pipeline.to_string(),
        shape.connections.to_string(),
        name,
        row.kops.show(0),
        times(row.throughput_ratio),
        format!("{:.0}", row.p50_us.median),
        row.p99_us.show(0),
        times(row.p99_ratio),
        format!("{:.2}", row.server_us.median),
        format!("{:.0} %", row.foreign.median * 100.0),
    ]
}

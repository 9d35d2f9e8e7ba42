//! The latency of a load that misses the processor's caches, which no find can go below.

use anyhow::{Result, bail};
use serde::Serialize;

use crate::child::{Answer, Child, Heap, Order};
use crate::contestant::Name;
use crate::machine::load_average;
use crate::options::Options;
use crate::report::{Middle, Table};

/// Loads of one measurement.
const STEPS: u64 = 2_000_000;

/// Latency of dependent loads in a region.
#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    region_bytes: u64,
    nanos: Middle,
}

/// Measures latency in regions from the processor's caches to the size of the caches that are
/// compared, on 2 MiB pages, and prints a table.
pub(crate) fn limits(options: &Options) -> Result<Vec<Latency>> {
    println!("\n## Memory latency: loads that depend on each other, one cache line each, 2 MiB pages\n");
    let regions = [1 << 20, 16 << 20, 128 << 20, options.memory.as_u64()];
    let mut child = Child::start(Name::Nothing, Heap::Fast)?;
    let mut rows: Vec<Latency> = Vec::new();
    let mut table = Table::new(["region", "ns a load"]);
    for region_bytes in regions {
        let mut figures = Vec::new();
        for _ in 0..options.rounds {
            let order = Order::Chase { bytes: region_bytes, steps: STEPS };
            let Answer::Measured(measured) = child.ask(&order)? else { bail!("no latency was measured") };
            figures.push(1e3 / measured.mops());
        }
        let nanos = Middle::of(figures);
        table.row([base::ByteSize::new(region_bytes).to_string(), nanos.show(1)]);
        rows.push(Latency { region_bytes, nanos });
    }
    println!("{}\nLoad average: {}.", table.text(), load_average());
    Ok(rows)
}

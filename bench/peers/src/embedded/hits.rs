//! Hit ratios at equal memory: a look-aside workload whose keys are many times what fits.

use anyhow::{Result, bail};
use serde::Serialize;

use super::calibrate;
use crate::child::{Answer, Child, Heap, Order};
use crate::contestant::Name;
use crate::options::Options;
use crate::report::Table;

/// Ratio of the bytes of all keys and values to the memory.
const FOOTPRINT: f64 = 8.0;

/// A contestant's hit ratio.
#[derive(Debug, Serialize)]
pub(crate) struct HitRatio {
    name: Name,
    value_len: usize,
    memory_bytes: u64,
    resident_bytes: u64,
    items: u64,
    keys: u64,
    requests: u64,
    hit_ratio: f64,
}

/// Measures hit ratios with values of `value_len` bytes, and prints a table.
pub(crate) fn hit_ratios(options: &Options, value_len: usize) -> Result<Vec<HitRatio>> {
    let memory_bytes = options.hit_memory.as_u64();
    let keys = (memory_bytes as f64 * FOOTPRINT / (16 + value_len) as f64) as u32;
    println!(
        "\n## Hit ratio at equal memory: values of {value_len} B, {} for each cache\n",
        options.hit_memory
    );
    println!("Zipf 0.99 over {keys} keys ({FOOTPRINT} times the memory); a miss inserts.\n");
    let mut names: Vec<Name> = options.contestants.clone();
    names.retain(|name| *name != Name::Nothing);
    for other in [Name::MillpondLru, Name::FoyerLfu] {
        if !names.contains(&other) {
            names.push(other);
        }
    }
    let mut rows = Vec::new();
    for name in names {
        let entry = calibrate::one(name, memory_bytes, value_len, Heap::Dense)?;
        let mut child = Child::start(name, Heap::Dense)?;
        child.ask(&Order::Build(entry.spec))?;
        let (warm_up, requests) = (u64::from(keys) * 2, u64::from(keys));
        let Answer::Measured(measured) = child.ask(&Order::LookAside { keys, warm_up, requests })? else {
            bail!("{name} did not measure");
        };
        let held = child.hold(&Order::Count)?;
        rows.push(HitRatio {
            name,
            value_len,
            memory_bytes,
            resident_bytes: held.resident_bytes,
            items: held.items,
            keys: keys.into(),
            requests,
            hit_ratio: measured.hit_ratio(),
        });
    }
    print(&rows);
    Ok(rows)
}

fn print(rows: &[HitRatio]) {
    let ours = rows.iter().find(|row| row.name == Name::Millpond).map(|row| row.hit_ratio);
    let mut table = Table::new(["cache", "hit ratio", "millpond has", "items", "resident MiB"]);
    for row in rows {
        let ahead = ours.filter(|_| row.name != Name::Millpond).map(|ours| (ours - row.hit_ratio) * 100.0);
        table.row([
            row.name.to_string(),
            format!("{:.2} %", row.hit_ratio * 100.0),
            ahead.map_or_else(String::new, |points| format!("{points:+.2} points")),
            row.items.to_string(),
            format!("{:.1}", row.resident_bytes as f64 / (1 << 20) as f64),
        ]);
    }
    println!("{}", table.text());
}

//! Memory: what an item costs besides key and value, whether the limit holds, and how many items a
//! gigabyte holds here and in other servers.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::child::{Bill, Child, Heap, Held, Order};
use crate::contestant::{Name, Spec};
use crate::machine::{load_average, resident_bytes};
use crate::options::Options;
use crate::report::Table;
use crate::servers::client::fill;
use crate::servers::program;
use crate::servers::server::{Aim, Kind, Server};
use crate::servers::wire::Wire;

/// Length of the values, in bytes. Keys have 16.
const VALUE_LEN: usize = 100;
/// Key and value.
const PAYLOAD: u64 = 16 + VALUE_LEN as u64;
/// Memory for each item of the large fill, in bytes: enough that none is evicted.
const ROOM: u64 = 180;

/// All figures of the section.
#[derive(Debug, Serialize)]
pub(crate) struct Memory {
    fills: Vec<Fill>,
    held: Vec<HeldPerGib>,
}

/// A cache filled to a point.
#[derive(Debug, Serialize)]
struct Fill {
    name: Name,
    stage: &'static str,
    held: Held,
    process_resident_bytes: u64,
    bill: Bill,
}

/// The number of items that a full server or cache holds.
#[derive(Debug, Serialize)]
struct HeldPerGib {
    name: String,
    limit_bytes: u64,
    items: u64,
    resident_bytes: u64,
}

/// Measures all of it, and prints tables.
pub(crate) fn memory(options: &Options) -> Result<Memory> {
    println!("\n## Memory: {} items of 16-byte keys and {VALUE_LEN}-byte values\n", options.fill_items);
    let mut fills = Vec::new();
    for name in [Name::Millpond, Name::MillpondLru] {
        fills.extend(filled(name, options.fill_items)?);
    }
    print_fills(&fills);
    println!("\n## Items held in {}\n", options.held_memory);
    let mut held = Vec::new();
    for name in [Name::Millpond, Name::MillpondLru] {
        held.push(held_in_process(name, options.held_memory.as_u64())?);
    }
    let millpond = program(options)?;
    for kind in [
        Kind::Millpond { threads: 1, busy_poll_micros: 0, wire: Wire::Memcached, tls: false },
        Kind::Memcached { threads: 1, set_for: Aim::Defaults, tls: false },
        Kind::Memcached { threads: 1, set_for: Aim::Density, tls: false },
        Kind::Redis { io_threads: 1, set_for: Aim::Defaults, tls: false },
    ] {
        let server = Server::start(kind, &millpond, options.held_memory.as_u64() >> 20, "0,1")?;
        held.push(held_by(&server, options.held_memory.as_u64())?);
    }
    print_held(&held);
    Ok(Memory { fills, held })
}

/// Fills a cache with `items`, then to well beyond its limit.
fn filled(name: Name, items: u64) -> Result<Vec<Fill>> {
    let spec = Spec { memory_bytes: items * ROOM, overhead_bytes: 0, value_len: VALUE_LEN };
    let mut child = Child::start(name, Heap::Dense)?;
    child.ask(&Order::Build(spec))?;
    let mut stages = Vec::new();
    for (stage, fresh, count) in [("all fit", false, items), ("full, evicting", true, items)] {
        let held = child.hold(&Order::Fill { fresh, count })?;
        let process_resident_bytes = resident_bytes(child.pid())?;
        stages.push(Fill { name, stage, held, process_resident_bytes, bill: child.bill()? });
    }
    Ok(stages)
}

fn print_fills(fills: &[Fill]) {
    let mut table = Table::new([
        "policy",
        "state",
        "items",
        "header",
        "index",
        "queues",
        "metadata",
        "ghosts",
        "slack",
        "resident",
        "process over limit",
    ]);
    for fill in fills {
        let each = |bytes: u64| bytes as f64 / fill.held.items.max(1) as f64;
        let header = fill.bill.item_bytes.saturating_sub(fill.held.items * PAYLOAD);
        let slack = fill.bill.part("slabs").saturating_sub(fill.bill.item_bytes);
        let (index, queues) = (fill.bill.part("index"), fill.bill.part("queues"));
        let over = fill.process_resident_bytes as f64 - fill.bill.limit_bytes as f64;
        table.row([
            if fill.name == Name::MillpondLru { "lru" } else { "s3-fifo" }.to_owned(),
            fill.stage.to_owned(),
            fill.held.items.to_string(),
            format!("{:.2}", each(header)),
            format!("{:.2}", each(index)),
            format!("{:.2}", each(queues)),
            format!("{:.2}", each(header + index + queues)),
            format!("{:.2}", each(fill.bill.part("ghosts"))),
            format!("{:.2}", each(slack)),
            format!("{:.2}", each(fill.held.resident_bytes) - PAYLOAD as f64),
            format!("{:+.1} MiB", over / f64::from(1 << 20)),
        ]);
    }
    println!(
        "Bytes for each item. header to slack: by the cache's own ledger; metadata is header, index and queues."
    );
    println!(
        "resident: all that became resident, less key and value. process: the resident size of the whole process"
    );
    println!("against the configured memory.\n\n{}", table.text());
    println!("Load average: {}.", load_average());
}

/// Counts the items that a cache in process holds in `limit_bytes`.
fn held_in_process(name: Name, limit_bytes: u64) -> Result<HeldPerGib> {
    let spec = Spec { memory_bytes: limit_bytes, overhead_bytes: 0, value_len: VALUE_LEN };
    let mut child = Child::start(name, Heap::Dense)?;
    child.ask(&Order::Build(spec))?;
    let held = child.hold(&Order::Fill { fresh: true, count: limit_bytes / PAYLOAD * 3 / 2 })?;
    Ok(HeldPerGib {
        name: format!("{name} in process"),
        limit_bytes,
        items: held.items,
        resident_bytes: resident_bytes(child.pid())?,
    })
}

/// Counts the items that a server holds after it has evicted a tenth of them.
fn held_by(server: &Server, limit_bytes: u64) -> Result<HeldPerGib> {
    let (wire, target, name) = (server.kind().wire(), server.target(), server.kind().name());
    let value = vec![b'x'; VALUE_LEN];
    let step = (limit_bytes / PAYLOAD / 64).max(1_000);
    let mut next = 0;
    loop {
        fill(wire, target, next, step, &value).with_context(|| format!("filling {name}"))?;
        next += step;
        let (items, evictions) = server.holdings()?;
        if evictions > items / 10 || next > limit_bytes / PAYLOAD * 3 {
            return Ok(HeldPerGib {
                name,
                limit_bytes,
                items,
                resident_bytes: resident_bytes(server.pid())?,
            });
        }
    }
}

fn print_held(rows: &[HeldPerGib]) {
    let ours = rows.iter().find(|row| row.name.starts_with("millpond -t")).map(HeldPerGib::per_resident_gib);
    let mut table = Table::new([
        "who",
        "items",
        "of configured GiB",
        "resident MiB",
        "items per resident GiB",
        "millpond serve holds",
        "resident bytes per item",
    ]);
    for row in rows {
        let per_configured = row.items as f64 * f64::from(1 << 30) / row.limit_bytes as f64;
        let times = ours.map(|ours| format!("{:.2} x", ours / row.per_resident_gib().max(1.0)));
        table.row([
            row.name.clone(),
            row.items.to_string(),
            format!("{per_configured:.0}"),
            format!("{:.1}", row.resident_bytes as f64 / f64::from(1 << 20)),
            format!("{:.0}", row.per_resident_gib()),
            times.filter(|_| !row.name.starts_with("millpond")).unwrap_or_default(),
            format!("{:.1}", row.resident_bytes as f64 / row.items.max(1) as f64),
        ]);
    }
    println!("{}", table.text());
    println!("Load average: {}.\n", load_average());
}

impl HeldPerGib {
    fn per_resident_gib(&self) -> f64 {
        self.items as f64 * f64::from(1 << 30) / self.resident_bytes.max(1) as f64
    }
}

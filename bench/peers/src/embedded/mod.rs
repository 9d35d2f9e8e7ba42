//! The caches in process, at equal memory.
//!
//! Each contestant lives in a process of its own ([`crate::child`]). All are built, filled and
//! kept, and take turns: every round measures each of them once, in an order that rotates, so that
//! whatever else the machine does meets all alike and a ratio is one of figures measured within
//! seconds of each other.

mod calibrate;
mod hits;
mod rounds;

use anyhow::Result;
use serde::Serialize;

use crate::child::{Child, Heap, Order, Plan, Task};
use crate::contestant::{Name, Spec};
use crate::keys::{Spread, ZIPF};
use crate::machine::{Patience, load_average};
use crate::options::Options;
use crate::report::{Middle, Table};

pub(crate) use hits::{HitRatio, hit_ratios};
use rounds::{Row, rounds};

/// The share of the least capacity among contestants that is filled for measuring hits: all keys
/// must fit everywhere, also in shards that got a little more than others.
const FILLED: f64 = 0.85;

/// The measurements for one length of values.
#[derive(Debug, Serialize)]
pub(crate) struct Embedded {
    value_len: usize,
    memory_bytes: u64,
    keys: u64,
    holdings: Vec<Holding>,
    measurements: Vec<Measurement>,
}

/// The items and memory of a full contestant.
#[derive(Debug, Serialize)]
struct Holding {
    name: Name,
    overhead_bytes: u64,
    items: u64,
    resident_bytes: u64,
}

/// One measurement of all contestants.
#[derive(Debug, Serialize)]
pub(crate) struct Measurement {
    plan: Plan,
    load_average: String,
    rows: Vec<Row>,
}

const SPREADS: [Spread; 2] = [Spread::Uniform, ZIPF];

/// The measurements at a given fill: first all keys fit, then the caches are full.
fn plans(millis: u64) -> (Vec<Plan>, Vec<Plan>) {
    let plan = |task, spread, threads| Plan { task, threads, spread, millis };
    let mut hits = Vec::new();
    for spread in SPREADS {
        for task in [Task::Find, Task::FindNext, Task::FindMany, Task::Copy, Task::Mixed(5)] {
            for threads in [1, 2] {
                // What is only there to explain the others is measured once.
                if threads == 1 || !matches!(task, Task::FindNext | Task::FindMany) {
                    hits.push(plan(task, spread, threads));
                }
            }
        }
    }
    let full = [1, 2].map(|threads| plan(Task::Insert, Spread::Uniform, threads)).to_vec();
    (hits, full)
}

/// Every task at every number of threads and every skew, where [`plans`] has a choice.
fn matrix(millis: u64) -> (Vec<Plan>, Vec<Plan>) {
    let mut hits = Vec::new();
    for spread in SKEWS {
        for task in [Task::Find, Task::Mixed(5), Task::Mixed(30)] {
            hits.extend(THREADS.map(|threads| Plan { task, threads, spread, millis }));
        }
    }
    let full = THREADS.map(|threads| Plan { task: Task::Insert, threads, spread: SKEWS[0], millis });
    (hits, full.to_vec())
}

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
const SKEWS: [Spread; 4] = [Spread::Zipf(60), Spread::Zipf(80), ZIPF, Spread::Zipf(120)];

/// Measures all contestants with values of `value_len` bytes, and prints tables; `whole` asks for
/// [`matrix`].
pub(crate) fn embedded(options: &Options, value_len: usize, whole: bool) -> Result<Embedded> {
    let memory_bytes = options.memory.as_u64();
    println!("\n## In process: values of {value_len} B, {} for each cache\n", options.memory);
    let mut names = vec![Name::Nothing];
    names.extend(options.contestants.iter().copied().filter(|name| *name != Name::Nothing));
    let specs = calibrate::all(&names, memory_bytes, value_len, Heap::Fast)?;
    let least = specs.iter().filter(|entry| entry.items > 0).map(|entry| entry.items).min().unwrap_or(1);
    let keys = (least as f64 * FILLED) as u32;

    let length = if options.quick { 1_000_000 } else { 4_000_000 };
    let mut children = Vec::new();
    for entry in &specs {
        let mut child = Child::start(entry.name, Heap::Fast)?;
        for spread in if whole { &SKEWS[..] } else { &SPREADS } {
            child.ask(&Order::Draw { keys, length, spread: *spread })?;
        }
        child.ask(&Order::Build(entry.spec))?;
        child.hold(&Order::Fill { fresh: false, count: keys.into() })?;
        children.push(child);
    }

    let (hits, full) = if whole { matrix(options.turn_ms) } else { plans(options.turn_ms) };
    let mut patience = Patience::new(options.patience_ms);
    let mut measurements = Vec::new();
    for plan in hits {
        measurements.push(rounds(&mut children, plan, options.rounds, &mut patience)?);
    }
    let holdings = fill_up(&mut children, &specs)?;
    for plan in full {
        measurements.push(rounds(&mut children, plan, options.rounds, &mut patience)?);
    }
    let outcome = Embedded { value_len, memory_bytes, keys: keys.into(), holdings, measurements };
    print_holdings(&outcome);
    print_measurements(&outcome);
    Ok(outcome)
}

/// Inserts until every cache has evicted as much as it holds, and says what it holds then.
fn fill_up(children: &mut [Child], specs: &[calibrate::Calibrated]) -> Result<Vec<Holding>> {
    let mut holdings = Vec::new();
    for (child, entry) in children.iter_mut().zip(specs) {
        if entry.name != Name::Nothing {
            let held = child.hold(&Order::Fill { fresh: true, count: entry.items * 2 })?;
            let Spec { overhead_bytes, .. } = entry.spec;
            holdings.push(Holding {
                name: entry.name,
                overhead_bytes,
                items: held.items,
                resident_bytes: held.resident_bytes,
            });
        }
    }
    Ok(holdings)
}

fn print_holdings(outcome: &Embedded) {
    let mut table = Table::new([
        "full cache",
        "resident MiB",
        "of limit",
        "items",
        "resident bytes per item",
        "weigher adds",
    ]);
    for holding in &outcome.holdings {
        table.row([
            holding.name.to_string(),
            format!("{:.1}", holding.resident_bytes as f64 / (1 << 20) as f64),
            format!("{:.1} %", holding.resident_bytes as f64 * 100.0 / outcome.memory_bytes as f64),
            holding.items.to_string(),
            format!("{:.1}", holding.resident_bytes as f64 / holding.items.max(1) as f64),
            if holding.name.is_peer() { format!("{} B", holding.overhead_bytes) } else { "–".to_owned() },
        ]);
    }
    println!("{}", table.text());
    println!("Finds and replacements: {} keys, all of them in every cache.\n", outcome.keys);
}

/// One row a measurement: each cache's throughput, and Millpond's over it.
fn print_measurements(outcome: &Embedded) {
    let Some(first) = outcome.measurements.first() else { return };
    let names = first.rows.iter().map(|row| row.name).filter(|name| *name != Name::Nothing);
    let names: Vec<Name> = names.collect();
    println!(
        "Millions of operations a second: median (least–most) of the rounds; x: Millpond's over that cache's, round by"
    );
    println!("round. Loop: what the timed loop costs by itself.\n");
    let fixed = ["what", "keys", "threads", "loop ns"].map(str::to_owned);
    let heads = fixed.into_iter().chain(names.iter().map(Name::to_string));
    let mut table = Table::new(heads.chain(["others' CPU".to_owned()]));
    for Measurement { plan, rows, .. } in &outcome.measurements {
        let row_of = |name| rows.iter().find(|row| row.name == name);
        let mut cells = vec![
            plan.task.name(),
            if plan.task == Task::Insert { "new".to_owned() } else { plan.spread.name() },
            plan.threads.to_string(),
            row_of(Name::Nothing).map_or_else(String::new, |row| format!("{:.1}", row.cpu_nanos.median)),
        ];
        cells.extend(names.iter().map(|name| row_of(*name).map_or_else(|| "–".to_owned(), Row::show)));
        let foreign = Middle::of(rows.iter().map(|row| row.foreign.median));
        cells.push(format!("{:.0} %", foreign.median * 100.0));
        table.row(cells);
    }
    println!("{}", table.text());
    println!("Load average: {}.", load_average());
}

/// The load average beside a measurement.
fn load() -> String {
    load_average().split(' ').next().unwrap_or_default().to_owned()
}

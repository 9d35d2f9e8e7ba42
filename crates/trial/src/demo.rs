//! Three tenants of different appetite in one server, and the memory that moves between them: what
//! `millpond demo` shows.
//!
//! | tenant | asks for | more memory |
//! |---|---|---|
//! | `shop` | 300,000 keys, some of them far more often than others (Zipf 0.9) | always saves some misses |
//! | `login` | 20,000 keys, each as often as any other | saves misses until all 20,000 are there |
//! | `crawler` | a million keys, one after the other, over and over | saves none |
//!
//! All want memory, so that without a policy each has a third of it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base::rng::{RngExt as _, seeded};
use base::{ByteSize, Clock};
use rand_distr::{Distribution, Zipf};
use serde_json::Value;

use crate::lookaside::{Keys, Load, Tenant, Wire};
use crate::served::Served;

/// Bytes of a value.
const VALUE_BYTES: usize = 1_000;
/// Fetches per second of each tenant's backend.
const BACKEND_PER_SEC: f64 = 2_000.0;
/// Most reads per second of each tenant, so that the demonstration leaves processors to others.
const READS_PER_SEC: u32 = 20_000;
/// Interval between two looks at the server.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds between two lines with hit ratios.
const FIGURES_SECS: u64 = 10;
const NAMES: [&str; 3] = ["shop", "login", "crawler"];

/// The options of a demonstration.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The program of the server.
    pub program: std::path::PathBuf,
    /// Memory of the server.
    pub memory: ByteSize,
    /// Duration; `None` = until `stop`.
    pub duration: Option<Duration>,
    /// Names the random numbers.
    pub seed: u64,
}

/// Serves the three tenants until the time is over or `stop` is set, and prints what moves.
///
/// # Errors
/// If the server cannot be started or ends.
pub fn demo(options: &DemoOptions, stop: &AtomicBool, out: &mut dyn Write) -> Result<()> {
    let mut served = Served::start(&options.program, &config(options.memory))?;
    let admin = served.admin()?;
    let tenants: Vec<_> = NAMES
        .into_iter()
        .map(|name| {
            let keys = keys(name, options.seed)?;
            let tenant = Tenant {
                name,
                keys,
                value_bytes: VALUE_BYTES,
                backend_per_sec: BACKEND_PER_SEC,
                wire: Wire::Memcached,
            };
            Ok((tenant, served.address(name)?))
        })
        .collect::<Result<_>>()?;
    writeln!(
        out,
        "Three tenants share {} of memory; each reads through the cache from its own backend:",
        options.memory
    )?;
    for name in NAMES {
        writeln!(out, "  {name:<8} {}  {}", served.address(name)?, about(name))?;
    }
    writeln!(out, "Live: {admin}/   decisions: {admin}/decisions.json   Ctrl-C ends it.")?;
    writeln!(out, "Memory fills first; then it moves, and each move says why.")?;
    out.flush()?;
    let load = Load::start(tenants)?;
    let watched = watch(&served, &load, options.duration, stop, out);
    let ended = load.stop();
    // The terminal's Ctrl-C ends the server too, whichever way the others notice.
    if stop.load(Ordering::Relaxed) {
        return Ok(());
    }
    let outcome = watched.and(ended);
    match served.exit_status().filter(|_| outcome.is_err()) {
        Some(status) => bail!("the server ended with {status}{}", served.quoted_log()),
        None => outcome,
    }
}

fn about(name: &str) -> &'static str {
    match name {
        "shop" => "some keys far more often than others: more memory always saves misses",
        "login" => "20,000 keys alike: more memory saves misses until all of them fit",
        _ => "a million keys in a row, over and over: memory saves nothing",
    }
}

fn config(memory: ByteSize) -> String {
    let tenants = NAMES.map(|name| {
        format!("[[tenant]]\nname = \"{name}\"\noperations_per_sec = {READS_PER_SEC}\n[[listener]]\nname = \"{name}\"\ntenant = \"{name}\"\n")
    });
    format!(
        "memory = \"{memory}\"\nthreads = 1\n[watch]\ncurve_keys = 1024\ncurve_one_in = 8\n{}",
        tenants.concat()
    )
}

fn keys(name: &str, seed: u64) -> Result<Keys> {
    let mut rng = seeded(seed);
    Ok(match name {
        "shop" => {
            let zipf = Zipf::new(300_000.0, 0.9).context("a distribution of keys")?;
            Box::new(move || zipf.sample(&mut rng) as u64)
        }
        "login" => Box::new(move || rng.random_range(0..20_000)),
        _ => {
            let mut next = 0;
            Box::new(move || {
                next = (next + 1) % 1_000_000;
                next
            })
        }
    })
}

/// Prints decisions as they are made, and figures now and then.
fn watch(
    served: &Served,
    load: &Load,
    duration: Option<Duration>,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<()> {
    let began = Clock::System.monotonic_nanos();
    let (mut shown, mut told) = (0, load.counts()?);
    for second in 1_u64.. {
        base::thread::sleep(LOOK);
        let secs = (Clock::System.monotonic_nanos() - began) / 1_000_000_000;
        if stop.load(Ordering::Relaxed) || duration.is_some_and(|duration| secs >= duration.as_secs()) {
            return Ok(());
        }
        let page = served.decisions()?;
        let decisions = page["decisions"].as_array().map_or(&[][..], Vec::as_slice);
        let number = |decision: &Value| decision["number"].as_u64().unwrap_or(0);
        let last = shown;
        for decision in decisions.iter().rev().filter(|decision| number(decision) > last) {
            tell(decision, secs, out)?;
            shown = number(decision);
        }
        if second % FIGURES_SECS == 0 {
            let now = load.counts()?;
            figures(&page, &told, &now, secs, out)?;
            told = now;
        }
        out.flush()?;
    }
    Ok(())
}

/// Prints a decision: each move with its reason.
fn tell(decision: &Value, secs: u64, out: &mut dyn Write) -> Result<()> {
    for step in decision["moves"].as_array().into_iter().flatten() {
        let name = |pool: &Value| pool.as_str().unwrap_or("free").to_owned();
        let bytes = ByteSize::new(step["bytes"].as_u64().unwrap_or(0) >> 10 << 10);
        let (from, to) = (name(&step["from"]), name(&step["to"]));
        writeln!(out, "{secs:>4} s  {bytes} from {from} to {to}: {}", step["reason"].as_str().unwrap_or(""))?;
    }
    Ok(())
}

/// Prints the memory and the hit ratio of each tenant.
fn figures(
    page: &Value,
    before: &[(u64, u64)],
    now: &[(u64, u64)],
    secs: u64,
    out: &mut dyn Write,
) -> Result<()> {
    let pools = page["pools"].as_array().map_or(&[][..], Vec::as_slice);
    let bytes: HashMap<&str, u64> = pools
        .iter()
        .filter_map(|pool| Some((pool["name"].as_str()?, pool["slab_bytes"].as_u64()?)))
        .collect();
    write!(out, "{secs:>4} s ")?;
    for ((name, then), now) in NAMES.iter().zip(before).zip(now) {
        let (reads, misses) = (now.0 - then.0, now.1 - then.1);
        let hits = 100.0 * (reads - misses) as f64 / reads.max(1) as f64;
        let mib = bytes.get(name).copied().unwrap_or(0) as f64 / f64::from(1 << 20);
        write!(out, "  {name}: {mib:.0} MiB, {hits:.1} % hits, {} reads/s", reads / FIGURES_SECS)?;
    }
    writeln!(out)?;
    Ok(())
}

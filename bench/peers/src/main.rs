//! `bench/peers`: the same workload against Millpond and its peers, printing ratios from one run.
//!
//! In process: moka, quick_cache and foyer's in-memory cache at equal *memory*. On loopback:
//! memcached and Redis as Debian packages them. Everything is interleaved round by round, threads
//! are pinned, and each figure stands beside its range and what others took of the processors
//! meanwhile. `docs/benchmarks.md` has the results and what they mean.

#![forbid(unsafe_code)]

mod child;
mod contestant;
mod embedded;
mod keys;
mod limits;
mod machine;
mod memory;
mod options;
mod report;
mod servers;
mod surroundings;

use anyhow::{Context, Result};
use bench::machine::WakeFast;
use serde::Serialize;

use options::{Options, Section};

/// Peers keep values in allocations of their own; this is a fast allocator for them.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Lengths of values in the matrix, in bytes.
const MATRIX_VALUES: [usize; 4] = [64, 256, 1024, 4096];

/// All figures of a run.
#[derive(Debug, Default, Serialize)]
struct Figures {
    surroundings: Option<surroundings::Surroundings>,
    limits: Vec<limits::Latency>,
    embedded: Vec<embedded::Embedded>,
    matrix: Vec<embedded::Embedded>,
    hit_ratios: Vec<embedded::HitRatio>,
    memory: Option<memory::Memory>,
    servers: Vec<servers::Scenario>,
}

fn main() -> Result<()> {
    let options = Options::read();
    if let Some(name) = options.play {
        return child::serve(name);
    }
    if let Some(port) = options.echo {
        return servers::echo::serve(port);
    }
    let wake = WakeFast::hold();
    let mut figures = Figures { surroundings: Some(surroundings::print(&wake)), ..Figures::default() };
    let outcome = run(&options, &mut figures);
    println!("Load average at the end: {}.", machine::load_average());
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&figures)?;
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    outcome
}

/// Runs the sections that are wanted. What was measured before a failure is kept.
fn run(options: &Options, figures: &mut Figures) -> Result<()> {
    if options.has(Section::Limits) {
        figures.limits = limits::limits(options)?;
    }
    if options.has(Section::Embedded) {
        for value_len in &options.values {
            figures.embedded.push(embedded::embedded(options, *value_len, false)?);
        }
    }
    if options.has(Section::Matrix) {
        for value_len in MATRIX_VALUES {
            figures.matrix.push(embedded::embedded(options, value_len, true)?);
        }
    }
    if options.has(Section::Hits) {
        for value_len in &options.values {
            figures.hit_ratios.extend(embedded::hit_ratios(options, *value_len)?);
        }
    }
    if options.has(Section::Memory) {
        figures.memory = Some(memory::memory(options)?);
    }
    if options.has(Section::Servers) {
        servers::servers(options, &mut figures.servers)?;
    }
    Ok(())
}

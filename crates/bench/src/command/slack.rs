//! `millpond bench slack`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use base::ByteSize;
use clap::Args;

use super::print_json;
use crate::slack::{PoolSlack, SlackOptions, Source, run};

/// Flags of `millpond bench slack`.
#[derive(Clone, Debug, Args)]
pub struct SlackArgs {
    /// CacheBench configuration: a folder with a config.json, or such a file. May be given several
    /// times
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub config: Vec<PathBuf>,
    /// Trace file with sizes. May be given several times
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub trace: Vec<PathBuf>,
    /// All memory of the cache, in bytes or with a unit
    #[arg(long, value_name = "SIZE", default_value_t = SlackOptions::default().memory)]
    pub memory: ByteSize,
    /// Requests before the size classes are tuned, and as many after
    #[arg(long, value_name = "N", default_value_t = SlackOptions::default().requests)]
    pub requests: u64,
    /// Names the requests
    #[arg(long, value_name = "N", default_value_t = SlackOptions::default().seed)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Does what the flags of `millpond bench slack` say, and prints the report.
///
/// # Errors
/// Where there is nothing to run, or a file cannot be used.
pub fn execute(args: &SlackArgs, out: &mut dyn Write) -> Result<()> {
    let configs = args.config.iter().cloned().map(Source::CacheBench);
    let sources: Vec<_> = configs.chain(args.trace.iter().cloned().map(Source::Trace)).collect();
    if sources.is_empty() {
        bail!("nothing to run: give --config or --trace");
    }
    let options = SlackOptions { memory: args.memory, requests: args.requests, seed: args.seed };
    let mut all = Vec::new();
    for source in &sources {
        all.extend(run(source, &options)?);
    }
    if args.json {
        return print_json(out, &all);
    }
    writeln!(
        out,
        "{:<28} {:>7} {:>16} {:>9} {:>16} {:>8} {:>11} {:>9}",
        "pool", "item B", "default: comp.", "as many", "tuned: comp.", "later", "classes", "items"
    )?;
    all.iter().try_for_each(|pool| line(pool, out))
}

fn line(pool: &PoolSlack, out: &mut dyn Write) -> Result<()> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let both = |measured: f64, computed: f64| format!("{} {:>6}", percent(measured), percent(computed));
    let more = pool.later.items as f64 / pool.before.items.max(1) as f64 - 1.0;
    writeln!(
        out,
        "{:<28} {:>7} {:>16} {:>9} {:>16} {:>8} {:>11} {:>9}",
        pool.name,
        pool.mean_item_bytes,
        both(pool.before.slack, pool.computed_before),
        percent(pool.computed_as_many),
        both(pool.after.slack, pool.computed_after),
        percent(pool.later.slack),
        format!("{} -> {}", pool.before.classes, pool.later.classes),
        format!("{:+.1} %", more * 100.0),
    )?;
    Ok(())
}

//! `millpond bench curve-cost`.

use std::io::Write;

use anyhow::{Result, bail};
use clap::Args;
use millpond::watch::CurveConfig;
use serde::Serialize;

use super::print_json;
use crate::curve_cost::{CostOptions, EngineCost, EstimatorCost, engine, estimators};

/// Flags of `millpond bench curve-cost`.
#[derive(Clone, Debug, Args)]
pub struct CurveCostArgs {
    /// Keys, asked for by Zipf's law with an exponent of 0.9; all are in the cache
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub keys: u64,
    /// Threads that look up; may be given several times
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// Rounds of two halves, each of --pairs pairs of chunks of 4096 finds a thread, with and
    /// without a curve
    #[arg(long, value_name = "N", default_value_t = 41)]
    pub rounds: usize,
    /// Pairs of chunks in half a round
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub pairs: usize,
    /// Follow at most one key in N [default: the engine's, 64]
    #[arg(long, value_name = "N")]
    pub one_in: Option<u32>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Report {
    estimators: Vec<EstimatorCost>,
    engine: Vec<EngineCost>,
}

/// Does what the flags of `millpond bench curve-cost` say, and prints the report.
///
/// # Errors
/// Where a number is 0, or the engine refuses the keys.
pub fn execute(args: &CurveCostArgs, out: &mut dyn Write) -> Result<()> {
    if args.keys == 0
        || args.rounds == 0
        || args.pairs == 0
        || args.one_in == Some(0)
        || args.threads.contains(&0)
    {
        bail!("--keys, --rounds, --pairs, --one-in and --threads are at least 1");
    }
    let default = CurveConfig::default();
    let rate = args.one_in.map_or(default.rate, |one_in| 1.0 / f64::from(one_in));
    let config = CurveConfig { rate, ..default };
    let options =
        |threads| CostOptions { keys: args.keys, threads, rounds: args.rounds, pairs: args.pairs, config };
    let estimators = estimators(&options(1));
    let engine = args.threads.iter().map(|&threads| engine(&options(threads))).collect::<Result<Vec<_>>>()?;
    if args.json {
        return print_json(out, &Report { estimators, engine });
    }
    writeln!(
        out,
        "{:<30} {:>12} {:>10} {:>10} {:>10}",
        "estimator", "ns a sample", "quickest", "cold", "memory"
    )?;
    for cost in &estimators {
        let memory = format!("{:.1} MiB", cost.bytes as f64 / 1048576.0);
        let EstimatorCost { method, nanos_per_sample, quickest, nanos_cold, .. } = cost;
        writeln!(
            out,
            "{method:<30} {nanos_per_sample:>12.1} {quickest:>10.1} {nanos_cold:>10.1} {memory:>10}"
        )?;
    }
    let columns = ["ns a find", "throughput", "19 of 20 in", "followed", "ns more", "lost"];
    write!(out, "\n{:<10}", "threads")?;
    columns.iter().try_for_each(|column| write!(out, " {column:>13}"))?;
    writeln!(out)?;
    for cost in &engine {
        writeln!(
            out,
            "{:<10} {:>13.1} {:>13.4} {:>13} {:>13} {:>13.1} {:>13}",
            cost.threads,
            cost.nanos_per_find,
            cost.throughput_ratio,
            format!("{:.3}-{:.3}", cost.interval[0], cost.interval[1]),
            format!("1 in {:.0}", 1.0 / cost.rate),
            cost.nanos_per_followed_find,
            cost.lost,
        )?;
    }
    Ok(())
}

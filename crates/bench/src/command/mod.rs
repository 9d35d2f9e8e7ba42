//! `millpond bench …` and `millpond curve`: flags, and what they set going.
//!
//! The binary puts [`BenchCommand`] under its own `bench` and calls [`execute`]. Reports go to
//! standard output, as text or as one JSON object; progress goes to standard error and only where
//! that is a terminal.

mod check;
mod curve;
mod curve_compare;
mod curve_cost;
mod generate;
mod replay;
mod run;
mod siege;
mod slack;
mod soak;
#[cfg(test)]
mod tests;

use std::io::Write;

use anyhow::{Context, Result};
use base::ByteSize;
use clap::{Args, Subcommand};
use millpond::{PolicyKind, SizeClassConfig};
use serde::Serialize;

pub use check::CheckArgs;
pub use curve::{CurveArgs, execute_curve};
pub use curve_cost::CurveCostArgs;
pub use generate::GenerateArgs;
pub use replay::ReplayArgs;
pub use run::RunArgs;
pub use siege::SiegeArgs;
pub use slack::SlackArgs;
pub use soak::SoakArgs;

/// Measures and checks caches: load, trace replay, consistency, sample traces.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Drive a declared workload against a cache, and measure throughput, hit ratio and latency
    Run(Box<RunArgs>),
    /// Replay traces through the engine, and show hit ratios
    Replay(Box<ReplayArgs>),
    /// Show how much memory size classes leave unused, with the default sizes and with those that
    /// suit the items
    Slack(SlackArgs),
    /// Measure what it costs to learn miss-ratio curves
    Curve(CurveCostArgs),
    /// Check that a cache is consistent while its limits move, values expire and all keys are
    /// flushed
    Check(Box<CheckArgs>),
    /// Serve a mixed load for hours while tenants, limits, certificates and processes change, and
    /// check every answer
    Soak(SoakArgs),
    /// Besiege a server of our own in every way that clients have, and show what another tenant
    /// sees of it
    Siege(SiegeArgs),
    /// Generate a sample trace from published statistics of Twitter's caches
    Generate(GenerateArgs),
}

impl BenchCommand {
    /// Returns whether it has no connections, and so may end when the reader of its output has
    /// gone.
    pub fn only_prints(&self) -> bool {
        match self {
            Self::Replay(_) | Self::Slack(_) | Self::Curve(_) | Self::Generate(_) => true,
            Self::Run(_) | Self::Check(_) | Self::Soak(_) | Self::Siege(_) => false,
        }
    }
}

/// Does what the command says. Reports are printed.
///
/// # Errors
/// Where flags contradict each other, a file or target cannot be used, or a target returned wrong
/// values.
pub fn execute(command: BenchCommand) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match command {
        BenchCommand::Run(args) => run::execute(&args, &mut out),
        BenchCommand::Replay(args) => replay::execute(&args, &mut out),
        BenchCommand::Slack(args) => slack::execute(&args, &mut out),
        BenchCommand::Curve(args) => curve_cost::execute(&args, &mut out),
        BenchCommand::Check(args) => check::execute(&args, &mut out),
        BenchCommand::Soak(args) => soak::execute(&args, &mut out),
        BenchCommand::Siege(args) => siege::execute(&args, &mut out),
        BenchCommand::Generate(args) => generate::execute(&args, &mut out),
    }
}

/// How an embedded cache is made.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// All memory of the cache, in bytes or with a unit [default: 64MiB, or as --config says]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
    /// Eviction policy, such as s3-fifo or lru [default: s3-fifo, or as --config says]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<PolicyKind>,
    /// With lru: a hit within this many seconds of the last one promotes nothing; 0 promotes always
    /// [default: 60]
    #[arg(long, value_name = "SECS")]
    pub lru_refresh: Option<u32>,
    /// Each chunk size is this many times the one before, from 64 B to 4 MiB [default: 1.25]
    #[arg(long, value_name = "FACTOR", conflicts_with = "class_list")]
    pub class_factor: Option<f64>,
    /// The chunk sizes instead, such as 128,1KiB,64KiB
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub class_list: Vec<ByteSize>,
}

impl EngineArgs {
    fn memory(&self) -> ByteSize {
        self.memory.unwrap_or(ByteSize::mib(64))
    }

    fn policy(&self) -> Result<PolicyKind> {
        self.policy_over(PolicyKind::default())
    }

    /// The policy of the flags, or the given one where they name none.
    fn policy_over(&self, otherwise: PolicyKind) -> Result<PolicyKind> {
        match (self.policy.unwrap_or(otherwise), self.lru_refresh) {
            (policy, None) => Ok(policy),
            (PolicyKind::Lru { .. }, Some(refresh_secs)) => Ok(PolicyKind::Lru { refresh_secs }),
            (other, Some(_)) => anyhow::bail!("--lru-refresh is for `--policy lru`, not for {other}"),
        }
    }

    /// The chunk sizes, where a flag says something about them.
    fn chosen_classes(&self) -> Option<Result<SizeClassConfig>> {
        (self.class_factor.is_some() || !self.class_list.is_empty()).then(|| self.classes())
    }

    fn classes(&self) -> Result<SizeClassConfig> {
        if !self.class_list.is_empty() {
            let size = |size: &ByteSize| u32::try_from(size.as_u64());
            let sizes = self.class_list.iter().map(size).collect::<Result<_, _>>();
            return Ok(SizeClassConfig::List(sizes.context("a chunk is at most 4 MiB")?));
        }
        let default = SizeClassConfig::default();
        Ok(match (default, self.class_factor) {
            (SizeClassConfig::Factor { min, max, .. }, Some(factor)) => {
                SizeClassConfig::Factor { factor, min, max }
            }
            (default, _) => default,
        })
    }
}

/// Prints a value as one JSON object.
fn print_json(out: &mut dyn Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

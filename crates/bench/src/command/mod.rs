//! Flags of the load generator and of `millpond curve`, and what they set going.
//!
//! Each module is a subcommand: its flags, and `execute`. The binary puts them under its own
//! `bench`, beside those of `millpond-trial`. Reports go to a writer, as text or as one JSON
//! object; progress goes to standard error and only where that is a terminal.

pub mod curve;
mod curve_compare;
pub mod curve_cost;
pub mod generate;
pub mod replay;
pub mod run;
pub mod slack;
#[cfg(test)]
mod tests;

use std::io::Write;

use anyhow::{Context, Result};
use base::ByteSize;
use clap::Args;
use millpond::{PolicyKind, SizeClassConfig};
use serde::Serialize;

/// The arguments that shape an embedded cache.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// All memory of the cache, in bytes or with a unit [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
    /// Eviction policy, such as s3-fifo or lru [default: s3-fifo]
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
///
/// # Errors
/// Where it cannot be written.
pub fn print_json(out: &mut dyn Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

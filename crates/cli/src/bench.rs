//! `millpond bench`: the load generator's commands and the trials', under one name.

use ::bench::command::curve_cost::{self, CurveCostArgs};
use ::bench::command::generate::{self, GenerateArgs};
use ::bench::command::replay::{self, ReplayArgs};
use ::bench::command::run::{self, RunArgs};
use ::bench::command::slack::{self, SlackArgs};
use clap::Subcommand;
use trial::command::attack::{self, AttackArgs};
use trial::command::check::{self, CheckArgs};
use trial::command::soak::{self, SoakArgs};

/// Measures and checks caches: load, trace replay, consistency, sample traces.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Drive a declared workload against a cache, and measure throughput, hit ratio and latency
    Run(Box<RunArgs>),
    /// Replay traces through the engine, and show hit ratios
    Replay(Box<ReplayArgs>),
    /// Show how much memory size classes leave unused, with the default sizes and with those that
    /// suit the items
    Slack(SlackArgs),
    /// Measure what it costs to learn miss-ratio curves (`millpond curve` computes them)
    #[command(alias = "curve")]
    CurveCost(CurveCostArgs),
    /// Check that a cache is consistent while its limits move, values expire and all keys are
    /// flushed
    Check(Box<CheckArgs>),
    /// Serve a mixed load for hours while tenants, limits, certificates and processes change, and
    /// check every answer
    Soak(SoakArgs),
    /// Attack a server of our own in every way that clients have, and show the effect on another
    /// tenant
    #[command(alias = "siege")]
    Attack(AttackArgs),
    /// Generate a sample trace from published statistics of Twitter's caches
    Generate(GenerateArgs),
}

impl BenchCommand {
    /// Returns whether it has no connections, and so may end when the reader of its output has
    /// gone.
    pub(crate) fn only_prints(&self) -> bool {
        match self {
            Self::Replay(_) | Self::Slack(_) | Self::CurveCost(_) | Self::Generate(_) => true,
            Self::Run(_) | Self::Check(_) | Self::Soak(_) | Self::Attack(_) => false,
        }
    }

    /// Does what the command says, and prints the report.
    ///
    /// # Errors
    /// Why not, in one line with every cause.
    pub(crate) fn execute(&self) -> Result<(), String> {
        let out = &mut std::io::stdout().lock();
        let result = match self {
            Self::Run(args) => run::execute(args, out),
            Self::Replay(args) => replay::execute(args, out),
            Self::Slack(args) => slack::execute(args, out),
            Self::CurveCost(args) => curve_cost::execute(args, out),
            Self::Check(args) => check::execute(args, out),
            Self::Soak(args) => soak::execute(args, out),
            Self::Attack(args) => attack::execute(args, out),
            Self::Generate(args) => generate::execute(args, out),
        };
        result.map_err(|error| format!("{error:#}"))
    }
}

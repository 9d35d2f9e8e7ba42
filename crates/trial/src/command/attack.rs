//! `millpond bench attack`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use base::ByteSize;
use bench::command::print_json;
use clap::Args;
use workload::length::duration;

use crate::attacks::{SuiteOptions, run};
use crate::served::Served;

/// Flags of `millpond bench attack`.
#[derive(Clone, Debug, Args)]
pub struct AttackArgs {
    /// Measure the victim for this long alone, and as long under each attack: 10s, 500ms; a bare
    /// number is seconds
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub seconds: Duration,
    /// Make all attacks this often, in turn
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: usize,
    /// Make these attacks only, such as reads,fuzz [default: all; the report lists them]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Attack this program, run as `PROGRAM serve` [default: this one]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// All memory of the server, of which each tenant may have three eighths
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    pub memory: ByteSize,
    /// Requests of the victim in a second; latency runs from when each was due
    #[arg(long, value_name = "OPS_PER_SEC", default_value_t = 5_000.0)]
    pub rate: f64,
    /// Names the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Does what the flags of `millpond bench attack` say, and prints the report.
///
/// # Errors
/// Where flags contradict each other, the server cannot be run, or it did not withstand.
pub fn execute(args: &AttackArgs, out: &mut dyn Write) -> Result<()> {
    let report = run(&SuiteOptions {
        program: args.program.clone().map_or_else(Served::own_program, Ok)?,
        memory: args.memory,
        time: args.seconds,
        rounds: args.rounds,
        rate: args.rate,
        seed: args.seed,
        only: args.only.clone(),
        progress: std::io::stderr().is_terminal(),
    })?;
    if args.json {
        print_json(out, &report)?
    } else {
        write!(out, "{report}")?
    }
    if !report.is_withstood() {
        bail!("the server did not withstand the hostile load");
    }
    Ok(())
}

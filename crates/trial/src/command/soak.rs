//! `millpond bench soak`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base::ByteSize;
use bench::command::print_json;
use clap::Args;
use workload::length::duration;

use crate::check::PlantKind;
use crate::served::Served;
use crate::soak::{EventKind, LEAST_MEMORY, SoakOptions, soak};

/// Between what the defaults of `--every` and `--life` lie.
const EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(20)];
const LIFE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(1800)];

/// Flags of `millpond bench soak`.
#[derive(Clone, Debug, Args)]
pub struct SoakArgs {
    /// Run for this long: 20s, 10m, 12h; a bare number is seconds. Ctrl-C ends it early, with its
    /// report
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = duration)]
    pub duration: Duration,
    /// Requests a second, all clients together; some ask for several keys
    #[arg(long, value_name = "N", default_value_t = 2_000.0)]
    pub rate: f64,
    /// Memory of the server, at least 128MiB
    #[arg(long, value_name = "SIZE", default_value_t = LEAST_MEMORY)]
    pub memory: ByteSize,
    /// Names the run's random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The server's program [default: this one]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Pause between events other than restarts [default: a sixtieth of the duration, 1s to 20s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub every: Option<Duration>,
    /// Lifetime of each process of the server [default: a twelfth of the duration, 5s to 30m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub life: Option<Duration>,
    /// Do only this to the server; may be repeated [default: everything]
    #[arg(long, value_enum, value_name = "EVENT", num_args = 1..)]
    pub only: Vec<EventKind>,
    /// Plant a fault between clients and histories, to see that it is found [default: none]
    #[arg(long, value_enum, value_name = "FAULT")]
    pub plant: Option<PlantKind>,
    /// The planted fault strikes once in N of the calls at which it can
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub plant_every: u64,
    /// Print the report as JSON, with all samples
    #[arg(long)]
    pub json: bool,
}

/// Does what the flags of `millpond bench soak` say, and prints the report.
///
/// # Errors
/// Where the server cannot be run, or faults were found.
pub fn execute(args: &SoakArgs, out: &mut dyn Write) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => Served::own_program()?,
    };
    let [least, most] = EVERY;
    let every = args.every.unwrap_or((args.duration / 60).clamp(least, most));
    let [least, most] = LIFE;
    let life = args.life.unwrap_or((args.duration / 12).clamp(least, most));
    let options = SoakOptions {
        program,
        duration: args.duration,
        rate: args.rate,
        memory: args.memory,
        seed: args.seed,
        every,
        life,
        only: args.only.clone(),
        plant: args.plant.map(|plant| (plant, args.plant_every)),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("listening to signals")?;
    }
    let report = soak(&options, &stop)?;
    if args.json {
        print_json(out, &report)?;
    } else {
        write!(out, "{report}")?;
    }
    let faults = report.faults();
    if !faults.is_empty() {
        bail!("the soak found {}", faults.join(", "));
    }
    Ok(())
}

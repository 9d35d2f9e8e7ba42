//! `millpond demo`.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base::ByteSize;
use clap::Args;
use workload::length::duration;

use crate::demo::{DemoOptions, demo};
use crate::served::Served;

/// With less, curves of three tenants are not learnt.
const LEAST_MEMORY: ByteSize = ByteSize::mib(64);

/// Flags of `millpond demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Memory of the server, at least 64MiB
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize::mib(96))]
    pub memory: ByteSize,
    /// End after this long: 90s, 5m; a bare number is seconds [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Names the random numbers of the tenants
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The server's program [default: this one]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// Starts a server of three tenants under load, and prints what moves between them.
///
/// # Errors
/// If the server cannot be run.
pub fn execute(args: &DemoArgs, out: &mut dyn Write) -> Result<()> {
    ensure!(
        args.memory >= LEAST_MEMORY,
        "--memory: {} is too little; give at least {LEAST_MEMORY}",
        args.memory
    );
    let program = match &args.program {
        Some(program) => program.clone(),
        None => Served::own_program()?,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("listening to signals")?;
    }
    let options = DemoOptions { program, memory: args.memory, duration: args.duration, seed: args.seed };
    match demo(&options, &stop, out) {
        // The reader has enough, as `head` does.
        Err(error)
            if error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) =>
        {
            Ok(())
        }
        ended => ended,
    }
}

//! The `millpond` command: reads its arguments and calls the crate that does the work.

#![forbid(unsafe_code)]

mod inspect;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A cache that memcached clients use unchanged.
#[derive(Debug, Parser)]
#[command(name = "millpond", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients until told to stop by SIGTERM or Ctrl-C. SIGHUP re-reads the configuration.
    Serve(serve::ServeArguments),
    /// Drive a cache with load, replay a trace through one, or generate a trace.
    #[command(subcommand)]
    Bench(bench::command::BenchCommand),
    /// Reproduce the papers' figures, and say what holds.
    #[command(subcommand)]
    Experiment(simulate::command::ExperimentCommand),
    /// Say what each tenant of a file would get under each of several policies, in virtual time.
    Simulate(simulate::command::SimulateArgs),
    /// Show what a cache of any size would miss on a trace, where more memory helps, and where only much more does.
    Curve(Box<bench::command::CurveArgs>),
    /// Show what lies in the shared memory of a cache, without disturbing it.
    Inspect(inspect::InspectArguments),
    /// Show or check the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the version.
    Version,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say whether the configuration is good, and if not what to change.
    Check(serve::ServeArguments),
    /// Print the configuration that would hold, as a commented file.
    Print {
        /// Leave file, variables and flags aside.
        #[arg(long)]
        defaults: bool,
        #[command(flatten)]
        arguments: serve::ServeArguments,
    },
}

fn main() -> ExitCode {
    let result: Result<(), String> = match Arguments::parse().command {
        Command::Serve(arguments) => server::run(|| arguments.load()).map_err(|e| e.to_string()),
        // Every cause in the chain, on one line.
        Command::Bench(command) => bench::command::execute(command).map_err(|e| format!("{e:#}")),
        Command::Experiment(command) => simulate::command::experiment(&command).map_err(|e| format!("{e:#}")),
        Command::Simulate(arguments) => simulate::command::simulate(&arguments).map_err(|e| format!("{e:#}")),
        Command::Curve(args) => bench::command::execute_curve(&args).map_err(|e| format!("{e:#}")),
        Command::Inspect(arguments) => arguments.report().map(|text| serve::say(&text)),
        Command::Config(ConfigCommand::Check(arguments)) => arguments.check().map_err(|e| e.to_string()),
        Command::Config(ConfigCommand::Print { defaults, arguments }) => {
            arguments.print(defaults).map_err(|e| e.to_string())
        }
        Command::Version => {
            serve::say(concat!("millpond ", env!("CARGO_PKG_VERSION"), "\n"));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("millpond: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}

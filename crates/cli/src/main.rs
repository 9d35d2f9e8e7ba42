//! The `millpond` command: reads its arguments and calls the crate that does the work.
//!
//! It is also where the server gets the protocols that it speaks.

#![forbid(unsafe_code)]

mod agent;
mod bench;
mod orchestrate;
mod signals;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use console::text::{printable, say};
use console::{admin, flags, fleet, inspect, tenant, top};

/// The protocols of clients.
const PROTOCOLS: server::Protocols =
    server::Protocols { memcached: memcached::new_session, resp: resp::new_session };

/// A cache server for memcached and Redis clients, with tools to drive, watch, measure and plan
/// one.
#[derive(Debug, Parser)]
#[command(name = "millpond", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve memcached and Redis clients until stopped by SIGTERM or Ctrl-C.
    ///
    /// Without a configuration the server listens for both kinds of clients on the usual ports of
    /// both, 127.0.0.1:11211 and 127.0.0.1:6379, and for operators on http://127.0.0.1:11212/. A
    /// port that another program uses is skipped, as long as one port for clients is free. SIGHUP
    /// re-reads the configuration, and changes what can change while serving.
    Serve {
        #[command(flatten)]
        arguments: flags::ServeArguments,
        /// Ends with the program that holds the other end of standard input, however that ends.
        #[arg(long, hide = true)]
        until_input_ends: bool,
    },
    /// Show memory move between three tenants of a server under load, and why.
    ///
    /// Starts a server on free ports with three tenants of different appetite, prints the address
    /// of its web page, and each move of memory with its reason, until Ctrl-C.
    Demo(trial::command::demo::DemoArgs),
    /// Drive a cache with load, replay a trace through one, or generate a trace.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Reproduce the papers' figures, and report which criteria hold.
    #[command(subcommand)]
    Experiment(experiments::command::ExperimentCommand),
    /// Compare what each tenant of a file would get under each of several policies, in virtual
    /// time.
    Simulate(simulate::command::SimulateArgs),
    /// Show the miss-ratio curve of a trace: the misses of a cache of any size, the sizes at which
    /// more memory helps, and those at which only much more memory helps.
    Curve(Box<::bench::command::curve::CurveArgs>),
    /// Show what a memcached, Redis or Valkey server would miss with other memory, or have an
    /// orchestrator lead it.
    ///
    /// The server stays as it is: the agent asks it as any client can. docs/agents.md says what
    /// that costs the server.
    Agent(::agent::command::AgentArguments),
    /// Divide the memory of a machine, or of several, between cache servers, by their agents.
    ///
    /// Servers register here if their configuration names this orchestrator
    /// (`fleet.orchestrators`). It learns their miss-ratio curves, and moves memory to where it
    /// saves most misses. If it ends, servers go on with what they have.
    Orchestrate(Box<orchestrator::command::OrchestrateArguments>),
    /// Show what an orchestrator knows, and what it has decided.
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Show the contents of the shared memory of a cache, without disturbing it.
    Inspect(inspect::InspectArguments),
    /// Check and print a configuration; show and change that of a running server.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Watch a running server: requests, hits, latency, memory, tenants, size classes, hot keys,
    /// the effect of more memory.
    Top(top::TopArguments),
    /// Show, make, change and remove the tenants of a running server.
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Ask a running server whether it serves; the exit status is 0 if it does.
    Health(admin::AdminArguments),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder.
    Man {
        /// The folder, which is made if it is missing.
        folder: std::path::PathBuf,
    },
    /// Print the `password_hash` of a [[user]] for a password, which is read from the terminal or
    /// standard input.
    HashPassword,
    /// Print the version.
    Version,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Report all faults of a configuration and what to write instead.
    ///
    /// Files, folders and addresses that it names are checked as `millpond serve` would, as the
    /// calling user; nothing is changed. An address that is in use is a warning, as the running
    /// server may be this one.
    Check(flags::ServeArguments),
    /// Print the effective configuration, as a commented file.
    Print {
        /// Ignore file, environment variables and flags.
        #[arg(long)]
        defaults: bool,
        #[command(flatten)]
        arguments: flags::ServeArguments,
    },
    /// Show the settings of a running server.
    Get {
        /// Only settings whose names contain this text.
        #[arg(default_value = "")]
        part: String,
        #[command(flatten)]
        admin: admin::AdminArguments,
    },
    /// Change settings of a running server.
    Set(admin::SetArguments),
    /// Show the differences between a running server and a configuration.
    Diff(admin::DiffArguments),
}

impl Command {
    /// Returns whether the command opens no connection, so that SIGPIPE may end it quietly when the
    /// reader of its output has exited, as `head` does.
    fn only_prints(&self) -> bool {
        match self {
            Self::Experiment(command) => !command.is_live(),
            Self::Simulate(_) | Self::Curve(_) | Self::Inspect(_) => true,
            Self::Completions { .. } | Self::Man { .. } | Self::HashPassword | Self::Version => true,
            Self::Config(ConfigCommand::Check(_) | ConfigCommand::Print { .. }) => true,
            Self::Bench(command) => command.only_prints(),
            Self::Serve { .. } | Self::Demo(_) | Self::Config(_) | Self::Top(_) => false,
            Self::Tenant(_) | Self::Health(_) => false,
            Self::Agent(_) | Self::Orchestrate(_) | Self::Fleet(_) => false,
        }
    }
}

/// Restores the default action of SIGPIPE, which ends the process, as for other commands. Without
/// it, a closed output would cause an error message or a panic.
fn end_with_reader() {
    let always = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let _ = signal_hook::flag::register_conditional_default(signal_hook::consts::SIGPIPE, always);
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    if command.only_prints() {
        end_with_reader();
    }
    let result: Result<(), String> = match command {
        Command::Serve { arguments, until_input_ends } => serve(&arguments, until_input_ends),
        // Every cause in the chain, on one line.
        Command::Bench(command) => command.execute(),
        Command::Demo(args) => {
            trial::command::demo::execute(&args, &mut std::io::stdout().lock()).map_err(|e| format!("{e:#}"))
        }
        Command::Experiment(command) => experiments::command::execute(&command).map_err(|e| format!("{e:#}")),
        Command::Simulate(arguments) => simulate::command::simulate(&arguments).map_err(|e| format!("{e:#}")),
        Command::Curve(args) => ::bench::command::curve::execute(&args, &mut std::io::stdout().lock())
            .map_err(|e| format!("{e:#}")),
        Command::Agent(arguments) => agent::run(&arguments),
        Command::Orchestrate(arguments) => orchestrate::run(&arguments),
        Command::Fleet(command) => command.execute().map(|text| say(&text)),
        Command::Inspect(arguments) => arguments.report().map(|text| say(&text)),
        Command::Config(ConfigCommand::Check(arguments)) => {
            arguments.check(&server::preflight::all).map_err(|e| e.to_string())
        }
        Command::Config(ConfigCommand::Print { defaults, arguments }) => {
            arguments.print(defaults).map_err(|e| e.to_string())
        }
        Command::Config(ConfigCommand::Get { part, admin }) => admin.get(&part).map(|text| say(&text)),
        Command::Config(ConfigCommand::Set(arguments)) => arguments.set().map(|text| say(&text)),
        Command::Config(ConfigCommand::Diff(arguments)) => arguments.diff().map(|text| say(&text)),
        Command::Top(arguments) => arguments.show(),
        Command::Tenant(command) => command.execute().map(|text| say(&text)),
        Command::Health(admin) => admin.health().map(|text| say(&text)),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "millpond", &mut text);
            say(&String::from_utf8_lossy(&text));
            Ok(())
        }
        Command::Man { folder } => write_manual(&folder).map_err(|e| format!("{}: {e}", folder.display())),
        Command::HashPassword => hash_password(),
        Command::Version => {
            say(concat!("millpond ", env!("CARGO_PKG_VERSION"), "\n"));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("millpond: {}", printable(&error, &['\n', '\t']));
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &flags::ServeArguments, until_input_ends: bool) -> Result<(), String> {
    if until_input_ends {
        signals::stop_at_end_of_input()
            .map_err(|error| format!("standard input cannot be watched: {error}"))?;
    }
    server::run(PROTOCOLS, |survey| arguments.load(survey)).map_err(|e| e.to_string())
}

/// Writes a page for the command and for each of its subcommands.
fn write_manual(folder: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Arguments::command(), folder)
}

/// Reads a password, to the end of its line, so that it appears in no list of processes and no
/// shell's history. On a terminal it is asked for, and not shown.
fn hash_password() -> Result<(), String> {
    let line = read_password().map_err(|error| format!("the password cannot be read: {error}"))?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err("there is no password on standard input".to_owned());
    }
    say(&format!("{}\n", server::hash_password(password.as_bytes())));
    Ok(())
}

fn read_password() -> std::io::Result<String> {
    let (stdin, mut line) = (std::io::stdin(), String::new());
    let shown = rustix::termios::tcgetattr(&stdin).ok();
    if let Some(shown) = &shown {
        let mut hidden = shown.clone();
        hidden.local_modes.remove(rustix::termios::LocalModes::ECHO);
        eprint!("Password: ");
        rustix::termios::tcsetattr(&stdin, rustix::termios::OptionalActions::Flush, &hidden)?;
    }
    let read = stdin.read_line(&mut line);
    if let Some(shown) = &shown {
        rustix::termios::tcsetattr(&stdin, rustix::termios::OptionalActions::Flush, shown)?;
        eprintln!();
    }
    read.map(|_| line)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}

//! `millpond serve` over a cache that answers late: nearly every request of a client finds its item
//! beneath memory, and waits. Other commands are those of the program that `MILLPOND_REAL` names.

#![forbid(unsafe_code)]

#[path = "../../../../crates/server/tests/support/late.rs"]
#[expect(dead_code, reason = "the tests of the server use more of it")]
mod late;

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::{Parser, Subcommand};
use console::flags::ServeArguments;

const PROTOCOLS: server::Protocols =
    server::Protocols { memcached: memcached::new_session, resp: resp::new_session };

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Serve,
}

#[derive(Debug, Subcommand)]
enum Serve {
    Serve(ServeArguments),
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some("serve") {
        let real = std::env::var_os("MILLPOND_REAL").expect("MILLPOND_REAL names the program");
        let error = Command::new(real).args(std::env::args_os().skip(1)).exec();
        eprintln!("millpond-late: {error}");
        return ExitCode::FAILURE;
    }
    let Serve::Serve(arguments) = Arguments::parse().command;
    let late = Arc::new(late::Late::default());
    let beneath = Arc::clone(&late) as Arc<dyn millpond::secondary::SecondaryCache>;
    let begin = |cache: &millpond::Cache| late.serve(&cache.downgrade());
    match server::run_over(PROTOCOLS, beneath, begin, |survey| arguments.load(survey)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

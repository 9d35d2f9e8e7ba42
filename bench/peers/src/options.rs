//! The arguments of the command.

use std::path::PathBuf;

use base::ByteSize;
use clap::{Parser, ValueEnum};

use crate::contestant::Name;

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// Throughput of caches in process.
    Embedded,
    /// The same for values of 64 B to 4 KiB, Zipf of 0.6 to 1.2, and 1 to 16 threads: hundreds of
    /// cells.
    Matrix,
    /// Hit ratios of caches in process.
    Hits,
    /// Memory per item, and items held per GiB.
    Memory,
    /// Servers on loopback.
    Servers,
    /// Memory latency of this machine.
    Limits,
}

/// The same workload against Millpond and its peers, as ratios from one run.
#[derive(Debug, Parser)]
#[command(name = "peers")]
struct Arguments {
    /// Short turns, few rounds, small caches: a look, not a figure to quote.
    #[arg(long)]
    quick: bool,
    /// The parts to run.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "SECTION",
        default_value = "limits,embedded,hits,memory,servers"
    )]
    only: Vec<Section>,
    /// Number of rounds, in which each is measured in turn. Default 5, or 3 with --quick.
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<usize>,
    /// Memory of each cache in process. Default 1GiB, or 128MiB with --quick.
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Lengths of values in process, in bytes.
    #[arg(long, value_delimiter = ',', default_value = "100,1024", value_name = "BYTES")]
    values: Vec<usize>,
    /// Lengths of values on servers, in bytes.
    #[arg(long, value_delimiter = ',', default_value = "100,4096", value_name = "BYTES")]
    server_values: Vec<usize>,
    /// Caches in process.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "millpond,quick_cache,moka,foyer",
        value_name = "NAME"
    )]
    contestants: Vec<Name>,
    /// Servers whose name contains one of these. Default all.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    servers: Vec<String>,
    /// Milliseconds to wait, before each measurement, for others to leave the processors. Default
    /// 2000, or 0 with --quick.
    #[arg(long, value_name = "MS")]
    patience_ms: Option<u64>,
    /// The `millpond` program. Default: it is built from this repository.
    #[arg(long, value_name = "FILE")]
    millpond: Option<PathBuf>,
    /// Write all figures as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Play this contestant on behalf of a parent process.
    #[arg(long, hide = true)]
    play: Option<Name>,
    /// Echo on this port on behalf of a parent process.
    #[arg(long, hide = true)]
    echo: Option<u16>,
}

/// The same with all defaults filled in.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) only: Vec<Section>,
    pub(crate) rounds: usize,
    /// Memory of each cache in process whose throughput is measured.
    pub(crate) memory: ByteSize,
    /// Memory of each cache whose hit ratio is measured.
    pub(crate) hit_memory: ByteSize,
    /// Memory for comparing items held.
    pub(crate) held_memory: ByteSize,
    /// Items of the large fill.
    pub(crate) fill_items: u64,
    pub(crate) values: Vec<usize>,
    pub(crate) server_values: Vec<usize>,
    pub(crate) contestants: Vec<Name>,
    pub(crate) servers: Vec<String>,
    /// Duration of one turn in process, in milliseconds.
    pub(crate) turn_ms: u64,
    /// Duration of one turn of a server, in milliseconds.
    pub(crate) server_turn_ms: u64,
    pub(crate) patience_ms: u64,
    pub(crate) millpond: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) play: Option<Name>,
    pub(crate) echo: Option<u16>,
}

impl Options {
    /// Reads the command line; ends the process where it makes no sense.
    pub(crate) fn read() -> Self {
        Self::fill_in(Arguments::parse())
    }

    fn fill_in(arguments: Arguments) -> Self {
        let quick = arguments.quick;
        let pick = |full: u64, short: u64| if quick { short } else { full };
        let memory = arguments.memory.unwrap_or(ByteSize::mib(pick(1024, 128)));
        Self {
            quick,
            only: arguments.only,
            rounds: arguments.rounds.unwrap_or(pick(5, 3) as usize).max(1),
            memory,
            hit_memory: ByteSize::mib(pick(256, 32)),
            held_memory: ByteSize::mib(pick(1024, 128)),
            fill_items: pick(20_000_000, 1_000_000),
            values: arguments.values,
            server_values: arguments.server_values,
            contestants: arguments.contestants,
            servers: arguments.servers,
            turn_ms: pick(500, 100),
            server_turn_ms: pick(700, 250),
            patience_ms: arguments.patience_ms.unwrap_or(pick(2_000, 0)),
            millpond: arguments.millpond,
            json: arguments.json,
            play: arguments.play,
            echo: arguments.echo,
        }
    }

    /// Returns whether a section is wanted.
    pub(crate) fn has(&self, section: Section) -> bool {
        self.only.contains(&section)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
        let options = Options::fill_in(Arguments::parse_from(["peers", "--quick", "--only", "hits"]));
        assert!(options.has(Section::Hits) && !options.has(Section::Servers));
        assert_eq!(options.memory, ByteSize::mib(128));
    }
}

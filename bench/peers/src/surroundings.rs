//! The circumstances that are printed beside every figure: the command, the commit, the machine.

use std::process::Command;

use bench::machine::{Machine, WakeFast};
use serde::Serialize;

use crate::machine::load_average;

/// The circumstances of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Surroundings {
    command: String,
    commit: String,
    machine: Machine,
    memory: String,
    transparent_huge_pages: String,
    load_average: String,
    peers: Vec<String>,
}

/// Finds out what to know of this run, and prints it.
pub(crate) fn print(wake: &WakeFast) -> Surroundings {
    let here = Surroundings {
        command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        commit: commit(),
        machine: Machine::here(wake, None),
        memory: line_of("/proc/meminfo", "MemTotal:"),
        transparent_huge_pages: line_of("/sys/kernel/mm/transparent_hugepage/enabled", ""),
        load_average: load_average(),
        peers: versions(),
    };
    println!("# Millpond and its peers\n");
    println!("- command: `cargo run --release --manifest-path bench/peers/Cargo.toml -- {}`", here.command);
    println!("- commit: {}", here.commit);
    println!(
        "- machine: {} x {}, {} of memory, Linux {}",
        here.machine.cpus, here.machine.cpu_model, here.memory, here.machine.kernel
    );
    println!(
        "- processors kept awake (/dev/cpu_dma_latency at 0): {}; transparent huge pages: {}",
        if here.machine.wakes_fast { "yes" } else { "no" },
        here.transparent_huge_pages
    );
    println!("- peers: {}", here.peers.join(", "));
    println!("- load average at the start: {}", here.load_average);
    here
}

/// The commit of the repository, with a mark where files differ from it.
fn commit() -> String {
    let ask = |arguments: &[&str]| {
        let output = Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR")]).args(arguments).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let changed = ask(&["status", "--porcelain", "--", "../../crates"]);
    let commit = ask(&["rev-parse", "--short=12", "HEAD"]);
    if changed.is_empty() { commit } else { format!("{commit} with changes in crates/") }
}

/// The rest of the first line of a file that begins with `start`.
fn line_of(path: &str, start: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or("unknown").trim().to_owned()
}

/// Versions of the peers, from the lock file and from the servers themselves.
fn versions() -> Vec<String> {
    let lock = include_str!("../Cargo.lock");
    let mut versions: Vec<String> = ["quick_cache", "moka", "foyer-memory"]
        .into_iter()
        .filter_map(|name| {
            let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
            Some(format!("{name} {}", rest.split('"').next()?))
        })
        .collect();
    for (program, argument) in [("memcached", "-V"), ("redis-server", "-v")] {
        let output = Command::new(program).arg(argument).output();
        if let Ok(output) = output {
            let text = String::from_utf8_lossy(&output.stdout);
            let version =
                text.split_ascii_whitespace().find(|word| word.contains(|c: char| c.is_ascii_digit()));
            versions.push(format!("{program} {}", version.unwrap_or("?").trim_start_matches("v=")));
        }
    }
    versions
}

//! Servers on loopback: `millpond serve`, memcached and Redis under one load generator.
//!
//! All servers of a group run from the start and are filled with the same keys. Those that do not
//! have their turn are stopped by a signal. Server and load are pinned alike for all: either to one
//! processor each, or both to all.

pub(crate) mod client;
pub(crate) mod echo;
pub(crate) mod server;
pub(crate) mod stream;
pub(crate) mod wire;

mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::keys::{Spread, order};
use crate::machine::{Patience, Watch, load_average};
use crate::options::Options;
use crate::report::{Middle, ratio};
use client::{Load, fill};
use server::{Aim, Kind, Server};
use wire::Wire;

/// Keys that servers are filled with, for values of 100 B; fewer for larger ones.
const KEYS: u32 = 1_000_000;
/// Requests that are sent at a time.
const PIPELINES: [usize; 3] = [1, 16, 64];
/// Connections.
const CONNECTIONS: [usize; 2] = [1, 50];
/// Memory of each server, in MiB.
const MEMORY_MIB: u64 = 1_024;

/// The placement of servers and load on processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Placement {
    /// The server on one processor, the load on another.
    Apart,
    /// Both on both processors, with a thread for each.
    Together,
}

impl Placement {
    fn server_cpus(self) -> &'static str {
        if self == Self::Apart { "0" } else { "0,1" }
    }

    fn client_cpus(self) -> &'static [usize] {
        if self == Self::Apart { &[1] } else { &[0, 1] }
    }

    /// The servers, each in its best configuration for the placement's number of processors.
    fn kinds(self, tls: bool) -> Vec<Kind> {
        let threads = if self == Self::Apart { 1 } else { 2 };
        let millpond = |wire| Kind::Millpond { threads, busy_poll_micros: 0, wire, tls };
        let mut kinds = vec![millpond(Wire::Memcached), millpond(Wire::Redis)];
        for set_for in [Aim::Defaults, Aim::Speed] {
            kinds.push(Kind::Memcached { threads, set_for, tls });
            kinds.push(Kind::Redis { io_threads: 1, set_for, tls });
        }
        if threads > 1 {
            kinds.push(Kind::Redis { io_threads: threads, set_for: Aim::Speed, tls });
        } else if !tls {
            kinds.push(Kind::Echo);
        }
        kinds
    }
}

/// One way to load a server.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Shape {
    pub(crate) placement: Placement,
    pub(crate) tls: bool,
    pub(crate) value_len: usize,
    pub(crate) writes_of_ten: usize,
    pub(crate) pipeline: usize,
    pub(crate) connections: usize,
}

impl Shape {
    /// The most bytes of values that one batch writes.
    pub(crate) fn batch_bytes(self) -> usize {
        (self.pipeline * self.writes_of_ten).div_ceil(10) * self.value_len
    }
}

/// All servers under one shape of load.
#[derive(Debug, Serialize)]
pub(crate) struct Scenario {
    pub(crate) shape: Shape,
    load_average: String,
    pub(crate) rows: Vec<Row>,
}

/// One server under one shape of load.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Thousands of requests per second.
    pub(crate) kops: Middle,
    pub(crate) p50_us: Middle,
    pub(crate) p99_us: Middle,
    /// Processor time of the server for a request, in microseconds.
    pub(crate) server_us: Middle,
    /// Millpond's throughput in the same protocol over this one's, round by round; `None` for
    /// Millpond.
    pub(crate) throughput_ratio: Option<Middle>,
    /// Millpond's p99 over this one's, round by round.
    pub(crate) p99_ratio: Option<Middle>,
    /// The share of reads that found nothing: 0 unless something is wrong.
    pub(crate) miss_ratio: f64,
    pub(crate) foreign: Middle,
}

/// One turn of one server.
struct Turn {
    kops: f64,
    p50_us: f64,
    p99_us: f64,
    server_us: f64,
    miss_ratio: f64,
    foreign: f64,
}

/// Measures all servers in all shapes, and prints tables. What was measured is added to `scenarios`
/// at once.
pub(crate) fn servers(options: &Options, scenarios: &mut Vec<Scenario>) -> Result<()> {
    let millpond = program(options)?;
    for (placement, tls) in
        [(Placement::Apart, false), (Placement::Together, false), (Placement::Apart, true)]
    {
        for value_len in &options.server_values {
            let first = scenarios.len();
            group(options, &millpond, (placement, tls), *value_len, scenarios)?;
            table::print(&scenarios[first..]);
        }
    }
    Ok(())
}

/// The `millpond` program: the one that was named, or the repository's, built now.
pub(crate) fn program(options: &Options) -> Result<PathBuf> {
    if let Some(path) = &options.millpond {
        return path.canonicalize().with_context(|| format!("finding {}", path.display()));
    }
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let output = Command::new("cargo")
        .args([
            "build",
            "--release",
            "--bin",
            "millpond",
            "--message-format",
            "json",
            "--manifest-path",
            manifest,
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    if !output.status.success() {
        bail!("building the `millpond` program failed");
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
        .next_back()
        .context("cargo named no program")
}

/// Starts and fills all servers of a placement, and measures them in all shapes.
fn group(
    options: &Options,
    millpond: &Path,
    (placement, tls): (Placement, bool),
    value_len: usize,
    scenarios: &mut Vec<Scenario>,
) -> Result<()> {
    let wanted = |kind: &Kind| {
        options.servers.is_empty() || options.servers.iter().any(|part| kind.name().contains(part.as_str()))
    };
    let keys = (u64::from(KEYS) * 100 / value_len.max(100) as u64).max(10_000) as u32;
    let value = vec![b'x'; value_len];
    let mut servers = Vec::new();
    for kind in placement.kinds(tls).into_iter().filter(wanted) {
        let server = Server::start(kind, millpond, MEMORY_MIB, placement.server_cpus())?;
        if kind != Kind::Echo {
            fill(kind.wire(), server.target(), 0, keys.into(), &value)?;
        }
        println!("- {}: `{}`", kind.name(), server.command());
        server.pause()?;
        servers.push(server);
    }
    println!();
    if servers.is_empty() {
        return Ok(());
    }
    let order = order(Spread::Uniform, keys, 1_000_000, 5);
    let mut patience = Patience::new(options.patience_ms);
    for writes_of_ten in [0, 1] {
        for pipeline in PIPELINES {
            for connections in CONNECTIONS {
                let shape = Shape { placement, tls, value_len, writes_of_ten, pipeline, connections };
                if placement == Placement::Together && connections < 2 {
                    continue;
                }
                scenarios.push(scenario(options, &servers, shape, &order, &value, &mut patience)?);
            }
        }
    }
    Ok(())
}

/// Measures all servers in turn, round by round, but those that would wait for ever.
fn scenario(
    options: &Options,
    servers: &[Server],
    shape: Shape,
    order: &[u32],
    value: &[u8],
    patience: &mut Patience,
) -> Result<Scenario> {
    let servers: Vec<&Server> = servers.iter().filter(|server| server.kind().takes(shape)).collect();
    let mut turns: Vec<Vec<Turn>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        for step in 0..servers.len() {
            let i = (round + step) % servers.len();
            patience.wait();
            servers[i].resume()?;
            let turn = turn(options, servers[i], shape, order, value);
            servers[i].pause()?;
            turns[i].push(turn.with_context(|| format!("{} under {shape:?}", servers[i].kind().name()))?);
        }
    }
    let series = |i: usize, pick: fn(&Turn) -> f64| turns[i].iter().map(pick).collect::<Vec<f64>>();
    let rows = servers.iter().enumerate().map(|(i, server)| {
        let own = |pick| Middle::of(series(i, pick));
        let over = |pick| {
            let ours = servers.iter().position(|ours| ours.kind().answers_to(server.kind()))?;
            Some(ratio(&series(ours, pick), &series(i, pick)))
        };
        Row {
            name: server.kind().name(),
            kops: own(|turn| turn.kops),
            p50_us: own(|turn| turn.p50_us),
            p99_us: own(|turn| turn.p99_us),
            server_us: own(|turn| turn.server_us),
            throughput_ratio: over(|turn| turn.kops),
            p99_ratio: over(|turn| turn.p99_us),
            miss_ratio: own(|turn| turn.miss_ratio).max,
            foreign: own(|turn| turn.foreign),
        }
    });
    Ok(Scenario { shape, rows: rows.collect(), load_average: load_average() })
}

/// One turn of one server.
fn turn(options: &Options, server: &Server, shape: Shape, order: &[u32], value: &[u8]) -> Result<Turn> {
    let load = Load {
        wire: server.kind().wire(),
        target: server.target(),
        connections: shape.connections,
        pipeline: shape.pipeline,
        writes_of_ten: shape.writes_of_ten,
        order,
        value,
        cpus: shape.placement.client_cpus(),
        warm_up_ms: options.server_turn_ms / 5,
        measured_ms: options.server_turn_ms,
    };
    let watch = Watch::start(&[server.pid()]);
    let tally = load.run()?;
    let usage = watch.stop();
    let measured_secs = options.server_turn_ms as f64 / 1e3;
    // The server's processor time covers the warm-up too.
    let share = options.server_turn_ms as f64 / (load.warm_up_ms + load.measured_ms) as f64;
    let replies = tally.replies.max(1) as f64;
    Ok(Turn {
        kops: tally.replies as f64 / measured_secs / 1e3,
        p50_us: tally.latencies.at(0.5) as f64 / 1e3,
        p99_us: tally.latencies.at(0.99) as f64 / 1e3,
        server_us: usage.first_secs * share * 1e6 / replies,
        miss_ratio: tally.misses as f64 / replies,
        foreign: usage.foreign,
    })
}

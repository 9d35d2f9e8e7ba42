//! The report of a run: text for people, JSON for tools.

use std::fmt;

use serde::Serialize;
use workload::histogram::LatencySummary;
use workload::{OpKind, Workload};

use super::{Measured, RunOptions};
use crate::machine::Machine;
use crate::targets::Holdings;

/// The figures of a run. Every rate is per second, every latency in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// The target of the run.
    pub target: String,
    /// The workload in words.
    pub workload: String,
    /// The seed of the run.
    pub seed: u64,
    /// Threads of the bench.
    pub threads: usize,
    /// Connections, of a server.
    pub connections: usize,
    /// Requests in flight per connection, or reads per batch.
    pub pipeline: usize,
    /// Reads in one request.
    pub multi_get: usize,
    /// Operations per second that were due, in open loop.
    pub rate_wanted: Option<f64>,
    /// The time of the slowest thread.
    pub seconds: f64,
    /// Operations done, without what look-aside misses wrote.
    pub operations: u64,
    /// Operations per second: the sum over threads, each over its own time.
    pub operations_per_second: f64,
    /// Reads that found a value.
    pub hits: u64,
    /// Hits among reads; none where nothing was read.
    pub hit_ratio: Option<f64>,
    /// The reads of each pool.
    pub pools: Vec<PoolReport>,
    /// Writes that followed a look-aside miss.
    pub fills: u64,
    /// Removals and touches of keys that were not there.
    pub not_found: u64,
    /// Requests that the target refused.
    pub refused: u64,
    /// The target's words for its first refusal.
    pub first_refusal: Option<String>,
    /// Reads that found a value that is not the one of their key: the target is broken.
    pub wrong_values: u64,
    /// Bytes of values that were read.
    pub bytes_read: u64,
    /// Bytes of values that were written.
    pub bytes_written: u64,
    /// Counts and latencies by kind of operation; kinds that did not occur are left out.
    pub kinds: Vec<KindReport>,
    /// The bench's own cost of an operation; only for embedded caches, where it is a part of every
    /// figure.
    pub bench_ns_per_operation: Option<f64>,
    /// The contents of the cache at the end, if the target reports them.
    pub holdings: Option<Holdings>,
    /// The machine.
    pub machine: Machine,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The reads of one pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolReport {
    /// The pool's name.
    pub name: String,
    /// Reads.
    pub gets: u64,
    /// Reads that found a value.
    pub hits: u64,
    /// Hits among reads; none where nothing was read.
    pub hit_ratio: Option<f64>,
    /// Writes that followed a look-aside miss.
    pub fills: u64,
}

/// Figures of one kind of operation.
#[derive(Clone, Debug, Serialize)]
pub struct KindReport {
    /// The kind.
    pub kind: &'static str,
    /// Number of operations done.
    pub operations: u64,
    /// Their latencies.
    pub latency: Option<LatencySummary>,
}

impl RunReport {
    pub(crate) fn new(target: String, workload: &Workload, options: &RunOptions, measured: Measured) -> Self {
        let Measured { tally, rate, machine } = measured;
        let gets = tally.done[OpKind::Get as usize];
        let mut notes: Vec<String> = workload.notes().to_vec();
        notes.extend(machine.caution().map(str::to_owned));
        let kinds =
            OpKind::ALL.iter().filter(|kind| tally.done[**kind as usize] > 0).map(|kind| KindReport {
                kind: kind.name(),
                operations: tally.done[*kind as usize],
                latency: tally.latencies[*kind as usize].summary(),
            });
        let pool = |(i, pool): (usize, &workload::Pool)| {
            let counts = tally.pools.get(i).copied().unwrap_or_default();
            PoolReport {
                name: pool.name().to_owned(),
                gets: counts.gets,
                hits: counts.hits,
                hit_ratio: (counts.gets > 0).then(|| counts.hits as f64 / counts.gets as f64),
                fills: counts.fills,
            }
        };
        let pools = workload.pools().iter().enumerate().map(pool).collect();
        Self {
            target,
            workload: workload.description().to_owned(),
            seed: options.seed,
            threads: options.threads,
            connections: options.connections.max(options.threads),
            pipeline: options.pipeline,
            multi_get: options.multi_get,
            rate_wanted: options.rate,
            seconds: tally.nanos as f64 / 1e9,
            operations: tally.operations(),
            operations_per_second: rate,
            hits: tally.hits,
            hit_ratio: (gets > 0).then(|| tally.hits as f64 / gets as f64),
            pools,
            fills: tally.fills,
            not_found: tally.not_found,
            refused: tally.refused,
            first_refusal: tally.first_refusal.clone(),
            wrong_values: tally.wrong_values,
            bytes_read: tally.bytes_read,
            bytes_written: tally.bytes_written,
            kinds: kinds.collect(),
            bench_ns_per_operation: None,
            holdings: None,
            machine,
            notes,
        }
    }
}

impl RunReport {
    /// Hit ratios, of all pools together and of each.
    fn reads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ratio) = self.hit_ratio {
            writeln!(f, "hit ratio    {ratio:.5} ({} hits, {} filled after a miss)", self.hits, self.fills)?;
        }
        for pool in self.pools.iter().filter(|_| self.pools.len() > 1) {
            if let Some(ratio) = pool.hit_ratio {
                writeln!(
                    f,
                    "  {:<10} {ratio:.5} ({} of {} reads, {} filled after a miss)",
                    pool.name, pool.hits, pool.gets, pool.fills
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "target       {}", self.target)?;
        writeln!(f, "workload     {}", self.workload)?;
        let mode = match self.rate_wanted {
            Some(rate) => format!("open loop at {rate} operations/s, latency from the due time"),
            None => "closed loop".into(),
        };
        writeln!(
            f,
            "load         {} threads, {} connections, pipeline {}, {} keys per read, seed {}, {mode}",
            self.threads, self.connections, self.pipeline, self.multi_get, self.seed
        )?;
        writeln!(f, "measured     {} operations in {:.3} s", self.operations, self.seconds)?;
        write!(f, "throughput   {:.0} operations/s", self.operations_per_second)?;
        if let Some(cost) = self.bench_ns_per_operation {
            write!(f, " (of each operation, the bench itself takes {cost:.0} ns)")?;
        }
        writeln!(f)?;
        self.reads(f)?;
        for kind in &self.kinds {
            if let Some(latency) = &kind.latency {
                writeln!(
                    f,
                    "{:<12} {} done, {} timed: {latency}",
                    kind.kind, kind.operations, latency.count
                )?;
            }
        }
        if let Some(held) = &self.holdings {
            writeln!(
                f,
                "held         {} items in {}, {} evictions",
                held.items,
                base::ByteSize::new(held.memory_bytes),
                held.evictions
            )?;
        }
        if self.refused > 0 {
            let reason = self.first_refusal.as_deref().unwrap_or("no reason given");
            writeln!(f, "refused      {} ({reason})", self.refused)?;
        }
        if self.wrong_values > 0 {
            writeln!(f, "WRONG VALUES {}: the target returned values of other keys", self.wrong_values)?;
        }
        let machine = &self.machine;
        let pinned = match &machine.pinned_to {
            Some(cpus) => format!("pinned to {cpus:?}"),
            None => "not pinned".into(),
        };
        writeln!(
            f,
            "machine      {} x {}, Linux {}, {pinned}, deep sleep {}",
            machine.cpus,
            machine.cpu_model,
            machine.kernel,
            if machine.wakes_fast { "off" } else { "allowed" }
        )?;
        for note in &self.notes {
            writeln!(f, "note         {note}")?;
        }
        Ok(())
    }
}

//! The victim: a tenant with a steady load, each of whose values is known, so that a wrong or
//! missing one is noticed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use base::ByteSize;
use workload::length::Length;
use workload::{Mix, Popularity, Sizes, Workload, WorkloadSpec};

use bench::run::{RunOptions, RunReport, run_wire};
use bench::targets::Address;
use bench::targets::memcached::Memcached;

/// Ratio of the tenant's limit to the bytes of its values: they fit three times over, so that
/// nothing ever has to be evicted.
const ROOM: u64 = 3;
/// Small values mostly, and some that are sent from where they lie.
const VALUE_SIZES: &str = "64:60,1KiB:35,16KiB:5";
const CONNECTIONS: usize = 16;

/// The victim's keys, and how they are asked for.
pub(super) struct Victim {
    address: Address,
    steady: Arc<Workload>,
    /// Every key once.
    all: Arc<Workload>,
    keys: u64,
    options: RunOptions,
}

/// The victim's measurements in one period.
pub(super) struct Seen {
    /// Of reads, in microseconds.
    pub(super) p99_us: f64,
    /// The faults that were found.
    pub(super) faults: Vec<String>,
}

impl Victim {
    /// A victim that may have `limit` bytes, and asks `rate` times a second, from the processors
    /// `cpus`.
    pub(super) fn new(
        address: SocketAddr,
        limit: ByteSize,
        rate: f64,
        seed: u64,
        cpus: &[usize],
    ) -> Result<Self> {
        let value_size: Sizes = VALUE_SIZES.parse()?;
        let keys = (limit.as_u64() / ROOM / value_size.mean() as u64).max(1);
        let spec = WorkloadSpec {
            keys,
            value_size,
            mix: Mix { get: 95.0, set: 5.0, ..Mix::default() },
            ..WorkloadSpec::default()
        };
        let all = WorkloadSpec {
            popularity: Popularity::Scan,
            mix: Mix { get: 1.0, ..Mix::default() },
            ..spec.clone()
        };
        let options = RunOptions {
            connections: CONNECTIONS,
            rate: Some(rate),
            load: Some(false),
            seed,
            pin: Some(cpus.to_vec()),
            ..RunOptions::default()
        };
        Ok(Self {
            address: Address::Tcp(address.to_string()),
            // The same seed: a key's value has the same size in both.
            steady: Arc::new(Workload::new(&spec, seed)?),
            all: Arc::new(Workload::new(&all, seed)?),
            keys,
            options,
        })
    }

    /// Writes every key.
    pub(super) fn load(&self) -> Result<()> {
        let options = RunOptions {
            load: Some(true),
            rate: None,
            length: Length::Operations(1),
            ..self.options.clone()
        };
        self.drive(&self.all, &options).context("writing the victim's keys").map(|_| ())
    }

    /// Sends requests at the victim's rate for `time`.
    pub(super) fn measure(&self, time: Duration) -> Seen {
        let options = RunOptions { length: Length::Time(time), ..self.options.clone() };
        match self.drive(&self.steady, &options) {
            Ok(report) => {
                let reads = report.kinds.iter().find(|kind| kind.kind == "get");
                let latency = reads.and_then(|kind| kind.latency.as_ref());
                let p99_us = latency.map_or(f64::NAN, |latency| latency.p99_us);
                Seen { p99_us, faults: faults(&report) }
            }
            Err(error) => Seen { p99_us: f64::NAN, faults: vec![format!("{error:#}")] },
        }
    }

    /// Asks for every key, and returns what is not as it should be.
    pub(super) fn look(&self) -> Vec<String> {
        let options = RunOptions {
            rate: None,
            pipeline: 16,
            length: Length::Operations(self.keys),
            ..self.options.clone()
        };
        match self.drive(&self.all, &options) {
            Ok(report) => faults(&report),
            Err(error) => vec![format!("{error:#}")],
        }
    }

    fn drive(&self, workload: &Arc<Workload>, options: &RunOptions) -> Result<RunReport> {
        run_wire(Memcached, &self.address, "the victim", workload, options)
    }
}

/// Lists the faults of a run in which every read should have found its value.
fn faults(report: &RunReport) -> Vec<String> {
    let reads: u64 = report.pools.iter().map(|pool| pool.gets).sum();
    let mut faults = Vec::new();
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            faults.push(format!("{count} {what}"));
        }
    };
    note(report.wrong_values, "wrong values");
    note(reads.saturating_sub(report.hits + report.wrong_values), "reads of keys that are gone");
    let reason = report.first_refusal.as_deref().unwrap_or("no reason given");
    note(report.refused, &format!("refusals, the first: {reason}"));
    faults
}

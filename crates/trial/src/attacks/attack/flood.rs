//! A neighbour that does what clients do, and more than anybody could bear.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bench::run::{RunOptions, RunReport, run_wire};
use bench::targets::Address;
use bench::targets::memcached::Memcached;
use workload::length::Length;
use workload::{Mix, Popularity, Workload, WorkloadSpec};

use super::Scene;

const KEYS: u64 = 20_000;
const LEAST_TIME: Duration = Duration::from_millis(10);

/// Writes what is to be read.
pub(super) fn prepare_reads(scene: &Scene) -> Result<()> {
    let options = RunOptions { load: Some(true), length: Length::Operations(1), ..RunOptions::default() };
    drive(scene, &reading(), &options).map(|_| ())
}

/// Reads over many connections, with many requests in flight on each.
pub(super) fn reads(scene: &Scene) -> Result<u64> {
    flood(scene, &reading(), &RunOptions { connections: 64, pipeline: 128, ..RunOptions::default() })
}

/// Writes large values, more than there is room for.
pub(super) fn writes(scene: &Scene) -> Result<u64> {
    let mean = 250 << 10;
    let spec = WorkloadSpec {
        keys: scene.limit.as_u64() * 4 / mean,
        popularity: Popularity::Uniform,
        value_size: "1KiB-500KiB".parse()?,
        mix: Mix { set: 1.0, ..Mix::default() },
        ..WorkloadSpec::default()
    };
    flood(scene, &spec, &RunOptions { connections: 32, pipeline: 4, ..RunOptions::default() })
}

fn reading() -> WorkloadSpec {
    WorkloadSpec { keys: KEYS, mix: Mix { get: 1.0, ..Mix::default() }, ..WorkloadSpec::default() }
}

/// Drives the workload for the time of the attack.
fn flood(scene: &Scene, spec: &WorkloadSpec, options: &RunOptions) -> Result<u64> {
    let mut done = 0;
    while !scene.is_over(done) {
        let time = Duration::from_nanos(scene.left_nanos()).max(LEAST_TIME);
        let length = Length::Time(time);
        let options = RunOptions { load: Some(false), length, seed: scene.seed, ..options.clone() };
        done += drive(scene, spec, &options)?.operations;
    }
    Ok(done)
}

fn drive(scene: &Scene, spec: &WorkloadSpec, options: &RunOptions) -> Result<RunReport> {
    let workload = Arc::new(Workload::new(spec, 1)?);
    run_wire(Memcached, &Address::Tcp(scene.neighbour.to_string()), "the neighbour", &workload, options)
}

//! Samples of the resources of the server's process, and the test whether they grow.

use anyhow::Result;
use serde::Serialize;

use crate::served::Served;

/// Time after a start in which the resources of a process aren't checked, in seconds; at most a
/// third of the process's lifetime.
const WARM_UP_SECS: f64 = 60.0;
/// Growth that is allowed: the size of one more connection's buffers or of a larger index.
const SPARE_BYTES: f64 = 4.0 * 1024.0 * 1024.0;
const SPARE_SHARE: f64 = 0.1;
/// A shorter run says nothing, in seconds.
const LEAST_SECS: f64 = 300.0;

/// The process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Since the start of the run.
    pub at_secs: f64,
    /// Number of the process, from 0.
    pub life: u64,
    /// Since the start of the process.
    pub age_secs: f64,
    /// Resident memory that is not shared: everything but the items.
    pub resident_bytes: u64,
    /// Resident shared memory: the items.
    pub shared_bytes: u64,
    /// Open descriptors.
    pub open_files: u64,
    /// Threads.
    pub threads: u64,
    /// Connections.
    pub connections: u64,
    /// Calls of all clients a second, since the sample before.
    pub operations_per_sec: f64,
    /// The 99th percentile of the latency of calls since the sample before, in microseconds.
    pub p99_us: f64,
}

impl Sample {
    /// Looks at the process. What clients know is filled in by who knows it.
    ///
    /// # Errors
    /// Where the process is gone or does not answer.
    pub(super) fn take(served: &Served) -> Result<Self> {
        let shared_bytes = served.shared_bytes()?;
        Ok(Self {
            at_secs: 0.0,
            life: 0,
            age_secs: 0.0,
            resident_bytes: served.resident_bytes()?.saturating_sub(shared_bytes),
            shared_bytes,
            open_files: served.open_files()?,
            threads: served.threads()?,
            connections: served.stats()?["connections"].as_u64().unwrap_or(0),
            operations_per_sec: 0.0,
            p99_us: 0.0,
        })
    }
}

/// The trend of the resident memory, without shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flatness {
    /// Samples that were checked: all but those of each process's first minute.
    pub samples: usize,
    /// The most in the first quarter of them.
    pub first_max_bytes: u64,
    /// The most in the last quarter.
    pub last_max_bytes: u64,
    /// By how much it grows in an hour: the least-squares slope over the second half of the run,
    /// each process around its own mean.
    pub slope_bytes_per_hour: f64,
    /// The growth at that slope over the longest lifetime of a process in that half.
    pub growth_bytes: f64,
    /// True if the memory is flat: neither does growth exceed a tenth and 4 MiB, nor the last most
    /// the first by as much. `None` if the run is too short.
    pub is_flat: Option<bool>,
}

impl Flatness {
    pub(super) fn of(samples: &[Sample]) -> Self {
        let mut lengths: Vec<f64> = Vec::new();
        for sample in samples {
            lengths.resize(lengths.len().max(sample.life as usize + 1), 0.0);
            let length = &mut lengths[sample.life as usize];
            *length = length.max(sample.age_secs);
        }
        let warm =
            |sample: &&Sample| sample.age_secs >= WARM_UP_SECS.min(lengths[sample.life as usize] / 3.0);
        let judged: Vec<&Sample> = samples.iter().filter(warm).collect();
        let most = |part: &[&Sample]| part.iter().map(|sample| sample.resident_bytes).max().unwrap_or(0);
        let quarter = judged.len().div_ceil(4);
        let first_max_bytes = most(&judged[..quarter]);
        let last_max_bytes = most(&judged[judged.len() - quarter..]);
        let length = samples.last().map_or(0.0, |last| last.at_secs);
        let half = length / 2.0;
        let second: Vec<&Sample> = judged.iter().copied().filter(|sample| sample.at_secs >= half).collect();
        let (slope, longest) = pooled_slope(&second);
        let growth_bytes = slope * longest;
        let spare = first_max_bytes as f64 * SPARE_SHARE + SPARE_BYTES;
        let is_flat = growth_bytes <= spare && last_max_bytes as f64 <= first_max_bytes as f64 + spare;
        Self {
            samples: judged.len(),
            first_max_bytes,
            last_max_bytes,
            slope_bytes_per_hour: slope * 3600.0,
            growth_bytes,
            is_flat: (length >= LEAST_SECS).then_some(is_flat),
        }
    }
}

/// The slope that all lives have in common, in bytes a second, and the longest of them in seconds.
fn pooled_slope(samples: &[&Sample]) -> (f64, f64) {
    let (mut products, mut squares, mut longest) = (0.0, 0.0, 0.0_f64);
    for life in samples.chunk_by(|a, b| a.life == b.life) {
        let count = life.len() as f64;
        let mean = |of: fn(&Sample) -> f64| life.iter().map(|sample| of(sample)).sum::<f64>() / count;
        let (time, bytes) = (mean(|sample| sample.age_secs), mean(|sample| sample.resident_bytes as f64));
        for sample in life {
            products += (sample.age_secs - time) * (sample.resident_bytes as f64 - bytes);
            squares += (sample.age_secs - time).powi(2);
        }
        longest = longest.max(life.last().map_or(0.0, |last| last.age_secs));
    }
    (if squares > 0.0 { products / squares } else { 0.0 }, longest)
}

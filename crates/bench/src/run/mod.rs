//! Driving a declared workload against a target, and measuring what comes back.
//!
//! A run has up to three phases: every key is written once (load), the workload runs unmeasured
//! (warm-up), and it runs measured. Each thread has its own operations, connections, counts and
//! histograms; threads meet only between phases.
//!
//! - **Closed loop**: a request follows the reply to the one before. It measures capacity; its
//!   latencies say little, because a slow server is asked less.
//! - **Open loop** (a rate is given): requests are due on a schedule that does not depend on
//!   replies, and latency runs from the due time (no coordinated omission).

mod connection;
mod direct;
mod pace;
mod progress;
mod report;
mod source;
mod tally;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base::Clock;
use workload::length::Length;
use workload::{Sampler, Workload};

pub use connection::Stream;
pub use pace::Arrivals;
pub use progress::Bar;
pub use report::{KindReport, PoolReport, RunReport};

use crate::machine::{Machine, WakeFast};
use crate::targets::null::Null;
use crate::targets::{Address, Direct, Wire};
use direct::DirectThread;
use pace::Pace;
use progress::Progress;
use source::{Phase, Source};
use tally::Tally;
use wire::WireThread;

/// Options of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    /// Threads of the bench. Default 1.
    pub threads: usize,
    /// Connections, shared out among the threads; at least one each. Default 1.
    pub connections: usize,
    /// Requests in flight per connection, or reads per batch of an embedded cache. Default 1.
    pub pipeline: usize,
    /// Reads that go into one request. Default 1.
    pub multi_get: usize,
    /// Operations per second, all threads together: open loop. Default none: closed loop.
    pub rate: Option<f64>,
    /// Distribution of the gaps between requests of an open loop. Default Poisson.
    pub arrivals: Arrivals,
    /// After how many operations of a thread it pauses, and for how long. Default none.
    pub pause: Option<(u64, Duration)>,
    /// True if every key is written before the run. Default: true, unless the workload is
    /// look-aside.
    pub load: Option<bool>,
    /// Length of the unmeasured phase before. Default none.
    pub warm_up: Option<Length>,
    /// Length of the measured phase. Default 10 seconds.
    pub length: Length,
    /// The seed of all random numbers. Default 1.
    pub seed: u64,
    /// Processors to pin threads to, taken in turn. Default none.
    pub pin: Option<Vec<usize>>,
    /// Of an embedded cache in closed loop, one operation in this many is timed. Default 16.
    pub latency_sample: u64,
    /// True if processors are kept from sleeping deeply, if this process may do so. Default true.
    pub wake_fast: bool,
    /// True if progress is shown on a terminal. Default false.
    pub progress: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            connections: 1,
            pipeline: 1,
            multi_get: 1,
            rate: None,
            arrivals: Arrivals::default(),
            pause: None,
            load: None,
            warm_up: None,
            length: Length::Time(Duration::from_secs(10)),
            seed: 1,
            pin: None,
            latency_sample: 16,
            wake_fast: true,
            progress: false,
        }
    }
}

impl RunOptions {
    fn check(&self) -> Result<()> {
        if self.threads == 0 || self.pipeline == 0 || self.multi_get == 0 || self.latency_sample == 0 {
            bail!("threads, pipeline, multi-get and latency-sample are at least 1");
        }
        if self.threads > 1_024 || self.pipeline > 1 << 16 || self.multi_get > 1 << 12 {
            bail!("the limits are 1024 threads, a pipeline of 65536 and a multi-get of 4096 keys");
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            bail!("the rate is a number of operations per second above 0");
        }
        if self.rate.is_some() && self.multi_get > 1 {
            bail!("in open loop every read is a request of its own: leave out either the rate or multi-get");
        }
        Ok(())
    }

    /// Returns the number of connections of thread `thread`.
    fn connections_of(&self, thread: usize) -> usize {
        let connections = self.connections.max(self.threads);
        connections / self.threads + usize::from(thread < connections % self.threads)
    }
}

/// Drives the workload against a cache inside this process.
///
/// # Errors
/// Where the options make no sense or a thread cannot be started or pinned.
pub fn run_direct<T: Direct + Send + 'static>(
    target: &Arc<T>,
    workload: &Arc<Workload>,
    options: &RunOptions,
) -> Result<RunReport> {
    let largest = workload.largest_value() as usize;
    let own_cost = own_cost_nanos(workload, options);
    let shared = Arc::clone(target);
    let drive = move |_: usize, plan: &mut dyn FnMut(Drive<'_>) -> Result<()>| {
        let mut thread = DirectThread::new(shared.session(), largest);
        plan(&mut |phase| Ok(thread.drive(phase)))
    };
    let measured = run_threads(options, workload, Arc::new(drive))?;
    let mut report = RunReport::new(target.describe(), workload, options, measured);
    report.bench_ns_per_operation = Some(own_cost);
    report.holdings = target.holdings();
    Ok(report)
}

/// Drives the workload against a server.
///
/// # Errors
/// If the options make no sense, the server can't be reached, breaks a connection, sends
/// an invalid reply, or is silent for 30 seconds.
pub fn run_wire<W: Wire + Clone + Sync + 'static>(
    wire: W,
    address: &Address,
    target: &str,
    workload: &Arc<Workload>,
    options: &RunOptions,
) -> Result<RunReport> {
    let largest = workload.largest_value() as usize;
    let (address, counts) = (address.clone(), options.clone());
    let drive = move |thread: usize, plan: &mut dyn FnMut(Drive<'_>) -> Result<()>| {
        let mut thread = WireThread::open(&wire, &address, counts.connections_of(thread), largest)?;
        plan(&mut |phase| thread.drive(phase))
    };
    let measured = run_threads(options, workload, Arc::new(drive))?;
    Ok(RunReport::new(target.to_owned(), workload, options, measured))
}

/// Drives one phase.
type Drive<'a> = &'a mut dyn FnMut(&mut Phase<'_>) -> Result<Tally>;

/// Sets a thread's side of the target up and hands over how its phases are driven.
type Body = dyn Fn(usize, &mut dyn FnMut(Drive<'_>) -> Result<()>) -> Result<()> + Send + Sync;

/// The measurements of all threads together.
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    /// The sum of the threads' own rates.
    pub(crate) rate: f64,
    pub(crate) machine: Machine,
}

/// The state that the threads of a run share.
struct Shared {
    options: RunOptions,
    workload: Arc<Workload>,
    stages: Vec<Stage>,
    barrier: Barrier,
    failed: AtomicBool,
    progress: Vec<Padded>,
    stage: AtomicU64,
}

/// A counter that shares its cache line with no other.
#[repr(align(128))]
#[derive(Default)]
struct Padded(AtomicU64);

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Load,
    WarmUp(Length),
    Measure(Length),
}

fn run_threads(options: &RunOptions, workload: &Arc<Workload>, body: Arc<Body>) -> Result<Measured> {
    options.check()?;
    let wake = if options.wake_fast { WakeFast::hold() } else { WakeFast::not_held() };
    let mut stages = Vec::new();
    if options.load.unwrap_or(!workload.look_aside()) {
        stages.push(Stage::Load);
    }
    stages.extend(options.warm_up.map(Stage::WarmUp));
    stages.push(Stage::Measure(options.length));
    let shared = Arc::new(Shared {
        options: options.clone(),
        workload: Arc::clone(workload),
        stages,
        barrier: Barrier::new(options.threads),
        failed: AtomicBool::new(false),
        progress: (0..options.threads).map(|_| Padded::default()).collect(),
        stage: AtomicU64::new(0),
    });
    let mut threads = Vec::new();
    for thread in 0..options.threads {
        let (shared, body) = (Arc::clone(&shared), Arc::clone(&body));
        let started = base::thread::spawn(format!("bench-{thread}"), move || shared.thread(thread, &*body));
        threads.push(started.context("starting a thread")?);
    }
    let mut progress = Progress::new(options.progress);
    while threads.iter().any(|thread| !thread.is_finished()) {
        progress.show(&shared);
        base::thread::sleep(Duration::from_millis(20));
    }
    progress.finish();
    let (mut tally, mut rate) = (Tally::default(), 0.0);
    for thread in threads {
        let counted = thread.join().map_err(|_| anyhow!("a thread of the bench panicked"))??;
        rate += counted.rate();
        tally.add(&counted);
    }
    Ok(Measured { tally, rate, machine: Machine::here(&wake, options.pin.clone()) })
}

impl Shared {
    /// Runs one thread. Whatever fails, the thread meets the others at every barrier until all know
    /// of the failure.
    fn thread(&self, thread: usize, body: &Body) -> Result<Tally> {
        let mut measured = Tally::default();
        let mut met = false;
        let result = without_panic(|| {
            self.pin(thread)?;
            body(thread, &mut |drive| {
                met = true;
                self.phases(thread, drive, &mut measured)
            })
        });
        if !met {
            // The target could not be set up: the others wait for this thread, then look at the
            // flag, then wait again.
            self.failed.store(true, Ordering::Relaxed);
            self.barrier.wait();
            self.barrier.wait();
        }
        result.map(|()| measured)
    }

    fn phases(&self, thread: usize, drive: Drive<'_>, measured: &mut Tally) -> Result<()> {
        // Setting up counts as the first phase: nobody begins before all are ready.
        self.barrier.wait();
        let mut source = Source::Draw(Sampler::new(
            Arc::clone(&self.workload),
            self.options.seed,
            thread,
            self.options.threads,
        ));
        for (i, stage) in self.stages.iter().enumerate() {
            // No thread writes the flag between the last barrier and the next: all read the same.
            let failed = self.failed.load(Ordering::Relaxed);
            self.barrier.wait();
            if failed {
                return Ok(());
            }
            self.stage.store(i as u64, Ordering::Relaxed);
            let done = without_panic(|| self.phase(*stage, thread, &mut source, drive));
            if done.is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
            self.barrier.wait();
            match (done, stage) {
                (Ok(tally), Stage::Measure(_)) => *measured = tally,
                (Ok(_), _) => {}
                (Err(error), _) => {
                    // The others are about to look at the flag and then to meet once more, unless
                    // this was the last.
                    if i + 1 < self.stages.len() {
                        self.barrier.wait();
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn phase(&self, stage: Stage, thread: usize, source: &mut Source, drive: Drive<'_>) -> Result<Tally> {
        let options = &self.options;
        let (number, threads) = (thread as u64, options.threads as u64);
        let mut load = Source::Load { workload: Arc::clone(&self.workload), next: number, step: threads };
        let source = if stage == Stage::Load { &mut load } else { source };
        let clock = Clock::System;
        let now = clock.monotonic_nanos();
        let mut phase = Phase::new(source, clock, &self.progress[thread].0);
        phase.pipeline = options.pipeline;
        match stage {
            Stage::Load => {
                // Nothing is measured here, so that writes may go together.
                phase.pipeline = options.pipeline.max(32);
            }
            Stage::WarmUp(length) | Stage::Measure(length) => {
                phase.multi_get = options.multi_get;
                phase.look_aside = self.workload.look_aside();
                phase.sample = options.latency_sample;
                phase.pause = options.pause;
                match length {
                    Length::Operations(all) => phase.left = all / threads + u64::from(number < all % threads),
                    Length::Time(time) => phase.deadline = now.saturating_add(time.as_nanos() as u64),
                }
                let seed = base::hash::mix64(options.seed ^ number ^ 0x7061_6365);
                phase.pace =
                    options.rate.map(|rate| Pace::new(rate / threads as f64, options.arrivals, seed, now));
            }
        }
        drive(&mut phase)
    }

    fn pin(&self, thread: usize) -> Result<()> {
        let Some(cpus) = self.options.pin.as_ref().filter(|cpus| !cpus.is_empty()) else { return Ok(()) };
        let cpu = cpus[thread % cpus.len()];
        base::thread::pin_to_cpu(cpu).with_context(|| format!("pinning a thread to processor {cpu}"))
    }
}

/// A panic of the target is an error of the run: the other threads must not wait for this one for
/// ever.
fn without_panic<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(anyhow!("the target panicked; its message is above")))
}

/// Measures the bench's own cost of drawing an operation, writing its key and counting it, in
/// nanoseconds.
fn own_cost_nanos(workload: &Arc<Workload>, options: &RunOptions) -> f64 {
    const OPERATIONS: u64 = 300_000;
    let progress = AtomicU64::new(0);
    let mut source = Source::Draw(Sampler::new(Arc::clone(workload), options.seed, 0, 1));
    let mut phase = Phase::new(&mut source, Clock::System, &progress);
    (phase.left, phase.sample) = (OPERATIONS, options.latency_sample);
    let tally = DirectThread::new(Null, workload.largest_value() as usize).drive(&mut phase);
    tally.nanos as f64 / OPERATIONS as f64
}

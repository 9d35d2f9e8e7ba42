//! `millpond bench run`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use workload::length::{Length, duration};
use workload::{Mix, Pool, Popularity, Sizes, Workload, WorkloadSpec};

use super::{EngineArgs, print_json};
use crate::cachebench::{self, Instance, Overrides};
use crate::run::{Arrivals, RunOptions, RunReport, run_direct, run_wire};
use crate::targets::TargetUrl;
use crate::targets::embedded::{Embedded, EmbeddedOptions, PoolShape};
use crate::targets::memcached::Memcached;
use crate::targets::null::Null;

/// Flags of `millpond bench run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Target of the load: embedded, null (the bench's own cost), memcached://HOST:PORT or
    /// memcached+unix:///PATH
    #[arg(long, value_name = "TARGET", default_value = "embedded")]
    pub target: TargetUrl,
    /// Run a configuration of CacheLib's CacheBench, whole: its cache, requests, threads and
    /// operations; a folder with a config.json or a file; other flags override it
    /// [default: none, the other flags say all]
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    pub config: Option<PathBuf>,
    /// With --config: keep this share of its memory, keys and operations, above 0 and at most 1
    /// [default: what --memory is of its memory, or 1]
    #[arg(long, value_name = "SHARE", requires = "config")]
    pub scale: Option<f64>,
    /// With --config: leave out what is not supported, and say what was
    #[arg(long, requires = "config")]
    pub ignore_unsupported: bool,
    /// With --config: leave out the pauses and the rate that it asks for
    #[arg(long, requires = "config")]
    pub no_pauses: bool,
    /// The workload.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// The cache, where the target is embedded.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Threads of the bench [default: 1, or as --config says]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Connections to a server, shared out among the threads; at least one each
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub connections: usize,
    /// Requests sent together on a connection before their replies are awaited; of an embedded
    /// cache, reads per batch
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub pipeline: usize,
    /// Reads that go into one request; closed loop only
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub multi_get: usize,
    /// Open loop: operations per second, all threads together; latency runs from when each was due
    /// [default: closed loop]
    #[arg(long, value_name = "OPS_PER_SEC")]
    pub rate: Option<f64>,
    /// Distribution of the gaps between requests of an open loop
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    pub arrivals: Arrivals,
    /// Measure for this long: 10s, 500ms, 2m; a bare number is seconds [default: 10s]
    #[arg(long, value_name = "TIME", conflicts_with = "ops", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Measure this many operations instead
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,
    /// Run unmeasured before: a time (10s) or a number of operations [default: nothing]
    #[arg(long, value_name = "LENGTH")]
    pub warm_up: Option<Length>,
    /// Write every key once before [default: unless the workload is look-aside]
    #[arg(long, conflicts_with = "no_load")]
    pub load: bool,
    /// Do not
    #[arg(long)]
    pub no_load: bool,
    /// Names the run's random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Pin threads to these processors in turn, such as 0,1 [default: not pinned]
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    pub pin: Vec<usize>,
    /// Of an embedded cache in closed loop, time one operation in N
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub latency_sample: u64,
    /// Let processors sleep deeply; otherwise /dev/cpu_dma_latency is held at 0 where this process
    /// may
    #[arg(long)]
    pub allow_deep_sleep: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags that declare a workload. Each overrides what a file says.
#[derive(Clone, Debug, Args)]
pub struct WorkloadArgs {
    /// A workload file (TOML), or a CacheBench configuration: its folder or its config.json
    /// [default: none, the flags below declare the workload]
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Number of keys [default: 1000000, or as the file says]
    #[arg(long, value_name = "N")]
    pub keys: Option<u64>,
    /// Key sizes in bytes: 16, 8-64 or 8:30,64:70 [default: 16]
    #[arg(long, value_name = "SIZES")]
    pub key_size: Option<Sizes>,
    /// Value sizes in bytes: 100, 64-1KiB or 64:50,1KiB:30,4KiB-8KiB:20 (size:weight)
    /// [default: 100]
    #[arg(long, value_name = "SIZES")]
    pub value_size: Option<Sizes>,
    /// Distribution of requests over keys: zipf:ALPHA, uniform, scan or normal [default: zipf:0.99]
    #[arg(long, value_name = "SHAPE")]
    pub popularity: Option<Popularity>,
    /// Operations by weight, of get, set, delete, touch, lone-get, lone-set
    /// [default: get=90,set=10]
    #[arg(long, value_name = "MIX")]
    pub mix: Option<Mix>,
    /// A get that misses is followed by a set of the same key [default: false, or as the file says]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub look_aside: Option<bool>,
    /// Time to live of what is written, in seconds; 0 is for ever [default: 0]
    #[arg(long, value_name = "SECS")]
    pub ttl: Option<u32>,
}

impl WorkloadArgs {
    /// Reads and builds the workload.
    fn build(&self, seed: u64) -> Result<Workload> {
        let mut workload = match &self.workload {
            Some(path) if is_cachebench(path) => self.cachebench(path, seed)?,
            Some(path) => Workload::new(&self.over(WorkloadSpec::read(path)?), seed)?,
            None => Workload::new(&self.over(WorkloadSpec::default()), seed)?,
        };
        if let Some(look_aside) = self.look_aside {
            workload.set_look_aside(look_aside);
        }
        Ok(workload)
    }

    fn over(&self, spec: WorkloadSpec) -> WorkloadSpec {
        WorkloadSpec {
            keys: self.keys.unwrap_or(spec.keys),
            key_size: self.key_size.clone().unwrap_or(spec.key_size),
            value_size: self.value_size.clone().unwrap_or(spec.value_size),
            popularity: self.popularity.unwrap_or(spec.popularity),
            mix: self.mix.unwrap_or(spec.mix),
            look_aside: self.look_aside.unwrap_or(spec.look_aside),
            ttl_secs: self.ttl.unwrap_or(spec.ttl_secs),
        }
    }

    fn cachebench(&self, path: &Path, seed: u64) -> Result<Workload> {
        self.refuse_shape()?;
        Ok(Workload::from_cachebench(path, self.keys, seed)?)
    }

    /// Requests of a CacheBench configuration have the shape that it says.
    fn refuse_shape(&self) -> Result<()> {
        let shaped = self.key_size.is_some() || self.value_size.is_some() || self.popularity.is_some();
        if shaped || self.mix.is_some() || self.ttl.is_some() {
            bail!("of a CacheBench configuration, only --keys and --look-aside can be overridden");
        }
        Ok(())
    }
}

fn is_cachebench(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|extension| extension == "json")
}

impl RunArgs {
    fn options(&self) -> RunOptions {
        RunOptions {
            threads: self.threads.unwrap_or(1),
            connections: self.connections,
            pipeline: self.pipeline,
            multi_get: self.multi_get,
            rate: self.rate,
            arrivals: self.arrivals,
            pause: None,
            load: (self.load || self.no_load).then_some(self.load),
            warm_up: self.warm_up,
            length: match self.ops {
                Some(ops) => Length::Operations(ops),
                None => Length::Time(self.duration.unwrap_or(Duration::from_secs(10))),
            },
            seed: self.seed,
            pin: (!self.pin.is_empty()).then(|| self.pin.clone()),
            latency_sample: self.latency_sample,
            wake_fast: !self.allow_deep_sleep,
            progress: !self.json,
        }
    }
}

/// Does what the flags of `millpond bench run` say, and prints the report.
///
/// # Errors
/// Where flags contradict each other, a file or target cannot be used, or a target returned wrong
/// values.
pub fn execute(args: &RunArgs, out: &mut dyn Write) -> Result<()> {
    let reports = match &args.config {
        Some(path) => run_config(args, path)?,
        None => vec![run(args)?],
    };
    match (&reports[..], args.json) {
        ([report], true) => print_json(out, report)?,
        (reports, true) => print_json(out, &reports)?,
        (reports, false) => {
            for (i, report) in reports.iter().enumerate() {
                write!(out, "{}{report}", if i == 0 { "" } else { "\n" })?;
            }
        }
    }
    let wrong: u64 = reports.iter().map(|report| report.wrong_values).sum();
    if wrong > 0 {
        bail!("the target returned {wrong} values of other keys");
    }
    Ok(())
}

fn run(args: &RunArgs) -> Result<RunReport> {
    let workload = Arc::new(args.workload.build(args.seed)?);
    let pool = |pool: &Pool| PoolShape { name: pool.name().to_owned(), limit: None };
    let pools: Vec<PoolShape> = workload.pools().iter().map(pool).collect();
    let engine = EmbeddedOptions {
        memory: args.engine.memory(),
        policy: args.engine.policy()?,
        classes: args.engine.classes()?,
        ..EmbeddedOptions::default()
    };
    drive(&args.target, (&engine, &pools, None), &workload, &args.options())
}

fn drive(
    target: &TargetUrl,
    (engine, pools, rebalance_every): (&EmbeddedOptions, &[PoolShape], Option<Duration>),
    workload: &Arc<Workload>,
    options: &RunOptions,
) -> Result<RunReport> {
    match target {
        TargetUrl::Null => run_direct(&Arc::new(Null), workload, options),
        TargetUrl::Embedded => {
            let embedded = Arc::new(Embedded::shaped(engine, pools).context("making the cache")?);
            let upkeep = rebalance_every.map(|every| Upkeep::start(&embedded, every)).transpose()?;
            let report = run_direct(&embedded, workload, options);
            drop(upkeep);
            report
        }
        TargetUrl::Memcached(address) => run_wire(Memcached, address, &target.to_string(), workload, options),
        TargetUrl::Redis(_) => {
            bail!("{target}: a run is over memcached's protocol; what speaks Redis's can be checked")
        }
    }
}

/// Rebalances a cache's slabs while it lives.
struct Upkeep {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Upkeep {
    fn start(embedded: &Arc<Embedded>, every: Duration) -> Result<Self> {
        const LOOK: Duration = Duration::from_millis(20);
        let stop = Arc::new(AtomicBool::new(false));
        let (embedded, stopped) = (Arc::clone(embedded), Arc::clone(&stop));
        let body = move || {
            let mut waited = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                base::thread::sleep(LOOK.min(every));
                waited += LOOK.min(every);
                if waited >= every {
                    waited = Duration::ZERO;
                    embedded.cache().rebalance();
                }
            }
        };
        let thread = base::thread::spawn("rebalancer", body).context("starting a thread")?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs all caches of a CacheBench configuration at the same time.
fn run_config(args: &RunArgs, path: &Path) -> Result<Vec<RunReport>> {
    args.workload.refuse_shape()?;
    let overrides = Overrides {
        scale: args.scale,
        memory: args.engine.memory,
        keys: args.workload.keys,
        ignore_unsupported: args.ignore_unsupported,
        seed: args.seed,
    };
    let instances = cachebench::load(path, &overrides)?;
    let alone = instances.len() == 1;
    let mut runs = Vec::new();
    for (i, instance) in instances.into_iter().enumerate() {
        let mut options = configured(args, &instance);
        options.progress &= alone;
        let engine = EmbeddedOptions {
            memory: instance.memory,
            policy: args.engine.policy_over(instance.policy)?,
            classes: args.engine.chosen_classes().unwrap_or(Ok(instance.classes))?,
            strategy: instance.strategy,
            ..EmbeddedOptions::default()
        };
        let every = instance.rebalance_every;
        let mut workload = instance.workload;
        if let Some(look_aside) = args.workload.look_aside {
            workload.set_look_aside(look_aside);
        }
        let (target, pools, workload) = (args.target.clone(), instance.pools, Arc::new(workload));
        let body = move || drive(&target, (&engine, &pools, every), &workload, &options);
        if alone {
            return Ok(vec![body()?]);
        }
        runs.push(base::thread::spawn(format!("cache-{i}"), body).context("starting a thread")?);
    }
    let join = |run: std::thread::JoinHandle<Result<RunReport>>| {
        run.join().unwrap_or_else(|_| Err(anyhow!("a run panicked; its message is above")))
    };
    runs.into_iter().map(join).collect()
}

/// The options of a run of a configuration, unless flags say otherwise.
fn configured(args: &RunArgs, instance: &Instance) -> RunOptions {
    let flags = args.options();
    let said = args.ops.is_some() || args.duration.is_some();
    let paced = !args.no_pauses;
    let rate = args.rate.or(instance.rate.filter(|_| paced));
    RunOptions {
        threads: args.threads.unwrap_or(instance.threads),
        length: if said { flags.length } else { Length::Operations(instance.operations) },
        load: Some(args.load),
        pause: instance.pause.filter(|_| paced),
        arrivals: if args.rate.is_some() { flags.arrivals } else { Arrivals::Even },
        rate,
        ..flags
    }
}

//! `millpond bench replay`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use base::ByteSize;
use clap::Args;
use millpond::PoolConfig;
use millpond::strategy::Strategy;
use serde::Serialize;
use workload::replay::{ReplayOptions, ReplayReport, TimeUnit, replay_each, replay_together};
use workload::trace::Column;

use super::{EngineArgs, print_json};

/// Flags of `millpond bench replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// Trace file: CSV with named columns, list of keys, ARC .lis, JSON lines with hash_ids, or
    /// CacheLib's CSV; plain, gzip or zstd. May be given several times: each trace then gets a
    /// cache of its own
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub trace: Vec<PathBuf>,
    /// Replay all traces through one cache, a pool for each, a request of each in turn
    #[arg(long)]
    pub together: bool,
    /// The cache.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Most memory for the slabs of a trace's pool, in whole slabs of 4 MiB
    /// [default: whatever is free]
    #[arg(long, value_name = "SIZE")]
    pub pool_limit: Option<ByteSize>,
    /// Policy by which size classes trade slabs: base, tail-age, hits-per-slab, marginal-hits,
    /// free-memory or random [default: the engine's, base]
    #[arg(long, value_name = "NAME", value_parser = Strategy::by_name)]
    pub strategy: Option<Strategy>,
    /// Do the engine's maintenance, such as trading slabs, after each N requests of a trace; 0 =
    /// never
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub maintain_every: u64,
    /// Size of values where the trace does not tell, in bytes or with a unit
    #[arg(long, value_name = "SIZE", default_value = "100")]
    pub value_size: ByteSize,
    /// A read that misses puts nothing in; only writes do
    #[arg(long)]
    pub no_look_aside: bool,
    /// The trace has the writes that fill what its reads missed, as the log of a server has: a read
    /// that misses puts its object in only if it tells a size, which is if it hit when the trace
    /// was taken
    #[arg(long, conflicts_with = "no_look_aside")]
    pub own_fills: bool,
    /// A write to a key that is there makes a new item, instead of counting as an access
    #[arg(long)]
    pub writes_replace: bool,
    /// The trace's times are in this unit (s, ms, us, ns): let the cache's clock follow them, and
    /// items expire as the trace says [default: nothing expires]
    #[arg(long, value_name = "UNIT")]
    pub trace_time: Option<TimeUnit>,
    /// Replay no more than N requests of each trace [default: all]
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// The columns of a trace without a header line, such as ts,key,key_size,size,-,op,ttl (`-`
    /// passes one over) [default: the first line names them]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<Column>,
    /// Of a trace with a column `tenant`, such as a server's request log: read the requests of this
    /// tenant alone [default: all, each tenant with keys of its own]
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Names the seed of the cache's key hash: the same seed gives the same hits
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Put the same requests through plain simulators of as many items, and show the difference and
    /// its causes
    #[arg(long)]
    pub compare_exact: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl ReplayArgs {
    fn options(&self) -> Result<ReplayOptions> {
        let Ok(value_size) = u32::try_from(self.value_size.as_u64()) else {
            bail!("a value of {} is larger than any item", self.value_size);
        };
        Ok(ReplayOptions {
            memory: self.engine.memory(),
            policy: self.engine.policy()?,
            classes: self.engine.classes()?,
            strategy: self.strategy.clone().unwrap_or_else(|| PoolConfig::default().strategy),
            maintain_every: self.maintain_every,
            pool_limit: self.pool_limit,
            value_size,
            sizes: None,
            look_aside: !self.no_look_aside,
            own_fills: self.own_fills,
            ignores_writes: false,
            writes_replace: self.writes_replace,
            trace_time: self.trace_time,
            limit: self.limit,
            columns: (!self.columns.is_empty()).then(|| self.columns.clone()),
            tenant: self.tenant.clone(),
            seed: self.seed,
            compare: self.compare_exact,
            progress: !self.json,
        })
    }
}

/// Several traces: the sums over them, under the same names as for one, and each.
#[derive(Serialize)]
struct Several<'a> {
    requests: u64,
    hits: u64,
    hit_ratio: f64,
    byte_hit_ratio: f64,
    evictions: u64,
    requests_per_second: f64,
    traces: &'a [ReplayReport],
}

impl<'a> Several<'a> {
    fn new(traces: &'a [ReplayReport], together: bool) -> Self {
        let sum = |field: fn(&ReplayReport) -> u64| traces.iter().map(field).sum::<u64>();
        let (requests, hits) = (sum(|report| report.requests), sum(|report| report.hits));
        let lookups = sum(|report| report.gets + report.writes);
        let (bytes, bytes_hit) = (sum(|report| report.bytes_requested), sum(|report| report.bytes_hit));
        let seconds = traces.iter().map(|report| report.seconds);
        // Together, every trace has the time of all.
        let seconds = if together { seconds.fold(0.0, f64::max) } else { seconds.sum() };
        let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        Self {
            requests,
            hits,
            hit_ratio: ratio(hits, lookups),
            byte_hit_ratio: ratio(bytes_hit, bytes),
            evictions: sum(|report| report.evictions),
            requests_per_second: if seconds > 0.0 { requests as f64 / seconds } else { 0.0 },
            traces,
        }
    }
}

/// Does what the flags of `millpond bench replay` say, and prints the report.
///
/// # Errors
/// Where flags contradict each other or a trace cannot be read, or the engine returned wrong
/// values.
pub fn execute(args: &ReplayArgs, out: &mut dyn Write) -> Result<()> {
    let options = args.options()?;
    let replay = if args.together { replay_together } else { replay_each };
    let reports = replay(&args.trace, &options)?;
    match (&reports[..], args.json) {
        ([report], true) => print_json(out, report)?,
        (reports, true) => print_json(out, &Several::new(reports, args.together))?,
        (reports, false) => {
            for (i, report) in reports.iter().enumerate() {
                write!(out, "{}{report}", if i == 0 { "" } else { "\n" })?;
            }
        }
    }
    let wrong: u64 = reports.iter().map(|report| report.wrong_values).sum();
    if wrong > 0 {
        bail!("{wrong} hits returned values of other keys");
    }
    Ok(())
}

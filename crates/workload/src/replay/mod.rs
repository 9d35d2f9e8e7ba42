//! Replaying traces through the engine, and the hit ratios that come out.
//!
//! A request is a **hit** when its key is in the cache as the request comes, whatever it asks for;
//! this is how the published miss-ratio curves and other simulators count. Look-aside: a request
//! that misses puts its object in, and nothing else does. A write to a key that is there counts as
//! an access to it; it makes a new item only where the size changed, or where
//! [`ReplayOptions::writes_replace`] asks for it.
//!
//! Values are not written but for a stamp that each hit checks: what is measured is what the engine
//! keeps, not how fast memory is copied.

mod compare;
mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base::{ByteSize, Clock};
use indicatif::{ProgressBar, ProgressStyle};
pub use millpond::strategy::Strategy;
use millpond::{
    Cache, CacheConfig, ErrorKind, Expiry, ItemOptions, Keys, PolicyKind, PoolConfig, PoolId, SizeClassConfig,
};

pub use compare::{Comparison, Rival};
pub use report::{MemoryBill, ReplayReport};

use crate::curves::KeySizes;
use crate::trace::{Column, Op, Request, TraceOptions, TraceReader};

/// The unit of a trace's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeUnit {
    /// Nanoseconds in one unit.
    pub nanos: u64,
}

impl TimeUnit {
    /// Microseconds, as the server and the engine write them.
    pub const MICROS: Self = Self { nanos: 1_000 };
}

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let nanos = match text {
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" => 1_000,
            "ns" => 1,
            _ => return Err(format!("`{text}` is not a unit of time: write s, ms, us or ns")),
        };
        Ok(Self { nanos })
    }
}

/// Options of a replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// All memory of the cache. Default 64 MiB.
    pub memory: ByteSize,
    /// The eviction policy. Default S3-FIFO.
    pub policy: PolicyKind,
    /// Chunk sizes. Default by factor 1.25.
    pub classes: SizeClassConfig,
    /// Policy by which classes trade slabs. Default the engine's.
    pub strategy: Strategy,
    /// Requests of a trace between two rounds of the engine's maintenance; 0 = never. Default
    /// 10,000.
    pub maintain_every: u64,
    /// Most bytes of slabs for a trace's pool, in whole slabs. Default none.
    pub pool_limit: Option<ByteSize>,
    /// The size of values where the trace does not tell, in bytes. Default 100.
    pub value_size: u32,
    /// The sizes of keys, for requests that do not tell them. Default none.
    pub sizes: Option<Arc<KeySizes>>,
    /// True if a request that misses inserts its object. Default true; if false, only writes
    /// insert.
    pub look_aside: bool,
    /// Fills a request that misses only if it has a size. In a server's own log a read has one
    /// exactly if it hit: a miss then is filled by a write of its own, if by anything. Default
    /// false.
    pub own_fills: bool,
    /// True if writes are skipped. Default false.
    pub ignores_writes: bool,
    /// True if a write to a present key makes a new item, as a client's would. Default false.
    pub writes_replace: bool,
    /// Let the cache's clock follow the trace's times, and items expire as the trace says. Default:
    /// the cache has the system's clock, and nothing expires.
    pub trace_time: Option<TimeUnit>,
    /// Replay no more than this many requests of each trace. Default all.
    pub limit: Option<u64>,
    /// The columns of traces without a header line.
    pub columns: Option<Vec<Column>>,
    /// The tenant whose requests alone are replayed. `None`: all requests, whose keys are told
    /// apart by tenant.
    pub tenant: Option<String>,
    /// The seed of the cache's key hash, so that a replay can be repeated to the last hit. Default
    /// 1.
    pub seed: u64,
    /// True if plain simulators get the same requests. Default false.
    pub compare: bool,
    /// True if progress is shown on a terminal. Default false.
    pub progress: bool,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(64),
            policy: PolicyKind::default(),
            classes: SizeClassConfig::default(),
            strategy: PoolConfig::default().strategy,
            maintain_every: 10_000,
            pool_limit: None,
            value_size: 100,
            sizes: None,
            look_aside: true,
            own_fills: false,
            ignores_writes: false,
            writes_replace: false,
            trace_time: None,
            limit: None,
            columns: None,
            tenant: None,
            seed: 1,
            compare: false,
            progress: false,
        }
    }
}

impl ReplayOptions {
    fn open(&self, path: &Path) -> Result<TraceReader> {
        Ok(TraceReader::open_with(
            path,
            &TraceOptions { columns: self.columns.clone(), tenant: self.tenant.clone() },
        )?)
    }

    fn clock(&self) -> Clock {
        // A manual clock begins late enough that no time of a trace lies before the engine's first
        // second.
        if self.trace_time.is_some() { Clock::manual(1_000_000) } else { Clock::System }
    }

    /// Returns whether a request that misses puts its object in.
    #[inline]
    fn fills(&self, request: &Request<'_>) -> bool {
        request.op == Op::Set || self.look_aside && (!self.own_fills || request.size.is_some())
    }

    /// The size of the request's value.
    fn size_of(&self, request: &Request<'_>) -> u64 {
        let of_key = || self.sizes.as_ref().and_then(|sizes| sizes.get(request.key));
        request.size.unwrap_or_else(|| u64::from(of_key().unwrap_or(self.value_size)))
    }
}

/// The counts of the replay of one trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    /// Reads and writes that were looked up: removals and touches are neither hits nor misses.
    pub(crate) lookups: u64,
    pub(crate) hits: u64,
    pub(crate) gets: u64,
    pub(crate) get_hits: u64,
    pub(crate) deletes: u64,
    pub(crate) bytes_requested: u64,
    pub(crate) bytes_hit: u64,
    pub(crate) inserted: u64,
    pub(crate) too_large: u64,
    pub(crate) out_of_memory: u64,
    pub(crate) wrong_values: u64,
    pub(crate) has_sizes: bool,
}

/// Replays each trace through a cache of its own.
///
/// # Errors
/// Where a trace cannot be read to its end or the engine refuses the options.
pub fn replay_each(traces: &[PathBuf], options: &ReplayOptions) -> Result<Vec<ReplayReport>> {
    traces.iter().map(|trace| replay(trace, options)).collect()
}

/// Replays one trace.
///
/// # Errors
/// As [`replay_each`].
pub fn replay(trace: &Path, options: &ReplayOptions) -> Result<ReplayReport> {
    let clock = options.clock();
    let cache = cache(options, &clock)?;
    let mut lane = Lane::open(&cache, trace, options)?;
    let bar = Bar::new(options.progress, trace);
    let start = Clock::System.monotonic_nanos();
    let mut held = HeldItems::default();
    while lane.step(&cache, &clock, options)? {
        bar.show(lane.counts());
        if options.compare && lane.counts().requests.is_multiple_of(HeldItems::LOOK_EACH) {
            held.look(&cache, lane.pool());
        }
    }
    let seconds = (Clock::System.monotonic_nanos() - start) as f64 / 1e9;
    bar.finish();
    let mut report = ReplayReport::new(&lane, &cache, options, seconds);
    if options.compare {
        let items = held.mean().unwrap_or(report.memory.items);
        report.comparison = Some(compare::compare(trace, options, &report, items)?);
    }
    Ok(report)
}

/// The number of items that a full pool holds: some chunks are always on their way from one item to
/// the next, at one moment more of them than at another.
#[derive(Default)]
struct HeldItems {
    sum: u64,
    looks: u64,
}

impl HeldItems {
    /// Requests between two looks.
    const LOOK_EACH: u64 = 1_024;

    fn look(&mut self, cache: &Cache, pool: PoolId) {
        let stats = cache.stats();
        let Some(pool) = stats.pools.iter().find(|stats| stats.id == pool) else { return };
        if pool.sum(|class| class.evictions) > 0 {
            self.sum += pool.sum(|class| class.items);
            self.looks += 1;
        }
    }

    /// In the mean; `None` where it never was full.
    fn mean(&self) -> Option<u64> {
        (self.sum + self.looks / 2).checked_div(self.looks)
    }
}

/// Replays traces through one cache in which each has a pool and keys of its own, a request of each
/// in turn. A trace that ends leaves the others to go on.
///
/// # Errors
/// As [`replay_each`]; and where a comparison is asked for, which is for a trace that has a cache
/// of its own.
pub fn replay_together(traces: &[PathBuf], options: &ReplayOptions) -> Result<Vec<ReplayReport>> {
    if options.compare {
        bail!("a comparison with plain simulators is for traces that have a cache of their own");
    }
    if options.trace_time.is_some() && traces.len() > 1 {
        bail!("the times of several traces cannot drive one clock: replay them one at a time");
    }
    let clock = options.clock();
    let cache = cache(options, &clock)?;
    let mut lanes = Vec::new();
    for trace in traces {
        lanes.push((Lane::open(&cache, trace, options)?, true));
    }
    let bar = Bar::new(options.progress, Path::new("all traces"));
    let start = Clock::System.monotonic_nanos();
    while lanes.iter().any(|(_, goes_on)| *goes_on) {
        for (lane, goes_on) in lanes.iter_mut().filter(|(_, goes_on)| *goes_on) {
            *goes_on = lane.step(&cache, &clock, options)?;
            bar.show(lane.counts());
        }
    }
    let seconds = (Clock::System.monotonic_nanos() - start) as f64 / 1e9;
    bar.finish();
    Ok(lanes.iter().map(|(lane, _)| ReplayReport::new(lane, &cache, options, seconds)).collect())
}

fn cache(options: &ReplayOptions, clock: &Clock) -> Result<Cache> {
    let config = CacheConfig {
        memory: options.memory,
        clock: clock.clone(),
        hash_seed: Some(options.seed),
        ..CacheConfig::default()
    };
    Cache::new(config).context("making the cache")
}

/// A trace on its way through a pool.
pub(crate) struct Lane {
    pub(crate) name: String,
    reader: TraceReader,
    player: Player,
}

impl Lane {
    fn open(cache: &Cache, trace: &Path, options: &ReplayOptions) -> Result<Self> {
        let reader = options.open(trace)?;
        let name = trace.display().to_string();
        let mut pool = PoolConfig {
            limit: options.pool_limit,
            policy: options.policy,
            classes: options.classes.clone(),
            strategy: options.strategy.clone(),
            own_keys: true,
            ..PoolConfig::named(name.clone())
        };
        // A trace may be given twice.
        while cache.pool_id(&pool.name).is_some() {
            pool.name.push('\'');
        }
        let pool = cache.add_pool(pool).context("making a pool")?;
        let player = Player { pool, key: Vec::new(), first_ts: None, counts: Counts::default() };
        Ok(Self { name, reader, player })
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.player.counts
    }

    pub(crate) fn pool(&self) -> PoolId {
        self.player.pool
    }

    /// Replays the next request; false at the end.
    #[inline]
    fn step(&mut self, cache: &Cache, clock: &Clock, options: &ReplayOptions) -> Result<bool> {
        if options.limit.is_some_and(|limit| self.player.counts.requests >= limit) {
            return Ok(false);
        }
        let Some(request) = self.reader.next_request()? else {
            self.reader.warn_of_marks();
            return Ok(false);
        };
        if let (Some(unit), Some(ts)) = (options.trace_time, request.ts) {
            follow(clock, ts.saturating_sub(*self.player.first_ts.get_or_insert(ts)), unit);
        }
        self.player.play(cache, &request, options);
        let every = options.maintain_every;
        if every > 0 && self.player.counts.requests.is_multiple_of(every) {
            // Items that are held keep slabs, and the next time will do.
            let _ = cache.maintain();
        }
        Ok(true)
    }
}

/// The cache's side of a lane.
struct Player {
    pool: PoolId,
    key: Vec<u8>,
    first_ts: Option<u64>,
    counts: Counts,
}

impl Player {
    #[inline]
    fn play(&mut self, cache: &Cache, request: &Request<'_>, options: &ReplayOptions) {
        request.write_key(&mut self.key);
        self.counts.requests += 1;
        self.counts.has_sizes |= request.size.is_some();
        let keys = cache.keys(self.pool);
        match request.op {
            Op::Delete => {
                self.counts.deletes += 1;
                keys.remove(&self.key);
            }
            Op::Set if options.ignores_writes => {}
            Op::Touch => drop(keys.find(&self.key)),
            Op::Get | Op::Set => {
                if self.must_store(keys, request, options) {
                    self.store(cache, request, options);
                }
            }
        }
    }

    /// Asks for the key; whether a new item is to be made.
    #[inline]
    fn must_store(&mut self, keys: Keys<'_>, request: &Request<'_>, options: &ReplayOptions) -> bool {
        let (size, is_get) = (options.size_of(request), request.op == Op::Get);
        let counts = &mut self.counts;
        counts.lookups += 1;
        counts.gets += u64::from(is_get);
        counts.bytes_requested += size;
        let Some(item) = keys.find(&self.key) else { return options.fills(request) };
        let value = item.value();
        counts.hits += 1;
        counts.get_hits += u64::from(is_get);
        counts.bytes_hit += size;
        counts.wrong_values += u64::from(!stamp(&self.key).starts_with(&value[..value.len().min(8)]));
        !is_get && (options.writes_replace || value.len() as u64 != size)
    }

    fn store(&mut self, cache: &Cache, request: &Request<'_>, options: &ReplayOptions) {
        let expiry = match (options.trace_time, request.ttl_secs) {
            (Some(_), Some(secs)) if secs > 0 => Expiry::After(secs),
            _ => Expiry::Never,
        };
        let item_options = ItemOptions { expiry, ..ItemOptions::default() };
        let size = usize::try_from(options.size_of(request)).unwrap_or(usize::MAX);
        match cache.allocate(self.pool, &self.key, size, &item_options) {
            Ok(mut item) => {
                let stamped = size.min(8);
                item.value_mut()[..stamped].copy_from_slice(&stamp(&self.key)[..stamped]);
                cache.put(item);
                self.counts.inserted += 1;
            }
            Err(error) if error.kind() == ErrorKind::TooLarge => self.counts.too_large += 1,
            Err(_) => self.counts.out_of_memory += 1,
        }
    }
}

/// Returns the stamp at the start of a key's value.
#[inline]
fn stamp(key: &[u8]) -> [u8; 8] {
    base::hash::key_hash(1, key).to_le_bytes()
}

/// Moves the clock to `elapsed` units after the first request, never back.
fn follow(clock: &Clock, elapsed: u64, unit: TimeUnit) {
    const START_NANOS: u64 = 1_000_000 * 1_000_000_000;
    let due = START_NANOS.saturating_add(elapsed.saturating_mul(unit.nanos));
    let now = clock.monotonic_nanos();
    if due > now {
        clock.advance(Duration::from_nanos(due - now));
    }
}

/// A counter of requests on a terminal; nothing elsewhere.
struct Bar(Option<ProgressBar>);

/// Requests between two updates of the counter on the terminal.
const SHOW_EVERY: u64 = 1 << 18;

impl Bar {
    fn new(wanted: bool, trace: &Path) -> Self {
        use std::io::IsTerminal;
        Self((wanted && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{spinner} {prefix}  {pos} requests  {msg}");
            let bar = ProgressBar::new_spinner();
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_prefix(trace.display().to_string());
            bar
        }))
    }

    #[inline]
    fn show(&self, counts: &Counts) {
        if counts.requests.is_multiple_of(SHOW_EVERY)
            && let Some(bar) = &self.0
        {
            bar.set_position(counts.requests);
            bar.set_message(format!("hit ratio {:.4}", counts.hits as f64 / counts.lookups.max(1) as f64));
        }
    }

    fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

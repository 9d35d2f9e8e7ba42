//! A stress test of a cache's consistency under concurrent calls: `millpond bench check`.
//!
//! Threads get, set, delete and touch the same keys as fast as they can, while pool and memory
//! limits move, values expire and all keys are flushed. Every call is recorded in the history of
//! its key, and some legal order of the calls must explain every answer: the checker of CacheLib's
//! consistency stress (cachebench's `checkConsistency`), made exact, and extended by expiry,
//! flushes and limits. `docs/consistency.md` describes it.
//!
//! - `value`: what is written, so that torn and foreign bytes show.
//! - `lives`: the rule for one key. `history`: the locks around it, and logical time.
//! - `subject`: the interface to the cache under test, which `embedded` and `server` implement.
//!   `plant`: faults planted on purpose.
//! - `memcached`, `resp`: what a server's clients speak. `line`: the bytes of a connection.
//! - `admin`: every operation of an administrator, timed.
//! - `preset`: declared runs. `drive`: the threads of a run. `report`: what is said about it.

mod admin;
mod drive;
mod embedded;
pub(crate) mod history;
pub(crate) mod line;
mod lives;
pub(crate) mod memcached;
pub(crate) mod plant;
mod preset;
pub(crate) mod record;
mod report;
pub(crate) mod resp;
pub(crate) mod server;
pub(crate) mod subject;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use base::ByteSize;
use millpond::strategy::{Random, Strategy};
use millpond::{PolicyKind, SizeClassConfig};
use workload::length::Length;
use workload::{Mix, Popularity, Sizes};

pub use admin::AdminCalls;
pub use plant::PlantKind;
pub use preset::{PRESETS, Preset};
pub use report::{CheckReport, Disturbances, Violation};

use bench::targets::TargetUrl;
use bench::targets::embedded::EmbeddedOptions;
use embedded::EmbeddedSubject;
use server::ServerSubject;
use subject::Subject;

/// The workload of a check, and the settings of the cache under test.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckSpec {
    /// The name in reports.
    pub name: String,
    /// All memory of an embedded cache. Default 64 MiB.
    pub memory: ByteSize,
    /// Each pool's share of memory, of keys and of calls. Default one pool.
    pub pools: Vec<f64>,
    /// The eviction policy of an embedded cache. Default S3-FIFO.
    pub policy: PolicyKind,
    /// The chunk sizes of an embedded cache. Default by factor 1.25.
    pub classes: SizeClassConfig,
    /// The policy by which size classes of an embedded cache trade slabs during the run. Default at
    /// random.
    pub strategy: Strategy,
    /// Number of keys, all pools together. Default 20,000.
    pub keys: u64,
    /// Sizes of keys. Default 8–64 bytes.
    pub key_size: Sizes,
    /// Sizes of values; each write draws one. Default 32 B–16 KiB. At least 32.
    pub value_size: Sizes,
    /// Distribution of calls over keys. Default zipf:0.9.
    pub popularity: Popularity,
    /// Calls by weight. Default get=60,set=25,delete=10,touch=5.
    pub mix: Mix,
    /// Lifetimes in seconds, of those writes and touches that set one. Default 1–20.
    pub ttl_secs: Sizes,
    /// The share of writes and touches that set a lifetime, 0 to 1. Default 0.2.
    pub ttl_share: f64,
    /// Calling threads. Default 4.
    pub threads: usize,
    /// For how long a thread sleeps after every 64 of its calls or so, in milliseconds, so that
    /// there may be more threads than processors have time for. Default 0.
    pub pause_ms: u64,
    /// Parts of an original workload that have no equivalent here.
    pub not_expressed: Vec<String>,
}

impl Default for CheckSpec {
    fn default() -> Self {
        let sizes = |low, high| Sizes::weighted(vec![(low, high, 1.0)]).unwrap_or_else(|| Sizes::fixed(low));
        Self {
            name: "default".into(),
            memory: ByteSize::mib(64),
            pools: vec![1.0],
            policy: PolicyKind::default(),
            classes: SizeClassConfig::default(),
            strategy: Strategy::Random(Random::default()),
            keys: 20_000,
            key_size: sizes(8, 64),
            value_size: sizes(32, 16 << 10),
            popularity: Popularity::Zipf { alpha: 0.9 },
            mix: Mix { get: 60.0, set: 25.0, delete: 10.0, touch: 5.0, ..Mix::default() },
            ttl_secs: sizes(1, 20),
            ttl_share: 0.2,
            threads: 4,
            pause_ms: 0,
            not_expressed: Vec::new(),
        }
    }
}

impl CheckSpec {
    /// Scales memory and keys down until the memory is at most `most`.
    pub fn fit_into(&mut self, most: ByteSize) {
        let share = most.as_u64() as f64 / self.memory.as_u64() as f64;
        if share < 1.0 {
            self.memory = most;
            self.keys = ((self.keys as f64 * share).ceil() as u64).max(self.pools.len() as u64);
        }
    }

    fn check(&self) -> Result<()> {
        if self.threads == 0 || self.threads > 1_024 {
            bail!("1 to 1024 threads can call");
        }
        if self.keys < self.pools.len() as u64 || self.keys > 1 << 28 {
            bail!("{} keys: give at least one to each pool, and at most 2^28", self.keys);
        }
        if self.pools.is_empty() || self.pools.iter().any(|share| !share.is_finite() || *share <= 0.0) {
            bail!("pools are shares above 0, at least one");
        }
        if !(0.0..=1.0).contains(&self.ttl_share) {
            bail!("the share of calls that set a lifetime is from 0 to 1");
        }
        if self.mix.lone_get > 0.0 || self.mix.lone_set > 0.0 {
            bail!("lone-get and lone-set have no history to check: leave them out of the mix");
        }
        Ok(())
    }
}

/// Options of one run of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckOptions {
    /// The cache under test. Default embedded.
    pub target: TargetUrl,
    /// For how long: a time, or calls of all threads together. Default 1,000,000 calls.
    pub length: Length,
    /// The seed of all random numbers. It does not determine how threads interleave. Default 1.
    pub seed: u64,
    /// Moves limits of pools and memory, and has size classes trade slabs. Default true.
    pub moves_limits: bool,
    /// Calls all operations of an administrator during the run, and times them; embedded only.
    /// Default false.
    pub administers: bool,
    /// Flushes all keys now and then. Default true.
    pub flushes: bool,
    /// Number of times that the cache is closed and taken over again, at equal distances; needs
    /// `shared`. Default 0.
    pub restarts: u64,
    /// A folder in memory for an embedded cache, such as `/dev/shm/check`; it must not be there
    /// yet, and is gone afterwards. Default none.
    pub shared: Option<PathBuf>,
    /// Pause between two disturbances, in milliseconds. Default 20.
    pub disturb_every_ms: u64,
    /// A fault to plant, and `n`: it strikes in one of `n` calls in which it can. Default none.
    pub plant: Option<(PlantKind, u64)>,
    /// Number of violations that end the run. Default 1.
    pub max_violations: usize,
    /// Shows progress on a terminal. Default false.
    pub progress: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            target: TargetUrl::Embedded,
            length: Length::Operations(1_000_000),
            seed: 1,
            moves_limits: true,
            administers: false,
            flushes: true,
            restarts: 0,
            shared: None,
            disturb_every_ms: 20,
            plant: None,
            max_violations: 1,
            progress: false,
        }
    }
}

/// Checks a cache. What was found is in the report.
///
/// # Errors
/// Where the declaration makes no sense, the cache cannot be made or reached, or a thread panics.
pub fn check(spec: &CheckSpec, options: &CheckOptions) -> Result<CheckReport> {
    spec.check()?;
    if options.restarts > 0 && (options.shared.is_none() || options.target != TargetUrl::Embedded) {
        bail!("only an embedded cache in a folder in memory can be restarted");
    }
    if options.administers && options.target != TargetUrl::Embedded {
        bail!("only an embedded cache can be administered meanwhile");
    }
    let folder = options.shared.clone().map(Folder::new).transpose()?;
    let subject: Box<dyn Subject> = match &options.target {
        TargetUrl::Embedded => {
            let engine = EmbeddedOptions {
                memory: spec.memory,
                policy: spec.policy,
                classes: spec.classes.clone(),
                strategy: spec.strategy.clone(),
                shared: folder.as_ref().map(|folder| folder.0.clone()),
                ..EmbeddedOptions::default()
            };
            Box::new(EmbeddedSubject::new(&engine, &spec.pools, options.moves_limits)?)
        }
        TargetUrl::Memcached(address) => {
            Box::new(ServerSubject::<memcached::Client>::open(address, options.target.to_string())?)
        }
        TargetUrl::Redis(address) => {
            Box::new(ServerSubject::<resp::Client>::open(address, options.target.to_string())?)
        }
        TargetUrl::Null => bail!("`null` stores nothing to check: use `embedded` or a server"),
    };
    drive::run(subject, spec, options)
}

/// A folder for the check alone, which is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(path: PathBuf) -> Result<Self> {
        std::fs::create_dir(&path).with_context(|| format!("making the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

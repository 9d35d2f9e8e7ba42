//! CacheBench's configurations, whole: the cache, the requests, and how they are driven.
//!
//! A file is an object with a `cache_config` and a `test_config`, or a list of such objects:
//! several caches that are driven at the same time. Every key is honoured or refused by name
//! ([`KEYS`]); what a configuration asks of production machines is scaled down, keys, memory and
//! operations alike, so that hit ratios stay what they are. `docs/cachebench.md` is the page for
//! readers; how the requests are interpreted is in `workload`.

mod keys;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use base::ByteSize;
use millpond::strategy::{HitsPerSlab, Random, Strategy, TailAge};
use millpond::{PolicyKind, PoolConfig, SizeClassConfig};
use serde_json::{Map, Value};
use workload::{Workload, WorkloadError};

pub use keys::{KEYS, Key, Rule, Section};

use crate::targets::embedded::PoolShape;
use keys::{Verdict, judge};

/// An error that keeps a configuration from being run.
#[derive(Debug, thiserror::Error)]
pub enum CacheBenchError {
    /// The file cannot be read, is not as CacheBench has it, or its requests make no sense.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// It asks for what is not done here; all of it, one reason per line.
    #[error("{file} asks for what is not done here:\n{list}\n--ignore-unsupported goes on without them")]
    Unsupported {
        /// The file.
        file: String,
        /// `path.of.key = value: why`, a line for each.
        list: String,
    },
    /// A value makes no sense.
    #[error("{file}: `{key}` {problem}")]
    Value {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// A description of the problem.
        problem: String,
    },
}

/// Changes to a configuration before it is run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The share of memory, keys and operations to keep, above 0 and at most 1. Default all.
    pub scale: Option<f64>,
    /// The memory of the cache instead of the configuration's; without `scale`, everything is
    /// scaled alike.
    pub memory: Option<ByteSize>,
    /// The number of keys instead.
    pub keys: Option<u64>,
    /// Leaves out unsupported keys instead of refusing them.
    pub ignore_unsupported: bool,
    /// Names the random numbers of sizes. Default 0.
    pub seed: u64,
}

/// A configuration that can be run.
#[derive(Debug)]
pub struct Instance {
    /// All memory of the cache.
    pub memory: ByteSize,
    /// Its pools.
    pub pools: Vec<PoolShape>,
    /// Their eviction policy.
    pub policy: PolicyKind,
    /// Their chunk sizes.
    pub classes: SizeClassConfig,
    /// The policy that rebalances slabs.
    pub strategy: Strategy,
    /// Interval between rebalances; `None`: never.
    pub rebalance_every: Option<Duration>,
    /// The requests. Its notes say what was ignored or scaled.
    pub workload: Workload,
    /// Threads.
    pub threads: usize,
    /// Operations, all threads together.
    pub operations: u64,
    /// After how many operations a thread pauses, and for how long.
    pub pause: Option<(u64, Duration)>,
    /// Operations per second, all threads together.
    pub rate: Option<f64>,
}

/// The least memory of a cache.
const LEAST_MEMORY: ByteSize = ByteSize::mib(8);
const SLAB_BYTES: u64 = 4 << 20;

/// Reads a configuration: a file, or a folder with a `config.json`. One instance for each cache.
///
/// # Errors
/// Where the file cannot be read, makes no sense, or asks for what is not done here.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Vec<Instance>, CacheBenchError> {
    let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let instances = match Workload::read_cachebench_json(&file)? {
        Value::Array(instances) => instances,
        one => vec![one],
    };
    let many = instances.len() > 1;
    let mut loaded = Vec::new();
    let mut refused = Vec::new();
    for (i, instance) in instances.iter().enumerate() {
        let prefix = if many { format!("[{i}].") } else { String::new() };
        let reader = Reader { file: file.clone(), prefix, overrides };
        let (config, findings) = reader.sift(instance)?;
        if !findings.refused.is_empty() && !overrides.ignore_unsupported {
            refused.extend(findings.refused);
        } else if refused.is_empty() {
            loaded.push(reader.instance(&config, findings)?);
        }
    }
    if refused.is_empty() {
        return Ok(loaded);
    }
    let list = refused.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n");
    Err(CacheBenchError::Unsupported { file: file.display().to_string(), list })
}

/// The keys of the file that are refused or have no effect.
#[derive(Default)]
struct Findings {
    refused: Vec<String>,
    moot: Vec<String>,
}

/// A configuration without what is refused.
struct Sifted {
    cache: Map<String, Value>,
    test: Map<String, Value>,
}

struct Reader<'a> {
    file: PathBuf,
    /// The text in front of the names of keys in messages.
    prefix: String,
    overrides: &'a Overrides,
}

impl Reader<'_> {
    /// Checks every key, and leaves out the refused ones.
    fn sift(&self, instance: &Value) -> Result<(Sifted, Findings), CacheBenchError> {
        let Value::Object(instance) = instance else {
            return Err(self.wrong("", "is not an object with `cache_config` and `test_config`"));
        };
        let mut findings = Findings::default();
        for key in instance.keys().filter(|key| !["cache_config", "test_config"].contains(&key.as_str())) {
            findings
                .refused
                .push(format!("{}{key}: only cache_config and test_config stand here", self.prefix));
        }
        let part = |name: &str| match instance.get(name) {
            None => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object.clone()),
            Some(_) => Err(self.wrong(name, "is not an object")),
        };
        let (mut cache, mut test) = (part("cache_config")?, part("test_config")?);
        self.judge_all(Section::Cache, "cache_config", &mut cache, &mut findings);
        self.judge_all(Section::Test, "test_config", &mut test, &mut findings);
        if let Some(Value::Array(pools)) = test.get_mut("poolDistributions") {
            for (i, pool) in pools.iter_mut().enumerate() {
                let Value::Object(pool) = pool else { continue };
                let name = format!("test_config.poolDistributions[{i}]");
                self.judge_all(Section::Requests, &name, pool, &mut findings);
            }
        }
        Ok((Sifted { cache, test }, findings))
    }

    fn judge_all(
        &self,
        section: Section,
        name: &str,
        config: &mut Map<String, Value>,
        findings: &mut Findings,
    ) {
        let whole = config.clone();
        config.retain(|key, value| match judge(section, key, value, &whole) {
            Verdict::Honoured => true,
            Verdict::Moot(why) => {
                findings.moot.push(format!("{key} ({why})"));
                true
            }
            Verdict::Refused(why) => {
                let mut shown = value.to_string();
                if shown.len() > 40 {
                    shown = "...".into();
                }
                findings.refused.push(format!("{}{name}.{key} = {shown}: {why}", self.prefix));
                false
            }
        });
    }

    fn instance(&self, config: &Sifted, findings: Findings) -> Result<Instance, CacheBenchError> {
        let wanted = match self.number(&config.cache, "cacheSizeMB")? {
            Some(mib) if mib > 0.0 => ByteSize::new((mib * 1_048_576.0) as u64),
            _ => return Err(self.wrong("cacheSizeMB", "is missing or 0: how large is the cache?")),
        };
        let (memory, scale) = self.scaled(wanted)?;
        let overrides = self.overrides;
        let mut workload =
            Workload::of_cachebench(&self.file, &config.test, overrides.keys, scale, overrides.seed)?;
        let threads = self.number(&config.test, "numThreads")?.unwrap_or(1.0).max(1.0) as usize;
        let operations = self.number(&config.test, "numOps")?.unwrap_or(0.0);
        let pools = self.pools(&config.cache, memory, workload.pools().len())?;
        let delay = (self.number(&config.test, "opDelayBatch")?, self.number(&config.test, "opDelayNs")?);
        let pause = match delay {
            (Some(batch), Some(nanos)) if batch > 0.0 && nanos > 0.0 => {
                Some((batch as u64, Duration::from_nanos(nanos as u64)))
            }
            _ => None,
        };
        workload.add_notes(findings.refused.iter().map(|line| format!("ignored: {line}")));
        if !findings.moot.is_empty() {
            workload.add_notes([format!("without effect here: {}", findings.moot.join(", "))]);
        }
        if scale < 1.0 {
            workload
                .add_notes([format!("scaled to {scale:.6} of its memory ({wanted}), keys and operations")]);
        }
        workload.add_notes(few_slabs(memory, &self.classes(&config.cache)?));
        Ok(Instance {
            memory,
            pools,
            policy: self.policy(&config.cache)?,
            classes: self.classes(&config.cache)?,
            strategy: self.strategy(&config.cache)?,
            rebalance_every: self
                .number(&config.cache, "poolRebalanceIntervalSec")?
                .filter(|secs| *secs > 0.0)
                .map(Duration::from_secs_f64),
            workload,
            threads,
            operations: ((operations * threads as f64 * scale).ceil() as u64).max(1),
            pause,
            rate: self.number(&config.test, "opRatePerSec")?.filter(|rate| *rate > 0.0),
        })
    }

    /// The memory that the cache gets, and the share of everything that is kept.
    fn scaled(&self, wanted: ByteSize) -> Result<(ByteSize, f64), CacheBenchError> {
        let share = |memory: ByteSize| (memory.as_u64() as f64 / wanted.as_u64() as f64).min(1.0);
        let (memory, scale) = match (self.overrides.memory, self.overrides.scale) {
            (None, None) => (wanted, 1.0),
            (None, Some(scale)) => (ByteSize::new((wanted.as_u64() as f64 * scale) as u64), scale),
            (Some(memory), scale) => (memory, scale.unwrap_or_else(|| share(memory))),
        };
        if !(scale > 0.0 && scale <= 1.0) {
            return Err(self.wrong("--scale", "is a share above 0 and at most 1"));
        }
        if memory < LEAST_MEMORY {
            let least = share(LEAST_MEMORY);
            let problem = format!(
                "leaves {memory} of {wanted}: a cache has at least {LEAST_MEMORY}, --scale {least:.5}"
            );
            return Err(self.wrong("cacheSizeMB", &problem));
        }
        Ok((memory, scale))
    }

    fn pools(
        &self,
        config: &Map<String, Value>,
        memory: ByteSize,
        asked: usize,
    ) -> Result<Vec<PoolShape>, CacheBenchError> {
        let count = self.number(config, "numPools")?.unwrap_or(1.0) as usize;
        let sizes = match config.get("poolSizes") {
            None => vec![1.0; count.min(1)],
            Some(value) => self.numbers("poolSizes", value)?,
        };
        if count == 0 || sizes.len() != count {
            return Err(self.wrong("poolSizes", &format!("has {} entries for {count} pools", sizes.len())));
        }
        if sizes.iter().sum::<f64>() > 1.0 + 1e-6 {
            return Err(self.wrong("poolSizes", "sum to more than the cache"));
        }
        if asked > count {
            return Err(self.wrong("numPools", &format!("is {count}, but requests go to {asked} pools")));
        }
        let limit = |share: f64| {
            let slabs = (memory.as_u64() as f64 * share) as u64 / SLAB_BYTES;
            ByteSize::new(slabs.max(1) * SLAB_BYTES)
        };
        let shape = |(i, share): (usize, &f64)| PoolShape {
            name: format!("pool{i}"),
            limit: (count > 1).then(|| limit(*share)),
        };
        Ok(sizes.iter().enumerate().map(shape).collect())
    }

    fn policy(&self, config: &Map<String, Value>) -> Result<PolicyKind, CacheBenchError> {
        let number =
            |key: &str, default: f64| Ok::<_, CacheBenchError>(self.number(config, key)?.unwrap_or(default));
        let allocator = config.get("allocator").and_then(Value::as_str).unwrap_or("LRU");
        let insertion = number("lruIpSpec", 0.0)?;
        let (key, text) = if allocator.ends_with("2Q") {
            let (hot, cold) = (number("lru2qHotPct", 20.0)?, number("lru2qColdPct", 20.0)?);
            ("allocator", format!("2q:{hot}:{cold}"))
        } else if insertion > 0.0 {
            ("lruIpSpec", format!("lru+{insertion}"))
        } else {
            ("lruRefreshSec", format!("lru:{}", number("lruRefreshSec", 60.0)?))
        };
        match text.parse() {
            Ok(policy) => Ok(policy),
            Err(_) if self.overrides.ignore_unsupported => Ok(PolicyKind::LRU),
            Err(error) => Err(self.wrong(key, &format!("asks for the policy {text}: {error}"))),
        }
    }

    /// The strategy; that of the engine where nothing is rebalanced.
    fn strategy(&self, config: &Map<String, Value>) -> Result<Strategy, CacheBenchError> {
        if self.number(config, "poolRebalanceIntervalSec")?.unwrap_or(0.0) == 0.0 {
            return Ok(PoolConfig::default().strategy);
        }
        let min_slabs = self.number(config, "rebalanceMinSlabs")?.unwrap_or(1.0) as u64;
        let min_difference_ratio = self.number(config, "rebalanceDiffRatio")?.unwrap_or(0.25);
        Ok(match config.get("rebalanceStrategy").and_then(Value::as_str) {
            Some("tail-age") => {
                Strategy::TailAge(TailAge { min_slabs, min_difference_ratio, ..TailAge::default() })
            }
            Some("hits") => Strategy::HitsPerSlab(HitsPerSlab {
                min_slabs,
                min_difference_ratio,
                ..HitsPerSlab::default()
            }),
            _ => Strategy::Random(Random { min_slabs }),
        })
    }

    fn classes(&self, config: &Map<String, Value>) -> Result<SizeClassConfig, CacheBenchError> {
        let size = |key: &str, bytes: f64| {
            let fits = (64.0..=SLAB_BYTES as f64).contains(&bytes);
            if fits { Ok(bytes as u32) } else { Err(self.wrong(key, "is not a chunk of 64 B to 4 MiB")) }
        };
        if let Some(sizes) = config.get("allocSizes") {
            let sizes = self.numbers("allocSizes", sizes)?;
            let sizes =
                sizes.into_iter().map(|bytes| size("allocSizes", bytes)).collect::<Result<Vec<_>, _>>()?;
            return Ok(SizeClassConfig::List(sizes));
        }
        let number =
            |key: &str, default: f64| Ok::<_, CacheBenchError>(self.number(config, key)?.unwrap_or(default));
        let mut factor = number("allocFactor", 1.5)?;
        if !(factor > 1.0 && factor <= 4.0) {
            if !self.overrides.ignore_unsupported {
                return Err(self.wrong("allocFactor", "is not above 1 and at most 4"));
            }
            factor = 4.0;
        }
        let min = size("minAllocSize", number("minAllocSize", 64.0)?)?;
        let max = size("maxAllocSize", number("maxAllocSize", 1_048_576.0)?)?;
        Ok(SizeClassConfig::Factor { factor, min, max })
    }

    fn number(&self, config: &Map<String, Value>, key: &str) -> Result<Option<f64>, CacheBenchError> {
        let number = |value: &Value| value.as_f64().filter(|number| *number >= 0.0);
        match config.get(key) {
            None => Ok(None),
            Some(value) => match number(value) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, "is not a number from 0 up")),
            },
        }
    }

    fn numbers(&self, key: &str, value: &Value) -> Result<Vec<f64>, CacheBenchError> {
        let list = value.as_array().map(|list| list.iter().map(Value::as_f64).collect::<Option<Vec<_>>>());
        list.flatten().ok_or_else(|| self.wrong(key, "is not a list of numbers"))
    }

    fn wrong(&self, key: &str, problem: &str) -> CacheBenchError {
        CacheBenchError::Value {
            file: self.file.display().to_string(),
            key: format!("{}{key}", self.prefix),
            problem: problem.to_owned(),
        }
    }
}

/// A caution where the memory is too little for the chunk sizes: the figures are then about slabs
/// and not about policy.
fn few_slabs(memory: ByteSize, classes: &SizeClassConfig) -> Option<String> {
    let classes = match classes {
        SizeClassConfig::List(sizes) => sizes.len() as f64,
        SizeClassConfig::Factor { factor, min, max } => {
            (f64::from(*max) / f64::from(*min)).log(*factor).ceil() + 1.0
        }
    };
    let slabs = memory.as_u64() / SLAB_BYTES;
    let few = (slabs as f64) < 3.0 * classes;
    few.then(|| {
        format!(
            "{slabs} slabs of 4 MiB for up to {classes} chunk sizes: too few for hit ratios to be those of the full size; \
             give more memory or --scale"
        )
    })
}

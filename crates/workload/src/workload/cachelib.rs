//! CacheBench's configurations with Meta's published distributions, read as CacheBench means them.
//!
//! A configuration is a folder with a `config.json`, or such a file; it names its popularity and
//! size files. Only what shapes the requests is used; what is not is listed, so that nobody takes
//! it for done. Source: facebook/CacheLib, `cachebench/util/Config.h` and `cachebench/workload`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::popularity::{Buckets, Popular};
use super::{Mix, PoolPlan, Popularity, Sizes, WorkloadError};

/// The smallest key of CacheBench's online generator, which writes the key's number as eight bytes.
const ONLINE_KEY_BYTES: u32 = 8;

/// The requests that a configuration declares.
pub(super) struct CacheBench {
    pub(super) pools: Vec<PoolPlan>,
    pub(super) look_aside: bool,
    pub(super) notes: Vec<String>,
}

/// Fields that are used, or that say nothing about the requests.
const KNOWN: [&str; 29] = [
    "addChainedRatio",
    "couldExistRatio",
    "delRatio",
    "enableLookaside",
    "generator",
    "getRatio",
    "keyPoolDistribution",
    "keySizeRange",
    "keySizeRangeProbability",
    "loneGetRatio",
    "loneSetRatio",
    "numKeys",
    "numOps",
    "numThreads",
    "opPoolDistribution",
    "popDistFile",
    "poolDistributions",
    "popularityBuckets",
    "popularityWeights",
    "samplingIntervalMs",
    "setRatio",
    "ttlSecsRange",
    "ttlSecsRangeProbability",
    "updateRatio",
    "useLegacyKeyGen",
    "valSizeDistFile",
    "valSizeRange",
    "valSizeRangeProbability",
    "name",
];

/// Reads the configuration at `path`; `keys` overrides its number of keys. What is not used is
/// noted.
pub(super) fn load(path: &Path, keys: Option<u64>) -> Result<CacheBench, WorkloadError> {
    let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let root = read_json(&file)?;
    let root = match root {
        Value::Array(mut instances) if instances.len() == 1 => instances.remove(0),
        Value::Array(instances) => {
            let problem = format!("{} cache instances in one file; split them", instances.len());
            return Err(WorkloadError::file(&file, problem));
        }
        other => other,
    };
    let Some(Value::Object(config)) = root.get("test_config") else {
        return Err(WorkloadError::file(
            &file,
            "no object `test_config`: is this a CacheBench configuration?",
        ));
    };
    let read = Reader { file, config, keys, scale: 1.0 }.read()?;
    Ok(CacheBench { notes: notes(config), ..read })
}

/// Reads the requests of a `test_config` that stands in `file`, with the share `scale` of its keys.
pub(super) fn requests(
    file: &Path,
    config: &Map<String, Value>,
    keys: Option<u64>,
    scale: f64,
) -> Result<CacheBench, WorkloadError> {
    Reader { file: file.to_owned(), config, keys, scale }.read()
}

struct Reader<'a> {
    file: PathBuf,
    config: &'a Map<String, Value>,
    /// Instead of the configuration's number of keys.
    keys: Option<u64>,
    /// The share of the keys that can be asked for to be kept, above 0 and at most 1.
    scale: f64,
}

impl Reader<'_> {
    fn read(&self) -> Result<CacheBench, WorkloadError> {
        let config = self.config;
        let keys = match self.keys {
            Some(keys) => keys,
            None => {
                self.number(config, "numKeys")?.map_or(Err(self.lacks("numKeys")), |keys| Ok(keys as u64))?
            }
        };
        if keys == 0 || keys > super::MAX_KEYS {
            return Err(self.wrong(format!("{keys} keys: give 1 to 2^60 of them")));
        }
        let shares = self.numbers(config, "keyPoolDistribution")?.unwrap_or_else(|| vec![1.0]);
        let op_weights = self.numbers(config, "opPoolDistribution")?.unwrap_or_else(|| vec![1.0]);
        if shares.len() != op_weights.len() || shares.is_empty() {
            return Err(self.wrong("keyPoolDistribution and opPoolDistribution are not of one length"));
        }
        let own = std::slice::from_ref(config);
        let inner: Vec<Map<String, Value>> = match config.get("poolDistributions") {
            Some(Value::Array(pools)) => pools.iter().filter_map(|pool| pool.as_object().cloned()).collect(),
            _ => own.to_vec(),
        };
        let online = config.get("generator").and_then(Value::as_str) == Some("online");
        let (mut pools, mut first_key) = (Vec::<PoolPlan>::new(), 0);
        for (i, (range, op_weight)) in super::split(keys, &shares).into_iter().zip(op_weights).enumerate() {
            let inner = if inner.len() > 1 { inner.get(i) } else { inner.first() };
            let inner = inner.ok_or_else(|| self.wrong("poolDistributions has too few entries"))?;
            let count = range.end.saturating_sub(range.start);
            let pool = self.pool(inner, i, (first_key, count), op_weight, online)?;
            first_key += pool.keys;
            pools.push(pool);
        }
        let look_aside = config.get("enableLookaside").and_then(Value::as_bool).unwrap_or(false);
        Ok(CacheBench { pools, look_aside, notes: Vec::new() })
    }

    fn pool(
        &self,
        config: &Map<String, Value>,
        number: usize,
        (first_key, count): (u64, u64),
        op_weight: f64,
        online: bool,
    ) -> Result<PoolPlan, WorkloadError> {
        if count == 0 {
            return Err(self.wrong(format!("pool {number} has no keys")));
        }
        let mix = self.mix(config)?;
        let key_sizes = self.distribution(config, "keySizeRange", "keySizeRangeProbability")?;
        let value_sizes = match self.file_of(config, "valSizeDistFile")? {
            Some(sizes) => self.distribution(&sizes, "valSizeRange", "valSizeRangeProbability")?,
            None => self.distribution(config, "valSizeRange", "valSizeRangeProbability")?,
        };
        let ttl_secs = match config.contains_key("ttlSecsRange") {
            true => Some(self.distribution(config, "ttlSecsRange", "ttlSecsRangeProbability")?),
            false => None,
        };
        let (popular, keys) = self.popular(config, count)?;
        Ok(PoolPlan {
            name: format!("pool{number}"),
            first_key,
            popular,
            key_sizes,
            least_key_size: if online { ONLINE_KEY_BYTES } else { 1 },
            value_sizes,
            ttl_secs: ttl_secs.unwrap_or_else(|| Sizes::fixed(0)),
            mix,
            op_weight,
            keys,
        })
    }

    /// The popularity over a pool's keys, and how many these are when scaled.
    ///
    /// What is scaled are the keys that can be asked for at all: a cache that is scaled alike then
    /// sees the same curve.
    fn popular(&self, config: &Map<String, Value>, keys: u64) -> Result<(Popular, u64), WorkloadError> {
        let scaled = |keys: u64| ((keys as f64 * self.scale).ceil() as u64).clamp(1, keys.max(1));
        let from_file = self.file_of(config, "popDistFile")?;
        let source = from_file.as_ref().unwrap_or(config);
        let objects = self.numbers(source, "popularityBuckets")?;
        let weights = self.numbers(source, "popularityWeights")?;
        let (Some(objects), Some(weights)) = (objects, weights) else {
            let keys = scaled(keys);
            return Ok((Popular::new(Popularity::Normal, keys), keys));
        };
        let objects: Vec<u64> = objects.into_iter().map(|objects| objects as u64).collect();
        let total: u64 = objects.iter().sum();
        let legacy = config.get("useLegacyKeyGen").and_then(Value::as_bool).unwrap_or(false);
        let (keys, fit) = match (legacy, self.scale < 1.0) {
            (false, false) => (keys, Some(keys)),
            (true, false) => (keys, None),
            (false, true) => (scaled(keys), Some(scaled(keys))),
            (true, true) => (scaled(total), Some(scaled(total))),
        };
        Buckets::new(objects, weights, fit)
            .map(|buckets| (Popular::Buckets(buckets), keys))
            .ok_or_else(|| self.wrong("popularityBuckets and popularityWeights do not fit each other"))
    }

    fn mix(&self, config: &Map<String, Value>) -> Result<Mix, WorkloadError> {
        for undriven in ["addChainedRatio", "updateRatio", "couldExistRatio"] {
            if self.number(config, undriven)?.is_some_and(|ratio| ratio > 0.0) {
                return Err(self.wrong(format!("`{undriven}` is above 0, which this bench does not drive")));
            }
        }
        let ratio = |name: &str| Ok(self.number(config, name)?.unwrap_or(0.0));
        let mix = Mix {
            get: ratio("getRatio")?,
            set: ratio("setRatio")?,
            delete: ratio("delRatio")?,
            touch: 0.0,
            lone_get: ratio("loneGetRatio")?,
            lone_set: ratio("loneSetRatio")?,
        };
        if mix.weights().iter().sum::<f64>() > 0.0 { Ok(mix) } else { Err(self.wrong("all ratios are 0")) }
    }

    /// Sizes with probabilities: as many of both are exact sizes; one size more is the bounds of
    /// ranges, the upper one not included.
    fn distribution(
        &self,
        config: &Map<String, Value>,
        sizes: &str,
        weights: &str,
    ) -> Result<Sizes, WorkloadError> {
        let bounds = self.numbers(config, sizes)?.ok_or_else(|| self.lacks(sizes))?;
        let shares = self.numbers(config, weights)?.ok_or_else(|| self.lacks(weights))?;
        let size = |bound: f64| if bound < 0.0 { 0 } else { bound as u32 };
        let parts = if bounds.len() == shares.len() {
            bounds.iter().zip(&shares).map(|(bound, share)| (size(*bound), size(*bound), *share)).collect()
        } else if bounds.len() == shares.len() + 1 {
            let range = |pair: &[f64], share: &f64| {
                (size(pair[0]), size(pair[1]).saturating_sub(1).max(size(pair[0])), *share)
            };
            bounds.windows(2).zip(&shares).map(|(pair, share)| range(pair, share)).collect()
        } else {
            return Err(self.wrong(format!("`{sizes}` and `{weights}` do not fit each other")));
        };
        Sizes::weighted(parts).ok_or_else(|| self.wrong(format!("`{sizes}` is not a distribution")))
    }

    fn file_of(
        &self,
        config: &Map<String, Value>,
        field: &str,
    ) -> Result<Option<Map<String, Value>>, WorkloadError> {
        let Some(name) = config.get(field).and_then(Value::as_str) else { return Ok(None) };
        let path = self.file.with_file_name(name);
        match read_json(&path)? {
            Value::Object(object) => Ok(Some(object)),
            _ => Err(WorkloadError::file(&path, "not a JSON object")),
        }
    }

    fn number(&self, config: &Map<String, Value>, field: &str) -> Result<Option<f64>, WorkloadError> {
        match config.get(field) {
            None => Ok(None),
            Some(value) => match value.as_f64().filter(|number| *number >= 0.0) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(format!("`{field}` is not a number from 0 up"))),
            },
        }
    }

    fn numbers(&self, config: &Map<String, Value>, field: &str) -> Result<Option<Vec<f64>>, WorkloadError> {
        let Some(value) = config.get(field) else { return Ok(None) };
        let numbers = value.as_array().map(|list| list.iter().map(Value::as_f64).collect::<Option<Vec<_>>>());
        numbers.flatten().map(Some).ok_or_else(|| self.wrong(format!("`{field}` is not a list of numbers")))
    }

    fn lacks(&self, field: &str) -> WorkloadError {
        self.wrong(format!("no `{field}`"))
    }

    fn wrong(&self, problem: impl ToString) -> WorkloadError {
        WorkloadError::file(&self.file, problem)
    }
}

fn notes(config: &Map<String, Value>) -> Vec<String> {
    let unused: Vec<&str> =
        config.keys().map(String::as_str).filter(|field| !KNOWN.contains(field)).collect();
    if unused.is_empty() { Vec::new() } else { vec![format!("not used here: {}", unused.join(", "))] }
}

/// Reads JSON with `//` comments.
pub(super) fn read_json(path: &Path) -> Result<Value, WorkloadError> {
    let text = std::fs::read_to_string(path).map_err(|error| WorkloadError::file(path, error))?;
    serde_json::from_str(&without_comments(&text)).map_err(|error| WorkloadError::file(path, error))
}

/// CacheBench's JSON has `//` comments to the end of the line. They become blanks, so that places
/// in errors stay right.
fn without_comments(text: &str) -> String {
    let (mut out, mut in_string, mut escaped, mut in_comment) =
        (String::with_capacity(text.len()), false, false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\n' {
            in_comment = false;
        } else if !in_string && c == '/' && chars.peek() == Some(&'/') {
            in_comment = true;
        }
        if in_comment {
            out.push(' ');
            continue;
        }
        if in_string && !escaped && c == '\\' {
            escaped = true;
        } else {
            if c == '"' && !escaped {
                in_string = !in_string;
            }
            escaped = false;
        }
        out.push(c);
    }
    out
}

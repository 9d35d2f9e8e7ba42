//! The memory that size classes leave unused, before and after they follow the items.
//!
//! Requests of a workload or a trace fill an embedded cache with the default size classes; then
//! each pool is tuned ([`millpond::Cache::tune_classes`]), and as many requests follow. Slack is
//! the value that the library computes for the items of a pool ([`millpond::sizing`]), and the
//! value in the pool's statistics.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millpond::sizing::{Decision, Tuning};
use millpond::{ByteSize, Cache, CacheConfig, ItemOptions, PoolConfig, PoolId, PoolStats};
use serde::Serialize;

use workload::trace::{Op, TraceReader};
use workload::{OpKind, Sampler, Workload};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct SlackOptions {
    /// Memory of the cache. Default 256 MiB.
    pub memory: ByteSize,
    /// Requests before the pools are tuned, and after. Default 4,000,000.
    pub requests: u64,
    /// Names the requests. Default 1.
    pub seed: u64,
}

impl Default for SlackOptions {
    fn default() -> Self {
        Self { memory: ByteSize::mib(256), requests: 4_000_000, seed: 1 }
    }
}

/// The source of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A CacheBench configuration: a folder or a file.
    CacheBench(PathBuf),
    /// A trace with sizes.
    Trace(PathBuf),
}

/// A moment of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    /// Items.
    pub items: u64,
    /// Size classes that have items.
    pub classes: usize,
    /// Unused part of their chunks and slabs, as a share of the chunks with items and of the ends
    /// of slabs.
    pub slack: f64,
}

/// The result for one pool.
#[derive(Clone, Debug, Serialize)]
pub struct PoolSlack {
    /// Source and pool.
    pub name: String,
    /// Mean size of its items, headers included, in bytes.
    pub mean_item_bytes: u64,
    /// Slack with the default sizes, computed from the sizes of items.
    pub computed_before: f64,
    /// Slack with the best sizes of which there are as many as default ones, computed in the same
    /// way.
    pub computed_as_many: f64,
    /// Slack with the best sizes.
    pub computed_after: f64,
    /// True if the pool was tuned.
    pub tuned: bool,
    /// Before it was tuned.
    pub before: Moment,
    /// Right after.
    pub after: Moment,
    /// After as many requests again.
    pub later: Moment,
}

impl From<&PoolStats> for Moment {
    fn from(pool: &PoolStats) -> Self {
        let (slack, items) = (pool.slack_bytes() as f64, pool.sum(|class| class.item_bytes) as f64);
        Self {
            items: pool.sum(|class| class.items),
            classes: pool.classes.iter().filter(|class| class.items > 0).count(),
            slack: slack / (slack + items).max(1.0),
        }
    }
}

/// One request, its key apart.
struct Request {
    pool: usize,
    kind: OpKind,
    value_len: usize,
    looks_aside: bool,
}

enum Requests {
    Workload(Arc<Workload>, Box<Sampler>),
    Trace(PathBuf, Box<TraceReader>),
}

impl Requests {
    fn open(source: &Source, seed: u64) -> anyhow::Result<(Self, Vec<String>)> {
        Ok(match source {
            Source::CacheBench(path) => {
                let workload = Arc::new(Workload::from_cachebench(path, None, seed)?);
                let (name, several) = (stem(path), workload.pools().len() > 1);
                let pool_name = |pool: &workload::Pool| {
                    if several { format!("{name}/{}", pool.name()) } else { name.clone() }
                };
                let names = workload.pools().iter().map(pool_name).collect();
                let sampler = Sampler::new(Arc::clone(&workload), seed, 0, 1);
                (Self::Workload(workload, Box::new(sampler)), names)
            }
            Source::Trace(path) => {
                (Self::Trace(path.clone(), Box::new(TraceReader::open(path)?)), vec![stem(path)])
            }
        })
    }

    /// The next request, its key in `key`. A trace begins anew when it is over.
    fn next(&mut self, key: &mut Vec<u8>) -> anyhow::Result<Request> {
        match self {
            Self::Workload(workload, sampler) => {
                let op = sampler.draw();
                op.write_key(key);
                let looks_aside = workload.look_aside();
                let (pool, value_len) = (usize::from(op.pool), op.value_size as usize);
                Ok(Request { pool, kind: op.kind, value_len, looks_aside })
            }
            Self::Trace(path, reader) => {
                if let Some(request) = trace_request(reader, path, key)? {
                    return Ok(request);
                }
                **reader = TraceReader::open(path)?;
                let empty = || anyhow::anyhow!("{}: a trace without requests", path.display());
                trace_request(reader, path, key)?.ok_or_else(empty)
            }
        }
    }
}

fn trace_request(
    reader: &mut TraceReader,
    path: &Path,
    key: &mut Vec<u8>,
) -> anyhow::Result<Option<Request>> {
    let Some(request) = reader.next_request()? else { return Ok(None) };
    request.write_key(key);
    let no_size = || anyhow::anyhow!("{}: the trace has no sizes; take one that has", path.display());
    let value_len = usize::try_from(request.size.ok_or_else(no_size)?)?;
    let kind = match request.op {
        Op::Get => OpKind::Get,
        Op::Set => OpKind::Set,
        Op::Touch => OpKind::Touch,
        Op::Delete => OpKind::Delete,
    };
    Ok(Some(Request { pool: 0, kind, value_len, looks_aside: true }))
}

/// The name of a configuration's folder, or of a file.
fn stem(path: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let file = name(path).unwrap_or_default();
    match path.parent().and_then(name) {
        Some(folder) if file == "config.json" => folder,
        _ => file.split('.').next().unwrap_or_default().to_owned(),
    }
}

/// Runs one source through a cache of its own.
///
/// # Errors
/// Where the source cannot be read or the cache not be made.
pub fn run(source: &Source, options: &SlackOptions) -> anyhow::Result<Vec<PoolSlack>> {
    let (mut requests, names) = Requests::open(source, options.seed)?;
    let seeded = CacheConfig { hash_seed: Some(options.seed), ..CacheConfig::default() };
    let cache = Cache::new(CacheConfig { memory: options.memory, ..seeded })?;
    let own = |name: &String| PoolConfig { own_keys: true, ..PoolConfig::named(name.clone()) };
    let pools: Vec<PoolId> = names.iter().map(|name| cache.add_pool(own(name))).collect::<Result<_, _>>()?;
    let moments = || cache.stats().pools.iter().map(Moment::from).collect::<Vec<_>>();
    serve(&cache, &pools, &mut requests, options.requests)?;
    let before = moments();
    let bytes: Vec<u64> = cache.stats().pools.iter().map(|pool| pool.sum(|class| class.item_bytes)).collect();
    let decisions: Vec<_> = pools.iter().map(|pool| tune(&cache, *pool)).collect::<Result<_, _>>()?;
    let after = moments();
    serve(&cache, &pools, &mut requests, options.requests)?;
    let later = moments();
    cache.validate();
    let of_pool = |(i, (as_many, decision)): (usize, (Decision, Decision))| PoolSlack {
        name: names[i].clone(),
        mean_item_bytes: bytes[i] / before[i].items.max(1),
        computed_before: decision.now.share(),
        computed_as_many: as_many.then.share(),
        computed_after: decision.then.share(),
        tuned: decision.applies,
        before: before[i],
        after: after[i],
        later: later[i],
    };
    Ok(decisions.into_iter().enumerate().map(of_pool).collect())
}

/// Tunes a pool. Returns the decision with as many classes as by default, and the one that was
/// taken.
fn tune(cache: &Cache, pool: PoolId) -> Result<(Decision, Decision), millpond::Error> {
    // No gain is enough: it is only looked.
    let as_many =
        Tuning { most_classes: Some(DEFAULT_CLASSES), least_gain: f64::INFINITY, ..Tuning::default() };
    cache.set_pool_tuning(pool, Some(as_many))?;
    let as_many = cache.tune_classes(pool)?.decision;
    cache.set_pool_tuning(pool, None)?;
    Ok((as_many, cache.tune_classes(pool)?.decision))
}

/// Number of classes that a factor of 1.25 gives from 64 B to 4 MiB.
const DEFAULT_CLASSES: usize = 47;

fn serve(cache: &Cache, pools: &[PoolId], requests: &mut Requests, count: u64) -> anyhow::Result<()> {
    let mut key = Vec::new();
    for number in 0..count {
        let request = requests.next(&mut key)?;
        let pool = pools[request.pool];
        let keys = cache.keys(pool);
        let sets = match request.kind {
            OpKind::Get => keys.find_with(&key, |_| ()).is_none() && request.looks_aside,
            OpKind::Set => true,
            OpKind::Delete => {
                keys.remove(&key);
                false
            }
            OpKind::Touch => false,
        };
        // What is larger than any chunk is not cached here.
        if sets && let Ok(item) = cache.allocate(pool, &key, request.value_len, &ItemOptions::default()) {
            cache.put(item);
        }
        if number % (count / 100).max(1) == 0 {
            cache.maintain()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_falls_where_items_have_few_sizes() {
        let folder = std::env::temp_dir().join(format!("millpond-slack-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let trace = folder.join("two-sizes.csv");
        let lines: String = (0..20_000).map(|i| format!("{i},{}\n", [300, 700][i % 2])).collect();
        std::fs::write(&trace, format!("key,size\n{lines}")).expect("writes");
        let options = SlackOptions { memory: ByteSize::mib(32), requests: 40_000, ..SlackOptions::default() };
        let pools = run(&Source::Trace(trace), &options).expect("runs");
        std::fs::remove_dir_all(&folder).expect("removes");
        let [pool] = &pools[..] else { panic!("one pool: {pools:?}") };
        assert!(pool.tuned && pool.name == "two-sizes" && pool.before.items == 20_000, "{pool:?}");
        assert!(pool.before.slack > 0.04 && pool.later.slack < 0.02, "{pool:?}");
        assert!((pool.computed_before - pool.before.slack).abs() < 0.005, "{pool:?}");
        assert!((pool.computed_after - pool.after.slack).abs() < 0.005, "{pool:?}");
        assert_eq!((pool.after.items, pool.later.items), (20_000, 20_000), "nothing was lost");
        let error = run(&Source::Trace(PathBuf::from("/nowhere.csv")), &options).expect_err("is not there");
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}

use std::sync::Arc;

use workload::length::Length;
use workload::testing::traces;

use super::*;
use crate::run::{RunOptions, run_direct};
use crate::targets::embedded::{Embedded, EmbeddedOptions};

/// A configuration with these keys in its two parts.
fn file(folder: &Path, cache: &str, test: &str) -> PathBuf {
    let requests = "\"numKeys\": 1000, \"numOps\": 100, \"numThreads\": 2, \"keySizeRange\": [8, 16], \
                    \"keySizeRangeProbability\": [1], \"valSizeRange\": [100, 200], \"valSizeRangeProbability\": [1], \
                    \"getRatio\": 1";
    let path = folder.join("config.json");
    let text = format!(
        "// a comment\n{{\"cache_config\": {{\"cacheSizeMB\": 64{cache}}}, \"test_config\": {{{requests}{test}}}}}"
    );
    std::fs::write(&path, text).expect("written");
    path
}

fn loaded(cache: &str, test: &str, overrides: &Overrides) -> Result<Vec<Instance>, CacheBenchError> {
    let folder = tempfile::tempdir().expect("a folder");
    load(&file(folder.path(), cache, test), overrides)
}

fn one(cache: &str, test: &str) -> Instance {
    let mut all = loaded(cache, test, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn refusal(cache: &str, test: &str) -> String {
    loaded(cache, test, &Overrides::default()).expect_err("a refusal").to_string()
}

#[test]
fn what_a_configuration_says_of_the_cache_is_honoured() {
    let plain = one("", "");
    assert_eq!((plain.memory, plain.policy), (ByteSize::mib(64), PolicyKind::LRU));
    assert_eq!(plain.classes, SizeClassConfig::Factor { factor: 1.5, min: 64, max: 1 << 20 });
    assert_eq!((plain.threads, plain.operations, plain.pause, plain.rate), (2, 200, None, None));
    assert_eq!(plain.pools, [PoolShape { name: "pool0".into(), limit: None }]);

    let pools = one(", \"numPools\": 2, \"poolSizes\": [0.25, 0.75]", "");
    let limits: Vec<_> = pools.pools.iter().map(|pool| pool.limit).collect();
    assert_eq!(limits, [Some(ByteSize::mib(16)), Some(ByteSize::mib(48))]);

    let classes = one(", \"allocSizes\": [64, 1000, 4194304], \"lruRefreshSec\": 5", "");
    assert_eq!(classes.classes, SizeClassConfig::List(vec![64, 1_000, 4 << 20]));
    assert_eq!(classes.policy, PolicyKind::Lru { refresh_secs: 5 });
    let factor = one(", \"allocFactor\": 1.08, \"minAllocSize\": 128, \"maxAllocSize\": 524288", "");
    assert_eq!(factor.classes, SizeClassConfig::Factor { factor: 1.08, min: 128, max: 512 << 10 });
}

#[test]
fn what_a_configuration_says_of_rebalancing_is_honoured() {
    let none = one(", \"rebalanceStrategy\": \"hits\", \"moveOnSlabRelease\": true", "");
    assert_eq!((none.strategy, none.rebalance_every), (PoolConfig::default().strategy, None));
    let every = Some(Duration::from_secs(2));
    let strategies = [
        ("\"\"", Strategy::Random(Random { min_slabs: 3 })),
        (
            "\"hits\"",
            Strategy::HitsPerSlab(HitsPerSlab {
                min_slabs: 3,
                min_difference_ratio: 0.5,
                ..HitsPerSlab::default()
            }),
        ),
        (
            "\"tail-age\"",
            Strategy::TailAge(TailAge { min_slabs: 3, min_difference_ratio: 0.5, ..TailAge::default() }),
        ),
    ];
    for (name, strategy) in strategies {
        let cache = format!(
            ", \"poolRebalanceIntervalSec\": 2, \"rebalanceMinSlabs\": 3, \"rebalanceDiffRatio\": 0.5, \
             \"rebalanceStrategy\": {name}"
        );
        let instance = one(&cache, "");
        assert_eq!((instance.strategy, instance.rebalance_every), (strategy, every));
    }
}

#[test]
fn what_a_configuration_says_of_the_driving_is_honoured() {
    let paced = one(
        "",
        ", \"opDelayNs\": 1000, \"opDelayBatch\": 25, \"opRatePerSec\": 500, \"enableLookaside\": true",
    );
    assert_eq!(paced.pause, Some((25, Duration::from_micros(1))));
    assert_eq!(paced.rate, Some(500.0));
    assert!(paced.workload.look_aside());
    let seen = one(", \"htBucketPower\": 20, \"tryLockUpdate\": true", ", \"samplingIntervalMs\": 5");
    let notes = seen.workload.notes().join("\n");
    for key in ["htBucketPower", "tryLockUpdate", "samplingIntervalMs"] {
        assert!(notes.contains(key), "{key} is without effect, and that is said: {notes}");
    }
}

#[test]
fn keys_that_are_not_honoured_are_refused_by_name_all_at_once() {
    let error = refusal(
        ", \"cacheDir\": \"x\", \"rebalanceStrategy\": \"best\", \"nvmCacheSizeMB\": 512, \"navyArenas\": [1]",
        ", \"addChainedRatio\": 0.1, \"chainedItemLengthRange\": [1], \"checkConsistency\": true, \"preallocateCache\": true",
    );
    for key in [
        "cache_config.cacheDir = \"x\": a cache is not kept",
        "cache_config.rebalanceStrategy = \"best\": by tail age",
        "cache_config.nvmCacheSizeMB = 512: the engine has no flash",
        "cache_config.navyArenas",
        "test_config.addChainedRatio = 0.1: this program adds no chained items",
        "test_config.chainedItemLengthRange",
        "test_config.checkConsistency = true: consistency is checked by `millpond bench check",
        "test_config.preallocateCache = true: CacheBench has no such key any more",
        "--ignore-unsupported",
    ] {
        assert!(error.contains(key), "no `{key}` in {error}");
    }
    for (cache, test, reason) in [
        (", \"cacheSiezMB\": 5", "", "`cacheSizeMB` is the nearest"),
        (", \"getRatio\": 1", "", "cache_config.getRatio = 1: CacheBench has no such key"),
        (", \"allocator\": \"TinyLFU\"", "", "only \"LRU\""),
        (", \"allocFactor\": 10", "", "`allocFactor` is not above 1"),
        (", \"maxAllocSize\": 8388608", "", "`maxAllocSize` is not a chunk"),
        (", \"numPools\": 2", "", "`poolSizes` has 1 entries for 2 pools"),
        (", \"numPools\": 2, \"poolSizes\": [0.9, 0.9]", "", "more than the cache"),
        (", \"lruRefreshSec\": \"x\"", "", "`lruRefreshSec` is not a number"),
        ("", ", \"keyPoolDistribution\": [1, 1], \"opPoolDistribution\": [1, 1]", "requests go to 2 pools"),
        ("", ", \"generator\": \"replay\"", "millpond bench replay"),
        ("", ", \"poolDistributions\": [{\"getRatoi\": 1}]", "poolDistributions[0].getRatoi"),
    ] {
        let error = refusal(cache, test);
        assert!(error.contains(reason), "no `{reason}` in {error}");
    }
    // Keys that CacheBench would not act on aren't refused.
    one(
        ", \"poolRebalanceIntervalSec\": 0, \"rebalanceStrategy\": \"hits\", \"moveOnSlabRelease\": true",
        "",
    );
    one(", \"nvmCacheSizeMB\": 0", ", \"addChainedRatio\": 0, \"chainedItemLengthRange\": [1]");
}

#[test]
fn what_is_ignored_is_said() {
    let overrides = Overrides { ignore_unsupported: true, ..Overrides::default() };
    let (cache, test) = (", \"navyBlockSize\": 4096, \"allocFactor\": 10", ", \"addChainedRatio\": 0.5");
    let instance = loaded(cache, test, &overrides).expect("ignored").remove(0);
    let notes = instance.workload.notes().join("\n");
    assert!(
        notes.contains("ignored: cache_config.navyBlockSize = 4096: the engine has no flash tier"),
        "{notes}"
    );
    assert!(notes.contains("ignored: test_config.addChainedRatio"), "{notes}");
}

#[test]
fn memory_keys_and_operations_are_scaled_alike() {
    let keys = |instance: &Instance| instance.workload.distinct_keys();
    let scaled = |overrides| loaded("", "", &overrides).expect("scaled").remove(0);
    let half = scaled(Overrides { scale: Some(0.5), ..Overrides::default() });
    assert_eq!((half.memory, keys(&half), half.operations), (ByteSize::mib(32), 500, 100));
    let by_memory = scaled(Overrides { memory: Some(ByteSize::mib(16)), ..Overrides::default() });
    assert_eq!((by_memory.memory, keys(&by_memory), by_memory.operations), (ByteSize::mib(16), 250, 50));
    let both = Overrides { memory: Some(ByteSize::mib(16)), scale: Some(1.0), ..Overrides::default() };
    assert_eq!(keys(&scaled(both)), 1_000);
    for (scale, reason) in [(0.01, "--scale 0.125"), (0.0, "above 0"), (2.0, "at most 1")] {
        let overrides = Overrides { scale: Some(scale), ..Overrides::default() };
        let error = loaded("", "", &overrides).expect_err(reason).to_string();
        assert!(error.contains(reason), "no `{reason}` in {error}");
    }
}

/// Every configuration that CacheLib ships is accepted, or refused with the names of its keys; and
/// read without them.
#[test]
fn every_shipped_configuration_is_accepted_or_refused_by_name() {
    let Some(folder) = traces() else { return };
    let ignoring = Overrides { ignore_unsupported: true, ..Overrides::default() };
    let (mut accepted, mut refused, mut unreadable) = (0, 0, Vec::new());
    let mut folders = vec![folder.join("cachelib-distributions")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if !name.ends_with(".json") || name.ends_with("pop.json") || name.ends_with("sizes.json") {
                continue;
            }
            match load(&path, &Overrides::default()) {
                Ok(instances) => accepted += instances.len().min(1),
                Err(CacheBenchError::Unsupported { list, .. }) => {
                    refused += 1;
                    assert!(
                        list.lines().all(|line| line.contains("_config.") && line.contains(": ")),
                        "{list}"
                    );
                }
                Err(CacheBenchError::Value { key, problem, .. }) => {
                    refused += 1;
                    assert!(!key.is_empty() && !problem.is_empty());
                }
                Err(CacheBenchError::Workload(error)) => panic!("{error}"),
            }
            if let Err(error) = load(&path, &ignoring) {
                unreadable.push(error.to_string());
            }
        }
    }
    println!("{accepted} accepted, {refused} refused; without what is refused, not read: {unreadable:#?}");
    assert!(accepted >= 20 && accepted + refused >= 80, "{accepted} accepted, {refused} refused");
    // What remains are programs of their own, traces, and distributions that stand in another
    // folder.
    assert!(unreadable.len() <= 16, "{unreadable:#?}");
}

/// The eight distributions of production caches, at the size of a small machine.
#[test]
fn production_distributions_run_scaled_down() {
    let Some(folder) = traces() else { return };
    let folder = folder.join("cachelib-distributions");
    for (name, at_least) in [
        ("hit_ratio/cdn", 0.3),
        ("hit_ratio/graph_cache_follower_assocs", 0.8),
        ("hit_ratio/graph_cache_follower_fbobj", 0.8),
        ("hit_ratio/graph_cache_leader_assocs", 0.4),
        ("hit_ratio/graph_cache_leader_fbobj", 0.2),
        ("hit_ratio/kvcache_reg", 0.2),
        ("ssd_perf/kvcache_l2_reg", 0.1),
        ("ssd_perf/kvcache_l2_wc", 0.2),
    ] {
        let overrides =
            Overrides { memory: Some(ByteSize::mib(96)), ignore_unsupported: true, ..Overrides::default() };
        let ratio = |seed| {
            let mut all = load(&folder.join(name), &Overrides { seed, ..overrides.clone() }).expect(name);
            let instance = all.remove(0);
            let engine = EmbeddedOptions {
                memory: instance.memory,
                policy: instance.policy,
                classes: instance.classes.clone(),
                ..EmbeddedOptions::default()
            };
            let cache = Arc::new(Embedded::shaped(&engine, &instance.pools).expect("a cache"));
            let options = RunOptions {
                length: Length::Operations(instance.operations.min(200_000)),
                load: Some(false),
                wake_fast: false,
                ..RunOptions::default()
            };
            let report = run_direct(&cache, &Arc::new(instance.workload), &options).expect(name);
            assert_eq!(report.wrong_values, 0);
            assert_eq!(report.pools.iter().map(|pool| pool.hits).sum::<u64>(), report.hits);
            let ratios: Vec<_> = report.pools.iter().map(|pool| pool.hit_ratio).collect();
            println!("{name}: hit ratio by pool {ratios:?}");
            report.hits
        };
        let hits = ratio(1);
        assert!(hits as f64 / 200_000.0 > at_least * 0.5, "{name}: {hits} hits");
        // One thread with one seed asks the same; only the cache's own hash differs.
        let again = ratio(1);
        assert!(hits.abs_diff(again) * 200 <= hits, "{name}: {hits} and {again} hits");
    }
}

#[test]
fn the_documentation_names_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cachebench.md");
    let text = std::fs::read_to_string(path).expect("docs/cachebench.md");
    for key in KEYS {
        let line = text.lines().find(|line| line.starts_with(&format!("| `{}` |", key.name)));
        let line = line.unwrap_or_else(|| panic!("docs/cachebench.md does not name `{}`", key.name));
        assert!(line.contains(key.why), "docs/cachebench.md says something else: {line}");
        assert!(line.contains(key.rule.in_words()), "{line}");
    }
}

use std::collections::{HashMap, HashSet};

use super::popularity::{Buckets, Scatter, ZipfRanks};
use super::*;
use crate::testing::traces;

fn workload(toml: &str) -> Arc<Workload> {
    Arc::new(Workload::new(&toml.parse().expect(toml), 7).expect(toml))
}

fn draws(workload: &Arc<Workload>, seed: u64, n: usize) -> Vec<Operation> {
    let mut sampler = Sampler::new(Arc::clone(workload), seed, 0, 1);
    (0..n).map(|_| sampler.draw()).collect()
}

#[test]
fn texts_are_read_and_written_alike() {
    for text in ["100", "64-1024", "64:50,1024:30,4096-8192:20"] {
        assert_eq!(text.parse::<Sizes>().expect(text).to_string(), text);
    }
    for text in ["zipf:0.99", "uniform", "scan", "normal"] {
        assert_eq!(text.parse::<Popularity>().expect(text).to_string(), text);
    }
    for text in ["get=90,set=10", "lone-get=1,delete=0.5"] {
        let mix: Mix = text.parse().expect(text);
        assert_eq!(mix.to_string().parse::<Mix>(), Ok(mix));
    }
}

#[test]
fn wrong_texts_are_refused_with_what_is_possible() {
    for text in ["", "x", "10-5", "1:0", "1:-1", "1:nan", "5GiB", "1-2-3"] {
        let error = text.parse::<Sizes>().expect_err(text).to_string();
        assert!(error.contains("64-1KiB"), "{error}");
    }
    for text in ["zipf", "zipf:x", "zipf:-1", "zipf:11", "zipf:nan", "hot"] {
        assert!(text.parse::<Popularity>().expect_err(text).to_string().contains("zipf:ALPHA"));
    }
    for text in ["", "get", "get=x", "get=0", "get=-1,set=2", "fly=1"] {
        assert!(text.parse::<Mix>().expect_err(text).to_string().contains("lone-get"));
    }
    let error = "keys = 5\ncolour = \"red\"".parse::<WorkloadSpec>().expect_err("no such key").to_string();
    assert!(error.contains("line 2") && error.contains("colour") && error.contains("value_size"), "{error}");
    assert!(Workload::new(&"keys = 0".parse().expect("toml"), 1).is_err());
}

#[test]
fn a_seed_and_a_thread_name_one_stream() {
    let workload = workload("keys = 1000\nmix = \"get=5,set=4,lone-get=1\"\nvalue_size = \"10-500\"");
    assert_eq!(draws(&workload, 1, 100), draws(&workload, 1, 100));
    assert_ne!(draws(&workload, 1, 100), draws(&workload, 2, 100));
    let mut other = Sampler::new(Arc::clone(&workload), 1, 1, 2);
    let other: Vec<Operation> = (0..100).map(|_| other.draw()).collect();
    assert_ne!(draws(&workload, 1, 100), other);
}

#[test]
fn a_key_has_one_size_and_lone_keys_never_come_back() {
    let workload =
        workload("keys = 300\nkey_size = \"8-40\"\nvalue_size = \"1-9999\"\nmix = \"get=1,lone-set=1\"");
    let (mut sizes, mut lone) = (HashMap::new(), HashSet::new());
    for thread in 0..3 {
        let mut sampler = Sampler::new(Arc::clone(&workload), 5, thread, 3);
        for _ in 0..5_000 {
            let op = sampler.draw();
            if op.key >= 300 {
                assert_eq!(op.kind, OpKind::Set);
                assert!(lone.insert(op.key));
            } else {
                let size = (op.key_size, op.value_size);
                assert_eq!(*sizes.entry(op.key).or_insert(size), size);
            }
        }
    }
    assert!(lone.len() > 7_000);
}

#[test]
fn operations_come_in_their_mix() {
    let workload = workload("mix = \"get=70,set=20,delete=7,touch=3\"");
    let mut counts = HashMap::new();
    for op in draws(&workload, 3, 100_000) {
        *counts.entry(op.kind).or_insert(0_i64) += 1;
    }
    for (kind, share) in [(OpKind::Get, 70), (OpKind::Set, 20), (OpKind::Delete, 7), (OpKind::Touch, 3)] {
        assert!((counts[&kind] - share * 1_000).abs() < 900, "{kind:?}: {}", counts[&kind]);
    }
}

/// The head and the tail of a Zipf distribution each get the requests that the sum of their ranks'
/// weights says.
#[test]
fn zipf_ranks_follow_the_power_law() {
    for (alpha, keys) in
        [(0.6, 1_000_000_u64), (0.99, 1_000_000), (1.0, 500_000), (1.4, 2_000_000), (0.0, 70_000)]
    {
        let ranks = ZipfRanks::new(keys, alpha);
        let mut rng = base::rng::seeded(11);
        let bounds = [1, 10, 1_000, 32_768, 33_000, 60_000, keys];
        let mut counts = [0_u32; 7];
        let n = 400_000;
        for _ in 0..n {
            let rank = ranks.sample(&mut rng);
            assert!(rank < keys);
            counts[bounds.iter().position(|bound| rank < *bound).expect("a bound")] += 1;
        }
        let weight = |from: u64, to: u64| (from + 1..=to).map(|rank| (rank as f64).powf(-alpha)).sum::<f64>();
        let total = weight(0, keys);
        let mut from = 0;
        for (bound, count) in bounds.iter().zip(counts) {
            let wanted = weight(from, *bound) / total * f64::from(n);
            let off = (f64::from(count) - wanted).abs();
            assert!(
                off <= 5.0 * wanted.sqrt() + 1.0,
                "alpha {alpha}, ranks {from}..{bound}: {count}, not {wanted}"
            );
            from = *bound;
        }
    }
}

#[test]
fn popular_keys_are_scattered_and_every_key_is_reached() {
    for keys in [1, 2, 3, 10, 97, 4_096, 65_537] {
        let scatter = Scatter::new(keys);
        let all: HashSet<u64> = (0..keys).map(|rank| scatter.apply(rank)).collect();
        assert_eq!(all.len() as u64, keys);
        assert!(all.iter().all(|key| *key < keys));
    }
    // Exact where the arithmetic is tightest: no two of many ranks share a key.
    for keys in [u64::from(u32::MAX), u64::from(u32::MAX) - 4, 4_000_000_007] {
        let scatter = Scatter::new(keys);
        let ranks = (0..50_000).chain(keys - 50_000..keys);
        let all: HashSet<u64> = ranks.map(|rank| scatter.apply(rank)).collect();
        assert_eq!(all.len(), 100_000);
        let step = scatter.apply(1);
        for rank in [2, 1_000, keys - 1] {
            let wanted = u128::from(rank) * u128::from(step) % u128::from(keys);
            assert_eq!(u128::from(scatter.apply(rank)), wanted, "rank {rank} of {keys}");
        }
    }
    let huge = Scatter::new(1 << 50);
    assert!(huge.apply(1).abs_diff(huge.apply(2)) > 1 << 40);
}

#[test]
fn a_scan_asks_for_every_key_in_turn() {
    let workload = workload("keys = 5\npopularity = \"scan\"\nmix = \"get=1\"");
    let keys: Vec<u64> = draws(&workload, 1, 12).iter().map(|op| op.key).collect();
    assert_eq!(keys, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
}

#[test]
fn the_normal_distribution_stays_among_the_keys() {
    let workload = workload("keys = 1001\npopularity = \"normal\"\nmix = \"get=1\"");
    let n = 100_000;
    let keys: Vec<f64> = draws(&workload, 1, n).iter().map(|op| op.key as f64).collect();
    let mean = keys.iter().sum::<f64>() / n as f64;
    let deviation = (keys.iter().map(|key| (key - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
    assert!((mean - 500.0).abs() < 5.0, "{mean}");
    // A quarter of the keys, less what is cut off at two standard deviations.
    assert!((deviation - 250.0 * 0.88).abs() < 5.0, "{deviation}");
}

#[test]
fn loading_writes_every_key_once() {
    let workload = workload("keys = 5000\npopularity = \"zipf:1\"");
    let loaded: HashSet<u64> =
        (0..workload.distinct_keys()).filter_map(|i| workload.load(i)).map(|op| op.key).collect();
    assert_eq!(loaded.len(), 5_000);
    assert_eq!(workload.load(5_000), None);
    assert!(draws(&workload, 1, 10_000).iter().all(|op| loaded.contains(&op.key)));
}

/// The tables' means are those of the distributions, even where one value in a thousand is huge.
#[test]
fn size_tables_are_true_to_their_distribution() {
    for text in ["1-1000", "100:999,1MiB:1", "64:50,1KiB:30,4KiB-8KiB:20"] {
        let sizes: Sizes = text.parse().expect(text);
        let table = sizes.table(3);
        let mean = table.iter().map(|size| f64::from(*size)).sum::<f64>() / table.len() as f64;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.01, "{text}: {mean}, not {}", sizes.mean());
        let mut sorted = table.clone();
        sorted.sort_unstable();
        for share in [0.1, 0.45, 0.9] {
            let found = f64::from(sorted[(share * sorted.len() as f64) as usize]);
            let wanted = f64::from(sizes.quantile(share));
            assert!(
                (found - wanted).abs() <= wanted * 0.02 + 2.0,
                "{text} at {share}: {found}, not {wanted}"
            );
        }
    }
    assert_eq!(Sizes::fixed(7).table(1), [7]);
}

#[test]
fn buckets_of_unequal_groups_get_their_weight() {
    let groups = Buckets::new(vec![10_000, 100_000], vec![1.0, 1.0], None).expect("buckets");
    let top = groups.requests_of_top(1.0 / 11.0);
    assert!((top - 0.5).abs() < 0.01, "{top}");
    // As in CacheBench, an object that is heavier than a bucket becomes an object per bucket.
    let heavy = Buckets::new(vec![1, 1_000], vec![1.0, 1.0], None).map(Popular::Buckets).expect("buckets");
    assert!((2_000..2_100).contains(&heavy.distinct()), "{}", heavy.distinct());
    for wrong in [
        (vec![], vec![]),
        (vec![1], vec![]),
        (vec![1], vec![0.0]),
        (vec![0], vec![1.0]),
        (vec![1], vec![f64::NAN]),
    ] {
        assert!(Buckets::new(wrong.0, wrong.1, Some(10)).is_none());
    }
}

/// Scaled up, a bucket has more keys than objects, and all can be drawn; scaled down, objects share
/// keys.
#[test]
fn buckets_are_scaled_to_the_number_of_keys() {
    for keys in [100, 1_000, 50_000] {
        let popular =
            Buckets::new(vec![100, 900], vec![1.0, 1.0], Some(keys)).map(Popular::Buckets).expect("buckets");
        assert_eq!(popular.distinct(), keys);
        let mut rng = base::rng::seeded(1);
        let drawn: Vec<u64> = (0..400_000).map(|_| popular.sample(&mut rng, &mut 0)).collect();
        let seen: HashSet<u64> = drawn.iter().copied().collect();
        assert!(
            seen.len() as u64 > keys * 99 / 100 && seen.iter().all(|key| *key < keys),
            "{} of {keys}",
            seen.len()
        );
        let top = drawn.iter().filter(|key| **key < keys / 10).count() as f64 / drawn.len() as f64;
        // Among so few objects, the 1,024 buckets of the first group have one object at least each.
        assert!(top > 0.04, "{top}");
    }
}

/// The published figures of each distribution: share of requests of the top 0.1, 1, 10 and 20 % of
/// the objects, and the values' mean, median, 90th and 99th percentile and maximum.
type Published = (&'static str, Option<u64>, [f64; 4], [f64; 5]);

const PUBLISHED: [Published; 6] = [
    ("cdn", Some(7_489_207), [6.6, 13.9, 37.5, 49.9], [33_024.0, 13_343.0, 77_631.0, 274_239.0, 4_176_255.0]),
    (
        "graph_cache_follower_assocs",
        Some(10_129_734),
        [34.5, 59.4, 85.8, 91.5],
        [568.0, 31.0, 191.0, 10_271.0, 1_698_687.0],
    ),
    (
        "graph_cache_follower_fbobj",
        Some(13_820_359),
        [54.0, 76.6, 89.0, 92.2],
        [377.0, 223.0, 607.0, 2_527.0, 206_943.0],
    ),
    (
        "graph_cache_leader_assocs",
        Some(27_855_311),
        [24.1, 32.7, 55.3, 67.4],
        [1_424.0, 63.0, 895.0, 24_991.0, 2_611_455.0],
    ),
    (
        "graph_cache_leader_fbobj",
        Some(27_564_687),
        [2.4, 10.7, 37.2, 51.3],
        [341.0, 223.0, 511.0, 2_271.0, 209_727.0],
    ),
    ("kvcache_reg", Some(10_483_642), [56.8, 72.4, 86.6, 91.2], [335.0, 159.0, 191.0, 959.0, 523_487.0]),
];

/// `numKeys` of each.
const KEYS: [u64; 6] = [8_935_378, 23_458_726, 37_244_430, 65_345_659, 71_605_574, 14_463_466_000];

#[test]
fn cachelib_distributions_have_their_published_statistics() {
    let Some(folder) = traces() else { return };
    for ((name, objects, tops, values), keys) in PUBLISHED.into_iter().zip(KEYS) {
        let path = folder.join("cachelib-distributions/hit_ratio").join(name);
        let workload = Workload::from_cachebench(&path, None, 1).expect(name);
        let pool = &workload.pools()[0];
        let Popular::Buckets(buckets) = &pool.popular else { panic!("{name} has no buckets") };
        let distinct = buckets.objects();
        let off = distinct.abs_diff(objects.expect("published")) as f64 / distinct as f64;
        assert!(off < 0.001, "{name}: {distinct} objects");
        assert_eq!(pool.distinct_keys(), keys, "{name}: every key can be asked for");
        for (share, wanted) in [0.001, 0.01, 0.1, 0.2].into_iter().zip(tops) {
            let found = buckets.requests_of_top(share) * 100.0;
            assert!((found - wanted).abs() < 0.6, "{name}: top {share} gets {found} %, not {wanted}");
        }
        let sizes = pool.value_sizes();
        let found = [
            sizes.mean().round(),
            f64::from(sizes.quantile(0.5)),
            f64::from(sizes.quantile(0.9)),
            f64::from(sizes.quantile(0.99)),
            f64::from(sizes.largest()),
        ];
        for (found, wanted) in found.into_iter().zip(values) {
            assert!((found / wanted - 1.0).abs() < 0.005, "{name}: {found}, not {wanted}");
        }
        let mean =
            pool.value_sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / pool.value_sizes.len() as f64;
        assert!((mean / values[0] - 1.0).abs() < 0.05, "{name}: the table's mean is {mean}");
        println!("{name}: {distinct} objects, {}", workload.notes().join("; "));
    }
}

/// The draws, not only the tables: the most popular hundredth of kvcache_reg gets its share, lone
/// gets get theirs.
#[test]
fn draws_from_kvcache_reg_have_its_shares() {
    let Some(folder) = traces() else { return };
    let path = folder.join("cachelib-distributions/hit_ratio/kvcache_reg");
    let workload = Arc::new(Workload::from_cachebench(&path, None, 1).expect("kvcache_reg"));
    assert!(workload.look_aside());
    let keys = 14_463_466_000_u64;
    let (mut lone, mut top, n) = (0, 0, 500_000);
    for op in draws(&workload, 9, n) {
        assert_eq!(op.kind, OpKind::Get);
        assert!((16..255).contains(&op.key_size));
        if op.key >= keys {
            lone += 1;
        } else if op.key < keys / 100 {
            top += 1;
        }
    }
    let lone_share = f64::from(lone) / n as f64;
    assert!((lone_share - 0.1347 / (0.9845 + 0.1347)).abs() < 0.003, "{lone_share}");
    let top_share = f64::from(top) / f64::from(n as i32 - lone);
    assert!((top_share - 0.724).abs() < 0.01, "{top_share}");
}

#[test]
fn every_cachebench_configuration_is_read_or_refused_with_a_reason() {
    let Some(folder) = traces() else { return };
    let (mut read, mut refused, mut folders) = (0, 0, vec![folder.join("cachelib-distributions")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".json") && !name.ends_with("pop.json") && !name.ends_with("sizes.json")
            {
                match Workload::from_cachebench(&path, None, 1) {
                    Ok(workload) => {
                        read += 1;
                        assert_eq!(draws(&Arc::new(workload), 1, 50).len(), 50);
                    }
                    Err(error) => {
                        refused += 1;
                        println!("refused: {error}");
                    }
                }
            }
        }
    }
    println!("{read} configurations read, {refused} refused");
    assert!(read >= 40, "only {read} configurations were read");
}

#[test]
fn pools_of_a_configuration_have_their_own_keys_and_shares() {
    let Some(folder) = traces() else { return };
    let path = folder.join("cachelib-distributions/ssd_perf/graph_cache_leader");
    let workload = Arc::new(Workload::from_cachebench(&path, None, 1).expect("graph_cache_leader"));
    let border = (4_100_000_000.0 * 0.522_854_541_841_921_9) as u64;
    let (mut first, n) = (0, 100_000);
    for op in draws(&workload, 2, n) {
        if op.key < 4_100_000_000 {
            assert_eq!(op.key < border, op.pool == 0);
        }
        first += u32::from(op.pool == 0);
    }
    assert!((f64::from(first) / n as f64 - 0.571).abs() < 0.01, "{first}");
}

#[test]
fn comments_in_configurations_are_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("c.json");
    let text = "// two // slashes\n{ \"test_config\": { // here\n \"name\": \"a//b\\\"//\", \"numKeys\": 10,\n\
                \"keySizeRange\": [4, 9], \"keySizeRangeProbability\": [1],\n\
                \"valSizeRange\": [5], \"valSizeRangeProbability\": [1], \"getRatio\": 1, \"opDelayNs\": 5 } }";
    std::fs::write(&path, text).expect("written");
    let workload = Workload::from_cachebench(&path, None, 1).expect("read");
    assert_eq!(workload.notes(), ["not used here: opDelayNs"]);
    std::fs::write(&path, text.replace("getRatio\": 1", "getRatio\": 1, \"updateRatio\": 0.5"))
        .expect("written");
    let error = Workload::from_cachebench(&path, None, 1).expect_err("an update ratio").to_string();
    assert!(error.contains("c.json") && error.contains("updateRatio"), "{error}");
}

/// The commented example says every default as it is.
#[test]
fn the_example_file_holds_the_defaults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/workloads/example.toml");
    let spec = WorkloadSpec::read(Path::new(path)).expect("bench/workloads/example.toml");
    assert_eq!(spec, WorkloadSpec::default());
    let text = std::fs::read_to_string(path).expect("bench/workloads/example.toml");
    let fields = toml::Value::try_from(WorkloadSpec::default()).expect("toml");
    for field in fields.as_table().expect("a table").keys() {
        assert!(text.contains(&format!("\n{field} = ")), "{field} is not in the example");
    }
}

//! Pools whose queues are split by key, so that they have no cliffs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ErrorKind, ItemOptions, PolicyKind, PoolConfig, PoolId, Split,
    SplitStats,
};

const VALUE: usize = 200;

/// A cache of 16 MiB with one pool.
fn cache(policy: PolicyKind, shared: Option<PathBuf>) -> (Cache, PoolId, Clock) {
    let clock = Clock::manual(1_000);
    let config = CacheConfig {
        memory: ByteSize::mib(16),
        clock: clock.clone(),
        hash_seed: Some(1),
        huge_pages: false,
        shared,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = cache.add_pool(PoolConfig { policy, ..PoolConfig::named("p") }).expect("a new name");
    (cache, pool, clock)
}

/// A look-aside request for a key. True on a hit.
fn request(cache: &Cache, pool: PoolId, key: u64) -> bool {
    let bytes = mix64(key).to_le_bytes();
    let is_byte = |value: &[u8]| assert!(value.iter().all(|byte| *byte == key as u8), "key {key}");
    if cache.keys(pool).find_with(&bytes, |found| is_byte(&found)).is_some() {
        return true;
    }
    let mut item = cache.allocate(pool, &bytes, VALUE, &ItemOptions::default()).expect("room by eviction");
    item.value_mut().fill(key as u8);
    cache.put(item);
    false
}

/// Hits per request. There is a round of maintenance, and a second, for every 10,000 requests.
fn hits((cache, pool, clock): &(Cache, PoolId, Clock), keys: impl Iterator<Item = u64>) -> f64 {
    let (mut hits, mut requests) = (0_u64, 0_u64);
    for key in keys {
        hits += u64::from(request(cache, *pool, key));
        requests += 1;
        if requests.is_multiple_of(10_000) {
            clock.advance(Duration::from_secs(1));
            cache.maintain().expect("nothing is held");
        }
    }
    hits as f64 / requests as f64
}

fn split_of((cache, pool, _): &(Cache, PoolId, Clock)) -> SplitStats {
    cache.pool_stats(*pool).expect("it is there").split.expect("the policy has splits")
}

fn items((cache, pool, _): &(Cache, PoolId, Clock)) -> u64 {
    cache.pool_stats(*pool).expect("it is there").sum(|class| class.items)
}

#[test]
fn loop_that_does_not_fit_gains_hits_near_the_hull() {
    const KEYS: u64 = 80_000;
    let rounds = |count: u64| (0..count).flat_map(|_| 0..KEYS);
    let plain = cache(PolicyKind::LRU, None);
    let split = cache(PolicyKind::LruSplit, None);
    for cache in [&plain, &split] {
        hits(cache, rounds(12));
    }
    let (lru, ours) = (hits(&plain, rounds(5)), hits(&split, rounds(5)));
    let hull = items(&split) as f64 / KEYS as f64;
    assert!(lru < 0.01, "LRU misses a loop: {lru}");
    assert!((0.4..0.9).contains(&hull), "the loop is larger than the cache: {hull}");
    // A margin of 5 % of the loop is left out, and the curve errs by a few percent.
    assert!(ours > hull - 0.08, "{ours}; {hull} by the hull; {:?}", split_of(&split));
    assert_eq!(split_of(&split).failed, 0);
    split.0.validate();
}

#[test]
fn pool_without_a_cliff_loses_nothing() {
    let zipf = |seed: u64| {
        let mut rng = seeded(seed);
        // About Zipf's law with an exponent of 1 over 200,000 keys.
        (0..1_000_000).map(move |_| 200_000_f64.powf(rng.random_range(0.0..1.0)) as u64)
    };
    let plain = cache(PolicyKind::Lru { refresh_secs: 0 }, None);
    let split = cache(PolicyKind::LruSplit, None);
    let (lru, ours) = (hits(&plain, zipf(7)), hits(&split, zipf(7)));
    assert!((lru - ours).abs() < 0.004, "{lru} and {ours}");
    assert_eq!(split_of(&split).made, 0);
}

#[test]
fn split_ends_when_the_workload_has_no_cliff_any_more() {
    const KEYS: u64 = 80_000;
    let pool = cache(PolicyKind::LruSplit, None);
    hits(&pool, (0..12).flat_map(|_| 0..KEYS));
    assert!(split_of(&pool).split.keys > 0.1, "{:?}", split_of(&pool));
    // An hour of a workload that fits: the curve forgets the loop.
    for _ in 0..120 {
        pool.2.advance(Duration::from_secs(30));
        hits(&pool, (0..20_000_u64).map(|i| mix64(i) % 10_000));
    }
    assert_eq!(split_of(&pool).split, Split::NONE, "{:?}", split_of(&pool));
    assert!(hits(&pool, (0..20_000_u64).map(|i| mix64(i) % 10_000)) > 0.999);
}

#[test]
fn policy_is_converted_to_and_from_splits_while_serving() {
    const KEYS: u64 = 80_000;
    let pool = cache(PolicyKind::S3_FIFO, None);
    hits(&pool, (0..3).flat_map(|_| 0..KEYS));
    let before = items(&pool);
    pool.0.set_pool_policy(pool.1, PolicyKind::LruSplit).expect("it is there");
    assert!(items(&pool) > before / 10 * 9, "some make room for the queues of both policies");
    hits(&pool, (0..12).flat_map(|_| 0..KEYS));
    assert!(hits(&pool, (0..3).flat_map(|_| 0..KEYS)) > 0.4, "{:?}", split_of(&pool));
    let before = items(&pool);
    pool.0.set_pool_policy(pool.1, PolicyKind::LRU).expect("it is there");
    assert!(items(&pool) > before / 10 * 9, "some make room for the queues of both policies");
    assert_eq!(pool.0.pool_stats(pool.1).expect("it is there").split, None);
    pool.0.validate();
}

#[test]
fn split_is_refused_for_other_policies_and_shares() {
    let (cache, pool, _) = cache(PolicyKind::S3_FIFO, None);
    let half = Some(Split { keys: 0.5, memory: 0.5 });
    let error = cache.set_pool_split(pool, half).expect_err("S3-FIFO has none");
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("`p` has policy s3-fifo"));
    cache.set_pool_policy(pool, PolicyKind::LruSplit).expect("it is there");
    let error = cache.set_pool_split(pool, Some(Split { keys: 1.5, memory: 0.5 })).expect_err("no share");
    assert_eq!(error.kind(), ErrorKind::Config);
    cache.set_pool_split(pool, half).expect("valid");
    assert_eq!(
        cache.pool_stats(pool).expect("it is there").split.map(|stats| stats.split.keys > 0.49),
        Some(true)
    );
    let error = "sieve+split".parse::<PolicyKind>().expect_err("not split");
    assert!(error.to_string().contains("no other policy is split"), "{error}");
}

/// Nothing is found that was not put, nothing is torn, and all that is there is found, while splits
/// and policies change under load.
#[test]
fn items_stay_whole_and_reachable_while_splits_change_under_load() {
    const KEYS: u64 = 90_000;
    let pool = cache(PolicyKind::LruSplit, None);
    let (cache, id, clock) = &pool;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|seed| {
                scope.spawn(move || {
                    let mut rng = seeded(seed);
                    for i in 0..300_000_u64 {
                        let key = if i % 2 == 0 { i % KEYS } else { rng.random_range(0..KEYS / 9) };
                        request(cache, *id, key);
                        if i % 17 == 0 {
                            cache.keys(*id).remove(&mix64(rng.random_range(0..KEYS)).to_le_bytes());
                        }
                    }
                })
            })
            .collect();
        let changer = scope.spawn(|| {
            let mut rng = seeded(99);
            while !stop.load(Ordering::Relaxed) {
                let policy = if rng.random_bool(0.05) { PolicyKind::LRU } else { PolicyKind::LruSplit };
                cache.set_pool_policy(*id, policy).expect("it is there");
                let split = Split { keys: rng.random_range(0.0..1.0), memory: rng.random_range(0.0..1.0) };
                let split = if rng.random_bool(0.2) { Split::NONE } else { split };
                let is_split = cache.set_pool_split(*id, Some(split)).is_ok();
                assert_eq!(is_split, policy == PolicyKind::LruSplit);
                clock.advance(Duration::from_secs(1));
                cache.maintain().expect("nothing is held for long");
                base::thread::sleep(Duration::from_millis(2));
            }
        });
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        stop.store(true, Ordering::Relaxed);
        changer.join().expect("no panic");
    });
    cache.validate();
    let found = (0..KEYS).filter(|key| cache.keys(*id).find(&mix64(*key).to_le_bytes()).is_some()).count();
    assert_eq!(found as u64, items(&pool), "each item is reachable");
    cache.set_pool_limit(*id, Some(ByteSize::new(0))).expect("nothing is held");
    assert_eq!((cache.stats().index_entries, items(&pool)), (0, 0), "and each is evicted");
    cache.validate();
}

#[test]
fn split_pool_is_there_again_after_a_restart() {
    const KEYS: u64 = 80_000;
    let parent = PathBuf::from("/dev/shm");
    let parent = if parent.is_dir() { parent } else { std::env::temp_dir() };
    let folder = parent.join(format!("millpond-test-splits-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let pool = cache(PolicyKind::LruSplit, Some(folder.clone()));
    hits(&pool, (0..12).flat_map(|_| 0..KEYS));
    let before = items(&pool);
    drop(pool);
    let pool = cache(PolicyKind::LruSplit, Some(folder.clone()));
    assert_eq!(items(&pool), before, "all of them");
    assert_eq!(split_of(&pool).split, Split::NONE, "the curve is learnt anew");
    pool.0.validate();
    hits(&pool, (0..12).flat_map(|_| 0..KEYS));
    assert!(hits(&pool, (0..3).flat_map(|_| 0..KEYS)) > 0.4, "{:?}", split_of(&pool));
    drop(pool);
    let _ = std::fs::remove_dir_all(&folder);
}

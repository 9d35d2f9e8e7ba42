//! Strategies at work in a cache, by the names that an application writes.

use std::sync::atomic::{AtomicBool, Ordering};

use millpond::strategy::{Manual, Strategy};
use millpond::{ByteSize, Cache, CacheConfig, ItemOptions, PolicyKind, PoolConfig, PoolId};

/// A full cache, most of whose slabs are in the class of the smaller values.
fn calcified(strategy: Strategy) -> (Cache, PoolId) {
    let config = CacheConfig {
        memory: ByteSize::mib(32),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = cache.add_pool(PoolConfig { strategy, ..PoolConfig::named("pool") }).expect("a new name");
    for (bytes, count) in [(1_000, 40_000), (9_000, 2_000)] {
        put(&cache, pool, bytes, count);
    }
    (cache, pool)
}

fn put(cache: &Cache, pool: PoolId, bytes: usize, count: u32) {
    for number in 0..count {
        let key = [bytes as u32, number].map(u32::to_le_bytes).concat();
        if let Ok(handle) = cache.allocate(pool, &key, bytes, &ItemOptions::default()) {
            cache.put(handle);
        }
    }
}

/// The engine builds the view of a pool from statistics, which lock the pool's rebalancer, and
/// then locks it to decide.
#[test]
fn every_strategy_decides_while_statistics_are_read() {
    let mut strategies: Vec<Strategy> =
        Strategy::NAMES.iter().map(|name| Strategy::by_name(name).expect("a name of the list")).collect();
    strategies.push(Strategy::Manual(Manual { slabs: vec![(0, 2)] }));
    for strategy in strategies {
        let name = strategy.name();
        let (cache, pool) = calcified(strategy);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let stats = cache.pool_stats(pool).expect("the pool is there");
                    assert_eq!(stats.strategy, name);
                }
            });
            let mut moves = 0;
            for _ in 0..20 {
                put(&cache, pool, 9_000, 200);
                moves += cache.rebalance().len();
                cache.resize_pools();
            }
            is_over.store(true, Ordering::Relaxed);
            reader.join().expect("it only reads");
            assert!(moves > 0 || name != "random", "{name} moved nothing");
        });
    }
}

/// The hits of finds that ask at random for one of `keys` values of 9,000 bytes, and store what is
/// missed; a round of rebalancing follows each `round`.
fn ask_at_random(cache: &Cache, pool: PoolId, keys: u64, (rounds, round): (u32, u32)) -> u32 {
    let (mut state, mut hits) = (1_u64, 0);
    for _ in 0..rounds {
        for _ in 0..round {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = ((state >> 33) % keys).to_le_bytes();
            if cache.keys(pool).find(&key).is_some() {
                hits += 1;
            } else if let Ok(handle) = cache.allocate(pool, &key, 9_000, &ItemOptions::default()) {
                cache.put(handle);
            }
        }
        cache.rebalance();
    }
    hits
}

/// Under base the slabs of sizes that nobody asks for any more stay where they are. LRU and SIEVE
/// track no tail hits.
#[test]
fn by_default_slabs_follow_the_sizes_that_are_asked_for() {
    for policy in [PolicyKind::S3_FIFO, PolicyKind::LRU, PolicyKind::Sieve] {
        let hits = |strategy: Strategy| {
            let (cache, pool) = calcified(strategy);
            cache.set_pool_policy(pool, policy).expect("there is room");
            ask_at_random(&cache, pool, 2_000, (60, 1_000));
            ask_at_random(&cache, pool, 2_000, (1, 10_000))
        };
        let (before, followed) = (hits(Strategy::OnFailures), hits(PoolConfig::default().strategy));
        assert!(followed > before + 2_000, "{policy}: {followed} of 10,000 finds hit, and {before} without");
    }
}

/// In a small cache with many size classes hardly any class has a sixteenth of the memory.
#[test]
fn by_default_slabs_move_between_many_small_classes() {
    for policy in [PolicyKind::S3_FIFO, PolicyKind::LRU] {
        let hits = |strategy: Strategy| {
            let (cache, pool) = calcified(strategy);
            cache.set_pool_policy(pool, policy).expect("there is room");
            for class in 0..30 {
                put(&cache, pool, 100 + 300 * class, 900);
            }
            ask_at_random(&cache, pool, 600, (60, 500));
            ask_at_random(&cache, pool, 600, (1, 10_000))
        };
        let (before, followed) = (hits(Strategy::OnFailures), hits(PoolConfig::default().strategy));
        assert!(followed > before + 1_000, "{policy}: {followed} of 10,000 finds hit, and {before} without");
    }
}

#[test]
fn hill_climbing_finds_the_class_that_would_gain() {
    let hits = |strategy: &str| {
        let (cache, pool) = calcified(Strategy::by_name(strategy).expect("a name of the list"));
        ask_at_random(&cache, pool, 2_000, (60, 1_000));
        ask_at_random(&cache, pool, 2_000, (1, 10_000))
    };
    let (before, climbed) = (hits("base"), hits("hill-climbing"));
    assert!(climbed > before + 2_000, "{climbed} of 10,000 finds hit, and {before} without");
}

#[test]
fn shadow_queues_are_charged_while_the_pool_is_there() {
    let config = CacheConfig { memory: ByteSize::mib(32), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a valid configuration");
    let climbing = || Strategy::by_name("hill-climbing").expect("a name of the list");
    let fixed = || cache.ledger().part(millpond::Part::Fixed);
    let pool = cache.add_pool(PoolConfig::named("pool")).expect("a new name");
    let without = fixed();
    cache.set_pool_strategy(pool, climbing()).expect("there is room");
    let with = fixed();
    assert!(with - without > 100 << 10, "{with} and {without}");
    cache.set_pool_strategy(pool, Strategy::OnFailures).expect("it is off");
    cache.set_pool_strategy(pool, climbing()).expect("it is on again");
    assert_eq!(fixed(), with, "it is charged once");
    let other = PoolConfig { strategy: climbing(), ..PoolConfig::named("other") };
    let other = cache.add_pool(other).expect("a new name");
    assert!(fixed() - with > 100 << 10);
    cache.remove_pool(other).expect("it is there");
    cache.maintain().expect("there is room");
    let left = fixed();
    cache.add_pool(PoolConfig { strategy: climbing(), ..PoolConfig::named("other") }).expect("a new name");
    cache.remove_pool(cache.pool_id("other").expect("it is there")).expect("it is there");
    cache.maintain().expect("there is room");
    assert_eq!(fixed(), left, "nothing stays on the bill");
}

//! Strategies at work in a cache, by the names that an application writes.

use std::sync::atomic::{AtomicBool, Ordering};

use millpond::strategy::{Manual, Strategy};
use millpond::{ByteSize, Cache, CacheConfig, ItemOptions, PoolConfig, PoolId};

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

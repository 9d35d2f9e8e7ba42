//! A pool pays for what it stores: a little data of many sizes, in caches that are much larger, is
//! all kept.

use base::rng::{RngExt, seeded};
use millpond::{ByteSize, Cache, CacheConfig, ErrorKind, ItemOptions, PolicyKind, PoolConfig, PoolId};

/// A cache with a seed of its own for hashes: with one in some fifty seeds, a large index evicts an
/// item near a full home ("A full home" in docs/design/0002-index.md).
fn cache(memory: ByteSize) -> Cache {
    let hash_seed = Some(1);
    Cache::new(CacheConfig { memory, huge_pages: false, hash_seed, ..CacheConfig::default() })
        .expect("a cache")
}

fn pools(cache: &Cache, count: usize) -> Vec<PoolId> {
    (0..count).map(|i| cache.add_pool(PoolConfig::named(format!("p{i}"))).expect("a new name")).collect()
}

fn put(cache: &Cache, pool: PoolId, key: u32, len: usize) {
    let item = cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default());
    cache.put(item.expect("memory"));
}

fn remove(cache: &Cache, pool: PoolId, key: u32) {
    assert!(cache.keys(pool).remove(&key.to_le_bytes()), "{key} is there");
}

/// The evictions of each pool.
fn evictions(cache: &Cache) -> Vec<u64> {
    cache.stats().pools.iter().map(|pool| pool.sum(|class| class.evictions)).collect()
}

/// Puts `values` values of 10 to `most` bytes, as many of each order of magnitude, into each pool.
fn fill(cache: &Cache, pools: &[PoolId], values: u32, most: f64) -> u64 {
    let mut rng = seeded(7);
    let mut bytes = 0;
    for key in 0..values {
        for pool in pools {
            let len = 10_f64.powf(rng.random_range(1.0..most.log10())) as usize;
            let mut item =
                cache.allocate(*pool, &key.to_le_bytes(), len, &ItemOptions::default()).expect("memory");
            item.value_mut().fill(key as u8);
            cache.put(item);
            bytes += len as u64;
        }
    }
    bytes
}

/// Everything is there, nothing was ever evicted, and maintenance changes nothing about that.
fn holds_all(memory: ByteSize, count: usize, values: u32, most: f64) {
    let cache = cache(memory);
    let pools = pools(&cache, count);
    let bytes = fill(&cache, &pools, values, most);
    cache.maintain().expect("there is memory");
    for pool in &pools {
        for key in 0..values {
            let found = cache.keys(*pool).find(&key.to_le_bytes());
            let found =
                found.unwrap_or_else(|| panic!("{key} of {count} pools with {bytes} bytes in {memory}"));
            assert!(found.iter().all(|byte| *byte == key as u8));
        }
    }
    let evictions: u64 = cache.stats().pools.iter().map(|pool| pool.sum(|class| class.evictions)).sum();
    assert_eq!(evictions, 0);
    assert!(cache.ledger().total() <= memory.as_u64());
    cache.validate();
}

#[test]
fn one_small_pool_in_a_small_cache_loses_nothing() {
    holds_all(ByteSize::mib(64), 1, 100, 32e3);
    holds_all(ByteSize::mib(64), 1, 500, 8e5);
    holds_all(ByteSize::mib(128), 1, 500, 8e5);
}

#[test]
fn several_pools_in_a_cache_lose_nothing() {
    holds_all(ByteSize::mib(128), 2, 60, 32e3);
    holds_all(ByteSize::mib(128), 16, 60, 32e3);
    holds_all(ByteSize::gib(1), 50, 60, 32e3);
}

#[test]
fn a_thousand_pools_in_a_cache_of_a_gibibyte_lose_nothing() {
    holds_all(ByteSize::gib(1), 1_000, 60, 3e4);
}

/// With these seeds 16 buckets of the index in a row are full before it has the entries at which it
/// grows: an item was evicted from a cache that was nearly empty.
#[test]
fn a_full_home_of_the_index_evicts_nothing_from_a_cache_with_room() {
    for seed in [296_u64, 100_104] {
        let hash_seed = Some(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let config =
            CacheConfig { memory: ByteSize::gib(1), huge_pages: false, hash_seed, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let pools = pools(&cache, 1_000);
        fill(&cache, &pools, 60, 1e3);
        let stats = cache.stats();
        let evictions: u64 = stats.pools.iter().map(|pool| pool.sum(|class| class.evictions)).sum();
        assert_eq!(evictions, 0, "with seed {seed}");
        cache.validate();
    }
}

#[test]
fn four_thousand_pools_of_16_kib_fit_into_256_mib() {
    let cache = cache(ByteSize::mib(256));
    let pools = pools(&cache, 4_096);
    for key in 0..16_u32 {
        for pool in &pools {
            let item = cache.allocate(*pool, &key.to_le_bytes(), 1_024, &ItemOptions::default());
            cache.put(item.expect("memory"));
        }
    }
    let stats = cache.stats();
    let count = |field: fn(&millpond::ClassStats) -> u64| -> u64 {
        stats.pools.iter().map(|pool| pool.sum(field)).sum()
    };
    assert_eq!((count(|class| class.items), count(|class| class.evictions)), (16 * 4_096, 0));
    assert!(cache.ledger().total() <= 256 << 20);
    cache.validate();
}

#[test]
fn free_memory_that_lies_apart_is_brought_together_for_a_large_item() {
    let cache = cache(ByteSize::mib(24));
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    // Runs of many classes, of which all but a few items go.
    let kept = |key: u32| key.is_multiple_of(50);
    for key in 0..4_000_u32 {
        let len = 2_000 + (key as usize * 37) % 3_000;
        let mut item =
            cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default()).expect("memory");
        item.value_mut().fill(key as u8);
        cache.put(item);
    }
    let before: Vec<u32> = (0..4_000_u32).filter(|key| cache.find(&key.to_le_bytes()).is_some()).collect();
    before.iter().filter(|key| !kept(**key)).for_each(|key| assert!(cache.remove(&key.to_le_bytes())));
    cache.put(cache.allocate(pool, b"large", 3 << 20, &ItemOptions::default()).expect("memory"));
    assert_eq!(cache.find(b"large").expect("there").len(), 3 << 20);
    for key in before.iter().filter(|key| kept(**key)) {
        if let Some(found) = cache.find(&key.to_le_bytes()) {
            assert!(found.iter().all(|byte| *byte == *key as u8));
        }
    }
    cache.validate();
}

#[test]
fn memory_goes_back_to_the_system_though_pools_share_slabs() {
    let cache = cache(ByteSize::mib(64));
    let pools = pools(&cache, 40);
    fill(&cache, &pools, 60, 3e4);
    let before = cache.ledger().total();
    for pool in &pools[1..] {
        cache.remove_pool(*pool).expect("exists");
    }
    cache.set_memory(ByteSize::mib(16)).expect("one small pool is left");
    assert!(cache.ledger().total() <= 16 << 20 && before > 16 << 20);
    for key in 0..60_u32 {
        assert!(cache.keys(pools[0]).find(&key.to_le_bytes()).is_some());
    }
    cache.validate();
}

/// Index and queues do not shrink: with less than they take, and a slab, the cache would be empty
/// for good.
#[test]
fn memory_is_not_lowered_below_what_the_index_has_grown_to() {
    let cache = cache(ByteSize::mib(96));
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    for key in 0..900_000_u32 {
        cache.put(cache.allocate(pool, &key.to_le_bytes(), 8, &ItemOptions::default()).expect("memory"));
    }
    let least = cache.least_memory();
    assert!(least > ByteSize::mib(12), "{least}");
    for lower in [ByteSize::mib(8), ByteSize::mib(12), ByteSize::new(least.as_u64() - 1)] {
        let error = cache.set_memory(lower).expect_err("less than it can be");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(&format!("less than {least}")), "{error}");
        assert_eq!(cache.ledger().limit(), 96 << 20, "nothing has changed");
    }
    cache.set_memory(least).expect("it is enough");
    for key in 0..10_000_u32 {
        cache.put(cache.allocate(pool, &key.to_le_bytes(), 8, &ItemOptions::default()).expect("memory"));
        assert!(cache.find(&key.to_le_bytes()).is_some());
    }
    cache.validate();
}

/// While there is memory, classes grow with what is stored in them. A size that is stored much only
/// when there is none left is not kept to the little that it had until then, though nobody
/// rebalances the pool.
#[test]
fn a_size_that_comes_late_gets_its_share() {
    let cache = cache(ByteSize::mib(96));
    let pool = cache.add_pool(PoolConfig::named("late")).expect("a pool");
    put(&cache, pool, 0, 100);
    (1..40_000).for_each(|key| put(&cache, pool, key, 4_000));
    (40_000..100_000).for_each(|key| put(&cache, pool, key, 100));
    let stats = cache.stats();
    let classes = stats.pools[0].classes.iter();
    let small: u64 = classes.filter(|class| class.chunk_bytes < 200).map(|class| class.bytes).sum();
    assert!(small >= 3 << 20, "{small} bytes for small items");
    cache.validate();
}

/// The same if each fifth item stays: those move together.
#[test]
fn memory_of_most_items_serves_other_sizes_if_they_are_removed() {
    let cache = cache(ByteSize::mib(128));
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let put = |key: u32, len: usize| {
        let mut item =
            cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default()).expect("memory");
        item.value_mut().fill(key as u8);
        cache.put(item);
    };
    let stays = |key: u32| key.is_multiple_of(5);
    (0..350_000).for_each(|key| put(key, 100));
    (0..350_000_u32).filter(|key| !stays(*key)).for_each(|key| assert!(cache.remove(&key.to_le_bytes())));
    (350_000..370_000).for_each(|key| put(key, 3_000));
    let evictions = cache.stats().pools[0].sum(|class| class.evictions);
    assert_eq!(evictions, 0);
    for key in (0..370_000).filter(|key| *key >= 350_000 || stays(*key)) {
        let found = cache.find(&key.to_le_bytes()).unwrap_or_else(|| panic!("{key} is gone"));
        assert!(found.iter().all(|byte| *byte == key as u8));
    }
    cache.validate();
}

const S3_FIFO: PolicyKind = PolicyKind::S3Fifo { small_percent: 10 };
const LRU: PolicyKind = PolicyKind::Lru { refresh_secs: 60 };

/// The memory of what was removed is used for other sizes before anything is evicted, in the same
/// pool or another.
#[test]
fn memory_of_removed_items_serves_other_sizes_before_an_eviction() {
    for (count, policy) in [(1, S3_FIFO), (2, S3_FIFO), (2, LRU)] {
        let cache = cache(ByteSize::mib(128));
        let config = |name: &str| PoolConfig { policy, ..PoolConfig::named(name) };
        let pools: Vec<PoolId> =
            (0..count).map(|i| cache.add_pool(config(&i.to_string())).expect("new")).collect();
        let (first, last) = (pools[0], pools[count - 1]);
        (0..350_000).for_each(|key| put(&cache, first, key, 100));
        (0..350_000_u32).for_each(|key| remove(&cache, first, key));
        (0..30_000).for_each(|key| put(&cache, last, key, 3_000));
        // And back.
        (0..30_000_u32).for_each(|key| remove(&cache, last, key));
        (0..350_000).for_each(|key| put(&cache, last, key, 100));
        assert_eq!(evictions(&cache), vec![0; count], "with {count} pools and {policy:?}");
        assert!(cache.ledger().total() <= 128 << 20);
        cache.validate();
    }
}

/// The same of many pools whose classes have a few KiB each.
#[test]
fn memory_of_removed_items_of_many_small_pools_serves_other_sizes() {
    for seed in 11..14 {
        let cache = cache(ByteSize::mib(32));
        let pools = pools(&cache, 100);
        let put_all = |keys: u32, least: f64, most: f64| {
            let mut rng = seeded(seed);
            for key in 0..keys {
                for pool in &pools {
                    let len = 10_f64.powf(rng.random_range(least.log10()..most.log10())) as usize;
                    put(&cache, *pool, key, len);
                }
            }
        };
        let remove_all = |keys: u32| {
            for key in 0..keys {
                for pool in &pools {
                    assert!(cache.keys(*pool).remove(&key.to_le_bytes()), "{key} is there, seed {seed}");
                }
            }
            // A class with one chunk has it in a magazine until then.
            cache.maintain().expect("there is memory");
        };
        put_all(1_000, 20.0, 300.0);
        remove_all(1_000);
        put_all(14, 2e3, 3e4);
        remove_all(14);
        put_all(1_000, 20.0, 300.0);
        assert_eq!(evictions(&cache), vec![0; pools.len()], "seed {seed}");
        assert!(cache.ledger().total() <= 32 << 20);
        cache.validate();
    }
}

/// A pool that has less than its reserve stores other sizes in its own memory, whatever others
/// insert meanwhile, and takes none of theirs while it has vacant memory.
#[test]
fn vacant_memory_of_a_reserve_is_for_its_pool() {
    for (neighbours, rounds) in [(0, 400), (1, u32::MAX), (2, 400), (10, u32::MAX)] {
        let cache = cache(ByteSize::mib(64));
        let other = cache.add_pool(PoolConfig::named("other")).expect("new");
        let reserve = ByteSize::mib(24);
        let pool = cache.add_pool(PoolConfig { reserve, ..PoolConfig::named("p") }).expect("new");
        let evictions = |pool| cache.pool_stats(pool).expect("there").sum(|class| class.evictions);
        (0..100_000).for_each(|key| put(&cache, pool, key, 100));
        (0..50_000).for_each(|key| put(&cache, other, key, 1_000));
        (0..100_000_u32).for_each(|key| remove(&cache, pool, key));
        cache.maintain().expect("there is memory");
        let (before, of_other) = (evictions(pool), evictions(other));
        let mut next = 50_000;
        for key in 0..3_500 {
            if key % rounds == 0 {
                cache.maintain().expect("there is memory");
            }
            put(&cache, pool, 1_000_000 + key, 3_000);
            for _ in 0..neighbours {
                put(&cache, other, next, 1_000);
                next += 1;
            }
        }
        assert_eq!(evictions(pool) - before, 0, "beside {neighbours} insertions");
        if neighbours == 0 {
            assert_eq!(evictions(other) - of_other, 0, "the neighbour's memory was not needed");
        }
        cache.validate();
    }
}

/// Copies for another pool were limited by what the idle pool had inserted: nothing.
#[test]
fn an_idle_pool_gives_its_vacant_memory_though_items_remain_in_each_run() {
    for kept in [8, 20] {
        let cache = cache(ByteSize::mib(64));
        let pools = pools(&cache, 2);
        let mut rng = seeded(99);
        for round in 0..3 {
            let (mut key, mut bytes) = (0, 0);
            while bytes < 45_000_000 {
                let len = 20.0 * rng.random_range(1.0..10.0_f64).powi(3);
                put(&cache, pools[0], key, len as usize);
                bytes += len as u64 + 60;
                key += 1;
            }
            (0..key).filter(|key| key % kept != 0).for_each(|key| remove(&cache, pools[0], key));
            cache.maintain().expect("there is memory");
            (0..38_000).for_each(|key| put(&cache, pools[1], key, 1_000));
            assert_eq!(evictions(&cache), [0, 0], "round {round}, 1 of {kept} kept");
            cache.validate();
            (0..38_000).for_each(|key| remove(&cache, pools[1], key));
            (0..key).filter(|key| key % kept == 0).for_each(|key| remove(&cache, pools[0], key));
            cache.maintain().expect("there is memory");
        }
    }
}

#[test]
fn a_lower_limit_takes_vacant_memory_before_items() {
    let cache = cache(ByteSize::mib(64));
    let pools = pools(&cache, 1);
    (0..30_000).for_each(|key| put(&cache, pools[0], key, 1_000));
    (50_000..56_500).for_each(|key| put(&cache, pools[0], key, 3_000));
    (50_000..56_500).for_each(|key| remove(&cache, pools[0], key));
    cache.maintain().expect("there is memory");
    cache.set_pool_limit_lazily(pools[0], Some(ByteSize::mib(44))).expect("there is such a pool");
    for _ in 0..10 {
        cache.maintain().expect("nothing is held");
    }
    assert!(cache.stats().pools[0].slab_bytes <= ByteSize::mib(44).as_u64());
    assert_eq!(evictions(&cache), [0]);
    cache.validate();
}

/// The pool that has most is asked first for its items, but for them only.
#[test]
fn vacant_memory_of_one_pool_goes_before_items_of_another() {
    for is_lowered in [false, true] {
        let cache = cache(ByteSize::mib(64));
        let pools = pools(&cache, 3);
        (0..28_000).for_each(|key| put(&cache, pools[0], key, 1_000));
        (0..6_500).for_each(|key| put(&cache, pools[1], key, 3_000));
        // The third one wants memory, if there is none for it.
        let wanting = if is_lowered { 1_000 } else { 20_000 };
        (0..wanting).for_each(|key| put(&cache, pools[2], key, 1_000));
        let before = evictions(&cache);
        assert_eq!(before[..2], [0, 0]);
        assert_eq!(before[2] > 0, !is_lowered);
        (0..6_500).for_each(|key| remove(&cache, pools[1], key));
        if is_lowered {
            cache.set_memory(ByteSize::mib(48)).expect("nothing is held");
        }
        cache.maintain().expect("nothing is held");
        assert_eq!(evictions(&cache), before, "lowered: {is_lowered}");
        cache.validate();
    }
}

/// A class of large chunks gives its memory as others do.
#[test]
fn memory_of_removed_large_items_serves_small_ones() {
    let cache = cache(ByteSize::mib(64));
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let sizes = [2_000_000, 1_390_000, 1_040_000, 830_000, 690_000, 590_000, 520_000, 460_000];
    for (key, len) in (0..).step_by(10).zip(sizes) {
        (key..key + 5).for_each(|key| put(&cache, pool, key, len));
        (key..key + 4).for_each(|key: u32| assert!(cache.remove(&key.to_le_bytes())));
    }
    cache.maintain().expect("there is memory");
    (1_000..43_000).for_each(|key| put(&cache, pool, key, 1_000));
    assert_eq!(cache.stats().pools[0].sum(|class| class.evictions), 0);
    cache.validate();
}

#[test]
fn threads_that_fill_an_empty_cache_at_once_evict_nothing() {
    for round in 0..5 {
        let cache = cache(ByteSize::mib(64));
        let pool = pools(&cache, 1)[0];
        std::thread::scope(|threads| {
            for thread in 0..3_u32 {
                let cache = &cache;
                threads.spawn(move || {
                    for key in 0..60_000_u32 {
                        // Often the same keys at once.
                        let key = (key ^ thread).to_le_bytes();
                        let len = 60 + key[0] as usize;
                        let item = cache.allocate(pool, &key, len, &ItemOptions::default()).expect("room");
                        cache.put(item);
                    }
                });
            }
        });
        let stats = &cache.stats().pools[0];
        assert_eq!(stats.sum(|class| class.evictions), 0, "in round {round}, of {:?}", stats.slab_bytes);
        cache.validate();
    }
}

/// Flushed items make room for others once the cache is maintained, and items that were made since
/// stay, in each key space and whether they are held or not.
#[test]
fn memory_of_flushed_items_serves_other_pools_before_an_eviction() {
    for (policy, keys) in [(S3_FIFO, 280_000), (LRU, 280_000), (S3_FIFO, 900_000)] {
        // Also more than a round walks over.
        let cache = cache(ByteSize::mib(if keys > 300_000 { 400 } else { 128 }));
        let config = |name: &str| PoolConfig { policy, ..PoolConfig::named(name) };
        let [flushed, other] = ["flushed", "other"].map(|name| cache.add_pool(config(name)).expect("new"));
        (0..keys).for_each(|key| put(&cache, flushed, key, 300));
        (0..100).for_each(|key| put(&cache, other, keys + key, 300));
        let held = cache.keys(flushed).find(&0_u32.to_le_bytes()).expect("it is there");
        cache.keys(flushed).flush();
        (keys - 100..keys).for_each(|key| put(&cache, flushed, key, 300));
        for _ in 0..10 {
            cache.maintain().expect("nothing is over its limit");
        }
        assert_eq!(held.value(), [0; 300]);
        let counts = || {
            let stats = cache.pool_stats(flushed).expect("it is there");
            [stats.sum(|class| class.items), stats.sum(|class| class.flushed)]
        };
        let [left, gone] = counts();
        assert!((101..=102).contains(&left), "{left} items of {keys} are left, {policy:?}");
        // 100 were replaced.
        assert_eq!(left + gone, u64::from(keys), "{policy:?}");
        (0..keys / 10).for_each(|key| put(&cache, other, key, 2_800));
        assert_eq!(evictions(&cache), [0, 0], "{policy:?}");
        let is_there = |pool, key: u32| cache.keys(pool).find(&key.to_le_bytes()).is_some();
        assert!((keys - 100..keys).all(|key| is_there(flushed, key)), "{policy:?}");
        assert!((keys..keys + 100).all(|key| is_there(other, key)), "{policy:?}");
        // What was held is taken out later.
        drop(held);
        (0..64).for_each(|_| cache.maintain().expect("nothing is over its limit"));
        assert_eq!(counts(), [100, u64::from(keys) - 100], "{policy:?}");
        cache.keys(flushed).flush();
        cache.maintain().expect("nothing is over its limit");
        assert_eq!(counts(), [0, u64::from(keys)], "{policy:?}");
        cache.validate();
    }
}

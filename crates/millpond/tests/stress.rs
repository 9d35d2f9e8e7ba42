//! Many threads, little memory, limits that move: nothing torn, nothing of another key, nothing
//! lost in the books.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use millpond::{ByteSize, Cache, CacheConfig, Clock, Expiry, ItemOptions, PolicyKind, PoolConfig, PoolId};

const KEYS: u64 = 40_000;

fn key(i: u64) -> [u8; 12] {
    let mut key = *b"key-00000000";
    key[4..].copy_from_slice(&mix64(i).to_le_bytes());
    key
}

/// A value says which key it belongs to and how long it is, all over.
fn check(i: u64, value: &[u8]) {
    let byte = mix64(i) as u8;
    assert!(value.iter().all(|b| *b == byte), "key {i}: a value of another key, or a torn one");
}

fn worker(cache: &Cache, pools: &[PoolId], seed: u64, operations: u32) {
    let mut rng = seeded(seed);
    let mut held = std::collections::VecDeque::new();
    for _ in 0..operations {
        let i = rng.random_range(0..KEYS).min(rng.random_range(0..KEYS));
        let key = key(i);
        match rng.random_range(0..100) {
            0..20 => {
                cache.find_with(&key, |found| {
                    check(i, &found);
                    assert_eq!(found.key(), key);
                    // A thread that is put to sleep while it reads.
                    if i % 64 == 0 {
                        std::thread::yield_now();
                        check(i, &found);
                    }
                });
            }
            20..50 => {
                if let Some(found) = cache.find(&key) {
                    check(i, &found);
                    assert_eq!(found.key(), key);
                    if i % 16 == 0 {
                        held.push_back((i, found));
                    }
                }
            }
            50..60 => {
                cache.remove(&key);
            }
            60..62 => {
                cache.touch(&key, Expiry::After(5));
            }
            _ => {
                let len = rng.random_range(1..40_usize).pow(2);
                let pool = pools[rng.random_range(0..pools.len())];
                let Ok(mut item) = cache.allocate(pool, &key, len, &ItemOptions::default()) else { continue };
                item.value_mut().fill(mix64(i) as u8);
                match rng.random_range(0..3) {
                    0 => drop(cache.insert(item)),
                    1 => drop(cache.insert_or_replace(item)),
                    _ => cache.put(item),
                }
            }
        }
        if held.len() > 50 {
            let (i, handle) = held.pop_front().expect("not empty");
            check(i, &handle);
        }
    }
}

#[test]
fn values_stay_whole_while_everything_moves() {
    let clock = Clock::manual(1_000);
    let config = CacheConfig {
        memory: ByteSize::mib(24),
        max_memory: Some(ByteSize::mib(48)),
        clock: clock.clone(),
        hash_seed: Some(3),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("valid");
    let pools: Vec<_> = [PolicyKind::S3_FIFO, PolicyKind::LRU]
        .into_iter()
        .map(|policy| {
            cache.add_pool(PoolConfig { policy, ..PoolConfig::named(policy.to_string()) }).expect("new")
        })
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|seed| {
            let (cache, pools) = (cache.clone(), pools.clone());
            base::thread::spawn(format!("worker-{seed}"), move || worker(&cache, &pools, seed, 150_000))
                .expect("a thread")
        })
        .collect();
    let mover = {
        let (cache, pools, stop) = (cache.clone(), pools.clone(), Arc::clone(&stop));
        base::thread::spawn("mover", move || {
            let mut rng = seeded(99);
            while !stop.load(Ordering::Relaxed) {
                // A refusal means that held items keep a slab: that is allowed to happen.
                let _ = cache.set_memory(ByteSize::mib(rng.random_range(12..48)));
                let limit = rng.random_bool(0.5).then(|| ByteSize::mib(rng.random_range(4..24)));
                let _ = cache.set_pool_limit(pools[rng.random_range(0..2)], limit);
                clock.advance(std::time::Duration::from_secs(1));
                let _ = cache.stats();
            }
        })
        .expect("a thread")
    };
    for worker in workers {
        worker.join().expect("no panic");
    }
    stop.store(true, Ordering::Relaxed);
    mover.join().expect("no panic");
    cache.validate();
    for pool in &pools {
        cache.set_pool_limit(*pool, Some(ByteSize::new(0))).expect("nothing is held");
    }
    cache.validate();
    let stats = cache.stats();
    assert_eq!(stats.index_entries, 0);
    assert!(stats.pools.iter().all(|pool| pool.slab_bytes == 0 && pool.sum(|class| class.item_bytes) == 0));
}

/// Threads that insert into one large class evict ahead and share barriers; what they reuse must be
/// read by nobody.
#[test]
fn no_reader_sees_a_chunk_that_was_evicted_ahead_and_used_again() {
    const WRITERS: u64 = 2;
    const INSERTIONS: u64 = 700_000;
    let cache =
        Cache::new(CacheConfig { memory: ByteSize::mib(24), ..CacheConfig::default() }).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    let stop = AtomicBool::new(false);
    let next = std::sync::atomic::AtomicU64::new(0);
    let found = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..INSERTIONS / WRITERS {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let mut item = cache
                            .allocate(pool, &key(i), 30, &ItemOptions::default())
                            .expect("room by eviction");
                        item.value_mut().fill(mix64(i) as u8);
                        cache.put(item);
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let (mut found, mut rng) = (0_u64, seeded(3));
            while !stop.load(Ordering::Relaxed) {
                // Those that leave next, mostly.
                let newest = next.load(Ordering::Relaxed);
                let i = newest.saturating_sub(rng.random_range(0..400_000));
                cache.find_with(&key(i), |item| {
                    found += 1;
                    check(i, &item);
                    if i % 32 == 0 {
                        std::thread::yield_now();
                        check(i, &item);
                    }
                });
            }
            found
        });
        let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        let found = reader.join().expect("no torn value");
        ended.into_iter().for_each(|ended| ended.expect("no panic"));
        found
    });
    let stats = cache.stats();
    let class = stats.pools[0].classes.iter().max_by_key(|class| class.evictions).expect("a class");
    assert!(
        class.evictions > INSERTIONS / 4 && found > 1_000,
        "{} evictions, {found} found",
        class.evictions
    );
    cache.validate();
}

//! Many tenants in little memory, whose values change their sizes: size classes that were used once
//! do not add up to all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::rng::{RngExt, seeded};
use millpond::{ByteSize, Cache, CacheConfig, Clock, ErrorKind, ItemOptions, Part, PolicyKind, PoolConfig};

/// Lengths of values, from and to, evenly over the orders of magnitude.
const B: (f64, f64) = (100.0, 1_000.0);
const C: (f64, f64) = (1_000.0, 10_000.0);
const D: (f64, f64) = (10_000.0, 100_000.0);
const M: (f64, f64) = (10.0, 800_000.0);
const E: (f64, f64) = (100_000.0, 800_000.0);
const S: (f64, f64) = (10.0, 100_000.0);

/// The result of a play.
#[derive(Debug)]
struct Played {
    /// Values that were refused, by phase.
    refused: Vec<u32>,
    /// The smallest of them, as a part of the memory that a tenant had on average.
    least: f64,
    /// The most that the bill was beyond the limit by, in bytes.
    beyond: u64,
}

/// Puts `puts` values of each phase into random ones of `tenants` pools.
fn play(mib: u64, tenants: usize, policy: PolicyKind, phases: &[(f64, f64)], puts: u32) -> Played {
    let config = CacheConfig {
        memory: ByteSize::mib(mib),
        huge_pages: false,
        hash_seed: Some(7),
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a cache");
    let pool = |number| PoolConfig { policy, ..PoolConfig::named(format!("tenant {number}")) };
    let pools: Vec<_> = (0..tenants).map(|number| cache.add_pool(pool(number)).expect("a pool")).collect();
    let mut rng = seeded(7);
    let mut played = Played { refused: Vec::new(), least: f64::MAX, beyond: 0 };
    for (from, to) in phases {
        played.refused.push(0);
        for put in 0..puts {
            let len = 10_f64.powf(rng.random_range(from.log10()..to.log10())) as usize;
            let (pool, key) = (pools[rng.random_range(0..tenants)], rng.random_range(0..1_000_000_u32));
            match cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default()) {
                Ok(item) => cache.put(item),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
                    let mean = cache.ledger().part(Part::Slabs) as f64 / tenants as f64;
                    played.least = played.least.min(len as f64 / mean);
                    *played.refused.last_mut().expect("a phase") += 1;
                }
            }
            if put % 500 == 0 {
                cache.maintain().expect("nothing is held");
            }
            let beyond = cache.ledger().total().saturating_sub(cache.ledger().limit());
            played.beyond = played.beyond.max(beyond);
        }
    }
    cache.validate();
    played
}

/// A value that takes more than half of what a tenant has on average may be refused; all others
/// find room, whatever was there before.
#[test]
fn many_tenants_in_little_memory_store_what_they_are_entitled_to() {
    for (mib, tenants, policy, phases) in [
        (16, 100, PolicyKind::TWO_Q, &[C, D, S, B][..]),
        (16, 130, PolicyKind::Arc, &[C, D, S, B]),
        (16, 130, PolicyKind::TINY_LFU, &[D, C, S, B]),
        (16, 150, PolicyKind::LRU, &[S, D, B]),
        (16, 300, PolicyKind::S3_FIFO, &[C, D, S, B]),
        (17, 300, PolicyKind::TWO_Q, &[M, C, B]),
        (64, 500, PolicyKind::TWO_Q, &[C, D, S, B]),
        (8, 40, PolicyKind::S3_FIFO, &[M, E, B]),
        (32, 40, PolicyKind::LRU, &[M, E, B]),
    ] {
        let played = play(mib, tenants, policy, phases, 2_000);
        let case = format!("{mib} MiB, {tenants} tenants, {policy:?}: {played:?}");
        assert_eq!((played.refused.last(), played.beyond), (Some(&0), 0), "{case}");
        assert!(played.least > 0.5, "{case}");
    }
}

/// Classes come and go under several threads, which find again what they put.
#[test]
fn classes_leave_and_come_back_while_threads_use_them() {
    const THREADS: u64 = 4;
    for policy in [PolicyKind::TWO_Q, PolicyKind::S3_FIFO, PolicyKind::Arc] {
        let clock = Clock::manual(1_000_000);
        let config = CacheConfig {
            memory: ByteSize::mib(8),
            huge_pages: false,
            clock: clock.clone(),
            ..CacheConfig::default()
        };
        let cache = Cache::new(config).expect("a cache");
        let pool = |number| PoolConfig { policy, ..PoolConfig::named(format!("p{number}")) };
        let pools: Vec<_> = (0..60).map(|number| cache.add_pool(pool(number)).expect("a pool")).collect();
        let work = |thread: u64| {
            let (cache, pools, clock) = (cache.clone(), pools.clone(), clock.clone());
            base::thread::spawn("worker", move || {
                let (mut rng, mut found) = (seeded(thread), 0_u32);
                for put in 0..8_000_u32 {
                    let (from, to) = [B, C, D, S][put as usize / 500 % 4];
                    let len = 10_f64.powf(rng.random_range(from.log10()..to.log10())) as usize;
                    let (pool, key) = (pools[rng.random_range(0..60)], rng.random_range(0..500_u64));
                    let key = (key * THREADS + thread).to_le_bytes();
                    if let Ok(mut item) = cache.allocate(pool, &key, len, &ItemOptions::default()) {
                        item.value_mut().fill(key[0]);
                        cache.put(item);
                    }
                    if let Some(item) = cache.keys(pool).find(&key) {
                        assert!(item.iter().all(|byte| *byte == key[0]));
                        found += 1;
                    }
                    if put % 100 == 0 {
                        clock.advance(Duration::from_secs(1));
                    }
                    if put % 250 == thread as u32 {
                        let _ = cache.maintain();
                    }
                }
                found
            })
        };
        let workers: Vec<_> = (0..THREADS).map(|thread| work(thread).expect("a thread")).collect();
        for worker in workers {
            assert!(worker.join().expect("no panic") > 1_000, "hardly anything was stored");
        }
        cache.validate();
        let stats = cache.stats();
        assert!(stats.pools.iter().any(|pool| pool.past.inserts > 0), "no class has left");
        // What went with classes that left is still counted.
        for pool in &stats.pools {
            let (came, went) = (
                pool.sum(|class| class.inserts),
                pool.sum(|class| class.evictions + class.expired + class.removed + class.replaced),
            );
            assert_eq!(came - went, pool.sum(|class| class.items), "{}", pool.name);
        }
    }
}

/// Each thread has memory of its own to look for while others do, and looks at classes that have
/// left.
#[test]
fn threads_that_store_at_once_are_refused_nothing_small_and_leave_nothing() {
    const THREADS: u64 = 8;
    for (pools, policy) in [(60, PolicyKind::Arc), (60, PolicyKind::S3_FIFO), (60, PolicyKind::TWO_Q)] {
        let config = CacheConfig { memory: ByteSize::mib(8), huge_pages: false, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let pool = |number| PoolConfig { policy, ..PoolConfig::named(format!("p{number}")) };
        let ids: Vec<_> = (0..pools).map(|number| cache.add_pool(pool(number)).expect("a pool")).collect();
        let work = |thread: u64| {
            let (cache, ids) = (cache.clone(), ids.clone());
            base::thread::spawn("worker", move || {
                let (mut rng, mut refused) = (seeded(thread), 0);
                for _ in 0..8_000 {
                    let len = 10_f64.powf(rng.random_range(1.0..4.3)) as usize;
                    let (pool, key) = (ids[rng.random_range(0..ids.len())], rng.random_range(0..5_000_u32));
                    match cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default()) {
                        Ok(item) => cache.put(item),
                        Err(_) => refused += u64::from(len < 1_000),
                    }
                }
                refused
            })
        };
        let workers: Vec<_> = (0..THREADS).map(|thread| work(thread).expect("a thread")).collect();
        let refused: u64 = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
        let (slabs, limit) = (cache.ledger().part(Part::Slabs), cache.ledger().limit());
        assert!(refused < THREADS * 8_000 / 200, "{policy:?}: {refused} small values were refused");
        assert!(slabs > limit / 10, "{policy:?}: {slabs} of {limit} bytes are for chunks");
        cache.validate();
        ids.iter().for_each(|id| assert!(cache.remove_pool(*id).expect("it is there").is_gone));
        for _ in 0..3 {
            cache.maintain().expect("nothing is held");
        }
        assert_eq!(cache.ledger().part(Part::Slabs), 0, "{policy:?}: a slab of which no unit is used");
    }
}

/// A count that is doubled for a moment goes back after that.
#[test]
fn counters_grow_while_classes_leave() {
    let config = CacheConfig { memory: ByteSize::mib(8), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    let is_over = Arc::new(AtomicBool::new(false));
    let looks = {
        let (cache, is_over) = (cache.clone(), Arc::clone(&is_over));
        base::thread::spawn("looks", move || {
            let mut last = 0;
            while !is_over.load(Ordering::Relaxed) {
                let now = cache.pool_stats(pool).expect("it is there").sum(|class| class.inserts);
                assert!(now >= last, "{last}, and then {now}");
                last = now;
            }
        })
    };
    for round in 0..150 {
        let len = if round % 2 == 0 { 300 } else { 1_100 };
        for key in 0..3_000_u32 {
            cache.put(cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default()).expect("room"));
        }
        cache.tune_classes(pool).expect("it is there");
    }
    is_over.store(true, Ordering::Relaxed);
    looks.expect("a thread").join().expect("counters grow");
    assert!(cache.pool_stats(pool).expect("it is there").past.inserts > 100_000, "no class has left");
}

/// While four threads store, find, hold and remove, a fifth flushes and maintains the cache: a find
/// returns what its thread stored last, or nothing, and a flush at the end leaves no item there.
#[test]
fn flushes_take_nothing_that_was_stored_since() {
    let config = CacheConfig { memory: ByteSize::mib(24), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pools = ["flushed", "beside"].map(|name| cache.add_pool(PoolConfig::named(name)).expect("new"));
    let is_over = AtomicBool::new(false);
    let write = &|thread: u32| {
        let mut rng = seeded(u64::from(thread));
        let mut last = vec![None; 2_000];
        let mut held = std::collections::VecDeque::new();
        while !is_over.load(Ordering::Relaxed) {
            let number = rng.random_range(0..last.len());
            let (pool, key) = (pools[number % 2], (thread << 16 | number as u32).to_le_bytes());
            match rng.random_range(0..8) {
                0..4 => {
                    let fill: u8 = rng.random();
                    let len = rng.random_range(1..3_000);
                    let mut item = cache.allocate(pool, &key, len, &ItemOptions::default()).expect("memory");
                    item.value_mut().fill(fill);
                    cache.put(item);
                    last[number] = Some((len, fill));
                }
                4 => {
                    cache.keys(pool).remove(&key);
                    last[number] = None;
                }
                _ => {
                    let Some(item) = cache.keys(pool).find(&key) else { continue };
                    let (len, fill) = last[number].expect("nobody removed it");
                    assert!(item.len() == len && item.iter().all(|byte| *byte == fill), "{number}");
                    held.push_back((item, fill));
                }
            }
            if held.len() > 20 {
                let (item, fill) = held.pop_front().expect("there is one");
                assert!(item.iter().all(|byte| *byte == fill), "what is held does not change");
            }
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|thread| {
            scope.spawn(move || write(thread));
        });
        for round in 0..400 {
            if round % 3 == 0 {
                cache.keys(pools[0]).flush();
            }
            cache.maintain().expect("20 items a thread are held");
            base::thread::sleep(Duration::from_millis(2));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let items = |pool| cache.pool_stats(pool).expect("it is there").sum(|class| class.items);
    assert!(items(pools[1]) > 1_000, "another key space was flushed");
    cache.keys(pools[0]).flush();
    cache.maintain().expect("nothing is held");
    assert_eq!(items(pools[0]), 0);
    cache.validate();
}

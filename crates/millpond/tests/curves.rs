//! Miss-ratio curves of live pools against what an LRU of chunks would do.

use std::time::Duration;

use base::rng::{RngExt as _, seeded};
use base::thread::spawn;
use millpond::watch::CurveConfig;
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ErrorKind, Expiry, ItemOptions, Part, PoolConfig, PoolId,
};

fn cache(clock: &Clock, own_keys: bool) -> (Cache, PoolId) {
    let config = CacheConfig {
        memory: ByteSize::mib(32),
        clock: clock.clone(),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = cache.add_pool(PoolConfig { own_keys, ..PoolConfig::named("p") }).expect("a new name");
    (cache, pool)
}

/// Everything is followed.
fn whole() -> CurveConfig {
    CurveConfig { rate: 1.0, keys: 100_000, ..CurveConfig::default() }
}

/// A look-aside request for a key. True on a hit.
fn request(cache: &Cache, pool: PoolId, key: u64, value: usize) -> bool {
    let key = key.to_le_bytes();
    let hit = cache.keys(pool).find_with(&key, |_| ()).is_some();
    if !hit {
        let item = cache.allocate(pool, &key, value, &ItemOptions::default()).expect("there is memory");
        cache.put(item);
    }
    hit
}

/// Hits and misses, in a key space of its own and in the shared one, by every way of looking up.
#[test]
fn a_curve_counts_every_request_once() {
    for own_keys in [true, false] {
        let (cache, pool) = cache(&Clock::manual(1_000), own_keys);
        cache.set_curve(pool, Some(whole())).unwrap();
        let keys = cache.keys(pool);
        for round in 0..4_u64 {
            for key in 0..1_000_u64 {
                let bytes = key.to_le_bytes();
                let hit = match (round + key) % 3 {
                    0 => keys.find(&bytes).is_some(),
                    1 => keys.find_with(&bytes, |_| ()).is_some(),
                    _ => {
                        let mut found = Vec::new();
                        keys.find_many(&[&bytes], &mut found);
                        found[0].is_some()
                    }
                };
                assert_eq!(hit, round > 0);
                if !hit {
                    cache.put(cache.allocate(pool, &bytes, 100, &ItemOptions::default()).unwrap());
                }
            }
        }
        let learnt = cache.curve(pool).unwrap().expect("it is learnt");
        let known = learnt.curve.confidence().expect("it was learnt");
        assert_eq!(
            (known.requests, known.samples, known.keys),
            (4_000.0, 4_000.0, 1_000),
            "own keys: {own_keys}"
        );
        assert_eq!(learnt.lost, 0);
        // A loop over chunks of 128 bytes: all or nothing.
        assert!(learnt.curve.miss_ratio(100_000.0) > 0.99);
        assert!((learnt.curve.miss_ratio(140_000.0) - 0.25).abs() < 0.001);
    }
}

/// A missed find made its key present, filled or not: keys that are never filled were promised to
/// be hit with more memory.
#[test]
fn keys_that_are_never_filled_miss_with_any_memory() {
    for own_keys in [true, false] {
        let (cache, pool) = cache(&Clock::manual(1_000), own_keys);
        cache.set_curve(pool, Some(whole())).unwrap();
        let (mut rng, mut misses, mut requests) = (seeded(2), 0_u32, 0_u32);
        for _ in 0..40_000 {
            let key = rng.random_range(0..2_000_u64);
            let is_filled = key % 2 == 0;
            let hit = match is_filled {
                true => request(&cache, pool, key, 100),
                false => cache.keys(pool).find(&key.to_le_bytes()).is_some(),
            };
            // In the key space that pools share, a miss that is never filled belongs to no pool.
            requests += u32::from(own_keys || is_filled);
            misses += u32::from(!hit && (own_keys || is_filled));
        }
        let learnt = cache.curve(pool).unwrap().expect("it is learnt").curve;
        let missed = f64::from(misses) / f64::from(requests);
        assert!(!own_keys || missed > 0.5);
        assert!(
            (learnt.miss_ratio(1e12) - missed).abs() < 0.001,
            "{} told of {missed}",
            learnt.miss_ratio(1e12)
        );
    }
}

/// A key that has expired, or was removed, counted as a hit once it came again.
#[test]
fn keys_that_expired_or_were_removed_miss_with_any_memory() {
    for (own_keys, reaps, removes) in [
        (true, false, false),
        (true, true, false),
        (true, false, true),
        (false, true, false),
        (false, false, true),
    ] {
        let clock = Clock::manual(1_000);
        let (cache, pool) = cache(&clock, own_keys);
        cache.set_curve(pool, Some(whole())).unwrap();
        let keys = cache.keys(pool);
        for _ in 0..10 {
            for key in 0..500_u64 {
                let bytes = key.to_le_bytes();
                assert!(keys.find_with(&bytes, |_| ()).is_none());
                let expiry = if removes { Expiry::Never } else { Expiry::After(5) };
                let options = ItemOptions { expiry, ..ItemOptions::default() };
                cache.put(cache.allocate(pool, &bytes, 100, &options).unwrap());
            }
            if removes {
                assert!((0..500_u64).all(|key| keys.remove(&key.to_le_bytes())));
            }
            clock.advance(Duration::from_secs(10));
            if reaps {
                cache.maintain().unwrap();
            }
        }
        let learnt = cache.curve(pool).unwrap().expect("it is learnt").curve;
        let told = learnt.miss_ratio(1e12);
        assert!(told > 0.99, "own keys {own_keys}, reaped {reaps}, removed {removes}: {told}");
    }
}

/// The curve's value at the memory that the pool has is what the pool misses; and the curve covers
/// more memory than that.
#[test]
fn the_curve_goes_beyond_what_the_pool_has() {
    let (cache, pool) = cache(&Clock::manual(1_000), true);
    cache.set_pool_limit(pool, Some(ByteSize::mib(8))).unwrap();
    cache.set_curve(pool, Some(CurveConfig { rate: 0.25, ..CurveConfig::default() })).unwrap();
    let mut rng = seeded(5);
    let keys = 16 << 20 >> 10;
    let mut misses = 0;
    for step in 0..120_000 {
        let hit = request(&cache, pool, rng.random_range(0..keys), 900);
        misses += i32::from(step >= 60_000 && !hit);
    }
    let seen = f64::from(misses) / 60_000.0;
    let learnt = cache.curve(pool).unwrap().expect("it is learnt");
    // Uniform requests: half the keys, half the misses, whatever the policy. A sixth of the
    // requests come for the first time.
    let said = learnt.curve.miss_ratio(8.0 * 1024.0 * 1024.0);
    assert!((said - seen).abs() < 0.12, "{said} by the curve, {seen} seen");
    let more = learnt.curve.gain(8e6, 8e6);
    assert!(more > 0.3, "twice the memory saves {more}");
    assert!((0.2..=0.25).contains(&learnt.rate), "{}", learnt.rate);
}

/// The curve of a cache gives for another size what a cache with that memory misses: index and
/// queues, the ends of slabs and free chunks are in it.
#[test]
fn a_curve_in_memory_tells_what_a_smaller_cache_misses() {
    let of = |memory: ByteSize| {
        let config = CacheConfig { memory, hash_seed: Some(1), huge_pages: false, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a valid configuration");
        let policy = millpond::PolicyKind::Lru { refresh_secs: 0 };
        let pool = PoolConfig { policy, own_keys: true, ..PoolConfig::named("p") };
        let pool = cache.add_pool(pool).expect("a new name");
        (cache, pool)
    };
    for value_bytes in [60, 900] {
        let keys = (96 << 20) / (value_bytes as u64 + 80);
        let run = |cache: &Cache, pool: PoolId| {
            let (mut rng, mut misses) = (seeded(3), 0);
            let steps = 8 * keys;
            for step in 0..steps {
                let key = (rng.random::<f64>().powi(3) * keys as f64) as u64;
                misses += u64::from(!request(cache, pool, key, value_bytes) && step >= steps / 2);
            }
            misses as f64 / (steps / 2) as f64
        };
        let (large, pool) = of(ByteSize::mib(64));
        large
            .set_curve(pool, Some(CurveConfig { rate: 0.2, keys: 1 << 15, ..CurveConfig::default() }))
            .unwrap();
        run(&large, pool);
        let learnt = large.curve(pool).unwrap().expect("it is learnt");
        let (small, its_pool) = of(ByteSize::mib(24));
        let missed = run(&small, its_pool);
        // Of the rest, less than a slab, nothing can be made.
        let has = small.ledger().total() - small.ledger().part(Part::Fixed);
        let told = learnt.in_memory().miss_ratio(has as f64);
        assert!((told - missed).abs() < 0.02, "{told} is told, {missed} are missed");
    }
}

/// A loop and keys that are asked for by chance: LRU has a cliff there, and S3-FIFO a slope.
#[test]
fn near_the_present_size_the_curve_is_that_of_the_policy() {
    const VALUE_BYTES: usize = 1_000;
    // What 24 MiB hold of them, about.
    const KEYS: u64 = 20_000;
    const STEPS: u64 = 400_000;
    let run = |policy: &str, memory: u64| {
        let config = CacheConfig {
            memory: ByteSize::mib(memory),
            hash_seed: Some(1),
            huge_pages: false,
            ..CacheConfig::default()
        };
        let cache = Cache::new(config).expect("a valid configuration");
        let policy = policy.parse().expect("a policy");
        let pool = cache.add_pool(PoolConfig { policy, ..PoolConfig::named("p") }).expect("a new name");
        let config = CurveConfig { rate: 0.25, keys: 8_192, ..CurveConfig::default() };
        cache.set_curve(pool, Some(config)).unwrap();
        let (mut rng, mut misses) = (seeded(5), 0);
        for step in 0..STEPS {
            let key = match step % 2 {
                0 => step / 2 % KEYS,
                _ => KEYS + (rng.random::<f64>().powi(4) * KEYS as f64) as u64,
            };
            misses += u64::from(!request(&cache, pool, key, VALUE_BYTES) && step >= STEPS / 2);
            if step % 2_000 == 0 {
                cache.maintain().unwrap();
                let _ = cache.curve(pool).unwrap();
            }
        }
        let learnt = cache.curve(pool).unwrap().expect("it is learnt");
        (misses as f64 / (STEPS / 2) as f64, learnt)
    };
    let mut errors = Vec::new();
    for policy in ["s3-fifo", "2q", "sieve"] {
        let (missed, learnt) = run(policy, 24);
        assert!(learnt.of_policy.is_some(), "{policy}");
        for memory in [20, 28] {
            let (came, there) = run(policy, memory);
            let chunk_bytes = |bytes: u64| bytes as f64 / learnt.memory_per_byte;
            let [told, by_lru] = [learnt.best(), &learnt.curve].map(|curve| {
                let [there, here] = [there.memory_bytes, learnt.memory_bytes].map(chunk_bytes);
                (missed + curve.miss_ratio(there) - curve.miss_ratio(here) - came).abs()
            });
            assert!(told < 0.07, "{policy}: {told} at {memory} MiB, where {came} are missed");
            errors.push((told, by_lru));
        }
    }
    // S3-FIFO with more memory: LRU's curve knows nothing before the cliff.
    let (told, by_lru) = errors[1];
    assert!(told < 0.03 && by_lru > 0.04, "{told} by its own curve, {by_lru} by LRU's");
    let (_, of_lru) = run("lru", 24);
    assert!(of_lru.of_policy.is_none(), "its curve is LRU's");
}

#[test]
fn a_curve_follows_the_time() {
    let clock = Clock::manual(1_000);
    let (cache, pool) = cache(&clock, true);
    cache.set_curve(pool, Some(CurveConfig { half_life: Duration::from_secs(10), ..whole() })).unwrap();
    (0..8_000).for_each(|step| {
        request(&cache, pool, step % 4_000, 100);
    });
    let requests = |cache: &Cache| cache.curve(pool).unwrap().unwrap().curve.confidence().unwrap().requests;
    assert_eq!(requests(&cache), 8_000.0);
    clock.advance(Duration::from_secs(25));
    cache.maintain().unwrap();
    assert_eq!(requests(&cache), 2_000.0);
    (0..8_000).for_each(|step| {
        request(&cache, pool, step % 100, 100);
    });
    let curve = cache.curve(pool).unwrap().unwrap().curve;
    assert!(curve.miss_ratio(20_000.0) < 0.25, "{}", curve.miss_ratio(20_000.0));
}

#[test]
fn what_learning_takes_is_on_the_bill_and_bounded() {
    let (cache, pool) = cache(&Clock::manual(1_000), true);
    let fixed = |cache: &Cache| cache.ledger().part(Part::Fixed);
    // Makes the size class and what a thread has of it, which are on the bill too.
    (0..200_000).for_each(|key| {
        request(&cache, pool, u64::MAX - key, 10);
    });
    let before = fixed(&cache);
    let config = CurveConfig { rate: 1.0, keys: 1_000, ..CurveConfig::default() };
    cache.set_curve(pool, Some(config)).unwrap();
    let learnt = cache.curve(pool).unwrap().expect("it is learnt");
    assert_eq!(fixed(&cache) - before, learnt.bytes as u64);
    assert!(learnt.bytes < 400 << 10, "{}", learnt.bytes);
    (0..200_000).for_each(|key| {
        request(&cache, pool, key, 10);
    });
    let learnt = cache.curve(pool).unwrap().expect("it is learnt");
    assert!(learnt.curve.confidence().unwrap().keys <= 1_000 && learnt.rate < 0.01);
    cache.set_curve(pool, None).unwrap();
    // What threads have of the class may have grown a little meanwhile.
    assert!(fixed(&cache).abs_diff(before) < 16 << 10, "{} {before}", fixed(&cache));
    assert!(cache.curve(pool).unwrap().is_none());
}

#[test]
fn wrong_figures_are_refused_by_name() {
    let (cache, pool) = cache(&Clock::manual(1_000), true);
    let refuse = |config| {
        let error = cache.set_curve(pool, Some(config)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let config = CurveConfig::default();
    assert!(refuse(CurveConfig { keys: 3, ..config }).contains("3 keys"));
    assert!(refuse(CurveConfig { rate: 0.0, ..config }).contains("share of 0"));
    assert!(refuse(CurveConfig { half_life: Duration::ZERO, ..config }).contains("half-life"));
}

/// Threads that find, insert, read the curve and switch it on and off: nobody waits for ever, and
/// nothing is counted twice.
#[test]
fn many_threads_feed_one_curve() {
    let (cache, pool) = cache(&Clock::System, true);
    cache.set_curve(pool, Some(whole())).unwrap();
    let cache = std::sync::Arc::new(cache);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let cache = std::sync::Arc::clone(&cache);
            let body = move || {
                let mut rng = seeded(thread);
                for step in 0..20_000 {
                    request(&cache, pool, rng.random_range(0..5_000), 100);
                    if step % 5_000 == 4_999 {
                        cache.curve(pool).unwrap();
                    }
                }
            };
            spawn("feed", body).unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let learnt = cache.curve(pool).unwrap().expect("it is learnt");
    let known = learnt.curve.confidence().unwrap();
    // Whoever finds that the key has come meanwhile counts as one request, as all others do.
    // One that was counted and not handed over while the curve was read may count twice.
    assert!((80_000.0..=80_004.0).contains(&known.requests), "{}", known.requests);
    assert!(known.samples <= 80_000.0);
    assert!(learnt.curve.miss_ratio(2e6) < 0.2);
}

/// Finds in a class that has left are finds all the same.
#[test]
fn a_curve_is_the_same_if_the_class_of_earlier_hits_leaves() {
    let learn = |leaves: bool| {
        let config = CacheConfig {
            memory: ByteSize::mib(16),
            huge_pages: false,
            clock: Clock::manual(1_000_000),
            hash_seed: Some(5),
            ..CacheConfig::default()
        };
        let cache = Cache::new(config).expect("a cache");
        let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
        let half_life = Duration::from_secs(1_000_000);
        let curve = CurveConfig { rate: 0.25, half_life, ..CurveConfig::default() };
        cache.set_curve(pool, Some(curve)).expect("it is there");
        let keys = cache.keys(pool);
        for request in 0..60_000_u32 {
            let key = (request % 2_000).to_le_bytes();
            if keys.find(&key).is_none() {
                cache.put(cache.allocate(pool, &key, 300, &ItemOptions::default()).expect("room"));
            }
        }
        cache.curve(pool).expect("it is there");
        if leaves {
            assert!(cache.tune_classes(pool).expect("it is there").decision.applies);
        }
        (1_000_000..1_060_000_u32).for_each(|key| assert!(keys.find(&key.to_le_bytes()).is_none()));
        let has_left = cache.pool_stats(pool).expect("it is there").past.hits > 50_000;
        assert_eq!(has_left, leaves);
        cache.curve(pool).expect("it is there").expect("one is learnt").curve.miss_ratio(1e7)
    };
    let (stays, leaves) = (learn(false), learn(true));
    assert!((stays - leaves).abs() < 0.02 && (stays - 0.52).abs() < 0.05, "{stays} and {leaves}");
}

#[test]
fn curves_leave_a_quarter_of_the_memory_to_items() {
    let memory = ByteSize::mib(8);
    let config = CacheConfig { memory, huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = |number: u32| cache.add_pool(PoolConfig::named(format!("p{number}"))).expect("a new name");
    let pools: Vec<_> = (0..40).map(pool).collect();
    let errors: Vec<_> =
        pools.iter().filter_map(|pool| cache.set_curve(*pool, Some(CurveConfig::default())).err()).collect();
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::OutOfMemory), "{errors:?}");
    let last = errors.last().expect("all would take more than there is").to_string();
    assert!(last.contains("less than a quarter of 8MiB"), "{last}");
    assert!(cache.ledger().part(Part::Fixed) <= memory.as_u64() / 4 * 3);
    for key in 0..20_000_u32 {
        let pool = pools[key as usize % pools.len()];
        cache.put(cache.allocate(pool, &key.to_le_bytes(), 100, &ItemOptions::default()).expect("room"));
    }
}

/// A client that stores a key some time after it missed it, as one does that fetches it.
#[test]
fn the_cost_of_a_miss_is_the_time_until_the_key_is_stored() {
    let clock = Clock::manual(1_000);
    let (cache, pool) = cache(&clock, true);
    cache.set_curve(pool, Some(whole())).expect("there is room");
    let keys = cache.keys(pool);
    let learnt = || cache.curve(pool).expect("there is a pool").expect("it is learnt").miss_cost;
    assert_eq!(learnt(), None);
    for key in 0..500_u64 {
        let key = key.to_le_bytes();
        assert!(keys.find(&key).is_none());
        clock.advance(Duration::from_millis(3));
        cache.put(cache.allocate(pool, &key, 100, &ItemOptions::default()).expect("there is room"));
        // A write of a key that was not missed says nothing.
        clock.advance(Duration::from_millis(50));
        cache.put(cache.allocate(pool, &key, 100, &ItemOptions::default()).expect("there is room"));
    }
    let cost = learnt().expect("it was learnt");
    assert_eq!((cost.samples, cost.mean), (500, Duration::from_millis(3)));
    assert!(cost.p99 >= cost.mean && cost.p99 < cost.mean * 5 / 4, "{cost:?}");
}

//! Size classes that follow the items: memory is saved, and nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use millpond::sizing::Tuning;
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, Expiry, ItemOptions, ItemTag, Part, PolicyKind, PoolConfig, PoolId,
    PoolStats,
};

fn cache(mib: u64, clock: &Clock) -> Cache {
    let config = CacheConfig {
        memory: ByteSize::mib(mib),
        clock: clock.clone(),
        huge_pages: false,
        hash_seed: Some(9),
        ..CacheConfig::default()
    };
    Cache::new(config).expect("valid")
}

fn put(cache: &Cache, pool: PoolId, key: u32, len: usize, options: &ItemOptions) {
    let mut item = cache.allocate(pool, &key.to_le_bytes(), len, options).expect("memory");
    item.value_mut().fill(mix64(key.into()) as u8);
    cache.put(item);
}

fn is_whole(key: u32, value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == mix64(key.into()) as u8)
}

fn pool_stats(cache: &Cache) -> PoolStats {
    cache.stats().pools.remove(0)
}

/// Slack as a share of the chunks that hold items.
fn slack(pool: &PoolStats) -> f64 {
    let (slack, items) = (pool.slack_bytes() as f64, pool.sum(|class| class.item_bytes) as f64);
    slack / (slack + items)
}

#[test]
fn items_move_to_chunks_that_fit_and_keep_all_that_they_have() {
    let clock = Clock::manual(1_000);
    let cache = cache(128, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let options = |key: u32| ItemOptions {
        expiry: if key.is_multiple_of(3) { Expiry::At(5_000 + key) } else { Expiry::Never },
        tag: (key % 3 == 1).then_some(ItemTag { cas: key.into(), client_flags: key % 2 }),
        user_bits: (key % 4) as u8,
        ..ItemOptions::default()
    };
    let len = |key: u32| [130, 1_111, 9_000][(key % 3) as usize];
    (0..9_000).for_each(|key| put(&cache, pool, key, len(key), &options(key)));
    (0..9_000).step_by(2).for_each(|key: u32| drop(cache.find(&key.to_le_bytes())));
    let before = pool_stats(&cache);
    assert!(slack(&before) > 0.05, "{}", slack(&before));

    let tuned = cache.tune_classes(pool).expect("exists");
    assert!(tuned.decision.applies && tuned.bytes_left == 0, "{tuned:?}");
    let after = pool_stats(&cache);
    assert!(slack(&after) < 0.02, "{}", slack(&after));
    // What was predicted is what is there, but for the ends of runs.
    assert!((slack(&before) - tuned.decision.now.share()).abs() < 1e-2);
    assert!((slack(&after) - tuned.decision.then.share()).abs() < 1e-2);
    let counts = |pool: &PoolStats| {
        let sum = |field: fn(&millpond::ClassStats) -> u64| pool.sum(field);
        [sum(|c| c.items), sum(|c| c.item_bytes), sum(|c| c.inserts), sum(|c| c.hits), sum(|c| c.evictions)]
    };
    assert_eq!(counts(&after), counts(&before));
    cache.validate();
    for key in 0..9_000_u32 {
        let found = cache.peek(&key.to_le_bytes()).expect("nothing was evicted");
        assert!(found.len() == len(key) && is_whole(key, &found));
        let options = options(key);
        assert_eq!((found.tag(), found.user_bits()), (options.tag, options.user_bits));
        assert_eq!(found.expires_at(), (key % 3 == 0).then_some(5_000 + key));
        assert_eq!(found.was_fetched(), key % 2 == 0);
    }
    // They expire from where they are now.
    clock.advance(Duration::from_secs(20_000));
    assert_eq!(cache.reap(), 3_000);
    cache.validate();
    let again = cache.tune_classes(pool).expect("exists");
    assert!(!again.decision.applies, "{}", again.decision.reason);
}

#[test]
fn chained_and_structured_items_move_too() {
    use millpond::structured::{Map, StructureOptions};
    let cache = cache(128, &Clock::manual(1_000));
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    (0..40_000).for_each(|key| put(&cache, pool, key, 300, &ItemOptions::default()));
    let long: Vec<u8> = (0..9_000_000_u32).map(|i| mix64(i.into()) as u8).collect();
    cache.put_value(pool, b"long", &long, &ItemOptions::default()).expect("room");
    let chainable = ItemOptions { chainable: true, ..ItemOptions::default() };
    put(&cache, pool, 40_000, 330, &chainable);
    let parent = cache.find(&40_000_u32.to_le_bytes()).expect("there");
    for i in 0..100_u8 {
        let mut link = parent.allocate_link(350).expect("room");
        link.value_mut().fill(i);
        parent.push_link(link).map_err(drop).expect("current");
    }
    drop(parent);
    let (map, _) =
        Map::<u32, u32>::open_or_create(&cache, pool, b"map", &StructureOptions::default()).expect("new");
    (0..500).for_each(|i| assert_eq!(map.insert(&i, &(i * 3)).expect("room"), None));
    let tuned = cache.tune_classes(pool).expect("exists");
    assert!(tuned.decision.applies && tuned.bytes_left == 0, "{tuned:?}");
    cache.validate();
    assert!((0..500).all(|i| map.get(&i).expect("there") == Some(i * 3)));
    (500..2_000).for_each(|i| assert_eq!(map.insert(&i, &(i * 3)).expect("it grows on"), None));
    assert!((0..2_000).all(|i| map.get(&i).expect("there") == Some(i * 3)));
    let mut whole = Vec::new();
    cache.find(b"long").expect("there").read_whole(&mut whole);
    assert!(whole == long);
    let parent = cache.find(&40_000_u32.to_le_bytes()).expect("there");
    assert!(is_whole(40_000, &parent));
    let links: Vec<u8> = parent.links().map(|link| link.value()[349]).collect();
    assert_eq!(links, (0..100).rev().collect::<Vec<_>>());
    drop(parent);
    cache.validate();
}

#[test]
fn a_full_pool_loses_little_and_holds_more() {
    for policy in [PolicyKind::S3_FIFO, PolicyKind::LRU] {
        let cache = cache(96, &Clock::manual(1_000));
        let pool = cache.add_pool(PoolConfig { policy, ..PoolConfig::named("p") }).expect("new");
        let len = |key: u32| 250 + (mix64(key.into()) % 8) as usize * 5;
        (0..700_000).for_each(|key| put(&cache, pool, key, len(key), &ItemOptions::default()));
        let before = pool_stats(&cache).sum(|class| class.items);
        assert!(pool_stats(&cache).sum(|class| class.evictions) > 0);
        assert!(cache.tune_classes(pool).expect("exists").decision.applies);
        let moved = pool_stats(&cache).sum(|class| class.items);
        assert!(moved > before * 8 / 10, "{policy}: {moved} of {before}");
        cache.validate();
        (700_000..1_400_000).for_each(|key| put(&cache, pool, key, len(key), &ItemOptions::default()));
        let after = pool_stats(&cache).sum(|class| class.items);
        assert!(after > before * 102 / 100, "{policy}: {after} after {before}");
        cache.validate();
    }
}

#[test]
fn held_items_keep_their_slab_and_nothing_else() {
    let cache = cache(64, &Clock::manual(1_000));
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    (0..60_000).for_each(|key| put(&cache, pool, key, 300, &ItemOptions::default()));
    let held: Vec<_> = [7_u32, 40_000].map(|key| cache.find(&key.to_le_bytes()).expect("there")).into();
    let tuned = cache.tune_classes(pool).expect("exists");
    assert!(tuned.decision.applies && (1..=8 << 20).contains(&tuned.bytes_left), "{tuned:?}");
    assert!(pool_stats(&cache).classes.iter().any(|class| class.is_leaving && class.bytes > 0));
    assert!(held.iter().zip([7, 40_000]).all(|(item, key)| is_whole(key, item) && item.is_current()));
    cache.maintain().expect("nothing to shrink");
    assert!(pool_stats(&cache).classes.iter().any(|class| class.is_leaving));
    drop(held);
    cache.maintain().expect("nothing to shrink");
    let after = pool_stats(&cache);
    assert!(!after.classes.iter().any(|class| class.is_leaving));
    assert_eq!(after.sum(|class| class.items), 60_000);
    cache.validate();
}

#[test]
fn maintenance_tunes_by_itself_while_it_is_asked_to() {
    let clock = Clock::manual(1_000);
    let cache = cache(64, &clock);
    let fixed = cache.ledger().part(Part::Fixed);
    let tuning = Tuning { every_secs: 30, ..Tuning::default() };
    let config = PoolConfig { tuning: Some(tuning.clone()), ..PoolConfig::named("p") };
    let pool = cache.add_pool(config).expect("new");
    (0..60_000).for_each(|key| put(&cache, pool, key, 304, &ItemOptions::default()));
    let maintain = |secs| {
        for _ in 0..secs {
            clock.advance(Duration::from_secs(1));
            cache.maintain().expect("nothing to shrink");
        }
    };
    maintain(29);
    assert!(slack(&pool_stats(&cache)) > 0.05);
    maintain(5);
    assert!(slack(&pool_stats(&cache)) < 0.01, "{}", slack(&pool_stats(&cache)));
    assert_eq!(pool_stats(&cache).sum(|class| class.items), 60_000);
    // The sizes of items change, and the classes follow; but not once they are told to stay.
    (0..60_000).for_each(|key| put(&cache, pool, key, 384, &ItemOptions::default()));
    maintain(40);
    assert!(slack(&pool_stats(&cache)) < 0.01);
    cache.set_pool_tuning(pool, None).expect("exists");
    (0..60_000).for_each(|key| put(&cache, pool, key, 704, &ItemOptions::default()));
    maintain(100);
    assert!(slack(&pool_stats(&cache)) > 0.01);
    cache.set_pool_tuning(pool, Some(tuning)).expect("exists");
    maintain(40);
    assert!(slack(&pool_stats(&cache)) < 0.01);
    cache.validate();
    assert!(cache.remove_pool(pool).expect("exists").is_gone);
    assert!(
        cache.ledger().part(Part::Fixed).abs_diff(fixed) < 1_024,
        "tables of sizes and classes that are gone are off the bill"
    );
}

#[test]
fn a_restart_finds_the_sizes_again() {
    let folder = std::path::PathBuf::from(format!("/dev/shm/millpond-test-tune-{}", std::process::id()));
    let open = || {
        let config =
            CacheConfig { memory: ByteSize::mib(64), shared: Some(folder.clone()), ..CacheConfig::default() };
        Cache::new(config).expect("opens")
    };
    let tuned = || PoolConfig { tuning: Some(Tuning::default()), ..PoolConfig::named("p") };
    let slabs = |cache: &Cache| {
        let classes = pool_stats(cache).classes;
        let with_slabs = classes.iter().filter(|class| class.bytes > 0);
        let mut slabs: Vec<_> =
            with_slabs.map(|class| (class.chunk_bytes, class.bytes, class.is_leaving)).collect();
        slabs.sort_unstable();
        slabs
    };
    let before = {
        let cache = open();
        let pool = cache.add_pool(tuned()).expect("new");
        (0..30_000)
            .for_each(|key| put(&cache, pool, key, 300 + key as usize % 2 * 900, &ItemOptions::default()));
        assert!(cache.tune_classes(pool).expect("exists").decision.applies);
        slabs(&cache)
    };
    let cache = open();
    let pool = cache.add_pool(tuned()).expect("new");
    assert_eq!((slabs(&cache), cache.recovered().items), (before.clone(), 30_000));
    assert!(before.iter().all(|(_, _, is_leaving)| !is_leaving));
    // They are the pool's sizes, and not only the remaining ones.
    put(&cache, pool, 30_000, 300, &ItemOptions::default());
    assert_eq!(slabs(&cache), before);
    cache.validate();
    drop(cache);
    // A pool that is not tuned goes back to its own sizes by and by, and keeps its items.
    let cache = open();
    cache.add_pool(PoolConfig::named("p")).expect("new");
    assert!(slabs(&cache).iter().any(|(_, _, is_leaving)| *is_leaving));
    (0..5).for_each(|_| cache.maintain().expect("nothing to shrink"));
    assert!(slabs(&cache).iter().all(|(_, _, is_leaving)| !is_leaving), "{:?}", slabs(&cache));
    assert!(
        (0..30_001_u32).all(|key| cache.find(&key.to_le_bytes()).is_some_and(|item| is_whole(key, &item)))
    );
    cache.validate();
    drop(cache);
    std::fs::remove_dir_all(&folder).expect("removes");
}

/// Finds, inserts and removes items of sizes that go by `phase`.
fn worker(cache: &Cache, pool: PoolId, seed: u64, phase: &AtomicU32) {
    let mut rng = seeded(seed);
    let mut held = std::collections::VecDeque::new();
    loop {
        let phase = phase.load(Ordering::Relaxed);
        if phase == END {
            break;
        }
        let key = rng.random_range(0..10_000_u32).min(rng.random_range(0..10_000));
        match rng.random_range(0..10) {
            0..3 => {
                cache.find_with(&key.to_le_bytes(), |found| assert!(is_whole(key, &found), "torn"));
            }
            3..5 => {
                if let Some(found) = cache.find(&key.to_le_bytes()) {
                    assert!(is_whole(key, &found), "torn");
                    if key % 64 == 0 {
                        held.push_back((key, found));
                    }
                }
            }
            5 => drop(cache.remove(&key.to_le_bytes())),
            _ => {
                let len = 200 + (phase * 331 % 3_000 + key % 4 * 13) as usize;
                let options = ItemOptions { expirable: key % 2 == 0, ..ItemOptions::default() };
                if let Ok(mut item) = cache.allocate(pool, &key.to_le_bytes(), len, &options) {
                    item.value_mut().fill(mix64(key.into()) as u8);
                    cache.put(item);
                }
            }
        }
        if held.len() > 20 {
            held.pop_front().into_iter().for_each(|(key, item)| assert!(is_whole(key, &item), "torn"));
        }
    }
}

/// The phase in which workers end.
const END: u32 = u32::MAX;

#[test]
fn values_stay_whole_while_sizes_change_over_and_over() {
    let cache = cache(64, &Clock::manual(1_000));
    let tuning = Tuning { least_gain: 0.0005, least_items: 10, every_secs: u32::MAX, most_classes: Some(60) };
    let config = PoolConfig { tuning: Some(tuning), ..PoolConfig::named("p") };
    let pool = cache.add_pool(config).expect("new");
    let phase = Arc::new(AtomicU32::new(0));
    let workers: Vec<_> = (0..3)
        .map(|seed| {
            let (cache, phase) = (cache.clone(), Arc::clone(&phase));
            base::thread::spawn(format!("worker-{seed}"), move || worker(&cache, pool, seed, &phase))
                .expect("a thread")
        })
        .collect();
    let (mut changes, mut new_classes, mut before) = (0, 0, std::collections::BTreeSet::new());
    for round in 0..600 {
        let decision = cache.tune_classes(pool).expect("exists").decision;
        if decision.applies {
            changes += 1;
            let sizes: std::collections::BTreeSet<_> = decision.sizes.into_iter().collect();
            new_classes += sizes.difference(&before).count();
            before = sizes;
        }
        // Some 4,000 items of the next sizes come until the next look.
        phase.fetch_add(u32::from(round % 4 == 0), Ordering::Relaxed);
        // A refusal means that held items keep a slab: that is allowed to happen.
        let _ = cache.maintain();
        if changes >= 12 && new_classes >= 260 {
            break;
        }
        base::thread::sleep(Duration::from_millis(5));
    }
    phase.store(END, Ordering::Relaxed);
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    assert!(changes >= 12 && new_classes >= 260, "numbers were used again: {changes}, {new_classes}");
    cache.validate();
    (0..20).for_each(|_| cache.maintain().expect("nothing is held"));
    assert!(!pool_stats(&cache).classes.iter().any(|class| class.is_leaving));
    cache.validate();
    cache.set_pool_limit(pool, Some(ByteSize::new(0))).expect("nothing is held");
    cache.validate();
    assert_eq!(cache.stats().index_entries, 0);
}

//! Every figure of the statistics moves when what it counts happens, and by as much.

use std::time::Duration;

use millpond::{
    ByteSize, Cache, CacheConfig, ClassStats, Clock, Expiry, ItemOptions, ItemTag, PolicyKind, PoolConfig,
    PoolId, PoolStats, QueueStats, SizeClassConfig,
};

const SLAB: u64 = 4 << 20;

/// A cache with one class of 1,000 bytes and one of 4,000, at most four slabs.
fn cache(policy: PolicyKind) -> (Cache, PoolId, Clock) {
    let clock = Clock::manual(1_000_000);
    let config = CacheConfig {
        memory: ByteSize::mib(32),
        clock: clock.clone(),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = PoolConfig {
        policy,
        limit: Some(ByteSize::new(4 * SLAB)),
        classes: SizeClassConfig::List(vec![1_000, 4_000]),
        own_keys: true,
        ..PoolConfig::named("default")
    };
    let pool = cache.add_pool(pool).expect("a new name");
    (cache, pool, clock)
}

fn put(cache: &Cache, pool: PoolId, key: u32, value_len: usize, options: &ItemOptions) {
    let mut item = cache.allocate(pool, &key.to_le_bytes(), value_len, options).expect("room");
    item.value_mut().fill(1);
    cache.put(item);
}

fn find(cache: &Cache, pool: PoolId, key: u32) -> bool {
    cache.keys(pool).find(&key.to_le_bytes()).is_some()
}

fn pool_stats(cache: &Cache) -> PoolStats {
    cache.stats().pools.swap_remove(0)
}

fn small(cache: &Cache) -> ClassStats {
    pool_stats(cache).classes.into_iter().find(|class| class.chunk_bytes == 1_000).expect("in use")
}

fn expiring(secs: u32) -> ItemOptions {
    ItemOptions { expiry: Expiry::After(secs), ..ItemOptions::default() }
}

#[test]
fn a_new_class_counts_what_it_was_asked_for() {
    let (cache, pool, _) = cache(PolicyKind::default());
    put(&cache, pool, 1, 500, &ItemOptions::default());
    let class = small(&cache);
    assert!(class.queue_bytes > 0);
    let queue = |name, items| QueueStats { name, items, age_secs: (items > 0).then_some(0), hits: 0 };
    // All fields by name, so that a new one must be thought of here.
    let expected = ClassStats {
        is_leaving: false,
        number: 0,
        chunk_bytes: 1_000,
        bytes: 4_096,
        chunks: 4,
        free_chunks: 3,
        items: 1,
        links: 0,
        item_bytes: 12 + 4 + 500,
        tail_age_secs: None,
        projected_tail_age_secs: None,
        queues: vec![queue("small", 1), queue("main", 0)],
        tail_hits: 0,
        hits: 0,
        inserts: 1,
        evictions: 0,
        expired: 0,
        flushed: 0,
        removed: 0,
        replaced: 0,
        allocation_failures: 0,
        allocations: 1,
        evicted_unread: 0,
        evicted_expiring: 0,
        evicted_age_secs: 0,
        last_evicted_idle_secs: 0,
        expired_unread: 0,
        reaped: 0,
        items_moved: 0,
        move_evictions: 0,
        shift_evictions: 0,
        limit_evictions: 0,
        runs_added: 1,
        runs_released: 0,
        run_releases_aborted: 0,
        // The first run came with this chunk, and no batch yet.
        magazine_chunks: 0,
        queue_bytes: class.queue_bytes,
        ghost_bytes: 0,
        ghosts: 0,
        wheel_entries: 0,
    };
    assert_eq!(class, expected);
    assert_eq!((class.slack_bytes(), class.unused_slab_bytes()), (1_000 - 516, 96));
    let stats = cache.stats();
    assert!((stats.index_load() - 1.0 / stats.index_capacity as f64).abs() < 1e-9);
}

#[test]
fn ends_of_items_are_told_apart() {
    let (cache, pool, clock) = cache(PolicyKind::default());
    let plain = ItemOptions::default();
    (0..10).for_each(|key| put(&cache, pool, key, 500, &expiring(10)));
    assert_eq!(small(&cache).wheel_entries, 10);
    put(&cache, pool, 10, 500, &plain);
    put(&cache, pool, 10, 600, &plain);
    assert!(cache.keys(pool).remove(&10_u32.to_le_bytes()));
    assert!(find(&cache, pool, 0) && find(&cache, pool, 1) && !find(&cache, pool, 99));
    clock.advance(Duration::from_secs(11));
    assert!(!find(&cache, pool, 2), "expired");
    let class = small(&cache);
    assert_eq!((class.replaced, class.removed, class.expired, class.reaped), (1, 1, 1, 0));
    assert_eq!(cache.reap(), 9);
    let class = small(&cache);
    assert_eq!((class.expired, class.reaped, class.expired_unread), (10, 9, 8), "two had been found");
    assert_eq!((class.items, class.item_bytes, class.hits), (0, 0, 2));
    assert_eq!(pool_stats(&cache).misses, 2);
}

#[test]
fn evictions_say_how_old_and_how_useful_items_were() {
    let (cache, pool, clock) = cache(PolicyKind::Lru { refresh_secs: 0 });
    let room = 4 * (SLAB / 1_000);
    for key in 0..room as u32 {
        let options = if key % 2 == 0 { expiring(100_000) } else { ItemOptions::default() };
        put(&cache, pool, key, 900, &options);
        if key < 1_000 {
            find(&cache, pool, key);
        }
        if key == 999 {
            clock.advance(Duration::from_secs(50));
        }
    }
    clock.advance(Duration::from_secs(50));
    let full = small(&cache);
    assert!(full.free_chunks == full.magazine_chunks, "all that is free is at hand");
    assert_eq!(full.tail_age_secs, Some(100));
    assert_eq!(full.projected_tail_age_secs, Some(50), "behind a slab of the oldest");
    // The first 1,000 were found, the others not. Some of them are in a thread's hands already.
    for key in 0..2_000 {
        put(&cache, pool, 1_000_000 + key, 900, &ItemOptions::default());
    }
    let class = small(&cache);
    assert!((1_900..=2_300).contains(&class.evictions), "{}", class.evictions);
    assert_eq!(class.evicted_unread, class.evictions - 1_000);
    assert!(class.evicted_expiring.abs_diff(class.evictions / 2) <= 1, "{}", class.evicted_expiring);
    // What was evicted ahead left before the last 50 seconds.
    let ahead = full.evictions;
    assert_eq!(class.evicted_age_secs, ahead * 50 + (1_000 - ahead) * 100 + (class.evictions - 1_000) * 50);
    assert_eq!(class.last_evicted_idle_secs, 50);
    assert_eq!(class.allocations, room + 2_000);
    assert!(class.magazine_chunks > 0, "the rest of a batch");
    assert_eq!(class.queues[0].name, "lru");
    assert_eq!((class.queues[0].hits, class.queues[0].age_secs), (1_000, Some(50)));
    let tagged = ItemOptions { tag: Some(ItemTag::default()), ..ItemOptions::default() };
    (0..30_000).for_each(|key| put(&cache, pool, 2_000_000 + key, 900, &tagged));
    assert_eq!(small(&cache).last_evicted_idle_secs, 0, "made this second");
}

#[test]
fn hits_ghosts_and_ages_are_told_by_queue() {
    let (cache, pool, clock) = cache(PolicyKind::default());
    let room = 4 * (SLAB / 1_000) as u32;
    for key in 0..2 * room {
        put(&cache, pool, key, 900, &ItemOptions::default());
        // Some popular ones, which move to the main queue.
        (0..100).for_each(|popular| assert!(find(&cache, pool, popular) || popular > key));
    }
    clock.advance(Duration::from_secs(7));
    let class = small(&cache);
    let [small_queue, main] = &class.queues[..] else { panic!("{:?}", class.queues) };
    assert_eq!((small_queue.name, main.name), ("small", "main"));
    assert!(main.items >= 100 && main.hits > main.items * 100, "{main:?}");
    assert!(
        small_queue.hits > 100 && main.age_secs == Some(7) && small_queue.age_secs == Some(7),
        "{small_queue:?}"
    );
    assert_eq!(small_queue.hits + main.hits, class.hits);
    assert!(class.ghosts > 0 && class.ghost_bytes > 0);
    cache.set_pool_policy(pool, "2q".parse().expect("a policy")).expect("a pool");
    (0..100).for_each(|popular| assert!(find(&cache, pool, popular)));
    let after = small(&cache);
    let names: Vec<_> = after.queues.iter().map(|queue| queue.name).collect();
    assert_eq!(names, ["hot", "cold", "warm"]);
    assert_eq!(after.queues.iter().map(|queue| queue.hits).sum::<u64>(), 100, "hits begin anew");
    assert_eq!((after.hits, after.ghosts), (class.hits + 100, 0));
}

#[test]
fn slabs_that_come_and_go_are_counted_with_their_items() {
    let (cache, pool, _) = cache(PolicyKind::default());
    let per_slab = SLAB / 1_000;
    // Two and a half slabs.
    (0..(per_slab * 5 / 2) as u32).for_each(|key| put(&cache, pool, key, 900, &ItemOptions::default()));
    let before = small(&cache);
    assert!(before.runs_added > 20, "they grow: {before:?}");
    cache.move_slab(pool, 0, Some(1)).expect("nothing is held");
    let (stats, class) = (pool_stats(&cache), small(&cache));
    assert!(class.bytes < before.bytes && class.runs_released > 0, "{class:?}");
    assert_eq!((stats.slabs_moved, stats.rebalances), (1, 0));
    assert!(class.items_moved + class.move_evictions >= per_slab / 8, "{class:?}");
    let held: Vec<_> =
        (0..(per_slab * 5 / 2) as u32).filter_map(|key| cache.keys(pool).find(&key.to_le_bytes())).collect();
    let told = cache.held(pool).expect("a pool");
    assert_eq!(
        (told.items, told.handles, told.bytes),
        (held.len() as u64, held.len() as u64, held.len() as u64 * 1_000)
    );
    assert!(cache.move_slab(pool, 0, None).is_err(), "all items are held");
    assert!(small(&cache).run_releases_aborted > 0);
    drop(held);
    assert_eq!(cache.held(pool).expect("a pool").handles, 0);
    cache.set_pool_limit(pool, Some(ByteSize::new(SLAB))).expect("nothing is held");
    assert_eq!(pool_stats(&cache).resizes, 1);
    assert!(small(&cache).runs_released >= 2);
}

#[test]
fn allocations_that_fail_are_counted_and_bring_slabs() {
    let (cache, pool, _) = cache(PolicyKind::default());
    let held: Vec<_> = (0..5 * (SLAB / 1_000) as u32)
        .map_while(|key| {
            let item = cache.allocate(pool, &key.to_le_bytes(), 900, &ItemOptions::default()).ok()?;
            Some(cache.insert_or_replace(item).0)
        })
        .collect();
    let room = held.len() as u32;
    assert!(room > 15_000, "{room} in four slabs");
    assert!(cache.allocate(pool, b"more", 900, &ItemOptions::default()).is_err(), "all are held");
    assert_eq!(small(&cache).allocation_failures, 2);
    drop(held);
    put(&cache, pool, room, 3_000, &ItemOptions::default());
    let stats = pool_stats(&cache);
    assert_eq!((stats.slabs_moved, stats.classes[1].allocations), (1, 1));
    assert!(stats.classes[1].bytes > 0);
    // The strategy `base` gives a slab to a class whose allocations have failed since it last
    // looked.
    cache.rebalance();
    let found: Vec<_> = (0..=room).filter_map(|key| cache.keys(pool).find(&key.to_le_bytes())).collect();
    let made: Vec<_> = (room + 1..room + 3_000)
        .map_while(|key| {
            let item = cache.allocate(pool, &key.to_le_bytes(), 3_000, &ItemOptions::default()).ok()?;
            Some(cache.insert_or_replace(item).0)
        })
        .collect();
    assert!(pool_stats(&cache).classes[1].allocation_failures > 0, "all are held");
    drop((found, made));
    let before = pool_stats(&cache).rebalances;
    let moved = cache.rebalance().len() as u64;
    assert_eq!((moved, pool_stats(&cache).rebalances), (1, before + 1));
}

#[test]
fn what_was_over_when_it_was_to_be_evicted_was_not_evicted() {
    let (cache, pool, clock) = cache(PolicyKind::default());
    (0..500).for_each(|key| put(&cache, pool, key, 900, &expiring(10)));
    (500..1_000).for_each(|key| put(&cache, pool, key, 900, &ItemOptions::default()));
    cache.keys(pool).flush();
    (1_000..1_500).for_each(|key| put(&cache, pool, key, 900, &expiring(10)));
    clock.advance(Duration::from_secs(11));
    // As many as all slabs hold, so that everything before has to go.
    let chunks = (4 * SLAB / 1_000) as u32;
    (2_000..2_000 + 2 * chunks).for_each(|key| put(&cache, pool, key, 900, &ItemOptions::default()));
    let class = small(&cache);
    assert_eq!((class.expired, class.flushed, class.reaped), (1_500, 500, 0), "{class:?}");
    assert_eq!(class.inserts, class.items + class.evictions + class.expired, "{class:?}");
    assert!(class.evictions >= u64::from(chunks), "{class:?}");
}

#[test]
fn evictions_for_a_lower_limit_and_removals_with_a_pool_are_told_apart() {
    let (cache, pool, _) = cache(PolicyKind::default());
    let chunks = (4 * SLAB / 1_000) as u32;
    (0..chunks).for_each(|key| put(&cache, pool, key, 900, &ItemOptions::default()));
    let before = small(&cache);
    cache.set_pool_limit(pool, Some(ByteSize::new(SLAB))).expect("nothing is held");
    let class = small(&cache);
    assert_eq!(class.limit_evictions, class.evictions - before.evictions, "{class:?}");
    assert!(class.limit_evictions > 0 && class.shift_evictions == 0, "{class:?}");
    let removal = cache.remove_pool(pool).expect("it is there");
    assert_eq!((removal.items, cache.stats().removed_with_pools), (class.items, class.items));
}

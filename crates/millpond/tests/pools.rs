//! Pools come and go while the cache serves: nothing of one that is gone is left, and nobody is
//! disturbed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::rng::{RngExt, seeded};
use millpond::{ByteSize, Cache, CacheConfig, ErrorKind, ItemOptions, Part, PoolConfig, PoolId};

fn cache(mib: u64) -> Cache {
    let config = CacheConfig { memory: ByteSize::mib(mib), huge_pages: false, ..CacheConfig::default() };
    Cache::new(config).expect("valid")
}

fn put(cache: &Cache, pool: PoolId, key: &[u8], value: &[u8]) {
    let mut item = cache.allocate(pool, key, value.len(), &ItemOptions::default()).expect("memory");
    item.value_mut().copy_from_slice(value);
    cache.put(item);
}

/// Returns what pools and their items are billed for; the index keeps what it has grown to.
fn bill(cache: &Cache) -> Vec<(Part, u64)> {
    let parts = cache.stats().memory;
    parts.into_iter().filter(|(part, _)| *part != Part::Index).collect()
}

#[test]
fn a_removed_pool_leaves_nothing_behind() {
    let cache = cache(64);
    let stays = cache.add_pool(PoolConfig { own_keys: false, ..PoolConfig::named("stays") }).expect("new");
    put(&cache, stays, b"mine", b"stays");
    // The bill of what stays is brought up to date.
    cache.stats();
    let before = bill(&cache);
    let goes = cache.add_pool(PoolConfig { own_keys: false, ..PoolConfig::named("goes") }).expect("new");
    for i in 0..20_000_u32 {
        put(&cache, goes, &i.to_le_bytes(), &vec![i as u8; (i % 3_000) as usize]);
    }
    let items = cache.stats().pools[1].sum(|class| class.items);
    assert_eq!(cache.find(&19_999_u32.to_le_bytes()).map(|found| found.len()), Some(1_999));
    let removal = cache.remove_pool(goes).expect("exists");
    assert!(removal.is_gone && removal.items == items && removal.bytes_left == 0, "{removal:?} of {items}");
    assert_eq!(bill(&cache), before);
    let stats = cache.stats();
    assert_eq!((stats.pools.len(), stats.index_entries), (1, 1));
    assert!(cache.find(&19_999_u32.to_le_bytes()).is_none());
    assert_eq!(&*cache.find(b"mine").expect("of the other pool"), b"stays");
    cache.validate();

    for error in [
        cache.allocate(goes, b"k", 1, &ItemOptions::default()).map(drop).expect_err("gone"),
        cache.set_pool_limit(goes, None).expect_err("gone"),
        cache.remove_pool(goes).map(drop).expect_err("gone"),
        cache.items(goes).map(drop).expect_err("gone"),
    ] {
        assert_eq!(error.kind(), ErrorKind::NoSuchPool);
    }
    assert_eq!(cache.pool_id("goes"), None);
    // Its name and number are given again, and the old name of the old pool means nothing.
    let again = cache.add_pool(PoolConfig { own_keys: false, ..PoolConfig::named("goes") }).expect("free");
    assert_eq!(again.number(), goes.number());
    assert_ne!(again, goes);
    put(&cache, again, b"new", b"new");
    assert_eq!(cache.find(b"new").map(|found| found.pool()), Some(again));
    assert_eq!(cache.set_pool_limit(goes, None).expect_err("another").kind(), ErrorKind::NoSuchPool);
    cache.validate();
}

#[test]
fn what_the_cache_finds_is_the_first_pools_until_that_ends() {
    let cache = cache(64);
    assert!(cache.find(b"key").is_none() && !cache.remove(b"key"));
    let first = cache.add_pool(PoolConfig::named("first")).expect("new");
    let second = cache.add_pool(PoolConfig::named("second")).expect("new");
    put(&cache, second, b"key", b"second");
    assert!(cache.find(b"key").is_none());
    put(&cache, first, b"key", b"first");
    assert_eq!(&*cache.find(b"key").expect("stored"), b"first");
    cache.remove_pool(first).expect("exists");
    assert!(cache.find(b"key").is_none());
    let again = cache.add_pool(PoolConfig::named("again")).expect("new");
    assert_eq!(again.number(), first.number());
    put(&cache, again, b"key", b"again");
    assert!(cache.find(b"key").is_none() && !cache.remove(b"key"), "the number is another pool's now");
    assert_eq!(&*cache.keys(again).find(b"key").expect("stored"), b"again");
}

#[test]
fn what_the_cache_finds_is_in_the_shared_space_if_the_first_pool_shares_its_keys() {
    let cache = cache(64);
    let shared = |name| PoolConfig { own_keys: false, ..PoolConfig::named(name) };
    let first = cache.add_pool(shared("first")).expect("new");
    let own = cache.add_pool(PoolConfig::named("own")).expect("new");
    let third = cache.add_pool(shared("third")).expect("new");
    put(&cache, own, b"key", b"own");
    assert!(cache.find(b"key").is_none());
    put(&cache, first, b"key", b"first");
    assert_eq!(&*cache.find(b"key").expect("stored"), b"first");
    cache.remove_pool(own).expect("exists");
    assert_eq!(&*cache.find(b"key").expect("stored"), b"first");
    cache.remove_pool(first).expect("exists");
    assert!(cache.find(b"key").is_none());
    put(&cache, third, b"key", b"third");
    assert_eq!(&*cache.find(b"key").expect("the space outlives its first pool"), b"third");
}

#[test]
fn held_items_keep_their_runs_and_the_name() {
    let cache = cache(64);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    for i in 0..3_000_u32 {
        put(&cache, pool, &i.to_le_bytes(), &[i as u8; 5_000]);
    }
    let held = cache.find(&9_u32.to_le_bytes()).expect("there");
    let unfinished = cache.allocate(pool, b"unfinished", 200_000, &ItemOptions::default()).expect("memory");
    let removal = cache.remove_pool(pool).expect("exists");
    assert_eq!((removal.is_gone, removal.items), (false, 3_000));
    assert!(cache.find(&9_u32.to_le_bytes()).is_none() && !held.is_current());
    assert_eq!(*held, [9; 5_000]);
    let stats = cache.stats();
    assert!(stats.pools[0].is_leaving && stats.pools[0].slab_bytes == removal.bytes_left);
    assert!((205_000..4 << 20).contains(&removal.bytes_left), "two runs: {removal:?}");
    assert_eq!(cache.add_pool(PoolConfig::named("p")).expect_err("taken").kind(), ErrorKind::PoolExists);
    assert_eq!(cache.pool_id("p"), None);
    assert_eq!(
        cache.allocate(pool, b"k", 1, &ItemOptions::default()).expect_err("leaving").kind(),
        ErrorKind::NoSuchPool
    );
    // What is inserted late goes as well.
    cache.put(unfinished);
    cache.maintain().expect("nothing to shrink");
    assert!(cache.find(b"unfinished").is_none());
    assert!((1..removal.bytes_left).contains(&cache.stats().pools[0].slab_bytes));
    drop(held);
    cache.maintain().expect("nothing to shrink");
    assert!(cache.stats().pools.is_empty());
    cache.add_pool(PoolConfig::named("p")).expect("free now");
    cache.validate();
}

#[test]
fn a_key_space_begins_anew() {
    let cache = cache(64);
    let own = || PoolConfig { own_keys: true, ..PoolConfig::named("own") };
    let first = cache.add_pool(own()).expect("new");
    put(&cache, first, b"key", b"first");
    assert!(cache.keys(first).find(b"key").is_some() && cache.keys(first).find(b"none").is_none());
    cache.keys(first).flush_at(1);
    put(&cache, first, b"key", b"first");
    assert!(cache.remove_pool(first).expect("exists").is_gone);
    let second = cache.add_pool(own()).expect("free");
    assert_eq!(second.number(), first.number());
    assert_eq!(cache.stats().pools[0].misses, 0);
    assert!(cache.keys(second).find(b"key").is_none());
    put(&cache, second, b"key", b"second");
    assert_eq!(cache.keys(second).find(b"key").as_deref(), Some(&b"second"[..]));
    cache.validate();
}

#[test]
fn there_are_4096_pools_and_one_for_each_that_goes() {
    let cache = cache(256);
    let before = bill(&cache);
    // Key spaces stay when their pools go.
    let shared = |i| PoolConfig { own_keys: false, ..PoolConfig::named(format!("p{i}")) };
    let mut pools: Vec<_> = (0..4_096).map(|i| cache.add_pool(shared(i)).expect("room")).collect();
    assert_eq!(
        cache.add_pool(PoolConfig::named("one more")).expect_err("full").kind(),
        ErrorKind::PoolExists
    );
    let gone = pools.swap_remove(2_000);
    assert!(cache.remove_pool(gone).expect("exists").is_gone);
    let one_more =
        cache.add_pool(PoolConfig { own_keys: false, ..PoolConfig::named("one more") }).expect("room");
    assert_eq!(one_more.number(), gone.number());
    pools.push(one_more);
    for pool in pools {
        assert!(cache.remove_pool(pool).expect("exists").is_gone);
    }
    assert_eq!(bill(&cache), before);
}

/// Pools by place, one after the other in each.
type Places = Vec<parking_lot::Mutex<PoolId>>;

/// Uses whatever pools there are, also those that are being removed. Says how many items it has
/// inserted.
fn worker(cache: &Cache, steady: PoolId, places: &Places, seed: u64, stop: &AtomicBool) -> u64 {
    let mut rng = seeded(seed);
    let mut held = std::collections::VecDeque::new();
    let mut inserted = 0;
    // It may be late.
    while inserted <= 300 || !stop.load(Ordering::Relaxed) {
        let pool = places.get(rng.random_range(0..=places.len())).map_or(steady, |place| *place.lock());
        let key = rng.random_range(0..2_000_u32).to_le_bytes();
        let keys = cache.keys(pool);
        match rng.random_range(0..10) {
            0..4 => {
                keys.find_with(&key, |found| assert!(found.iter().all(|b| *b == key[0]), "torn"));
            }
            4..7 => {
                if let Some(found) = keys.find(&key) {
                    assert!(found.iter().all(|b| *b == key[0]), "torn");
                    held.push_back(found);
                }
            }
            7 => drop(keys.remove(&key)),
            _ => {
                let len = rng.random_range(0..2_000);
                if let Ok(mut item) = cache.allocate(pool, &key, len, &ItemOptions::default()) {
                    item.value_mut().fill(key[0]);
                    cache.put(item);
                    inserted += 1;
                }
            }
        }
        if held.len() > 8 {
            held.pop_front();
        }
    }
    inserted
}

/// A pool of one of the two kinds, in its place.
fn add(cache: &Cache, name: String, own_keys: bool) -> PoolId {
    cache.add_pool(PoolConfig { own_keys, ..PoolConfig::named(name) }).expect("a number is free")
}

#[test]
fn thousands_come_and_go_under_load() {
    const PLACES: usize = 8;
    let cache = cache(48);
    let steady = cache.add_pool(PoolConfig::named("steady")).expect("new");
    let first = (0..PLACES).map(|i| add(&cache, format!("p{i}"), i % 2 == 0));
    let places: Arc<Places> = Arc::new(first.map(parking_lot::Mutex::new).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|seed| {
            let (cache, places, stop) = (cache.clone(), Arc::clone(&places), Arc::clone(&stop));
            let body = move || worker(&cache, steady, &places, seed, &stop);
            base::thread::spawn(format!("worker-{seed}"), body).expect("a thread")
        })
        .collect();
    let keeper = {
        let (cache, stop) = (cache.clone(), Arc::clone(&stop));
        base::thread::spawn("keeper", move || {
            while !stop.load(Ordering::Relaxed) {
                // A refusal means that held items keep a slab: that is allowed to happen.
                let _ = cache.maintain();
                let _ = cache.stats();
                base::thread::sleep(std::time::Duration::from_millis(1));
            }
        })
        .expect("a thread")
    };
    let mut rng = seeded(77);
    let mut gone = 0;
    for round in 0..2_000 {
        let place = rng.random_range(0..PLACES);
        let old = *places[place].lock();
        gone += u32::from(cache.remove_pool(old).expect("not removed yet").is_gone);
        let new = add(&cache, format!("again-{round}"), rng.random_bool(0.5));
        assert!(cache.pool_id("steady") == Some(steady) && new != old);
        *places[place].lock() = new;
    }
    stop.store(true, Ordering::Relaxed);
    let inserted: u64 = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
    keeper.join().expect("no panic");
    assert!(inserted > 1_000 && gone > 0);
    cache.maintain().expect("nothing is held");
    assert_eq!(cache.stats().pools.len(), 1 + PLACES, "those that were held are gone too");
    cache.validate();
    for pool in places.iter().map(|place| *place.lock()).chain([steady]) {
        assert!(cache.remove_pool(pool).expect("there").is_gone);
    }
    cache.validate();
    assert_eq!((cache.stats().index_entries, cache.ledger().part(Part::Slabs)), (0, 0));
}

/// A pool gives its memory before it is out of the table: an allocation then finds none.
#[test]
fn an_allocation_in_a_pool_that_is_being_removed_says_that_there_is_none() {
    let cache = cache(16);
    for round in 0..300 {
        let pool = cache.add_pool(PoolConfig::named(format!("p{round}"))).expect("a pool");
        let writer = {
            let cache = cache.clone();
            base::thread::spawn("writer", move || {
                (0_u32..).find_map(|key| {
                    match cache.allocate(pool, &key.to_le_bytes(), 100, &ItemOptions::default()) {
                        Ok(item) => {
                            cache.put(item);
                            None
                        }
                        Err(error) => Some(error.kind()),
                    }
                })
            })
        };
        let writer = writer.expect("a thread");
        base::thread::sleep(std::time::Duration::from_micros(round * 10));
        cache.remove_pool(pool).expect("it is there");
        assert_eq!(writer.join().expect("no panic"), Some(ErrorKind::NoSuchPool), "round {round}");
    }
    cache.validate();
}

/// Keys of many sizes, most of which have a chunk in a slab with few others.
fn sizes_of(count: usize) -> Vec<usize> {
    (0..count).map(|number| 10 << (number % 12)).collect()
}

/// Draws each of `count` keys as often as any other, where nothing else is in the way: the
/// statistic is that of a chi-square test.
fn assert_fair(cache: &Cache, pool: PoolId, count: usize, seed: u64) {
    let mut random = seeded(seed);
    let draws = 60 * count;
    let mut drawn = vec![0_u32; count];
    for _ in 0..draws {
        let picked = loop {
            if let Some(item) = cache.pick(pool, 100_000, || random.random()).expect("a pool") {
                break item;
            }
        };
        let number =
            std::str::from_utf8(picked.key()).expect("text")[1..].parse::<usize>().expect("a number");
        drawn[number] += 1;
    }
    let expected = draws as f64 / count as f64;
    let statistic: f64 = drawn.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
    // A fair choice is beyond this about once in a million seeds.
    let degrees = (count - 1) as f64;
    let bound = degrees + 5.0 * (2.0 * degrees).sqrt() + 10.0;
    assert!(statistic < bound, "{statistic} of {bound} with seed {seed}: {drawn:?}");
}

#[test]
fn each_item_is_picked_as_often_as_any_other() {
    let cache = cache(64);
    let [pool, other] = ["p", "q"].map(|name| cache.add_pool(PoolConfig::named(name)).expect("new"));
    assert!(cache.pick(pool, 100, || 7).expect("a pool").is_none(), "nothing is there");
    for number in 0..1_000 {
        put(&cache, other, format!("other{number}").as_bytes(), b"v");
    }
    for (number, size) in sizes_of(24).into_iter().enumerate() {
        put(&cache, pool, format!("k{number}").as_bytes(), &vec![0; size]);
    }
    assert_fair(&cache, pool, 24, 1);
    // What is removed or replaced is not picked, and where there are many of one size, they do not
    // hide the others.
    for number in 24..400 {
        put(&cache, pool, format!("k{number}").as_bytes(), b"old");
        put(&cache, pool, format!("k{number}").as_bytes(), b"new");
        put(&cache, pool, format!("gone{number}").as_bytes(), b"v");
        cache.remove(format!("gone{number}").as_bytes());
    }
    assert_fair(&cache, pool, 400, 2);
    assert!(cache.remove_pool(pool).is_ok() && cache.pick(pool, 1, || 7).is_err());
}

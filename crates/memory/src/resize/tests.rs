use super::*;
use crate::release::tests::while_read;
use crate::{CacheConfig, ItemOptions, PoolConfig};

#[test]
fn a_run_with_a_held_item_does_not_take_its_pool_beyond_its_limit() {
    let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let limit = ByteSize::mib(1);
    let id = cache.add_pool(PoolConfig { limit: Some(limit), ..PoolConfig::named("p") }).expect("a pool");
    let put = |key: u32| {
        let item = cache.allocate(id, &key.to_le_bytes(), 1_000, &ItemOptions::default()).expect("room");
        cache.put(item);
    };
    (0..5_000).for_each(put);
    let core = cache.core();
    let pool = core.pool(id).expect("added");
    let (_, class) = pool.used_classes().next().expect("one has the items");
    // The longest, so that no free memory of the pool's would do in its stead.
    let run = class.inner.lock().chunks.runs().max_by_key(|run| run.units).expect("there are some");
    let held = (0..5_000_u32)
        .filter_map(|key| cache.find(&key.to_le_bytes()))
        .find(|item| (0..run.chunks(class.info)).any(|number| run.chunk(number) == item.ptr()))
        .expect("an item is in it");
    assert!(!core.move_run(run, class.info, &mut Taking::new(Why::Moved, 0)), "an item is held");
    assert!(pool.slab_bytes() <= limit.as_u64(), "{} bytes", pool.slab_bytes());
    // One that waits for the holder has begun the move by then, as one has that finds no item
    // held at first.
    assert!(!core.move_run(run, class.info, &mut Taking::new(Why::Moved, 1)), "an item is held");
    assert!(pool.slab_bytes() <= limit.as_u64(), "{} bytes", pool.slab_bytes());
    drop(held);
    assert!(core.move_run(run, class.info, &mut Taking::new(Why::Moved, 0)));
    assert!(pool.slab_bytes() <= limit.as_u64(), "{} bytes", pool.slab_bytes());
    cache.validate();
}

#[test]
fn a_class_that_insists_on_a_run_takes_no_more_once_readers_keep_what_it_took() {
    let config = CacheConfig { memory: ByteSize::mib(8), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let id = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    let allocate = |key: u32, len| cache.allocate(id, &key.to_le_bytes(), len, &ItemOptions::default());
    (0..10_000).for_each(|key| cache.put(allocate(key, 1_000).expect("room")));
    let core = cache.core();
    let pool = core.pool(id).expect("added");
    let place = pool.sizes().place_for(100_000).expect("a class");
    let class = core.class_at(&pool, pool.sizes(), place);
    let before = pool.slab_bytes();
    let taken = while_read(&cache, || {
        assert!(!core.insist_on_run(&pool, class));
        before - pool.slab_bytes()
    });
    assert!(taken > 0 && taken < 1 << 20, "{taken} bytes of {before} were taken in vain");
    assert!(core.insist_on_run(&pool, class));
    cache.validate();
}

/// Sizes in KiB of three pools of equal grants, after memory was lowered by a third under load.
fn lowered_by_a_third() -> Vec<u64> {
    let config = CacheConfig { memory: ByteSize::mib(64), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pools = ["a", "b", "c"].map(|name| cache.add_pool(PoolConfig::named(name)).expect("a pool"));
    for pool in pools {
        cache.set_pool_grant(pool, Some(ByteSize::mib(20))).expect("there is one");
    }
    let put = |pool, key: u32| {
        if let Ok(item) = cache.allocate(pool, &key.to_le_bytes(), 4_000, &ItemOptions::default()) {
            cache.put(item);
        }
    };
    (0..6_000).for_each(|key| pools.iter().for_each(|pool| put(*pool, key)));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for pool in pools {
            let (is_over, put) = (&is_over, &put);
            scope.spawn(move || {
                (6_000..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(|key| put(pool, key));
            });
        }
        cache.set_memory_lazily(ByteSize::mib(42)).expect("nothing is held");
        // What some give, others may take meanwhile.
        for _ in 0..5 {
            let _ = cache.maintain();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    cache.validate();
    cache.stats().pools.iter().map(|pool| pool.slab_bytes >> 10).collect()
}

/// None is emptied, though threads that find the memory too small may each ask the same pool for a
/// slab.
#[test]
fn of_memory_that_is_lowered_each_pool_loses_its_part() {
    for _ in 0..4 {
        let sizes = lowered_by_a_third();
        assert!(sizes.iter().all(|size| *size > 3 << 10), "{sizes:?} of 14,000 each");
    }
}

use std::sync::Arc;

use crate::{ByteSize, Cache, CacheConfig, ItemOptions, ItemRef, Lifecycle, PoolConfig};

struct KeepsEven;

impl Lifecycle for KeepsEven {
    fn may_evict(&self, item: ItemRef<'_>) -> bool {
        item.key()[0] % 2 == 1
    }
}

#[test]
fn a_full_home_gives_up_what_may_be_evicted_before_what_may_not() {
    let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let lifecycle = Some(Arc::new(KeepsEven) as Arc<dyn Lifecycle>);
    let pool = cache.add_pool(PoolConfig { lifecycle, ..PoolConfig::named("p") }).expect("a pool");
    for i in 0..8_000_u16 {
        let item = cache.allocate(pool, &i.to_le_bytes(), 100, &ItemOptions::default()).expect("room");
        cache.put(item);
    }
    let core = cache.core();
    // As if each home were full, as often as there are items.
    for i in 0..8_000_u16 {
        let guard = core.index.lock(core.hash(core.keyspace(0), &i.to_le_bytes()));
        if guard.home_slots().any(|slot| core.gives_way(guard.ptr(slot))) {
            core.make_room(guard);
        }
    }
    let cache = &cache;
    let left = |is_kept: bool| {
        (0..8_000_u16).filter(move |i| (i % 2 == 0) == is_kept && cache.peek(&i.to_le_bytes()).is_some())
    };
    assert_eq!(left(true).count(), 4_000);
    // Some lie in other homes than their own.
    assert!(left(false).count() < 400, "{}", left(false).count());
    cache.validate();
}

/// Growth makes room for itself on the bill, and may evict what lies in any bucket.
#[test]
fn an_index_that_grows_for_a_full_home_has_no_bucket_locked() {
    let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    // Those whose insertion does not ask whether it is time to grow, so that homes get full.
    let asks = |key: &u32| cache.keys(pool).hash(&key.to_le_bytes()) >> 8 & 63 == 0;
    let keys: Vec<u32> = (0..40_000).filter(|key| !asks(key)).collect();
    for key in &keys {
        let item = cache.allocate(pool, &key.to_le_bytes(), 10, &ItemOptions::default()).expect("room");
        cache.put(item);
    }
    let found = keys.iter().filter(|key| cache.peek(&key.to_le_bytes()).is_some()).count();
    assert!(found * 1_000 > keys.len() * 999, "{found} of {}", keys.len());
    cache.validate();
}

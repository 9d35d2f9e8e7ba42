use std::time::Duration;

use crate::{CacheConfig, ItemOptions, PoolConfig};

use super::*;

#[test]
fn whoever_asks_for_a_pool_by_its_id_waits_until_it_is_recovered() {
    let folder = std::env::temp_dir().join(format!("millpond-recover-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let open = || {
        let config =
            CacheConfig { memory: ByteSize::mib(16), shared: Some(folder.clone()), ..CacheConfig::default() };
        Cache::new(config).expect("a cache")
    };
    let add = |cache: &Cache, name| {
        cache.add_pool(PoolConfig { own_keys: false, ..PoolConfig::named(name) }).expect("a pool")
    };
    {
        let cache = open();
        let pool = add(&cache, "left");
        for key in 0..1_000_u32 {
            cache.put(cache.allocate(pool, &key.to_le_bytes(), 10, &ItemOptions::default()).expect("room"));
        }
    }
    let cache = open();
    add(&cache, "other");
    let (cache, core) = (&cache, cache.core());
    // The recovery gets as far as the bucket of this key.
    let bucket = core.index.lock(core.hash(core.keyspace(0), &500_u32.to_le_bytes()));
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| add(cache, "left"));
        let id = loop {
            let pools = core.pools.all();
            if let Some(pool) = pools.iter().find(|pool| pool.name == "left" && pool.slab_bytes() > 0) {
                break pool.id();
            }
            base::thread::sleep(Duration::from_micros(100));
        };
        let picking = scope.spawn(move || {
            let mut draw = 0_u64;
            let mut next = || {
                draw = base::hash::mix64(draw + 1);
                draw
            };
            cache.pick(id, u32::MAX, &mut next).expect("the pool is there").is_some()
        });
        let walking = scope.spawn(move || cache.items(id).expect("the pool is there").count());
        let putting = scope.spawn(move || {
            cache.put(cache.allocate(id, b"new", 10, &ItemOptions::default()).expect("room"));
        });
        base::thread::sleep(Duration::from_millis(100));
        let finished = (picking.is_finished(), walking.is_finished(), putting.is_finished());
        assert_eq!(finished, (false, false, false));
        drop(bucket);
        assert_eq!(adding.join().expect("does not panic"), id);
        assert!(picking.join().expect("does not panic"));
        putting.join().expect("does not panic");
        let walked = walking.join().expect("does not panic");
        assert!((1_000..=1_001).contains(&walked), "{walked}");
    });
    assert_eq!(cache.recovered().items, 1_000);
    cache.validate();
    std::fs::remove_dir_all(&folder).expect("removes");
}

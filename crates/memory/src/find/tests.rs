use std::collections::HashMap;

use base::ByteSize;

use crate::{Cache, CacheConfig, ItemOptions, PoolConfig};

/// Two keys with the same home and the same tag.
fn colliding(cache: &Cache) -> [[u8; 4]; 2] {
    let mut by_tag: HashMap<u8, Vec<(u64, u32)>> = HashMap::new();
    for key in 0..100_000_u32 {
        let hash = cache.first_keys().hash(&key.to_le_bytes());
        by_tag.entry(hash as u8).or_default().push((hash, key));
    }
    let mut nearest = (u64::MAX, [0, 0]);
    for keys in by_tag.values_mut() {
        keys.sort_unstable();
        for pair in keys.windows(2) {
            nearest = nearest.min((pair[1].0 - pair[0].0, [pair[0].1, pair[1].1]));
        }
    }
    nearest.1.map(u32::to_le_bytes)
}

/// A look-up that met an item of another key again and again held it once for each time, up to the
/// most that an item can be held: then others did not find it.
#[test]
fn a_look_up_that_waits_for_a_bucket_holds_each_item_that_it_meets_once() {
    let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    let [absent, other] = colliding(&cache);
    cache.put(cache.allocate(pool, &other, 10, &ItemOptions::default()).expect("room"));
    let met = cache.find(&other).expect("it is there");
    let core = cache.core();
    let locked = core.index.lock(cache.first_keys().hash(&absent));
    std::thread::scope(|scope| {
        let look_ups = [
            scope.spawn(|| assert!(cache.find(&absent).is_none())),
            scope.spawn(|| {
                let mut found = Vec::new();
                cache.first_keys().find_many(&[&absent, &absent], &mut found);
                assert!(found.iter().all(Option::is_none));
            }),
        ];
        while met.item().state().references() < 3 {
            std::thread::yield_now();
        }
        // Both go round meanwhile.
        base::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(met.item().state().references(), 3);
        drop(locked);
        for look_up in look_ups {
            look_up.join().expect("no panic");
        }
    });
    assert_eq!(met.item().state().references(), 1);
}

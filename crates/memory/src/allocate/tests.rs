use base::ByteSize;

use super::*;
use crate::{CacheConfig, PoolConfig};

/// A cache whose memory one class has, and its pool.
fn full_cache() -> (Cache, PoolId) {
    let config = CacheConfig { memory: ByteSize::mib(8), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    for key in 0..20_000_u32 {
        cache.put(cache.allocate(pool, &key.to_le_bytes(), 600, &ItemOptions::default()).expect("room"));
    }
    (cache, pool)
}

/// Has an allocation of a class without memory, of chunks of at least `bytes`, look everywhere.
/// Returns the rest of its turn.
fn look_everywhere(cache: &Cache, pool: PoolId, bytes: u32, mut turn: Duration) -> Duration {
    let core = cache.core();
    let pool = core.pool(pool).expect("there is one");
    let place = pool.sizes().sizes().iter().position(|size| *size >= bytes).expect("a larger class");
    let found = core.take_chunk_in_turn(&pool, pool.sizes(), place, &mut turn);
    let class = core.class_at(&pool, pool.sizes(), place);
    core.free_chunk(class, found.expect("memory of the other class"));
    turn
}

#[test]
fn an_allocation_whose_turn_does_not_come_looks_nevertheless() {
    let (cache, pool) = full_cache();
    let turn = Duration::from_millis(1);
    assert_eq!(look_everywhere(&cache, pool, 4_000, turn), turn);
    let core = cache.core();
    let looking = core.pool(pool).expect("there is one");
    let _looking = looking.searching.lock();
    assert_eq!(look_everywhere(&cache, pool, 8_000, turn), Duration::ZERO);
}

#[test]
fn an_allocation_from_within_another_ones_search_waits_for_no_turn() {
    let (cache, pool) = full_cache();
    let core = cache.core();
    let looking = core.pool(pool).expect("there is one");
    let _looking = looking.searching.lock();
    let _search = Alone::enter(&SEARCHES);
    for bytes in [4_000, 8_000] {
        assert_eq!(look_everywhere(&cache, pool, bytes, TURN), TURN);
        assert!(SEARCHES.get(), "the outer search goes on");
    }
}

#[test]
fn an_operation_that_takes_the_lock_again_and_again_lets_allocations_have_it() {
    let (cache, pool) = full_cache();
    let core = cache.core();
    let busy = core.pool(pool).expect("there is one");
    let busy: &Pool = &busy;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let resizing = busy.resizing.lock();
                base::thread::sleep(Duration::from_millis(2));
                drop(resizing);
                busy.resizing.let_lookers_have_it();
            }
        });
        // Each is of a class that has no memory yet.
        let allocate = |len| cache.allocate(pool, b"key", len, &ItemOptions::default()).map(drop);
        let results: Vec<_> = [3_000, 6_000, 12_000, 24_000, 48_000].map(allocate).into_iter().collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(results.iter().all(|result| result.is_ok()), "{results:?}");
    });
}

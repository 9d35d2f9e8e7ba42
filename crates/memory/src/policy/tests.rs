use base::ByteSize;

use super::*;
use crate::{CacheConfig, ItemOptions, PoolConfig, SizeClassConfig};

const ITEMS: u32 = 20_000;

/// A cache with a pool of one size class, which has [`ITEMS`] items and room for no more.
fn full_cache() -> (Cache, PoolId) {
    let config = CacheConfig { memory: ByteSize::mib(32), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let classes = SizeClassConfig::List(vec![256]);
    let limit = Some(ByteSize::new(u64::from(ITEMS) * 256));
    let pool = PoolConfig { classes, limit, ..PoolConfig::named("p") };
    let pool = cache.add_pool(pool).expect("new");
    (0..2 * ITEMS).for_each(|key| put(&cache, pool, key));
    (cache, pool)
}

fn put(cache: &Cache, pool: PoolId, key: u32) {
    cache.put(cache.allocate(pool, &key.to_le_bytes(), 200, &ItemOptions::default()).expect("room"));
}

/// Returns the policy of the pool's class, and the number of items that a conversion has yet to
/// move.
fn state(cache: &Cache, pool: PoolId) -> (PolicyKind, usize) {
    let pool = cache.core().pool(pool).expect("there is one");
    let (_, class) = pool.used_classes().next().expect("it was used");
    let inner = class.inner.lock();
    (inner.policy.kind(), inner.policy.unconverted())
}

/// One hold of the class's lock. Whether there was something to do.
fn convert_some(cache: &Cache, pool: PoolId) -> bool {
    let pool = cache.core().pool(pool).expect("there is one");
    let (_, class) = pool.used_classes().next().expect("it was used");
    cache.core().convert_some(&pool, class)
}

#[test]
fn one_hold_of_the_lock_moves_a_limited_number_of_items() {
    let (cache, pool) = full_cache();
    for kind in PolicyKind::ALL {
        cache.set_pool_policy_lazily(pool, kind).expect("there is one");
        let mut left = cache.stats().pools[0].sum(|class| class.items) as usize;
        while convert_some(&cache, pool) {
            let (now, unconverted) = state(&cache, pool);
            assert!(now == kind && unconverted + CONVERTED_AT_ONCE >= left, "{left} to {unconverted}");
            left = unconverted;
        }
        assert_eq!(state(&cache, pool), (kind, 0));
        cache.validate();
    }
}

#[test]
fn lazy_change_is_left_to_maintenance() {
    let (cache, pool) = full_cache();
    let items = cache.stats().index_entries;
    cache.set_pool_policy_lazily(pool, PolicyKind::Arc).expect("there is one");
    assert_eq!(state(&cache, pool), (PolicyKind::S3_FIFO, 0), "whoever asks moves nothing");
    assert_eq!(cache.stats().pools[0].policy, "arc");
    cache.maintain().expect("nothing is held");
    assert_eq!(state(&cache, pool), (PolicyKind::Arc, 0));
    assert_eq!(cache.stats().index_entries, items, "nothing left");
    assert!(!convert_some(&cache, pool));
    cache.validate();
}

#[test]
fn round_takes_a_limited_number_of_steps_and_the_next_one_goes_on() {
    let (cache, pool) = full_cache();
    let items = cache.stats().pools[0].sum(|class| class.items) as usize;
    cache.set_pool_policy_lazily(pool, PolicyKind::Arc).expect("there is one");
    cache.core().convert_due(5);
    let (kind, left) = state(&cache, pool);
    assert_eq!(kind, PolicyKind::Arc);
    assert!(left < items && left + 5 * CONVERTED_AT_ONCE >= items, "{left} of {items}");
    cache.maintain().expect("nothing is held");
    assert_eq!(state(&cache, pool), (PolicyKind::Arc, 0));
}

#[test]
fn pool_serves_in_the_middle_of_a_change_and_changes_again() {
    for (from, to, last) in [
        (PolicyKind::LRU, PolicyKind::S3_FIFO, PolicyKind::LRU),
        (PolicyKind::TWO_Q, PolicyKind::Arc, PolicyKind::W_TINY_LFU),
        (PolicyKind::TINY_LFU, PolicyKind::W_TINY_LFU, PolicyKind::Sieve),
        (PolicyKind::Arc, PolicyKind::LRU_MID, PolicyKind::TWO_Q),
    ] {
        let (cache, pool) = full_cache();
        cache.set_pool_policy(pool, from).expect("there is one");
        cache.set_pool_policy_lazily(pool, to).expect("there is one");
        for round in 0..8 {
            assert!(convert_some(&cache, pool));
            // New items, which others leave for; items of both sides that are replaced, removed and
            // found.
            let keys = 100_000 + round * 1_000..101_000 + round * 1_000;
            keys.clone().for_each(|key| put(&cache, pool, key));
            keys.step_by(3)
                .for_each(|key| assert!(cache.remove(&key.to_le_bytes()), "{from} to {to}: {key}"));
            for key in (ITEMS..2 * ITEMS).step_by(97) {
                let was_there = cache.find(&key.to_le_bytes()).is_some();
                if was_there && key % 2 == 0 {
                    put(&cache, pool, key);
                }
            }
            assert!(state(&cache, pool).1 > 0, "it is under way");
            cache.validate();
        }
        cache.move_slab(pool, 0, None).expect("nothing is held");
        cache.validate();
        cache.set_pool_policy_lazily(pool, last).expect("there is one");
        cache.maintain().expect("nothing is held");
        assert_eq!(state(&cache, pool), (last, 0), "{from}, {to}, {last}");
        cache.validate();
        (0..ITEMS).for_each(|key| put(&cache, pool, key));
        cache.validate();
    }
}

#[test]
fn pool_is_removed_in_the_middle_of_a_change() {
    let (cache, pool) = full_cache();
    let queues = || cache.ledger().part(base::Part::Queues);
    cache.set_pool_policy_lazily(pool, PolicyKind::LRU).expect("there is one");
    assert!(convert_some(&cache, pool) && convert_some(&cache, pool) && queues() > 0);
    assert!(cache.remove_pool(pool).expect("there is one").is_gone);
    assert_eq!(queues(), 0);
    cache.maintain().expect("nothing is held");
    cache.validate();
}

/// Parts of bytes that are lost or won by counting runs one by one or together would add up, and
/// below nothing no slab could be had any more.
#[test]
fn metadata_to_come_is_nothing_once_a_pool_that_changed_its_policy_is_gone() {
    for kinds in PolicyKind::ALL.iter().map(|last| [PolicyKind::ALL.as_slice(), &[*last]].concat()) {
        let config = CacheConfig { memory: ByteSize::mib(32), huge_pages: false, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        // Sizes of which runs have numbers of chunks that are not multiples of 100.
        let classes = SizeClassConfig::List(vec![136, 232, 312]);
        let pool = cache.add_pool(PoolConfig { classes, ..PoolConfig::named("p") }).expect("new");
        for key in 0..30_000_u32 {
            let len = [80, 180, 260][key as usize % 3];
            let item = cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default());
            cache.put(item.expect("room"));
        }
        kinds.into_iter().for_each(|kind| cache.set_pool_policy(pool, kind).expect("there is one"));
        cache.validate();
        assert!(cache.remove_pool(pool).expect("there is one").is_gone);
        assert_eq!(cache.core().metadata_x100.load(std::sync::atomic::Ordering::Relaxed), 0);
        let pool = cache.add_pool(PoolConfig::named("another")).expect("new");
        put(&cache, pool, 1);
    }
}

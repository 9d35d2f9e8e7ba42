use base::{ByteSize, Part};
use slab::SLAB_BYTES;

use super::taking::WAITS_IN_ALL;
use super::{MOVE_WAITS, Taking, WAITS, Why};
use crate::{Cache, CacheConfig, ItemOptions, PoolConfig, PoolId};

/// A round that gets a little from each of many pools would else wait as often as there are
/// pools and steps.
#[test]
fn an_operation_waits_a_limited_number_of_times_whatever_it_gets() {
    let mut taking = Taking::new(Why::Limit, WAITS);
    let mut waits = 0;
    for slab in 0..1_000 {
        let most = if slab % 2 == 0 { MOVE_WAITS } else { WAITS };
        taking.waiting(most);
        let before = waits;
        while taking.take_wait() {
            waits += 1;
        }
        assert!(waits - before <= most, "for one slab");
        taking.got_one();
    }
    assert_eq!(waits, WAITS_IN_ALL);
    assert!(taking.tries(0) && !taking.tries(1), "what nobody holds is taken yet");
}

fn fill(cache: &Cache, pool: PoolId) {
    for key in 0..100_000_u32 {
        let item = cache.allocate(pool, &key.to_le_bytes(), 200, &ItemOptions::default()).expect("memory");
        cache.put(item);
    }
}

/// Does `work` while another thread is pinned, as one is that reads.
pub(crate) fn while_read<T>(cache: &Cache, work: impl FnOnce() -> T) -> T {
    let (is_pinned, pinned) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let _pinned = cache.core().pins.pin();
            is_pinned.send(()).expect("it is waited for");
            // Until the other end is dropped.
            let _ = ended.recv();
        });
        pinned.recv().expect("a thread");
        let done = work();
        drop(end);
        done
    })
}

#[test]
fn a_slab_that_is_looked_into_leaves_its_pool_and_goes_back_later() {
    let cache =
        Cache::new(CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() }).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("a")).expect("a pool");
    fill(&cache, pool);
    let before = cache.ledger().part(Part::Slabs);
    let limit = before - SLAB_BYTES as u64;
    while_read(&cache, || {
        cache.set_pool_limit(pool, Some(ByteSize::new(limit))).expect("readers are not waited for");
        assert!(cache.stats().pools[0].slab_bytes <= limit);
        assert_eq!(cache.ledger().part(Part::Slabs), before, "it is memory that is used yet");
        cache.maintain().expect("nothing is over its limit");
        assert_eq!(cache.ledger().part(Part::Slabs), before);
        assert!(cache.core().retired_runs.count() > 0);
    });
    cache.maintain().expect("nothing is over its limit");
    assert_eq!(cache.core().retired_runs.count(), 0);
    cache.validate();
}

/// The runs of a split slab that was emptied wait for readers: to empty it again and again
/// frees nothing.
#[test]
fn memory_is_lowered_while_the_runs_of_split_slabs_are_looked_into() {
    let config = CacheConfig { memory: ByteSize::mib(40), ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("a")).expect("a pool");
    for key in 0..20_000_u32 {
        let len = [60, 200, 700, 1_500, 4_000][key as usize % 5];
        let item = cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default());
        cache.put(item.expect("memory"));
    }
    assert!(cache.core().arena.split_slabs() > 4, "small classes share slabs");
    for memory in [30, 24, 20, 16] {
        let memory = ByteSize::mib(memory);
        let items = cache.stats().pools[0].sum(|class| class.items);
        while_read(&cache, || cache.set_memory(memory).expect("readers are not waited for"));
        cache.maintain().expect("nothing is held");
        assert!(cache.ledger().total() <= memory.as_u64());
        let left = cache.stats().pools[0].sum(|class| class.items);
        assert!(left * 3 > items, "no more went than had to");
    }
    cache.validate();
}

#[test]
fn a_pool_whose_slabs_are_looked_into_goes_later() {
    let cache =
        Cache::new(CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() }).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("a")).expect("a pool");
    fill(&cache, pool);
    while_read(&cache, || {
        let removal = cache.remove_pool(pool).expect("there is one");
        assert!(removal.items == 100_000 && !removal.is_gone, "{removal:?}");
        assert!(cache.add_pool(PoolConfig::named("a")).is_err(), "its slabs name it yet");
    });
    assert!(cache.remove_pool(pool).expect("it is there yet").is_gone);
    assert_eq!(cache.ledger().part(Part::Slabs), 0);
    cache.validate();
}

#[test]
fn memory_that_readers_keep_is_had_by_the_first_allocation_after_them() {
    let memory = ByteSize::mib(16);
    let cache = Cache::new(CacheConfig { memory, ..CacheConfig::default() }).expect("a cache");
    let (first, second) = (PoolConfig::named("first"), PoolConfig::named("second"));
    let (first, second) = (cache.add_pool(first).expect("a pool"), cache.add_pool(second).expect("a pool"));
    fill(&cache, first);
    let slabs = cache.stats().pools[0].slab_bytes;
    let limit = ByteSize::new(slabs - SLAB_BYTES as u64);
    while_read(&cache, || cache.set_pool_limit(first, Some(limit)).expect("nothing is held"));
    let item = cache.allocate(second, b"key", 200, &ItemOptions::default()).expect("a slab has left");
    cache.put(item);
    assert_eq!(cache.stats().pools[0].slab_bytes, limit.as_u64(), "none was taken besides");
    cache.validate();
}

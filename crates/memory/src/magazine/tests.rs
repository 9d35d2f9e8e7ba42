use super::*;

/// A thread that has chosen the common magazine may put something into it when the class has
/// already outgrown that.
#[test]
fn what_is_left_in_the_common_magazine_is_taken_over() {
    use crate::{ByteSize, Cache, CacheConfig, ItemOptions, PoolConfig};
    let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    let put = |i: u32| {
        let item = cache.allocate(pool, &i.to_le_bytes(), 200, &ItemOptions::default()).expect("room");
        cache.put(item);
    };
    // So many that the class has outgrown it.
    (0..4_000).for_each(put);
    let core = cache.core();
    let held = cache.find(&7_u32.to_le_bytes()).expect("put");
    let pools = core.pools.all();
    let class = pools.iter().next().and_then(|pool| pool.used_class(held.class_number())).expect("in use");
    assert!(class.batch() > 1);
    core.fold_magazines(class);
    let (mut mine, mut common) = (class.magazines.mine(class).lock(), class.magazines.common.lock());
    // A chunk that is free, and an item that is to be queued.
    common.ready.extend(mine.ready.pop());
    assert!(core.arena.item(held.ptr()).0.state().dequeue());
    let mut inner = class.inner.lock();
    let Inner { chunks, policy, .. } = &mut *inner;
    let (bits, view) = (core.arena.item(held.ptr()).0.state().policy(), View::new(core, chunks));
    policy.removed(bits, &view, || unreachable!("no conversion is under way"));
    drop(inner);
    let incarnation = core.arena.item(held.ptr()).0.state().incarnation();
    common.pending.push(Pending { ptr: held.ptr(), incarnation, fingerprint: 0 });
    drop((mine, common));
    (100..1_000).for_each(put);
    assert!(core.arena.item(held.ptr()).0.state().is_queued());
    assert!(class.magazines.common.lock().ready.is_empty());
    drop(held);
    cache.validate();
}

/// The thread that uses a magazine may wait for a processor, which takes seconds beside a
/// thousand others.
#[test]
fn a_round_waits_for_no_magazine_in_use() {
    use std::sync::mpsc;
    use std::time::Duration;

    use crate::{Cache, CacheConfig, Expiry, ItemOptions, PoolConfig};
    let clock = base::Clock::manual(1_000_000);
    let cache = Cache::new(CacheConfig { clock, ..CacheConfig::default() }).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    let options = ItemOptions { expiry: Expiry::After(5), ..ItemOptions::default() };
    let item = cache.allocate(pool, b"key", 100, &options).expect("memory");
    cache.put(item);
    let core = cache.core();
    let pools = core.pools.all();
    let (_, class) = pools.iter().next().and_then(|pool| pool.used_classes().next()).expect("in use");
    let in_use = class.magazines.mine(class).lock();
    cache.clock().advance(Duration::from_secs(10));
    base::thread::scope(|threads| {
        let (done, is_done) = mpsc::channel();
        let cache = &cache;
        let round = move || {
            let classes = cache.pool_stats(pool).expect("it is there").classes.len();
            done.send((cache.maintain().is_ok(), cache.rebalance().len(), classes)).expect("waited for");
        };
        base::thread::spawn_in(threads, "round", round).expect("a thread");
        let round = is_done.recv_timeout(Duration::from_secs(60));
        drop(in_use);
        assert_eq!(round, Ok((true, 0, 1)));
    });
    assert_eq!(cache.stats().index_entries, 0, "what is in the wheel is reaped");
    assert!(class.take_due(0), "the next round looks for what the magazine may have");
    cache.validate();
}

#[test]
fn a_retire_list_is_a_small_part_of_a_class() {
    assert_eq!(retired_for(0), 1);
    assert_eq!(retired_for(32_768), 256);
    assert_eq!(retired_for(1 << 30), MAX_RETIRED as usize);
}

#[test]
fn batches_are_a_small_part_of_a_class() {
    assert_eq!(batch_for(0, 0), 1);
    assert_eq!(batch_for(64, 1), 1);
    assert_eq!(batch_for(4_096, 1), 32);
    assert_eq!(batch_for(32_768, 1), 64);
    assert_eq!(batch_for(1 << 20, 1), 256);
    for threads in 1..=64 {
        for chunks in [1, 100, 10_000, 1_000_000] {
            let batch = u64::from(batch_for(chunks, threads));
            assert!(batch == 1 || batch * u64::from(threads) * 64 <= chunks);
        }
    }
}

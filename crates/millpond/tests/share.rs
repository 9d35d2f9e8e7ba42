//! Memory between pools: what the resizer, the optimizer and the rebalancer decide is what happens.

use std::sync::Arc;

use base::hash::mix64;
use millpond::strategy::{OptimizerConfig, Strategy, TailAge};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ErrorKind, ItemOptions, ItemRef, Lifecycle, Part, PolicyKind,
    PoolConfig, PoolId, SizeClassConfig,
};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

const SLAB_BYTES: u64 = 4 << 20;

fn cache(mib: u64, config: CacheConfig) -> Cache {
    let memory = ByteSize::mib(mib);
    Cache::new(CacheConfig { memory, huge_pages: false, hash_seed: Some(3), ..config }).expect("valid")
}

fn put(cache: &Cache, pool: PoolId, key: u32, len: usize) {
    cache.put(cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default()).expect("memory"));
}

/// The memory of a pool in slabs, rounded.
fn slabs(cache: &Cache, number: usize) -> u64 {
    (cache.stats().pools[number].slab_bytes + SLAB_BYTES / 2) / SLAB_BYTES
}

#[test]
fn pools_come_to_their_limits_a_few_slabs_per_round() {
    let cache = cache(128, CacheConfig { resize_slabs: 3, ..CacheConfig::default() });
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    (0..8_000).for_each(|key| put(&cache, pool, key, 8_000));
    let all = slabs(&cache, 0);
    assert!(all >= 14, "{all}");
    assert!(cache.resize_pools().is_empty(), "no pool has a limit");
    // An item that is held in each slab keeps them all, and the limit is set all the same.
    let held: Vec<_> = cache.items(pool).expect("exists").collect();
    let error = cache.set_pool_limit(pool, Some(ByteSize::new(8 * SLAB_BYTES))).expect_err("held");
    assert_eq!((error.kind(), slabs(&cache, 0)), (ErrorKind::OutOfMemory, all));
    assert!(cache.resize_pools().is_empty());
    assert_eq!(cache.maintain().expect_err("held").kind(), ErrorKind::OutOfMemory);
    drop(held);
    let given = cache.resize_pools();
    assert!((all - 4..all - 2).contains(&slabs(&cache, 0)), "{given:?}");
    assert!(given.iter().all(|(id, moved)| *id == pool && moved.receiver.is_none()), "{given:?}");
    assert!(given[0].1.reason.contains("over its limit"), "{given:?}");
    while slabs(&cache, 0) > 8 {
        let before = slabs(&cache, 0);
        cache.maintain().expect("nothing is held");
        // What is given back is whole runs.
        assert!(slabs(&cache, 0) + 5 >= before && slabs(&cache, 0) >= 6, "{before}");
    }
    assert!(cache.resize_pools().is_empty(), "it keeps its limit");
    cache.validate();
}

/// Two pools that are full, and have grants for all the memory that there is.
fn granted() -> (Cache, [PoolId; 2]) {
    let cache = cache(64, CacheConfig::default());
    let pools = ["a", "b"].map(|name| cache.add_pool(PoolConfig::named(name)).expect("new"));
    for key in 0..40_000 {
        pools.iter().for_each(|pool| put(&cache, *pool, key, 1_000));
    }
    for pool in pools {
        cache.set_pool_grant(pool, Some(ByteSize::mib(30))).expect("it exists");
    }
    (cache, pools)
}

#[test]
fn grants_beyond_what_is_left_refuse_no_store() {
    let (cache, _) = granted();
    // Connections take more than was granted around.
    cache.ledger().charge(Part::Connections, 12 << 20);
    let late = cache.add_pool(PoolConfig::named("late")).expect("new");
    for key in 0..3_000 {
        put(&cache, late, key, 1_000);
        if key % 500 == 0 {
            cache.maintain().expect("nothing is held");
        }
    }
    let kept = cache.pool_stats(late).expect("it exists");
    assert!(kept.slab_bytes > 2 << 20, "{}", kept.slab_bytes);
    cache.ledger().release(Part::Connections, 12 << 20);
    cache.validate();
}

#[test]
fn a_reserve_counts_more_than_grants_when_memory_is_lowered() {
    let (cache, [a, b]) = granted();
    cache.set_pool_share(a, ByteSize::mib(24), 1).expect("it exists");
    cache.set_memory(ByteSize::mib(36)).expect("nothing is held");
    let slab_bytes = |pool| cache.pool_stats(pool).expect("it exists").slab_bytes;
    for key in 0..40_000 {
        [a, b].iter().for_each(|pool| put(&cache, *pool, key, 1_000));
        if key % 4_000 == 0 {
            cache.maintain().expect("nothing is held");
        }
    }
    assert!(slab_bytes(a) >= 22 << 20, "{} and {}", slab_bytes(a), slab_bytes(b));
    cache.validate();
}

#[test]
fn what_is_vacant_in_a_pool_is_lent_whatever_its_grant() {
    let (cache, [a, b]) = granted();
    let slab_bytes = |pool| cache.pool_stats(pool).expect("it exists").slab_bytes;
    for key in 0..40_000_u32 {
        cache.keys(a).remove(&key.to_le_bytes());
    }
    for key in 40_000..100_000 {
        put(&cache, b, key, 1_000);
        if key % 4_000 == 0 {
            cache.maintain().expect("nothing is held");
        }
    }
    assert!(slab_bytes(b) > 50 << 20, "{} and {}", slab_bytes(a), slab_bytes(b));
    // And comes back as it is wanted.
    for key in 0..40_000 {
        put(&cache, a, key, 1_000);
        if key % 2_000 == 0 {
            cache.maintain().expect("nothing is held");
        }
    }
    assert!(slab_bytes(a) > 24 << 20, "{} and {}", slab_bytes(a), slab_bytes(b));
    cache.validate();
}

#[test]
fn limits_move_to_the_pool_whose_last_slab_is_hit() {
    let cache = cache(160, CacheConfig::default());
    // 2Q counts what hits its last slab has.
    let policy = "2q".parse::<PolicyKind>().expect("a policy");
    let limit = Some(ByteSize::new(10 * SLAB_BYTES));
    let add = |name: &str| {
        let config = PoolConfig { policy, limit, own_keys: true, ..PoolConfig::named(name) };
        cache.add_pool(config).expect("new")
    };
    let (idle, busy) = (add("idle"), add("busy"));
    let limits = || {
        let stats = cache.stats();
        [0, 1].map(|number: usize| stats.pools[number].limit_bytes.expect("has one") / SLAB_BYTES)
    };
    let serve = |round: u32| {
        for i in 0..6_000_u32 {
            // Nothing is asked for twice in the one; in the other, twice what it can hold.
            put(&cache, idle, round * 6_000 + i, 4_000);
            let key = (mix64((round * 6_000 + i).into()) % 16_000) as u32;
            if cache.keys(busy).find(&key.to_le_bytes()).is_none() {
                put(&cache, busy, key, 4_000);
            }
        }
    };
    (0..8).for_each(serve);
    assert_eq!(cache.optimize(), None, "the first round only looks");
    let moved: Vec<_> = (8..16)
        .filter_map(|round| {
            serve(round);
            cache.optimize()
        })
        .collect();
    assert!(moved.len() >= 3, "{moved:?}");
    assert!(moved.iter().all(|moved| (moved.victim, moved.receiver) == (0, 1)), "{moved:?}");
    assert!(moved[0].reason.contains("last slab"), "{moved:?}");
    let count = moved.len() as u64;
    assert!(limits()[0] < 10 && limits()[1] > 10, "{:?} after {count}", limits());
    assert_eq!(slabs(&cache, 0), 10, "memory follows");
    cache.maintain().expect("nothing is held");
    assert!(slabs(&cache, 0) < 10);
    let before = limits();
    // By itself only where it is asked to.
    serve(16);
    cache.maintain().expect("nothing is held");
    assert_eq!(limits(), before);
    cache.set_optimizer(Some(OptimizerConfig { hold_off_rounds: 0, ..OptimizerConfig::default() }));
    for round in 17..20 {
        serve(round);
        cache.maintain().expect("nothing is held");
    }
    assert!(limits()[0] <= before[0], "{:?}", limits());
    let bytes: u64 = cache.stats().pools.iter().map(|pool| pool.limit_bytes.expect("has one")).sum();
    assert_eq!(bytes, 20 * SLAB_BYTES, "no limit is lost");
    cache.validate();
}

#[test]
fn a_slab_that_could_not_be_moved_is_asked_for_again() {
    let clock = Clock::manual(1_000);
    let cache = cache(48, CacheConfig { clock: clock.clone(), ..CacheConfig::default() });
    let config = PoolConfig {
        classes: SizeClassConfig::List(vec![1_024, 16_384]),
        strategy: Strategy::TailAge(TailAge::default()),
        policy: PolicyKind::Lru { refresh_secs: 0 },
        ..PoolConfig::named("p")
    };
    let pool = cache.add_pool(config).expect("new");
    (0..2_400).for_each(|key| put(&cache, pool, key, 16_000));
    clock.advance(std::time::Duration::from_secs(1_000));
    // Small items come, and age fast where there is one slab for them.
    let mut key = 100_000;
    let mut small = |count: u32| {
        (key..key + count).for_each(|key| put(&cache, pool, key, 900));
        key += count;
    };
    small(6_000);
    cache.rebalance();
    let held: Vec<_> = (0..2_400_u32).filter_map(|key| cache.find(&key.to_le_bytes())).collect();
    assert!(held.len() > 1_500);
    // The large class should give a slab, and cannot: neither is anybody held off, nor is what was
    // counted forgotten.
    small(6_000);
    assert!(cache.rebalance().is_empty());
    assert_eq!(cache.stats().pools[0].rebalances, 0);
    drop(held);
    let moved = cache.rebalance();
    assert_eq!(moved.len(), 1, "what was counted before counts still");
    assert_eq!((moved[0].1.victim, moved[0].1.receiver), (1, Some(0)));
    cache.validate();
}

/// It takes more at a time than any other pool has.
#[test]
fn a_pool_gets_its_reserve_from_many_small_ones() {
    for (count, reserve) in [(20, 24), (100, 24), (100, 4)] {
        let cache = cache(64, CacheConfig::default());
        let pools: Vec<_> =
            (0..count).map(|i| cache.add_pool(PoolConfig::named(format!("p{i}"))).expect("new")).collect();
        for key in 0..80_000 {
            put(&cache, pools[key as usize % pools.len()], key, 1_000);
        }
        let reserve = ByteSize::mib(reserve);
        let large = cache.add_pool(PoolConfig { reserve, ..PoolConfig::named("large") }).expect("new");
        for key in 0..120_000 {
            put(&cache, large, key, 1_000);
            put(&cache, pools[key as usize % pools.len()], 80_000 + key, 1_000);
            if key % 4_000 == 0 {
                cache.maintain().expect("nothing is held");
            }
        }
        let has = cache.pool_stats(large).expect("there").slab_bytes;
        assert!(has + (128 << 10) >= reserve.as_u64(), "{has} of {reserve} beside {count}");
        cache.validate();
    }
}

/// A pool that once wanted memory got more in each round, whether it used that or not, until half
/// of the cache, or its reserve, was free.
#[test]
fn a_neighbour_loses_no_more_than_a_pool_uses() {
    for (reserve, every) in [(0, 200), (0, 6_000), (32, 200), (32, 6_000)] {
        let cache = cache(64, CacheConfig::default());
        let pool = |name, reserve| {
            let reserve = ByteSize::mib(reserve);
            cache.add_pool(PoolConfig { reserve, ..PoolConfig::named(name) }).expect("new")
        };
        let (first, second) = (pool("first", 0), pool("second", reserve));
        (0..80_000).for_each(|key| put(&cache, first, key, 1_000));
        let items = || cache.stats().pools[0].sum(|class| class.items);
        let before = items();
        for key in 0..6_000 {
            put(&cache, second, key, 1_000);
            if key % every == 0 {
                cache.maintain().expect("nothing is held");
            }
        }
        (0..30).for_each(|_| cache.maintain().expect("nothing is held"));
        // As much as it uses, a tenth of the memory, and a step.
        let lost = before - items();
        assert!(lost < 6_000 + 9_000, "{lost} of {before} with a reserve of {reserve} MiB");
        cache.validate();
    }
}

/// Pools that share all memory, with these reserves in slabs and these weights.
fn sharing(cache: &Cache, shares: &[(u64, u32)]) -> Vec<PoolId> {
    let config = |number: usize, (reserve, weight): (u64, u32)| PoolConfig {
        reserve: ByteSize::new(reserve * SLAB_BYTES),
        weight,
        own_keys: true,
        ..PoolConfig::named(format!("p{number}"))
    };
    shares
        .iter()
        .enumerate()
        .map(|(number, share)| cache.add_pool(config(number, *share)).expect("new"))
        .collect()
}

#[test]
fn a_pool_by_default_gets_an_equal_part_of_a_full_cache() {
    let cache = cache(64, CacheConfig::default());
    let pool = |name: &str| cache.add_pool(PoolConfig::named(name)).expect("new");
    let (first, second) = (pool("first"), pool("second"));
    (0..20_000).for_each(|key| put(&cache, first, key, 8_000));
    for _ in 0..16 {
        (0..4_000).for_each(|key| put(&cache, second, key, 8_000));
        (0..4_000).for_each(|key| put(&cache, first, key, 8_000));
        cache.maintain().expect("nothing is held");
    }
    let [ours, theirs] = [0, 1].map(|pool| cache.stats().pools[pool].slab_bytes);
    assert!(ours.abs_diff(theirs) <= 2 * SLAB_BYTES, "{ours} and {theirs}");
    cache.validate();
}

#[test]
fn a_pool_gets_its_reserve_back_and_takes_none_from_another() {
    let cache = cache(64, CacheConfig::default());
    let pools = sharing(&cache, &[(2, 0), (6, 0), (1, 0)]);
    let mut key = 0;
    let mut fill = |pool: PoolId, slabs: u64| {
        for _ in 0..slabs * 500 {
            key += 1;
            put(&cache, pool, key, 8_000);
        }
    };
    fill(pools[0], 20);
    let all = slabs(&cache, 0);
    assert!(all >= 13, "what others leave idle is used: {all}");
    assert!(cache.reclaim().is_empty(), "nobody else wants any");
    // Its first memory does not wait for a round.
    put(&cache, pools[1], 0, 8_000);
    assert!(cache.stats().pools[1].slab_bytes > 0);
    for _ in 0..8 {
        fill(pools[1], 4);
        let taken = cache.reclaim();
        assert!(
            taken.iter().all(|taken| (taken.victim, taken.receiver) == (pools[0], pools[1])),
            "{taken:?}"
        );
        // The one that gave is under pressure, too, and does not get it back.
        fill(pools[0], 2);
    }
    let gave = |cache: &Cache| (slabs(cache, 0), slabs(cache, 1));
    assert!(
        (5..=6).contains(&gave(&cache).1) && gave(&cache).0 + gave(&cache).1 + 2 >= all,
        "{:?} of {all}",
        gave(&cache)
    );
    fill(pools[1], 20);
    cache.maintain().expect("nothing is held");
    fill(pools[1], 20);
    assert!((5..=6).contains(&gave(&cache).1), "its reserve and no more");
    assert!(cache.stats().pools[0].slabs_reclaimed >= 6);
    // With a weight it takes more, but never what is another's reserve.
    cache.set_pool_share(pools[1], ByteSize::new(6 * SLAB_BYTES), 1).expect("exists");
    for _ in 0..8 {
        fill(pools[2], 1);
        fill(pools[1], 20);
        cache.maintain().expect("nothing is held");
    }
    assert!((2..=3).contains(&slabs(&cache, 0)));
    assert_eq!(slabs(&cache, 2), 1);
    cache.validate();
}

#[test]
fn a_pool_that_may_not_grow_moves_slabs_between_its_classes() {
    let cache = cache(64, CacheConfig::default());
    let pools = sharing(&cache, &[(0, 1), (0, 1)]);
    (0..10_000).for_each(|key| put(&cache, pools[0], key, 8_000));
    (0..5_000).for_each(|key| put(&cache, pools[1], key, 8_000));
    while !cache.reclaim().is_empty() {
        (0..5_000).for_each(|key| put(&cache, pools[1], key, 8_000));
    }
    let (before, len) = (slabs(&cache, 0), [500, 2_000, 30_000, 100_000]);
    (0..400).for_each(|key| put(&cache, pools[0], key, len[key as usize % len.len()]));
    assert!(slabs(&cache, 0).abs_diff(before) <= 1);
    cache.validate();
}

#[test]
fn held_items_keep_their_slab_and_another_pool_gives() {
    let cache = cache(64, CacheConfig::default());
    let pools = sharing(&cache, &[(0, 1), (0, 1), (0, 1)]);
    for pool in [0, 1] {
        (0..5_000).for_each(|key| put(&cache, pools[pool], key, 8_000));
        cache.maintain().expect("nothing is held");
        (0..20_000).for_each(|key| put(&cache, pools[pool], key, 8_000));
    }
    let before = [slabs(&cache, 0), slabs(&cache, 1)];
    let most = usize::from(before[1] > before[0]);
    let held: Vec<_> = cache.items(pools[most]).expect("exists").collect();
    let refused = cache.allocate(pools[2], b"key", 8_000, &ItemOptions::default()).is_err();
    for key in 0..2_000_u64 {
        if let Ok(item) = cache.allocate(pools[2], &key.to_le_bytes(), 8_000, &ItemOptions::default()) {
            cache.put(item);
        }
    }
    let taken = cache.reclaim();
    assert!(
        !taken.is_empty() && taken.iter().all(|taken| taken.victim == pools[1 - most]),
        "{refused} {taken:?}"
    );
    drop(held);
    put(&cache, pools[2], 1, 8_000);
    cache.validate();
}

/// One pool was given slabs in a round, and another, which stands lower, took as many from it
/// before it had them.
#[test]
fn what_a_pool_was_given_and_does_not_have_yet_is_not_taken_from_its_reserve() {
    let cache = cache(64, CacheConfig::default());
    let pools = sharing(&cache, &[(0, 1), (1, 1), (0, 3)]);
    let mut key = 0;
    let bursts =
        [(0, 1, 1_000), (0, 3, 1_156), (0, 1, 13_553), (0, 3, 11_861), (1, 3, 1_220), (2, 3, 27_479)];
    for (pool, amount, len) in bursts.into_iter().chain([(2, 3, 25_697)]) {
        for _ in 0..amount * SLAB_BYTES / len as u64 {
            key += 1;
            put(&cache, pools[pool], key, len);
        }
    }
    let before = slabs(&cache, 1);
    assert!(before > 1, "{before}");
    assert!(!cache.reclaim().is_empty(), "somebody wants memory");
    assert_eq!(slabs(&cache, 1), before, "it stands lower than the first");
    cache.validate();
}

/// Several threads want memory of the same pool at once, from which maintenance takes some, too.
#[test]
fn a_pool_below_its_reserve_is_refused_nothing_whoever_is_at_work_in_the_others() {
    for round in 0..20 {
        let cache = cache(64, CacheConfig::default());
        let pools = sharing(&cache, &[(8, 1), (0, 3)]);
        (0..70_000).for_each(|key| put(&cache, pools[1], key, 900));
        let write = |seed: u64| {
            let (cache, pool) = (cache.clone(), pools[0]);
            base::thread::spawn(format!("writer-{seed}"), move || {
                for key in 0..4_000_u64 {
                    let key = (seed * 100_000 + key).to_le_bytes();
                    let item = cache.allocate(pool, &key, 500, &ItemOptions::default());
                    cache.put(item.map_err(|error| format!("{error}, round {round}")).expect("its reserve"));
                }
            })
            .expect("a thread")
        };
        let writers: Vec<_> = (0..4).map(write).collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let _ = cache.maintain();
        }
        writers.into_iter().for_each(|writer| writer.join().expect("no refusal"));
        cache.validate();
    }
}

/// Another pool took steps of more than what this one had over its reserve.
#[test]
fn a_pool_that_gave_all_over_its_reserve_moves_the_reserve_between_its_classes() {
    let cache = cache(54, CacheConfig::default());
    let pools = sharing(&cache, &[(0, 1), (2, 0)]);
    let mut key = 0;
    let bursts =
        [(1, 3, 13_553), (0, 2, 1_022), (1, 1, 7_147), (0, 2, 1_315), (0, 3, 16_508), (0, 2, 13_126)];
    for (pool, amount, len) in bursts {
        for _ in 0..amount * SLAB_BYTES / len as u64 {
            key += 1;
            put(&cache, pools[pool], key, len);
        }
        if (pool, len) != (0, 16_508) {
            cache.maintain().expect("nothing is held");
        }
    }
    let bytes = || cache.stats().pools[1].slab_bytes;
    // Less over its reserve than another takes.
    let reserve = bytes() - (32 << 10);
    cache.set_pool_share(pools[1], ByteSize::new(reserve), 0).expect("there is such a pool");
    (0..400).for_each(|key| put(&cache, pools[1], key, 21_266));
    assert!(bytes() + (64 << 10) >= reserve, "{} bytes of {reserve} are left", bytes());
    cache.validate();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Pools are written to in bursts. No reserve is taken from, no write is refused, and the
    /// memory is kept; in the end, when all write, each has its reserve, and nobody has what
    /// another is entitled to.
    #[test]
    fn reserves_hold_whatever_the_others_write(
        // A pool that may take nothing from others may find no room at all.
        shares in prop::collection::vec((0..4_u64, 0..4_u32).prop_filter("none", |share| *share != (0, 0)), 2..4),
        bursts in prop::collection::vec((0..4_usize, 1..4_u64, 1_000..30_000_usize, any::<bool>()), 1..24),
    ) {
        let cache = cache(64, CacheConfig::default());
        let pools = sharing(&cache, &shares);
        let mut key = 0;
        let mut fill = |pool: usize, slabs: u64, len: usize| {
            for _ in 0..slabs * SLAB_BYTES / len as u64 {
                key += 1;
                put(&cache, pools[pool], key, len);
            }
        };
        let held = || (0..pools.len()).map(|pool| cache.stats().pools[pool].slab_bytes).collect::<Vec<_>>();
        // Memory goes by whole runs: a pool may keep a step less than what it is entitled to.
        let least = |reserve: u64| (reserve * SLAB_BYTES).saturating_sub((reserve * SLAB_BYTES / 8).max(256 << 10));
        // What moves between classes may leave units over that are too few for a chunk of the other
        // class.
        let over = 64 << 10;
        for (pool, amount, len, maintains) in bursts {
            let before = held();
            fill(pool % pools.len(), amount, len);
            if maintains {
                cache.maintain().expect("nothing is held");
                prop_assert!(cache.ledger().total() <= cache.ledger().limit());
            }
            for ((before, after), (reserve, _)) in before.iter().zip(held()).zip(&shares) {
                prop_assert!(after + over >= *before.min(&least(*reserve)), "{:?} after {:?} of {:?}", held(), before, shares);
            }
        }
        for _ in 0..12 {
            (0..pools.len()).for_each(|pool| fill(pool, 4, 8_000));
            cache.maintain().expect("nothing is held");
        }
        let held = held();
        for (pool, (reserve, weight)) in shares.iter().enumerate() {
            prop_assert!(held[pool] >= least(*reserve), "{:?} of {:?}", held, shares);
            for (other, (its_reserve, its_weight)) in shares.iter().enumerate().filter(|_| *weight > 0) {
                let slabs = |bytes: u64| (bytes + SLAB_BYTES / 2) / SLAB_BYTES;
                let more = (slabs(held[pool]) + 1).saturating_sub(*reserve) as u32 * its_weight;
                let less = slabs(held[other]).saturating_sub(its_reserve + 2) as u32 * weight;
                prop_assert!(other == pool || less <= more + weight * its_weight, "{:?} of {:?}", held, shares);
            }
        }
        cache.validate();
    }
}

/// Says of no item that it may leave.
struct Keeps;

impl Lifecycle for Keeps {
    fn may_evict(&self, _: ItemRef<'_>) -> bool {
        false
    }
}

/// The pool that has most gives nothing: another one does, at once.
#[test]
fn a_pool_that_cannot_give_is_passed_over_by_an_allocation() {
    for (is_held, len) in [(false, 200_000), (true, 20_000), (true, 200_000)] {
        let cache = cache(16, CacheConfig::default());
        let pool = |name: &str, lifecycle: Option<Arc<dyn Lifecycle>>| {
            cache.add_pool(PoolConfig { lifecycle, ..PoolConfig::named(name) }).expect("new")
        };
        let keeps: Option<Arc<dyn Lifecycle>> = if is_held { None } else { Some(Arc::new(Keeps)) };
        let (first, second, third) = (pool("first", keeps), pool("second", None), pool("third", None));
        (0..7_000).for_each(|key| put(&cache, first, key, 1_000));
        let find = |key: u32| cache.keys(first).find(&key.to_le_bytes());
        let held: Vec<_> = (0..7_000).filter(|_| is_held).map(find).collect();
        (0..60_000).for_each(|key| put(&cache, second, key, 200));
        (0..100).for_each(|key| put(&cache, third, key, len));
        drop(held);
        cache.validate();
    }
}

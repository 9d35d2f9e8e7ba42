//! The configured memory is all memory, and all of it is used: the bill never exceeds the limit,
//! nothing is evicted while the bill is below 90 % of it, and no item is refused that others can
//! make room for.

use base::rng::{RngExt, seeded};
use millpond::{ByteSize, Cache, CacheConfig, Expiry, ItemOptions, PolicyKind, PoolConfig, SizeClassConfig};

/// A cell of the table: how large a cache, how many tenants share it, and what they put.
#[derive(Clone, Debug)]
struct Cell {
    memory_mib: u64,
    tenants: usize,
    policy: PolicyKind,
    classes: SizeClassConfig,
    len: Len,
    /// Seconds that items live; 0 = for ever.
    ttl_secs: u32,
    huge_pages: bool,
    seed: u64,
}

/// The lengths of the values.
#[derive(Clone, Copy, Debug)]
enum Len {
    Fixed(usize),
    /// As many of each order of magnitude.
    Spread(f64, f64),
    /// Of a list of this many, each this much longer than the one before: in turn.
    InTurn(usize, usize),
    /// The same one after the other, the shortest first.
    InPhases(usize, usize),
}

impl Cell {
    fn new(memory_mib: u64, tenants: usize, policy: PolicyKind, len: Len) -> Self {
        let classes = SizeClassConfig::default();
        Self { memory_mib, tenants, policy, classes, len, ttl_secs: 0, huge_pages: false, seed: 7 }
    }

    /// With a size class for each length.
    fn with_classes(self, count: u32, step: u32) -> Self {
        let classes = SizeClassConfig::List((1..=count).map(|class| 64 + class * step).collect());
        Self { classes, ..self }
    }

    fn max_len(&self) -> usize {
        match self.len {
            Len::Fixed(len) => len,
            Len::Spread(_, most) => most as usize,
            Len::InTurn(count, step) | Len::InPhases(count, step) => count * step,
        }
    }

    fn mean_len(&self) -> usize {
        match self.len {
            Len::Fixed(len) => len,
            Len::Spread(least, most) => ((most - least) / (most / least).ln()) as usize,
            Len::InTurn(count, step) | Len::InPhases(count, step) => count * step / 2,
        }
    }

    /// Puts half as much again as there is room for, and checks the bill after each.
    fn check(&self) {
        let memory = ByteSize::mib(self.memory_mib);
        let (huge_pages, hash_seed) = (self.huge_pages, Some(7));
        let config = CacheConfig { memory, huge_pages, hash_seed, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let pool = |number: usize| PoolConfig {
            policy: self.policy,
            classes: self.classes.clone(),
            ..PoolConfig::named(format!("tenant {number}"))
        };
        let pools: Vec<_> =
            (0..self.tenants).map(|number| cache.add_pool(pool(number)).expect("a pool")).collect();
        let puts = (memory.as_u64() * 3 / 2 / (self.mean_len() as u64 + 60)) as u32;
        let (limit, mut rng) = (cache.ledger().limit(), seeded(self.seed));
        let evicted =
            || cache.stats().pools.iter().map(|pool| pool.sum(|class| class.evictions)).sum::<u64>();
        // What had been evicted when the bill was below 90 % last, if it is.
        let mut below = Some(0);
        let value = vec![1; self.max_len() + 1];
        for key in 0..puts {
            let len = match self.len {
                Len::Fixed(len) => len,
                Len::Spread(least, most) => {
                    10_f64.powf(rng.random_range(least.log10()..most.log10())) as usize
                }
                Len::InTurn(count, step) => key as usize / self.tenants % count * step + 1,
                Len::InPhases(count, step) => key as usize * count / puts as usize * step + 1,
            };
            let ttl = self.ttl_secs + key % (self.ttl_secs / 2 + 1);
            let expiry = if ttl == 0 { Expiry::Never } else { Expiry::After(ttl) };
            let options = ItemOptions { expiry, ..ItemOptions::default() };
            let mut item = cache
                .allocate(pools[key as usize % self.tenants], &key.to_le_bytes(), len, &options)
                .unwrap_or_else(|error| panic!("put {key} of {self:?}: {error}"));
            item.value_mut().copy_from_slice(&value[..len]);
            cache.put(item);
            let total = cache.ledger().total();
            assert!(total <= limit, "{total} of {limit} bytes after put {key} of {self:?}");
            let is_below = total < limit * 9 / 10;
            if let Some(before) = below.filter(|_| !is_below || key + 1 == puts) {
                assert_eq!(evicted(), before, "evictions below 90 %, until put {key} of {self:?}");
            }
            below = below.filter(|_| is_below).or_else(|| is_below.then(evicted));
        }
        assert!(evicted() > 0, "more was put than there is room for: {self:?}");
        cache.validate();
    }
}

fn small_cache(memory_mib: u64) -> Cache {
    let (memory, hash_seed) = (ByteSize::mib(memory_mib), Some(7));
    Cache::new(CacheConfig { memory, huge_pages: false, hash_seed, ..CacheConfig::default() })
        .expect("a cache")
}

fn check_all(policies: &[PolicyKind], memories_mib: &[u64], tenants: &[usize], lens: &[Len]) {
    for memory in memories_mib {
        for tenants in tenants {
            for policy in policies {
                lens.iter().for_each(|len| Cell::new(*memory, *tenants, *policy, *len).check());
            }
        }
    }
}

const ALL_SIZES: Len = Len::Spread(10.0, 30e3);

#[test]
fn small_caches_of_one_tenant_keep_to_their_memory_and_use_it() {
    check_all(&PolicyKind::ALL, &[8, 16, 32], &[1], &[ALL_SIZES, Len::Fixed(1_000), Len::Fixed(30_000)]);
}

#[test]
fn small_caches_of_many_tenants_keep_to_their_memory_and_use_it() {
    check_all(&PolicyKind::ALL, &[8, 16, 32], &[16, 64], &[ALL_SIZES]);
}

/// The part of one tenant in 8 MiB is two or three of the largest chunks.
#[test]
fn the_smallest_caches_of_many_tenants_refuse_nothing_whatever_comes() {
    for policy in PolicyKind::ALL {
        for seed in 0..8 {
            Cell { seed, ..Cell::new(8, 64, policy, ALL_SIZES) }.check();
        }
    }
}

#[test]
fn larger_caches_keep_to_their_memory_and_use_it() {
    let policies = [PolicyKind::S3_FIFO, PolicyKind::Sieve, PolicyKind::LRU, PolicyKind::W_TINY_LFU];
    check_all(&policies, &[64, 128], &[1, 16, 64], &[ALL_SIZES]);
}

/// The metadata of small items is a quarter of what they take.
#[test]
fn caches_of_the_smallest_items_keep_to_their_memory_and_use_it() {
    check_all(&PolicyKind::ALL, &[8, 16], &[1, 16], &[Len::Fixed(10)]);
}

#[test]
fn caches_of_hundreds_of_size_classes_keep_to_their_memory_and_refuse_nothing() {
    for memory in [8, 10, 14] {
        for policy in PolicyKind::ALL {
            for len in [Len::InTurn(200, 152), Len::InPhases(200, 152)] {
                Cell::new(memory, 2, policy, len).with_classes(200, 152).check();
            }
        }
    }
    for policy in PolicyKind::ALL {
        for len in [Len::InTurn(200, 16), Len::InPhases(200, 16)] {
            Cell::new(14, 2, policy, len).with_classes(200, 16).check();
        }
    }
}

/// The times and the number of expirations are not known when the items' memory is given out.
#[test]
fn caches_whose_items_expire_keep_to_their_memory() {
    for len in [Len::Fixed(10), ALL_SIZES] {
        for policy in [PolicyKind::S3_FIFO, PolicyKind::LRU] {
            Cell { ttl_secs: 10_000, ..Cell::new(8, 4, policy, len) }.check();
        }
    }
}

/// With large pages, a page is not given memory for a unit of it.
#[test]
fn small_caches_with_large_pages_keep_to_their_memory_and_use_it() {
    Cell { huge_pages: true, ..Cell::new(16, 4, PolicyKind::S3_FIFO, ALL_SIZES) }.check();
}

/// A class that has little takes what it lacks from others, and no more: what they lose is evicted.
#[test]
fn values_of_very_different_sizes_leave_few_chunks_free() {
    for policy in [PolicyKind::S3_FIFO, PolicyKind::LRU] {
        let cache = small_cache(64);
        let pool = cache.add_pool(PoolConfig { policy, ..PoolConfig::named("p") }).expect("a pool");
        let mut rng = seeded(7);
        for key in 0..20_000_u32 {
            // About as objects of a CDN: half of them have less than 2.8 KB, the mean is 9 KB.
            let normal = (0..12).map(|_| rng.random_range(0.0..1.0)).sum::<f64>() - 6.0;
            let len = (2.8e3 * (1.5 * normal).exp()).clamp(10.0, 3e6) as usize;
            let item = cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default()).expect("room");
            cache.put(item);
            if key % 1_000 == 999 {
                let stats = cache.stats();
                let unused =
                    stats.pools[0].sum(|class| class.bytes - class.items * u64::from(class.chunk_bytes));
                let all = stats.pools[0].slab_bytes;
                assert!(
                    unused * 4 <= all,
                    "{policy}: {unused} of {all} bytes are free chunks after put {key}"
                );
            }
        }
        cache.validate();
    }
}

fn small_cache_of_many_pools(policy: PolicyKind) -> (Cache, Vec<millpond::PoolId>) {
    let cache = small_cache(8);
    let pool = |number| PoolConfig { policy, ..PoolConfig::named(format!("p{number}")) };
    let pools = (0..40).map(|number| cache.add_pool(pool(number)).expect("a pool")).collect();
    (cache, pools)
}

/// Puts values of 1 to 3,000 B, and says how many were refused.
fn refused(cache: &Cache, pools: &[millpond::PoolId], puts: std::ops::Range<u32>) -> usize {
    let mut rng = seeded(puts.start.into());
    puts.filter(|key| {
        let len = 3e3_f64.powf(rng.random_range(0.0..1.0)) as usize;
        let pool = pools[rng.random_range(0..pools.len())];
        let item = cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default());
        item.map(|item| cache.put(item)).is_err()
    })
    .count()
}

/// Size classes take 2 KB each with S3-FIFO, and 8 to 11 KB with others: of hundreds, more than
/// there is.
#[test]
fn a_policy_whose_size_classes_leave_no_room_is_refused() {
    let (cache, pools) = small_cache_of_many_pools(PolicyKind::S3_FIFO);
    assert_eq!(refused(&cache, &pools, 0..40_000), 0);
    for (step, kind) in (1..).zip(PolicyKind::ALL) {
        let changed = pools.iter().filter(|pool| cache.set_pool_policy(**pool, kind).is_ok()).count();
        cache.maintain().expect("nothing is held");
        assert!(cache.ledger().total() <= cache.ledger().limit(), "{kind}");
        let puts = step * 100_000..step * 100_000 + 3_000;
        assert_eq!(refused(&cache, &pools, puts), 0, "{changed} pools have {kind}");
    }
    let error = pools.iter().find_map(|pool| cache.set_pool_policy(*pool, PolicyKind::Arc).err());
    assert!(error.expect("some is refused").to_string().contains("size classes of all pools"));
    cache.validate();
}

/// The queues of the new policy are paid for by items, as they come.
#[test]
fn a_change_of_policy_keeps_to_the_limit_at_once() {
    let cache = small_cache(16);
    let pool = |number| PoolConfig::named(format!("p{number}"));
    let pools: Vec<_> = (0..100).map(|number| cache.add_pool(pool(number)).expect("a pool")).collect();
    let mut rng = seeded(3);
    for _ in 0..30_000 {
        let (pool, key) = (pools[rng.random_range(0..100)], rng.random_range(0..5_000_u32));
        let len = 10_f64.powf(rng.random_range(1.0..3.2)) as usize;
        cache.put(cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default()).expect("room"));
    }
    let changed =
        pools.iter().filter(|pool| cache.set_pool_policy(**pool, PolicyKind::TINY_LFU).is_ok()).count();
    let (total, limit) = (cache.ledger().total(), cache.ledger().limit());
    assert!(changed > 20 && total <= limit, "{changed} changed, {total} of {limit}");
    cache.validate();
}

/// Its size class is there then, and has no chunks.
#[test]
fn a_value_that_is_refused_does_not_keep_others_out_of_their_pool() {
    let (cache, pools) = small_cache_of_many_pools(PolicyKind::LRU);
    let (last, others) = pools.split_last().expect("40");
    assert_eq!(refused(&cache, others, 0..40_000), 0);
    for len in [300_000, 1_000_000, 3_900_000] {
        let _ = cache.allocate(*last, b"big", len, &ItemOptions::default());
        assert_eq!(refused(&cache, &[*last], 100_000..101_000), 0, "after one of {len} B");
    }
    cache.validate();
}

/// The memory that an embedder charges for its own buffers is taken from the items of a full cache
/// at the next allocation.
#[test]
fn room_for_what_an_embedder_charges_is_made_by_the_next_allocation() {
    let cache = small_cache(32);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    let put = |key: u32| {
        cache.put(cache.allocate(pool, &key.to_le_bytes(), 500, &ItemOptions::default()).expect("memory"));
    };
    (0..100_000).for_each(put);
    let limit = cache.ledger().limit();
    cache.ledger().charge(millpond::Part::Connections, 3 << 20);
    assert!(cache.ledger().total() > limit);
    put(0);
    assert!(cache.ledger().total() <= limit, "{} of {limit}", cache.ledger().total());
    assert!(cache.ledger().total() >= limit * 9 / 10, "no more was taken than is needed");
    cache.validate();
}

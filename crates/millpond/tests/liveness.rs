//! That no operation waits for holders, vetoes or readers, and that what one of them keeps the
//! others give.

use std::sync::Arc;

use millpond::{
    ByteSize, Cache, CacheConfig, Expiry, ItemOptions, ItemRef, Lifecycle, Part, PoolConfig, PoolId,
    ReadHandle,
};

/// Keeps all items.
#[derive(Debug)]
struct KeepsAll;

impl Lifecycle for KeepsAll {
    fn may_evict(&self, _: ItemRef<'_>) -> bool {
        false
    }
}

const SLAB: u64 = 4 << 20;

fn cache(mib: u64) -> Cache {
    Cache::new(CacheConfig { memory: ByteSize::mib(mib), ..CacheConfig::default() }).expect("a cache")
}

fn key(tag: u8, number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_le_bytes();
    [tag, a, b, c, d]
}

/// Fills a pool with items of four sizes.
fn fill(cache: &Cache, pool: PoolId, tag: u8, items: u32) {
    for number in 0..items {
        let bytes = [100, 300, 900, 3_000][number as usize % 4];
        if let Ok(item) = cache.allocate(pool, &key(tag, number), bytes, &ItemOptions::default()) {
            cache.put(item);
        }
    }
}

fn slabs(cache: &Cache) -> Vec<u64> {
    cache.stats().pools.iter().map(|pool| pool.slab_bytes / SLAB).collect()
}

/// A larger pool that keeps its items, which is returned, and one that gives.
fn keeping_and_giving(cache: &Cache) -> PoolId {
    let keeping = PoolConfig { lifecycle: Some(Arc::new(KeepsAll)), ..PoolConfig::named("keeps") };
    let keeping = cache.add_pool(keeping).expect("a pool");
    let giving = cache.add_pool(PoolConfig::named("gives")).expect("a pool");
    fill(cache, keeping, b'a', 40_000);
    fill(cache, giving, b'b', 24_000);
    keeping
}

#[test]
fn memory_shrinks_although_an_item_of_each_class_is_held() {
    let cache = cache(96);
    let (a, b) = (cache.add_pool(PoolConfig::named("a")), cache.add_pool(PoolConfig::named("b")));
    let (a, b) = (a.expect("a pool"), b.expect("a pool"));
    fill(&cache, a, b'a', 44_000);
    fill(&cache, b, b'b', 22_000);
    let held: Vec<ReadHandle<'_>> = (0..4).filter_map(|number| cache.find(&key(b'a', number))).collect();
    assert_eq!(held.len(), 4, "the first of each class");
    let to = cache.ledger().total() - 4 * SLAB;
    cache.set_memory(ByteSize::new(to)).expect("other slabs have nothing that is held");
    assert!(cache.ledger().total() <= to);
    assert!(held.iter().all(|item| cache.find(item.key()).is_some()), "they are in the cache yet");
    drop(held);
    cache.validate();
}

#[test]
fn memory_shrinks_by_what_others_give_where_the_largest_pool_keeps_its_items() {
    let cache = cache(96);
    keeping_and_giving(&cache);
    let before = slabs(&cache);
    assert!(before[0] > before[1] && before[1] > 4, "{before:?}");
    let items = cache.stats().pools[0].sum(|class| class.items);
    let to = cache.ledger().total() - 4 * SLAB;
    cache.set_memory(ByteSize::new(to)).expect("one of them gives");
    assert!(cache.ledger().total() <= to);
    assert_eq!(cache.stats().pools[0].sum(|class| class.items), items, "none of the kept ones has left");
    cache.validate();
}

#[test]
fn a_class_gives_a_slab_although_its_first_ones_hold_items() {
    let cache = cache(64);
    let pool = cache.add_pool(PoolConfig::named("a")).expect("a pool");
    let options = ItemOptions::default();
    for number in 0..200_000_u32 {
        cache.put(cache.allocate(pool, &key(b'a', number), 200, &options).expect("memory"));
    }
    let slabs = cache.stats().pools[0].slab_bytes / SLAB;
    // Those that were put first lie in the first slabs.
    let present = |number: u32| cache.find(&key(b'a', number));
    let held: Vec<_> = (0..200_000).step_by(5_000).filter_map(present).take(slabs as usize / 2).collect();
    assert!(held.len() > 3);
    for given in 1..=3 {
        let limit = ByteSize::new((slabs - given) * SLAB);
        cache.set_pool_limit(pool, Some(limit)).expect("others have nothing that is held");
    }
    assert_eq!(cache.stats().pools[0].sum(|class| class.run_releases_aborted), 0, "none was tried in vain");
    drop(held);
    cache.validate();
}

#[test]
fn maintain_goes_on_where_a_pool_cannot_keep_its_limit() {
    let cache = cache(96);
    let keeping = keeping_and_giving(&cache);
    cache.set_pool_limit(keeping, Some(ByteSize::mib(8))).expect_err("it keeps its items");
    // As an embedder does that charges its buffers.
    let buffers = cache.ledger().free() + 3 * SLAB;
    cache.ledger().charge(Part::Connections, buffers);
    cache.maintain().expect_err("the pool is over its limit yet");
    assert!(cache.ledger().total() <= cache.ledger().limit(), "the other one has given");
    cache.ledger().release(Part::Connections, buffers);
    cache.validate();
}

/// More threads than have a slot of their own, whose finds follow each other without a pause.
#[test]
fn slabs_move_and_pools_go_while_a_hundred_threads_read() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let cache = cache(64);
    let pool = cache.add_pool(PoolConfig::named("a")).expect("a pool");
    fill(&cache, pool, b'a', 20_000);
    let (stop, finds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for thread in 0..100_u32 {
            let (cache, stop, finds) = (&cache, &stop, &finds);
            threads.spawn(move || {
                let mut number = thread;
                while !stop.load(Ordering::Relaxed) {
                    number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    cache.find_with(&key(b'a', (number >> 8) % 20_000), |_| ());
                    finds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Until they read, and while they do.
        for round in 0..5_u64 {
            let before = finds.load(Ordering::Relaxed);
            while finds.load(Ordering::Relaxed) < before + 1_000 {
                std::thread::yield_now();
            }
            let slabs = cache.stats().pools[0].slab_bytes;
            // What is held at this moment may keep it from its limit; what it does not do is wait
            // for the readers to stop.
            let _ = cache.set_pool_limit(pool, Some(ByteSize::new(slabs - SLAB)));
            let _ = cache.maintain();
            let other = cache.add_pool(PoolConfig::named(format!("other-{round}"))).expect("a pool");
            let options = ItemOptions { expiry: Expiry::After(60), ..ItemOptions::default() };
            cache.put(cache.allocate(other, b"key", 10, &options).expect("memory"));
            cache.remove_pool(other).expect("there is one");
        }
        stop.store(true, Ordering::Relaxed);
    });
    cache.maintain().expect("nobody reads");
    assert_eq!(cache.stats().pools.len(), 1, "the others are gone");
    cache.validate();
}

/// A log of links, as docs/items.md has it: each of them moves without a walk from the head, which
/// would take minutes here.
#[test]
fn a_slab_of_links_of_one_long_chain_moves() {
    let cache = cache(64);
    let pool = cache.add_pool(PoolConfig::named("logs")).expect("a pool");
    let options = ItemOptions { chainable: true, ..ItemOptions::default() };
    let (log, _) = cache.insert_or_replace(cache.allocate(pool, b"log", 400, &options).expect("memory"));
    // The item lies in a class of its own, and the links in several runs of theirs.
    let links = 140_000_u32;
    for number in 0..links {
        let mut link = log.allocate_link(20).expect("memory");
        link.value_mut()[..4].copy_from_slice(&number.to_le_bytes());
        assert!(log.push_link(link).is_ok());
    }
    drop(log);
    let before = cache.stats().pools[0].slab_bytes;
    assert!(before > 2 * SLAB, "{before}");
    cache.set_pool_limit(pool, Some(ByteSize::new(before - SLAB))).expect("nothing is held");
    cache.validate();
    // There is no room for all of them, so that the chain was evicted when the turn of one of its
    // links came; or it is whole.
    if let Some(log) = cache.find(b"log") {
        let numbers = log.links().map(|link| u32::from_le_bytes([link[0], link[1], link[2], link[3]]));
        assert!(numbers.eq((0..links).rev()), "order is kept");
    }
}

#[test]
fn an_item_with_a_long_chain_leaves_with_it_rather_than_move() {
    let cache = cache(64);
    let pool = cache.add_pool(PoolConfig::named("logs")).expect("a pool");
    let options = ItemOptions { chainable: true, ..ItemOptions::default() };
    for (key, links) in [(&b"short"[..], 1_000_u32), (&b"long"[..], 20_000)] {
        let (log, _) = cache.insert_or_replace(cache.allocate(pool, key, 400, &options).expect("memory"));
        for _ in 0..links {
            let link = log.allocate_link(20).expect("memory");
            assert!(log.push_link(link).is_ok());
        }
    }
    // Another slab of the class of the two, so that there is somewhere to move to.
    for number in 0..12_000_u32 {
        let item = cache.allocate(pool, &number.to_le_bytes(), 400, &options).expect("memory");
        cache.put(item);
    }
    let class = cache.stats().pools[0].classes.iter().find(|class| class.items > 0).map(|class| class.number);
    // Runs leave until it is the turn of the one that the item lies in.
    for _ in 0..64 {
        cache.move_slab(pool, class.expect("it has items"), None).expect("nothing is held");
        if cache.find(b"long").is_none() {
            break;
        }
    }
    let short = cache.find(b"short").map_or(0, |log| u64::from(log.link_count()));
    assert!(cache.find(b"long").is_none() && cache.stats().pools[0].sum(|class| class.links) == short);
    cache.validate();
}

#[test]
fn a_pool_and_a_class_take_little() {
    const POOLS: u64 = 64;
    let cache = cache(1_024);
    let metadata = || -> u64 {
        [Part::Fixed, Part::Queues, Part::Ghosts].map(|part| cache.ledger().part(part)).iter().sum()
    };
    let before = metadata();
    let named = |number: u64| PoolConfig { own_keys: true, ..PoolConfig::named(format!("pool-{number}")) };
    let pools: Vec<PoolId> =
        (0..POOLS).map(|number| cache.add_pool(named(number)).expect("a pool")).collect();
    let with_pools = metadata();
    for pool in &pools {
        cache.put(cache.allocate(*pool, b"key", 10, &ItemOptions::default()).expect("memory"));
    }
    // The bill is brought up to date.
    cache.stats();
    let with_classes = metadata();
    let (of_pool, of_class) = ((with_pools - before) / POOLS, (with_classes - with_pools) / POOLS);
    println!("{of_pool} bytes for a pool, {of_class} for a class");
    assert!(of_pool < 2_048, "{of_pool} bytes for a pool");
    assert!(of_class < 2_048, "{of_class} bytes for a class");
    pools.iter().for_each(|pool| assert!(cache.remove_pool(*pool).expect("it is there").is_gone));
    // Key spaces stay, for pools to come.
    assert!(metadata() - before < POOLS * 256, "{} bytes are left of all", metadata() - before);
}

/// Each thread has a store of chunks of its own in each class that it uses, which is charged for
/// what it holds.
#[test]
fn many_threads_in_many_pools_stay_within_the_bill() {
    const POOLS: usize = 50;
    let cache = cache(1_024);
    let pools: Vec<PoolId> = (0..POOLS)
        .map(|number| cache.add_pool(PoolConfig::named(format!("pool-{number}"))).expect("a pool"))
        .collect();
    let before = cache.ledger().part(Part::Fixed);
    std::thread::scope(|threads| {
        for thread in 0..30_u32 {
            let (cache, pools) = (&cache, &pools);
            threads.spawn(move || {
                for (number, pool) in (0_u32..).zip(pools) {
                    let key = [thread.to_le_bytes(), number.to_le_bytes()].concat();
                    cache.put(cache.allocate(*pool, &key, 20, &ItemOptions::default()).expect("memory"));
                    assert!(cache.keys(*pool).find(&key).is_some());
                }
            });
        }
    });
    cache.stats();
    let each = (cache.ledger().part(Part::Fixed) - before) / (POOLS as u64 * 30);
    assert!(each < 1_536, "{each} bytes for each thread in each class, where 17 KB were charged");
    cache.validate();
}

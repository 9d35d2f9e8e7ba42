use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::{CacheConfig, ItemOptions, Lifecycle, PoolConfig, RemovedItem, WeakCache};

use super::*;

/// A folder of its own, which ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("millpond-recover-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(folder: &Path) -> Cache {
    let config =
        CacheConfig { memory: ByteSize::mib(64), shared: Some(folder.to_owned()), ..CacheConfig::default() };
    Cache::new(config).expect("a cache")
}

fn chainable() -> ItemOptions {
    ItemOptions { chainable: true, ..ItemOptions::default() }
}

/// The remains of a process that ended while a chain was on its way to another item: before the
/// chain had moved, or after.
fn leave_a_transfer(folder: &Path, moved: bool) {
    let cache = open(folder);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    let old = cache.insert(cache.allocate(pool, b"k", 10, &chainable()).expect("room")).expect("new");
    for _ in 0..5 {
        old.push_link(old.allocate_link(100).expect("room")).expect("it has room for a chain");
    }
    let new = cache.allocate(pool, b"k", 10, &chainable()).expect("room");
    if moved {
        cache.core().move_chain(old.ptr(), new.ptr(), false);
    }
    // Dropped, it would give up the links.
    std::mem::forget(new);
}

#[test]
fn an_item_whose_chain_was_on_its_way_to_another_does_not_survive() {
    for (moved, items, dropped) in [(false, 1, 0), (true, 0, 1)] {
        let folder = Folder::new("transfer");
        leave_a_transfer(&folder.0, moved);
        let cache = open(&folder.0);
        let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
        let recovered = cache.recovered();
        assert_eq!((recovered.items, recovered.dropped), (items, dropped), "{moved}");
        assert_eq!(cache.keys(pool).find(b"k").map(|item| item.link_count()), (!moved).then_some(5));
        cache.validate();
    }
}

#[test]
fn a_failed_transfer_leaves_a_whole_chain() {
    let folder = Folder::new("failed");
    {
        let cache = open(&folder.0);
        let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
        let make = || cache.allocate(pool, b"k", 10, &chainable()).expect("room");
        let first = cache.insert(make()).expect("new");
        first.push_link(first.allocate_link(100).expect("room")).expect("it has room for a chain");
        let (second, _) = cache.insert_or_replace(make());
        second.push_link(second.allocate_link(100).expect("room")).expect("it has room for a chain");
        let third = cache.transfer_chain_and_replace(&first, make()).expect_err("replaced before");
        assert_eq!((first.link_count(), third.link_count()), (1, 0));
        let third = cache.transfer_chain_and_replace(&second, third).expect("it is the present one");
        assert_eq!((second.link_count(), third.link_count()), (0, 1));
    }
    let cache = open(&folder.0);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    assert_eq!(cache.keys(pool).find(b"k").map(|item| item.link_count()), Some(1));
    assert_eq!(cache.recovered().dropped, 0);
    cache.validate();
}

/// Asks for a pool by its name whenever an item leaves.
#[derive(Default)]
struct Asks {
    cache: OnceLock<WeakCache>,
}

impl Lifecycle for Asks {
    fn on_remove(&self, _: RemovedItem<'_>, _: RemovalCause) {
        if let Some(cache) = self.cache.get().and_then(WeakCache::upgrade) {
            let _ = cache.pool_id("small");
        }
    }
}

#[test]
fn hooks_of_other_pools_wait_for_no_recovery_that_waits_for_them() {
    let folder = Folder::new("hooks");
    let fill = |cache: &Cache, pool, keys: std::ops::Range<u32>, len| {
        for key in keys {
            let item = cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default());
            cache.put(item.expect("room"));
        }
    };
    {
        let cache = open(&folder.0);
        let pool = cache.add_pool(PoolConfig::named("small")).expect("a pool");
        fill(&cache, pool, 0..100_000, 1);
    }
    let cache = open(&folder.0);
    let asks = Arc::new(Asks::default());
    let lifecycle = Some(Arc::clone(&asks) as Arc<dyn Lifecycle>);
    let pool = cache.add_pool(PoolConfig { lifecycle, ..PoolConfig::named("large") }).expect("a pool");
    // As many as the index has room for, and then whatever memory there is.
    fill(&cache, pool, 0..60_000, 1);
    fill(&cache, pool, 100_000..140_000, 2_000);
    assert!(asks.cache.set(cache.downgrade()).is_ok());
    cache.add_pool(PoolConfig::named("small")).expect("a pool");
    assert!(cache.recovered().items > 0);
    assert!(cache.ledger().total() <= cache.ledger().limit());
    cache.validate();
}

#[test]
fn a_key_space_whose_items_are_removed_keeps_nothing_older() {
    let folder = Folder::new("removed");
    let shared = |name: &str| PoolConfig { own_keys: false, ..PoolConfig::named(name) };
    for removes_pool in [false, true] {
        {
            let cache = open(&folder.0);
            for name in ["first", "second"] {
                let pool = cache.add_pool(shared(name)).expect("a pool");
                cache.put(cache.allocate(pool, name.as_bytes(), 10, &ItemOptions::default()).expect("room"));
            }
        }
        let cache = open(&folder.0);
        let first = cache.add_pool(shared("first")).expect("a pool");
        if removes_pool {
            cache.remove_pool(first).expect("it is there");
        } else {
            assert!(cache.remove_matching(&cache.find(b"first").expect("it was left")));
        }
        // It may be older than what was removed.
        cache.add_pool(shared("second")).expect("a pool");
        assert!(cache.find(b"second").is_none());
    }
}

#[test]
fn whoever_asks_for_a_pool_by_its_id_waits_until_it_is_recovered() {
    let folder = Folder::new("waits");
    let open = || open(&folder.0);
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
}

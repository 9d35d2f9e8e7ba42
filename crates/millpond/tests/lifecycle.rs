//! Expiration, eviction and removal of items, as the hooks of their pool see them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::rng::{RngExt, SeededRng, seeded};
use millpond::watch::{CurveConfig, HotKeysConfig};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ErrorKind, Expiry, ItemOptions, ItemRef, Lifecycle, PolicyKind,
    PoolConfig, PoolId, ReadHandle, RemovalCause, RemovedItem,
};

/// The calls of the hooks for each item: values are serial numbers.
#[derive(Debug, Default)]
struct Told {
    removed: Mutex<HashMap<u64, RemovalCause>>,
    destroyed: Mutex<HashMap<u64, RemovalCause>>,
    /// Of items whose user bit says so.
    kept: AtomicU64,
    links: AtomicU64,
}

fn serial(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("a serial number"))
}

impl Lifecycle for Told {
    fn may_evict(&self, item: ItemRef<'_>) -> bool {
        if item.user_bits() == 1 {
            self.kept.fetch_add(1, Ordering::Relaxed);
        }
        item.user_bits() != 1
    }

    fn on_remove(&self, item: RemovedItem<'_>, cause: RemovalCause) {
        assert!(!item.is_current());
        assert_eq!(self.removed.lock().expect("whole").insert(serial(&item), cause), None, "told twice");
    }

    fn on_destroy(&self, item: RemovedItem<'_>, cause: RemovalCause) {
        let removed = self.removed.lock().expect("whole").get(&serial(&item)).copied();
        assert_eq!(removed, Some(cause), "first it leaves, then it ends");
        self.links.fetch_add(item.links().count() as u64, Ordering::Relaxed);
        assert_eq!(self.destroyed.lock().expect("whole").insert(serial(&item), cause), None, "told twice");
    }
}

impl Told {
    fn removed(&self, serial: u64) -> Option<RemovalCause> {
        self.removed.lock().expect("whole").get(&serial).copied()
    }

    fn destroyed(&self, serial: u64) -> Option<RemovalCause> {
        self.destroyed.lock().expect("whole").get(&serial).copied()
    }
}

fn cache(memory: u64, policy: PolicyKind) -> (Cache, PoolId, Clock, Arc<Told>) {
    let (clock, told) = (Clock::manual(1_000_000), Arc::new(Told::default()));
    let config = CacheConfig {
        memory: ByteSize::mib(memory),
        clock: clock.clone(),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let lifecycle = Some(Arc::clone(&told) as Arc<dyn Lifecycle>);
    let pool = PoolConfig { lifecycle, policy, ..PoolConfig::named("told") };
    let pool = cache.add_pool(pool).expect("a new name");
    (cache, pool, clock, told)
}

fn put(cache: &Cache, pool: PoolId, key: &[u8], serial: u64, options: &ItemOptions) {
    let mut item = cache.allocate(pool, key, 100, options).expect("room");
    item.value_mut()[..8].copy_from_slice(&serial.to_le_bytes());
    cache.put(item);
}

#[test]
fn each_end_has_its_cause() {
    let (cache, pool, clock, told) = cache(16, PolicyKind::default());
    let plain = ItemOptions::default();
    put(&cache, pool, b"removed", 1, &plain);
    put(&cache, pool, b"replaced", 2, &plain);
    put(&cache, pool, b"replaced", 3, &plain);
    assert!(cache.remove(b"removed"));
    assert_eq!((told.removed(1), told.destroyed(1)), (Some(RemovalCause::Removed), told.removed(1)));
    assert_eq!(told.destroyed(2), Some(RemovalCause::Replaced));
    assert_eq!(told.removed(3), None);
    // One that is met when it has expired, and one that is reaped.
    let soon = ItemOptions { expiry: Expiry::After(5), ..plain };
    put(&cache, pool, b"met", 4, &soon);
    put(&cache, pool, b"reaped", 5, &soon);
    clock.advance(Duration::from_secs(20));
    assert!(cache.find(b"met").is_none());
    assert_eq!(told.destroyed(4), Some(RemovalCause::Expired));
    cache.reap();
    assert_eq!(told.destroyed(5), Some(RemovalCause::Expired));
    // One that was never inserted does not end.
    drop(cache.allocate(pool, b"never", 100, &plain).expect("room"));
    cache.insert(cache.allocate(pool, b"replaced", 100, &plain).expect("room")).expect_err("it is there");
    assert_eq!(told.removed.lock().expect("whole").len(), 4);
    cache.validate();
}

#[test]
fn what_is_held_leaves_at_once_and_ends_with_its_last_handle() {
    let (cache, pool, _, told) = cache(16, PolicyKind::default());
    put(&cache, pool, b"k", 1, &ItemOptions::default());
    let (first, second) = (cache.find(b"k").expect("there"), cache.find(b"k").expect("there"));
    put(&cache, pool, b"k", 2, &ItemOptions::default());
    assert_eq!((told.removed(1), told.destroyed(1)), (Some(RemovalCause::Replaced), None));
    drop(first);
    assert_eq!(told.destroyed(1), None);
    drop(second);
    assert_eq!(told.destroyed(1), Some(RemovalCause::Replaced));
    let mut item = cache.allocate(pool, b"k", 100, &ItemOptions::default()).expect("room");
    item.value_mut()[..8].copy_from_slice(&3_u64.to_le_bytes());
    let (new, old) = cache.insert_or_replace(item);
    assert_eq!((told.removed(2), told.destroyed(2)), (Some(RemovalCause::Replaced), None));
    drop((new, old));
    assert_eq!(told.destroyed(2), Some(RemovalCause::Replaced));
    cache.validate();
}

#[test]
fn what_is_evicted_ends_once_and_with_its_links() {
    for policy in PolicyKind::ALL {
        let (cache, pool, _, told) = cache(16, policy);
        for n in 0..150_000_u64 {
            let chainable = n % 4 == 0;
            let options = ItemOptions { chainable, ..ItemOptions::default() };
            put(&cache, pool, &n.to_le_bytes(), n, &options);
            if let Some(item) = cache.find(&n.to_le_bytes()).filter(|_| chainable) {
                item.push_link(item.allocate_link(100).expect("room")).expect("its own");
            }
        }
        let ended = told.destroyed.lock().expect("whole").clone();
        assert_eq!(ended.len() as u64 + cache.stats().index_entries, 150_000, "{policy}");
        assert!(ended.len() > 5_000 && ended.values().all(|cause| *cause == RemovalCause::Evicted));
        let chained = ended.keys().filter(|serial| *serial % 4 == 0).count() as u64;
        assert_eq!(told.links.load(Ordering::Relaxed), chained, "{policy}: links are there until the end");
        cache.validate();
    }
}

#[test]
fn what_may_not_be_evicted_stays() {
    for policy in PolicyKind::ALL {
        let (cache, pool, _, told) = cache(16, policy);
        let precious = ItemOptions { user_bits: 1, ..ItemOptions::default() };
        (0..500_u64).for_each(|n| put(&cache, pool, &n.to_le_bytes(), n, &precious));
        (500..150_000_u64).for_each(|n| put(&cache, pool, &n.to_le_bytes(), n, &ItemOptions::default()));
        assert!((0..500_u64).all(|n| cache.find(&n.to_le_bytes()).is_some()), "{policy}");
        assert!(told.kept.load(Ordering::Relaxed) > 0, "{policy}: it was asked");
        assert!(cache.remove(&7_u64.to_le_bytes()), "what may not be evicted can be removed");
        cache.validate();
    }
    // Where nothing may be evicted, there is no room.
    let (cache, pool, ..) = cache(16, PolicyKind::default());
    let precious = ItemOptions { user_bits: 1, ..ItemOptions::default() };
    let fill =
        |n: u64| cache.allocate(pool, &n.to_le_bytes(), 100, &precious).map(|item| cache.put(item)).err();
    let full = (0..).find_map(fill);
    assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::OutOfMemory));
    let error = cache.set_pool_limit(pool, Some(ByteSize::mib(4))).expect_err("slabs are full of what stays");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    cache.validate();
}

/// Tells, and uses the cache itself while it is told.
struct Busy {
    told: Told,
    cache: Mutex<Option<(Cache, PoolId)>>,
}

impl Lifecycle for Busy {
    fn on_remove(&self, item: RemovedItem<'_>, cause: RemovalCause) {
        self.told.on_remove(item, cause);
    }

    fn on_destroy(&self, item: RemovedItem<'_>, cause: RemovalCause) {
        self.told.on_destroy(item, cause);
        let cache = self.cache.lock().expect("whole").clone();
        let Some((cache, pool)) = cache.filter(|_| serial(&item).is_multiple_of(64)) else { return };
        // Whatever an embedder may think of: another key, found, removed and made.
        cache.find(b"other");
        cache.remove(b"other");
        if let Ok(mut item) = cache.allocate(pool, b"other", 100, &ItemOptions::default()) {
            item.value_mut().fill(1);
            cache.put(item);
        }
    }
}

/// Does something with some key, and says whether that inserted an item.
fn do_something<'c>(
    cache: &'c Cache,
    pool: PoolId,
    rng: &mut SeededRng,
    held: &mut Vec<ReadHandle<'c>>,
    serials: &AtomicU64,
) -> bool {
    let key = rng.random_range(0..50_000_u32).to_le_bytes();
    let what = rng.random_range(0..10_u32);
    match what {
        0 => drop(cache.remove(&key)),
        1 => held.extend(cache.find(&key)),
        2 => held.clear(),
        _ => {
            let expiry = if what == 3 { Expiry::After(1) } else { Expiry::Never };
            let options = ItemOptions { expiry, chainable: what == 4, ..ItemOptions::default() };
            let Ok(mut item) = cache.allocate(pool, &key, rng.random_range(8..600), &options) else {
                return false;
            };
            let serial = serials.fetch_add(1, Ordering::Relaxed);
            item.value_mut()[..8].copy_from_slice(&serial.to_le_bytes());
            if let Ok(link) = item.allocate_link(100) {
                item.push_link(link).expect("its own");
            }
            if what == 5 {
                return cache.insert(item).is_ok();
            }
            cache.put(item);
            return true;
        }
    }
    false
}

#[test]
fn every_item_ends_once_whatever_happens() {
    let hooks = Arc::new(Busy { told: Told::default(), cache: Mutex::new(None) });
    let config = CacheConfig { memory: ByteSize::mib(20), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a valid configuration");
    let lifecycle = Some(Arc::clone(&hooks) as Arc<dyn Lifecycle>);
    let pool = cache.add_pool(PoolConfig { lifecycle, ..PoolConfig::named("told") }).expect("new");
    let other = cache.add_pool(PoolConfig::named("other")).expect("new");
    *hooks.cache.lock().expect("whole") = Some((cache.clone(), other));
    let (serials, inserted, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (cache, serials, inserted, stop) = (&cache, &serials, &inserted, &stop);
            scope.spawn(move || {
                let (mut rng, mut held) = (seeded(seed), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let done = do_something(cache, pool, &mut rng, &mut held, serials);
                    inserted.fetch_add(u64::from(done), Ordering::Relaxed);
                }
            });
        }
        for round in 0..100 {
            let _ = cache.set_memory(ByteSize::mib(12 + round % 9));
            let _ = cache.maintain();
            base::thread::sleep(Duration::from_millis(15));
        }
        stop.store(true, Ordering::Relaxed);
    });
    *hooks.cache.lock().expect("whole") = None;
    cache.validate();
    let here = cache.stats().pools[0].sum(|class| class.items);
    let ended = hooks.told.destroyed.lock().expect("whole").len() as u64;
    assert_eq!(hooks.told.removed.lock().expect("whole").len() as u64, ended);
    assert_eq!(ended + here, inserted.load(Ordering::Relaxed), "each item that was inserted ends once");
    assert!(ended > 10_000);
}

/// A hook that asks all that it can of what it is shown, and counts long values and items that were
/// not published.
#[derive(Default)]
struct Curious {
    long: AtomicU64,
    unpublished: AtomicU64,
}

impl Lifecycle for Curious {
    fn may_evict(&self, item: ItemRef<'_>) -> bool {
        let is_told = format!("{item:?}").contains("value_len") && item.whole_len() == item.value().len();
        self.long.fetch_add(u64::from(is_told && item.is_long()), Ordering::Relaxed);
        self.unpublished.fetch_add(u64::from(item.key() == b"unpublished"), Ordering::Relaxed);
        true
    }
}

fn curious(memory: u64, policy: PolicyKind) -> (Cache, PoolId, Arc<Curious>) {
    let config = CacheConfig { memory: ByteSize::mib(memory), huge_pages: false, ..CacheConfig::default() };
    let (cache, curious) = (Cache::new(config).expect("a cache"), Arc::new(Curious::default()));
    let lifecycle = Some(Arc::clone(&curious) as Arc<dyn Lifecycle>);
    let pool = cache.add_pool(PoolConfig { lifecycle, policy, ..PoolConfig::named("p") });
    (cache, pool.expect("a new name"), curious)
}

/// It locked the chain of the item a second time.
#[test]
fn who_is_asked_of_a_long_value_may_ask_for_its_length() {
    let (done, is_done) = std::sync::mpsc::channel();
    let thread = base::thread::spawn("evict", move || {
        let (cache, pool, curious) = curious(64, PolicyKind::default());
        for key in 0..40_u32 {
            let value = vec![1; 5 << 20];
            cache.put_value(pool, &key.to_le_bytes(), &value, &ItemOptions::default()).expect("room");
        }
        cache.validate();
        let _ = done.send(curious.long.load(Ordering::Relaxed));
    });
    let long = is_done.recv_timeout(Duration::from_secs(60)).expect("it ends");
    thread.expect("a thread").join().expect("no panic");
    assert!(long > 20, "{long}");
}

/// Its writer may be writing it.
#[test]
fn an_item_that_is_not_published_is_not_shown() {
    for policy in PolicyKind::ALL {
        let (cache, pool, curious) = curious(16, policy);
        let chainable = ItemOptions { chainable: true, ..ItemOptions::default() };
        let mut mine = cache.allocate(pool, b"unpublished", 100, &chainable).expect("room");
        for _ in 0..50 {
            mine.push_link(mine.allocate_link(450).expect("room")).expect("its own");
        }
        for key in 0..20_000_u32 {
            let item = cache.allocate(pool, &key.to_le_bytes(), 500, &chainable).expect("room");
            item.push_link(item.allocate_link(450).expect("room")).expect("its own");
            cache.put(item);
            mine.value_mut()[0] = key as u8;
        }
        assert_eq!(curious.unpublished.load(Ordering::Relaxed), 0, "{policy:?}");
        cache.put(mine);
        let found = cache.find(b"unpublished").expect("it has just been stored");
        assert_eq!(found.links().count(), 50);
        drop(found);
        cache.validate();
    }
}

/// Switches watching on and off as items leave.
#[derive(Default)]
struct Switches {
    cache: std::sync::OnceLock<(Cache, PoolId)>,
    times: AtomicU64,
}

impl Lifecycle for Switches {
    fn on_remove(&self, _: RemovedItem<'_>, cause: RemovalCause) {
        let Some((cache, pool)) = self.cache.get() else { return };
        // What it evicts itself calls no further.
        if cause == RemovalCause::Evicted && self.times.fetch_add(1, Ordering::Relaxed) < 10 {
            let _ = cache.time_calls(1);
            let _ = cache.set_curve(*pool, None);
            let _ = cache.set_hot_keys(*pool, None);
            assert!(!cache.set_events_one_in(1));
        }
    }
}

/// It waited for the lock of what is switched, which its own thread had.
#[test]
fn a_hook_may_switch_watching_on_as_another_call_of_that_evicts() {
    let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let switches = Arc::new(Switches::default());
    let lifecycle = Some(Arc::clone(&switches) as Arc<dyn Lifecycle>);
    let pool = cache.add_pool(PoolConfig { lifecycle, ..PoolConfig::named("p") }).expect("a new name");
    for key in 0..60_000_u32 {
        let item = cache.allocate(pool, &key.to_le_bytes(), 300, &ItemOptions::default()).expect("room");
        cache.put(item);
    }
    let _ = switches.cache.set((cache.clone(), pool));
    cache.set_curve(pool, Some(CurveConfig::default())).expect("room");
    assert!(switches.times.swap(0, Ordering::Relaxed) > 0, "it has evicted");
    let reader = cache.changes(ByteSize::mib(1)).expect("room");
    cache.set_hot_keys(pool, Some(HotKeysConfig::default())).expect("room");
    drop(reader);
    cache.validate();
}

/// Nothing that is switched off needs memory, of which there is none here.
#[test]
fn watching_is_switched_off_in_a_cache_over_its_limit() {
    let config = CacheConfig { memory: ByteSize::mib(32), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a new name");
    cache.set_hot_keys(pool, Some(HotKeysConfig::default())).expect("room");
    let mut held = Vec::new();
    for key in 0..20_000_u32 {
        let item = cache.allocate(pool, &key.to_le_bytes(), 1_000, &ItemOptions::default()).expect("room");
        held.push(cache.insert_or_replace(item).0);
    }
    cache.set_memory(ByteSize::mib(16)).expect_err("all items are held");
    cache.set_hot_keys(pool, None).expect("it needs no memory");
    cache.set_curve(pool, None).expect("it needs no memory");
}

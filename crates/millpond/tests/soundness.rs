//! Safe calls in orders that nobody should write: none of them may reach memory that is not its
//! own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millpond::negative::{NegativeCache, NegativeConfig};
use millpond::structured::{Collection, CollectionKind, Edit, Map};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ErrorKind, Expiry, ItemOptions, ItemRef, Lifecycle, Link, LoadError,
    LoadOptions, Loaded, Loader, Origin, PolicyKind, PoolConfig, PoolId, ReadHandle, RemovalCause,
    RemovedItem, Step,
};

const CHAINABLE: ItemOptions = ItemOptions {
    expiry: millpond::Expiry::Never,
    expirable: false,
    chainable: true,
    client_flags: 0,
    tag: None,
    user_bits: 0,
};
/// Most handles of one item.
const MOST: usize = 16_382;

fn cache() -> (Cache, PoolId) {
    let config = CacheConfig {
        memory: ByteSize::mib(16),
        hash_seed: Some(7),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a cache");
    let policy = PolicyKind::Lru { refresh_secs: 0 };
    let pool = cache.add_pool(PoolConfig { policy, ..PoolConfig::named("p") }).expect("a pool");
    (cache, pool)
}

fn put(cache: &Cache, pool: PoolId, key: &[u8], byte: u8) {
    let mut item = cache.allocate(pool, key, 300, &CHAINABLE).expect("room");
    item.value_mut().fill(byte);
    cache.put(item);
}

fn link_of<'c>(handle: &ReadHandle<'c>) -> Link<'c> {
    handle.allocate_link(300).expect("room")
}

/// Has the cache use each of its chunks again, some of them several times.
fn fill(cache: &Cache, pool: PoolId) {
    for i in 0..60_000_u32 {
        put(cache, pool, &i.to_le_bytes(), 0xff);
    }
}

#[test]
fn clones_beyond_the_limit_change_nothing() {
    let (cache, pool) = cache();
    put(&cache, pool, b"key", b'A');
    let handle = cache.find(b"key").expect("just put");
    let mut link = handle.allocate_link(300).expect("room");
    link.value_mut().fill(b'L');
    handle.push_link(link).expect("allocated for this item");
    let link = handle.links().next().expect("just pushed");

    let clones: Vec<_> = (1..MOST).map(|_| handle.clone()).collect();
    let links: Vec<_> = (1..MOST).map(|_| link.clone()).collect();
    assert!(handle.try_clone().is_none() && link.try_clone().is_none() && cache.find(b"key").is_none());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let refused = || {
                for _ in 0..8 {
                    assert!(catch_unwind(AssertUnwindSafe(|| handle.clone())).is_err());
                    assert!(catch_unwind(AssertUnwindSafe(|| link.clone())).is_err());
                }
            };
            scope.spawn(refused);
        }
    });
    assert!(catch_unwind(AssertUnwindSafe(|| handle.links().count())).is_err(), "and nothing waits");
    assert_eq!(cache.held(pool).expect("it is there").handles, 2 * MOST as u64);

    assert!(cache.remove(b"key"), "one more reference is kept for this");
    fill(&cache, pool);
    assert!(handle.iter().all(|byte| *byte == b'A') && link.iter().all(|byte| *byte == b'L'));
    drop((clones, links));
    assert!(handle.iter().all(|byte| *byte == b'A') && link.iter().all(|byte| *byte == b'L'));
    assert_eq!(cache.held(pool).expect("it is there").handles, 2);
    drop(link);
    drop(handle);
    assert_eq!(cache.held(pool).expect("it is there").handles, 0);
    cache.validate();
}

/// Two caches in which the same keys have items at the same places.
#[test]
fn handles_of_another_cache_are_refused() {
    let ((one, pool_of_one), (other, pool_of_other)) = (cache(), cache());
    put(&one, pool_of_one, b"key", b'A');
    put(&other, pool_of_other, b"key", b'B');
    let (mine, strange) = (one.find(b"key").expect("put"), other.find(b"key").expect("put"));

    assert!(!one.remove_matching(&strange) && !other.remove_matching(&mine));
    let new = |cache, pool| Cache::allocate(cache, pool, b"key", 300, &CHAINABLE).expect("room");
    assert!(one.replace_matching(&strange, new(&one, pool_of_one)).is_err());
    assert!(one.replace_matching(&strange, new(&other, pool_of_other)).is_err());
    assert!(one.replace_matching(&mine, new(&other, pool_of_other)).is_err());
    assert!(one.transfer_chain_and_replace(&strange, new(&one, pool_of_one)).is_err());
    assert!(one.transfer_chain_and_replace(&strange, new(&other, pool_of_other)).is_err());
    assert!(one.transfer_chain_and_replace(&mine, new(&other, pool_of_other)).is_err());

    for handle in [&mine, &strange] {
        let mut link = link_of(handle);
        link.value_mut().fill(b'L');
        handle.push_link(link).expect("its own");
    }
    let (my_link, strange_link) = (mine.links().next().expect("one"), strange.links().next().expect("one"));
    assert!(mine.push_link(link_of(&strange)).is_err());
    assert!(mine.replace_link(&my_link, link_of(&strange)).is_err());
    assert!(mine.replace_link(&strange_link, link_of(&mine)).is_err());
    assert!(new(&one, pool_of_one).push_link(link_of(&strange)).is_err());
    assert_eq!((mine.link_count(), strange.link_count()), (1, 1));

    let edits = [Edit::Put { key: b"member"[..].into(), value: b""[..].into() }];
    let collection =
        Collection::make(&other, pool_of_other, b"set", CollectionKind::Set, &edits).expect("made");
    let collection = other.insert(collection).expect("new");
    assert!(Collection::of(&one, &collection).is_none());

    drop((my_link, strange_link, collection));
    for (cache, pool, handle, byte) in
        [(&one, pool_of_one, mine, b'A'), (&other, pool_of_other, strange, b'B')]
    {
        assert!(handle.is_current() && cache.held(pool).expect("it is there").handles == 1);
        fill(cache, pool);
        assert!(handle.iter().all(|held| *held == byte));
        drop(handle);
        assert_eq!(cache.held(pool).expect("it is there").handles, 0);
        cache.validate();
    }
}

#[test]
fn an_item_goes_into_the_cache_that_it_was_allocated_in() {
    let ((one, pool_of_one), (other, pool_of_other)) = (cache(), cache());
    let item = |key: &[u8]| one.allocate(pool_of_one, key, 3, &ItemOptions::default()).expect("room");
    other.put(item(b"a"));
    drop(other.insert(item(b"b")));
    drop(other.insert_or_replace(item(b"c")));
    for key in [b"a", b"b", b"c"] {
        assert!(one.find(key).is_some() && other.find(key).is_none());
    }
    assert_eq!(other.pool_stats(pool_of_other).expect("it is there").sum(|class| class.items), 0);
    one.validate();
    other.validate();
}

fn tenant(cache: &Cache, name: &str) -> PoolId {
    cache.add_pool(PoolConfig { own_keys: true, ..PoolConfig::named(name) }).expect("a pool")
}

#[test]
fn what_was_made_for_a_removed_pool_reaches_no_other() {
    let (cache, shared) = cache();
    let removed = tenant(&cache, "removed");
    let (keys, loader) = (cache.keys(removed), Loader::new(&cache, removed));
    put(&cache, shared, b"key", b'S');
    put(&cache, removed, b"key", b'R');
    let mut walk = cache.items(removed).expect("it is there");
    assert!(!keys.is_gone() && keys.find(b"key").is_some_and(|found| found[0] == b'R'));
    assert!(cache.remove_pool(removed).expect("it is there").is_gone);

    let check = |holder: Option<PoolId>| {
        for keys in [keys, cache.keys(removed)] {
            assert!(keys.is_gone() && keys.find(b"key").is_none() && keys.peek(b"key").is_none());
            assert!(keys.find_with(b"key", |_| ()).is_none());
            keys.find_many_with(&[b"key", b"key"], |_, found| assert!(found.is_none()));
            let mut found = Vec::new();
            keys.find_many(&[b"key"], &mut found);
            assert!(found[0].is_none());
            assert!(!keys.remove(b"key") && !keys.touch(b"key", Expiry::After(1)));
            keys.flush();
            keys.flush_at(1);
        }
        let load = |_: &[u8]| -> Result<Loaded, std::io::Error> { unreachable!("it could not be kept") };
        let refused = loader.get_or_load(b"key", &LoadOptions::default(), load).expect_err("refused");
        assert_eq!(kind_of(&refused), Some(ErrorKind::NoSuchPool));
        assert!(!loader.remove(b"key") && loader.find(b"key", &LoadOptions::default()).is_none());
        loader.flush();
        let put = loader.put(b"key", &LoadOptions::default(), &Loaded::value("put"));
        assert_eq!(put.expect_err("refused").kind(), ErrorKind::NoSuchPool);
        assert!(Map::<u64, u64>::open(&cache, removed, b"key").expect("no error").is_none());
        assert_eq!(cache.items(removed).expect_err("refused").kind(), ErrorKind::NoSuchPool);
        // Those of others are as they were, and had no misses by this.
        let stats = cache.stats();
        assert!(cache.peek(b"key").is_some_and(|found| found[0] == b'S') && stats.shared_misses == 0);
        if let Some(holder) = holder {
            let found = cache.keys(holder).peek(b"key");
            assert!(found.is_some_and(|found| found[0] == b'H'));
            assert_eq!(cache.pool_stats(holder).expect("it is there").misses, 0);
        }
    };
    check(None);
    let holder = tenant(&cache, "holder");
    assert!(holder.number() == removed.number() && holder != removed);
    put(&cache, holder, b"key", b'H');
    check(Some(holder));
    assert!(walk.next().is_none(), "a walk ends with its pool");
    cache.validate();
}

fn kind_of(error: &LoadError) -> Option<ErrorKind> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<millpond::Error>().map(millpond::Error::kind)
}

#[test]
fn a_walk_that_was_begun_ends_with_its_pool() {
    let (cache, _) = cache();
    let removed = tenant(&cache, "removed");
    for i in 0..1_000_u32 {
        put(&cache, removed, &i.to_le_bytes(), b'R');
    }
    let mut walk = cache.items(removed).expect("it is there");
    for _ in 0..100 {
        assert!(walk.next().is_some());
    }
    // Up to where it holds nothing ahead.
    while !matches!(walk.step(&mut 1), Step::Later) {}
    assert!(cache.remove_pool(removed).expect("it is there").is_gone);
    let holder = tenant(&cache, "holder");
    for i in 0..1_000_u32 {
        put(&cache, holder, &i.to_le_bytes(), b'H');
    }
    assert_eq!(holder.number(), removed.number());
    assert!(walk.next().is_none() && walk.cursor().is_none());
    assert_eq!(cache.items(holder).expect("it is there").count(), 1_000);
}

/// Tenants come and go, and those who ask for the keys of one see its values, while it is there,
/// and never those of another.
#[test]
fn readers_of_a_tenant_see_no_other_while_tenants_come_and_go() {
    const TENANTS: u8 = 60;
    let (cache, _) = cache();
    let first = tenant(&cache, "0");
    put(&cache, first, b"key", 0);
    let now = std::sync::Mutex::new((first, 0));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let is_over = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (cache, now) = (&cache, &now);
            scope.spawn(move || {
                while !is_over() {
                    let (pool, byte) = *now.lock().expect("no panic");
                    let keys = cache.keys(pool);
                    while !keys.is_gone() && !is_over() {
                        match reader {
                            0 => drop(keys.find(b"key").inspect(|found| assert_eq!(found[0], byte))),
                            1 => drop(keys.find_with(b"key", |found| assert_eq!(found[0], byte))),
                            _ => cache.items(pool).into_iter().flatten().for_each(|found| {
                                assert_eq!(found[0], byte);
                            }),
                        }
                    }
                }
            });
        }
        for byte in 1..=TENANTS {
            let (before, _) = *now.lock().expect("no panic");
            while !cache.remove_pool(before).is_ok_and(|removal| removal.is_gone) {
                if cache.keys(before).is_gone() {
                    break;
                }
            }
            let pool = tenant(&cache, &byte.to_string());
            put(&cache, pool, b"key", byte);
            *now.lock().expect("no panic") = (pool, byte);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    cache.validate();
}

/// Uses the cache whenever an item ends.
struct Uses(std::sync::OnceLock<Cache>);

impl Lifecycle for Uses {
    fn on_destroy(&self, _item: RemovedItem<'_>, _cause: RemovalCause) {
        if let Some(cache) = self.0.get() {
            assert!(cache.find(b"none").is_none());
        }
    }
}

/// Builds with debug assertions check, at each giving back of a reference, whether the thread is
/// pinned.
#[test]
fn nothing_that_looks_at_many_items_ends_one_while_it_is_pinned() {
    let clock = Clock::manual(1_000);
    let config = CacheConfig { memory: ByteSize::mib(16), clock: clock.clone(), ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let uses = std::sync::Arc::new(Uses(std::sync::OnceLock::new()));
    let lifecycle = Some(uses.clone() as std::sync::Arc<dyn Lifecycle>);
    let pool = cache.add_pool(PoolConfig { lifecycle, ..PoolConfig::named("p") }).expect("a pool");
    uses.0.set(cache.clone()).expect("once");
    for i in 0..2_000_u32 {
        let expiry = if i % 2 == 0 { Expiry::After(10) } else { Expiry::Never };
        let options = ItemOptions { expiry, chainable: i % 3 == 0, ..ItemOptions::default() };
        let item = cache.allocate(pool, &i.to_le_bytes(), 100, &options).expect("room");
        if options.chainable {
            item.push_link(item.allocate_link(100).expect("room")).expect("its own");
        }
        cache.put(item);
    }
    clock.advance(std::time::Duration::from_secs(20));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..2_000_u32 {
                cache.remove(&i.to_le_bytes());
            }
        });
        assert!(cache.items(pool).expect("it is there").count() <= 1_000, "the others have expired");
        cache.tune_classes(pool).expect("it is there");
    });
    assert_eq!(cache.items(pool).expect("it is there").count(), 0);
    // The lifecycle hooks keep the cache.
    assert!(cache.remove_pool(pool).expect("it is there").is_gone);
}

fn bytes(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i ^ i >> 9) as u8).collect()
}

#[test]
fn a_long_value_is_whole_however_it_is_read() {
    let config = CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    for len in [0, 5, (4 << 20) - 40, 4 << 20, 5_000_000, 9_000_001] {
        let value = bytes(len);
        cache.put_value(pool, b"key", &value, &ItemOptions::default()).expect("room");
        let found = cache.find(b"key").expect("put");
        assert_eq!((found.is_long(), found.whole_len()), (len >= 4 << 20, value.len()));
        assert!(*found == value[..] && found.value() == value && found.clone().to_vec() == value);
        assert!(found.pieces().flat_map(|piece| piece.to_vec()).eq(value.iter().copied()));
        assert_eq!(
            cache.find_with(b"key", |found| *found == value[..] && found.whole_len() == value.len()),
            Some(true)
        );
        assert!(*cache.peek(b"key").expect("put") == value[..]);
        let keys = cache.keys(pool);
        keys.find_many_with(&[b"key"], |_, found| assert!(*found.expect("put") == value[..]));
        let mut all = Vec::new();
        keys.find_many(&[b"key"], &mut all);
        assert!(all.into_iter().flatten().all(|found| *found == value[..]));
        assert!(cache.items(pool).expect("it is there").all(|item| *item == value[..]));
        // Whoever holds it has it, whatever becomes of its key.
        cache.remove(b"key");
        assert!(cache.peek(b"key").is_none() && *found == value[..] && found.clone().value() == value);
        drop(found);
        cache.validate();
        assert_eq!(cache.held(pool).expect("it is there").handles, 0);
    }
}

#[test]
fn the_links_of_a_long_value_are_its_own() {
    let config = CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    let value = bytes(5_000_000);
    cache.put_value(pool, b"key", &value, &CHAINABLE).expect("room");
    let found = cache.find(b"key").expect("put");
    assert!(!found.is_chainable() && !found.is_structured() && found.link_count() == 2);
    assert_eq!(found.allocate_link(3).expect_err("refused").kind(), ErrorKind::NotChainable);
    assert!(found.pop_link().is_none());
    let other = cache.allocate(pool, b"key", 3, &CHAINABLE).expect("room");
    let first = found.links().next().expect("two");
    assert!(found.replace_link(&first, other.allocate_link(3).expect("room")).is_err());
    assert!(found.push_link(other.allocate_link(3).expect("room")).is_err());
    assert!(cache.transfer_chain_and_replace(&found, other).is_err());
    assert!(*found == value[..] && Map::<u64, u64>::open(&cache, pool, b"key").is_err());
    cache.validate();
}

#[test]
fn a_loader_keeps_what_is_long_and_says_what_it_cannot_keep() {
    let config = CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let loader = Loader::new(&cache, cache.add_pool(PoolConfig::named("p")).expect("a pool"));
    let (value, options) = (bytes(5_000_000), LoadOptions::default());
    let mut loads = 0;
    for (key, value) in [(&[b'k'; 255][..], &b"short"[..]), (b"long", &value)] {
        for origin in [Origin::Loaded, Origin::Fresh, Origin::Fresh] {
            let load = |_: &[u8]| {
                loads += 1;
                Ok::<_, std::io::Error>(Loaded::value(value))
            };
            let fetched = loader.get_or_load(key, &options, load).expect("no error");
            assert!(fetched.value.as_deref() == Some(value) && fetched.origin == origin);
        }
        loader.put(key, &options, &Loaded::value(value)).expect("room");
        let found = loader.find(key, &options).expect("put");
        assert!(found.value.as_deref() == Some(value));
    }
    assert_eq!((loads, loader.stats().refused), (2, 0));
    for key in [&b""[..], &[b'k'; 256]] {
        let load = |_: &[u8]| -> Result<Loaded, std::io::Error> { unreachable!("it could not be kept") };
        let refused = loader.get_or_load(key, &options, load).expect_err("no key");
        assert_eq!(kind_of(&refused), Some(ErrorKind::KeyLength));
    }
    cache.validate();
}

/// Panics in everything that it may do, and counts.
#[derive(Default)]
struct Panics(std::sync::atomic::AtomicU64);

impl Panics {
    fn panic(&self) -> ! {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::panic::resume_unwind(Box::new("planned"))
    }
}

impl Lifecycle for Panics {
    fn may_evict(&self, _item: ItemRef<'_>) -> bool {
        self.panic()
    }

    fn on_remove(&self, _item: RemovedItem<'_>, _cause: RemovalCause) {
        self.panic()
    }

    fn on_destroy(&self, _item: RemovedItem<'_>, _cause: RemovalCause) {
        self.panic()
    }
}

#[test]
fn a_lifecycle_that_panics_changes_nothing() {
    for policy in PolicyKind::ALL {
        let config = CacheConfig { memory: ByteSize::mib(16), ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let panics = std::sync::Arc::new(Panics::default());
        let lifecycle = Some(panics.clone() as std::sync::Arc<dyn Lifecycle>);
        let config = PoolConfig { lifecycle, policy, ..PoolConfig::named("p") };
        let pool = cache.add_pool(config).expect("a pool");
        for i in 0..40_000_u32 {
            let item = cache.allocate(pool, &(i / 2).to_le_bytes(), 500, &CHAINABLE).expect("room");
            if i % 4 == 0 {
                item.push_link(item.allocate_link(450).expect("room")).expect("its own");
            }
            cache.put(item);
            if i % 100 == 0 {
                cache.remove(&i.to_le_bytes());
            }
        }
        cache.set_pool_limit(pool, Some(ByteSize::mib(4))).expect("nothing is held");
        cache.validate();
        assert!(panics.0.load(std::sync::atomic::Ordering::Relaxed) > 10_000);
        let stats = cache.stats();
        assert!(stats.pools[0].sum(|class| class.evictions) > 5_000);
        assert!(cache.remove_pool(pool).expect("it is there").is_gone, "nothing is left of any item");
        cache.validate();
    }
}

#[test]
fn absurd_lengths_are_refused_as_what_they_are() {
    let (cache, pool) = cache();
    let options = [ItemOptions::default(), CHAINABLE];
    for (len, options) in
        [usize::MAX, usize::MAX - 12, isize::MAX as usize, 4 << 20].into_iter().zip(options.iter().cycle())
    {
        let refused = cache.allocate(pool, b"key", len, options).expect_err("too long");
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        assert!(refused.to_string().contains(&len.to_string()[..6]), "{refused}");
        let item = cache.allocate(pool, b"key", 1, &CHAINABLE).expect("room");
        assert_eq!(item.allocate_link(len).expect_err("too long").kind(), ErrorKind::TooLarge);
        assert_eq!(
            cache.allocate_value(pool, b"key", len.max(5 << 30), options).expect_err("too long").kind(),
            ErrorKind::TooLarge
        );
    }
    cache.validate();
}

#[test]
fn a_ticket_of_another_negative_cache_is_void() {
    let (cache, _) = cache();
    let absent = |name| {
        NegativeCache::new(&cache, NegativeConfig::new(name, ByteSize::kib(64))).expect("a negative cache")
    };
    let (one, other) = (absent("one"), absent("other"));
    assert!(!one.note(other.begin(b"key")) && one.note(one.begin(b"key")));
    assert!(one.is_absent(b"key") && !other.is_absent(b"key"));
}

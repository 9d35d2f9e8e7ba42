//! The embedder's view, one call at a time.

use std::time::Duration;

use millpond::strategy::{HitsPerSlab, Strategy};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, Cursor, ErrorKind, Expiry, ItemOptions, ItemTag, Part, PolicyKind,
    PoolConfig, PoolId, SizeClassConfig, Step,
};

fn cache(memory: u64, clock: &Clock) -> Cache {
    let config = CacheConfig {
        memory: ByteSize::mib(memory),
        max_memory: Some(ByteSize::mib(memory * 2)),
        clock: clock.clone(),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    Cache::new(config).expect("a valid configuration")
}

fn small() -> (Cache, PoolId, Clock) {
    let clock = Clock::manual(1_000_000);
    let cache = cache(32, &clock);
    let pool = cache.add_pool(PoolConfig::named("default")).expect("a new name");
    (cache, pool, clock)
}

fn put(cache: &Cache, pool: PoolId, key: &[u8], value: &[u8], options: &ItemOptions) {
    let mut item = cache.allocate(pool, key, value.len(), options).expect("room");
    item.value_mut().copy_from_slice(value);
    cache.put(item);
}

const PLAIN: ItemOptions = ItemOptions {
    expiry: Expiry::Never,
    expirable: false,
    chainable: false,
    client_flags: 0,
    tag: None,
    user_bits: 0,
};

#[test]
fn what_is_inserted_is_found_until_it_is_removed() {
    let (cache, pool, _) = small();
    assert!(cache.find(b"k").is_none());
    put(&cache, pool, b"k", b"one", &PLAIN);
    let old = cache.find(b"k").expect("inserted");
    assert_eq!((old.key(), &*old), (&b"k"[..], &b"one"[..]));
    put(&cache, pool, b"k", b"two", &PLAIN);
    assert_eq!(&*old, b"one", "a handle keeps the value that it found");
    assert!(!old.is_current());
    assert_eq!(&*cache.find(b"k").expect("replaced"), b"two");
    assert!(cache.remove(b"k") && !cache.remove(b"k"));
    assert!(cache.find(b"k").is_none());
    let stats = cache.stats();
    assert_eq!(stats.pools[0].sum(|class| class.hits), 2);
    assert_eq!((stats.shared_misses, stats.pools[0].misses), (0, 2));
    assert_eq!(
        (stats.pools[0].sum(|class| class.replaced), stats.pools[0].sum(|class| class.removed)),
        (1, 1)
    );
    drop(old);
    let stats = cache.stats();
    assert_eq!(stats.pools[0].sum(|class| class.items), 0);
    assert_eq!(stats.pools[0].sum(|class| class.item_bytes), 0);
    assert_eq!(stats.pools[0].sum(|class| class.chunks - class.free_chunks), 0, "every chunk came back");
    cache.validate();
}

#[test]
fn insert_and_replace_matching_decide_by_what_is_there() {
    let (cache, pool, _) = small();
    let make = |value: &[u8]| {
        let mut item = cache.allocate(pool, b"k", value.len(), &PLAIN).expect("room");
        item.value_mut().copy_from_slice(value);
        item
    };
    let first = cache.insert(make(b"1")).expect("no item yet");
    let refused = cache.insert(make(b"2")).expect_err("there is one");
    assert_eq!(refused.value(), b"2");
    let second = cache.replace_matching(&first, refused).expect("first is the item");
    assert!(cache.replace_matching(&first, make(b"3")).is_err(), "first was replaced");
    assert!(!cache.remove_matching(&first) && cache.remove_matching(&second));
    assert!(cache.replace_matching(&second, make(b"4")).is_err(), "second was removed");
    let (third, replaced) = cache.insert_or_replace(make(b"5"));
    assert!(replaced.is_none());
    let (_, replaced) = cache.insert_or_replace(make(b"6"));
    assert_eq!(&*replaced.expect("third"), &*third);
    cache.validate();
}

#[test]
fn an_item_that_is_not_inserted_leaves_no_trace() {
    let (cache, pool, _) = small();
    drop(cache.allocate(pool, b"k", 100, &PLAIN).expect("room"));
    assert!(cache.find(b"k").is_none());
    assert_eq!(cache.stats().pools[0].sum(|class| class.chunks - class.free_chunks), 0);
}

#[test]
fn nothing_is_returned_once_expired() {
    let (cache, pool, clock) = small();
    let after = |secs| ItemOptions { expiry: Expiry::After(secs), ..PLAIN };
    put(&cache, pool, b"a", b"x", &after(10));
    put(&cache, pool, b"b", b"x", &ItemOptions { expiry: Expiry::At(1_000_005), ..PLAIN });
    put(&cache, pool, b"c", b"x", &after(0));
    put(&cache, pool, b"d", b"x", &PLAIN);
    assert!(cache.find(b"c").is_none());
    assert_eq!(cache.peek(b"a").expect("alive").ttl_secs_left(), Some(10));
    clock.advance(Duration::from_secs(5));
    assert!(cache.find(b"b").is_none() && cache.peek(b"a").is_some());
    clock.advance(Duration::from_secs(5));
    assert!(cache.peek(b"a").is_none() && !cache.touch(b"a", Expiry::After(5)) && !cache.remove(b"a"));
    assert!(cache.find(b"d").is_some());
    // An expired item does not stand in the way of an insertion.
    put(&cache, pool, b"e", b"x", &after(1));
    clock.advance(Duration::from_secs(1));
    let item = cache.allocate(pool, b"e", 1, &PLAIN).expect("room");
    assert!(cache.insert(item).is_ok());
    assert_eq!(cache.stats().pools[0].sum(|class| class.expired), 3, "b and c were met by find, a by remove");
    cache.validate();
}

#[test]
fn touch_works_with_and_without_room_for_an_expiry_time() {
    let (cache, pool, clock) = small();
    put(&cache, pool, b"plain", b"v", &PLAIN);
    put(&cache, pool, b"ready", b"v", &ItemOptions { expirable: true, ..PLAIN });
    for key in [&b"plain"[..], b"ready"] {
        assert!(cache.touch(key, Expiry::After(10)));
        assert_eq!(cache.peek(key).expect("alive").ttl_secs_left(), Some(10));
        assert!(cache.touch(key, Expiry::After(20)));
    }
    clock.advance(Duration::from_secs(15));
    assert!(cache.touch(b"plain", Expiry::Never) && cache.peek(b"ready").is_some());
    clock.advance(Duration::from_secs(5));
    assert!(cache.find(b"plain").is_some() && cache.find(b"ready").is_none());
    assert!(!cache.touch(b"absent", Expiry::Never));
}

#[test]
fn the_touch_of_an_item_leaves_what_has_come_in_its_place() {
    let (cache, pool, _clock) = small();
    let keys = cache.keys(pool);
    for options in [PLAIN, ItemOptions { expirable: true, ..PLAIN }] {
        put(&cache, pool, b"k", b"old", &options);
        let old = keys.find(b"k").expect("there");
        put(&cache, pool, b"k", b"new", &options);
        assert!(keys.touch_item(old, Expiry::After(10)).is_err());
        let new = keys.find(b"k").expect("there");
        assert_eq!(new.expires_at(), None);
        let touched = keys.touch_item(new, Expiry::After(10)).expect("it is current");
        assert!(touched.is_current());
        assert_eq!(keys.find(b"k").expect("there").ttl_secs_left(), Some(10));
    }
}

#[test]
fn a_flush_takes_what_was_there_and_nothing_later() {
    let (cache, pool, clock) = small();
    put(&cache, pool, b"a", b"x", &PLAIN);
    cache.keys(pool).flush();
    assert!(cache.find(b"a").is_none());
    put(&cache, pool, b"a", b"y", &PLAIN);
    assert_eq!(&*cache.find(b"a").expect("made after the flush"), b"y");
    cache.keys(pool).flush_at(1_000_030);
    clock.advance(Duration::from_secs(20));
    put(&cache, pool, b"b", b"z", &PLAIN);
    assert!(cache.find(b"a").is_some());
    clock.advance(Duration::from_secs(10));
    assert!(cache.find(b"a").is_none() && cache.find(b"b").is_none());
    put(&cache, pool, b"b", b"z", &PLAIN);
    assert!(cache.find(b"b").is_some());
}

#[test]
fn what_was_allocated_before_a_flush_and_stored_after_it_is_there() {
    let (cache, pool, clock) = small();
    let allocate = |value: &[u8]| {
        let mut item = cache.allocate(pool, b"a", value.len(), &PLAIN).expect("room");
        item.value_mut().copy_from_slice(value);
        item
    };
    let slow = [allocate(b"put"), allocate(b"returned")];
    let late = allocate(b"inserted");
    let due = allocate(b"due");
    cache.keys(pool).flush();
    put(&cache, pool, b"a", b"fresh", &PLAIN);
    for (item, value) in slow.into_iter().zip([&b"put"[..], b"returned"]) {
        if value == b"put" {
            cache.put(item);
        } else {
            let (new, old) = cache.insert_or_replace(item);
            assert_eq!((&*new, old.as_deref()), (value, Some(&b"put"[..])));
        }
        assert_eq!(&*cache.find(b"a").expect("stored after the flush"), value);
    }
    cache.keys(pool).remove(b"a");
    assert!(cache.insert(late).is_ok());
    assert_eq!(&*cache.find(b"a").expect("stored after the flush"), b"inserted");
    // Nor does a scheduled flush that was carried out meanwhile.
    cache.keys(pool).flush_at(1_000_030);
    clock.advance(Duration::from_secs(30));
    assert!(cache.find(b"a").is_none());
    cache.put(due);
    assert_eq!(&*cache.find(b"a").expect("stored after the flush"), b"due");
    // The next flush takes all of them.
    cache.keys(pool).flush();
    assert!(cache.find(b"a").is_none());
    // An item that replaces one of after the flush is as young as that.
    let late = allocate(b"late");
    cache.keys(pool).flush();
    put(&cache, pool, b"a", b"fresh", &PLAIN);
    let fresh = cache.find(b"a").expect("stored after the flush");
    assert!(cache.replace_matching(&fresh, late).is_ok());
    assert_eq!(&*cache.find(b"a").expect("stored after the flush"), b"late");
    cache.keys(pool).flush();
    assert!(cache.find(b"a").is_none());
    cache.validate();
}

#[test]
fn tags_and_user_bits_are_kept() {
    let (cache, pool, clock) = small();
    for flags in [0, 7] {
        let tag = Some(ItemTag { cas: 99, client_flags: flags });
        put(&cache, pool, b"k", b"v", &ItemOptions { tag, user_bits: 0b01, ..PLAIN });
        let item = cache.find(b"k").expect("inserted");
        assert_eq!(item.tag(), tag);
        assert_eq!((item.set_user_bits(0b10), item.user_bits()), (0b01, 0b11));
        assert_eq!(item.clear_user_bits(0b01), 0b11);
        assert_eq!(item.last_access(), Some(clock.unix_secs()));
        clock.advance(Duration::from_secs(3));
        assert_eq!(item.note_access(), Some(clock.unix_secs() - 3));
        assert_eq!(item.last_access(), Some(clock.unix_secs()));
        assert!(item.was_fetched() && cache.peek(b"absent").is_none());
    }
}

#[test]
fn an_item_gets_a_tag_when_one_is_asked_for() {
    let (cache, pool, clock) = small();
    let keys = cache.keys(pool);
    for (expiry, client_flags) in [(Expiry::Never, 0), (Expiry::After(60), 0), (Expiry::After(60), 5)] {
        put(&cache, pool, b"k", b"value", &ItemOptions { expiry, client_flags, user_bits: 0b10, ..PLAIN });
        let made = clock.unix_secs();
        clock.advance(Duration::from_secs(3));
        let item = keys.peek(b"k").expect("inserted");
        assert_eq!((item.tag(), item.client_flags(), item.last_access()), (None, client_flags, Some(made)));
        let held = item.clone();
        let tagged = keys.give_tag(item, || 7).expect("there is memory");
        assert_eq!(tagged.tag(), Some(ItemTag { cas: 7, client_flags }));
        assert_eq!((&*tagged, tagged.created_at(), tagged.last_access()), (&b"value"[..], made, Some(made)));
        assert_eq!((tagged.expires_at(), tagged.user_bits()), (held.expires_at(), 0b10));
        assert!(tagged.is_current() && !held.is_current() && !tagged.was_fetched());
        let again = keys.give_tag(held, || 8).expect("the present one has one");
        assert_eq!(again.tag().map(|tag| tag.cas), Some(7));
        assert!(keys.touch(b"k", Expiry::After(90)) && again.expires_at() == Some(clock.unix_secs() + 90));
        assert_eq!(again.tag().map(|tag| tag.cas), Some(7), "touching leaves it");
        keys.remove(b"k");
        assert!(keys.find(b"k").is_none());
    }
    put(&cache, pool, b"k", b"v", &PLAIN);
    let gone = keys.peek(b"k").expect("inserted");
    keys.remove(b"k");
    assert!(keys.give_tag(gone, || 9).is_err_and(|item| item.tag().is_none()));
    cache.validate();
}

/// An end that is given while the item is copied is not lost, whichever comes first.
#[test]
fn a_touch_beside_a_tag_that_is_given_is_not_lost() {
    let (cache, pool, clock) = small();
    let keys = cache.keys(pool);
    for round in 0..3_000_u32 {
        put(&cache, pool, b"k", b"v", &ItemOptions { expiry: Expiry::After(10), ..PLAIN });
        let late = clock.unix_secs() + 100 + round;
        std::thread::scope(|threads| {
            threads.spawn(|| assert!(keys.touch(b"k", Expiry::At(late))));
            let item = keys.peek(b"k").expect("nobody removes it");
            assert!(keys.give_tag(item, || 1).is_ok());
        });
        let item = keys.peek(b"k").expect("nobody removes it");
        assert_eq!((item.expires_at(), item.tag().is_some()), (Some(late), true), "round {round}");
    }
}

#[test]
fn pools_share_keys_if_told_to() {
    let cache = cache(64, &Clock::manual(1_000));
    let shared = |name| PoolConfig { own_keys: false, ..PoolConfig::named(name) };
    let a = cache.add_pool(shared("a")).expect("new");
    let b = cache.add_pool(shared("b")).expect("new");
    let own = cache.add_pool(PoolConfig::named("own")).expect("new");
    put(&cache, a, b"k", b"in a", &PLAIN);
    put(&cache, own, b"k", b"in own", &PLAIN);
    put(&cache, b, b"k", b"in b", &PLAIN);
    let found = cache.find(b"k").expect("inserted");
    assert_eq!((found.pool(), &*found), (b, &b"in b"[..]));
    assert_eq!(&*cache.keys(own).find(b"k").expect("inserted"), b"in own");
    cache.keys(a).flush();
    assert!(cache.find(b"k").is_none() && cache.keys(own).find(b"k").is_some());
    assert!(cache.keys(own).remove(b"k"));
    let error = cache.add_pool(PoolConfig::named("b")).expect_err("the name is taken");
    assert_eq!(error.kind(), ErrorKind::PoolExists);
    assert_eq!((cache.pool_id("b"), cache.pool_id("nobody")), (Some(b), None));
}

#[test]
fn bad_input_is_refused_by_kind() {
    let (cache, pool, _) = small();
    let kind =
        |key: &[u8], len| cache.allocate(pool, key, len, &PLAIN).map(drop).map_err(|error| error.kind());
    assert_eq!(kind(b"", 1), Err(ErrorKind::KeyLength));
    assert_eq!(kind(&[b'k'; 256], 1), Err(ErrorKind::KeyLength));
    assert_eq!(kind(&[b'k'; 255], 4 << 20), Err(ErrorKind::TooLarge));
    assert_eq!(kind(b"k", (4 << 20) - 13), Ok(()));
    let tiny = Cache::new(CacheConfig { memory: ByteSize::mib(1), ..CacheConfig::default() });
    assert_eq!(tiny.expect_err("too little").kind(), ErrorKind::Config);
    let classes = SizeClassConfig::List(vec![]);
    let error = cache.add_pool(PoolConfig { classes, ..PoolConfig::named("x") }).expect_err("no classes");
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn memory_is_bounded_and_the_bill_adds_up() {
    for policy in [PolicyKind::S3_FIFO, PolicyKind::LRU] {
        let clock = Clock::manual(1_000_000);
        let cache = cache(64, &clock);
        let pool = cache.add_pool(PoolConfig { policy, ..PoolConfig::named("p") }).expect("new");
        for i in 0..1_000_000_u32 {
            put(&cache, pool, format!("key-{i:012}").as_bytes(), &[7; 100], &PLAIN);
            assert!(cache.ledger().total() <= cache.ledger().limit(), "after {i} items");
        }
        let stats = cache.stats();
        let items = stats.pools[0].sum(|class| class.items);
        assert!(stats.pools[0].sum(|class| class.evictions) + items == 1_000_000);
        assert!(
            cache.ledger().free() < 6 << 20,
            "{policy}: {} MiB are left unused",
            cache.ledger().free() >> 20
        );
        let sum: u64 = stats.memory.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, cache.ledger().total());
        // 12 bytes of header; the rest per item, fixed tables aside.
        let metadata: u64 = [Part::Index, Part::Queues].iter().map(|part| cache.ledger().part(*part)).sum();
        let per_item = metadata as f64 / items as f64 + 12.0;
        assert!(per_item < 25.0, "{policy}: {per_item:.1} bytes of metadata per item");
        cache.validate();
    }
}

#[test]
fn limits_can_be_lowered_and_raised_while_items_are_held() {
    let (cache, pool, _) = small();
    for i in 0..100_000_u32 {
        put(&cache, pool, format!("key-{i}").as_bytes(), &[7; 200], &PLAIN);
    }
    let before = cache.stats().pools[0].slab_bytes;
    assert!(before > 16 << 20);
    cache.set_pool_limit(pool, Some(ByteSize::mib(8))).expect("nothing is held");
    let keeps_limit = |bytes: u64| (7 << 20..=8 << 20).contains(&bytes);
    assert!(keeps_limit(cache.stats().pools[0].slab_bytes));
    cache.validate();
    for i in 0..100_000_u32 {
        put(&cache, pool, format!("other-{i}").as_bytes(), &[7; 200], &PLAIN);
    }
    assert!(keeps_limit(cache.stats().pools[0].slab_bytes));
    cache.set_pool_limit(pool, None).expect("raising");
    for i in 0..100_000_u32 {
        put(&cache, pool, format!("more-{i}").as_bytes(), &[7; 200], &PLAIN);
    }
    assert!(cache.stats().pools[0].slab_bytes > 16 << 20);
    let held = cache.find(b"more-99999").expect("the newest");
    cache.set_memory(ByteSize::mib(16)).expect("one held item keeps one slab at most");
    assert!(cache.ledger().total() <= 16 << 20);
    assert_eq!(held.len(), 200);
    assert!(held.iter().all(|byte| *byte == 7));
    drop(held);
    cache.ledger().charge(Part::Connections, 6 << 20);
    cache.maintain().expect("slabs make room for connections");
    assert!(cache.ledger().total() <= 16 << 20);
    assert_eq!(cache.set_memory(ByteSize::gib(1)).expect_err("above max_memory").kind(), ErrorKind::Config);
    cache.validate();
}

#[test]
fn a_class_without_slabs_gets_one_from_the_largest() {
    let (cache, pool, _) = small();
    for i in 0..200_000_u32 {
        put(&cache, pool, format!("key-{i}").as_bytes(), &[7; 100], &PLAIN);
    }
    put(&cache, pool, b"large", &[9; 1 << 20], &PLAIN);
    assert_eq!(cache.find(b"large").expect("room was made").len(), 1 << 20);
    cache.validate();
}

#[test]
fn when_all_items_are_held_allocation_fails_and_recovers() {
    let clock = Clock::manual(1);
    let cache = cache(8, &clock);
    let classes = SizeClassConfig::List(vec![1 << 20]);
    let pool = cache.add_pool(PoolConfig { classes, ..PoolConfig::named("p") }).expect("new");
    let mut held = Vec::new();
    let error = loop {
        let key = held.len().to_string();
        match cache.allocate(pool, key.as_bytes(), 1_000_000, &PLAIN) {
            Ok(item) => held.push(cache.insert_or_replace(item).0),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    // Of a slab that other classes may share, 12 KiB are a table; and index and tables take less
    // than the rest of the last MiB.
    assert_eq!(held.len(), 7);
    held.pop();
    assert!(cache.allocate(pool, b"again", 1_000_000, &PLAIN).is_ok());
}

#[test]
fn find_many_is_find_of_each() {
    let (cache, pool, _) = small();
    let keys: Vec<String> = (0..1_000).map(|i| format!("key-{i}")).collect();
    for key in keys.iter().step_by(3) {
        put(&cache, pool, key.as_bytes(), key.as_bytes(), &PLAIN);
    }
    let refs: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let mut found = Vec::new();
    cache.keys(pool).find_many(&refs, &mut found);
    assert_eq!(found.len(), 1_000);
    for (i, (key, found)) in refs.iter().zip(&found).enumerate() {
        assert_eq!(found.as_deref(), (i % 3 == 0).then_some(*key));
    }
}

#[test]
fn more_sizes_than_slabs_are_served_from_larger_chunks() {
    let clock = Clock::manual(1);
    let cache = cache(20, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let mut refused = 0;
    for i in 0..20_000_u32 {
        let len = 100 + (i as usize * 7_919) % 60_000;
        let key = format!("key-{i}");
        match cache.allocate(pool, key.as_bytes(), len, &PLAIN) {
            Ok(item) => cache.put(item),
            Err(_) => refused += 1,
        }
    }
    assert!(refused < 20, "{refused} of 20,000 found no room");
    cache.validate();
}

#[test]
fn what_find_with_shows_stays_as_it_was_while_it_is_looked_at() {
    let cache =
        Cache::new(CacheConfig { memory: ByteSize::mib(8), ..CacheConfig::default() }).expect("valid");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let put = |key: &[u8], value: &[u8]| {
        let mut item = cache.allocate(pool, key, value.len(), &ItemOptions::default()).expect("room");
        item.value_mut().copy_from_slice(value);
        cache.put(item);
    };
    put(b"key", b"first");
    let seen = cache.find_with(b"key", |found| {
        // It is replaced, its successor is removed, and all chunks there are get used again and
        // again.
        put(b"key", b"second");
        assert_eq!(&*cache.find(b"key").expect("there"), b"second");
        assert!(cache.remove(b"key"));
        for i in 0..200_000_u32 {
            put(&i.to_le_bytes(), b"other");
        }
        assert_eq!((found.key(), &*found, found.is_current()), (&b"key"[..], &b"first"[..], false));
        // A look inside a look takes a reference.
        cache.find_with(&199_999_u32.to_le_bytes(), |other| other.to_vec())
    });
    assert_eq!(seen, Some(Some(b"other".to_vec())));
    assert_eq!(cache.find_with(b"key", |_| ()), None);
    cache.validate();
}

#[test]
fn find_many_with_shows_hits_and_misses_in_order() {
    let clock = Clock::manual(1_000);
    let config = CacheConfig { memory: ByteSize::mib(8), clock: clock.clone(), ..CacheConfig::default() };
    let cache = Cache::new(config).expect("valid");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    for i in 0..40_u8 {
        let expiry = if i % 3 == 0 { Expiry::After(10) } else { Expiry::Never };
        let options = ItemOptions { expiry, ..ItemOptions::default() };
        let mut item = cache.allocate(pool, &[i], 1, &options).expect("room");
        item.value_mut()[0] = i;
        cache.put(item);
    }
    clock.advance(std::time::Duration::from_secs(10));
    let keys: Vec<[u8; 1]> = (0..60).map(|i| [i]).collect();
    let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut seen = Vec::new();
    cache.keys(pool).find_many_with(&slices, |i, found| seen.push((i, found.map(|found| found[0]))));
    let expected: Vec<_> =
        (0..60_u8).map(|i| (usize::from(i), (i < 40 && i % 3 != 0).then_some(i))).collect();
    assert_eq!(seen, expected);
    let stats = cache.stats();
    assert_eq!((stats.pools[0].sum(|class| class.hits), stats.pools[0].misses), (26, 34));
    assert_eq!(stats.pools[0].sum(|class| class.expired), 14);
}

#[test]
fn expired_items_leave_though_nobody_asks_for_them() {
    let clock = Clock::manual(1_000);
    let cache = cache(32, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let put = |i: u32, expiry| {
        let options = ItemOptions { expiry, ..ItemOptions::default() };
        let item = cache.allocate(pool, &i.to_le_bytes(), 8, &options).expect("room");
        cache.insert_or_replace(item).0
    };
    for i in 0..30_000_u32 {
        put(i, if i % 3 == 0 { Expiry::Never } else { Expiry::After(i % 3 * 10) });
    }
    // One is held, one is put off, one is brought forward, one is replaced by one that stays, one
    // is removed.
    let held = put(1, Expiry::After(10));
    assert!(cache.touch(&4_u32.to_le_bytes(), Expiry::After(15)));
    assert!(cache.touch(&2_u32.to_le_bytes(), Expiry::After(10)));
    put(7, Expiry::Never);
    assert!(cache.remove(&10_u32.to_le_bytes()));
    let items = || cache.stats().pools[0].sum(|class| class.items);
    clock.advance(Duration::from_secs(9));
    assert_eq!((cache.reap(), items()), (0, 29_999));
    clock.advance(Duration::from_secs(1));
    assert_eq!((cache.reap(), items()), (9_997, 20_002));
    drop(held);
    clock.advance(Duration::from_secs(5));
    assert_eq!((cache.reap(), items()), (2, 20_000));
    clock.advance(Duration::from_secs(5));
    assert_eq!((cache.reap(), items()), (9_999, 10_001));
    let stats = cache.stats();
    assert_eq!(stats.pools[0].sum(|class| class.expired), 19_998);
    assert_eq!(stats.index_entries, 10_001);
    cache.validate();
}

#[test]
fn what_is_reaped_makes_room() {
    let clock = Clock::manual(1_000);
    let cache = cache(16, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let options = ItemOptions { expiry: Expiry::After(5), ..ItemOptions::default() };
    for round in 0..10_u32 {
        for i in 0..50_000_u32 {
            let key = (round * 50_000 + i).to_le_bytes();
            cache.put(cache.allocate(pool, &key, 32, &options).expect("room"));
        }
        clock.advance(Duration::from_secs(6));
        cache.maintain().expect("nothing is held");
        let stats = cache.stats();
        assert_eq!((stats.index_entries, stats.pools[0].sum(|class| class.evictions)), (0, 0));
    }
    cache.validate();
}

#[test]
fn a_walk_sees_each_lasting_item_once_while_others_come_and_go() {
    let clock = Clock::manual(1_000);
    let cache = cache(64, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let put = |key: &[u8], len: usize, expiry| {
        let options = ItemOptions { expiry, ..ItemOptions::default() };
        cache.put(cache.allocate(pool, key, len, &options).expect("room"));
    };
    for i in 0..20_000_u32 {
        put(&i.to_le_bytes(), (i % 700) as usize, Expiry::Never);
    }
    for i in 20_000..21_000_u32 {
        put(&i.to_le_bytes(), 10, Expiry::After(1));
    }
    clock.advance(Duration::from_secs(2));
    let mut seen = std::collections::HashSet::new();
    for (n, item) in cache.items(pool).expect("there is such a pool").enumerate() {
        if n % 3 == 0 {
            // Items of other keys come, go, and take the chunks of others.
            let stranger = [b"stranger".as_slice(), &n.to_le_bytes()].concat();
            put(&stranger, n % 700, Expiry::Never);
            if n % 2 == 0 {
                cache.remove(&stranger);
            }
        }
        if item.key().len() == 4 {
            assert!(seen.insert(item.key().to_vec()), "seen twice");
        }
    }
    assert_eq!(seen.len(), 20_000);
    assert!((0..20_000_u32).all(|i| seen.contains(&i.to_le_bytes()[..])));
    let elsewhere = cache.add_pool(PoolConfig::named("empty")).expect("new");
    assert_eq!(cache.items(elsewhere).expect("there is such a pool").count(), 0);
    cache.validate();
}

#[test]
fn slabs_move_between_classes_by_hand_and_by_strategy() {
    let clock = Clock::manual(1_000);
    let cache = cache(40, &clock);
    let classes = SizeClassConfig::List(vec![1_024, 8_192]);
    let strategy = Strategy::HitsPerSlab(HitsPerSlab::default());
    let pool =
        cache.add_pool(PoolConfig { classes, strategy, ..PoolConfig::named("p") }).expect("a new pool");
    let put = |key: u32, len: usize| {
        cache.put(cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default()).expect("room"));
    };
    let slabs = || {
        let slabs: Vec<u64> = cache.stats().pools[0].classes.iter().map(|class| class.bytes).collect();
        (slabs[0], slabs[1])
    };
    // Large items come first and take all slabs but one.
    put(0, 500);
    (1..20_000).for_each(|key| put(key, 8_000));
    let (small, large) = slabs();
    assert!(small == 4_096 && large >= 28 << 20, "{small} {large}");
    cache.move_slab(pool, 1, Some(0)).expect("nothing is held");
    // A sixteenth of the pool goes, or the whole slab of which that is a part.
    let (got, left) = slabs();
    assert!(got > 2 << 20 && left < large - (2 << 20), "{got} {left}");
    assert!(cache.find(&0_u32.to_le_bytes()).is_some(), "the receiver's items stay");
    // From now on small items are asked for, and large ones are not.
    cache.rebalance();
    for round in 0..40 {
        for i in 0..25_000_u32 {
            let key = 100_000 + i.min(i.wrapping_mul(0x9e37_79b1) % 25_000);
            if cache.find(&u32::to_le_bytes(key)).is_none() {
                put(key, 500);
            }
        }
        put(round, 8_000);
        cache.rebalance();
    }
    let (small, large) = slabs();
    assert!(small > 12 << 20 && large > 0, "{small} {large}");
    assert!(cache.stats().pools[0].slabs_moved > 3);
    assert_eq!(cache.move_slab(pool, 2, None).expect_err("no such class").kind(), ErrorKind::Config);
    cache.validate();
}

#[test]
fn what_was_made_of_a_flushed_item_does_not_replace_it() {
    let clock = Clock::manual(1_000);
    let cache = cache(16, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let make = || cache.allocate(pool, b"key", 4, &ItemOptions::default()).expect("room");
    cache.put(make());
    let old = cache.find(b"key").expect("there");
    let before = make();
    cache.keys(pool).flush();
    // Stamped before the flush or after it: neither brings the value back.
    assert!(cache.replace_matching(&old, before).is_err());
    assert!(cache.replace_matching(&old, make()).is_err());
    assert!(cache.find(b"key").is_none());
    cache.put(make());
    assert!(cache.find(b"key").is_some());
}

#[test]
fn a_pool_changes_its_policy_while_it_serves() {
    let clock = Clock::manual(1_000);
    let cache = cache(24, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let put = |key: u32| {
        cache.put(cache.allocate(pool, &key.to_le_bytes(), 100, &ItemOptions::default()).expect("room"));
    };
    let is_there = |key: u32| cache.keys(pool).find_with(&key.to_le_bytes(), |_| ()).is_some();
    (0..50_000).for_each(put);
    let kinds = ["sieve", "arc", "2q", "tinylfu", "lru", "w-tinylfu", "lru+mid", "s3-fifo"];
    for (round, kind) in (0..).zip(kinds) {
        let kind = kind.parse::<PolicyKind>().expect("a policy");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2_u32 {
                let (stop, put) = (&stop, &put);
                scope.spawn(move || {
                    let mut key = 1_000_000 * (thread + 1) + 10_000_000 * round;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        put(key);
                        let _ = is_there(key);
                        key += 1;
                    }
                });
            }
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                cache.set_pool_policy(pool, kind).expect("there is such a pool");
            }));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        assert_eq!(cache.stats().pools[0].policy, kind.to_string());
        cache.validate();
    }
    (100_000..400_000).for_each(put);
    cache.validate();
}

#[test]
fn all_items_stay_as_the_policy_changes_if_there_is_memory() {
    let cache = cache(24, &Clock::manual(1_000));
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    for key in 0..100_000_u32 {
        cache.put(cache.allocate(pool, &key.to_le_bytes(), 100, &ItemOptions::default()).expect("room"));
    }
    for kind in ["sieve", "arc", "2q", "tinylfu", "lru", "w-tinylfu", "lru+mid", "s3-fifo"] {
        cache.set_pool_policy(pool, kind.parse().expect("a policy")).expect("there is such a pool");
        assert_eq!(cache.stats().index_entries, 100_000, "{kind}");
        cache.validate();
    }
}

#[test]
fn items_move_out_of_a_slab_that_leaves() {
    let clock = Clock::manual(1_000);
    let cache = cache(40, &clock);
    let classes = SizeClassConfig::List(vec![256]);
    let pool = cache.add_pool(PoolConfig { classes, ..PoolConfig::named("p") }).expect("new");
    for key in 0..30_000_u32 {
        let expiry = if key % 2 == 0 { Expiry::Never } else { Expiry::After(60) };
        let tag = key.is_multiple_of(3).then_some(ItemTag { cas: key.into(), client_flags: key });
        let options = ItemOptions { expiry, tag, ..ItemOptions::default() };
        let mut item = cache.allocate(pool, &key.to_le_bytes(), 100, &options).expect("room");
        item.value_mut().fill(key as u8);
        item.set_user_bits((key % 4) as u8);
        cache.put(item);
    }
    // Room for all that is there in a slab less.
    (0..20_000_u32).for_each(|key| assert!(cache.remove(&key.to_le_bytes())));
    let held = cache.find(&29_999_u32.to_le_bytes()).expect("there");
    let is_whole = |key: u32| {
        let found = cache.peek(&key.to_le_bytes()).expect("it moved, and is there");
        assert!(found.len() == 100 && found.iter().all(|byte| *byte == key as u8));
        assert_eq!(found.expires_at(), (key % 2 == 1).then_some(1_060));
        assert_eq!(
            found.tag(),
            key.is_multiple_of(3).then_some(ItemTag { cas: key.into(), client_flags: key })
        );
        assert_eq!(found.user_bits(), (key % 4) as u8);
    };
    let slabs = || cache.stats().pools[0].classes[0].bytes;
    let before = slabs();
    cache.move_slab(pool, 0, None).expect("the held item lies in one of several runs");
    assert!(slabs() < before);
    (20_000..30_000).for_each(is_whole);
    cache.validate();
    drop(held);
    clock.advance(Duration::from_secs(64));
    assert_eq!(cache.reap(), 5_000);
    assert_eq!(cache.stats().pools[0].sum(|class| class.evictions), 0);
    cache.validate();
}

#[test]
fn a_walk_in_steps_looks_at_so_many_chunks_and_sees_the_same() {
    let (cache, pool, _) = small();
    (0..3_000_u32).for_each(|key| put(&cache, pool, &key.to_le_bytes(), b"x", &PLAIN));
    (0..2_990_u32).for_each(|key| assert!(cache.remove(&key.to_le_bytes())));
    let chunks = cache.stats().pools[0].sum(|class| class.chunks);
    let mut items = cache.items(pool).expect("a pool");
    let (mut seen, mut pauses) = (0, 0);
    loop {
        match items.step(&mut 256) {
            Step::Item(_) => seen += 1,
            Step::Later => pauses += 1,
            Step::End => break,
        }
    }
    assert_eq!((seen, cache.items(pool).expect("a pool").count()), (10, 10));
    assert!((chunks / 256 - 10..=chunks / 256).contains(&pauses), "{pauses} pauses in {chunks} chunks");
}

#[test]
fn a_walk_is_gone_on_with_from_where_it_was() {
    let cache = cache(64, &Clock::manual(1_000));
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    for i in 0..2_000_u32 {
        let len = i as usize % 5 * 100;
        cache.put(cache.allocate(pool, &i.to_le_bytes(), len, &ItemOptions::default()).expect("room"));
    }
    let (mut place, mut met) = (Some(Cursor::START), Vec::new());
    while let Some(from) = place {
        let number = from.to_number();
        let mut items = cache.items_from(pool, Cursor::from_number(number)).expect("a pool");
        met.extend(items.by_ref().take(7).map(|item| item.key().to_vec()));
        place = items.cursor();
        assert!(place.is_none_or(|place| place > from), "it goes on");
    }
    let all = met.len();
    met.sort();
    met.dedup();
    assert_eq!((all, met.len()), (2_000, 2_000), "every item once");
    let last = cache.items_from(pool, Cursor::from_number(u64::MAX)).expect("a pool");
    assert_eq!(last.count(), 0, "any number is a place");
}

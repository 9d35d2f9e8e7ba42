//! Chained items and values that are longer than a chunk.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use base::rng::{RngExt, seeded};
use millpond::{
    ByteSize, Cache, CacheConfig, ErrorKind, Expiry, ItemOptions, PolicyKind, PoolConfig, PoolId, ReadHandle,
};

const CHAINABLE: ItemOptions = ItemOptions {
    expiry: Expiry::Never,
    expirable: false,
    chainable: true,
    client_flags: 0,
    tag: None,
    user_bits: 0,
};

fn cache(memory: u64, policy: PolicyKind) -> (Cache, PoolId) {
    let config = CacheConfig { memory: ByteSize::mib(memory), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = cache.add_pool(PoolConfig { policy, ..PoolConfig::named("chained") }).expect("a new name");
    (cache, pool)
}

fn parent<'c>(cache: &'c Cache, pool: PoolId, key: &[u8]) -> ReadHandle<'c> {
    let mut item = cache.allocate(pool, key, 6, &CHAINABLE).expect("room");
    item.value_mut().copy_from_slice(b"parent");
    cache.insert_or_replace(item).0
}

fn push(item: &ReadHandle<'_>, value: &[u8]) {
    let mut link = item.allocate_link(value.len()).expect("room");
    link.value_mut().copy_from_slice(value);
    item.push_link(link).expect("of this item");
}

fn values(item: &ReadHandle<'_>) -> Vec<Vec<u8>> {
    item.links().map(|link| link.to_vec()).collect()
}

/// Bytes of item `n`: different for each, of different lengths.
fn bytes(n: u32) -> Vec<u8> {
    (0..50 + n % 700).map(|i| (n.wrapping_mul(31).wrapping_add(i)) as u8).collect()
}

#[test]
fn a_chain_is_a_stack() {
    let (cache, pool) = cache(128, PolicyKind::default());
    let item = parent(&cache, pool, b"k");
    let mut model = VecDeque::new();
    let mut rng = seeded(7);
    for n in 0..3_000 {
        match rng.random_range(0..10_u32) {
            0..5 => {
                push(&item, &bytes(n));
                model.push_front(bytes(n));
            }
            5..8 => assert_eq!(item.pop_link().map(|link| link.to_vec()), model.pop_front()),
            8 if !model.is_empty() => {
                let at = rng.random_range(0..model.len());
                let old = item.links().nth(at).expect("as long as the model");
                let mut new = item.allocate_link(5).expect("room");
                new.value_mut().copy_from_slice(b"other");
                item.replace_link(&old, new).expect("it is there");
                assert!(!old.is_current() && *old == model[at][..], "a handle keeps what it saw");
                let again = item.allocate_link(1).expect("room");
                item.replace_link(&old, again).expect_err("it is there no more");
                model[at] = b"other".to_vec();
            }
            _ => assert_eq!(values(&item), Vec::from(model.clone())),
        }
        assert_eq!(item.link_count() as usize, model.len());
    }
    assert_eq!(&*item, b"parent");
    drop(item);
    cache.validate();
    assert!(cache.remove(b"k"));
    cache.validate();
    let stats = cache.stats();
    assert_eq!(stats.pools[0].sum(|class| class.item_bytes), 0, "links end with their item");
    let free = |class: &millpond::ClassStats| class.chunks == class.free_chunks;
    assert!(stats.pools[0].classes.iter().all(free));
}

#[test]
fn what_has_no_room_for_a_chain_says_so() {
    let (cache, pool) = cache(16, PolicyKind::default());
    let item = cache.allocate(pool, b"plain", 0, &ItemOptions::default()).expect("room");
    assert_eq!(item.allocate_link(1).expect_err("no room").kind(), ErrorKind::NotChainable);
    assert!(item.pop_link().is_none() && item.links().next().is_none() && !item.is_chainable());
    let other = parent(&cache, pool, b"other");
    let link = other.allocate_link(1).expect("room");
    item.push_link(link).expect_err("it has no chain");
    let third = parent(&cache, pool, b"third");
    third.push_link(other.allocate_link(1).expect("room")).expect_err("of another key");
    assert_eq!(other.allocate_link(5 << 20).expect_err("too long").kind(), ErrorKind::TooLarge);
}

#[test]
fn an_iterator_sees_what_stays_once() {
    let (cache, pool) = cache(16, PolicyKind::default());
    let item = parent(&cache, pool, b"k");
    (0..10).for_each(|n| push(&item, &[n]));
    // Pushed and popped while it stands in the middle.
    let mut links = item.links();
    assert_eq!((&*links.next().expect("9"), &*links.next().expect("8")), (&[9_u8][..], &[8_u8][..]));
    (20..25).for_each(|n| push(&item, &[n]));
    assert_eq!(&*links.next().expect("7"), [7]);
    (0..5 + 3).for_each(|_| drop(item.pop_link().expect("there are more")));
    let rest: Vec<_> = links.map(|link| link[0]).collect();
    assert_eq!(rest, [6, 5, 4, 3, 2, 1, 0], "the one that it stood on was taken away");
    let mut links = item.links();
    let first = links.next().expect("6");
    let mut new = item.allocate_link(1).expect("room");
    new.value_mut()[0] = 66;
    item.replace_link(&first, new).expect("there");
    assert_eq!(links.map(|link| link[0]).collect::<Vec<_>>(), [5, 4, 3, 2, 1, 0]);
    let mut links = item.links();
    assert_eq!(&*links.next().expect("66"), [66]);
    (0..7).for_each(|_| drop(item.pop_link()));
    assert!(links.next().is_none());
}

#[test]
fn a_chain_moves_to_the_item_that_replaces_its_own() {
    let (cache, pool) = cache(16, PolicyKind::default());
    let old = parent(&cache, pool, b"k");
    (0..5).for_each(|n| push(&old, &[n]));
    let new = cache.allocate(pool, b"k", 0, &CHAINABLE).expect("room");
    let new = cache.transfer_chain_and_replace(&old, new).expect("it is current");
    assert_eq!((old.link_count(), new.link_count()), (0, 5));
    assert_eq!(values(&new), [[4], [3], [2], [1], [0]]);
    let newer = cache.allocate(pool, b"k", 0, &CHAINABLE).expect("room");
    let newer = cache.transfer_chain_and_replace(&old, newer).expect_err("the old one is not current");
    assert_eq!((newer.link_count(), new.link_count()), (0, 5));
    let plain = cache.allocate(pool, b"k", 0, &ItemOptions::default()).expect("room");
    cache.transfer_chain_and_replace(&new, plain).expect_err("no room for a chain");
    let other = cache.allocate(pool, b"x", 0, &CHAINABLE).expect("room");
    cache.transfer_chain_and_replace(&new, other).expect_err("another key");
    drop((old, new, newer));
    cache.validate();
}

#[test]
fn eviction_takes_whole_chains_and_leaves_what_is_held() {
    for policy in [PolicyKind::S3_FIFO, PolicyKind::LRU, PolicyKind::Sieve] {
        let (cache, pool) = cache(16, policy);
        let held = parent(&cache, pool, b"held");
        (0..3).for_each(|n| push(&held, &[n; 5_000]));
        for n in 0..5_000_u32 {
            // Links take other classes than items, and all but fill the cache: their turn comes
            // before that of the items.
            let item = parent(&cache, pool, &n.to_le_bytes());
            (0..4).for_each(|i| push(&item, &[i; 5_000]));
            assert_eq!(item.link_count(), 4);
        }
        let mut found = 0;
        for n in 0..5_000_u32 {
            if let Some(item) = cache.find(&n.to_le_bytes()) {
                let expected: Vec<_> = (0..4).rev().map(|i| vec![i; 5_000]).collect();
                assert_eq!(values(&item), expected, "{policy}: a chain is there as a whole or not at all");
                found += 1;
            }
        }
        assert!((100..800).contains(&found), "{policy}: {found}");
        assert_eq!(values(&held), [[2; 5_000], [1; 5_000], [0; 5_000]]);
        drop(held);
        cache.validate();
        let stats = cache.stats();
        assert!(stats.pools[0].sum(|class| class.links) >= 4 * found);
        assert_eq!(stats.pools[0].sum(|class| class.items), stats.index_entries);
    }
}

#[test]
fn slabs_that_leave_take_items_and_links_along() {
    let (cache, pool) = cache(64, PolicyKind::LRU);
    for n in 0..2_000_u32 {
        let item = parent(&cache, pool, &n.to_le_bytes());
        (0..3).for_each(|i| push(&item, &bytes(n + i)));
    }
    let classes: Vec<_> =
        cache.stats().pools[0].classes.iter().map(|class| (class.number, class.bytes)).collect();
    for (number, before) in classes.iter().filter(|(_, bytes)| *bytes > 0) {
        // Room for what is moved.
        let class = cache.stats().pools[0].classes.iter().find(|class| class.number == *number).cloned();
        let chunk = class.expect("a class").chunk_bytes as usize;
        let mut extra = Vec::new();
        while cache.stats().pools[0]
            .classes
            .iter()
            .any(|class| class.number == *number && class.bytes < 2 * before + (1 << 20))
        {
            let key = [&b"extra"[..], &(extra.len() as u32).to_le_bytes()].concat();
            extra.push(cache.allocate(pool, &key, chunk - 21, &ItemOptions::default()).expect("room"));
        }
        drop(extra);
        cache.move_slab(pool, *number, None).expect("nothing is held");
    }
    cache.validate();
    for n in 0..2_000_u32 {
        let item = cache.find(&n.to_le_bytes()).expect("moved, not evicted");
        assert_eq!(values(&item), [bytes(n + 2), bytes(n + 1), bytes(n)]);
    }
}

#[test]
fn values_of_any_length_come_back() {
    let (cache, pool) = cache(256, PolicyKind::default());
    for len in [0, 1, 100, 4 << 20, (4 << 20) - 30, (4 << 20) + 1, 5_000_000, 8 << 20, 50_000_001] {
        let value: Vec<u8> = (0..len as u32).map(|i| (i ^ i >> 11) as u8).collect();
        let key = format!("{len}");
        cache.put_value(pool, key.as_bytes(), &value, &ItemOptions::default()).expect("room");
        let item = cache.find(key.as_bytes()).expect("inserted");
        assert_eq!(item.whole_len(), len);
        let mut whole = Vec::new();
        item.read_whole(&mut whole);
        assert!(whole == value, "{len} bytes");
    }
    cache.validate();
    let too_long = cache.put_value(pool, b"k", &vec![0; 300 << 20], &ItemOptions::default());
    assert_eq!(too_long.expect_err("more than there is").kind(), ErrorKind::TooLarge);
    assert!(cache.find(b"50000001").is_some(), "and nothing was evicted for it");
}

#[test]
#[ignore = "takes 3 GiB of memory"]
fn the_longest_value_comes_back() {
    let (cache, pool) = cache(1_200, PolicyKind::default());
    let byte = |at: usize| (at as u64 ^ at as u64 >> 12) as u8;
    let len = millpond::MAX_VALUE_BYTES;
    let mut writer = cache.allocate_value(pool, b"long", len, &ItemOptions::default()).expect("room");
    while writer.remaining() > 0 {
        let at = len - writer.remaining();
        let piece = writer.unwritten();
        let written = piece.len();
        (at..).zip(piece).for_each(|(at, to)| *to = byte(at));
        writer.advance(written);
    }
    cache.put(writer.finish().expect("whole"));
    let item = cache.find(b"long").expect("inserted");
    assert_eq!(item.whole_len(), len);
    let mut whole = Vec::new();
    item.read_whole(&mut whole);
    assert!(whole.len() == len && whole.iter().enumerate().all(|(at, found)| *found == byte(at)));
    drop(item);
    cache.validate();
    let too_long = cache.allocate_value(pool, b"k", len + 1, &ItemOptions::default());
    assert_eq!(too_long.expect_err("longer than values are").kind(), ErrorKind::TooLarge);
}

#[test]
fn a_value_is_inserted_only_once_it_is_whole() {
    let (cache, pool) = cache(32, PolicyKind::default());
    let mut writer = cache.allocate_value(pool, b"k", 9 << 20, &ItemOptions::default()).expect("room");
    assert_eq!(writer.write(&vec![7; 5 << 20]), 5 << 20);
    assert_eq!(writer.remaining(), 4 << 20);
    let mut writer = writer.finish().expect_err("4 MiB are missing");
    assert_eq!(writer.write(&vec![8; 5 << 20]), 4 << 20, "as much as there is room for");
    cache.put(writer.finish().expect("whole"));
    let mut whole = Vec::new();
    cache.find(b"k").expect("inserted").read_whole(&mut whole);
    assert!(whole[..5 << 20].iter().all(|byte| *byte == 7) && whole[5 << 20..].iter().all(|byte| *byte == 8));
    drop(cache.allocate_value(pool, b"gone", 20 << 20, &ItemOptions::default()).expect("room"));
    cache.validate();
}

/// A transfer that fails gives the chain back; what was pushed to the old item in between stays.
#[test]
fn no_link_is_lost_to_a_transfer_that_fails() {
    let (cache, pool) = cache(64, PolicyKind::default());
    let stale = parent(&cache, pool, b"k");
    let current = parent(&cache, pool, b"k");
    drop(current);
    let stop = AtomicBool::new(false);
    let pushed = std::thread::scope(|scope| {
        let pusher = scope.spawn(|| {
            let _stop = Stop(&stop);
            (0..20_000).for_each(|n: u32| push(&stale, &n.to_le_bytes()));
            20_000
        });
        while !stop.load(Ordering::Relaxed) {
            let new = cache.allocate(pool, b"k", 0, &CHAINABLE).expect("room");
            let new = cache.transfer_chain_and_replace(&stale, new).expect_err("the old one is not current");
            assert_eq!(new.link_count(), 0);
        }
        pusher.join().expect("no panic")
    });
    assert_eq!(stale.link_count(), pushed);
    let mut found: Vec<u32> =
        stale.links().map(|link| u32::from_le_bytes(link[..].try_into().expect("four bytes"))).collect();
    found.sort_unstable();
    assert!(found.into_iter().eq(0..pushed), "each link is there once");
    cache.validate();
}

/// Ends the threads of a test, however it ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Threads push, pop, replace, iterate, evict, remove and move slabs at once. What is in a link
/// tells whose it is.
#[test]
fn threads_change_chains_while_items_come_and_go() {
    const KEYS: u64 = 3_000;
    let (cache, pool) = cache(32, PolicyKind::default());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..4_u64 {
            let (cache, stop) = (&cache, &stop);
            scope.spawn(move || {
                let mut rng = seeded(seed);
                while !stop.load(Ordering::Relaxed) {
                    let number = rng.random_range(0..KEYS);
                    let key = number.to_le_bytes();
                    let len = 100 + rng.random_range(0..4) * 500_usize;
                    let fill = |link: &mut millpond::Link<'_>| link.value_mut().fill(number as u8);
                    let Some(item) = cache.find(&key) else {
                        let Ok(item) = cache.allocate(pool, &key, 20, &CHAINABLE) else { continue };
                        for _ in 0..rng.random_range(0..6) {
                            let Ok(mut link) = item.allocate_link(len) else { continue };
                            fill(&mut link);
                            item.push_link(link).expect("its own");
                        }
                        let _ = cache.insert(item);
                        continue;
                    };
                    match rng.random_range(0..8_u32) {
                        0 => drop(item.pop_link()),
                        1 if rng.random_range(0..8) == 0 => drop(cache.remove(&key)),
                        2 => {
                            let Ok(mut link) = item.allocate_link(len) else { continue };
                            fill(&mut link);
                            item.push_link(link).expect("its own");
                        }
                        3 => {
                            if let Some(old) = item.links().nth(rng.random_range(0..4)) {
                                let Ok(mut link) = item.allocate_link(len) else { continue };
                                fill(&mut link);
                                let _ = item.replace_link(&old, link);
                            }
                        }
                        4 => {
                            let Ok(new) = cache.allocate(pool, &key, 20, &CHAINABLE) else { continue };
                            let _ = cache.transfer_chain_and_replace(&item, new);
                        }
                        _ => {
                            for link in item.links() {
                                assert!(link.iter().all(|byte| *byte == number as u8));
                            }
                        }
                    }
                }
            });
        }
        let _stop = Stop(&stop);
        let mut rng = seeded(99);
        for _ in 0..150 {
            base::thread::sleep(std::time::Duration::from_millis(5));
            let classes = cache.stats().pools[0].classes.clone();
            let used: Vec<_> = classes.iter().filter(|class| class.bytes > 0).collect();
            let Some(victim) = used.get(rng.random_range(0..=used.len())) else { continue };
            let receiver = classes[rng.random_range(0..classes.len())].number;
            let _ = cache.move_slab(pool, victim.number, Some(receiver));
        }
    });
    cache.validate();
    let stats = cache.stats();
    let count = |field: fn(&millpond::ClassStats) -> u64| stats.pools[0].sum(field);
    assert!(count(|class| class.evictions) > 1_000 && stats.pools[0].slabs_moved > 10);
    assert!(count(|class| class.links) > 100);
}

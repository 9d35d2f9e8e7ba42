//! A second process that looks at a cache while the first one works on it, and when it is dead.

use std::os::unix::fs::MetadataExt as _;

use millpond::{ItemTag, ReadOnlyCache, Seen, Walked};

use super::*;

fn attach(folder: &Folder, clock: &Clock) -> ReadOnlyCache {
    ReadOnlyCache::attach_with_clock(&folder.0, clock.clone()).expect("there is a cache")
}

fn keys_of(onlooker: &mut ReadOnlyCache, pool: Option<u16>) -> (Vec<u32>, Walked) {
    let mut keys = Vec::new();
    let walked = onlooker.walk(pool, |item| {
        keys.push(u32::from_le_bytes(item.key().try_into().expect("four bytes")));
    });
    keys.sort_unstable();
    (keys, walked.expect("it can be read"))
}

#[test]
fn an_onlooker_sees_what_is_there_and_nothing_that_is_gone() {
    let (folder, clock) = (Folder::new("onlooker"), Clock::manual(1_000));
    let cache = open(&folder.0, 64, &clock);
    let mine = cache.add_pool(PoolConfig { own_keys: false, ..PoolConfig::named("mine") }).expect("new");
    let apart = cache.add_pool(PoolConfig::named("apart")).expect("new");
    (0..1_000).for_each(|key| put(&cache, mine, key, (key % 500) as usize, Expiry::Never));
    (1_000..1_100).for_each(|key| put(&cache, mine, key, 50, Expiry::After(10)));
    (0..200).for_each(|key| put(&cache, apart, key, 100, Expiry::Never));
    (0..50_u32).for_each(|key| assert!(cache.remove(&key.to_le_bytes())));
    (0..25).for_each(|key| put(&cache, mine, key, 300, Expiry::Never));

    // The cache's own process holds its lock all the time.
    let mut onlooker = attach(&folder, &clock);
    let pools = onlooker.pools().expect("they can be read");
    let named: Vec<_> =
        pools.iter().map(|pool| (pool.number, pool.own_keys, pool.is_named("mine"))).collect();
    assert_eq!(named, [(0, false, true), (1, true, false)]);
    assert_eq!(pools[0].slab_bytes(), cache.stats().pools[0].slab_bytes);
    assert_eq!(onlooker.pool_named("apart").expect("readable"), Some(1));
    assert_eq!(onlooker.pool_named("none").expect("readable"), None);
    let (keys, walked) = keys_of(&mut onlooker, Some(0));
    assert_eq!(keys, (0..25).chain(50..1_100).collect::<Vec<_>>());
    assert_eq!((walked.items, walked.dead, walked.changing, walked.links), (1_075, 0, 0, 0));
    let chunks = cache.stats().pools[0].sum(|class| class.chunks);
    assert_eq!(walked.items + walked.free_chunks, chunks);
    assert_eq!(keys_of(&mut onlooker, None).1.items, 1_275);

    // Its own keys are apart, what has expired or was flushed is not shown.
    onlooker.refresh().expect("readable");
    let find = |onlooker: &mut ReadOnlyCache, pool, key: u32| {
        onlooker.find(pool, &key.to_le_bytes()).expect("readable")
    };
    assert_eq!(find(&mut onlooker, 0, 7).expect("there").value, vec![mix64(7) as u8; 300]);
    assert_eq!(find(&mut onlooker, 1, 7).expect("there").value, vec![mix64(7) as u8; 100]);
    assert_eq!(find(&mut onlooker, 0, 1_050).expect("there").expires_at, Some(1_010));
    assert!(find(&mut onlooker, 0, 30).is_none() && find(&mut onlooker, 1, 250).is_none());
    assert!(onlooker.find(9, b"k").expect("readable").is_none(), "there is no such pool");
    clock.advance(Duration::from_secs(10));
    assert!(find(&mut onlooker, 0, 1_050).is_none());
    assert_eq!(keys_of(&mut onlooker, Some(0)).1.dead, 100);
    cache.keys(apart).flush();
    assert!(find(&mut onlooker, 1, 7).is_none());
    assert_eq!(keys_of(&mut onlooker, Some(1)).1.dead, 200);
    cache.keys(mine).flush_at(2_000);
    assert!(find(&mut onlooker, 0, 7).is_some());
    clock.advance(Duration::from_secs(1_000));
    assert!(
        find(&mut onlooker, 0, 7).is_none(),
        "the time has come, though nobody has asked the cache since"
    );
}

#[test]
fn an_index_is_of_the_last_look_and_never_shows_another_key() {
    let (folder, clock) = (Folder::new("refresh"), Clock::manual(1_000));
    let cache = open(&folder.0, 64, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let tag = Some(ItemTag { cas: 7, client_flags: 9 });
    let mut item =
        cache.allocate(pool, b"tagged", 3, &ItemOptions { tag, ..ItemOptions::default() }).expect("room");
    item.value_mut().copy_from_slice(b"abc");
    cache.put(item);
    (0..2_000).for_each(|key| put(&cache, pool, key, 100, Expiry::Never));
    let mut onlooker = attach(&folder, &clock);
    onlooker.refresh().expect("readable");
    let tagged = onlooker.find(0, b"tagged").expect("readable").expect("there");
    assert_eq!((tagged.value.as_slice(), tagged.tag, tagged.created_at), (&b"abc"[..], tag, 1_000));
    // Others take the chunks of those that were there.
    (0..2_000_u32).for_each(|key| assert!(cache.remove(&key.to_le_bytes())));
    (2_000..4_000).for_each(|key| put(&cache, pool, key, 100, Expiry::Never));
    let found = |onlooker: &mut ReadOnlyCache| {
        (0..4_000_u32).filter(|key| onlooker.find(0, &key.to_le_bytes()).expect("readable").is_some()).count()
    };
    assert_eq!(found(&mut onlooker), 0, "the old ones are gone, the new ones not known yet");
    assert_eq!(onlooker.refresh().expect("readable").items, 2_001);
    assert_eq!(found(&mut onlooker), 2_000);
}

#[test]
fn looking_takes_no_lock_and_no_memory() {
    let (folder, clock) = (Folder::new("quiet"), Clock::manual(1_000));
    let cache = open(&folder.0, 64, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    // A slab for each of some classes, most of their chunks never used.
    for len in [100, 1_000, 10_000, 100_000] {
        put(&cache, pool, len, len as usize, Expiry::Never);
    }
    let blocks = || std::fs::metadata(folder.0.join("slabs")).expect("a file").blocks();
    let before = blocks();
    let mut onlooker = attach(&folder, &clock);
    assert_eq!(onlooker.refresh().expect("readable").items, 4);
    assert_eq!(blocks(), before, "what is a hole stays one");
    drop(cache);
    // The next process opens it at once, for as long as the other looks.
    let cache = open(&folder.0, 32, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    assert_eq!(cache.recovered().items, 4);
    put(&cache, pool, 7, 70, Expiry::Never);
    assert_eq!(onlooker.refresh().expect("readable").items, 5);
    assert!(!onlooker.is_removed().expect("readable"));
    std::fs::remove_dir_all(&folder.0).expect("removes");
    assert!(onlooker.is_removed().expect("readable"));
    assert_eq!(onlooker.refresh().expect("readable").items, 5, "the files are there while they are open");
}

#[test]
fn what_is_no_cache_is_refused_with_advice() {
    let (folder, clock) = (Folder::new("refused"), Clock::manual(1_000));
    let refusal = || {
        let error = ReadOnlyCache::attach(&folder.0).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::System);
        error.to_string()
    };
    let error = refusal();
    assert!(error.contains("words") && error.contains("no cache is there"), "{error}");
    drop(open(&folder.0, 16, &clock));
    assert!(ReadOnlyCache::attach(&folder.0).is_ok());
    let words = File::options().write(true).open(folder.0.join("words")).expect("opens");
    words.write_all_at(&99_u64.to_le_bytes(), 8).expect("writes");
    let error = refusal();
    assert!(error.contains("layout 99") && error.contains("program of that version"), "{error}");
    words.write_all_at(&0_u64.to_le_bytes(), 0).expect("writes");
    assert!(refusal().contains("not finished"));
    words.set_len(10).expect("shortens");
    assert!(refusal().contains("not finished"));
}

#[test]
fn files_that_somebody_has_spoilt_are_read_without_harm() {
    let (folder, clock) = (Folder::new("spoilt"), Clock::manual(1_000));
    let cache = open(&folder.0, 16, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    (0..3_000).for_each(|key| put(&cache, pool, key, (key % 700) as usize, Expiry::After(50)));
    drop(cache);
    let opened =
        |name: &str| File::options().read(true).write(true).open(folder.0.join(name)).expect("opens");
    let (words, slabs) = (opened("words"), opened("slabs"));
    let mut onlooker = attach(&folder, &clock);
    let mut rng = seeded(7);
    let mut shown = 0;
    for round in 0..60 {
        for _ in 0..3_000 {
            let at = rng.random_range(0..12 << 20);
            slabs.write_all_at(&[rng.random::<u8>()], at).expect("writes");
        }
        // Words of pools, key spaces and the first slabs; the header stays.
        let first = [512, 4_608, 16_896][round % 3];
        let word: u64 = rng.random::<u64>() >> rng.random_range(0..64_u32);
        words.write_all_at(&word.to_le_bytes(), 8 * (first + rng.random_range(0..4_u64))).expect("writes");
        let walked = onlooker.walk(None, |item| {
            shown += item.key().len() + item.value().len() + item.links() as usize;
            assert!(item.size_bytes() <= item.chunk_bytes() as usize);
        });
        walked.expect("readable");
        onlooker.refresh().expect("readable");
        (0..50_u32).for_each(|key| drop(onlooker.find(0, &key.to_le_bytes()).expect("readable")));
        drop(onlooker.pools().expect("readable"));
    }
    assert!(shown > 0);
    slabs.set_len(5 << 20).expect("shortens");
    onlooker.walk(None, |_| ()).expect("what is not there is passed over");
}

/// Checks what is seen of the victim's items; `None` for its stacks.
fn version_seen(item: Seen<'_>) -> Option<(u32, u64)> {
    let key = u32::from_le_bytes(item.key().try_into().expect("four bytes"));
    if key >= KEYS {
        assert!(key < KEYS + STACKS && item.value().is_empty(), "no key of the victim: {key}");
        return None;
    }
    let value = item.value();
    if value.len() < 8 && item.links() > 0 {
        // A long value, of which the links have all but a few bytes.
        return None;
    }
    Some((key, version_of(key, value)))
}

/// One look at everything, held against the victim's book from before and after it. Returns how
/// many items were held.
fn look(onlooker: &mut ReadOnlyCache, folder: &Folder) -> u64 {
    let book = Book::open(&folder.0);
    let (before, mut versions) = (book.versions(), Vec::new());
    onlooker.walk(None, |item| versions.extend(version_seen(item))).expect("readable");
    let after = Book::open(&folder.0).versions();
    for (key, version) in &versions {
        let ((_, done), (begun, _)) = (before[*key as usize], after[*key as usize]);
        assert!(version.is_multiple_of(2), "key {key}: a removal has no value");
        assert!(
            (done..=begun).contains(version),
            "key {key}: {version}, where {done} was done and {begun} begun"
        );
    }
    versions.len() as u64
}

#[test]
fn an_onlooker_of_a_busy_process_sees_whole_and_present_items_and_of_a_dead_one_what_it_left() {
    let folder = Folder::new("busy");
    std::fs::create_dir_all(&folder.0).expect("makes the folder");
    let (mut seen, mut found, mut left) = (0, 0, 0);
    for round in 0..3_u64 {
        let mut child = spawn_victim(&folder.0, 1_000 + round);
        let mut onlooker = ReadOnlyCache::attach(&folder.0).expect("there is a cache");
        let mut rng = seeded(round);
        for _ in 0..12 {
            seen += look(&mut onlooker, &folder);
            onlooker.refresh().expect("readable");
            // Its memory is taken away again and again, perhaps all of its slabs.
            let Some(pool) = onlooker.pool_named("p").expect("readable") else { continue };
            for _ in 0..300 {
                let key = rng.random_range(0..KEYS);
                if let Some(item) = onlooker.find(pool, &key.to_le_bytes()).expect("readable")
                    && item.links == 0
                {
                    version_of(key, &item.value);
                    found += 1;
                }
            }
        }
        child.kill().expect("kills");
        child.wait().expect("ends");
        left += look(&mut onlooker, &folder);
    }
    assert!(seen > 10_000 && found > 300 && left > 1_000, "{seen} seen, {found} found, {left} left behind");
}

//! Structured items: against std's collections, in full caches, across processes, and with many
//! threads at once.

#[path = "structured/collections.rs"]
mod collections;
#[path = "structured/kill.rs"]
mod kill;
#[path = "structured/model.rs"]
mod model;
#[path = "structured/stress.rs"]
mod stress;

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::hash::mix64;
use millpond::structured::{Array, Map, OrderedMap, StructureOptions};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ErrorKind, Expiry, ItemOptions, Lifecycle, PoolConfig, PoolId,
    RemovalCause, RemovedItem,
};

fn cache_of(mib: u64, clock: &Clock) -> (Cache, PoolId) {
    let config = CacheConfig {
        memory: ByteSize::mib(mib),
        clock: clock.clone(),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = cache.add_pool(PoolConfig::named("default")).expect("a new name");
    (cache, pool)
}

fn cache() -> (Cache, PoolId) {
    cache_of(64, &Clock::manual(1_000))
}

fn defaults() -> StructureOptions {
    StructureOptions::default()
}

fn put(cache: &Cache, pool: PoolId, key: &[u8], len: usize) {
    let mut item = cache.allocate(pool, key, len, &ItemOptions::default()).expect("room");
    item.value_mut().fill(7);
    cache.put(item);
}

/// Seven bytes: neither a word nor a number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, millpond::structured::Pod, millpond::structured::Zeroable)]
#[bytemuck(crate = "millpond::structured::bytemuck")]
#[repr(C)]
struct Seven([u8; 7]);

#[test]
fn a_map_grows_to_what_one_item_holds_and_then_says_so() {
    let (cache, pool) = cache();
    let map = Map::<u64, u64>::create(&cache, pool, b"map", &defaults()).expect("room").expect("new");
    let mut inserted = 0;
    let refused = loop {
        match map.insert(&mix64(inserted), &inserted) {
            Ok(old) => assert_eq!(old, None),
            Err(error) => break error,
        }
        inserted += 1;
    };
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert!(refused.to_string().contains("split it"), "{refused}");
    // 16 bytes of key and value, and 4 of a directory that is three quarters full, of 4 MiB but for
    // a 16th.
    assert!((170_000..200_000).contains(&inserted), "{inserted}");
    assert_eq!(map.len().expect("there"), inserted as usize);
    assert!((0..inserted).all(|i| map.get(&mix64(i)).expect("there") == Some(i)));
    assert_eq!(map.get(&mix64(inserted)).expect("there"), None);
    // What it holds may be changed, and what was removed makes room.
    assert_eq!(map.insert(&mix64(0), &7).expect("no growth"), Some(0));
    assert_eq!(map.remove(&mix64(1)).expect("there"), Some(1));
    assert_eq!(map.insert(&mix64(inserted), &1).expect("a place was given back"), None);
    let full = map.usage().expect("there");
    for i in 1_000..=inserted {
        assert!(map.remove(&mix64(i)).expect("there").is_some());
    }
    map.compact().expect("room");
    let compact = map.usage().expect("there");
    assert!(compact.capacity_bytes < full.capacity_bytes / 50, "{compact:?}");
    assert_eq!((compact.entries, compact.garbage_bytes), (999, 0));
    assert!((2..1_000).all(|i| map.get(&mix64(i)).expect("there") == Some(i)));
    cache.validate();
}

#[test]
fn the_room_that_was_asked_for_is_there_at_once() {
    let (cache, pool) = cache();
    let options = StructureOptions { entries: 5_000, value_bytes: 20, ..defaults() };
    let map = Map::<u32, [u8]>::create(&cache, pool, b"map", &options).expect("room").expect("new");
    let ordered = OrderedMap::<u32, [u8]>::create(&cache, pool, b"ordered", &options);
    let ordered = ordered.expect("room").expect("new");
    let before = [map.usage().expect("there"), ordered.usage().expect("there")].map(|u| u.capacity_bytes);
    for i in 0..5_000 {
        map.insert(&i, &[3; 20]).expect("room");
        ordered.insert(&i, &[3; 20]).expect("room");
    }
    let after = [map.usage().expect("there"), ordered.usage().expect("there")];
    assert_eq!(after.map(|usage| usage.capacity_bytes), before);
    assert!(after.iter().all(|usage| usage.used_bytes + usage.garbage_bytes <= usage.capacity_bytes));
    for options in [
        StructureOptions { entries: usize::MAX, ..defaults() },
        StructureOptions { value_bytes: usize::MAX, ..defaults() },
    ] {
        let refused = Map::<u32, [u8]>::create(&cache, pool, b"large", &options).expect_err("too large");
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
    }
    for len in [1 << 20, usize::MAX / 2, usize::MAX] {
        let refused = Array::<u64>::create(&cache, pool, b"large", len, &defaults()).expect_err("too large");
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
    }
}

#[test]
fn a_value_that_outgrows_all_others_makes_the_map_grow() {
    let (cache, pool) = cache();
    let options = StructureOptions { entries: 1, value_bytes: 0, ..defaults() };
    let map = Map::<u32, [u8]>::create(&cache, pool, b"map", &options).expect("room").expect("new");
    let ordered = OrderedMap::<u32, [u8]>::create(&cache, pool, b"ordered", &options);
    let ordered = ordered.expect("room").expect("new");
    let mut old = None;
    for len in [0, 1, 300, 299, 4_000, 4_001, 100_000, 5] {
        let value = vec![len as u8; len];
        assert_eq!(map.insert(&1, &value).expect("room"), old);
        assert_eq!(ordered.insert(&1, &value).expect("room"), old);
        old = Some(value);
    }
    assert_eq!((map.get(&1).expect("there"), ordered.get(&1).expect("there")), (old.clone(), old));
}

#[test]
fn arrays_hold_elements_of_any_size() {
    let (cache, pool) = cache();
    let bytes = Array::<u8>::create(&cache, pool, b"bytes", 1_001, &defaults()).expect("room").expect("new");
    let odd = Array::<Seven>::create(&cache, pool, b"odd", 100, &defaults()).expect("room").expect("new");
    let seven = |i: usize| Seven([i as u8; 7]);
    for i in 0..1_001 {
        assert_eq!(bytes.set(i, mix64(i as u64) as u8).expect("there"), Some(0));
    }
    for i in (0..100).rev() {
        assert_eq!(odd.set(i, seven(i)).expect("there"), Some(Seven([0; 7])));
    }
    assert!((0..1_001).all(|i| bytes.get(i).expect("there") == Some(mix64(i as u64) as u8)));
    assert_eq!(odd.to_vec().expect("there"), (0..100).map(seven).collect::<Vec<_>>());
    assert_eq!((odd.get(100).expect("there"), odd.set(100, seven(1)).expect("there")), (None, None));
    assert_eq!(odd.update(usize::MAX, |at| at).expect("there"), None);
    assert!(odd.set_range(98, &[seven(1), seven(2)]).expect("there"));
    assert!(!odd.set_range(99, &[seven(3), seven(4)]).expect("there"));
    assert!(!odd.set_range(usize::MAX, &[seven(3)]).expect("there"));
    assert_eq!(odd.to_vec().expect("there")[97..], [seven(97), seven(1), seven(2)]);
    assert_eq!((odd.len().expect("there"), bytes.usage().expect("there").entries), (100, 1_001));
    let (again, is_new) = Array::<u8>::open_or_create(&cache, pool, b"bytes", 5, &defaults()).expect("there");
    assert_eq!((again.len().expect("there"), is_new), (1_001, false));
}

#[test]
fn what_is_of_another_type_is_refused() {
    let (cache, pool) = cache();
    Map::<u32, u64>::create(&cache, pool, b"map", &defaults()).expect("room").expect("new");
    put(&cache, pool, b"plain", 4_000);
    let wrong = [
        Map::<u64, u64>::open(&cache, pool, b"map").map(drop),
        Map::<u32, u32>::open(&cache, pool, b"map").map(drop),
        Map::<u32, [u8]>::open(&cache, pool, b"map").map(drop),
        OrderedMap::<u32, u64>::open(&cache, pool, b"map").map(drop),
        Array::<u64>::open(&cache, pool, b"map").map(drop),
        Map::<u32, u64>::open(&cache, pool, b"plain").map(drop),
        Map::<u32, u64>::open_or_create(&cache, pool, b"plain", &defaults()).map(drop),
    ];
    for refused in wrong {
        let refused = refused.expect_err("another type");
        assert_eq!(refused.kind(), ErrorKind::WrongType, "{refused}");
    }
    assert!(Map::<u32, u64>::create(&cache, pool, b"map", &defaults()).expect("room").is_none());
    assert!(Map::<u32, u64>::open(&cache, pool, b"none").expect("no item").is_none());
    assert!(Map::<u32, u64>::open(&cache, pool, b"map").expect("its type").is_some());
}

#[test]
fn a_structure_is_an_item_whose_plain_value_is_empty() {
    let (cache, pool) = cache();
    let map = Map::<u32, u64>::create(&cache, pool, b"map", &defaults()).expect("room").expect("new");
    map.insert(&1, &2).expect("room");
    let found = cache.find(b"map").expect("there");
    assert!(found.is_structured() && found.is_empty());
    assert!(found.tag().is_none() && found.size_bytes() > 64);
    put(&cache, pool, b"plain", 10);
    assert!(!cache.find(b"plain").expect("there").is_structured());
    let seen: Vec<_> = cache.items(pool).expect("a pool").map(|item| item.is_structured()).collect();
    assert_eq!(seen.iter().filter(|structured| **structured).count(), 1);
    drop(found);
    assert!(cache.remove(b"map"));
    cache.validate();
    let bytes: u64 = cache.stats().pools[0].sum(|class| class.item_bytes);
    assert_eq!(bytes, 12 + 5 + 10, "only the plain item is left");
}

#[test]
fn a_structure_that_is_gone_is_gone_for_its_handle_whatever_has_the_key_now() {
    let clock = Clock::manual(1_000);
    let (cache, pool) = cache_of(64, &clock);
    let expect_gone = |map: &Map<u32, u64>| {
        let errors = [
            map.get(&1).map(drop),
            map.insert(&1, &1).map(drop),
            map.remove(&1).map(drop),
            map.update(&1, |_| Some(1)).map(drop),
            map.entries().map(drop),
            map.compact(),
            map.len().map(drop),
        ];
        for error in errors {
            assert_eq!(error.expect_err("it is gone").kind(), ErrorKind::Gone);
        }
    };
    let make = |expiry| {
        let options = StructureOptions { expiry, ..defaults() };
        let map = Map::<u32, u64>::create(&cache, pool, b"map", &options).expect("room").expect("new");
        map.insert(&1, &5).expect("room");
        map
    };
    let removed = make(Expiry::Never);
    assert!(cache.remove(b"map"));
    expect_gone(&removed);
    let replaced = make(Expiry::Never);
    expect_gone(&removed);
    put(&cache, pool, b"map", 50);
    expect_gone(&replaced);
    assert!(cache.remove(b"map"));
    let flushed = make(Expiry::Never);
    cache.keys(pool).flush();
    expect_gone(&flushed);
    let expired = make(Expiry::After(10));
    clock.advance(Duration::from_secs(9));
    assert_eq!(expired.get(&1).expect("not yet"), Some(5));
    // Growth keeps the time, and a touch moves it.
    for i in 0..1_000 {
        expired.insert(&i, &5).expect("room");
    }
    assert_eq!(cache.peek(b"map").expect("there").ttl_secs_left(), Some(1));
    assert!(cache.touch(b"map", Expiry::After(20)));
    clock.advance(Duration::from_secs(19));
    assert_eq!(expired.get(&999).expect("not yet"), Some(5));
    clock.advance(Duration::from_secs(1));
    expect_gone(&expired);
    let last = make(Expiry::Never);
    expect_gone(&expired);
    assert_eq!(last.get(&1).expect("there"), Some(5));
}

#[test]
fn structures_are_evicted_like_other_items_and_may_be_made_again() {
    let (cache, pool) = cache_of(16, &Clock::manual(1_000));
    let key = |i: u32| format!("map-{i}");
    let maps: Vec<_> = (0..400)
        .map(|i| {
            let (map, is_new) =
                Map::<u32, [u8]>::open_or_create(&cache, pool, key(i).as_bytes(), &defaults()).expect("room");
            assert!(is_new);
            for entry in 0..500 {
                // The map itself may be what has to make room.
                match map.insert(&entry, &[i as u8; 100]) {
                    Ok(old) => assert_eq!(old, None),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Gone);
                        break;
                    }
                }
            }
            map
        })
        .collect();
    let (mut there, mut gone) = (0, 0);
    for (i, map) in maps.iter().enumerate() {
        match map.entries() {
            Ok(entries) => {
                there += 1;
                assert!(entries.iter().all(|(_, value)| *value == [i as u8; 100]));
            }
            Err(error) => {
                gone += 1;
                assert_eq!(error.kind(), ErrorKind::Gone);
            }
        }
    }
    assert!(there > 50 && gone > 100, "{there} {gone}");
    cache.validate();
}

#[test]
fn structures_move_with_their_slab() {
    let (cache, pool) = cache();
    // Items of one class, half of which go, so that what lies in the first slab has somewhere to
    // go.
    let key = |i: u32| format!("map-{i}");
    let maps: Vec<_> = (0..200)
        .map(|i| {
            let options = StructureOptions { entries: 4_000, ..defaults() };
            let map = OrderedMap::<u32, u64>::create(&cache, pool, key(i).as_bytes(), &options);
            let map = map.expect("room").expect("new");
            for entry in 0..300 {
                map.insert(&entry, &u64::from(i)).expect("room");
            }
            map
        })
        .collect();
    let class = cache.find(b"map-0").expect("there").class_number();
    (0..200).step_by(2).for_each(|i| assert!(cache.remove(key(i).as_bytes())));
    cache.move_slab(pool, class, None).expect("nothing is held");
    cache.move_slab(pool, class, None).expect("nothing is held");
    for (i, map) in maps.iter().enumerate().skip(1).step_by(2) {
        let expected: Vec<_> = (0..300).map(|entry| (entry, i as u64)).collect();
        assert_eq!(map.entries().expect("moved, not evicted"), expected);
        map.insert(&300, &1).expect("room");
    }
    cache.validate();
}

#[test]
fn structures_move_to_the_size_classes_that_their_pool_gets() {
    let (cache, pool) = cache_of(128, &Clock::manual(1_000));
    let key = |i: u32| format!("map-{i}");
    let maps: Vec<_> = (0..400)
        .map(|i| {
            let map = Map::<u32, [u8]>::create(&cache, pool, key(i).as_bytes(), &defaults());
            let map = map.expect("room").expect("new");
            (0..20).for_each(|entry| drop(map.insert(&entry, &[i as u8; 40]).expect("room")));
            map
        })
        .collect();
    for i in 0..12_000_u32 {
        put(&cache, pool, &i.to_le_bytes(), [130, 1_111, 3_000][(i % 3) as usize]);
    }
    let classes =
        || -> HashSet<u32> { cache.stats().pools[0].classes.iter().map(|class| class.chunk_bytes).collect() };
    let before = classes();
    let tuned = cache.tune_classes(pool).expect("exists");
    assert!(tuned.decision.applies && tuned.bytes_left == 0, "{tuned:?}");
    assert_ne!(classes(), before);
    for (i, map) in maps.iter().enumerate() {
        let mut entries = map.entries().expect("moved, not evicted");
        entries.sort_unstable();
        let expected: Vec<_> = (0..20).map(|entry| (entry, vec![i as u8; 40])).collect();
        assert_eq!(entries, expected);
        (20..60).for_each(|entry| drop(map.insert(&entry, &[1; 40]).expect("room")));
        assert_eq!(map.len().expect("there"), 60);
    }
    cache.validate();
}

/// Uses the map whose items leave.
#[derive(Default)]
struct Meddler {
    map: Mutex<Option<Map<u32, u64>>>,
    replaced: AtomicU64,
}

impl Lifecycle for Meddler {
    fn on_remove(&self, item: RemovedItem<'_>, cause: RemovalCause) {
        assert_eq!((item.key(), cause), (&b"map"[..], RemovalCause::Replaced));
        let map = self.map.lock().expect("no panic").clone();
        if let Some(map) = map {
            let count = self.replaced.fetch_add(1, Ordering::Relaxed);
            map.insert(&u32::MAX, &count).expect("no lock is held, and the new item is there");
        }
    }
}

#[test]
fn who_is_told_that_a_structure_has_grown_may_use_it() {
    let (cache, _) = cache();
    let meddler = Arc::new(Meddler::default());
    let lifecycle = Some(Arc::clone(&meddler) as Arc<dyn Lifecycle>);
    let pool = cache.add_pool(PoolConfig { lifecycle, ..PoolConfig::named("told") }).expect("new");
    let map = Map::<u32, u64>::create(&cache, pool, b"map", &defaults()).expect("room").expect("new");
    *meddler.map.lock().expect("no panic") = Some(map.clone());
    for i in 0..1_000 {
        assert_eq!(map.insert(&i, &i.into()).expect("room"), None);
    }
    let replaced = meddler.replaced.load(Ordering::Relaxed);
    assert!(replaced > 3, "{replaced}");
    assert_eq!(map.get(&u32::MAX).expect("there"), Some(replaced - 1));
    assert_eq!(map.len().expect("there"), 1_001);
    // The cache has the meddler, which has the cache through the map.
    *meddler.map.lock().expect("no panic") = None;
}

/// A folder in memory, which ends with the test.
struct Folder(PathBuf);

/// The memory of a cache in a folder.
const MEMORY: ByteSize = ByteSize::mib(256);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("millpond-structured-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }

    /// A cache that goes on with what the last one left.
    fn open(&self) -> (Cache, PoolId) {
        Self::open_at(&self.0)
    }

    fn open_at(folder: &Path) -> (Cache, PoolId) {
        let config = CacheConfig {
            memory: MEMORY,
            shared: Some(folder.to_owned()),
            huge_pages: false,
            ..CacheConfig::default()
        };
        let cache = Cache::new(config).expect("opens");
        let pool = cache.add_pool(PoolConfig::named("default")).expect("a new name");
        (cache, pool)
    }

    /// Changes what lies in the slabs: `change` is given each structure that is there, or was.
    fn change(&self, change: impl Fn(usize, &mut [u8])) {
        // The file is as long as the cache may ever get, and nearly all of it has no memory.
        let file = File::options().read(true).write(true).open(self.0.join("slabs")).expect("opens");
        let mut slabs = vec![0; MEMORY.as_u64() as usize];
        file.read_exact_at(&mut slabs, 0).expect("reads");
        let is_magic = |at: &usize| slabs[*at..at + 4] == *b"MPST";
        let found: Vec<_> = (0..slabs.len() - 64).step_by(4).filter(is_magic).collect();
        for (number, at) in found.into_iter().enumerate() {
            // What it has used of its item, by its own header.
            let used = u32::from_le_bytes(*slabs[at + 36..].first_chunk().expect("a header")) as usize;
            change(number, &mut slabs[at..at + used * 4]);
            file.write_all_at(&slabs[at..at + used * 4], at as u64).expect("writes");
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_next_process_finds_them_and_goes_on() {
    let folder = Folder::new("next");
    {
        let (cache, pool) = folder.open();
        let map = Map::<u32, [u8]>::create(&cache, pool, b"map", &defaults()).expect("room").expect("new");
        let ordered = OrderedMap::<u32, u64>::create(&cache, pool, b"ordered", &defaults());
        let ordered = ordered.expect("room").expect("new");
        for i in 0..2_000 {
            map.insert(&i, i.to_string().as_bytes()).expect("room");
            ordered.insert(&(2_000 - i), &i.into()).expect("room");
        }
    }
    let (cache, pool) = folder.open();
    assert_eq!(cache.recovered().items, 2);
    let map = Map::<u32, [u8]>::open(&cache, pool, b"map").expect("its type").expect("there");
    let ordered = OrderedMap::<u32, u64>::open(&cache, pool, b"ordered").expect("its type").expect("there");
    for i in 0..2_000 {
        assert_eq!(map.get(&i).expect("there"), Some(i.to_string().into_bytes()));
        assert_eq!(ordered.get(&(2_000 - i)).expect("there"), Some(i.into()));
    }
    (2_000..3_000).for_each(|i| drop(map.insert(&i, b"new").expect("room")));
    assert_eq!(map.len().expect("there"), 3_000);
    cache.validate();
}

#[test]
fn what_a_process_was_writing_to_when_it_died_is_gone_and_what_it_was_copying_is_there() {
    let folder = Folder::new("died");
    {
        let (cache, pool) = folder.open();
        for key in [b"a", b"b"] {
            let map = Map::<u32, u64>::create(&cache, pool, key, &defaults()).expect("room").expect("new");
            map.insert(&1, &5).expect("room");
        }
    }
    folder.change(|number, words| match number {
        // The sequence is odd.
        0 => words[16] |= 1,
        // The mark of a process that had frozen it.
        _ => words[20..24].fill(7),
    });
    let (cache, pool) = folder.open();
    assert_eq!(cache.recovered().items, 2);
    let [a, b] =
        [b"a", b"b"].map(|key| Map::<u32, u64>::open(&cache, pool, key).expect("its type").expect("there"));
    let outcomes = [a.get(&1), b.get(&1)].map(|outcome| outcome.map_err(|error| error.kind()));
    let (whole, torn) = if outcomes[0].is_ok() { (a, b) } else { (b, a) };
    assert!(outcomes.contains(&Err(ErrorKind::Gone)) && outcomes.contains(&Ok(Some(5))), "{outcomes:?}");
    assert_eq!(whole.insert(&1, &6).expect("not frozen by this process"), Some(5));
    assert!(cache.find(torn.key()).is_none(), "what is torn is removed");
    cache.validate();
}

#[test]
fn what_is_corrupt_is_refused_or_a_wrong_answer_and_no_more() {
    const VICTIMS: usize = 50;
    let folder = Folder::new("corrupt");
    let key = |i: usize| format!("victim-{i}").into_bytes();
    {
        let (cache, pool) = folder.open();
        for i in 0..VICTIMS {
            let map = Map::<u32, [u8]>::create(&cache, pool, &key(i), &defaults());
            let map = map.expect("room").expect("new");
            (0..40).for_each(|entry| drop(map.insert(&entry, &[9; 40]).expect("room")));
            let ordered_key = [&key(i)[..], b"-ordered"].concat();
            let ordered = OrderedMap::<u32, u64>::create(&cache, pool, &ordered_key, &defaults());
            let ordered = ordered.expect("room").expect("new");
            for entry in 0..40 {
                ordered.insert(&entry, &9).expect("room");
            }
        }
    }
    folder.change(|number, bytes| {
        for (word, bytes) in bytes.chunks_exact_mut(4).enumerate() {
            let random = mix64(number as u64 * 10_000 + word as u64);
            // The beginning of the header stays in half of them, so that the rest is looked at.
            if random.is_multiple_of(8) && (word >= 8 || number.is_multiple_of(2)) {
                bytes.copy_from_slice(&(mix64(random) as u32 >> (random / 8 % 32)).to_le_bytes());
            }
        }
    });
    let (cache, pool) = folder.open();
    assert_eq!(cache.recovered().items, 2 * VICTIMS as u64);
    let outcomes = (0..VICTIMS).flat_map(|i| {
        let ordered_key = [&key(i)[..], b"-ordered"].concat();
        [meddle(&cache, pool, &key(i)), meddle_ordered(&cache, pool, &ordered_key)]
    });
    let refused = outcomes.filter(Result::is_err).count();
    assert!(refused > VICTIMS, "{refused}");
    cache.validate();
}

fn meddle(cache: &Cache, pool: PoolId, key: &[u8]) -> Result<(), millpond::Error> {
    let Some(map) = Map::<u32, [u8]>::open(cache, pool, key)? else { return Ok(()) };
    let results = [
        map.entries().map(drop),
        (0..100).try_for_each(|i| map.get(&i).map(drop)),
        (0..100).try_for_each(|i| map.insert(&i, &[1; 77]).map(drop)),
        (0..100).try_for_each(|i| map.remove(&i).map(drop)),
        map.compact(),
        map.usage().map(drop),
    ];
    results.into_iter().collect()
}

fn meddle_ordered(cache: &Cache, pool: PoolId, key: &[u8]) -> Result<(), millpond::Error> {
    let Some(map) = OrderedMap::<u32, u64>::open(cache, pool, key)? else { return Ok(()) };
    let results = [
        map.range(5..50, 10).map(drop),
        (0..100).try_for_each(|i| map.get(&i).map(drop)),
        (0..100).try_for_each(|i| map.insert(&i, &1).map(drop)),
        (0..100).try_for_each(|i| map.remove(&i).map(drop)),
        map.last().map(drop),
        map.compact(),
    ];
    results.into_iter().collect()
}

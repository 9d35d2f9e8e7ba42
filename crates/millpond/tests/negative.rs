//! Negative caches: what is known to be absent is so until somebody says otherwise, and never after
//! that.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use millpond::negative::{Fingerprint, NegativeCache, NegativeConfig};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ItemOptions, LoadOptions, Loaded, Loader, Origin, Part, PoolConfig,
    PoolId,
};

fn cache() -> (Cache, PoolId, Clock) {
    let clock = Clock::manual(1_000);
    let config = CacheConfig {
        memory: ByteSize::mib(32),
        clock: clock.clone(),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = cache.add_pool(PoolConfig::named("default")).expect("a new name");
    (cache, pool, clock)
}

fn config(fingerprint: Fingerprint) -> NegativeConfig {
    NegativeConfig { fingerprint, hash_seed: Some(3), ..NegativeConfig::new("absent", ByteSize::mib(1)) }
}

fn note(absent: &NegativeCache, key: &[u8]) -> bool {
    absent.note(absent.begin(key))
}

#[test]
fn a_key_is_absent_until_its_time_is_over_or_it_is_voided() {
    for fingerprint in [Fingerprint::Bits64, Fingerprint::Bits128] {
        let (cache, _, clock) = cache();
        let absent = NegativeCache::new(&cache, config(fingerprint)).expect("room");
        assert!(!absent.is_absent(b"a") && note(&absent, b"a") && absent.is_absent(b"a"));
        assert!(absent.note_for(absent.begin(b"b"), Some(10)) && absent.note_for(absent.begin(b"c"), None));
        clock.advance(Duration::from_secs(9));
        assert!([b"a", b"b", b"c"].iter().all(|key| absent.is_absent(*key)));
        clock.advance(Duration::from_secs(1));
        assert!(absent.is_absent(b"a") && !absent.is_absent(b"b") && absent.is_absent(b"c"));
        clock.advance(Duration::from_secs(50));
        assert!(!absent.is_absent(b"a") && !absent.is_absent(b"b") && absent.is_absent(b"c"));
        assert!(absent.void(b"c") && !absent.void(b"c") && !absent.is_absent(b"c"));
        assert!(!absent.note_for(absent.begin(b"d"), Some(0)) || !absent.is_absent(b"d"));
        let stats = absent.stats();
        assert_eq!((stats.expired, stats.voided, stats.refused), (3, 1, 0));
        assert_eq!((stats.hits, stats.noted), (7, 4));
        assert_eq!(stats.entries.entries, 0);
        let each = cache.ledger().part(Part::Compact);
        drop(absent);
        assert!(each > 1 << 20);
        assert_eq!(cache.ledger().part(Part::Compact), 0);
    }
}

#[test]
fn a_void_beats_what_was_asked_before_it() {
    let (cache, _, _) = cache();
    let absent = NegativeCache::new(&cache, config(Fingerprint::Bits64)).expect("room");
    let early = absent.begin(b"key");
    assert!(!absent.void(b"key"));
    let late = absent.begin(b"key");
    assert!(!absent.note(early) && !absent.is_absent(b"key"));
    assert!(absent.note(late) && absent.is_absent(b"key"));
    let (one, other) = (absent.begin(b"one"), absent.begin(b"other"));
    assert!(absent.note(one));
    absent.void_all();
    assert!(!absent.note(other) && !absent.is_absent(b"one") && !absent.is_absent(b"key"));
    assert!(note(&absent, b"other") && absent.is_absent(b"other"));
    assert_eq!(absent.stats().refused, 2);
}

#[test]
fn a_million_keys_are_not_taken_for_those_that_were_noted() {
    let (cache, _, _) = cache();
    for (fingerprint, least) in [(Fingerprint::Bits64, 85_000), (Fingerprint::Bits128, 48_000)] {
        let absent = NegativeCache::new(&cache, config(fingerprint)).expect("room");
        let key = |i: u64| mix64(i).to_le_bytes();
        for i in 0..200_000 {
            note(&absent, &key(i));
        }
        // 12.2 and 21.3 bytes an entry, of 1 MiB.
        let entries = absent.stats().entries.entries;
        assert!((least..least * 11 / 10).contains(&entries), "{entries}");
        let known = (0..200_000).filter(|i| absent.is_absent(&key(*i))).count() as u64;
        assert_eq!(known, entries);
        assert_eq!((200_000..1_200_000).filter(|i| absent.is_absent(&key(*i))).count(), 0);
        absent.resize(ByteSize::kib(512)).expect("less");
        let fewer = absent.stats().entries.entries;
        assert!(fewer < entries * 6 / 10 && fewer > entries * 4 / 10);
    }
}

#[test]
fn nobody_is_told_that_a_key_is_absent_after_it_was_inserted() {
    const KEYS: u64 = 64;
    let (cache, _, _) = cache();
    let absent = NegativeCache::new(&cache, config(Fingerprint::Bits128)).expect("room");
    // Bit 0: the owner has it. The rest counts its insertions and removals.
    let owner: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    // What the owner's word was when the last void of an insertion had returned.
    let said: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let key = |i: u64| i.to_le_bytes();
    let readers: Vec<_> = (0..2)
        .map(|thread| {
            let (absent, owner, said, stop) =
                (absent.clone(), Arc::clone(&owner), Arc::clone(&said), Arc::clone(&stop));
            base::thread::spawn(format!("reader-{thread}"), move || {
                let mut rng = seeded(thread);
                let (mut known, mut noted) = (0_u64, 0_u64);
                while !stop.load(Ordering::Relaxed) {
                    let i = rng.random_range(0..KEYS);
                    let before = said[i as usize].load(Ordering::SeqCst);
                    if absent.is_absent(&key(i)) {
                        known += 1;
                        // There since before the question and until after it: the answer is wrong.
                        let after = owner[i as usize].load(Ordering::SeqCst);
                        assert!(before % 2 == 0 || after != before, "key {i} is there");
                        continue;
                    }
                    let ticket = absent.begin(&key(i));
                    if owner[i as usize].load(Ordering::SeqCst).is_multiple_of(2) {
                        if rng.random_bool(0.1) {
                            std::thread::yield_now();
                        }
                        noted += u64::from(absent.note(ticket));
                    }
                }
                (known, noted)
            })
            .expect("a thread")
        })
        .collect();
    let mut rng = seeded(9);
    // On a busy machine the readers may be late: not before each has something to say, and not for
    // ever.
    let both = |absent: &NegativeCache| {
        let stats = absent.stats();
        stats.hits > 0 && stats.noted > 0
    };
    for round in 0..500_000_000_u64 {
        if round >= 150_000 && round % 1_000 == 0 {
            if both(&absent) {
                break;
            }
            std::thread::yield_now();
        }
        let i = rng.random_range(0..KEYS);
        let now = owner[i as usize].fetch_add(1, Ordering::SeqCst) + 1;
        if now % 2 == 1 {
            absent.void(&key(i));
            said[i as usize].store(now, Ordering::SeqCst);
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (known, noted) = readers
        .into_iter()
        .map(|reader| reader.join().expect("no panic"))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(known > 0 && noted > 0, "{known} {noted}");
    let stats = absent.stats();
    assert_eq!((stats.noted, stats.hits), (noted, known));
}

fn loader() -> (Cache, PoolId, Clock, NegativeCache, Loader) {
    let (cache, pool, clock) = cache();
    let absent = NegativeCache::new(&cache, config(Fingerprint::Bits128)).expect("room");
    let loader = Loader::with_negative_cache(&cache, pool, &absent);
    (cache, pool, clock, absent, loader)
}

fn options() -> LoadOptions {
    LoadOptions {
        fresh_secs: Some(60),
        stale_secs: 30,
        negative_secs: 5,
        wait: None,
        ..LoadOptions::default()
    }
}

fn must_not_run(_: &[u8]) -> io::Result<Loaded> {
    panic!("the answer is known")
}

#[test]
fn a_loader_keeps_what_is_absent_without_an_item() {
    let (cache, pool, clock, absent, loader) = loader();
    let nothing = |_: &[u8]| io::Result::Ok(Loaded::absent());
    let loaded = loader.get_or_load(b"key", &options(), nothing).expect("loads");
    assert!(loaded.value.is_none() && loaded.origin == Origin::Loaded);
    assert_eq!((cache.stats().index_entries, absent.stats().entries.entries), (0, 1));
    let known = loader.get_or_load(b"key", &options(), must_not_run).expect("known");
    assert!(known.value.is_none() && known.origin == Origin::Fresh);
    assert!(loader.find(b"key", &options()).expect("known").value.is_none());
    clock.advance(Duration::from_secs(5));
    assert!(loader.find(b"key", &options()).is_none(), "its time is over");
    // Of what is not to be kept, nothing is.
    let loaded = loader.get_or_load(b"key", &options(), |_| io::Result::Ok(Loaded::absent().not_kept()));
    assert!(loaded.expect("loads").value.is_none() && loader.find(b"key", &options()).is_none());
    // Put as absent, for a time of its own; then put with a value; then found to be absent once
    // more.
    loader.put(b"key", &options(), &Loaded::absent().fresh_for(100)).expect("noted");
    clock.advance(Duration::from_secs(99));
    assert!(loader.find(b"key", &options()).expect("known").value.is_none());
    loader.put(b"key", &options(), &Loaded::value("v")).expect("room");
    assert!(!absent.is_absent(b"key"));
    assert_eq!(loader.find(b"key", &options()).and_then(|found| found.value).as_deref(), Some(&b"v"[..]));
    clock.advance(Duration::from_secs(70));
    let loaded = loader.get_or_load(b"key", &options(), nothing).expect("loads anew what is stale");
    assert!(loaded.value.is_none() && absent.is_absent(b"key"));
    assert_eq!(cache.stats().index_entries, 0, "the stale value went");
    assert!(loader.remove(b"key") && !loader.remove(b"key") && !absent.is_absent(b"key"));
    // The stale value expires in the meantime.
    loader.put(b"key", &options(), &Loaded::value("v")).expect("room");
    clock.advance(Duration::from_secs(70));
    let loaded = loader.get_or_load(b"key", &options(), |_| {
        clock.advance(Duration::from_secs(100));
        assert!(cache.keys(pool).find(b"key").is_none());
        io::Result::Ok(Loaded::absent())
    });
    assert!(loaded.expect("loads").value.is_none() && absent.is_absent(b"key"));
    loader.put(b"key", &options(), &Loaded::absent()).expect("noted");
    loader.flush();
    assert!(loader.find(b"key", &options()).is_none());
    assert_eq!(loader.stats().overtaken, 0);
}

#[test]
fn what_is_written_while_a_loader_finds_nothing_is_not_lost() {
    let (cache, pool, _, absent, loader) = loader();
    type Write = fn(&Cache, PoolId, &NegativeCache, &Loader);
    let writes: [Write; 3] = [
        |_, _, _, loader| loader.put(b"key", &options(), &Loaded::value("new")).expect("room"),
        |_, _, _, loader| assert!(!loader.remove(b"key")),
        // Past the loader.
        |cache, pool, absent, _| {
            let mut item = cache.allocate(pool, b"key", 3, &ItemOptions::default()).expect("room");
            item.value_mut().copy_from_slice(b"new");
            cache.put(item);
            absent.void(b"key");
            cache.remove(b"key");
        },
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let meet = Arc::new(Barrier::new(2));
        let load = {
            let (loader, meet) = (loader.clone(), Arc::clone(&meet));
            base::thread::spawn("load", move || {
                let loaded = loader.get_or_load(b"key", &options(), |_| {
                    meet.wait();
                    meet.wait();
                    io::Result::Ok(Loaded::absent())
                });
                loaded.expect("loads").value.is_none()
            })
            .expect("a thread")
        };
        meet.wait();
        write(&cache, pool, &absent, &loader);
        meet.wait();
        assert!(load.join().expect("no panic"), "who asked first is told what was found");
        assert!(!absent.is_absent(b"key"), "write {number}");
        assert_eq!(loader.stats().overtaken, number as u64 + 1);
        loader.remove(b"key");
    }
}

#[test]
fn loaders_and_writers_agree_with_their_owner() {
    const KEYS: u64 = 40;
    let (cache, _, _, absent, loader) = loader();
    // The owner's versions: even = absent.
    let owner: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    let said: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    let workers: Vec<_> = (0..3_u64)
        .map(|thread| {
            let (loader, owner, said) = (loader.clone(), Arc::clone(&owner), Arc::clone(&said));
            base::thread::spawn(format!("worker-{thread}"), move || {
                let mut rng = seeded(thread);
                let mut origins = HashSet::new();
                for _ in 0..15_000 {
                    // Each thread writes to keys of its own and reads all.
                    let i = rng.random_range(0..KEYS);
                    let (key, at) = (i.to_le_bytes(), i as usize);
                    if i % 3 == thread && rng.random_bool(0.3) {
                        let now = owner[at].fetch_add(1, Ordering::SeqCst) + 1;
                        if now % 2 == 1 && rng.random_bool(0.5) {
                            let value = Loaded::value(now.to_le_bytes());
                            loader.put(&key, &options(), &value).expect("room");
                        } else {
                            loader.remove(&key);
                        }
                        said[at].store(now, Ordering::SeqCst);
                        continue;
                    }
                    let before = said[at].load(Ordering::SeqCst);
                    let read = |_: &[u8]| {
                        let now = owner[at].load(Ordering::SeqCst);
                        io::Result::Ok(if now % 2 == 1 {
                            Loaded::value(now.to_le_bytes())
                        } else {
                            Loaded::absent()
                        })
                    };
                    let found = loader.get_or_load(&key, &options(), read).expect("loads");
                    origins.insert(found.origin);
                    let after = owner[at].load(Ordering::SeqCst);
                    match found.value {
                        Some(value) => {
                            let seen = u64::from_le_bytes(value[..].try_into().expect("eight bytes"));
                            assert!((before..=after).contains(&seen), "{seen} is not of {before}..={after}");
                        }
                        None => assert!(before != after || before % 2 == 0, "key {i} is there: {before}"),
                    }
                }
                origins
            })
            .expect("a thread")
        })
        .collect();
    let origins: HashSet<_> =
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect();
    assert!(origins.contains(&Origin::Fresh) && origins.contains(&Origin::Loaded));
    assert!(absent.stats().hits > 0 && cache.stats().index_entries > 0);
    cache.validate();
}

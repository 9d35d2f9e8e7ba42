//! Events, latencies and changes of a cache at work.

#[path = "watch/changes.rs"]
mod changes;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::rng::{RngExt as _, seeded};
use base::thread::spawn;
use millpond::watch::{
    Event, EventConfig, EventKind, EventReader, EventResult, EventThread, HotKeysConfig, Timed,
};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ErrorKind, Expiry, ItemOptions, Part, PoolConfig, PoolId,
};

fn cache(clock: &Clock) -> (Cache, PoolId) {
    let config = CacheConfig {
        memory: ByteSize::mib(32),
        clock: clock.clone(),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool =
        cache.add_pool(PoolConfig { own_keys: false, ..PoolConfig::named("default") }).expect("a new name");
    (cache, pool)
}

fn put(cache: &Cache, pool: PoolId, key: &[u8], value: &[u8], expiry: Expiry) -> bool {
    let options = ItemOptions { expiry, expirable: true, ..ItemOptions::default() };
    let Ok(mut item) = cache.allocate(pool, key, value.len(), &options) else { return false };
    item.value_mut().copy_from_slice(value);
    cache.put(item);
    true
}

/// An event that owns its key.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    kind: EventKind,
    result: EventResult,
    key: Vec<u8>,
    facts: (Option<u16>, Option<u64>, Option<u32>),
    time_nanos: u64,
}

fn drain(reader: &mut EventReader) -> Vec<Seen> {
    let mut seen = Vec::new();
    reader.drain(&mut |event: &Event<'_>| {
        seen.push(Seen {
            kind: event.kind,
            result: event.result,
            key: event.key.to_vec(),
            facts: (event.pool.map(PoolId::number), event.value_bytes, event.ttl_secs),
            time_nanos: event.time_nanos,
        });
    });
    seen
}

fn all() -> EventConfig {
    EventConfig { one_in: 1, buffer: ByteSize::mib(8) }
}

#[test]
fn every_call_is_an_event_with_what_was_known_of_it() {
    let clock = Clock::manual(1_000_000);
    let (cache, pool) = cache(&clock);
    let mut reader = cache.events(all()).expect("nobody else reads");
    put(&cache, pool, b"a", b"12345", Expiry::After(60));
    clock.advance(Duration::from_secs(10));
    assert!(cache.find(b"a").is_some() && cache.find_with(b"a", |found| found.len()) == Some(5));
    assert!(cache.find(b"b").is_none());
    put(&cache, pool, b"a", b"1234567", Expiry::Never);
    assert!(cache.touch(b"a", Expiry::After(5)) && !cache.touch(b"b", Expiry::After(5)));
    let held = cache.peek(b"a").expect("there");
    let refused = cache.allocate(pool, b"a", 1, &ItemOptions::default()).expect("room");
    assert!(cache.insert(refused).is_err(), "the key has an item");
    drop(held);
    clock.advance(Duration::from_secs(5));
    assert!(!cache.remove(b"a"), "it has expired");
    put(&cache, pool, b"a", b"", Expiry::Never);
    assert!(cache.remove(b"a") && !cache.remove(b"a"));
    assert!(cache.allocate(pool, b"large", 5 << 20, &ItemOptions::default()).is_err());

    use EventKind::{Allocate, Expire, Find, Insert, Remove, Replace, Touch};
    use EventResult::{Done, Miss, Refused};
    let seen = drain(&mut reader);
    let told: Vec<_> =
        seen.iter().map(|event| (event.kind, event.result, event.key.as_slice(), event.facts)).collect();
    let (a, b) = (&b"a"[..], &b"b"[..]);
    assert_eq!(
        told,
        [
            (Allocate, Done, a, (Some(0), Some(5), Some(60))),
            (Insert, Done, a, (Some(0), Some(5), Some(60))),
            (Find, Done, a, (Some(0), Some(5), Some(50))),
            (Find, Done, a, (Some(0), Some(5), Some(50))),
            (Find, Miss, b, (None, None, None)),
            (Allocate, Done, a, (Some(0), Some(7), None)),
            (Replace, Done, a, (Some(0), Some(7), None)),
            (Touch, Done, a, (Some(0), Some(7), Some(5))),
            (Touch, Miss, b, (None, None, None)),
            (Allocate, Done, a, (Some(0), Some(1), None)),
            (Insert, Refused, a, (Some(0), Some(1), None)),
            (Expire, Done, a, (Some(0), Some(7), Some(0))),
            (Remove, Miss, a, (None, None, None)),
            (Allocate, Done, a, (Some(0), Some(0), None)),
            (Insert, Done, a, (Some(0), Some(0), None)),
            (Remove, Done, a, (Some(0), Some(0), None)),
            (Remove, Miss, a, (None, None, None)),
            (Allocate, Refused, &b"large"[..], (Some(0), Some(5 << 20), None)),
        ]
    );
    let secs: HashSet<u64> = seen.iter().map(|event| event.time_nanos / 1_000_000_000).collect();
    assert_eq!(secs, HashSet::from([1_000_000, 1_000_010, 1_000_015]));
    assert_eq!(drain(&mut reader), [], "what was read is gone");
}

#[test]
fn batches_are_events_too() {
    let (cache, pool) = cache(&Clock::System);
    put(&cache, pool, b"a", b"1", Expiry::Never);
    let mut reader = cache.events(all()).expect("nobody else reads");
    let keys: Vec<&[u8]> = [&b"a"[..]; 20].into_iter().chain([&b"b"[..]; 20]).collect();
    let found = |events: Vec<Seen>| {
        let done = events.iter().filter(|event| event.result == EventResult::Done).count();
        (events.iter().all(|event| event.kind == EventKind::Find), done, events.len() - done)
    };
    cache.keys(pool).find_many_with(&keys, |_, _| {});
    assert_eq!(found(drain(&mut reader)), (true, 20, 20));
    cache.keys(pool).find_many(&keys, &mut Vec::new());
    assert_eq!(found(drain(&mut reader)), (true, 20, 20));
}

/// Drives a small cache at random, so that it evicts and expires. Returns how often each key was
/// inserted.
fn drive(cache: &Cache, pool: PoolId, clock: &Clock, steps: u32, seed: u64) -> HashMap<u32, u64> {
    let mut rng = seeded(seed);
    let mut inserted = HashMap::new();
    for step in 0..steps {
        let number = rng.random_range(0..60_000_u32);
        let key = number.to_le_bytes();
        match rng.random_range(0..10_u32) {
            0..5 => {
                let expiry = if number.is_multiple_of(4) { Expiry::After(3) } else { Expiry::Never };
                assert!(put(cache, pool, &key, &[7; 900], expiry));
                *inserted.entry(number).or_default() += 1;
            }
            5..9 => drop(cache.find_with(&key, |found| found.len())),
            _ => drop(cache.remove(&key)),
        }
        if step % 5_000 == 0 {
            clock.advance(Duration::from_secs(1));
            cache.maintain().expect("nothing is held");
        }
    }
    inserted
}

#[test]
fn the_events_of_all_keys_add_up_to_the_statistics() {
    let clock = Clock::manual(1_000_000);
    let (cache, pool) = cache(&clock);
    let mut reader =
        cache.events(EventConfig { one_in: 1, buffer: ByteSize::mib(2) }).expect("nobody else reads");
    let (mut kinds, mut alive, mut recorded) =
        (HashMap::<(EventKind, EventResult), u64>::new(), HashSet::new(), 0);
    for seed in 0..40 {
        drive(&cache, pool, &clock, 5_000, seed);
        for event in drain(&mut reader) {
            *kinds.entry((event.kind, event.result)).or_default() += 1;
            recorded += 1;
            if event.result == EventResult::Miss {
                assert!(
                    !alive.contains(&event.key) || event.kind != EventKind::Find,
                    "a miss of what is there"
                );
                continue;
            }
            match event.kind {
                EventKind::Insert => assert!(alive.insert(event.key), "an insertion of what is there"),
                EventKind::Replace | EventKind::Find => assert!(alive.contains(&event.key), "{event:?}"),
                EventKind::Remove | EventKind::Evict | EventKind::Expire => {
                    assert!(alive.remove(&event.key), "{event:?} of what is not there");
                }
                EventKind::Allocate | EventKind::Touch => {}
            }
        }
    }
    let stats = cache.stats();
    let pool = &stats.pools[0];
    let count = |kind| kinds.get(&(kind, EventResult::Done)).copied().unwrap_or(0);
    assert_eq!(count(EventKind::Insert) + count(EventKind::Replace), pool.sum(|class| class.inserts));
    assert_eq!(count(EventKind::Replace), pool.sum(|class| class.replaced));
    assert_eq!(count(EventKind::Find), pool.sum(|class| class.hits));
    assert_eq!(count(EventKind::Remove), pool.sum(|class| class.removed));
    assert_eq!(count(EventKind::Evict), pool.sum(|class| class.evictions));
    assert_eq!(count(EventKind::Expire), pool.sum(|class| class.expired));
    assert_eq!(kinds[&(EventKind::Find, EventResult::Miss)], stats.shared_misses);
    assert!(count(EventKind::Evict) > 1_000 && count(EventKind::Expire) > 100, "{kinds:?}");
    assert_eq!(alive.len() as u64, pool.sum(|class| class.items));
    assert_eq!(cache.event_stats().map(|stats| (stats.recorded, stats.dropped)), Some((recorded, 0)));
}

#[test]
fn of_a_sampled_key_every_event_is_seen_and_of_others_none() {
    let clock = Clock::manual(1_000_000);
    let (cache, pool) = cache(&clock);
    let mut reader = cache.events(EventConfig { one_in: 16, ..all() }).expect("nobody else reads");
    let mut sampled_at_64 = HashSet::new();
    for one_in in [16, 64, 4] {
        assert!(cache.set_events_one_in(one_in));
        let inserted = drive(&cache, pool, &clock, 60_000, u64::from(one_in));
        let mut seen = HashMap::<u32, u64>::new();
        for event in drain(&mut reader) {
            if matches!(event.kind, EventKind::Insert | EventKind::Replace) {
                let number = u32::from_le_bytes(event.key.try_into().expect("four bytes"));
                *seen.entry(number).or_default() += 1;
            }
        }
        assert!(seen.iter().all(|(number, times)| inserted[number] == *times), "1 in {one_in}");
        let share = inserted.len() / seen.len();
        assert!(
            share > one_in as usize * 3 / 4 && share < one_in as usize * 4 / 3,
            "1 in {share} for {one_in}"
        );
        let seen: HashSet<u32> = seen.into_keys().collect();
        if one_in == 64 {
            sampled_at_64 = seen;
        } else if one_in == 4 {
            let lost =
                sampled_at_64.iter().filter(|key| inserted.contains_key(key) && !seen.contains(key)).count();
            assert_eq!(lost, 0, "a higher rate samples what a lower one does");
        }
    }
    assert!(cache.set_events_one_in(0));
    drive(&cache, pool, &clock, 1_000, 9);
    assert_eq!(drain(&mut reader), []);
}

#[test]
fn a_full_buffer_drops_and_counts() {
    let (cache, pool) = cache(&Clock::System);
    put(&cache, pool, b"first", b"", Expiry::Never);
    let before = cache.ledger().part(Part::Fixed);
    let mut reader =
        cache.events(EventConfig { one_in: 1, buffer: ByteSize::kib(4) }).expect("nobody else reads");
    assert_eq!(cache.ledger().part(Part::Fixed), before + (8 << 10));
    assert_eq!(cache.events(all()).map(drop).expect_err("one reader").kind(), ErrorKind::Config);
    for _ in 0..1_000 {
        cache.find(b"four");
    }
    let stats = cache.event_stats().expect("somebody reads");
    assert_eq!((stats.recorded, stats.dropped), (4_096 / 36, 1_000 - 4_096 / 36));
    assert_eq!(drain(&mut reader).len() as u64, stats.recorded);
    put(&cache, pool, b"a", b"", Expiry::Never);
    assert_eq!(drain(&mut reader).len(), 2);
    drop(reader);
    assert_eq!((cache.ledger().part(Part::Fixed), cache.event_stats()), (before, None));
    assert!(!cache.set_events_one_in(1));
    let small = EventConfig { one_in: 1, buffer: ByteSize::new(100) };
    assert_eq!(cache.events(small).map(drop).expect_err("no event fits").kind(), ErrorKind::Config);
    drop(cache.events(all()).expect("nobody reads any more"));
}

#[test]
fn a_sink_may_call_the_cache_while_threads_work_on_it() {
    let (cache, pool) = cache(&Clock::System);
    let reader =
        cache.events(EventConfig { one_in: 2, buffer: ByteSize::kib(64) }).expect("nobody else reads");
    let seen = std::sync::Arc::new(AtomicU64::new(0));
    let (theirs, called) = (std::sync::Arc::clone(&seen), cache.clone());
    let sink = move |event: &Event<'_>| {
        // Events of its own, evictions and locks of classes among them.
        if theirs.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
            put(&called, pool, b"of the sink", event.key, Expiry::Never);
            called.find(event.key);
        }
    };
    let thread = EventThread::start(reader, sink, Duration::from_millis(1)).expect("a thread");
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|seed| {
            let (cache, stop) = (cache.clone(), std::sync::Arc::clone(&stop));
            spawn("work", move || {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    drive(&cache, pool, &Clock::manual(1), 1_000, seed + 100 * round);
                    round += 1;
                }
            })
            .expect("a thread")
        })
        .collect();
    for one_in in [1, 100, 3, 0, 2] {
        base::thread::sleep(Duration::from_millis(150));
        cache.set_events_one_in(one_in);
        cache.time_calls(one_in).expect("room");
    }
    stop.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    let recorded = cache.event_stats().expect("still on").recorded;
    // The sink is itself recorded; it must have seen at least what there was when the others
    // stopped.
    assert!(thread.stop().is_some(), "no panic");
    assert!(recorded > 10_000 && seen.load(Ordering::Relaxed) >= recorded);
    cache.validate();
}

#[test]
fn calls_are_timed_by_the_cache_s_clock_and_without_what_the_caller_does() {
    let clock = Clock::manual(1_000_000);
    let (cache, pool) = cache(&clock);
    put(&cache, pool, b"a", b"1", Expiry::Never);
    assert!(cache.latencies().is_empty());
    cache.time_calls(1).expect("room");
    let slow = || clock.advance(Duration::from_millis(1));
    for _ in 0..10 {
        cache.find(b"a");
        cache.find_with(b"a", |_| slow());
        cache.find_with(b"none", |_| slow());
        cache.keys(pool).find_many_with(&[b"a", b"b", b"a"], |_, _| slow());
        cache.keys(pool).find_many(&[b"a", b"b"], &mut Vec::new());
        put(&cache, pool, b"a", b"1", Expiry::Never);
        cache.remove(b"none");
    }
    let samples: Vec<u64> = cache.latencies().iter().map(|latency| latency.samples).collect();
    assert_eq!(samples, [80, 10, 10, 10]);
    assert!(cache.latencies().iter().all(|latency| latency.max_nanos == 0), "time stood still in the calls");
    cache.time_calls(0).expect("off");
    cache.find(b"a");
    assert_eq!(
        cache.latencies()[Timed::Find as usize].samples,
        80,
        "what was measured stays until it is on again"
    );
    cache.time_calls(100).expect("on");
    assert_eq!(cache.latencies()[Timed::Find as usize].samples, 0);
    for _ in 0..100_000 {
        cache.find(b"a");
    }
    let sampled = cache.latencies()[Timed::Find as usize].samples;
    assert!((680..1_320).contains(&sampled), "{sampled} of 100,000 at 1 in 100");
}

#[test]
fn real_calls_take_real_time() {
    let (cache, pool) = cache(&Clock::System);
    cache.time_calls(1).expect("room");
    for number in 0..20_000_u32 {
        put(&cache, pool, &number.to_le_bytes(), &[1; 500], Expiry::Never);
        cache.find(&number.to_le_bytes());
    }
    for latency in cache.latencies().into_iter().filter(|latency| latency.what != Timed::Remove) {
        assert_eq!(latency.samples, 20_000);
        assert!(latency.p50_nanos > 0 && latency.p50_nanos <= latency.p90_nanos);
        assert!(latency.p90_nanos <= latency.p99_nanos && latency.p9999_nanos <= latency.max_nanos);
        assert!(latency.mean_nanos * 20_000 <= latency.sum_nanos);
    }
}

/// Four threads make 200,000 finds among 5,000 keys.
fn find_unevenly(cache: &Cache, pool: PoolId) {
    let workers: Vec<_> = (0..4_u64)
        .map(|seed| {
            let cache = cache.clone();
            let work = move || {
                let mut rng = seeded(seed);
                for round in 0..50_000_u32 {
                    // Half of all finds are of 20 keys, the more the lower their number.
                    let number = if round % 2 == 0 {
                        (rng.random_range(0.0..1.0_f64).powi(2) * 20.0) as u32
                    } else {
                        rng.random_range(0..5_000)
                    };
                    let key = number.to_le_bytes();
                    match round % 3 {
                        0 => drop(cache.find(&key)),
                        1 => drop(cache.find_with(&key, |_| ())),
                        _ => cache.keys(pool).find_many_with(&[&key[..], b"none"], |_, _| ()),
                    }
                }
            };
            spawn("find", work).expect("a thread")
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
}

#[test]
fn hot_keys_are_found_while_threads_find_them() {
    let (cache, pool) = cache(&Clock::System);
    let other =
        cache.add_pool(PoolConfig { own_keys: true, ..PoolConfig::named("other") }).expect("a new name");
    for number in 0..5_000_u32 {
        put(&cache, pool, &number.to_le_bytes(), &[1; 100], Expiry::Never);
    }
    assert!(cache.hot_keys(pool, 10).expect("a pool").is_empty(), "off at the start");
    let before = cache.ledger().part(Part::Fixed);
    let config = HotKeysConfig { one_in: 8, ..HotKeysConfig::default() };
    cache.set_hot_keys(pool, Some(config)).expect("room");
    assert!(cache.ledger().part(Part::Fixed) > before);
    find_unevenly(&cache, pool);
    let hot = cache.hot_keys(pool, 20).expect("a pool");
    let numbers: Vec<u32> =
        hot.iter().map(|hot| u32::from_le_bytes(hot.key[..].try_into().expect("four bytes"))).collect();
    assert_eq!(numbers[..2], [0, 1], "{numbers:?}");
    assert!(numbers.iter().all(|number| *number < 20), "{numbers:?}");
    // Key 0 has sqrt(1/20) of the half of 200,000 finds; samples that met another thread's are left
    // out, and are many where that one was put to sleep.
    let wanted = 100_000.0 * (1.0_f64 / 20.0).sqrt();
    assert!(
        (0.1 * wanted..1.2 * wanted).contains(&(hot[0].accesses as f64)),
        "{} for {wanted}",
        hot[0].accesses
    );
    assert!((0.09..0.14).contains(&hot[0].share), "{}", hot[0].share);
    assert!(cache.hot_keys(other, 10).expect("a pool").is_empty(), "that pool was not asked for");

    cache.set_hot_keys(other, Some(HotKeysConfig { one_in: 1, ..config })).expect("room");
    for _ in 0..100 {
        assert!(cache.keys(other).find(b"none").is_none());
        cache.find(b"none");
    }
    let hot = cache.hot_keys(other, 10).expect("a pool");
    assert_eq!(
        (hot.len(), &hot[0].key[..], hot[0].accesses),
        (1, &b"none"[..], 100),
        "misses of its own keys"
    );
    assert_eq!(
        cache.set_hot_keys(other, Some(HotKeysConfig { keys: 0, ..config })).expect_err("none").kind(),
        ErrorKind::Config
    );
    cache.set_hot_keys(pool, None).expect("off");
    assert!(cache.hot_keys(pool, 10).expect("a pool").is_empty());
    let with_other = cache.ledger().part(Part::Fixed);
    assert!(cache.remove_pool(other).expect("a pool").is_gone);
    assert!(cache.ledger().part(Part::Fixed) < with_other, "what its hot keys took is given back");
    assert_eq!(cache.hot_keys(other, 1).expect_err("removed").kind(), ErrorKind::NoSuchPool);
}

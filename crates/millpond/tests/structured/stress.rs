//! Many threads and one structure: no change is lost, none is seen in part, and the lost structure
//! is a clear answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use millpond::structured::{Array, Map, OrderedMap, StructureOptions};
use millpond::{Cache, Clock, ErrorKind, Expiry, PoolId};

use super::{cache, cache_of, defaults, put};

fn spawn<T: Send + 'static>(name: String, body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    base::thread::spawn(name, body).expect("a thread")
}

/// A value that says of itself whether it is whole.
pub(crate) fn value(key: u32, round: u32) -> Vec<u8> {
    let len = mix64(u64::from(key) << 32 | u64::from(round)) % 60;
    let mut value = vec![(key ^ round) as u8; len as usize];
    value.extend(key.to_le_bytes());
    value.extend(round.to_le_bytes());
    value
}

pub(crate) fn round_of(key: u32, bytes: &[u8]) -> u32 {
    let round = u32::from_le_bytes(*bytes.last_chunk().expect("long enough"));
    assert_eq!(bytes, value(key, round), "a torn value, or one of another key");
    round
}

/// Looks at the map from outside until it is told to stop.
fn onlooker(cache: Cache, pool: PoolId, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    spawn("onlooker".into(), move || {
        while !stop.load(Ordering::Relaxed) {
            let found = cache.find(b"map").expect("nobody evicts it");
            assert!(found.is_structured() && found.is_empty());
            assert!(cache.touch(b"map", Expiry::After(1_000)));
            assert!(cache.items(pool).expect("a pool").all(|item| item.is_structured()));
            let _ = cache.maintain();
        }
    })
}

#[test]
fn no_change_of_a_growing_map_is_lost_or_seen_in_part() {
    const THREADS: u32 = 3;
    const KEYS: u32 = 700;
    // Each size class that the map grows through takes a slab, and nothing is to be evicted.
    let (cache, pool) = cache_of(256, &Clock::manual(1_000));
    let map = Map::<u32, [u8]>::create(&cache, pool, b"map", &defaults()).expect("room").expect("new");
    let ordered = OrderedMap::<u32, u64>::create(&cache, pool, b"ordered", &defaults());
    let ordered = ordered.expect("room").expect("new");
    let total = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let onlooker = onlooker(cache.clone(), pool, Arc::clone(&stop));
    let workers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (map, ordered, total) = (map.clone(), ordered.clone(), Arc::clone(&total));
            spawn(format!("writer-{thread}"), move || {
                let mut rng = seeded(thread.into());
                // This thread alone writes to keys of its own; all read all of them.
                let mut mine: HashMap<u32, u32> = HashMap::new();
                let mut seen: HashMap<u32, u32> = HashMap::new();
                for round in 0..25_000_u32 {
                    let key = rng.random_range(0..KEYS) * THREADS + thread;
                    let before = mine.get(&key).map(|round| value(key, *round));
                    match rng.random_range(0..10) {
                        0..5 => {
                            assert_eq!(map.insert(&key, &value(key, round)).expect("room"), before);
                            mine.insert(key, round);
                        }
                        5 => {
                            assert_eq!(map.remove(&key).expect("there"), before);
                            mine.remove(&key);
                        }
                        6 => {
                            let by = rng.random_range(1..100_u64);
                            let add = |count: Option<u64>| Some(count.unwrap_or(0) + by);
                            ordered.update(&(round % 50), add).expect("room");
                            total.fetch_add(by, Ordering::Relaxed);
                        }
                        7 => {
                            let entries = ordered.range(10..40, 100).expect("there");
                            assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "torn");
                        }
                        _ => assert_eq!(map.get(&key).expect("there"), before),
                    }
                    let other = rng.random_range(0..KEYS * THREADS);
                    if let Some(bytes) = map.get(&other).expect("there") {
                        // What another thread wrote last never becomes what it wrote before.
                        let round = round_of(other, &bytes);
                        let before = seen.insert(other, round);
                        assert!(before.is_none_or(|before| before <= round), "an old value came back");
                    }
                }
                mine
            })
        })
        .collect();
    let mut model = HashMap::new();
    for worker in workers {
        model.extend(worker.join().expect("no panic"));
    }
    stop.store(true, Ordering::Relaxed);
    onlooker.join().expect("no panic");
    let entries: HashMap<_, _> = map.entries().expect("there").into_iter().collect();
    let expected: HashMap<_, _> = model.into_iter().map(|(key, round)| (key, value(key, round))).collect();
    assert_eq!(entries, expected);
    let sum: u64 = ordered.entries().expect("there").into_iter().map(|(_, count)| count).sum();
    assert_eq!(sum, total.load(Ordering::Relaxed), "an update was lost");
    assert!(cache.peek(b"map").expect("there").expires_at().is_some(), "growth keeps what a touch has set");
    cache.validate();
}

#[test]
fn an_array_is_read_as_it_was_at_one_moment() {
    let (cache, pool) = cache();
    let array = Array::<u64>::create(&cache, pool, b"array", 500, &defaults()).expect("room").expect("new");
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|i| {
            let (array, stop) = (array.clone(), Arc::clone(&stop));
            spawn(format!("reader-{i}"), move || {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let all = array.to_vec().expect("there");
                    assert!(all.iter().all(|element| *element == all[0]), "torn");
                    assert!(all[0] >= last, "time went back");
                    last = all[0];
                }
                last
            })
        })
        .collect();
    for round in 1..=20_000 {
        assert!(array.set_range(0, &[round; 500]).expect("there"));
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().expect("no panic");
    }
    assert_eq!(array.get(499).expect("there"), Some(20_000));
}

#[test]
fn a_structure_that_goes_at_any_moment_is_gone_whole() {
    let (cache, pool) = cache_of(24, &Clock::manual(1_000));
    let made = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..3_u64)
        .map(|thread| {
            let (cache, made) = (cache.clone(), Arc::clone(&made));
            spawn(format!("worker-{thread}"), move || {
                let mut rng = seeded(thread);
                let mut gone = 0_u64;
                for _ in 0..1_500 {
                    let (map, is_new) =
                        match Map::<u64, [u8]>::open_or_create(&cache, pool, b"map", &defaults()) {
                            Ok(map) => map,
                            Err(error) => {
                                // A plain item has the key.
                                assert_eq!(error.kind(), ErrorKind::WrongType);
                                cache.remove(b"map");
                                continue;
                            }
                        };
                    made.fetch_add(u64::from(is_new), Ordering::Relaxed);
                    // Within one lifetime of the map, what this thread has put in stays in.
                    for i in 0..rng.random_range(1..60) {
                        let key = thread << 32 | rng.random_range(0..1_u64 << 30);
                        let len = if i % 8 == 0 { 2_000 } else { 50 };
                        let done = map
                            .insert(&key, &vec![thread as u8; len])
                            .and_then(|_| map.get(&key))
                            .map(|value| assert_eq!(value, Some(vec![thread as u8; len])));
                        if let Err(error) = done {
                            // Or the cache is so full of what others hold that it cannot grow.
                            assert!(matches!(error.kind(), ErrorKind::Gone | ErrorKind::OutOfMemory));
                            gone += u64::from(error.kind() == ErrorKind::Gone);
                            break;
                        }
                    }
                    match rng.random_range(0..40) {
                        0 => drop(cache.remove(b"map")),
                        1 => put(&cache, pool, b"map", 100),
                        2 => cache.keys(pool).flush(),
                        _ => put(&cache, pool, &rng.random_range(0..500_u32).to_le_bytes(), 60_000),
                    }
                }
                gone
            })
        })
        .collect();
    let gone: u64 = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
    assert!(made.load(Ordering::Relaxed) > 50 && gone > 0, "{made:?} {gone}");
    cache.validate();
}

/// Moves slabs within their classes until it is told to stop, and says how many. It may be late:
/// then it goes on, as what was written is there still.
fn move_slabs(cache: &Cache, pool: PoolId, stop: &AtomicBool) -> u32 {
    let (mut moved, mut more) = (0, 1_000);
    while !stop.load(Ordering::Relaxed) || (moved == 0 && more > 0) {
        more -= u32::from(stop.load(Ordering::Relaxed));
        let stats = cache.stats();
        for class in stats.pools[0].classes.iter().filter(|class| class.bytes > 8 << 20) {
            // A refusal means that an item is held.
            moved += u32::from(cache.move_slab(pool, class.number, Some(class.number)).is_ok());
        }
    }
    moved
}

#[test]
fn what_is_moved_while_it_is_written_to_loses_nothing() {
    const MAPS: u64 = 120;
    let (cache, pool) = cache();
    let stop = Arc::new(AtomicBool::new(false));
    let mover = {
        let (cache, stop) = (cache.clone(), Arc::clone(&stop));
        spawn("mover".into(), move || move_slabs(&cache, pool, &stop))
    };
    let workers: Vec<_> =
        (0..2_u64)
            .map(|thread| {
                let cache = cache.clone();
                spawn(format!("worker-{thread}"), move || {
                    let mut rng = seeded(thread);
                    let mut lives: Vec<_> = (0..MAPS).map(|_| None).collect();
                    let mut gone = 0_u64;
                    for round in 0..40_000_u32 {
                        let number = rng.random_range(0..MAPS);
                        let key = (thread * MAPS + number).to_le_bytes();
                        let life = &mut lives[number as usize];
                        if life.is_none() {
                            let options = StructureOptions { entries: 6_000, ..defaults() };
                            match OrderedMap::<u32, u64>::create(&cache, pool, &key, &options) {
                                Ok(map) => *life = Some((map.expect("new"), BTreeMap::new())),
                                // The slab that leaves was the last with room.
                                Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory),
                            }
                        }
                        let Some((map, model)) = life else { continue };
                        let entry = rng.random_range(0..200);
                        let outcome =
                            if rng.random_bool(0.7) {
                                map.insert(&entry, &round.into())
                                    .map(|old| assert_eq!(old, model.insert(entry, u64::from(round))))
                            } else {
                                map.range(entry.., 20).map(|entries| {
                                    assert!(entries.iter().copied().eq(
                                        model.range(entry..).map(|(key, value)| (*key, *value)).take(20)
                                    ));
                                })
                            };
                        if let Err(error) = outcome {
                            // Held in the one moment and not in the next, it is evicted with its
                            // slab.
                            assert_eq!(error.kind(), ErrorKind::Gone);
                            gone += 1;
                            *life = None;
                        }
                    }
                    gone
                })
            })
            .collect();
    let gone: u64 = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
    stop.store(true, Ordering::Relaxed);
    let moved = mover.join().expect("no panic");
    assert!(moved > 0, "no slab was ever moved");
    assert!(gone < 20_000, "{gone}: most of what is written is to stay");
    cache.validate();
}

#[test]
fn what_is_written_while_the_map_is_copied_is_in_the_copy() {
    const COPIES: u64 = 1_000;
    let (cache, pool) = cache_of(256, &Clock::manual(1_000));
    let map = Map::<u32, u64>::create(&cache, pool, b"map", &defaults()).expect("room").expect("new");
    let copies = Arc::new(AtomicU64::new(0));
    let copier = {
        let (map, copies) = (map.clone(), Arc::clone(&copies));
        spawn("copier".into(), move || {
            while copies.fetch_add(1, Ordering::Relaxed) < COPIES {
                map.compact().expect("room");
            }
        })
    };
    let writers: Vec<_> = (0..2)
        .map(|thread| {
            let (map, copies) = (map.clone(), Arc::clone(&copies));
            spawn(format!("writer-{thread}"), move || {
                let mut round = 0;
                while copies.load(Ordering::Relaxed) < COPIES || round < 100 {
                    let key = (round % 20) as u32 * 2 + thread;
                    let before = (round >= 20).then(|| round - 20);
                    assert_eq!(map.insert(&key, &round).expect("room"), before, "a change was lost");
                    round += 1;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    copier.join().expect("no panic");
    assert_eq!(map.len().expect("there"), 40);
    cache.validate();
}

#[test]
fn what_was_read_before_another_thread_wrote_is_read_again() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 15_000;
    let (cache, pool) = cache_of(256, &Clock::manual(1_000));
    let map = Map::<u32, u64>::create(&cache, pool, b"map", &defaults()).expect("room").expect("new");
    let ordered = OrderedMap::<u64, u64>::create(&cache, pool, b"ordered", &defaults());
    let ordered = ordered.expect("room").expect("new");
    let array = Array::<u64>::create(&cache, pool, b"array", 2, &defaults()).expect("room").expect("new");
    let workers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (map, ordered, array) = (map.clone(), ordered.clone(), array.clone());
            spawn(format!("worker-{thread}"), move || {
                for round in 0..ROUNDS {
                    map.update(&((round % 3) as u32), |count| Some(count.unwrap_or(0) + 1)).expect("room");
                    array.update(1, |count| count + 1).expect("there");
                    // New keys before, between and behind those of the others, and some of them
                    // away again.
                    let key = mix64(round) % 500 * THREADS + thread;
                    ordered.insert(&key, &round).expect("room");
                    if round % 4 == 0 {
                        assert_eq!(ordered.remove(&key).expect("there"), Some(round));
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("no panic");
    }
    let sum: u64 = map.entries().expect("there").into_iter().map(|(_, count)| count).sum();
    assert_eq!((sum, array.to_vec().expect("there")), (THREADS * ROUNDS, vec![0, THREADS * ROUNDS]));
    let entries = ordered.entries().expect("there");
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
    for thread in 0..THREADS {
        // Each thread alone wrote to its keys, all in the same order.
        let mine = entries.iter().filter(|(key, _)| key % THREADS == thread);
        let mine: Vec<_> = mine.map(|(key, round)| (key / THREADS, *round)).collect();
        let mut expected = BTreeMap::new();
        for round in 0..ROUNDS {
            expected.insert(mix64(round) % 500, round);
            if round % 4 == 0 {
                expected.remove(&(mix64(round) % 500));
            }
        }
        assert_eq!(mine, expected.into_iter().collect::<Vec<_>>());
    }
    cache.validate();
}

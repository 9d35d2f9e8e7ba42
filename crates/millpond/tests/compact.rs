//! Compact caches: against a model of their order of use, while their size changes, and with many
//! threads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use millpond::compact::{CompactCache, CompactConfig};
use millpond::{ByteSize, Cache, CacheConfig, Clock, ErrorKind, ItemOptions, Part, PoolConfig};
use proptest::prelude::*;

fn cache(mib: u64) -> Cache {
    let config = CacheConfig {
        memory: ByteSize::mib(mib),
        max_memory: Some(ByteSize::mib(256)),
        clock: Clock::manual(1_000),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    Cache::new(config).expect("a valid configuration")
}

fn config(memory: ByteSize) -> CompactConfig {
    CompactConfig { hash_seed: Some(7), ..CompactConfig::new("compact", memory) }
}

fn numbers(cache: &Cache, memory: ByteSize) -> CompactCache<u64, u64> {
    CompactCache::new(cache, config(memory)).expect("room")
}

#[derive(Clone, Debug)]
enum Op {
    Get(u8),
    Peek(u8),
    Set(u8, u64),
    Insert(u8, u64),
    Remove(u8),
    Update(u8, u64),
    Retain(u64),
    Purge,
}

/// One bucket as it is documented: entries in the order of their use.
#[derive(Default)]
struct Model {
    entries: Vec<(u64, u64)>,
    evicted: u64,
}

impl Model {
    const MOST: usize = 15;

    fn at(&self, key: u64) -> Option<usize> {
        self.entries.iter().position(|entry| entry.0 == key)
    }

    fn value(&self, key: u64) -> Option<u64> {
        self.at(key).map(|at| self.entries[at].1)
    }

    fn promote(&mut self, at: usize) {
        let entry = self.entries.remove(at);
        self.entries.insert(0, entry);
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        let value = self.value(key);
        if let Some(at) = self.at(key).filter(|at| *at >= Self::MOST / 2) {
            self.promote(at);
        }
        value
    }

    fn set(&mut self, key: u64, value: u64) -> Option<u64> {
        let old = self.value(key);
        if let Some(at) = self.at(key) {
            self.entries[at].1 = value;
            self.promote(at);
        } else {
            self.entries.insert(0, (key, value));
            self.evicted += u64::from(self.entries.len() > Self::MOST);
            self.entries.truncate(Self::MOST);
        }
        old
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        self.at(key).map(|at| self.entries.remove(at).1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_bucket_is_a_list_in_the_order_of_use(ops in prop::collection::vec(prop_oneof![
        4 => (0..25_u8).prop_map(Op::Get),
        1 => (0..25_u8).prop_map(Op::Peek),
        6 => (0..25_u8, any::<u64>()).prop_map(|(key, value)| Op::Set(key, value)),
        2 => (0..25_u8, any::<u64>()).prop_map(|(key, value)| Op::Insert(key, value)),
        1 => (0..25_u8).prop_map(Op::Remove),
        2 => (0..25_u8, any::<u64>()).prop_map(|(key, value)| Op::Update(key, value)),
        1 => (2..9_u64).prop_map(Op::Retain),
        1 => Just(Op::Purge),
    ], 0..400)) {
        let cache = cache(16);
        let bucket = numbers(&cache, ByteSize::new(256));
        prop_assert_eq!(bucket.stats().capacity, Model::MOST as u64);
        let mut model = Model::default();
        for op in ops {
            match op {
                Op::Get(key) => prop_assert_eq!(bucket.get(&key.into()), model.get(key.into())),
                Op::Peek(key) => {
                    prop_assert_eq!(bucket.peek(&key.into()), model.value(key.into()));
                    prop_assert_eq!(bucket.contains(&key.into()), model.at(key.into()).is_some());
                }
                Op::Set(key, value) => {
                    prop_assert_eq!(bucket.set(&key.into(), &value), model.set(key.into(), value));
                }
                Op::Insert(key, value) => {
                    let old = model.value(key.into());
                    prop_assert_eq!(bucket.insert(&key.into(), &value), old);
                    if old.is_none() {
                        model.set(key.into(), value);
                    }
                }
                Op::Remove(key) => {
                    prop_assert_eq!(bucket.remove(&key.into()), model.remove(key.into()));
                }
                Op::Update(key, value) => {
                    let new = |old: Option<u64>| (!value.is_multiple_of(3)).then_some(old.unwrap_or(1) ^ value);
                    let old = model.value(key.into());
                    prop_assert_eq!(bucket.update(&key.into(), new), old);
                    match new(old) {
                        Some(new) => drop(model.set(key.into(), new)),
                        None => drop(model.remove(key.into())),
                    }
                }
                Op::Retain(by) => {
                    bucket.retain(|key, _| !key.is_multiple_of(by));
                    model.entries.retain(|entry| !entry.0.is_multiple_of(by));
                }
                Op::Purge => {
                    bucket.purge();
                    model.entries.clear();
                }
            }
            prop_assert_eq!(bucket.iter().collect::<Vec<_>>(), &model.entries[..]);
            prop_assert_eq!(bucket.stats().evictions, model.evicted);
        }
        bucket.validate();
    }
}

/// Keys and values that are not whole words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, millpond::structured::Pod, millpond::structured::Zeroable)]
#[bytemuck(crate = "millpond::structured::bytemuck")]
#[repr(C)]
struct Odd([u8; 5]);

#[test]
fn keys_and_values_have_any_size() {
    let cache = cache(16);
    let odd = CompactCache::<Odd, [u8; 3]>::new(&cache, config(ByteSize::mib(1))).expect("room");
    let set = CompactCache::<u64, ()>::new(&cache, config(ByteSize::mib(1))).expect("room");
    let large = CompactCache::<[u64; 20], [u64; 50]>::new(&cache, config(ByteSize::mib(2))).expect("room");
    for i in 0..500_u64 {
        let key = Odd(mix64(i).to_le_bytes()[..5].try_into().expect("five"));
        assert_eq!((odd.set(&key, &[i as u8; 3]), odd.get(&key)), (None, Some([i as u8; 3])));
        assert_eq!((set.get(&i), set.set(&i, &()), set.get(&i)), (None, None, Some(())));
        assert_eq!((large.set(&[i; 20], &[i; 50]), large.get(&[i; 20])), (None, Some([i; 50])));
    }
    assert!(odd.iter().all(|(key, value)| odd.peek(&key) == Some(value)));
    assert_eq!((odd.iter().count(), set.iter().count(), large.iter().count()), (500, 500, 500));
    assert_eq!(set.stats().bucket_entries, 31);
    odd.validate();
    set.validate();
    large.validate();
}

#[test]
fn entries_stay_where_there_is_room_whatever_the_size_becomes() {
    let cache = cache(64);
    let compact = numbers(&cache, ByteSize::kib(64));
    // Half full, so that hardly a bucket overflows.
    for i in 0..1_200 {
        compact.set(&i, &(i * 3));
    }
    let mut kept = compact.iter().count();
    assert!(kept > 1_150, "{kept}");
    for kib in [65, 1_000, 999, 300, 4_000, 100, 64, 8_000, 128] {
        compact.resize(ByteSize::kib(kib)).expect("room");
        compact.validate();
        let entries: HashMap<_, _> = compact.iter().collect();
        assert!(entries.iter().all(|(key, value)| *value == key * 3 && compact.peek(key) == Some(*value)));
        assert!(entries.len() <= kept && entries.len() > 1_100, "{kib} KiB: {} of {kept}", entries.len());
        kept = entries.len();
        let stats = compact.stats();
        assert_eq!((stats.entries, stats.bytes), (kept as u64, kib * 1024));
        assert_eq!(
            cache.stats().memory.iter().find(|(part, _)| *part == Part::Compact),
            Some(&(Part::Compact, stats.bytes))
        );
    }
    // A tenth of the room keeps what was used last.
    for i in 0..1_200 {
        compact.set(&i, &i);
    }
    compact.resize(ByteSize::kib(8)).expect("room");
    let left: Vec<_> = compact.iter().map(|(key, _)| key).collect();
    let mean = left.iter().sum::<u64>() / left.len() as u64;
    assert!(left.len() > 350 && mean > 750, "{} left, on average {mean}", left.len());
    for wrong in [ByteSize::new(255), ByteSize::mib(257)] {
        assert_eq!(compact.resize(wrong).expect_err("out of range").kind(), ErrorKind::Config);
    }
    drop(compact);
    assert_eq!(cache.ledger().part(Part::Compact), 0);
    assert!(cache.stats().compact.is_empty());
}

#[test]
fn its_memory_is_the_caches() {
    let cache = cache(32);
    let pool = cache.add_pool(PoolConfig::named("items")).expect("new");
    let fill = || {
        for i in 0..60_000_u64 {
            let mut item =
                cache.allocate(pool, &i.to_le_bytes(), 1_000, &ItemOptions::default()).expect("room");
            item.value_mut().fill(1);
            cache.put(item);
        }
    };
    fill();
    let slabs = cache.ledger().part(Part::Slabs);
    assert!(slabs > 24 << 20);
    // The pool has it all, and gives some.
    let compact = numbers(&cache, ByteSize::mib(12));
    assert!(cache.ledger().part(Part::Slabs) + (8 << 20) <= slabs);
    assert!(cache.ledger().total() <= cache.ledger().limit());
    for i in 0..800_000 {
        compact.set(&mix64(i), &i);
    }
    let refused = compact.resize(ByteSize::mib(64)).expect_err("more than there is");
    assert_eq!((refused.kind(), compact.stats().bytes), (ErrorKind::OutOfMemory, 12 << 20));
    // Less memory than it has: once the pool has given all, it gives.
    fill();
    cache.set_memory(ByteSize::mib(10)).expect("it shrinks");
    assert!(cache.ledger().total() <= 10 << 20);
    let stats = compact.stats();
    assert!(stats.bytes < 10 << 20 && stats.bytes > 6 << 20, "{stats:?}");
    assert!(compact.iter().all(|(key, i)| key == mix64(i)));
    compact.validate();
    cache.validate();
    assert_eq!(cache.stats().compact, [stats]);
}

#[test]
fn many_more_entries_fit_than_items() {
    let memory = 32;
    let cache = cache(memory);
    let pool = cache.add_pool(PoolConfig::named("items")).expect("new");
    for i in 0..2_000_000_u64 {
        let mut item =
            cache.allocate(pool, &mix64(i).to_le_bytes(), 8, &ItemOptions::default()).expect("room");
        item.value_mut().copy_from_slice(&i.to_le_bytes());
        cache.put(item);
    }
    let items = cache.stats().index_entries / memory;
    let other = self::cache(memory);
    let compact = numbers(&other, ByteSize::mib(memory - 1));
    for i in 0..4_000_000 {
        compact.set(&mix64(i), &i);
    }
    let entries = compact.stats().entries / (memory - 1);
    // 17.07 bytes an entry, of which 16 are its own.
    assert!((60_500..=61_440).contains(&entries), "{entries} entries per MiB");
    assert!(entries > 4 * items, "{entries} entries and {items} items per MiB");
    // The buckets keep what was used last, about.
    let recent = (3_000_000..4_000_000).filter(|i| compact.contains(&mix64(*i))).count();
    assert!(recent > 880_000, "{recent} of the last million");
}

/// Hits of an exact LRU with room for `capacity` keys.
fn hits_of_lru(capacity: usize, keys: impl Iterator<Item = u64>) -> u64 {
    let (mut by_key, mut by_use) = (HashMap::new(), BTreeMap::new());
    let mut hits = 0;
    for (now, key) in (0_u64..).zip(keys) {
        if let Some(before) = by_key.insert(key, now) {
            by_use.remove(&before);
            hits += 1;
        }
        by_use.insert(now, key);
        if by_key.len() > capacity
            && let Some((_, oldest)) = by_use.pop_first()
        {
            by_key.remove(&oldest);
        }
    }
    hits
}

#[test]
fn buckets_hit_about_as_often_as_one_list_of_all_would() {
    let cache = cache(16);
    let compact = numbers(&cache, ByteSize::kib(256));
    let capacity = compact.stats().capacity as usize;
    // The lower a key, the more often it is asked for; a hundredth of all keys gets a third of all
    // gets.
    let keys = || {
        let mut rng = seeded(3);
        (0..600_000).map(move |_| (rng.random_range(0.0..1.0_f64).powi(4) * 200_000.0) as u64)
    };
    for key in keys() {
        if compact.get(&key).is_none() {
            compact.set(&key, &key);
        }
    }
    let (hits, exact) = (compact.stats().hits, hits_of_lru(capacity, keys()));
    assert!(hits * 100 > exact * 96, "{hits} hits of {exact}");
}

#[test]
fn an_entry_that_stays_is_walked_over_once_while_the_size_changes() {
    let cache = cache(64);
    let compact = numbers(&cache, ByteSize::mib(2));
    for i in 0..40_000 {
        compact.set(&i, &i);
    }
    let before: HashSet<u64> = compact.iter().map(|(key, _)| key).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let rounds = Arc::new(AtomicU64::new(0));
    let resizer = {
        let (compact, stop, rounds) = (compact.clone(), Arc::clone(&stop), Arc::clone(&rounds));
        base::thread::spawn("resizer", move || {
            for round in 0_u64.. {
                if round > 5 && stop.load(Ordering::Relaxed) {
                    return round;
                }
                rounds.store(round, Ordering::Relaxed);
                compact.resize(ByteSize::kib(1_900 + mix64(round) % 6_000)).expect("room");
            }
            0
        })
        .expect("a thread")
    };
    let mut walks = 0;
    // The other thread may be late.
    while walks < 20 || rounds.load(Ordering::Relaxed) <= 5 {
        walks += 1;
        let mut seen = HashSet::new();
        for (key, value) in compact.iter() {
            assert!(key == value && seen.insert(key), "{key} was seen twice");
        }
        // What left meanwhile may be missing.
        let evicted = compact.stats().evictions as usize;
        assert!(seen.is_subset(&before) && seen.len() + evicted >= before.len());
    }
    stop.store(true, Ordering::Relaxed);
    assert!(resizer.join().expect("no panic") > 5);
    compact.validate();
}

const THREADS: u64 = 3;
const KEYS: u64 = 6_000;

/// Returns the value of a key in a round, which shows whether it is whole.
fn value(key: u64, round: u64) -> [u64; 4] {
    [round, mix64(key ^ round), key, !round]
}

fn round_of(key: u64, found: [u64; 4]) -> u64 {
    assert_eq!(found, value(key, found[0]), "torn, or of another key");
    found[0]
}

/// Writes to keys of its own and reads all; returns how many values of its own it has missed.
fn worker(compact: &CompactCache<u64, [u64; 4]>, thread: u64) -> u64 {
    let mut rng = seeded(thread);
    let (mut mine, mut seen, mut lost) = (HashMap::new(), HashMap::new(), 0);
    for round in 1..=120_000_u64 {
        let key = rng.random_range(0..KEYS) * THREADS + thread;
        let expected = mine.get(&key).copied();
        let found = match rng.random_range(0..8) {
            0..3 => {
                mine.insert(key, round);
                compact.set(&key, &value(key, round))
            }
            3 => {
                mine.remove(&key);
                compact.remove(&key)
            }
            4 => {
                mine.insert(key, round);
                compact.update(&key, |_| Some(value(key, round)))
            }
            _ => compact.get(&key),
        };
        // This thread alone writes to the key: it is what it was, or it was evicted.
        match (expected, found) {
            (Some(round), Some(found)) => assert_eq!(round_of(key, found), round),
            (Some(_), None) => lost += 1,
            (None, Some(_)) => panic!("key {key} came back after it was removed"),
            (None, None) => {}
        }
        if found.is_none() && expected.is_some() && mine.get(&key) == expected.as_ref() {
            mine.remove(&key);
        }
        let other = rng.random_range(0..KEYS * THREADS);
        if let Some(found) = compact.get(&other) {
            let round = round_of(other, found);
            let before = seen.insert(other, round);
            assert!(before.is_none_or(|before| before <= round), "an old value came back");
        }
    }
    lost
}

#[test]
fn nothing_is_torn_old_or_lost_while_threads_write_and_the_size_changes() {
    let cache = cache(64);
    // About the room that is needed: what is lost all the same, an eviction must account for.
    let compact = CompactCache::<u64, [u64; 4]>::new(&cache, config(ByteSize::mib(2))).expect("room");
    let stop = Arc::new(AtomicBool::new(false));
    let resizer = {
        let (compact, stop) = (compact.clone(), Arc::clone(&stop));
        base::thread::spawn("resizer", move || {
            let mut round = 0_u64;
            while round <= 3 || !stop.load(Ordering::Relaxed) {
                round += 1;
                compact.resize(ByteSize::kib(1_000 + mix64(round) % 3_000)).expect("room");
            }
            round
        })
        .expect("a thread")
    };
    let workers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let compact = compact.clone();
            base::thread::spawn(format!("worker-{thread}"), move || worker(&compact, thread))
                .expect("a thread")
        })
        .collect();
    let lost: u64 = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
    stop.store(true, Ordering::Relaxed);
    let resizes = resizer.join().expect("no panic");
    compact.validate();
    let stats = compact.stats();
    assert!(lost <= stats.evictions, "{lost} lost, {stats:?}");
    assert!(resizes > 3, "{resizes}");
}

#[test]
fn no_update_is_lost() {
    let cache = cache(16);
    let compact = numbers(&cache, ByteSize::kib(64));
    let workers: Vec<_> = (0..3_u64)
        .map(|thread| {
            let compact = compact.clone();
            base::thread::spawn(format!("worker-{thread}"), move || {
                let mut rng = seeded(thread);
                for _ in 0..60_000 {
                    compact.update(&rng.random_range(0..20_u64), |count| Some(count.unwrap_or(0) + 1));
                    compact.get(&rng.random_range(0..20_u64));
                }
            })
            .expect("a thread")
        })
        .collect();
    for worker in workers {
        worker.join().expect("no panic");
    }
    assert_eq!(compact.stats().evictions, 0, "twenty keys have room");
    assert_eq!(compact.iter().map(|(_, count)| count).sum::<u64>(), 180_000);
    compact.validate();
}

//! The costs of small entries, side by side: items and a compact cache of 8-byte keys and values,
//! and a map that is changed in place beside the same map as the value of an item.
//!
//!     cargo run --release -p millpond --example small_entries

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use base::rng::RngExt;
use millpond::compact::{CompactCache, CompactConfig};
use millpond::structured::{Map, StructureOptions};
use millpond::{ByteSize, Cache, CacheConfig, ItemOptions, PoolConfig, PoolId};

const MEMORY_MIB: u64 = 64;
/// More than fits, so that both are full.
const ENTRIES: u64 = 6_000_000;
const CHANGES: u64 = 20_000;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("8-byte keys and values, {MEMORY_MIB} MiB, ns per call on one thread");
    println!("{:<16}{:>14}{:>8}{:>8}{:>8}", "", "entries/MiB", "set", "hit", "miss");
    items()?;
    compact()?;
    hit_ratios()?;
    println!("\none entry more in a map of n, and one read, ns");
    println!(
        "{:<10}{:>16}{:>16}{:>16}{:>16}",
        "n", "in place, write", "value, write", "in place, read", "value, read"
    );
    for entries in [10, 100, 1_000, 10_000] {
        maps(entries)?;
    }
    Ok(())
}

fn cache() -> Result<(Cache, PoolId), Failure> {
    let cache = Cache::new(CacheConfig { memory: ByteSize::mib(MEMORY_MIB), ..CacheConfig::default() })?;
    let pool = cache.add_pool(PoolConfig::named("items"))?;
    Ok((cache, pool))
}

/// Keys that are spread over all numbers.
fn key(i: u64) -> u64 {
    base::hash::mix64(i)
}

/// Nanoseconds of each of `calls` calls.
#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn time(calls: u64, mut call: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(&mut call);
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn report(what: &str, entries: u64, [set, hit, miss]: [f64; 3]) {
    println!("{what:<16}{:>14}{set:>8.0}{hit:>8.0}{miss:>8.0}", entries / MEMORY_MIB);
}

fn items() -> Result<(), Failure> {
    let (cache, pool) = cache()?;
    let set = time(ENTRIES, |i| {
        if let Ok(mut item) = cache.allocate(pool, &key(i).to_le_bytes(), 8, &ItemOptions::default()) {
            item.value_mut().copy_from_slice(&i.to_le_bytes());
            cache.put(item);
        }
    });
    let there: Vec<u64> =
        (0..ENTRIES).rev().filter(|i| cache.peek(&key(*i).to_le_bytes()).is_some()).collect();
    let get = |i: u64| cache.find_with(&key(i).to_le_bytes(), |found| black_box(found.value()[0]));
    let hit = time(1_000_000, |i| assert!(get(there[key(i) as usize % there.len()]).is_some()));
    let miss = time(1_000_000, |i| assert!(get(ENTRIES + i).is_none()));
    report("items", cache.stats().index_entries, [set, hit, miss]);
    Ok(())
}

fn compact() -> Result<(), Failure> {
    let (cache, _) = cache()?;
    // All but what the cache itself takes.
    let memory = ByteSize::new(cache.ledger().free() & !0xffff);
    let compact = CompactCache::<u64, u64>::new(&cache, CompactConfig::new("compact", memory))?;
    let set = time(ENTRIES, |i| {
        compact.set(&key(i), &i);
    });
    let there: Vec<u64> = (0..ENTRIES).rev().filter(|i| compact.contains(&key(*i))).collect();
    let hit = time(1_000_000, |i| assert!(compact.get(&key(there[key(i) as usize % there.len()])).is_some()));
    let miss = time(1_000_000, |i| assert!(compact.get(&key(ENTRIES + i)).is_none()));
    report("compact cache", compact.stats().entries, [set, hit, miss]);
    Ok(())
}

/// Gets of keys of which the lower ones are asked for more often, each put in where it is not
/// there.
fn hit_ratios() -> Result<(), Failure> {
    const GETS: u64 = 10_000_000;
    let keys = || {
        let mut rng = base::rng::seeded(1);
        (0..GETS).map(move |_| (rng.random_range(0.0..1.0_f64).powi(4) * 2e7) as u64).map(key)
    };
    let (cache, pool) = cache()?;
    let mut items = 0;
    for key in keys().map(u64::to_le_bytes) {
        if cache.find_with(&key, |_| ()).is_some() {
            items += 1;
        } else if let Ok(mut item) = cache.allocate(pool, &key, 8, &ItemOptions::default()) {
            item.value_mut().copy_from_slice(&key);
            cache.put(item);
        }
    }
    let (cache, _) = self::cache()?;
    let memory = ByteSize::new(cache.ledger().free() & !0xffff);
    let compact = CompactCache::<u64, u64>::new(&cache, CompactConfig::new("compact", memory))?;
    for key in keys() {
        if compact.get(&key).is_none() {
            compact.set(&key, &key);
        }
    }
    let ratio = |hits: u64| 100.0 * hits as f64 / GETS as f64;
    let (items, compact) = (ratio(items), ratio(compact.stats().hits));
    println!("\nhit ratio, skewed gets of 20 million keys: items {items:.1} %, compact cache {compact:.1} %");
    Ok(())
}

/// Encodes a map as pairs of numbers: about the cheapest encoding that there is.
fn encode(map: &HashMap<u64, u64>) -> Vec<u8> {
    map.iter().flat_map(|(key, value)| [key.to_le_bytes(), value.to_le_bytes()]).flatten().collect()
}

fn decode(bytes: &[u8]) -> HashMap<u64, u64> {
    let numbers = bytes.as_chunks::<8>().0;
    numbers.chunks_exact(2).map(|pair| (u64::from_le_bytes(pair[0]), u64::from_le_bytes(pair[1]))).collect()
}

fn maps(entries: u64) -> Result<(), Failure> {
    let (cache, pool) = cache()?;
    let (map, _) = Map::<u64, u64>::open_or_create(&cache, pool, b"in place", &StructureOptions::default())?;
    for i in 0..entries {
        map.insert(&key(i), &i)?;
    }
    let put = |value: &[u8]| {
        if let Ok(mut item) = cache.allocate(pool, b"value", value.len(), &ItemOptions::default()) {
            item.value_mut().copy_from_slice(value);
            cache.put(item);
        }
    };
    put(&encode(&(0..entries).map(|i| (key(i), i)).collect()));
    let calls = CHANGES.min(2_000_000 / entries).max(200);
    let in_place = time(CHANGES, |i| {
        black_box(map.insert(&key(i % entries), &i)).expect("it is there");
    });
    let as_value = time(calls, |i| {
        let mut map = cache.find(b"value").map(|found| decode(&found)).unwrap_or_default();
        map.insert(key(i % entries), i);
        put(&encode(&map));
    });
    let read_in_place = time(CHANGES, |i| {
        black_box(map.get(&key(i % entries))).expect("it is there");
    });
    let read_value = time(calls, |i| {
        let found = cache.find_with(b"value", |found| decode(&found).get(&key(i % entries)).copied());
        assert!(found.flatten().is_some());
    });
    println!("{entries:<10}{in_place:>16.0}{as_value:>16.0}{read_in_place:>16.0}{read_value:>16.0}");
    Ok(())
}

//! The cost of being watched: finds and insertions with nothing on, with events and with timing, in
//! turn, many rounds.
//!
//! `cargo run --release -p millpond --example watch_cost`. Prints nanoseconds a call and ratios to
//! the same round with nothing on.

use base::rng::{RngExt as _, seeded};
use millpond::watch::{CurveConfig, Event, EventConfig, HotKeysConfig};
use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig, PoolId};

const KEYS: u64 = 200_000;
const CALLS: u64 = 40_000;
const ROUNDS: usize = 301;
/// Of the keys that events are of, of the calls that are timed, of the finds that count for hot
/// keys, and of the keys that are followed for a curve, one in this many; 0 = none.
const SETTINGS: [(&str, u32, u32, u32, u32); 11] = [
    ("nothing on", 0, 0, 0, 0),
    ("events of 1 key in 1,000", 1_000, 0, 0, 0),
    ("events of 1 key in 100", 100, 0, 0, 0),
    ("1 call in 1,000 timed", 0, 1_000, 0, 0),
    ("1 call in 100 timed", 0, 100, 0, 0),
    ("hot keys, by 1 find in 1,000", 0, 0, 1_000, 0),
    ("hot keys, by 1 find in 100", 0, 0, 100, 0),
    ("events of 1 in 1,000, 1 in 1,000 timed", 1_000, 1_000, 0, 0),
    ("a curve, by 1 key in 1,000", 0, 0, 0, 1_000),
    ("a curve, by 1 key in 64", 0, 0, 0, 64),
    ("a curve, by 1 key in 16", 0, 0, 0, 16),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::new(CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() })?;
    let pool = cache.add_pool(PoolConfig::named("default"))?;
    (0..KEYS).for_each(|key| put(&cache, pool, key));
    let mut reader = cache.events(EventConfig { one_in: 0, buffer: ByteSize::mib(16) })?;
    let clock = Clock::System;
    let mut rounds: Vec<Vec<[f64; 2]>> = Vec::new();
    for round in 0..ROUNDS {
        let mut rng = seeded(round as u64);
        let mut nanos = vec![[0.0; 2]; SETTINGS.len()];
        // Another one first each time.
        for at in (0..SETTINGS.len()).map(|i| (i + round) % SETTINGS.len()) {
            let (_, events, timed, hot, curve) = SETTINGS[at];
            cache.set_events_one_in(events);
            cache.time_calls(timed)?;
            let hot_keys = HotKeysConfig { one_in: hot, ..HotKeysConfig::default() };
            cache.set_hot_keys(pool, (hot > 0).then_some(hot_keys))?;
            let curves = CurveConfig { rate: 1.0 / f64::from(curve.max(1)), ..CurveConfig::default() };
            cache.set_curve(pool, (curve > 0).then_some(curves))?;
            let before = clock.monotonic_nanos();
            let mut found = 0;
            for _ in 0..CALLS {
                let key = rng.random_range(0..KEYS).to_le_bytes();
                found += cache.find_with(&key, |found| found.len()).map_or(0, |_| 1);
            }
            let between = clock.monotonic_nanos();
            for _ in 0..CALLS / 4 {
                put(&cache, pool, rng.random_range(0..KEYS));
            }
            let after = clock.monotonic_nanos();
            assert!(found > 0, "most keys are there");
            nanos[at] =
                [(between - before) as f64 / CALLS as f64, (after - between) as f64 / (CALLS / 4) as f64];
            reader.drain(&mut |_: &Event<'_>| {});
        }
        rounds.push(nanos);
    }
    println!("{:<42} find_with ns  ratio (quartiles)   put ns  ratio (quartiles)", "");
    for (at, (name, ..)) in SETTINGS.iter().enumerate() {
        let [find, insert] = [0, 1].map(|call| {
            let [_, absolute, _] = quartiles(rounds.iter().map(|round| round[at][call]));
            let ratios: Vec<f64> = rounds.iter().map(|round| round[at][call] / round[0][call]).collect();
            let [lower, middle, upper] = quartiles(ratios.into_iter());
            format!("{absolute:>8.1}  {middle:.3} ({lower:.2}-{upper:.2})")
        });
        println!("{name:<42} {find}   {insert}");
    }
    Ok(())
}

fn put(cache: &Cache, pool: PoolId, key: u64) {
    if let Ok(mut item) = cache.allocate(pool, &key.to_le_bytes(), 100, &ItemOptions::default()) {
        item.value_mut().fill(7);
        cache.put(item);
    }
}

/// A quarter of the figures, half of them, and three quarters are below these.
fn quartiles(figures: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| figures[figures.len() * quarter / 4])
}

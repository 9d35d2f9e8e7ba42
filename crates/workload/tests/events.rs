//! Tests that a cache's record of its own events can be replayed.

use std::fs::File;
use std::io::BufWriter;

use base::rng::{RngExt as _, seeded};
use millpond::watch::{EventConfig, TraceWriter};
use millpond::{ByteSize, Cache, CacheConfig, Clock, Expiry, ItemOptions, PoolConfig};
use millpond_workload::replay::{ReplayOptions, TimeUnit, replay};

#[test]
fn a_replay_of_recorded_events_hits_as_the_cache_did() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Clock::manual(1_000_000);
    let memory = ByteSize::mib(16);
    let config = CacheConfig { memory, clock: clock.clone(), hash_seed: Some(1), ..CacheConfig::default() };
    let cache = Cache::new(config)?;
    let pool = cache.add_pool(PoolConfig { own_keys: true, ..PoolConfig::named("default") })?;
    let keys = cache.keys(pool);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("events.csv");
    let mut trace = TraceWriter::new(BufWriter::new(File::create(&path)?))?;
    let before = cache.ledger().total();
    let mut reader = cache.events(EventConfig { one_in: 1, ..EventConfig::default() })?;
    // What events wait in is part of the memory.
    let of_events = cache.ledger().total() - before;
    let mut rng = seeded(1);
    let (mut requests, mut finds, mut hits) = (0, 0, 0);
    for step in 0..120_000_u32 {
        // Squared, so that low numbers come often; with commas, which a trace cannot hold as they
        // are.
        let number = (rng.random_range(0.0..1.0_f64).powi(3) * 50_000.0) as u32;
        let key = format!("user,{number}");
        let removes = rng.random_range(0..50_u32) == 0;
        requests += 1;
        if removes {
            keys.remove(key.as_bytes());
        } else {
            finds += 1;
            if keys.find_with(key.as_bytes(), |_| ()).is_some() {
                hits += 1;
            } else {
                requests += 1;
                let expiry = if number.is_multiple_of(3) { Expiry::After(20) } else { Expiry::Never };
                let options = ItemOptions { expiry, ..ItemOptions::default() };
                cache.put(cache.allocate(pool, key.as_bytes(), 1_000, &options)?);
            }
        }
        clock.advance(std::time::Duration::from_millis(1));
        if step % 1_000 == 0 {
            cache.maintain()?;
            reader.drain(&mut trace);
        }
    }
    reader.drain(&mut trace);
    assert_eq!(cache.event_stats().map(|stats| stats.dropped), Some(0));
    let stats = cache.stats();
    let (evictions, expired) =
        (stats.pools[0].sum(|class| class.evictions), stats.pools[0].sum(|class| class.expired));
    assert!(evictions > 1_000 && expired > 1_000, "the cache was busy: {evictions} {expired}");
    trace.finish()?;

    let options = ReplayOptions {
        memory: ByteSize::new(memory.as_u64() - of_events),
        look_aside: false,
        writes_replace: true,
        trace_time: Some("us".parse::<TimeUnit>()?),
        maintain_every: 1_000,
        ..ReplayOptions::default()
    };
    let report = replay(&path, &options)?;
    assert_eq!((report.requests, report.gets, report.has_sizes), (requests, finds, true));
    let difference = report.get_hits.abs_diff(hits) as f64 / finds as f64;
    assert!(
        difference < 0.005,
        "{} of {finds} finds hit in the replay, {hits} in the cache",
        report.get_hits
    );
    Ok(())
}

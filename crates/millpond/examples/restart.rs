//! The time that a cache in shared memory takes to be there again.
//!
//! ```text
//! cargo run --release -p millpond --example restart -- [GIBIBYTES [VALUE_BYTES]]
//! ```
//!
//! Fills a cache in `/dev/shm` (default 4 GiB, values of 100 bytes), drops it, opens it again, and
//! says how long that took and whether all items are there.

use std::time::Duration;

use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig, PoolId};

fn open(folder: &std::path::Path, gib: u64) -> Result<(Cache, PoolId), millpond::Error> {
    let config = CacheConfig {
        memory: ByteSize::mib(gib << 10),
        shared: Some(folder.to_owned()),
        ..CacheConfig::default()
    };
    let cache = Cache::new(config)?;
    let pool = cache.add_pool(PoolConfig::named("restart"))?;
    Ok((cache, pool))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let gib: u64 = args.next().map_or(Ok(4), |arg| arg.parse())?;
    let value_bytes: usize = args.next().map_or(Ok(100), |arg| arg.parse())?;
    let folder = std::path::PathBuf::from(format!("/dev/shm/millpond-restart-{}", std::process::id()));
    let result = measure(&folder, gib, value_bytes);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(folder: &std::path::Path, gib: u64, value_bytes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let before = {
        let (cache, pool) = open(folder, gib)?;
        let mut key = 0_u64;
        // Until the cache is full.
        while cache.stats().pools[0].sum(|class| class.evictions) < 1_000 {
            for _ in 0..100_000 {
                let mut item =
                    cache.allocate(pool, &key.to_le_bytes(), value_bytes, &ItemOptions::default())?;
                item.value_mut().fill(key as u8);
                cache.put(item);
                key += 1;
            }
        }
        cache.stats().index_entries
    };
    let began = Clock::System.monotonic_nanos();
    let (cache, _) = open(folder, gib)?;
    let took = Duration::from_nanos(Clock::System.monotonic_nanos() - began);
    let after = cache.stats().index_entries;
    println!("{before} items of {value_bytes} bytes in {gib} GiB: {after} there again after {took:.2?}");
    if after < before {
        return Err(format!("{} items are lost", before - after).into());
    }
    Ok(())
}

//! The scaling of insertion into one full size class with threads.
//!
//! ```text
//! cargo run --release -p millpond --example insert_scaling -- [ROUNDS [VALUE_BYTES]]
//! ```
//!
//! Threads insert keys that were never seen, of 100-byte values unless told otherwise, into a cache
//! of 128 MiB that is full, so that every insertion evicts. Numbers of threads take turns; prints
//! the median of millions of insertions a second, and the ratio to one thread round by round.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig, PoolId};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
const INSERTIONS: u64 = 1_200_000;
const STRETCH: u64 = 1_000;

fn insert(cache: &Cache, pool: PoolId, key: u64, len: usize) -> Result<(), millpond::Error> {
    let mut item = cache.allocate(
        pool,
        &key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes(),
        len,
        &ItemOptions::default(),
    )?;
    item.value_mut().fill(key as u8);
    cache.put(item);
    Ok(())
}

/// Wall-clock nanoseconds of [`INSERTIONS`] insertions by this many threads.
fn round(cache: &Cache, pool: PoolId, threads: usize, len: usize, next: &AtomicU64) -> u64 {
    let (barrier, left) = (Barrier::new(threads + 1), AtomicU64::new(INSERTIONS / STRETCH));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait();
                let one_less = |left: u64| left.checked_sub(1);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
                    let first = next.fetch_add(STRETCH, Ordering::Relaxed);
                    (first..first + STRETCH).for_each(|key| drop(insert(cache, pool, key, len)));
                }
                barrier.wait();
            });
        }
        barrier.wait();
        let began = Clock::System.monotonic_nanos();
        barrier.wait();
        Clock::System.monotonic_nanos() - began
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(9), |arg| arg.parse())?;
    let len: usize = std::env::args().nth(2).map_or(Ok(100), |arg| arg.parse())?;
    let cache = Cache::new(CacheConfig { memory: ByteSize::mib(128), ..CacheConfig::default() })?;
    let pool = cache.add_pool(PoolConfig::named("scaling"))?;
    let next = AtomicU64::new(0);
    while cache.stats().pools[0].sum(|class| class.evictions) < INSERTIONS {
        let first = next.fetch_add(100_000, Ordering::Relaxed);
        (first..first + 100_000).try_for_each(|key| insert(&cache, pool, key, len))?;
    }
    let mut speeds = vec![Vec::new(); THREADS.len()];
    for turn in 0..rounds {
        for i in 0..THREADS.len() {
            let i = (i + turn) % THREADS.len();
            speeds[i].push(INSERTIONS as f64 * 1e3 / round(&cache, pool, THREADS[i], len, &next) as f64);
        }
    }
    let one = speeds[0].clone();
    for (threads, speeds) in THREADS.iter().zip(&mut speeds) {
        let mut ratios: Vec<f64> = speeds.iter().zip(&one).map(|(speed, one)| speed / one).collect();
        let ratio = median(&mut ratios);
        println!(
            "{threads:2} threads: {:.2} M/s, {ratio:.2} times one thread ({:.2}-{:.2})",
            median(speeds),
            ratios[0],
            ratios[ratios.len() - 1]
        );
    }
    Ok(())
}

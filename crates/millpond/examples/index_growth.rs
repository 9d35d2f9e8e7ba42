//! The worst duration of an insertion or a find while the index grows.
//!
//! ```text
//! cargo run --release -p millpond --example index_growth -- [MILLIONS_OF_ITEMS]
//! ```
//!
//! One thread fills a cache with small items (default 20 million), so that the index, which begins
//! with room for 8,192 entries, grows all the way, while another finds them. Each call is timed.
//! Between two calls both threads time a call that does nothing, so that what the machine itself
//! takes can be told from what the cache does. A third takes memory from the system ahead each 10
//! ms.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hdrhistogram::Histogram;
use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig};

/// The interval at which memory is taken ahead; `Cache::maintain`, once a second, is enough for a
/// cache that fills less fast.
const TOUCH_EACH: std::time::Duration = std::time::Duration::from_millis(10);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Times of calls, and of calls that do nothing, in nanoseconds.
struct Times {
    calls: Histogram<u64>,
    nothing: Histogram<u64>,
}

impl Times {
    fn new() -> Result<Self> {
        Ok(Self { calls: Histogram::new(3)?, nothing: Histogram::new(3)? })
    }

    fn time(&mut self, call: impl FnOnce()) -> Result<()> {
        let began = Clock::System.monotonic_nanos();
        call();
        let between = Clock::System.monotonic_nanos();
        self.calls.record(between - began)?;
        Ok(self.nothing.record(Clock::System.monotonic_nanos() - between)?)
    }

    fn print(&self, name: &str) {
        for (name, times) in [(name, &self.calls), ("  doing nothing", &self.nothing)] {
            let micros = |nanos: u64| nanos as f64 / 1e3;
            println!(
                "{name:16} p50 {:.2}, p99.99 {:.1}, p99.9999 {:.0}, longest {:.0} µs; {} of {} took over 1 ms",
                micros(times.value_at_quantile(0.5)),
                micros(times.value_at_quantile(0.9999)),
                micros(times.value_at_quantile(0.999_999)),
                micros(times.max()),
                times.len() - times.count_between(0, 1_000_000),
                times.len(),
            );
        }
    }
}

fn main() -> Result<()> {
    let millions: u64 = std::env::args().nth(1).map_or(Ok(20), |arg| arg.parse())?;
    let items = millions * 1_000_000;
    let memory = ByteSize::mib(64 + items * 96 / (1 << 20));
    let cache = Cache::new(CacheConfig { memory, ..CacheConfig::default() })?;
    let pool = cache.add_pool(PoolConfig::named("growth"))?;
    let (there, done) = (AtomicU64::new(1), AtomicBool::new(false));
    let insert = |key: u64| -> Result<()> {
        let item = cache.allocate(pool, &key.to_le_bytes(), 16, &ItemOptions::default())?;
        cache.put(item);
        Ok(())
    };
    insert(0)?;
    let (mut writes, mut growths, mut growing) = (Times::new()?, 0, 0_u64);
    let reads = std::thread::scope(|scope| -> Result<Times> {
        let reader = scope.spawn(|| -> Result<Times> {
            let (mut times, mut key) = (Times::new()?, 0_u64);
            while !done.load(Ordering::Relaxed) {
                key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let number = (key >> 20) % there.load(Ordering::Relaxed);
                times.time(|| drop(cache.find(&number.to_le_bytes())))?;
            }
            Ok(times)
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                cache.touch_ahead();
                base::thread::sleep(TOUCH_EACH);
            }
        });
        for key in 1..items {
            let mut inserted = Ok(());
            writes.time(|| inserted = insert(key))?;
            inserted?;
            there.store(key + 1, Ordering::Relaxed);
            if key % 1_024 == 0 {
                let is_growing = cache.stats().index_growing;
                growths += u64::from(is_growing && growing == 0);
                growing = u64::from(is_growing);
            }
        }
        done.store(true, Ordering::Relaxed);
        reader.join().map_err(|_| "the reader panicked")?
    })?;
    let stats = cache.stats();
    println!(
        "{} items; the index grew at least {growths} times, to room for {} entries",
        stats.index_entries, stats.index_capacity
    );
    writes.print("insertions");
    reads.print("finds");
    Ok(())
}

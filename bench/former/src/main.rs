//! The engine beside what it was at a former commit, in one process; `run.sh` makes the former one
//! available.
//!
//! Each task runs in short turns, by both in alternating order, on full caches of one pool with
//! keys of 16 bytes. Prints the median of the turns' ratios of times, with the 10th and the 90th
//! percentile, and the best times.

use std::hint::black_box;
use std::time::Instant;

use clap::Parser;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Compares the engine with what it was at a former commit.
#[derive(Parser)]
struct Options {
    /// Memory of each cache, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: u64,
    /// Turns of each task
    #[arg(long, value_name = "N", default_value_t = 101)]
    turns: usize,
    /// Lengths of values, in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [100, 1024])]
    values: Vec<usize>,
}

/// Calls in a turn.
const CALLS: u64 = 20_000;
/// Keys that are looked up together.
const BATCH: usize = 16;
/// Keys that are hot.
const HOT: u64 = 1_000;

#[derive(Clone, Copy)]
enum Task {
    Find,
    FindHot,
    FindMany,
    FindManyHot,
    Insert,
    Replace,
}

const TASKS: [(Task, &str); 6] = [
    (Task::Find, "find, uniform"),
    (Task::FindHot, "find, 1,000 keys"),
    (Task::FindMany, "find, batches of 16"),
    (Task::FindManyHot, "find, batches of 16, 1,000 keys"),
    (Task::Insert, "insert, evicting"),
    (Task::Replace, "replace, uniform"),
];

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// A cache of one of the two, with the same calls.
macro_rules! contestant {
    ($engine:ident) => {
        mod $engine {
            use ::$engine::{ByteSize, Cache, CacheConfig, ItemOptions, PoolConfig, PoolId};

            use super::*;

            pub(super) struct Full {
                cache: Cache,
                pool: PoolId,
                value_len: usize,
                /// The next key that was never used, and how many of those before it are surely
                /// there.
                next: u64,
                live: u64,
                rng: SmallRng,
            }

            impl Full {
                pub(super) fn new(mib: u64, value_len: usize) -> anyhow::Result<Self> {
                    let cache =
                        Cache::new(CacheConfig { memory: ByteSize::mib(mib), ..CacheConfig::default() })?;
                    let pool = cache.add_pool(PoolConfig::named("pool"))?;
                    let rng = SmallRng::seed_from_u64(1);
                    let mut full = Self { cache, pool, value_len, next: 0, live: 0, rng };
                    for _ in 0..mib * (3 << 20) / (value_len as u64 + 30) {
                        full.insert()?;
                    }
                    full.live = full.cache.stats().pools[0].sum(|class| class.items) / 10 * 8;
                    Ok(full)
                }

                fn put(&self, key: &[u8]) -> anyhow::Result<()> {
                    let options = ItemOptions::default();
                    let mut item = self.cache.allocate(self.pool, key, self.value_len, &options)?;
                    item.value_mut().fill(key[0]);
                    self.cache.put(item);
                    Ok(())
                }

                fn insert(&mut self) -> anyhow::Result<()> {
                    self.next += 1;
                    self.put(&key(self.next - 1))
                }

                fn any_of(&mut self, keys: u64) -> [u8; 16] {
                    key(self.next - 1 - self.rng.random_range(0..keys))
                }

                fn find(&mut self, keys: u64) -> u64 {
                    // In memory, as the key of a caller is, and not in registers from which it is
                    // hashed.
                    let key = black_box(self.any_of(keys));
                    self.cache.find_with(&key, |found| u64::from(found.value()[0])).unwrap_or(0)
                }

                fn find_many(&mut self, keys: u64) -> u64 {
                    let keys: [[u8; 16]; BATCH] = std::array::from_fn(|_| self.any_of(keys));
                    let mut sum = 0;
                    let keys = keys.each_ref().map(|key| &key[..]);
                    self.cache.keys(self.pool).find_many_with(&keys, |_, found| {
                        sum += found.map_or(0, |found| u64::from(found.value()[0]))
                    });
                    sum
                }

                /// Nanoseconds of a call.
                #[inline(never)]
                pub(super) fn turn(&mut self, task: Task) -> anyhow::Result<f64> {
                    let (live, batches) = (self.live, CALLS / BATCH as u64);
                    let mut sum = 0_u64;
                    let began = Instant::now();
                    match task {
                        Task::Find => sum = (0..CALLS).map(|_| self.find(live)).sum(),
                        Task::FindHot => sum = (0..CALLS).map(|_| self.find(HOT)).sum(),
                        Task::FindMany => sum = (0..batches).map(|_| self.find_many(live)).sum(),
                        Task::FindManyHot => sum = (0..batches).map(|_| self.find_many(HOT)).sum(),
                        Task::Insert => (0..CALLS).try_for_each(|_| self.insert())?,
                        Task::Replace => (0..CALLS).try_for_each(|_| {
                            let key = self.any_of(live);
                            self.put(&key)
                        })?,
                    }
                    black_box(sum);
                    Ok(began.elapsed().as_nanos() as f64 / CALLS as f64)
                }
            }
        }
    };
}

contestant!(former);
contestant!(now);

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    println!(
        "| value | task | time now / formerly | 10 % – 90 % | best ns: formerly, now |\n|---|---|---|---|---|"
    );
    for &value_len in &options.values {
        let mut before = former::Full::new(options.memory, value_len)?;
        let mut after = now::Full::new(options.memory, value_len)?;
        for (task, name) in TASKS {
            let (mut ratios, mut best) = (Vec::new(), (f64::MAX, f64::MAX));
            for turn in 0..options.turns.max(1) {
                let first = if turn % 2 == 0 { Some(before.turn(task)?) } else { None };
                let new = after.turn(task)?;
                let old = first.map_or_else(|| before.turn(task), Ok)?;
                ratios.push(new / old);
                best = (best.0.min(old), best.1.min(new));
            }
            ratios.sort_by(f64::total_cmp);
            let at = |percent: usize| ratios[ratios.len() * percent / 100];
            println!(
                "| {value_len} | {name} | {:.3} | {:.2} – {:.2} | {:.0}, {:.0} |",
                at(50),
                at(10),
                at(90),
                best.0,
                best.1
            );
        }
    }
    Ok(())
}

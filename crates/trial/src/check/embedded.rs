//! Millpond's engine in this process, under check.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result};
use base::hash::key_hash;
use base::rng::{RngExt, SeededRng};
use base::{ByteSize, Clock};
use bench::targets::embedded::{Embedded, EmbeddedOptions, PoolShape};
use bench::targets::{Direct as _, Holdings};
use millpond::{Cache, Expiry, ItemOptions, Keys, PoolId, ReadHandle};

use super::admin::{AdminCalls, Works, operate};
use super::subject::{Caller, LimitMove, Subject, Touched};

/// One value in this many that are read is held for a while.
const HELD_SHARE: u64 = 32;
/// Most values that a caller holds at once.
const MOST_HELD: usize = 16;
/// The least memory of a cache.
const LEAST_MEMORY: u64 = 8 << 20;

/// The engine with what the check moves.
pub(crate) struct EmbeddedSubject {
    /// None only while it is being restarted.
    embedded: Option<Embedded>,
    options: EmbeddedOptions,
    shapes: Vec<PoolShape>,
    memory: u64,
    /// Each pool's share of the memory.
    shares: Vec<f64>,
    moves_limits: bool,
}

impl EmbeddedSubject {
    /// A cache with a pool for each share of the memory. Its clock is moved by hand, so that
    /// lifetimes pass fast.
    pub(crate) fn new(options: &EmbeddedOptions, shares: &[f64], moves_limits: bool) -> Result<Self> {
        let clock = Clock::manual(1_000_000);
        let total: f64 = shares.iter().sum();
        let memory = options.memory.as_u64();
        let shapes: Vec<PoolShape> = shares
            .iter()
            .enumerate()
            .map(|(i, share)| PoolShape {
                name: format!("pool{i}"),
                limit: (shares.len() > 1).then(|| limit(memory, share / total)),
            })
            .collect();
        let options = EmbeddedOptions { clock, ..options.clone() };
        let embedded = Some(Embedded::shaped(&options, &shapes).context("making the cache")?);
        let shares = shares.iter().map(|share| share / total).collect();
        Ok(Self { embedded, options, shapes, memory, shares, moves_limits })
    }

    fn embedded(&self) -> &Embedded {
        self.embedded.as_ref().unwrap_or_else(|| unreachable!("a restart that failed ends the check"))
    }
}

/// A share of the memory, but at least a slab.
fn limit(memory: u64, share: f64) -> ByteSize {
    ByteSize::new(((memory as f64 * share) as u64).max(4 << 20))
}

impl Subject for EmbeddedSubject {
    fn caller(&self) -> Result<Box<dyn Caller + '_>> {
        let cache = self.embedded().cache();
        let pools = self.embedded().pools().iter().map(|pool| (*pool, cache.keys(*pool))).collect();
        Ok(Box::new(EmbeddedCaller { cache, pools, found: Vec::new(), held: VecDeque::new(), calls: 0 }))
    }

    fn describe(&self) -> String {
        self.embedded().describe()
    }

    fn clock(&self) -> &Clock {
        self.embedded().cache().clock()
    }

    fn flush(&self) -> Result<bool> {
        // Pools share their key space.
        if let Some(pool) = self.embedded().pools().first() {
            self.embedded().cache().keys(*pool).flush();
        }
        Ok(true)
    }

    fn move_limit(&self, rng: &mut SeededRng) -> LimitMove {
        if !self.moves_limits {
            return LimitMove::None;
        }
        let cache = self.embedded().cache();
        // Higher as often as lower, and now and then all of it.
        let factor = rng.random_range(0.4..1.4_f64).min(1.0);
        if rng.random_bool(0.3) {
            let memory = ((self.memory as f64 * factor) as u64).max(LEAST_MEMORY);
            return LimitMove::Memory(cache.set_memory(ByteSize::new(memory)).is_ok());
        }
        let number = rng.random_range(0..self.shares.len());
        let wanted = limit(self.memory, self.shares[number] * factor);
        let reached = cache.set_pool_limit(self.embedded().pools()[number], Some(wanted)).is_ok();
        LimitMove::Pool(reached)
    }

    fn rebalance(&self) -> u64 {
        if self.moves_limits { self.embedded().cache().rebalance().len() as u64 } else { 0 }
    }

    fn administer(&self, turn: u64, rng: &mut SeededRng) -> Option<AdminCalls> {
        let number = rng.random_range(0..self.shares.len());
        let works = Works {
            cache: self.embedded().cache(),
            pool: self.embedded().pools()[number],
            limit: limit(self.memory, self.shares[number]),
            memory: ByteSize::new(self.memory),
        };
        Some(operate(&works, turn, rng))
    }

    fn restart(&mut self) -> Result<bool> {
        if self.options.shared.is_none() {
            return Ok(false);
        }
        self.validate();
        // The old one must have ended before its memory can be taken over.
        self.embedded = None;
        let taken = Embedded::shaped(&self.options, &self.shapes).context("taking the cache over")?;
        self.embedded = Some(taken);
        self.validate();
        Ok(true)
    }

    fn holdings(&self) -> Option<Holdings> {
        self.embedded().holdings()
    }

    fn validate(&self) {
        self.embedded().cache().validate();
    }
}

/// A value that is held, with its hash when it was taken.
struct Held<'a> {
    item: ReadHandle<'a>,
    hash: u64,
    since: u64,
}

struct EmbeddedCaller<'a> {
    cache: &'a Cache,
    pools: Vec<(PoolId, Keys<'a>)>,
    found: Vec<Option<ReadHandle<'a>>>,
    held: VecDeque<Held<'a>>,
    calls: u64,
}

/// For how many of a caller's calls a value is held.
const HELD_CALLS: u64 = 400;

impl Caller for EmbeddedCaller<'_> {
    fn get(&mut self, pool: u16, keys: &[&[u8]], seen: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.calls += 1;
        let space = self.pools[usize::from(pool)].1;
        match keys {
            [key] => self.found.push(space.find(key)),
            keys => space.find_many(keys, &mut self.found),
        }
        for (i, item) in self.found.drain(..).enumerate() {
            let Some(item) = item else { continue };
            seen(i, item.value());
            if self.calls.is_multiple_of(HELD_SHARE) && self.held.len() < MOST_HELD {
                let hash = key_hash(0, item.value());
                self.held.push_back(Held { item, hash, since: self.calls });
            }
        }
        Ok(())
    }

    fn set(&mut self, pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> Result<bool> {
        self.calls += 1;
        let options = ItemOptions {
            expiry: expiry(ttl_secs),
            // Both ways to change an expiry are called: in place, and by a copy.
            expirable: self.calls.is_multiple_of(2),
            ..ItemOptions::default()
        };
        let Ok(mut item) = self.cache.allocate(self.pools[usize::from(pool)].0, key, value.len(), &options)
        else {
            return Ok(false);
        };
        item.value_mut().copy_from_slice(value);
        if self.calls.is_multiple_of(4) {
            drop(self.cache.insert_or_replace(item));
        } else {
            self.cache.put(item);
        }
        Ok(true)
    }

    fn delete(&mut self, pool: u16, key: &[u8]) -> Result<bool> {
        self.calls += 1;
        Ok(self.pools[usize::from(pool)].1.remove(key))
    }

    fn touch(&mut self, pool: u16, key: &[u8], ttl_secs: u32) -> Result<Touched> {
        self.calls += 1;
        let done = self.pools[usize::from(pool)].1.touch(key, expiry(ttl_secs));
        // An item without room for an expiry time is copied, and there may be no memory for the
        // copy.
        Ok(if done { Touched::Done } else { Touched::NothingOrRefused })
    }

    fn look_again(&mut self, seen: &mut dyn FnMut(&[u8], bool)) -> bool {
        let calls = self.calls;
        let Some(held) = self.held.pop_front_if(|held| held.since + HELD_CALLS <= calls) else {
            return false;
        };
        let value = held.item.value();
        seen(value, key_hash(0, value) == held.hash);
        true
    }
}

fn expiry(ttl_secs: u32) -> Expiry {
    if ttl_secs == 0 { Expiry::Never } else { Expiry::After(ttl_secs) }
}

/// Draws the distance of one step of the clock.
pub(crate) fn clock_step(rng: &mut SeededRng) -> Duration {
    Duration::from_millis(rng.random_range(100..2_500))
}

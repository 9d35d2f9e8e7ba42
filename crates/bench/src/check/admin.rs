//! Every operation of an administrator, one after the other, while callers call: how long the slowest call of each took.
//!
//! What is operated on besides the pools under check is a pool of the administrator's own, which comes and goes.

use std::collections::BTreeMap;

use base::rng::{RngExt, SeededRng};
use base::{ByteSize, Clock};
use millpond::sizing::Tuning;
use millpond::strategy::{OptimizerConfig, Strategy};
use millpond::watch::{CurveConfig, HotKeysConfig};
use millpond::{Cache, Error, ItemOptions, PolicyKind, PoolConfig, PoolId};
use serde::Serialize;

/// The calls of one operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdminCalls {
    /// The operation.
    pub operation: &'static str,
    /// How often it was called.
    pub calls: u64,
    /// How many of them could not be done, as held items kept slabs.
    pub refused: u64,
    /// How long the slowest took, in milliseconds.
    pub slowest_ms: f64,
    /// How much of that its thread ran, in milliseconds.
    pub slowest_ran_ms: f64,
    /// How much of that its thread could have run and waited for a processor, in milliseconds. What remains, the operation slept or waited for others.
    pub slowest_queued_ms: f64,
    /// How long all took together, in milliseconds.
    pub total_ms: f64,
}

impl AdminCalls {
    /// Keeps the slower of the slowest call so far and this one: how long it took, ran, and waited for a processor.
    fn note_slowest(&mut self, (all, ran, queued): (f64, f64, f64)) {
        if all > self.slowest_ms {
            (self.slowest_ms, self.slowest_ran_ms, self.slowest_queued_ms) = (all, ran, queued);
        }
    }
}

/// How long a call took, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Took {
    all: f64,
    ran: f64,
    queued: f64,
}

impl Took {
    /// Since a moment of the same thread.
    fn since(start: Moment) -> Self {
        let now = Moment::now();
        let millis = |now: u64, start: u64| now.saturating_sub(start) as f64 / 1e6;
        Self {
            all: millis(now.all, start.all),
            ran: millis(now.ran, start.ran),
            queued: millis(now.queued, start.queued),
        }
    }
}

/// The time, and what the kernel counts for the calling thread, in nanoseconds.
#[derive(Clone, Copy)]
struct Moment {
    all: u64,
    ran: u64,
    queued: u64,
}

impl Moment {
    /// Costs some microseconds. A kernel that does not count has 0.
    fn now() -> Self {
        let counted = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut counted = counted.split(' ').map(|nanos| nanos.trim().parse().unwrap_or(0));
        let (ran, queued) = (counted.next().unwrap_or(0), counted.next().unwrap_or(0));
        Self { all: Clock::System.monotonic_nanos(), ran, queued }
    }
}

/// What the administrator has done.
#[derive(Default)]
pub(crate) struct Administration(BTreeMap<&'static str, AdminCalls>);

impl Administration {
    /// Counts a call.
    pub(crate) fn add(&mut self, operation: &'static str, is_done: bool, took: Took) {
        let none = AdminCalls {
            operation,
            calls: 0,
            refused: 0,
            slowest_ms: 0.0,
            slowest_ran_ms: 0.0,
            slowest_queued_ms: 0.0,
            total_ms: 0.0,
        };
        let calls = self.0.entry(operation).or_insert(none);
        calls.calls += 1;
        calls.refused += u64::from(!is_done);
        calls.note_slowest((took.all, took.ran, took.queued));
        calls.total_ms += took.all;
    }

    /// What another part of the run has done.
    pub(crate) fn merge(&mut self, other: Self) {
        for (operation, calls) in other.0 {
            match self.0.get_mut(operation) {
                None => {
                    self.0.insert(operation, calls);
                }
                Some(sum) => {
                    sum.calls += calls.calls;
                    sum.refused += calls.refused;
                    sum.note_slowest((calls.slowest_ms, calls.slowest_ran_ms, calls.slowest_queued_ms));
                    sum.total_ms += calls.total_ms;
                }
            }
        }
    }

    /// By operation.
    pub(crate) fn into_calls(self) -> Vec<AdminCalls> {
        self.0.into_values().collect()
    }
}

/// What an operation works on.
pub(crate) struct Works<'a> {
    pub(crate) cache: &'a Cache,
    /// A pool under check, whose share of the memory is `limit`.
    pub(crate) pool: PoolId,
    pub(crate) limit: ByteSize,
    pub(crate) memory: ByteSize,
}

type Operation = fn(&Works<'_>, &mut SeededRng) -> Result<(), Error>;

/// All operations with their names.
const OPERATIONS: [(&str, Operation); 26] = [
    ("maintain", |on, _| on.cache.maintain()),
    ("set_pool_limit, lower", |on, _| on.cache.set_pool_limit(on.pool, Some(part(on.limit, 0.8)))),
    ("set_pool_limit, higher", |on, _| on.cache.set_pool_limit(on.pool, Some(on.limit))),
    ("set_memory, lower", |on, _| on.cache.set_memory(part(on.memory, 0.8))),
    ("set_memory, higher", |on, _| on.cache.set_memory(on.memory)),
    ("set_pool_policy", |on, rng| {
        let kind = PolicyKind::ALL[rng.random_range(0..PolicyKind::ALL.len())];
        on.cache.set_pool_policy(on.pool, kind)
    }),
    ("set_pool_strategy", |on, rng| {
        let name = Strategy::NAMES[rng.random_range(0..Strategy::NAMES.len())];
        on.cache.set_pool_strategy(on.pool, Strategy::by_name(name).unwrap_or_default())
    }),
    ("set_pool_share", |on, _| on.cache.set_pool_share(on.pool, part(on.limit, 0.1), 1)),
    ("set_pool_tuning", |on, rng| {
        on.cache.set_pool_tuning(on.pool, rng.random_bool(0.5).then(Tuning::default))
    }),
    ("tune_classes", |on, _| on.cache.tune_classes(on.pool).map(|_| ())),
    ("move_slab", |on, _| {
        let stats = on.cache.pool_stats(on.pool)?;
        let most = stats.classes.iter().max_by_key(|class| class.bytes).map_or(0, |class| class.number);
        on.cache.move_slab(on.pool, most, None)
    }),
    ("rebalance", |on, _| {
        on.cache.rebalance();
        Ok(())
    }),
    ("resize_pools", |on, _| {
        on.cache.resize_pools();
        Ok(())
    }),
    ("reclaim", |on, _| {
        on.cache.reclaim();
        Ok(())
    }),
    ("optimize", |on, _| {
        on.cache.optimize();
        Ok(())
    }),
    ("set_optimizer", |on, rng| {
        on.cache.set_optimizer(rng.random_bool(0.5).then(OptimizerConfig::default));
        Ok(())
    }),
    ("reap", |on, _| {
        on.cache.reap();
        Ok(())
    }),
    ("touch_ahead", |on, _| {
        on.cache.touch_ahead();
        Ok(())
    }),
    ("stats", |on, _| {
        on.cache.stats();
        Ok(())
    }),
    ("pool_stats", |on, _| on.cache.pool_stats(on.pool).map(|_| ())),
    ("set_curve", |on, rng| on.cache.set_curve(on.pool, rng.random_bool(0.5).then(CurveConfig::default))),
    ("set_hot_keys", |on, rng| {
        on.cache.set_hot_keys(on.pool, rng.random_bool(0.5).then(HotKeysConfig::default))
    }),
    ("time_calls", |on, rng| on.cache.time_calls(rng.random_range(0..3) * 100)),
    ("add_pool", |on, _| {
        let config = PoolConfig { own_keys: true, ..PoolConfig::named(OWN) };
        on.cache.add_pool(config).map(|_| ())
    }),
    ("allocate and flush", |on, _| {
        let Some(own) = on.cache.pool_id(OWN) else { return Ok(()) };
        for key in 0..100_u32 {
            on.cache.put(on.cache.allocate(own, &key.to_le_bytes(), 200, &ItemOptions::default())?);
        }
        on.cache.keys(own).flush();
        Ok(())
    }),
    ("remove_pool", |on, _| match on.cache.pool_id(OWN) {
        Some(own) => on.cache.remove_pool(own).map(|_| ()),
        None => Ok(()),
    }),
];

/// The administrator's own pool.
const OWN: &str = "administrator";

fn part(of: ByteSize, share: f64) -> ByteSize {
    ByteSize::new((of.as_u64() as f64 * share) as u64).max(ByteSize::mib(8))
}

/// Carries out the operation whose turn it is. Its name, whether it was done, and how long it took.
pub(crate) fn operate(works: &Works<'_>, turn: u64, rng: &mut SeededRng) -> (&'static str, bool, Took) {
    let (name, operation) = OPERATIONS[(turn % OPERATIONS.len() as u64) as usize];
    let start = Moment::now();
    let is_done = operation(works, rng).is_ok();
    (name, is_done, Took::since(start))
}

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
    /// How long all took together, in milliseconds.
    pub total_ms: f64,
}

/// What the administrator has done.
#[derive(Default)]
pub(crate) struct Administration(BTreeMap<&'static str, AdminCalls>);

impl Administration {
    /// Counts a call.
    pub(crate) fn add(&mut self, operation: &'static str, is_done: bool, millis: f64) {
        let none = AdminCalls { operation, calls: 0, refused: 0, slowest_ms: 0.0, total_ms: 0.0 };
        let calls = self.0.entry(operation).or_insert(none);
        calls.calls += 1;
        calls.refused += u64::from(!is_done);
        calls.slowest_ms = calls.slowest_ms.max(millis);
        calls.total_ms += millis;
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
                    sum.slowest_ms = sum.slowest_ms.max(calls.slowest_ms);
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

/// Carries out the operation whose turn it is. Its name, whether it was done, and how long it took, in milliseconds.
pub(crate) fn operate(works: &Works<'_>, turn: u64, rng: &mut SeededRng) -> (&'static str, bool, f64) {
    let (name, operation) = OPERATIONS[(turn % OPERATIONS.len() as u64) as usize];
    let start = Clock::System.monotonic_nanos();
    let is_done = operation(works, rng).is_ok();
    (name, is_done, (Clock::System.monotonic_nanos() - start) as f64 / 1e6)
}

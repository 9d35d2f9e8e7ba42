//! Every operation of an administrator, one after the other, while callers call: how long the
//! slowest call of each took.
//!
//! What is operated on besides the pools under check is a pool of the administrator's own, which
//! comes and goes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
    /// Number of calls.
    pub calls: u64,
    /// Number of calls refused because held items kept their slabs.
    pub refused: u64,
    /// Wall time of the slowest call, in milliseconds.
    pub slowest_ms: f64,
    /// CPU time of the slowest call's thread during that call, in milliseconds.
    pub slowest_ran_ms: f64,
    /// Time in which the slowest call's thread was runnable without a processor, in milliseconds.
    /// For the remaining time the operation slept or waited for other threads.
    pub slowest_queued_ms: f64,
    /// Wall time of all calls together, in milliseconds.
    pub total_ms: f64,
}

impl AdminCalls {
    /// Counts others of the same operation.
    fn add(&mut self, others: &Self) {
        self.calls += others.calls;
        self.refused += others.refused;
        self.total_ms += others.total_ms;
        if others.slowest_ms > self.slowest_ms {
            self.slowest_ms = others.slowest_ms;
            self.slowest_ran_ms = others.slowest_ran_ms;
            self.slowest_queued_ms = others.slowest_queued_ms;
        }
    }
}

/// The calls made so far, by the name of the operation.
#[derive(Default)]
pub(crate) struct Administration(BTreeMap<&'static str, AdminCalls>);

impl Administration {
    /// Counts calls of one operation.
    pub(crate) fn add(&mut self, calls: AdminCalls) {
        match self.0.entry(calls.operation) {
            Entry::Occupied(mut sum) => sum.get_mut().add(&calls),
            Entry::Vacant(none) => {
                none.insert(calls);
            }
        }
    }

    /// Counts what another part of the run has done.
    pub(crate) fn merge(&mut self, other: Self) {
        other.into_calls().into_iter().for_each(|calls| self.add(calls));
    }

    /// By operation.
    pub(crate) fn into_calls(self) -> Vec<AdminCalls> {
        self.0.into_values().collect()
    }
}

/// The objects that an operation works on.
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

/// Nanoseconds that the calling thread has run, and that it has waited for a processor, as the
/// kernel counts them; 0 if it does not. Costs some microseconds.
fn ran_and_queued() -> [u64; 2] {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut counted = counted.split(' ').map(|nanos| nanos.parse().unwrap_or(0));
    [(); 2].map(|()| counted.next().unwrap_or(0))
}

/// Carries out the operation whose turn it is.
pub(crate) fn operate(works: &Works<'_>, turn: u64, rng: &mut SeededRng) -> AdminCalls {
    let (name, operation) = OPERATIONS[(turn % OPERATIONS.len() as u64) as usize];
    let times = || {
        let [ran, queued] = ran_and_queued();
        [Clock::System.monotonic_nanos(), ran, queued]
    };
    let before = times();
    let is_done = operation(works, rng).is_ok();
    let after = times();
    let [all, ran, queued] = [0, 1, 2].map(|i| after[i].saturating_sub(before[i]) as f64 / 1e6);
    AdminCalls {
        operation: name,
        calls: 1,
        refused: u64::from(!is_done),
        slowest_ms: all,
        slowest_ran_ms: ran,
        slowest_queued_ms: queued,
        total_ms: all,
    }
}

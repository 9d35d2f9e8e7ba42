//! Pools: the parts of the memory.

use std::collections::HashSet;

use base::ByteSize;
use millpond::PolicyKind;
use millpond::strategy::Strategy;

use super::Config;
use super::values::{Auto, Classes, MAX_ITEM, MIN_CHUNK};

settings! {
    /// A part of the memory with its own limit, policy and size classes.
    pub struct PoolSettings in "pool." {
        /// The pool's name in listeners, logs and metrics.
        restart name: String = "default".to_owned();

        /// The most memory the pool may hold, slack included. "auto": all free memory.
        online limit: Auto<ByteSize> = Auto::Auto;

        /// Memory that other pools cannot take from it. Pools share the memory beyond the reserves
        /// (docs/tenants.md#memory).
        online reserve: ByteSize = ByteSize::new(0);

        /// The eviction policy: "s3-fifo", "sieve", "lru", "lru+mid", "lru+split", "2q", "tinylfu",
        /// "w-tinylfu" or "arc"; with parameters as in "lru:30" (docs/policies.md). "lru+split"
        /// scales the cliffs of LRU: it splits queues in two by the pool's live curve, which it
        /// learns if nobody else does (docs/allocation.md#splits-in-the-live-engine). After a
        /// change the maintenance thread queues all items anew; a change is rejected if size
        /// classes would take over half of the memory (2 to 11 KB each, by policy).
        online policy: PolicyKind = PolicyKind::S3_FIFO;

        /// How its size classes trade slabs, about once a second: "clear-gain" (to classes that
        /// clearly gain more hits than others lose, so that slabs follow the sizes in use), "base"
        /// (only to classes whose allocations fail), "tail-age", "hits-per-slab", "marginal-hits",
        /// "hill-climbing", "free-memory" or "random" (docs/rebalancing.md).
        online rebalance: String = "clear-gain".to_owned();

        /// Gives the pool its own key space.
        restart own_keys: bool = true;

        /// Keeps its size classes ("fixed"), or adapts them to the sizes of its items ("tuned"),
        /// which saves most of the slack in chunks (docs/size-classes.md); the settings below are
        /// then the initial classes and their bounds.
        online classes: Classes = Classes::Fixed;

        /// Ratio of each size class to the one before.
        restart class_factor: f64 = 1.25;

        /// The smallest size class.
        restart class_min_bytes: ByteSize = MIN_CHUNK, in MIN_CHUNK..;

        /// The largest size class, which bounds an item with its header and key.
        restart class_max_bytes: ByteSize = ByteSize::mib(4), in ..=MAX_ITEM;

        /// A list of size classes, ascending; replaces factor, min and max if it is not empty.
        restart class_sizes_bytes: Vec<u32> = Vec::new();
    }
}

/// Reports pools that cannot work.
pub(super) fn check(config: &Config, problems: &mut Vec<String>) {
    let pools = &config.pools;
    if config.all_pools().is_empty() {
        problems.push("pool: there is none; add [[pool]] with a name".to_owned());
    }
    let mut names = HashSet::new();
    for pool in pools {
        let name = &pool.name;
        if name.is_empty() || name.len() > 64 {
            problems.push(format!("pool.name: `{name}` is not 1 to 64 bytes long"));
        }
        if !names.insert(name) {
            problems.push(format!("pool.name: two pools are called `{name}`; give each its own name"));
        }
        check_pool(pool, problems);
    }
}

fn check_pool(pool: &PoolSettings, problems: &mut Vec<String>) {
    let name = &pool.name;
    if let Err(problem) = Strategy::by_name(&pool.rebalance) {
        problems.push(format!("pool.{name}.rebalance: {problem}"));
    }
    if !(pool.class_factor > 1.0 && pool.class_factor <= 10.0) {
        problems.push(format!(
            "pool.{name}.class_factor: {} is not above 1 and at most 10; 1.25 wastes about a tenth",
            pool.class_factor
        ));
    }
    if pool.class_min_bytes > pool.class_max_bytes {
        problems.push(format!(
            "pool.{name}.class_min_bytes: {} is more than class_max_bytes ({})",
            pool.class_min_bytes.exact(),
            pool.class_max_bytes.exact()
        ));
    }
    let sizes = &pool.class_sizes_bytes;
    let is_size = |size: &u32| (MIN_CHUNK..=MAX_ITEM).contains(&ByteSize::new((*size).into()));
    if !sizes.is_sorted_by(|a, b| a < b) || !sizes.iter().all(is_size) {
        problems.push(format!(
            "pool.{name}.class_sizes_bytes: the sizes must ascend, and each be from {MIN_CHUNK} to {MAX_ITEM}"
        ));
    }
}

/// The least limit of a pool: with less it would hold next to nothing.
const LEAST_LIMIT: ByteSize = ByteSize::kib(64);

/// A question for somebody who left out the unit: of memcached's -m and Redis's users some mean
/// MiB.
pub(super) fn meant(bytes: ByteSize) -> Option<String> {
    let bytes = bytes.as_u64();
    (1..1 << 20).contains(&bytes).then(|| format!("; did you mean {}?", ByteSize::mib(bytes)))
}

/// The limits may total more than the memory, the reserves may not.
pub(super) fn check_reserves(config: &Config, problems: &mut Vec<String>) {
    let pools = config.all_pools();
    let list = |name: &str| {
        if config.pools.iter().any(|pool| pool.name == name) { "pool" } else { "tenant" }
    };
    let setting = |name: &str| format!("{}.{name}.reserve", list(name));
    for PoolSettings { name, limit, reserve, .. } in &pools {
        if let Auto::Set(limit) = limit
            && *limit < LEAST_LIMIT
        {
            let hint = meant(*limit).unwrap_or_else(|| "; \"auto\" is none".to_owned());
            let setting = format!("{}.{name}.limit", list(name));
            problems.push(format!("{setting}: {limit} is too little; give at least {LEAST_LIMIT}{hint}"));
        } else if let Auto::Set(limit) = limit
            && reserve > limit
        {
            problems.push(format!("{}: {reserve} is more than its limit, {limit}", setting(name)));
        }
    }
    for PoolSettings { name, reserve, .. } in &pools {
        if let Some(hint) = meant(*reserve).filter(|_| *reserve < LEAST_LIMIT) {
            let setting = setting(name);
            problems.push(format!("{setting}: {reserve} is too little to be of use{hint} 0 is none"));
        }
    }
    let all = ByteSize::new(pools.iter().fold(0, |sum, pool| pool.reserve.as_u64().saturating_add(sum)));
    if let Some(largest) = pools.iter().max_by_key(|pool| pool.reserve)
        && all > config.memory()
    {
        problems.push(format!(
            "{}: the reserves of all pools and tenants total {all}, and memory is {}; lower this one, which is the \
             largest, or others",
            setting(&largest.name),
            config.memory()
        ));
    }
}

//! `/stats.json`: everything the server knows of itself, for people and scripts.

use std::sync::atomic::Ordering;

use millpond::{ClassStats, PoolStats};
use serde_json::{Map, Value, json};

use crate::metrics::Counter;
use crate::shared::{ListenerState, Shared};

/// The whole document.
pub(super) fn collect(shared: &Shared) -> Value {
    let stats = shared.cache.stats();
    let now = shared.clock.unix_secs();
    let parts: Map<String, Value> =
        stats.memory.iter().map(|(part, bytes)| (part.name().to_owned(), json!(bytes))).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_secs": now.saturating_sub(shared.started_secs),
        "threads": shared.workers.len(),
        "connections": shared.connections.load(Ordering::Relaxed),
        "connection_memory_bytes": shared.budget.held(),
        "memory_limit_bytes": stats.memory_limit_bytes,
        "memory_bytes": parts,
        "index": {
            "entries": stats.index_entries,
            "capacity": stats.index_capacity,
            "growing": stats.index_growing,
        },
        "shared_misses": stats.shared_misses,
        "listeners": shared.listeners.iter().map(|listener| listener_json(listener)).collect::<Vec<_>>(),
        "pools": stats.pools.iter().map(pool_json).collect::<Vec<_>>(),
    })
}

fn listener_json(listener: &ListenerState) -> Value {
    let mut counters = Map::new();
    for counter in Counter::ALL {
        let shown = counter.shown();
        let area = shown.family.name.trim_start_matches("millpond_server_");
        let mut name = area.to_owned();
        for (_, value) in shown.labels {
            name.push('_');
            name.push_str(value);
        }
        counters.insert(name, json!(listener.counters.total(*counter)));
    }
    json!({
        "name": listener.name,
        "address": listener.address.to_string(),
        "pool": listener.pool.name,
        "connections": listener.connections.load(Ordering::Relaxed),
        "counters": counters,
    })
}

fn pool_json(pool: &PoolStats) -> Value {
    json!({
        "name": pool.name,
        "policy": pool.policy,
        "limit_bytes": pool.limit_bytes,
        "slab_bytes": pool.slab_bytes,
        "items": pool.sum(|class| class.items),
        "item_bytes": pool.sum(|class| class.item_bytes),
        "hits": pool.sum(|class| class.hits),
        "misses": pool.misses,
        "evictions": pool.sum(|class| class.evictions),
        "classes": pool.classes.iter().map(class_json).collect::<Vec<_>>(),
    })
}

fn class_json(class: &ClassStats) -> Value {
    json!({
        "number": class.number,
        "chunk_bytes": class.chunk_bytes,
        "slabs": class.slabs,
        "chunks": class.chunks,
        "free_chunks": class.free_chunks,
        "items": class.items,
        "item_bytes": class.item_bytes,
        "tail_age_secs": class.tail_age_secs,
        "hits": class.hits,
        "inserts": class.inserts,
        "evictions": class.evictions,
        "expired": class.expired,
        "removed": class.removed,
        "replaced": class.replaced,
        "allocation_failures": class.allocation_failures,
    })
}

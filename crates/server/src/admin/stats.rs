//! `/stats.json`: everything the server knows of itself, for people and scripts.

use std::sync::atomic::Ordering;

use frontend::curves::Outlook;
use frontend::instance::{Instance as _, Observation};
use frontend::listener::ListenerState;
use frontend::shared::Shared;
use frontend::tenant_figures::{TENANT_FIGURES, TenantFigures};
use millpond::watch::LatencyStats;
use millpond::{CacheStats, ClassStats, PoolStats, SplitStats};
use protocol::memcached::reply::shown_key;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use tenancy::latency::{Histogram, ProtocolFamily};
use tenancy::metrics::Counter;

use super::figures::{CLASS_FIGURES, DEPARTURES};

/// The whole document. The part of each tenant and pool is made only when it is written: those of a
/// thousand pools at once would take hundreds of mebibytes.
pub(super) struct Document<'a> {
    pub(super) shared: &'a Shared,
    /// The only pool whose classes and curve are shown; `None`: those of all are.
    pub(super) detailed: Option<&'a str>,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { shared, detailed } = *self;
        let Observation { monotonic_nanos, cache: stats, tenants } = shared.observe();
        let mut document = serializer.serialize_map(None)?;
        if let Value::Object(head) = head(shared, &stats, monotonic_nanos) {
            head.iter().try_for_each(|(name, value)| document.serialize_entry(name, value))?;
        }
        document.serialize_entry("tenants", &Each(|| tenants.iter().map(tenant_json)))?;
        document.serialize_entry(
            "pools",
            &Each(|| stats.pools.iter().map(|pool| pool_json(shared, pool, detailed))),
        )?;
        document.end()
    }
}

/// An array whose elements are made one by one.
struct Each<F>(F);

impl<I: Iterator<Item = Value>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// Returns the figures of the whole server.
fn head(shared: &Shared, stats: &CacheStats, monotonic_nanos: u64) -> Value {
    let now = shared.clock.unix_secs();
    let parts: Map<String, Value> =
        stats.memory.iter().map(|(part, bytes)| (part.name().to_owned(), json!(bytes))).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_secs": now.saturating_sub(shared.started_secs),
        "monotonic_nanos": monotonic_nanos,
        "threads": shared.workers.len(),
        "connections": shared.connections.load(Ordering::Relaxed),
        "connection_memory_bytes": shared.budget.held(),
        "memory_limit_bytes": stats.memory_limit_bytes,
        "memory_bytes": parts,
        "index": {
            "entries": stats.index_entries,
            "capacity": stats.index_capacity,
            "growing": stats.index_growing,
            "load": stats.index_load(),
        },
        "requests": requests(shared),
        "slow_requests": shared.slow_log.total(),
        "latency_nanos": latencies(shared),
        "events": shared.cache.event_stats().map(|events| {
            let dropped = events.dropped + shared.watching.lost_events();
            json!({"one_in": events.one_in, "recorded": events.recorded, "dropped": dropped})
        }),
        "monitor": shared.monitoring.status().map(|status| {
            json!({
                "runs": status.runs,
                "gives": status.gives,
                "takes": status.takes,
                "exhausted": status.exhausted,
                "errors": status.errors,
                "given_bytes": status.given_bytes,
                "last_decision": status.last_decision,
                "last_error": status.last_error,
            })
        }),
        // Null unless the cache lies in a file system with a limit.
        "shared_memory": shared.cache.file_system_bytes().map(|bytes| {
            json!({"free_bytes": bytes, "refused_slabs": stats.refused_slabs})
        }),
        "shared_misses": stats.shared_misses,
        "listeners": shared.listeners.iter().map(|listener| listener_json(listener)).collect::<Vec<_>>(),
    })
}

/// The hot keys of each pool, or of one, the hottest first; keys as in listings.
pub(super) fn hot_keys(shared: &Shared, only: Option<&str>) -> Value {
    let of_pool = |pool: &std::sync::Arc<tenancy::key_space::Pool>| {
        let keys = shared.cache.hot_keys(pool.id, usize::MAX).unwrap_or_default();
        let shown = keys
            .iter()
            .map(|hot| json!({"key": shown_key(&hot.key), "accesses": hot.accesses, "share": hot.share}));
        (pool.name.clone(), Value::Array(shown.collect()))
    };
    let directory = shared.directory();
    let wanted = directory.pools.iter().filter(|pool| only.is_none_or(|name| pool.name == name));
    Value::Object(wanted.map(of_pool).collect())
}

/// The miss-ratio curve of each pool, or of one; null if none is learnt.
pub(super) fn curves(shared: &Shared, only: Option<&str>) -> Value {
    let last = shared.control.status().and_then(|status| status.last);
    // As the pool's own policy has it, by bytes of slabs: what decisions go by.
    let decided = |name: &str| {
        let pool = last.as_ref()?.pools.iter().find(|pool| pool.name == name)?;
        let points = pool.curve.as_ref()?.points().iter();
        Some(points.map(|point| (point.size, point.miss_ratio)).collect::<Vec<_>>())
    };
    let of_pool = |pool: &std::sync::Arc<tenancy::key_space::Pool>| {
        let learnt = shared.cache.curve(pool.id).ok().flatten();
        let shown = learnt.map_or(Value::Null, |learnt| {
            json!({
                "curve": learnt.in_memory(),
                "present_bytes": learnt.memory_bytes,
                "is_of_policy": learnt.of_policy.is_some(),
                "policy_points": decided(&pool.name),
                "rate": learnt.rate,
                "samples": learnt.samples,
                "lost": learnt.lost,
                "bytes": learnt.bytes,
                "miss_cost": learnt.miss_cost.map(|cost| {
                    json!({
                        "samples": cost.samples,
                        "mean_secs": cost.mean.as_secs_f64(),
                        "p50_secs": cost.p50.as_secs_f64(),
                        "p99_secs": cost.p99.as_secs_f64(),
                    })
                }),
            })
        });
        (pool.name.clone(), shown)
    };
    let directory = shared.directory();
    let wanted = directory.pools.iter().filter(|pool| only.is_none_or(|name| pool.name == name));
    Value::Object(wanted.map(of_pool).collect())
}

/// The latency of requests, by protocol: buckets by their upper bounds in seconds, null for the
/// last, with the requests in each and not in the one before.
fn requests(shared: &Shared) -> Map<String, Value> {
    let of = |spoken: ProtocolFamily| {
        let Histogram { sum_secs, count, buckets } = shared.latencies.histogram(spoken);
        let bound = |secs: f64| secs.is_finite().then_some(secs);
        let buckets: Vec<_> = buckets.into_iter().map(|(secs, count)| (bound(secs), count)).collect();
        (spoken.name().to_owned(), json!({"sum_secs": sum_secs, "timed": count, "buckets": buckets}))
    };
    ProtocolFamily::ALL.into_iter().map(of).collect()
}

fn latencies(shared: &Shared) -> Map<String, Value> {
    let latency = |latency: LatencyStats| {
        let figures = json!({
            "samples": latency.samples,
            "mean": latency.mean_nanos,
            "p50": latency.p50_nanos,
            "p90": latency.p90_nanos,
            "p99": latency.p99_nanos,
            "p999": latency.p999_nanos,
            "p9999": latency.p9999_nanos,
            "max": latency.max_nanos,
        });
        (latency.what.name().to_owned(), figures)
    };
    shared.cache.latencies().into_iter().map(latency).collect()
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
        counters.insert(name, json!(listener.accounts.total(*counter)));
    }
    json!({
        "name": listener.name,
        "address": listener.address.to_string(),
        "pool": listener.accounts.home.tenant.pool.name,
        "tenant": listener.accounts.home.tenant.name,
        "connections": listener.connections.load(Ordering::Relaxed),
        "counters": counters,
    })
}

fn tenant_json(tenant: &TenantFigures) -> Value {
    let mut shown = Map::new();
    shown.insert("name".to_owned(), json!(tenant.name));
    shown.insert("pool".to_owned(), json!(tenant.pool));
    for figure in TENANT_FIGURES {
        shown.insert(figure.name.to_owned(), json!((figure.of)(tenant)));
    }
    Value::Object(shown)
}

fn pool_json(shared: &Shared, pool: &PoolStats, detailed: Option<&str>) -> Value {
    let is_detailed = detailed.is_none_or(|name| pool.name == name);
    let outlook = is_detailed.then(|| Outlook::of(&shared.cache, pool)).flatten().map(|outlook| {
        let miss_ratios: Map<String, Value> =
            outlook.miss_ratios.iter().map(|(size, ratio)| ((*size).to_owned(), json!(ratio))).collect();
        json!({"samples": outlook.samples, "error": outlook.error, "miss_ratio": miss_ratios})
    });
    json!({
        "name": pool.name,
        "policy": pool.policy,
        "limit_bytes": pool.limit_bytes,
        "reserve_bytes": pool.reserve_bytes,
        "granted_bytes": pool.granted_bytes,
        "slab_bytes": pool.slab_bytes,
        "items": pool.sum(|class| class.items),
        "item_bytes": pool.sum(|class| class.item_bytes),
        "hits": pool.sum(|class| class.hits),
        "misses": pool.misses,
        "evictions": pool.sum(|class| class.evictions),
        "strategy": pool.strategy,
        "slabs_moved": pool.slabs_moved,
        "rebalances": pool.rebalances,
        "split": pool.split.map(|SplitStats { split, made, ended, failed }| json!({
            "keys": split.keys, "memory": split.memory, "made": made, "ended": ended, "failed": failed,
        })),
        "slabs_reclaimed": pool.slabs_reclaimed,
        "resizes": pool.resizes,
        "curve": outlook,
        "classes": is_detailed.then(|| pool.classes.iter().map(class_json).collect::<Vec<_>>()),
    })
}

fn class_json(class: &ClassStats) -> Value {
    let mut shown = Map::new();
    for figure in CLASS_FIGURES {
        shown.insert(figure.name.to_owned(), json!((figure.of)(class)));
    }
    let departures = DEPARTURES.iter().map(|(reason, of)| ((*reason).to_owned(), json!(of(class))));
    shown.insert("departures".to_owned(), Value::Object(departures.collect()));
    shown.insert("number".to_owned(), json!(class.number));
    shown.insert("tail_age_secs".to_owned(), json!(class.tail_age_secs));
    shown.insert("projected_tail_age_secs".to_owned(), json!(class.projected_tail_age_secs));
    let queues = class.queues.iter().map(|queue| {
        json!({"name": queue.name, "items": queue.items, "age_secs": queue.age_secs, "hits": queue.hits})
    });
    shown.insert("queues".to_owned(), Value::Array(queues.collect()));
    Value::Object(shown)
}

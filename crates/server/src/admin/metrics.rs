//! `/metrics`: what the server and the cache count, in OpenMetrics text.
//!
//! Nothing is kept for it: a scrape reads the counters where they are. Labels come from sets that the configuration bounds:
//! listener, pool, size class, and names that are fixed in the code.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millpond::{CacheStats, ClassStats, PoolStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::metrics::Counter;
use crate::shared::Shared;

/// One line: labels and value.
type Sample = (Vec<(&'static str, String)>, u64);

/// A metric with all its lines.
struct Metric {
    /// Without the `_total` that is put behind a counter's.
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<Sample>,
}

/// Name, help, kind, and the figure.
type ClassMetric = (&'static str, &'static str, MetricType, fn(&ClassStats) -> u64);

/// What is known of a size class, with name, help and whether it only grows.
const CLASS_METRICS: &[ClassMetric] = &[
    ("millpond_class_chunk_bytes", "Size of the chunks of a size class.", MetricType::Gauge, |c| {
        u64::from(c.chunk_bytes)
    }),
    ("millpond_class_slabs", "Slabs of a size class.", MetricType::Gauge, |c| c.slabs),
    ("millpond_class_free_chunks", "Chunks without an item.", MetricType::Gauge, |c| c.free_chunks),
    ("millpond_class_items", "Items.", MetricType::Gauge, |c| c.items),
    (
        "millpond_class_item_bytes",
        "Bytes that items take, headers and keys included.",
        MetricType::Gauge,
        |c| c.item_bytes,
    ),
    ("millpond_class_hits", "Finds that found something.", MetricType::Counter, |c| c.hits),
    ("millpond_class_inserts", "Items inserted.", MetricType::Counter, |c| c.inserts),
    ("millpond_class_evictions", "Items evicted.", MetricType::Counter, |c| c.evictions),
    (
        "millpond_class_expired",
        "Items found to be expired or flushed, and removed.",
        MetricType::Counter,
        |c| c.expired,
    ),
    ("millpond_class_removed", "Items removed by key.", MetricType::Counter, |c| c.removed),
    ("millpond_class_replaced", "Items replaced by another.", MetricType::Counter, |c| c.replaced),
    (
        "millpond_class_allocation_failures",
        "Allocations that failed because nothing could be evicted.",
        MetricType::Counter,
        |c| c.allocation_failures,
    ),
];

/// All metrics as text.
///
/// # Errors
/// Where a metric cannot be written, which formatting to memory does not.
pub(super) fn render(shared: &Arc<Shared>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Everything(Arc::clone(shared))));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

struct Everything(Arc<Shared>);

impl fmt::Debug for Everything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Everything")
    }
}

impl Collector for Everything {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in collect(&self.0) {
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, metric.kind)?;
            for (labels, value) in &metric.samples {
                let mut line = family.encode_family(labels)?;
                match metric.kind {
                    MetricType::Counter => {
                        line.encode_counter::<prometheus_client::encoding::NoLabelSet, _, u64>(value, None)?
                    }
                    _ => line.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}

fn collect(shared: &Shared) -> Vec<Metric> {
    let stats = shared.cache.stats();
    let mut metrics = server_metrics(shared);
    metrics.extend(listener_counters(shared));
    metrics.extend(cache_metrics(&stats));
    metrics.extend(pool_metrics(&stats.pools));
    metrics
}

fn gauge(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
    Metric { name, help, kind: MetricType::Gauge, samples }
}

fn server_metrics(shared: &Shared) -> Vec<Metric> {
    let connections = shared
        .listeners
        .iter()
        .map(|listener| {
            let open = listener.connections.load(Ordering::Relaxed) as u64;
            (vec![("listener", listener.name.clone())], open)
        })
        .collect();
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    vec![
        gauge("millpond_build_info", "Always 1; the label has the version.", vec![(version, 1)]),
        gauge(
            "millpond_server_start_time_seconds",
            "When the server was started, in Unix seconds.",
            vec![(vec![], u64::from(shared.started_secs))],
        ),
        gauge("millpond_server_threads", "Worker threads.", vec![(vec![], shared.workers.len() as u64)]),
        gauge("millpond_server_connections", "Connections that are open now.", connections),
        gauge(
            "millpond_server_connection_memory_bytes",
            "What connections hold: buffers, and items on their way in or out.",
            vec![(vec![], shared.budget.held())],
        ),
    ]
}

/// The counters of all listeners, by family.
fn listener_counters(shared: &Shared) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for counter in Counter::ALL {
        let shown = counter.shown();
        let samples = shared.listeners.iter().map(|listener| {
            let mut labels = vec![("listener", listener.name.clone())];
            labels.extend(shown.labels.iter().map(|(label, value)| (*label, (*value).to_owned())));
            (labels, listener.counters.total(*counter))
        });
        match metrics.iter_mut().find(|metric| metric.name == shown.family.name) {
            Some(metric) => metric.samples.extend(samples),
            None => metrics.push(Metric {
                name: shown.family.name,
                help: shown.family.help,
                kind: MetricType::Counter,
                samples: samples.collect(),
            }),
        }
    }
    metrics
}

fn cache_metrics(stats: &CacheStats) -> Vec<Metric> {
    let parts =
        stats.memory.iter().map(|(part, bytes)| (vec![("part", part.name().to_owned())], *bytes)).collect();
    vec![
        gauge(
            "millpond_memory_limit_bytes",
            "All memory that the cache may use.",
            vec![(vec![], stats.memory_limit_bytes)],
        ),
        gauge("millpond_memory_bytes", "Memory in use, by part.", parts),
        gauge("millpond_index_entries", "Entries in the index.", vec![(vec![], stats.index_entries)]),
        gauge(
            "millpond_index_capacity",
            "Entries for which the index has room.",
            vec![(vec![], stats.index_capacity)],
        ),
        gauge(
            "millpond_index_growing",
            "1 while the index grows.",
            vec![(vec![], u64::from(stats.index_growing))],
        ),
    ]
}

fn pool_metrics(pools: &[PoolStats]) -> Vec<Metric> {
    let pool_label = |pool: &PoolStats| vec![("pool", pool.name.clone())];
    let per_pool = |field: fn(&PoolStats) -> Option<u64>| -> Vec<Sample> {
        pools.iter().filter_map(|pool| Some((pool_label(pool), field(pool)?))).collect()
    };
    let per_class = |field: fn(&ClassStats) -> Option<u64>| -> Vec<Sample> {
        let of_pool = |pool: &PoolStats| -> Vec<Sample> {
            let sample = |class: &ClassStats| {
                let labels = vec![("pool", pool.name.clone()), ("class", class.number.to_string())];
                Some((labels, field(class)?))
            };
            pool.classes.iter().filter_map(sample).collect()
        };
        pools.iter().flat_map(of_pool).collect()
    };
    let mut metrics = vec![
        gauge(
            "millpond_pool_limit_bytes",
            "Limit of a pool, where it has one.",
            per_pool(|pool| pool.limit_bytes),
        ),
        gauge(
            "millpond_pool_slab_bytes",
            "Bytes of the slabs of a pool.",
            per_pool(|pool| Some(pool.slab_bytes)),
        ),
        Metric {
            name: "millpond_pool_misses",
            help: "Finds that found nothing, of pools with keys of their own.",
            kind: MetricType::Counter,
            samples: per_pool(|pool| Some(pool.misses)),
        },
        gauge(
            "millpond_class_tail_age_seconds",
            "For how long the next item to be evicted has not been used, where the policy knows.",
            per_class(|class| class.tail_age_secs.map(u64::from)),
        ),
    ];
    for (name, help, kind, field) in CLASS_METRICS {
        let of_class = |pool: &PoolStats| -> Vec<Sample> {
            let labels =
                |class: &ClassStats| vec![("pool", pool.name.clone()), ("class", class.number.to_string())];
            pool.classes.iter().map(|class| (labels(class), field(class))).collect()
        };
        let samples = pools.iter().flat_map(of_class).collect();
        metrics.push(Metric { name, help, kind: *kind, samples });
    }
    metrics
}

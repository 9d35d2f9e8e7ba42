//! `/metrics`: the counts of the server and the cache, in OpenMetrics text.
//!
//! Nothing is kept for it: a scrape reads the counters where they are. Labels come from sets that
//! the configuration bounds: listener, pool, size class, and names that are fixed in the code.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use frontend::curves::Outlook;
use frontend::instance::{Instance as _, Observation};
use frontend::log::dropped_lines;
use frontend::shared::Shared;
use frontend::tenant_figures::{TENANT_FIGURES, TenantFigures};
use frontend::tls::TlsSlot;
use millpond::monitor::MonitorStatus;
use millpond::watch::{EventStats, LatencyStats};
use millpond::{Cache, CacheStats, ClassStats, PoolStats, QueueStats, SplitStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tenancy::latency::{Histogram, ProtocolFamily, TenantLatencies};
use tenancy::metrics::{Counter, RESP_COMMANDS};

use super::control;
use super::figures::{CLASS_FIGURES, DEPARTURES, Figure};
use super::metric::{Labels, Metric, Number, Sample, counter, gauge, ratio, whole};

/// Tenants that have a histogram of their own; each is 14 lines of every scrape.
const MAX_TIMED_TENANTS: usize = 256;
/// All further tenants, which have one together. No tenant is called so.
const OTHERS: &str = "*";

/// Returns all metrics as text.
///
/// # Errors
/// If a metric cannot be written, which does not happen when formatting to memory.
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
                match (metric.kind, value) {
                    (MetricType::Counter, Number::Whole(value)) => {
                        line.encode_counter::<NoLabelSet, _, u64>(value, None)?
                    }
                    (_, Number::Whole(value)) => line.encode_gauge(value)?,
                    (_, Number::Fraction(value)) => line.encode_gauge(value)?,
                }
            }
        }
        encode_latencies(&self.0, &mut encoder)
    }
}

/// Encodes the latency of requests, by protocol.
fn encode_latencies(shared: &Shared, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut family = encoder.encode_descriptor(
        "millpond_server_request",
        "Time from receiving a request until its answer is ready to send, of one turn of a connection in eight.",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for spoken in ProtocolFamily::ALL {
        let Histogram { sum_secs, count, buckets } = shared.latencies.histogram(spoken);
        let labels = [("protocol", spoken.name())];
        family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum_secs, count, &buckets, None)?;
    }
    encode_tenant_latencies(shared, encoder)
}

/// Encodes the latencies of each tenant's requests.
fn encode_tenant_latencies(shared: &Shared, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut family = encoder.encode_descriptor(
        "millpond_tenant_request",
        "Time from receiving a request of the tenant until its answer is ready to send, of one turn of a connection in eight.",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    let directory = shared.directory();
    let (shown, others) = directory.tenants.split_at(directory.tenants.len().min(MAX_TIMED_TENANTS));
    let each = shown.iter().map(|tenant| (tenant.name.as_str(), std::slice::from_ref(tenant)));
    let rest = (!others.is_empty()).then_some((OTHERS, others));
    for (name, tenants) in each.chain(rest) {
        let all = TenantLatencies::histogram(tenants.iter().map(|tenant| &tenant.latencies));
        let Histogram { sum_secs, count, buckets } = all;
        let labels = [("tenant", name)];
        family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum_secs, count, &buckets, None)?;
    }
    Ok(())
}

fn collect(shared: &Shared) -> Vec<Metric> {
    let Observation { cache: stats, tenants, .. } = shared.observe();
    let mut metrics = server_metrics(shared);
    metrics.extend(listener_counters(shared));
    metrics.extend(tenant_metrics(&tenants));
    metrics.extend(cache_metrics(&stats));
    metrics.extend(pool_metrics(&stats.pools));
    metrics.extend(split_metrics(&stats.pools));
    metrics.extend(class_metrics(&stats.pools));
    metrics.push(departures(&stats.pools));
    metrics.extend(queue_metrics(&stats.pools));
    metrics.extend(curve_metrics(&shared.cache, &stats.pools));
    metrics.extend(latency_metrics(&shared.cache.latencies()));
    metrics.extend(event_metrics(shared));
    metrics.extend(monitor_metrics(shared));
    metrics.extend(control::metrics(shared));
    metrics
}

fn class_labels(pool: &PoolStats, class: &ClassStats) -> Vec<(&'static str, String)> {
    vec![("pool", pool.name.clone()), ("class", class.number.to_string())]
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
    let expiry = |tls: &TlsSlot| tls.get().and_then(|tls| u64::try_from(tls.expires_secs).ok());
    let certificates = shared
        .listeners
        .iter()
        .filter_map(|listener| Some((vec![("listener", listener.name.clone())], expiry(&listener.tls)?)));
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
            "millpond_server_tracking_clients",
            "Connections that receive changes of keys.",
            vec![(vec![], shared.tracking.figures().0 as u64)],
        ),
        gauge(
            "millpond_server_tracked_keys",
            "Copies of keys that they have: see limits.max_tracked_keys.",
            vec![(vec![], shared.tracking.figures().1 as u64)],
        ),
        gauge(
            "millpond_server_connection_memory_bytes",
            "What connections hold: buffers, and items on their way in or out.",
            vec![(vec![], shared.budget.held())],
        ),
        counter(
            "millpond_server_slow_requests",
            "Requests slow enough for the slow log.",
            vec![(vec![], shared.slow_log.total())],
        ),
        gauge(
            "millpond_server_tls_certificate_expiry_time_seconds",
            "When the first certificate of a listener's chain expires, in Unix seconds.",
            certificates.collect(),
        ),
        gauge(
            "millpond_admin_tls_certificate_expiry_time_seconds",
            "The same of the admin server.",
            expiry(&shared.admin_tls).map(|secs| (vec![], secs)).into_iter().collect(),
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
            (labels, Number::Whole(listener.accounts.total(*counter)))
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
    let commands = shared.listeners.iter().flat_map(|listener| {
        listener.accounts.calls().into_iter().map(|(command, outcome, calls)| {
            let labels = vec![
                ("listener", listener.name.clone()),
                ("command", command.to_owned()),
                ("outcome", outcome.to_owned()),
            ];
            (labels, calls)
        })
    });
    metrics.push(counter(RESP_COMMANDS.name, RESP_COMMANDS.help, commands.collect()));
    metrics
}

/// Returns the metrics of each tenant's clients, and of the contents of its pool.
fn tenant_metrics(tenants: &[TenantFigures]) -> Vec<Metric> {
    let figure = |of: fn(&TenantFigures) -> u64| -> Vec<Sample> {
        tenants.iter().map(|tenant| (vec![("tenant", tenant.name.clone())], of(tenant))).collect()
    };
    TENANT_FIGURES
        .iter()
        .map(|shown| Metric {
            name: shown.metric,
            help: shown.help,
            kind: if shown.is_total { MetricType::Counter } else { MetricType::Gauge },
            samples: whole(figure(shown.of)),
        })
        .collect()
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
        counter(
            "millpond_cache_removed_with_pools",
            "Items that were removed together with their pools.",
            vec![(vec![], stats.removed_with_pools)],
        ),
        counter(
            "millpond_shared_memory_refused_slabs",
            "How often the file system of shared_memory had no room for a slab of 4 MiB.",
            vec![(vec![], stats.refused_slabs)],
        ),
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
    let per_pool = |field: fn(&PoolStats) -> Option<u64>| -> Vec<Sample> {
        let sample = |pool: &PoolStats| Some((vec![("pool", pool.name.clone())], field(pool)?));
        pools.iter().filter_map(sample).collect()
    };
    vec![
        gauge(
            "millpond_pool_limit_bytes",
            "Limit of a pool, where it has one.",
            per_pool(|pool| pool.limit_bytes),
        ),
        gauge(
            "millpond_pool_reserve_bytes",
            "Memory that other pools do not take from a pool.",
            per_pool(|pool| Some(pool.reserve_bytes)),
        ),
        gauge(
            "millpond_pool_granted_bytes",
            "Memory that a policy has granted a pool, where one moves memory between pools.",
            per_pool(|pool| pool.granted_bytes),
        ),
        gauge(
            "millpond_pool_slab_bytes",
            "Bytes of the slabs of a pool.",
            per_pool(|pool| Some(pool.slab_bytes)),
        ),
        counter(
            "millpond_pool_misses",
            "Finds that found nothing, of pools with keys of their own.",
            per_pool(|pool| Some(pool.misses)),
        ),
        counter(
            "millpond_pool_slabs_moved",
            "Slabs taken from a class of a pool for another.",
            per_pool(|pool| Some(pool.slabs_moved)),
        ),
        counter(
            "millpond_pool_rebalances",
            "Slabs moved because the pool's strategy said so.",
            per_pool(|pool| Some(pool.rebalances)),
        ),
        counter(
            "millpond_pool_slabs_reclaimed",
            "Slabs that other pools took from a pool.",
            per_pool(|pool| Some(pool.slabs_reclaimed)),
        ),
        counter(
            "millpond_pool_resizes",
            "Times that the limit of a pool was set.",
            per_pool(|pool| Some(pool.resizes)),
        ),
    ]
}

/// The splits of pools whose policy has them.
fn split_metrics(pools: &[PoolStats]) -> Vec<Metric> {
    fn of<T>(pools: &[PoolStats], field: fn(&SplitStats) -> T) -> Vec<(Labels, T)> {
        let sample =
            |pool: &PoolStats| Some((vec![("pool", pool.name.clone())], field(pool.split.as_ref()?)));
        pools.iter().filter_map(sample).collect()
    }
    let shares = |field: fn(&SplitStats) -> f64| of(pools, field);
    let counts = |field: fn(&SplitStats) -> u64| of(pools, field);
    vec![
        ratio(
            "millpond_pool_split_keys_ratio",
            "Share of the keys in the left partition, of pools whose policy is lru+split; 0 = no split.",
            shares(|split| split.split.keys),
        ),
        ratio(
            "millpond_pool_split_memory_ratio",
            "Share of the memory in the left partition, of the same pools.",
            shares(|split| split.split.memory),
        ),
        counter(
            "millpond_pool_splits",
            "Splits of a pool's queues that were made or changed.",
            counts(|split| split.made),
        ),
        counter(
            "millpond_pool_splits_failed",
            "Splits that ended as the pool missed more than LRU would have.",
            counts(|split| split.failed),
        ),
    ]
}

fn class_metrics(pools: &[PoolStats]) -> Vec<Metric> {
    let per_class = |field: &dyn Fn(&ClassStats) -> Option<u64>| -> Vec<Sample> {
        let of_pool = |pool: &PoolStats| -> Vec<Sample> {
            let sample = |class: &ClassStats| Some((class_labels(pool, class), field(class)?));
            pool.classes.iter().filter_map(sample).collect()
        };
        pools.iter().flat_map(of_pool).collect()
    };
    let mut metrics = vec![
        gauge(
            "millpond_class_tail_age_seconds",
            "For how long the next item to be evicted has not been used, where the policy knows.",
            per_class(&|class| class.tail_age_secs.map(u64::from)),
        ),
        gauge(
            "millpond_class_projected_tail_age_seconds",
            "The same if the class had a slab less.",
            per_class(&|class| class.projected_tail_age_secs.map(u64::from)),
        ),
    ];
    for figure in CLASS_FIGURES {
        let Figure { metric, help, kind, of, .. } = figure;
        let samples = per_class(&|class| Some(of(class)));
        metrics.push(Metric { name: metric, help, kind: *kind, samples: whole(samples) });
    }
    metrics
}

/// The counts of evictions and removals, by class and reason.
fn departures(pools: &[PoolStats]) -> Metric {
    let mut samples = Vec::new();
    for (pool, class) in pools.iter().flat_map(|pool| pool.classes.iter().map(move |class| (pool, class))) {
        for (reason, of) in DEPARTURES {
            let mut labels = class_labels(pool, class);
            labels.push(("reason", (*reason).to_owned()));
            samples.push((labels, of(class)));
        }
    }
    counter("millpond_class_departures", "Items that left, by reason.", samples)
}

/// The queues of the policies, by class.
fn queue_metrics(pools: &[PoolStats]) -> Vec<Metric> {
    let per_queue = |field: fn(&QueueStats) -> Option<u64>| -> Vec<Sample> {
        let mut samples = Vec::new();
        for (pool, class) in pools.iter().flat_map(|pool| pool.classes.iter().map(move |class| (pool, class)))
        {
            for queue in &class.queues {
                let Some(value) = field(queue) else { continue };
                let mut labels = class_labels(pool, class);
                labels.push(("queue", queue.name.to_owned()));
                samples.push((labels, value));
            }
        }
        samples
    };
    vec![
        gauge(
            "millpond_queue_items",
            "Items of a queue of a class's policy.",
            per_queue(|queue| Some(queue.items)),
        ),
        gauge(
            "millpond_queue_age_seconds",
            "For how long the last item of a queue has not been used, or has been there, where it is known.",
            per_queue(|queue| queue.age_secs.map(u64::from)),
        ),
        counter("millpond_queue_hits", "Finds of items of a queue.", per_queue(|queue| Some(queue.hits))),
    ]
}

/// Returns the metrics of the miss-ratio curves of pools that learn them.
fn curve_metrics(cache: &Cache, pools: &[PoolStats]) -> Vec<Metric> {
    let known: Vec<(Labels, Outlook)> = pools
        .iter()
        .filter_map(|pool| Some((vec![("pool", pool.name.clone())], Outlook::of(cache, pool)?)))
        .collect();
    let numbers = |of: fn(&Outlook) -> u64| known.iter().map(|(pool, it)| (pool.clone(), of(it))).collect();
    let shares = |of: fn(&Outlook) -> f64| known.iter().map(|(pool, it)| (pool.clone(), of(it))).collect();
    let mut misses = Vec::new();
    for (pool, outlook) in &known {
        for (size, miss_ratio) in &outlook.miss_ratios {
            let mut labels = pool.clone();
            labels.push(("size", (*size).to_owned()));
            misses.push((labels, *miss_ratio));
        }
    }
    vec![
        counter(
            "millpond_pool_curve_samples",
            "Reads of followed keys that the pool's curve was learnt from.",
            numbers(|it| it.samples),
        ),
        counter(
            "millpond_pool_curve_lost",
            "Accesses to followed keys that were left out because another thread was at it.",
            numbers(|it| it.lost),
        ),
        gauge(
            "millpond_pool_curve_keys",
            "Keys that are followed for the pool's curve.",
            numbers(|it| it.keys),
        ),
        gauge(
            "millpond_pool_curve_bytes",
            "Memory that learning the pool's curve takes.",
            numbers(|it| it.bytes),
        ),
        ratio("millpond_pool_curve_rate", "Share of the pool's keys that is followed.", shares(|it| it.rate)),
        ratio(
            "millpond_pool_curve_error",
            "Mean distance of the curve's miss ratios from the exact ones that 95 % of such samples keep.",
            shares(|it| it.error),
        ),
        ratio(
            "millpond_pool_curve_miss_ratio",
            "What an LRU would miss with half of the pool's present memory, with all, with a GiB more, and with twice as much.",
            misses,
        ),
    ]
}

/// Returns the latency of calls of the engine, if they are timed.
fn latency_metrics(latencies: &[LatencyStats]) -> Vec<Metric> {
    let call = |latency: &LatencyStats| vec![("call", latency.what.name().to_owned())];
    let mut quantiles = Vec::new();
    for latency in latencies {
        let figures = [
            ("0.5", latency.p50_nanos),
            ("0.9", latency.p90_nanos),
            ("0.99", latency.p99_nanos),
            ("0.999", latency.p999_nanos),
            ("0.9999", latency.p9999_nanos),
            ("1", latency.max_nanos),
        ];
        for (quantile, nanos) in figures {
            let mut labels = call(latency);
            labels.push(("quantile", quantile.to_owned()));
            quantiles.push((labels, nanos));
        }
    }
    let samples = latencies.iter().map(|latency| (call(latency), latency.samples)).collect();
    vec![
        gauge(
            "millpond_call_latency_nanoseconds",
            "Latency of the engine's calls since timing was switched on, by quantile.",
            quantiles,
        ),
        counter("millpond_call_samples", "Calls that were timed.", samples),
    ]
}

/// The events and requests that are written to files.
fn event_metrics(shared: &Shared) -> Vec<Metric> {
    let stats = shared.cache.event_stats();
    let one = |value: fn(&EventStats) -> u64| stats.iter().map(|stats| (vec![], value(stats))).collect();
    vec![
        counter(
            "millpond_events_recorded",
            "Events of sampled keys that were recorded.",
            one(|stats| stats.recorded),
        ),
        counter(
            "millpond_events_dropped",
            "Events of sampled keys that found the buffer full, or could not be written to the file.",
            stats.iter().map(|stats| (vec![], stats.dropped + shared.watching.lost_events())).collect(),
        ),
        counter(
            "millpond_log_lines_dropped",
            "Lines of the log that were dropped, as standard error was not read.",
            vec![(vec![], dropped_lines())],
        ),
        counter(
            "millpond_request_log_written",
            "Requests that were written into the log of requests.",
            vec![(vec![], shared.request_log.figures().0)],
        ),
        counter(
            "millpond_request_log_dropped",
            "Requests for sampled keys that are missing in the log of requests: they found no room, or it could not be written.",
            vec![(vec![], shared.request_log.figures().1)],
        ),
        counter(
            "millpond_telemetry_spans_sent",
            "Spans that the collector took.",
            shared.tracing.figures().map(|(sent, _)| (vec![], sent)).into_iter().collect(),
        ),
        counter(
            "millpond_telemetry_spans_dropped",
            "Spans that found no room, or that the collector did not take.",
            shared.tracing.figures().map(|(_, dropped)| (vec![], dropped)).into_iter().collect(),
        ),
    ]
}

/// Returns the metrics of the memory monitor.
fn monitor_metrics(shared: &Shared) -> Vec<Metric> {
    let status = shared.monitoring.status();
    let one =
        |value: fn(&MonitorStatus) -> u64| status.iter().map(|status| (vec![], value(status))).collect();
    vec![
        gauge(
            "millpond_monitor_given_bytes",
            "Memory that the cache has given back and not taken back.",
            one(|status| status.given_bytes),
        ),
        counter("millpond_monitor_runs", "Runs of the memory monitor.", one(|status| status.runs)),
        counter("millpond_monitor_gives", "Runs that gave memory back.", one(|status| status.gives)),
        counter("millpond_monitor_takes", "Runs that took memory back.", one(|status| status.takes)),
        counter(
            "millpond_monitor_exhausted",
            "Runs that found memory short and might give no more back.",
            one(|status| status.exhausted),
        ),
        counter("millpond_monitor_errors", "Runs that failed.", one(|status| status.errors)),
    ]
}

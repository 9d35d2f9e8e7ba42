//! The figures of a size class, with the names under which `/metrics` and `/stats.json` show them.

use millpond::ClassStats;
use prometheus_client::metrics::MetricType;

/// A figure of a size class.
pub(super) struct Figure {
    /// In JSON.
    pub(super) name: &'static str,
    /// In Prometheus.
    pub(super) metric: &'static str,
    pub(super) help: &'static str,
    /// A counter, or a gauge.
    pub(super) kind: MetricType,
    pub(super) of: fn(&ClassStats) -> u64,
}

const fn gauge(
    name: &'static str,
    metric: &'static str,
    help: &'static str,
    of: fn(&ClassStats) -> u64,
) -> Figure {
    Figure { name, metric, help, kind: MetricType::Gauge, of }
}

const fn counter(
    name: &'static str,
    metric: &'static str,
    help: &'static str,
    of: fn(&ClassStats) -> u64,
) -> Figure {
    Figure { name, metric, help, kind: MetricType::Counter, of }
}

/// All that are plain numbers.
pub(super) const CLASS_FIGURES: &[Figure] = &[
    gauge("chunk_bytes", "millpond_class_chunk_bytes", "Size of the chunks of a size class.", |c| {
        u64::from(c.chunk_bytes)
    }),
    gauge("bytes", "millpond_class_bytes", "Memory of a size class, in slabs and runs of units.", |c| {
        c.bytes
    }),
    gauge("chunks", "millpond_class_chunks", "Chunks of all its slabs.", |c| c.chunks),
    gauge("free_chunks", "millpond_class_free_chunks", "Chunks without an item.", |c| c.free_chunks),
    gauge(
        "magazine_chunks",
        "millpond_class_magazine_chunks",
        "Free chunks that threads keep at hand.",
        |c| c.magazine_chunks,
    ),
    gauge("items", "millpond_class_items", "Items.", |c| c.items),
    gauge("links", "millpond_class_links", "Links of chained items.", |c| c.links),
    gauge(
        "item_bytes",
        "millpond_class_item_bytes",
        "Bytes that items and links take, headers and keys included.",
        |c| c.item_bytes,
    ),
    gauge(
        "slack_bytes",
        "millpond_class_slack_bytes",
        "Bytes of chunks with an item that the item does not fill.",
        |c| c.slack_bytes(),
    ),
    gauge(
        "unused_slab_bytes",
        "millpond_class_unused_slab_bytes",
        "Bytes at the ends of slabs, too few for a chunk.",
        |c| c.unused_slab_bytes(),
    ),
    gauge(
        "queue_bytes",
        "millpond_class_queue_bytes",
        "Memory of its eviction queues and expiry wheel.",
        |c| c.queue_bytes,
    ),
    gauge("ghost_bytes", "millpond_class_ghost_bytes", "Memory of its ghosts.", |c| c.ghost_bytes),
    gauge("ghosts", "millpond_class_ghosts", "Keys of evicted items that its policy remembers.", |c| {
        c.ghosts
    }),
    gauge("wheel_entries", "millpond_class_wheel_entries", "Entries of its expiry wheel.", |c| {
        c.wheel_entries
    }),
    gauge(
        "last_evicted_idle_secs",
        "millpond_class_last_evicted_idle_seconds",
        "For how long the item that was evicted last had not been used.",
        |c| u64::from(c.last_evicted_idle_secs),
    ),
    counter("hits", "millpond_class_hits", "Finds that found something.", |c| c.hits),
    counter(
        "tail_hits",
        "millpond_class_tail_hits",
        "Hits in the last slab's worth of items, or under S3-FIFO such as a slab more would bring.",
        |c| c.tail_hits,
    ),
    counter("inserts", "millpond_class_inserts", "Items inserted.", |c| c.inserts),
    counter("allocations", "millpond_class_allocations", "Allocations that were given a chunk.", |c| {
        c.allocations
    }),
    counter(
        "allocation_failures",
        "millpond_class_allocation_failures",
        "Allocations that failed because nothing could be evicted.",
        |c| c.allocation_failures,
    ),
    counter("evictions", "millpond_class_evictions", "Items evicted.", |c| c.evictions),
    counter("evicted_unread", "millpond_class_evicted_unread", "Evicted items that were never found.", |c| {
        c.evicted_unread
    }),
    counter(
        "evicted_expiring",
        "millpond_class_evicted_expiring",
        "Evicted items that would have expired later.",
        |c| c.evicted_expiring,
    ),
    counter(
        "evicted_age_secs",
        "millpond_class_evicted_age_seconds",
        "Sum of the ages of evicted items.",
        |c| c.evicted_age_secs,
    ),
    counter("expired", "millpond_class_expired", "Items found to be expired or flushed, and removed.", |c| {
        c.expired
    }),
    counter(
        "expired_unread",
        "millpond_class_expired_unread",
        "Expired and flushed items that were never found.",
        |c| c.expired_unread,
    ),
    counter("reaped", "millpond_class_reaped", "Expired and flushed items that maintenance took out.", |c| {
        c.reaped
    }),
    counter("removed", "millpond_class_removed", "Items removed by key.", |c| c.removed),
    counter("replaced", "millpond_class_replaced", "Items replaced by another.", |c| c.replaced),
    counter("runs_added", "millpond_class_runs_added", "Runs of chunks that were given to it.", |c| {
        c.runs_added
    }),
    counter(
        "runs_released",
        "millpond_class_runs_released",
        "Runs of chunks that were taken from it.",
        |c| c.runs_released,
    ),
    counter(
        "run_releases_aborted",
        "millpond_class_run_releases_aborted",
        "Runs of chunks that stayed because items of them were held.",
        |c| c.run_releases_aborted,
    ),
    counter("items_moved", "millpond_class_items_moved", "Items moved out of runs that left.", |c| {
        c.items_moved
    }),
    counter(
        "move_evictions",
        "millpond_class_move_evictions",
        "Items of slabs that left which were evicted.",
        |c| c.move_evictions,
    ),
];

/// A reason for which items are evicted or removed, and how often that happened.
type Departure = (&'static str, fn(&ClassStats) -> u64);

/// All ways in which an item is evicted or removed from a class; each item is counted in one.
pub(super) const DEPARTURES: &[Departure] = &[
    ("room", |c| c.evictions.saturating_sub(c.shift_evictions + c.limit_evictions)),
    ("shift", |c| c.shift_evictions),
    ("limit", |c| c.limit_evictions),
    ("expired", |c| c.expired.saturating_sub(c.flushed)),
    ("flushed", |c| c.flushed),
    ("removed", |c| c.removed),
    ("replaced", |c| c.replaced),
];

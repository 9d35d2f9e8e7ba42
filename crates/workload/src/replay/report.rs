//! The report of a replay: text for people, JSON for tools.

use std::fmt;

use base::{ByteSize, Part};
use millpond::Cache;
use serde::Serialize;

use super::{Comparison, Lane, ReplayOptions};

/// The figures of a replayed trace. Ratios are 0 where there is nothing to divide by.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// The trace file.
    pub trace: String,
    /// The eviction policy.
    pub policy: String,
    /// The cache's memory, in bytes.
    pub memory_bytes: u64,
    /// Requests replayed, of whatever kind.
    pub requests: u64,
    /// Reads and writes whose key was in the cache.
    pub hits: u64,
    /// Hits among reads and writes. Removals and touches are neither hits nor misses.
    pub hit_ratio: f64,
    /// Bytes of values of reads and writes that hit, among those of all.
    pub byte_hit_ratio: f64,
    /// Bytes of values that reads and writes asked for.
    pub bytes_requested: u64,
    /// Bytes of those that hit.
    pub bytes_hit: u64,
    /// Items that were evicted.
    pub evictions: u64,
    /// Requests per second of the replay, reading the trace included.
    pub requests_per_second: f64,
    /// The time that it took, in seconds.
    pub seconds: f64,
    /// Reads among the requests.
    pub gets: u64,
    /// Reads that hit.
    pub get_hits: u64,
    /// Hits among reads.
    pub get_hit_ratio: f64,
    /// Writes among the requests that were replayed.
    pub writes: u64,
    /// Removals among the requests.
    pub deletes: u64,
    /// Items that were put in.
    pub inserted: u64,
    /// Items that were not put in because they are larger than the largest chunk.
    pub too_large: u64,
    /// Items that were not put in because there was no room to be had.
    pub out_of_memory: u64,
    /// Hits that returned the value of another key: the engine is broken.
    pub wrong_values: u64,
    /// True if the trace has sizes.
    pub has_sizes: bool,
    /// The size of values where it does not, in bytes.
    pub value_size: u32,
    /// The use of the memory.
    pub memory: MemoryBill,
    /// Results of plain simulators, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

/// The use of the cache's memory at the end, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryBill {
    /// Items in the trace's pool.
    pub items: u64,
    /// Keys and values of these.
    pub payload_bytes: u64,
    /// Their headers.
    pub header_bytes: u64,
    /// The unused rest of their chunks.
    pub slack_bytes: u64,
    /// Chunks without an item.
    pub free_chunk_bytes: u64,
    /// Slabs' ends that are too short for a chunk.
    pub slab_end_bytes: u64,
    /// Index, queues, ghosts and whatever else the whole cache needs.
    pub metadata_bytes: u64,
    /// Memory that is in no use: too little for another slab, or not needed.
    pub unused_bytes: u64,
    /// Memory of each size class in use: chunk size and memory, both in bytes.
    pub bytes_by_class: Vec<(u32, u64)>,
}

/// Header of an item that never expires, and of one that does, in bytes.
const PLAIN_HEADER: u64 = 12;
const EXPIRING_HEADER: u64 = 16;

impl MemoryBill {
    fn new(cache: &Cache, lane: &Lane, options: &ReplayOptions) -> Self {
        let stats = cache.stats();
        let Some(pool) = stats.pools.iter().find(|pool| pool.id == lane.pool()) else {
            return Self::default();
        };
        let items = pool.sum(|class| class.items);
        let item_bytes = pool.sum(|class| class.item_bytes);
        let header = if options.trace_time.is_some() { EXPIRING_HEADER } else { PLAIN_HEADER };
        let header_bytes = (items * header).min(item_bytes);
        let chunk_bytes = pool.sum(|class| class.chunks * u64::from(class.chunk_bytes));
        let free_chunk_bytes = pool.sum(|class| class.free_chunks * u64::from(class.chunk_bytes));
        let others = stats.memory.iter().filter(|(part, _)| *part != Part::Slabs);
        let spent: u64 = stats.memory.iter().map(|(_, bytes)| bytes).sum();
        let classes = pool.classes.iter().filter(|class| class.bytes > 0);
        Self {
            items,
            payload_bytes: item_bytes - header_bytes,
            header_bytes,
            slack_bytes: chunk_bytes.saturating_sub(free_chunk_bytes + item_bytes),
            free_chunk_bytes,
            slab_end_bytes: pool.slab_bytes.saturating_sub(chunk_bytes),
            metadata_bytes: others.map(|(_, bytes)| bytes).sum(),
            unused_bytes: stats.memory_limit_bytes.saturating_sub(spent),
            bytes_by_class: classes.map(|class| (class.chunk_bytes, class.bytes)).collect(),
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl ReplayReport {
    pub(crate) fn new(lane: &Lane, cache: &Cache, options: &ReplayOptions, seconds: f64) -> Self {
        let counts = *lane.counts();
        let pools = cache.stats().pools;
        let evictions =
            pools.iter().find(|pool| pool.id == lane.pool()).map(|pool| pool.sum(|c| c.evictions));
        Self {
            trace: lane.name.clone(),
            policy: options.policy.to_string(),
            memory_bytes: options.memory.as_u64(),
            requests: counts.requests,
            hits: counts.hits,
            hit_ratio: ratio(counts.hits, counts.lookups),
            byte_hit_ratio: ratio(counts.bytes_hit, counts.bytes_requested),
            bytes_requested: counts.bytes_requested,
            bytes_hit: counts.bytes_hit,
            evictions: evictions.unwrap_or(0),
            requests_per_second: if seconds > 0.0 { counts.requests as f64 / seconds } else { 0.0 },
            seconds,
            gets: counts.gets,
            get_hits: counts.get_hits,
            get_hit_ratio: ratio(counts.get_hits, counts.gets),
            writes: counts.lookups - counts.gets,
            deletes: counts.deletes,
            inserted: counts.inserted,
            too_large: counts.too_large,
            out_of_memory: counts.out_of_memory,
            wrong_values: counts.wrong_values,
            has_sizes: counts.has_sizes,
            value_size: options.value_size,
            memory: MemoryBill::new(cache, lane, options),
            comparison: None,
        }
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes| ByteSize::new(bytes);
        writeln!(f, "trace           {}", self.trace)?;
        writeln!(f, "cache           {}, {}", size(self.memory_bytes), self.policy)?;
        writeln!(
            f,
            "requests        {} ({} reads, {} writes, {} removals)",
            self.requests, self.gets, self.writes, self.deletes
        )?;
        writeln!(f, "hits            {}", self.hits)?;
        writeln!(f, "hit ratio       {:.6} (reads alone {:.6})", self.hit_ratio, self.get_hit_ratio)?;
        let known = if self.has_sizes { "" } else { " (all values alike)" };
        writeln!(f, "byte hit ratio  {:.6}{known}", self.byte_hit_ratio)?;
        writeln!(f, "evictions       {}", self.evictions)?;
        writeln!(f, "throughput      {:.0} requests/s ({:.2} s)", self.requests_per_second, self.seconds)?;
        let bill = &self.memory;
        writeln!(
            f,
            "memory          {} items: payload {}, headers {}, slack {}, free chunks {}, metadata {}, unused {}",
            bill.items,
            size(bill.payload_bytes),
            size(bill.header_bytes),
            size(bill.slack_bytes + bill.slab_end_bytes),
            size(bill.free_chunk_bytes),
            size(bill.metadata_bytes),
            size(bill.unused_bytes)
        )?;
        if self.too_large + self.out_of_memory > 0 {
            writeln!(f, "not stored      {} too large, {} without room", self.too_large, self.out_of_memory)?;
        }
        if self.wrong_values > 0 {
            writeln!(f, "WRONG VALUES    {}: hits returned values of other keys", self.wrong_values)?;
        }
        if let Some(comparison) = &self.comparison {
            write!(f, "{comparison}")?;
        }
        Ok(())
    }
}

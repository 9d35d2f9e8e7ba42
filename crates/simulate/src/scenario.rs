//! A simulated scenario: tenants and their workloads, memory, limits, backend, control. Declared by
//! a program, or by a TOML file (`docs/simulation.md`; [`crate::file`]).

use std::path::PathBuf;
use std::sync::Arc;

use base::ByteSize;
use serde::{Deserialize, Serialize};
use workload::engine_memory::EngineMemory;
use workload::trace::Column;
use workload::{Popularity, Sizes};

use crate::world::{Cache, Eviction};

/// A declared workload of independent draws, or of ranges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pattern {
    /// Number of keys. Default 1,000,000.
    pub keys: u64,
    /// Distribution of reads and writes over the keys: `zipf:ALPHA`, `uniform`, `scan` or `normal`.
    /// Default `zipf:0.99`.
    pub popularity: Popularity,
    /// The share of requests that write. Default 0.
    pub writes: f64,
    /// The size of a key in bytes. Default 16.
    pub key_size: u32,
    /// Value sizes in bytes: a number, a range `100-200`, or several with weights, `100:9,5000:1`.
    /// Default 100.
    pub value_size: Sizes,
    /// A read covers 1 to this many neighbouring keys, beginning with a key drawn by popularity.
    /// Each key counts as one request. Default 1: single keys.
    pub scan_length: u32,
}

impl Default for Pattern {
    fn default() -> Self {
        Self {
            keys: 1_000_000,
            popularity: Popularity::Zipf { alpha: 0.99 },
            writes: 0.0,
            key_size: 16,
            value_size: Sizes::fixed(100),
            scan_length: 1,
        }
    }
}

/// The source of a tenant's requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Drawn from a declared workload.
    Pattern(Pattern),
    /// Drawn from CacheBench's distributions.
    CacheBench {
        /// A folder with a config.json, or such a file.
        path: PathBuf,
        /// Instead of its number of keys.
        keys: Option<u64>,
    },
    /// Read from a trace.
    Trace(TraceSource),
}

/// A trace, and how it is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSource {
    /// The file.
    pub path: PathBuf,
    /// At most this many of its requests; 0 = all.
    pub requests: usize,
    /// Key and value, in bytes, if the trace does not state them.
    pub default_size: u32,
    /// Number of replays, after which the tenant is silent; 0 = again and again.
    pub passes: u32,
    /// The length of one unit of the trace's times, in nanoseconds: requests come at these times,
    /// and items expire as the trace says. `None`: requests come as clients send them, and nothing
    /// expires.
    pub time_unit_nanos: Option<u64>,
    /// The columns of a file without a header line.
    pub columns: Option<Vec<Column>>,
    /// The tenant of a server's request log whose requests alone are replayed.
    pub tenant: Option<String>,
}

/// The memory that an object takes besides its key and value.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemCost {
    /// This many bytes.
    Bytes(u32),
    /// The engine's cost: chunk, index, queues, and its part of the memory that the cache leaves
    /// unused.
    Engine {
        /// The engine's answer.
        asked: Arc<EngineMemory>,
        /// The share of all memory that is left for items, from 0 to 1.
        usable: f64,
        /// The share of all memory that size classes have for chunks, full or not, and their
        /// metadata, from 0 to 1.
        for_chunks: f64,
    },
}

impl ItemCost {
    /// The engine's cost in a cache of `memory` bytes for all tenants.
    pub fn of_engine(asked: &Arc<EngineMemory>, memory: u64) -> Self {
        let for_chunks = asked.for_chunks(memory) as f64 / memory.max(1) as f64;
        Self::Engine { asked: Arc::clone(asked), usable: asked.usable(memory), for_chunks }
    }

    /// An empty cache of `capacity` bytes in which items have this cost.
    pub fn cache(&self, eviction: Eviction, capacity: u64, owners: usize) -> Cache {
        match self {
            Self::Bytes(_) => Cache::new(eviction, capacity, owners),
            Self::Engine { asked, for_chunks, .. } => {
                Cache::of_engine(eviction, capacity, owners, asked, *for_chunks)
            }
        }
    }

    /// The length under which a cache takes an object of `size` bytes, key and value.
    #[inline]
    pub fn length(&self, size: u32) -> u32 {
        match self {
            Self::Bytes(overhead) => size.saturating_add(*overhead),
            Self::Engine { .. } => size,
        }
    }

    /// Returns the total memory, in bytes, of an object whose key and value together have `size`.
    #[inline]
    pub fn of(&self, size: u32) -> u32 {
        match self {
            Self::Bytes(overhead) => size.saturating_add(*overhead),
            // A size that no chunk holds never fits.
            Self::Engine { asked, .. } if size > asked.largest_item() => u32::MAX,
            Self::Engine { asked, usable, .. } => {
                (f64::from(asked.item_bytes(0, size)) / usable.max(0.01)) as u32
            }
        }
    }
}

/// The load of a tenant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Clients that each wait for the answer, think, and send again.
    Closed {
        /// Number of clients.
        clients: u32,
        /// For how long each thinks, in milliseconds, exponentially distributed; 0 = not at all.
        think_ms: f64,
    },
    /// Requests that arrive whatever became of earlier ones, at random (Poisson).
    Open {
        /// Requests per second.
        rate_per_sec: f64,
    },
    /// Requests that arrive at the times of a trace.
    Timed,
}

/// A change of a tenant's workload. Settings that are `None` stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// Time of the change, in seconds of virtual time.
    pub at_secs: f64,
    /// Another number of keys; the most popular ones stay the same.
    pub keys: Option<u64>,
    /// Another popularity.
    pub popularity: Option<Popularity>,
    /// Another share of writes.
    pub writes: Option<f64>,
    /// Another length of ranges.
    pub scan_length: Option<u32>,
    /// Another number of clients, in closed loop; 0 = the tenant is silent.
    pub clients: Option<u32>,
    /// Another rate, in open loop; 0 = the tenant is silent.
    pub rate_per_sec: Option<f64>,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its name in reports.
    pub name: String,
    /// The source of its requests.
    pub source: Source,
    /// Load of the tenant.
    pub load: Load,
    /// The changes over time.
    pub changes: Vec<Change>,
    /// Its share relative to others'. Default 1.
    pub weight: f64,
    /// It must never have less memory than this. Default 0.
    pub floor: ByteSize,
    /// It must never have more. Default: no limit.
    pub ceiling: ByteSize,
    /// Requests per second that it was promised. Default 0.
    pub min_request_rate: f64,
}

impl Tenant {
    /// A tenant with a weight of 1, no bounds, and 16 clients that do not think.
    pub fn new(name: impl Into<String>, source: Source) -> Self {
        Self {
            name: name.into(),
            source,
            load: Load::Closed { clients: 16, think_ms: 0.0 },
            changes: Vec::new(),
            weight: 1.0,
            floor: ByteSize::new(0),
            ceiling: ByteSize::new(u64::MAX),
            min_request_rate: 0.0,
        }
    }
}

/// The amount of a resource that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// DynamoDB's read units: a read that misses needs one for each 4,096 bytes of key and value,
    /// or part of 4,096.
    ReadUnits,
    /// DynamoDB's write units: a write needs one for each 1,024 bytes, or part of 1,024.
    WriteUnits,
    /// HopperKV's network: the object once between client and cache, and once more between cache
    /// and backend if a read misses or something is written.
    Network,
    /// One for each read that misses and each write: backend operations.
    Fetches,
    /// The object's bytes if a read misses or something is written: device bandwidth.
    FetchedBytes,
    /// One for each request: server operations.
    Requests,
    /// The object's bytes for each request: copying.
    RequestBytes,
}

impl Cost {
    /// Returns the units that a request for an object of `size` bytes, key included, needs: a write
    /// if `write`, otherwise a read, which misses if `miss`.
    pub fn units(self, size: u32, write: bool, miss: bool) -> f64 {
        let fetched = f64::from(u8::from(write || miss));
        let bytes = f64::from(size);
        let begun = |unit: u32| f64::from(size.div_ceil(unit).max(1));
        match self {
            Self::ReadUnits if miss && !write => begun(4_096),
            Self::WriteUnits if write => begun(1_024),
            Self::ReadUnits | Self::WriteUnits => 0.0,
            Self::Network => bytes * (1.0 + fetched),
            Self::Fetches => fetched,
            Self::FetchedBytes => bytes * fetched,
            Self::Requests => 1.0,
            Self::RequestBytes => bytes,
        }
    }

    /// Returns whether the resource is taken before the backend is asked, rather than on the way
    /// back to the client.
    pub fn is_before_backend(self) -> bool {
        matches!(self, Self::ReadUnits | Self::WriteUnits | Self::Fetches | Self::FetchedBytes)
    }
}

/// Which limiter holds a resource's limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimiterKind {
    /// A token bucket that holds 10 ms of the rate.
    #[default]
    TokenBucket,
    /// HopperKV's frames.
    Frames,
}

/// A resource other than memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// Its name in reports.
    pub name: String,
    /// The amount that a request needs.
    pub cost: Cost,
    /// The amount for all tenants together, in units per second.
    pub total_per_sec: f64,
    /// Limiter that enforces the tenant's limits. Default `token-bucket`.
    #[serde(default)]
    pub limiter: LimiterKind,
}

impl Resource {
    /// A resource whose limits are held by token buckets.
    pub fn new(name: impl Into<String>, cost: Cost, total_per_sec: f64) -> Self {
        Self { name: name.into(), cost, total_per_sec, limiter: LimiterKind::TokenBucket }
    }
}

/// The distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// All alike.
    #[default]
    Fixed,
    /// Exponentially.
    Exponential,
}

/// The backend behind the caches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Backend {
    /// Latency of an answer, in milliseconds. Default 5.
    pub latency_ms: f64,
    /// Distribution of that time. Default `fixed`.
    pub spread: Spread,
    /// Number of requests in service at a time, for all tenants; 0 = any number. Default 0.
    pub concurrency: u32,
    /// Time of a request and its answer between client and cache, both together and with the work
    /// of the cache, in milliseconds. Default 0.2.
    pub round_trip_ms: f64,
}

impl Default for Backend {
    fn default() -> Self {
        Self { latency_ms: 5.0, spread: Spread::Fixed, concurrency: 0, round_trip_ms: 0.2 }
    }
}

/// The manner in which a decision is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Apply {
    /// HopperKV's default: a chunk of memory at a time, the next once receivers are warm; other
    /// resources change in proportion.
    #[default]
    Rounds,
    /// Memory at once; until that memory is warm, a tenant that receives it keeps the larger of its
    /// new share and its share by weight of other resources.
    Boost,
    /// Memory at once; a tenant that receives memory has no limits until the memory is warm
    /// (BunnyFS).
    Unthrottled,
    /// All at once.
    AtOnce,
}

/// The loop that decides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// The time between decisions, in seconds. Default 20.
    pub interval_secs: f64,
    /// Number of past intervals on which a decision is based. Default 3.
    pub window: usize,
    /// Manner in which a decision is applied. Default `rounds`.
    pub apply: Apply,
    /// The most memory that a tenant gets or gives in a round. Default 16MiB.
    pub chunk: ByteSize,
    /// Interval between two checks whether receivers are warm, in seconds. Default 0.5.
    pub poll_secs: f64,
    /// The sample of keys from which curves are learnt: one in this many. Default 8.
    pub sample_one_in: u32,
    /// The most points of a curve, at the places that say most. Default 64.
    pub curve_points: u32,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            interval_secs: 20.0,
            window: 3,
            apply: Apply::Rounds,
            chunk: ByteSize::mib(16),
            poll_secs: 0.5,
            sample_one_in: 8,
            curve_points: 64,
        }
    }
}

/// All that is simulated, but for the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Virtual time, in seconds.
    pub duration_secs: f64,
    /// The time that totals leave out at the beginning, in seconds.
    pub warm_up_secs: f64,
    /// The length of the intervals of the record, in seconds.
    pub record_secs: f64,
    /// The memory of all tenants.
    pub memory: ByteSize,
    /// The memory that an object takes besides key and value.
    pub item_cost: ItemCost,
    /// Eviction policy of the caches.
    pub eviction: Eviction,
    /// True if written objects enter the cache.
    pub admit_writes: bool,
    /// The other resources.
    pub resources: Vec<Resource>,
    /// The backend behind the caches.
    pub backend: Backend,
    /// The loop that decides.
    pub control: Control,
    /// The tenants.
    pub tenants: Vec<Tenant>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            duration_secs: 300.0,
            warm_up_secs: 75.0,
            record_secs: 1.0,
            memory: ByteSize::mib(256),
            item_cost: ItemCost::Bytes(24),
            eviction: Eviction::ExactLru,
            admit_writes: true,
            resources: Vec::new(),
            backend: Backend::default(),
            control: Control::default(),
            tenants: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_dynamodbs_and_legs_are_hopperkvs() {
        assert_eq!([1, 4_096, 4_097].map(|size| Cost::ReadUnits.units(size, false, true)), [1.0, 1.0, 2.0]);
        assert_eq!([1, 1_024, 1_025].map(|size| Cost::WriteUnits.units(size, true, false)), [1.0, 1.0, 2.0]);
        assert_eq!(Cost::ReadUnits.units(500, false, false), 0.0);
        assert_eq!(Cost::ReadUnits.units(500, true, true), 0.0);
        // The example of HARE, section 4.1.
        let legs = |size, write, miss| Cost::Network.units(size, write, miss);
        assert_eq!(
            [legs(2048, false, true), legs(2048, false, false), legs(1024, true, false)],
            [4096.0, 2048.0, 2048.0]
        );
    }
}

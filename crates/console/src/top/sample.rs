//! The state that a server reports at one moment: the shown part of `/stats.json` and
//! `/hotkeys.json`.
//!
//! A field that a server lacks, being older or newer than this program, counts as absent and stops
//! nothing.

use std::collections::BTreeMap;

use serde::Deserialize;

/// `/stats.json`, with the additions of `/hotkeys.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sample {
    pub(super) version: String,
    pub(super) pid: u64,
    pub(super) uptime_secs: u64,
    /// Time of the sample, by a clock that only goes forward while the server runs.
    pub(super) monotonic_nanos: u64,
    pub(super) threads: u64,
    pub(super) connections: u64,
    pub(super) memory_limit_bytes: u64,
    /// The bill by part.
    pub(super) memory_bytes: BTreeMap<String, u64>,
    /// The file system that the cache lies in, if there is one.
    pub(super) shared_memory: Option<SharedMemory>,
    /// Latency of requests, by protocol.
    pub(super) requests: BTreeMap<String, Timed>,
    pub(super) slow_requests: u64,
    pub(super) listeners: Vec<Listener>,
    pub(super) tenants: Vec<Tenant>,
    pub(super) pools: Vec<Pool>,
    /// By pool.
    #[serde(skip)]
    pub(super) hot_keys: BTreeMap<String, Vec<HotKey>>,
}

/// A file system that the slabs lie in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SharedMemory {
    /// Bytes left for further slabs.
    pub(super) free_bytes: u64,
}

/// A histogram of latencies.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Timed {
    /// Upper bounds in seconds, the last without one, and how many are in each.
    pub(super) buckets: Vec<(Option<f64>, u64)>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Listener {
    pub(super) address: String,
    /// The counters of the listener's clients, by name.
    pub(super) counters: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) pool: String,
    pub(super) connections: u64,
    pub(super) requests: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) throttled: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) limit_bytes: Option<u64>,
    pub(super) slab_bytes: u64,
    pub(super) items: u64,
    pub(super) evictions: u64,
    pub(super) classes: Vec<Class>,
    pub(super) curve: Option<Curve>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Class {
    pub(super) number: u64,
    pub(super) chunk_bytes: u64,
    pub(super) bytes: u64,
    pub(super) items: u64,
    pub(super) item_bytes: u64,
    pub(super) hits: u64,
    pub(super) inserts: u64,
    pub(super) evictions: u64,
    pub(super) expired: u64,
    pub(super) tail_age_secs: Option<u64>,
    pub(super) queues: Vec<Queue>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Queue {
    pub(super) age_secs: Option<u64>,
}

/// The misses of a pool at other sizes, by name of the size.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Curve {
    pub(super) samples: u64,
    pub(super) error: f64,
    pub(super) miss_ratio: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HotKey {
    pub(super) key: String,
    pub(super) accesses: u64,
    pub(super) share: f64,
}

impl Sample {
    /// Reads both pages.
    pub(super) fn read(stats: &str, hot_keys: &str) -> Result<Self, serde_json::Error> {
        let sample: Self = serde_json::from_str(stats)?;
        Ok(Self { hot_keys: serde_json::from_str(hot_keys)?, ..sample })
    }

    /// A counter, over all listeners.
    pub(super) fn counter(&self, name: &str) -> u64 {
        self.listeners.iter().filter_map(|listener| listener.counters.get(name)).sum()
    }

    /// The sum of all counters whose names begin with `start`, over all listeners.
    pub(super) fn counters(&self, start: &str) -> u64 {
        let all = self.listeners.iter().flat_map(|listener| &listener.counters);
        all.filter(|(name, _)| name.starts_with(start)).map(|(_, count)| count).sum()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.pools.iter().map(|pool| pool.evictions).sum()
    }
}

impl Class {
    /// Returns the time since the next victim was used, or, if the policy doesn't record that, the
    /// age of the oldest item.
    pub(super) fn age_secs(&self) -> Option<u64> {
        self.tail_age_secs.or_else(|| self.queues.iter().filter_map(|queue| queue.age_secs).max())
    }
}

impl Pool {
    /// That of the class that holds most.
    pub(super) fn age_secs(&self) -> Option<u64> {
        self.classes.iter().max_by_key(|class| class.item_bytes)?.age_secs()
    }
}

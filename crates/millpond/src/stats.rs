//! What a cache tells about itself.

use base::Part;

use crate::cache::{Cache, PoolId};
use crate::class::{
    ALLOCATION_FAILURES, BYTES_IN, BYTES_OUT, EVICTIONS, EXPIRED, HITS, INSERTS, REMOVED, REPLACED,
};

/// A cache at one moment. Counters only grow; sums over threads may lag behind by what is under way.
#[derive(Clone, Debug)]
pub struct CacheStats {
    /// All memory that the cache may use, in bytes.
    pub memory_limit_bytes: u64,
    /// The memory bill by part, in bytes.
    pub memory: Vec<(Part, u64)>,
    /// Entries in the index.
    pub index_entries: u64,
    /// Entries that the index has room for before it grows.
    pub index_capacity: u64,
    /// Whether the index is being grown.
    pub index_growing: bool,
    /// Misses in the key space that pools share.
    pub shared_misses: u64,
    /// All pools, by number.
    pub pools: Vec<PoolStats>,
}

/// A pool at one moment.
#[derive(Clone, Debug)]
pub struct PoolStats {
    /// The pool.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// Whether it is being removed, and held items keep it ([`Cache::remove_pool`]).
    pub is_leaving: bool,
    /// Its policy, as written in a configuration.
    pub policy: String,
    /// Its limit in bytes of slabs, if it has one.
    pub limit_bytes: Option<u64>,
    /// Bytes of its slabs.
    pub slab_bytes: u64,
    /// How its classes trade slabs.
    pub strategy: &'static str,
    /// Slabs that were taken from one of its classes for another.
    pub slabs_moved: u64,
    /// Misses in its own key space; 0 for pools that share one.
    pub misses: u64,
    /// Its classes that were ever used.
    pub classes: Vec<ClassStats>,
}

/// A size class of a pool at one moment.
#[derive(Clone, Debug, Default)]
pub struct ClassStats {
    /// Its number in the pool.
    pub number: u8,
    /// Size of its chunks, in bytes.
    pub chunk_bytes: u32,
    /// Its slabs.
    pub slabs: u64,
    /// Chunks of all its slabs.
    pub chunks: u64,
    /// Chunks without an item.
    pub free_chunks: u64,
    /// Items in it that have a key.
    pub items: u64,
    /// Links of chained items in it.
    pub links: u64,
    /// Bytes that items and links take, headers included.
    pub item_bytes: u64,
    /// For how long the next item to be evicted has not been used, in seconds, where the policy knows.
    pub tail_age_secs: Option<u32>,
    /// Hits in the last slab's worth of items before eviction, where the policy counts them (2Q, TinyLFU, ARC, LRU with an
    /// insertion point); under S3-FIFO, about as many hits as one slab more would have brought.
    pub tail_hits: u64,
    /// Finds that found something.
    pub hits: u64,
    /// Items inserted.
    pub inserts: u64,
    /// Items evicted.
    pub evictions: u64,
    /// Items found to be expired or flushed, and removed.
    pub expired: u64,
    /// Items removed by key.
    pub removed: u64,
    /// Items replaced by another.
    pub replaced: u64,
    /// Allocations that failed.
    pub allocation_failures: u64,
}

impl PoolStats {
    /// The sum over its classes of what `field` picks.
    pub fn sum(&self, field: impl Fn(&ClassStats) -> u64) -> u64 {
        self.classes.iter().map(field).sum()
    }
}

impl Cache {
    /// A snapshot of all statistics. Takes each class's lock for a moment.
    pub fn stats(&self) -> CacheStats {
        let core = self.core();
        CacheStats {
            memory_limit_bytes: core.ledger.limit(),
            memory: Part::ALL.iter().map(|part| (*part, core.ledger.part(*part))).collect(),
            index_entries: core.index.len(),
            index_capacity: core.index.capacity(),
            index_growing: core.index.is_growing(),
            shared_misses: core.keyspace(0).misses(),
            pools: core.pools.all().iter().map(|pool| self.pool_stats(pool)).collect(),
        }
    }

    pub(crate) fn pool_stats(&self, pool: &crate::pool::Pool) -> PoolStats {
        let limit = pool.limit_bytes();
        PoolStats {
            id: pool.id(),
            name: pool.name.clone(),
            is_leaving: pool.is_leaving(),
            policy: pool.policy().to_string(),
            limit_bytes: (limit != u64::MAX).then_some(limit),
            slab_bytes: pool.slab_bytes(),
            strategy: pool.rebalancer.lock().strategy().name(),
            slabs_moved: pool.slabs_moved.load(std::sync::atomic::Ordering::Relaxed),
            misses: if pool.keyspace == 0 { 0 } else { self.core().keyspace(pool.keyspace).misses() },
            classes: pool.used_classes().map(|(number, class)| self.class_stats(number, class)).collect(),
        }
    }

    fn class_stats(&self, number: u8, class: &crate::class::Class) -> ClassStats {
        let now = self.core().now();
        let in_magazines = self.core().fold_magazines(class) as u64;
        let inner = class.inner.lock();
        let info = inner.chunks.info();
        let slabs = inner.chunks.slab_count() as u64;
        let partial = ClassStats {
            number,
            chunk_bytes: info.chunk_bytes,
            slabs,
            chunks: slabs * u64::from(info.chunks_per_slab()),
            free_chunks: u64::from(inner.chunks.free_chunks()) + in_magazines,
            tail_age_secs: inner.policy.tail_age_secs(now),
            tail_hits: inner.policy.tail_hits().unwrap_or(0),
            ..ClassStats::default()
        };
        drop(inner);
        let count = |counter| class.counters.sum(counter);
        ClassStats {
            items: class.items(),
            links: class.links(),
            item_bytes: count(BYTES_IN).saturating_sub(count(BYTES_OUT)),
            hits: count(HITS),
            inserts: count(INSERTS),
            evictions: count(EVICTIONS),
            expired: count(EXPIRED),
            removed: count(REMOVED),
            replaced: count(REPLACED),
            allocation_failures: count(ALLOCATION_FAILURES),
            ..partial
        }
    }
}

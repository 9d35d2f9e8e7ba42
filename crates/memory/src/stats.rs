//! Statistics of a cache.

mod collect;
mod compact;

use base::Part;

use crate::pools::PoolId;
use crate::split::SplitStats;
pub use compact::CompactStats;

/// A cache at one moment. Counters only grow; sums over threads may lag behind by what is under
/// way.
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
    /// True if the index is being grown.
    pub index_growing: bool,
    /// Misses in the key space that pools share.
    pub shared_misses: u64,
    /// Items that were removed together with their pools ([`crate::Cache::remove_pool`]), whose own
    /// figures are gone.
    pub removed_with_pools: u64,
    /// Number of times that the file system of a shared cache ([`crate::CacheConfig::shared`]) had
    /// no room for a slab.
    pub refused_slabs: u64,
    /// All pools, by number.
    pub pools: Vec<PoolStats>,
    /// All compact caches, in the order in which they were made.
    pub compact: Vec<CompactStats>,
}

/// A pool at one moment.
#[derive(Clone, Debug)]
pub struct PoolStats {
    /// The pool.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// True if it is being removed, and held items keep it ([`crate::Cache::remove_pool`]).
    pub is_leaving: bool,
    /// Its policy, as written in a configuration.
    pub policy: String,
    /// Its limit in bytes of slabs, if it has one.
    pub limit_bytes: Option<u64>,
    /// Bytes of its slabs, and of its runs of units of split ones.
    pub slab_bytes: u64,
    /// Its reserve in bytes of slabs ([`crate::PoolConfig::reserve`]).
    pub reserve_bytes: u64,
    /// Its grant in bytes of slabs, if it has one ([`crate::Cache::set_pool_grant`]).
    pub granted_bytes: Option<u64>,
    /// Its weight ([`crate::PoolConfig::weight`]).
    pub weight: u32,
    /// The strategy by which its classes trade slabs.
    pub strategy: &'static str,
    /// Slabs that were taken from one of its classes for another.
    pub slabs_moved: u64,
    /// Number of those that its strategy asked for; the others were moved for allocations that
    /// found no chunk, or by [`crate::Cache::move_slab`].
    pub rebalances: u64,
    /// The split of its queues, if its policy has one ([`crate::Cache::set_pool_split`]).
    pub split: Option<SplitStats>,
    /// Slabs that other pools took from it ([`crate::Cache::reclaim`]).
    pub slabs_reclaimed: u64,
    /// Number of times its limit was set.
    pub resizes: u64,
    /// Misses in its own key space; 0 for pools that share one.
    pub misses: u64,
    /// True if its key space is its own.
    pub has_own_keys: bool,
    /// Its classes that were ever used and are not gone.
    pub classes: Vec<ClassStats>,
    /// Counts of classes that are gone, as they had no chunks or the pool's chunk sizes changed;
    /// [`Self::sum`] includes them.
    pub past: ClassStats,
}

/// A size class of a pool at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Its number in the pool.
    pub number: u8,
    /// Size of its chunks, in bytes.
    pub chunk_bytes: u32,
    /// True if the pool allocates in it no more, since its chunk sizes have changed: it goes when
    /// its slabs are empty.
    pub is_leaving: bool,
    /// Its memory: whole slabs and runs of units of split ones, in bytes.
    pub bytes: u64,
    /// Chunks of all that.
    pub chunks: u64,
    /// Chunks without an item.
    pub free_chunks: u64,
    /// Items in it that have a key.
    pub items: u64,
    /// Links of chained items in it.
    pub links: u64,
    /// Bytes that items and links take, headers included.
    pub item_bytes: u64,
    /// For how long the next item to be evicted has not been used, in seconds, where the policy
    /// knows.
    pub tail_age_secs: Option<u32>,
    /// The same for the item that would be evicted next if the class had a slab less, where the
    /// policy knows and there is one.
    pub projected_tail_age_secs: Option<u32>,
    /// The queues of the policy, in the order in which items go through them.
    pub queues: Vec<QueueStats>,
    /// Hits in the last slab's worth of items before eviction, where the policy counts them (2Q,
    /// TinyLFU, ARC, LRU with an insertion point); under S3-FIFO, about as many hits as one slab
    /// more would have brought.
    pub tail_hits: u64,
    /// Finds that found something.
    pub hits: u64,
    /// Items inserted.
    pub inserts: u64,
    /// Items evicted.
    pub evictions: u64,
    /// Items found to be expired or flushed, whether by a find, by [`crate::Cache::reap`] or when
    /// they were to be evicted, and removed.
    pub expired: u64,
    /// Those of them that were flushed.
    pub flushed: u64,
    /// Items removed by key.
    pub removed: u64,
    /// Items replaced by another.
    pub replaced: u64,
    /// Allocations that failed.
    pub allocation_failures: u64,
    /// Allocations that were given one of its chunks.
    pub allocations: u64,
    /// Evicted items that were never found since they were made.
    pub evicted_unread: u64,
    /// Evicted items that would have expired by themselves later.
    pub evicted_expiring: u64,
    /// The sum of the times from when evicted items were made to when they were evicted, in
    /// seconds: over a while, divided by the evictions, how long an item stays.
    pub evicted_age_secs: u64,
    /// For how long the item that was evicted last had not been used, in seconds; of items without
    /// a tag, since it was made.
    pub last_evicted_idle_secs: u32,
    /// Expired and flushed items that were never found since they were made.
    pub expired_unread: u64,
    /// Expired items that were taken out when they were due ([`crate::Cache::reap`]), and flushed
    /// ones by [`crate::Cache::maintain`], rather than when they were met.
    pub reaped: u64,
    /// Items that were moved out of slabs that left.
    pub items_moved: u64,
    /// Items of slabs that left which found no other chunk and were evicted; part of
    /// [`Self::evictions`].
    pub move_evictions: u64,
    /// Those of [`Self::evictions`] that were made while a slab of the class was taken away for
    /// another class or pool, to have its items in or instead of others.
    pub shift_evictions: u64,
    /// The same for slabs that were taken away because a limit was lowered, of the pool or of the
    /// whole cache.
    pub limit_evictions: u64,
    /// Slabs that were given to it.
    pub runs_added: u64,
    /// Slabs that were taken from it, for another class, a lower limit, or with its pool.
    pub runs_released: u64,
    /// Number of times that a slab that should leave stayed because items of it were held.
    pub run_releases_aborted: u64,
    /// Chunks that threads keep at hand; part of [`Self::free_chunks`].
    pub magazine_chunks: u64,
    /// Memory of its queues and expiry wheel, in bytes.
    pub queue_bytes: u64,
    /// Memory of its ghosts, in bytes.
    pub ghost_bytes: u64,
    /// Keys of evicted items that its policy remembers.
    pub ghosts: u64,
    /// Entries of its expiry wheel: items that will expire, and some that are gone.
    pub wheel_entries: u64,
}

/// A queue of a class's policy at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Its name: `lru`; `sieve`; `small` and `main` in S3-FIFO; `hot`, `warm` and `cold` in 2Q;
    /// `window`, `probation` and `protected` in TinyLFU; `t1` and `t2` in ARC; `upper` and `lower`
    /// in LRU with an insertion point; `left` and `right` in LRU in two partitions.
    pub name: &'static str,
    /// Its items, about.
    pub items: u64,
    /// For how long its last item has not been used, in seconds; in S3-FIFO and SIEVE, which do not
    /// know, for how long it has been there. `None` where there is none, or only some that are
    /// gone.
    pub age_secs: Option<u32>,
    /// Finds of its items since the class began or its policy was changed.
    pub hits: u64,
}

impl ClassStats {
    /// Bytes of chunks with an item that the item does not fill.
    pub fn slack_bytes(&self) -> u64 {
        let used = self.chunks.saturating_sub(self.free_chunks);
        (used * u64::from(self.chunk_bytes)).saturating_sub(self.item_bytes)
    }

    /// Adds what was counted in a class that is gone.
    pub(crate) fn add(&mut self, gone: &Self) {
        for (sum, count) in [
            (&mut self.tail_hits, gone.tail_hits),
            (&mut self.hits, gone.hits),
            (&mut self.inserts, gone.inserts),
            (&mut self.evictions, gone.evictions),
            (&mut self.expired, gone.expired),
            (&mut self.removed, gone.removed),
            (&mut self.replaced, gone.replaced),
            (&mut self.allocation_failures, gone.allocation_failures),
            (&mut self.allocations, gone.allocations),
            (&mut self.evicted_unread, gone.evicted_unread),
            (&mut self.evicted_expiring, gone.evicted_expiring),
            (&mut self.evicted_age_secs, gone.evicted_age_secs),
            (&mut self.expired_unread, gone.expired_unread),
            (&mut self.reaped, gone.reaped),
            (&mut self.items_moved, gone.items_moved),
            (&mut self.move_evictions, gone.move_evictions),
            (&mut self.shift_evictions, gone.shift_evictions),
            (&mut self.limit_evictions, gone.limit_evictions),
            (&mut self.flushed, gone.flushed),
            (&mut self.runs_added, gone.runs_added),
            (&mut self.runs_released, gone.runs_released),
            (&mut self.run_releases_aborted, gone.run_releases_aborted),
        ] {
            *sum += count;
        }
    }

    /// Bytes at the ends of slabs and runs that do not make a chunk.
    pub fn unused_slab_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.chunks * u64::from(self.chunk_bytes))
    }
}

impl CacheStats {
    /// Entries of the index as a share of those that it has room for before it grows.
    pub fn index_load(&self) -> f64 {
        self.index_entries as f64 / self.index_capacity.max(1) as f64
    }
}

impl PoolStats {
    /// The sum over its classes of what `field` picks, also over those that are gone.
    pub fn sum(&self, field: impl Fn(&ClassStats) -> u64) -> u64 {
        self.classes.iter().chain([&self.past]).map(field).sum()
    }

    /// Returns the bytes of its chunks that its items do not use, plus the bytes of its slabs that
    /// are not chunks.
    pub fn slack_bytes(&self) -> u64 {
        self.classes.iter().map(|class| class.slack_bytes() + class.unused_slab_bytes()).sum()
    }
}

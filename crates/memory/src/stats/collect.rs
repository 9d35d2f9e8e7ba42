//! Collection of statistics from the cache, its pools and its classes.

use std::sync::atomic::Ordering;

use base::Part;
use evict::PolicyKind;
use slab::ChunkNumber;

use super::{CacheStats, ClassStats, PoolStats, QueueStats};
use crate::cache::{Cache, Core};
use crate::class::{
    ALLOCATION_FAILURES, ALLOCATIONS, BYTES_IN, BYTES_OUT, Class, EVICTED_AGE_SECS, EVICTED_EXPIRING,
    EVICTED_UNREAD, EVICTIONS, EXPIRED, EXPIRED_UNREAD, FLUSHED, INSERTS, Inner, LIMIT_EVICTIONS,
    MOVE_EVICTIONS, MOVED, REAPED, RELEASES_ABORTED, REMOVED, REPLACED, RUNS_ADDED, RUNS_RELEASED,
    SHIFT_EVICTIONS, View,
};
use crate::error::Error;
use crate::pool::Pool;
use crate::pools::PoolId;

impl Cache {
    /// [`CacheStats::refused_slabs`] alone, which takes no other lock.
    pub fn refused_slabs(&self) -> u64 {
        self.core().arena.refusals()
    }

    /// The bytes for further slabs that the file system of a shared cache has. If they are fewer
    /// than are free of the memory limit, the cache cannot grow to that. `None` if the cache is not
    /// shared or its file system has no limit.
    pub fn file_system_bytes(&self) -> Option<u64> {
        self.core().arena.file_system_bytes()
    }

    /// A snapshot of all statistics. Takes the lock of each class that was ever used, and those of
    /// its magazines that no thread uses at the moment: about 1 µs for each class. Chunks in a
    /// magazine that is in use count as taken.
    pub fn stats(&self) -> CacheStats {
        let core = self.core();
        // Before the bill, as it brings queues up to date, which may take memory.
        let pools = core.pools.all().iter().map(|pool| self.stats_of(pool)).collect();
        CacheStats {
            memory_limit_bytes: core.ledger.limit(),
            memory: Part::ALL.iter().map(|part| (*part, core.ledger.part(*part))).collect(),
            index_entries: core.index.len(),
            index_capacity: core.index.capacity(),
            index_growing: core.index.is_growing(),
            shared_misses: core.keyspace(0).misses(),
            removed_with_pools: core.removed_with_pools.load(Ordering::Relaxed),
            refused_slabs: core.arena.refusals(),
            pools,
            compact: core.stores().iter().map(|store| store.stats()).collect(),
        }
    }

    /// A snapshot of one pool's statistics, for which no other pool is looked at.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`](crate::ErrorKind::NoSuchPool).
    pub fn pool_stats(&self, pool: PoolId) -> Result<PoolStats, Error> {
        self.core().pool(pool).map(|pool| self.stats_of(&pool))
    }

    pub(crate) fn stats_of(&self, pool: &Pool) -> PoolStats {
        let limit = pool.limit_bytes();
        let stats_of =
            |(number, class)| self.core().class_stats(number, class, pool.is_class_leaving(number));
        let (classes, past) = pool.see_counts(|| {
            let classes: Vec<ClassStats> = pool.used_classes().map(stats_of).collect();
            (classes, pool.past.lock().as_deref().cloned().unwrap_or_default())
        });
        PoolStats {
            id: pool.id(),
            name: pool.name.clone(),
            is_leaving: pool.is_leaving(),
            policy: pool.policy().to_string(),
            limit_bytes: (limit != u64::MAX).then_some(limit),
            slab_bytes: pool.slab_bytes(),
            reserve_bytes: pool.reserve_bytes(),
            granted_bytes: Some(pool.granted_bytes()).filter(|bytes| *bytes > 0),
            weight: pool.stake().weight,
            strategy: pool.rebalancer.lock().strategy().name(),
            slabs_moved: pool.slabs_moved.load(Ordering::Relaxed),
            rebalances: pool.rebalances.load(Ordering::Relaxed),
            split: (pool.policy() == PolicyKind::LruSplit).then(|| pool.splits.stats()),
            slabs_reclaimed: pool.slabs_reclaimed.load(Ordering::Relaxed),
            resizes: pool.resizes.load(Ordering::Relaxed),
            misses: if pool.keyspace == 0 { 0 } else { self.core().keyspace(pool.keyspace).misses() },
            has_own_keys: pool.keyspace != 0,
            classes,
            past,
        }
    }
}

impl Core {
    pub(crate) fn class_stats(&self, number: u8, class: &Class, is_leaving: bool) -> ClassStats {
        let in_magazines = self.fold_idle_magazines(class).chunks as u64;
        let inner = class.inner.lock();
        let partial = self.locked_stats(number, class, &inner, in_magazines);
        drop(inner);
        let count = |counter| class.counters.sum(counter);
        ClassStats {
            items: class.items(),
            links: class.links(),
            item_bytes: count(BYTES_IN).saturating_sub(count(BYTES_OUT)),
            hits: class.hits(),
            inserts: count(INSERTS),
            evictions: count(EVICTIONS),
            expired: count(EXPIRED),
            removed: count(REMOVED),
            replaced: count(REPLACED),
            allocation_failures: count(ALLOCATION_FAILURES),
            allocations: count(ALLOCATIONS),
            evicted_unread: count(EVICTED_UNREAD),
            evicted_expiring: count(EVICTED_EXPIRING),
            evicted_age_secs: count(EVICTED_AGE_SECS),
            last_evicted_idle_secs: class.last_idle_secs(),
            expired_unread: count(EXPIRED_UNREAD),
            reaped: count(REAPED),
            items_moved: count(MOVED),
            move_evictions: count(MOVE_EVICTIONS),
            shift_evictions: count(SHIFT_EVICTIONS),
            limit_evictions: count(LIMIT_EVICTIONS),
            flushed: count(FLUSHED),
            runs_added: count(RUNS_ADDED),
            runs_released: count(RUNS_RELEASED),
            run_releases_aborted: count(RELEASES_ABORTED),
            is_leaving,
            ..partial
        }
    }

    /// Returns the statistics that are known under the lock of the class.
    fn locked_stats(&self, number: u8, class: &Class, inner: &Inner, in_magazines: u64) -> ClassStats {
        let now = self.now();
        let info = inner.chunks.info();
        let (bytes, chunks) = (inner.chunks.bytes(), inner.chunks.chunks());
        let per_slab = info.chunks_per_slab();
        ClassStats {
            number,
            chunk_bytes: info.chunk_bytes,
            bytes,
            chunks,
            free_chunks: u64::from(inner.chunks.free_chunks()) + in_magazines,
            magazine_chunks: in_magazines,
            tail_age_secs: inner.policy.tail_age_secs(now),
            projected_tail_age_secs: inner.policy.projected_age_secs(per_slab as usize, now),
            queues: self.queue_stats(class, inner, now),
            tail_hits: inner.policy.tail_hits().unwrap_or(0),
            queue_bytes: (inner.policy.queue_bytes() + inner.wheel_bytes()) as u64,
            ghost_bytes: inner.policy.ghost_bytes() as u64,
            ghosts: inner.policy.ghosts() as u64,
            wheel_entries: inner.wheel.as_ref().map_or(0, |wheel| wheel.len()) as u64,
            ..ClassStats::default()
        }
    }

    fn queue_stats(&self, class: &Class, inner: &Inner, now: u32) -> Vec<QueueStats> {
        let arena = &self.arena;
        let made_secs = |entry: evict::Entry| {
            let (_, item) = inner.chunks.resolve(arena, ChunkNumber(entry.0))?;
            // SAFETY: the policy has just seen the item queued, and this thread holds the lock of
            // the class (invariant 5 of `magazine`).
            Some(unsafe { item.created() })
        };
        let queues = inner.policy.queues(&View::new(self, &inner.chunks), now);
        let stats = |queue: evict::Queue| QueueStats {
            name: queue.name,
            items: queue.items as u64,
            age_secs: queue.age_secs.or_else(|| Some(now.saturating_sub(queue.oldest.and_then(made_secs)?))),
            hits: class.hits_of_queue(queue.number),
        };
        queues.into_iter().map(stats).collect()
    }
}

//! Taking flushed items out, a part of them in each round of maintenance.
//!
//! A flush costs a time stamp ([`crate::keyspace`]), and a flushed item is never found. Its memory
//! is of use to others only once it is out. So a walk over the chunks of the pools whose key space
//! was flushed takes out what eviction could take: items that are queued and that nobody holds.
//! After a walk that found any, taken out or passed over, another one follows, later and later as
//! long as any are left. So the items are taken out that were held, that waited in a magazine, or
//! that were moved to a place that the walk had passed.

use std::sync::atomic::Ordering;

use crate::cache::Core;
use crate::class::{Class, REAPED};
use crate::life::RemovalCause;
use crate::pool::Pool;
use crate::upkeep::{FlushWalk, Place};

/// Work of one round, in chunks looked at: some 50 ms.
const WORK_PER_ROUND: u64 = 1 << 20;
/// Work of taking an item out.
const WORK_PER_ITEM: u64 = 8;
/// Work of a class, whatever it has.
const WORK_PER_CLASS: u64 = 512;
/// Chunks that are looked at under one hold of a class's lock.
const STEP: u64 = 64;
/// Most rounds from one walk to the next.
const MOST_ROUNDS: u32 = 64;

impl Core {
    /// Takes items out that were flushed, until a round's work is done.
    pub(crate) fn take_out_flushed(&self) {
        self.flush_turn.go_round(&self.pools.all(), WORK_PER_ROUND, |pool| {
            let space = self.keyspace(pool.keyspace);
            let before = || space.flushed_until(|| self.now());
            if before() <= pool.flushed.done.load(Ordering::Acquire) {
                return 0;
            }
            // Otherwise another thread that maintains the cache is at it.
            pool.flushed
                .place
                .try_lock()
                .map_or(0, |mut place| self.walk_over_flushed(pool, &mut place, before()))
        });
    }

    /// Goes on with the walk of a pool, or begins one. Items made before `before` are flushed.
    /// Returns how much work it was.
    fn walk_over_flushed(&self, pool: &Pool, place: &mut Place, before: u64) -> u64 {
        if place.latest < before {
            (place.latest, place.pause, place.rounds) = (before, 0, 0);
        }
        if place.pause > 0 {
            place.pause -= 1;
            return 0;
        }
        if place.before == 0 {
            place.before = before;
        }
        let mut work = 0;
        let first = place.class;
        for (number, class) in pool.used_classes().skip_while(|(number, _)| *number < first) {
            if number != place.class {
                (place.class, place.chunk) = (number, 0);
            }
            if place.chunk == 0 {
                // Items that wait in magazines are not queued.
                place.found |= !self.fold_idle_magazines(class).is_complete;
                work += WORK_PER_CLASS;
            }
            loop {
                let (looked, taken) = self.take_out_some_flushed(class, place, before);
                work += looked + taken * WORK_PER_ITEM;
                if looked < STEP {
                    break;
                }
                if work >= WORK_PER_ROUND {
                    return work;
                }
            }
        }
        pool.flushed.end_walk(place);
        work
    }

    /// Takes out the flushed ones of the next [`STEP`] chunks of a class. Returns the numbers of
    /// chunks looked at, fewer at the end, and of items taken out.
    fn take_out_some_flushed(&self, class: &Class, place: &mut Place, before: u64) -> (u64, u64) {
        let (mut looked, mut flushed) = (0, Vec::new());
        let mut inner = class.inner.lock();
        while looked < STEP
            && let Some((number, ptr)) = inner.chunks.first_from(place.chunk)
        {
            (place.chunk, looked) = (number + 1, looked + 1);
            let item = self.arena.item(ptr).0;
            // SAFETY: the item was in the index while this thread held the lock of the class,
            // without which no chunk that was freed since then is used again; its creation time was
            // written before (invariant 3 of `slab::item`).
            let is_flushed =
                item.state().is_indexed() && unsafe { !item.is_link() && u64::from(item.created()) < before };
            if is_flushed {
                place.found = true;
                if item.state().is_queued() && inner.claim(self, ptr).is_ok() {
                    flushed.push(ptr);
                }
            }
        }
        inner.settle(self);
        drop(inner);
        let taken = flushed.len() as u64;
        class.counters.add(REAPED, taken);
        self.end_claimed(class, RemovalCause::Expired, flushed);
        (looked, taken)
    }
}

impl FlushWalk {
    /// Ends a walk over all classes: another one follows if it found any.
    fn end_walk(&self, place: &mut Place) {
        let latest = place.latest;
        if place.found {
            let rounds = (2 * place.rounds).clamp(1, MOST_ROUNDS);
            *place = Place { latest, rounds, pause: rounds - 1, ..Place::default() };
        } else {
            self.done.fetch_max(place.before, Ordering::AcqRel);
            *place = Place { latest, ..Place::default() };
        }
    }

    /// Begins again, as items were added that may have been flushed.
    pub(crate) fn begin_again(&self) {
        let mut place = self.place.lock();
        *place = Place::default();
        self.done.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cache, CacheConfig, ItemOptions, PoolConfig};

    /// A round takes out a bounded number of items and visits a bounded number of classes, and
    /// later rounds take out the rest.
    #[test]
    fn a_round_has_a_bound() {
        let cache = Cache::new(CacheConfig::default()).expect("a cache");
        let pools: Vec<_> =
            (0..3_000).map(|i| cache.add_pool(PoolConfig::named(i.to_string())).expect("a pool")).collect();
        let put = |pool, key: u32| {
            let item = cache.allocate(pool, &key.to_le_bytes(), 10, &ItemOptions::default());
            cache.put(item.expect("memory"));
        };
        pools.iter().for_each(|pool| put(*pool, 1));
        (0..300_000).for_each(|key| put(pools[0], key));
        pools.iter().for_each(|pool| cache.keys(*pool).flush());
        let items = |pool| cache.pool_stats(pool).expect("it is there").sum(|class| class.items);
        let left = || pools.iter().map(|pool| items(*pool)).sum::<u64>();
        let mut before = left();
        let mut rounds = 0;
        while before > 0 {
            cache.core().take_out_flushed();
            let now = left();
            assert!(before - now <= 131_072 + 64, "{before} to {now}");
            if rounds > 2 && now > 0 {
                assert!(before - now <= 2_048, "{before} to {now} in small pools");
            }
            (before, rounds) = (now, rounds + 1);
        }
        assert!((4..=8).contains(&rounds), "{rounds} rounds");
        cache.validate();
    }
}

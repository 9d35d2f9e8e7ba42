//! Taking flushed items out, a part of them in each round of maintenance.
//!
//! A flush costs a time stamp ([`crate::keyspace`]), and a flushed item is never found. Its memory
//! is of use to others only once it is out. So a walk over the chunks of the pools whose key space
//! was flushed takes out what eviction could take: items that are queued and that nobody holds.
//! After a walk that found any, taken out or passed over, another one follows, later and later as
//! long as any are left. So the items are taken out that were held or that waited in a magazine.
//! A flushed item that is moved, or that became visible while it was flushed, asks for a walk
//! itself.

use std::sync::atomic::Ordering;

use slab::SlabInfo;
use slab::item::Item;

use crate::cache::Core;
use crate::class::{Class, REAPED};
use crate::lifecycle::RemovalCause;
use crate::pool::Pool;
use crate::upkeep::{FlushCursor, FlushWalk, set};

/// Work of one round, in chunks looked at: some 50 ms.
const WORK_PER_ROUND: u64 = 1 << 20;
/// Work of taking an item out, and each of its links.
const WORK_PER_ITEM: u64 = 8;
const WORK_PER_LINK: u64 = 4;
/// Work of a class, whatever it has.
const WORK_PER_CLASS: u64 = 512;
/// Chunks that are looked at under one hold of a class's lock.
const STEP: u64 = 64;
/// Links of the items that are claimed in one such hold, after which no further item is.
const MOST_LINKS: u64 = 1_024;
/// Most rounds from one walk to the next.
const MOST_ROUNDS: u32 = 64;

impl Core {
    /// Takes items out that were flushed, until a round's work is done.
    pub(crate) fn take_out_flushed(&self) {
        self.flush_turn.go_round(&self.pools.all(), WORK_PER_ROUND, |pool| {
            if !pool.flushed.is_due(self.flushed_until(pool)) {
                return 0;
            }
            // Otherwise another thread that maintains the cache is at it.
            let place = pool.flushed.place.try_lock();
            place.map_or(0, |mut place| self.walk_over_flushed(pool, &mut place))
        });
    }

    /// Returns the Unix second of which all items of the pool made before are flushed.
    fn flushed_until(&self, pool: &Pool) -> u32 {
        self.keyspace(pool.keyspace).flushed_until(|| self.now())
    }

    /// Notes that an item is at a new place, which a walk may have passed. The caller holds a
    /// reference.
    #[inline]
    pub(crate) fn note_come(&self, item: Item<'_>, info: SlabInfo) {
        let space = self.keyspace(info.keyspace);
        if space.may_be_flushed() {
            // SAFETY: the caller holds a reference (invariant 3 of `slab::item`).
            let is_flushed = unsafe { !item.is_link() && space.is_flushed(item.created(), || self.now()) };
            if is_flushed && let Some(pool) = self.pools.all().numbered(info.pool) {
                set(&pool.flushed.has_come);
            }
        }
    }

    /// Goes on with the walk of a pool, or begins one. Returns how much work it was.
    fn walk_over_flushed(&self, pool: &Pool, place: &mut FlushCursor) -> u64 {
        // Not less than it was to who began the walk.
        let before = self.flushed_until(pool);
        if place.latest < before {
            (place.latest, place.pause, place.rounds) = (before, 0, 0);
        }
        if place.pause > 0 {
            place.pause -= 1;
            return 0;
        }
        if place.before == 0 {
            // Another thread may have ended the walk meanwhile.
            if !pool.flushed.is_due(before) {
                return 0;
            }
            pool.flushed.done.store(0, Ordering::Release);
            pool.flushed.has_come.store(false, Ordering::Release);
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
                let (done, is_end) = self.take_out_some_flushed(class, place, before);
                work += done;
                if work >= WORK_PER_ROUND {
                    return work;
                }
                if is_end {
                    break;
                }
            }
        }
        pool.flushed.end_walk(place);
        work
    }

    /// Takes out the flushed ones of the next [`STEP`] chunks of a class, or of fewer if they have
    /// many links. Returns how much work it was, and whether there are no more.
    fn take_out_some_flushed(&self, class: &Class, place: &mut FlushCursor, before: u32) -> (u64, bool) {
        let (mut looked, mut links, mut is_end, mut flushed) = (0, 0, false, Vec::new());
        let mut inner = class.inner.lock();
        while looked < STEP && links < MOST_LINKS {
            let Some((number, ptr)) = inner.chunks.first_from(place.chunk) else {
                is_end = true;
                break;
            };
            (place.chunk, looked) = (number + 1, looked + 1);
            let item = self.arena.item(ptr).0;
            // SAFETY: the item was in the index while this thread held the lock of the class,
            // without which no chunk that was freed since then is used again; its creation time was
            // written before (invariant 3 of `slab::item`).
            let is_flushed =
                item.state().is_indexed() && unsafe { !item.is_link() && item.created() < before };
            if is_flushed {
                place.found = true;
                if item.state().is_queued() && inner.claim(self, ptr).is_ok() {
                    flushed.push(ptr);
                    links += u64::from(self.link_count(ptr));
                }
            }
        }
        inner.settle(self);
        drop(inner);
        let taken = flushed.len() as u64;
        class.counters.add(REAPED, taken);
        self.end_claimed(class, RemovalCause::Expired, flushed);
        (looked + taken * WORK_PER_ITEM + links * WORK_PER_LINK, is_end)
    }
}

impl FlushWalk {
    /// Returns whether items may be left that were made before `before`.
    fn is_due(&self, before: u32) -> bool {
        before > self.done.load(Ordering::Acquire) || before > 0 && self.has_come.load(Ordering::Acquire)
    }

    /// Ends a walk over all classes: another one follows if it found any.
    fn end_walk(&self, place: &mut FlushCursor) {
        let latest = place.latest;
        if place.found || self.has_come.load(Ordering::Acquire) {
            let rounds = (2 * place.rounds).clamp(1, MOST_ROUNDS);
            *place = FlushCursor { latest, rounds, pause: rounds - 1, ..FlushCursor::default() };
        } else {
            self.done.fetch_max(place.before, Ordering::AcqRel);
            *place = FlushCursor { latest, ..FlushCursor::default() };
        }
    }

    /// Has another walk follow, as items were added that may have been flushed. It waits for no
    /// walk that is under way: that one calls hooks, which may wait for what the caller has locked.
    pub(crate) fn begin_again(&self) {
        self.has_come.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use slab::SLAB_BYTES;

    use super::FlushWalk;
    use crate::{Cache, CacheConfig, ItemOptions, PoolConfig, PoolId};

    fn cache() -> (Cache, PoolId) {
        let cache = Cache::new(CacheConfig::default()).expect("a cache");
        let pool = cache.add_pool(PoolConfig::named("pool")).expect("a pool");
        (cache, pool)
    }

    fn put(cache: &Cache, pool: PoolId, key: u32) {
        let item = cache.allocate(pool, &key.to_le_bytes(), 10, &ItemOptions::default());
        cache.put(item.expect("memory"));
    }

    fn items(cache: &Cache, pool: PoolId) -> u64 {
        cache.pool_stats(pool).expect("it is there").sum(|class| class.items)
    }

    fn rounds(cache: &Cache, count: u32) {
        (0..count).for_each(|_| cache.core().take_out_flushed());
    }

    /// A walk calls hooks, which may wait for what whoever takes over a pool has locked.
    #[test]
    fn to_begin_again_waits_for_no_walk() {
        let walk = std::sync::Arc::new(FlushWalk::default());
        let place = walk.place.lock();
        let (done, is_done) = std::sync::mpsc::channel();
        let other = std::sync::Arc::clone(&walk);
        let thread = base::thread::spawn("begin again", move || {
            other.begin_again();
            let _ = done.send(());
        });
        is_done.recv_timeout(std::time::Duration::from_secs(20)).expect("it waits for the walk");
        drop(place);
        thread.expect("a thread").join().expect("no panic");
        assert!(walk.is_due(1) && !walk.is_due(0));
    }

    /// A round takes out a bounded number of items and visits a bounded number of classes, and
    /// later rounds take out the rest.
    #[test]
    fn a_round_has_a_bound() {
        let (cache, first) = cache();
        let others = (1..3_000).map(|i| cache.add_pool(PoolConfig::named(i.to_string())).expect("a pool"));
        let pools: Vec<_> = std::iter::once(first).chain(others).collect();
        pools.iter().for_each(|pool| put(&cache, *pool, 1));
        (0..300_000).for_each(|key| put(&cache, first, key));
        pools.iter().for_each(|pool| cache.keys(*pool).flush());
        let left = || pools.iter().map(|pool| items(&cache, *pool)).sum::<u64>();
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

    /// Links are items that leave with the item that they are chained to.
    #[test]
    fn links_count_as_work() {
        let (cache, pool) = cache();
        for key in 0..2_000_u32 {
            let options = ItemOptions { chainable: true, ..ItemOptions::default() };
            let parent = cache.allocate(pool, &key.to_le_bytes(), 10, &options).expect("memory");
            for _ in 0..300 {
                let link = parent.allocate_link(8).expect("memory");
                parent.push_link(link).expect("it was made for this item");
            }
            cache.put(parent);
        }
        cache.keys(pool).flush();
        let mut left = 2_000;
        while left > 0 {
            rounds(&cache, 1);
            let now = items(&cache, pool);
            assert!((1..=900).contains(&(left - now)), "{left} to {now}");
            left = now;
        }
        cache.validate();
    }

    /// An item that was allocated before a flush and put after its walk was not flushed.
    #[test]
    fn an_item_that_is_put_after_the_walk_stays() {
        let (cache, pool) = cache();
        let late = cache.allocate(pool, b"late", 10, &ItemOptions::default()).expect("memory");
        cache.keys(pool).flush();
        rounds(&cache, 200);
        cache.put(late);
        rounds(&cache, 200);
        assert_eq!(items(&cache, pool), 1);
        assert!(cache.find(b"late").is_some());
        cache.keys(pool).flush();
        rounds(&cache, 200);
        assert_eq!(items(&cache, pool), 0);
        cache.validate();
    }

    /// A flushed item that is moved is at a place that the walk has passed.
    #[test]
    fn an_item_that_is_moved_during_the_walk_is_taken_out() {
        let (cache, pool) = cache();
        let of_one_slab = SLAB_BYTES as u32 / 64;
        (0..3 * of_one_slab).for_each(|key| put(&cache, pool, key));
        cache.keys(pool).flush();
        let core = cache.core();
        let walk_ends_before_the_last_chunks = |moves: bool| {
            let pools = core.pools.all();
            let flushed = &pools.numbered(pool.number()).expect("it is there").flushed;
            let (number, _) =
                pools.numbered(pool.number()).expect("it is there").used_classes().next().expect("one");
            {
                let mut place = flushed.place.lock();
                let before = core.keyspace(1).flushed_until(|| core.now());
                (place.latest, place.before) = (before, before);
                (place.class, place.chunk) = (number, u32::MAX);
            }
            if moves {
                cache.move_slab(pool, number, None).expect("nothing is held");
            }
            rounds(&cache, 1);
        };
        walk_ends_before_the_last_chunks(false);
        rounds(&cache, 200);
        let left = items(&cache, pool);
        assert!(left > 0, "the walk was told that it had passed all");
        walk_ends_before_the_last_chunks(true);
        rounds(&cache, 200);
        assert_eq!(items(&cache, pool), 0);
        cache.validate();
    }
}

//! Taking flushed items out, a part of them in each round of maintenance.
//!
//! A flush costs a time stamp ([`crate::keyspace`]), and what it flushed is never found. Its memory
//! is of use to others only once the items are out. So a walk over the chunks of the pools whose
//! key space was flushed takes out what eviction could take: items that are queued and that nobody
//! holds. What it passes over, and what is moved to a run that the walk has behind it, leaves when
//! it is met or evicted.

use std::sync::atomic::Ordering;

use crate::cache::Core;
use crate::class::Class;
use crate::life::RemovalCause;
use crate::pool::Pool;
use crate::upkeep::Place;

/// Memory that one round walks over, in bytes.
const BYTES_PER_ROUND: u64 = 256 << 20;
/// Chunks that are looked at under one hold of a class's lock.
const STEP: u64 = 64;

impl Core {
    /// Takes items out that were flushed, until it has walked over [`BYTES_PER_ROUND`].
    pub(crate) fn take_out_flushed(&self) {
        self.flush_turn.go_round(&self.pools.all(), BYTES_PER_ROUND, |pool| {
            let before = self.keyspace(pool.keyspace).flushed_until(|| self.now());
            if before <= pool.flushed.done.load(Ordering::Acquire) {
                return 0;
            }
            self.walk_over_flushed(pool, before)
        });
    }

    /// Goes on with the walk of a pool, or begins one for the flush `before`. Returns the memory
    /// that it walked over, in bytes.
    fn walk_over_flushed(&self, pool: &Pool, before: u64) -> u64 {
        // Another thread that maintains the cache is at it.
        let Some(mut place) = pool.flushed.place.try_lock() else { return 0 };
        if place.before == 0 {
            place.before = before;
        }
        let mut walked = 0;
        let first = place.class;
        for (number, class) in pool.used_classes().skip_while(|(number, _)| *number < first) {
            if number != place.class {
                (place.class, place.chunk) = (number, 0);
            }
            if place.chunk == 0 {
                // What waits in magazines is not queued.
                self.fold_idle_magazines(class);
            }
            loop {
                let chunks = self.take_out_some_flushed(class, &mut place);
                walked += chunks * u64::from(class.info.chunk_bytes);
                if walked >= BYTES_PER_ROUND {
                    return walked;
                }
                if chunks < STEP {
                    break;
                }
            }
        }
        pool.flushed.done.fetch_max(place.before, Ordering::AcqRel);
        *place = Place::default();
        walked
    }

    /// Takes out what was flushed of the next [`STEP`] chunks of a class. Returns the number of
    /// chunks looked at: fewer at the end.
    fn take_out_some_flushed(&self, class: &Class, place: &mut Place) -> u64 {
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
            let is_flushed = item.state().is_indexed()
                && item.state().is_queued()
                && unsafe { !item.is_link() && u64::from(item.created()) < place.before };
            if is_flushed && inner.claim(self, ptr).is_ok() {
                flushed.push(ptr);
            }
        }
        inner.settle(self);
        drop(inner);
        self.end_claimed(class, RemovalCause::Expired, flushed);
        looked
    }
}

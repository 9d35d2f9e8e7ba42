//! Counters of a class, and sums over the items that are gone from it.

use std::sync::atomic::Ordering;

use evict::MAX_QUEUES;
use slab::Item;

/// Counters of a class. Hits have one for each queue of the policy, from this one on.
pub(crate) const HITS: usize = 0;
pub(crate) const INSERTS: usize = MAX_QUEUES;
pub(crate) const EVICTIONS: usize = INSERTS + 1;
pub(crate) const EXPIRED: usize = INSERTS + 2;
pub(crate) const REMOVED: usize = INSERTS + 3;
pub(crate) const REPLACED: usize = INSERTS + 4;
pub(crate) const ALLOCATION_FAILURES: usize = INSERTS + 5;
/// Bytes of items ever put in and ever taken out of the queue, header included.
pub(crate) const BYTES_IN: usize = INSERTS + 6;
pub(crate) const BYTES_OUT: usize = INSERTS + 7;
/// Links ever put into a chain and ever taken out of one.
pub(crate) const LINKS_IN: usize = INSERTS + 8;
pub(crate) const LINKS_OUT: usize = INSERTS + 9;
pub(crate) const ALLOCATIONS: usize = INSERTS + 10;
/// Of evicted items: those never found, those that would have expired, and the sum of the times
/// since they were made.
pub(crate) const EVICTED_UNREAD: usize = INSERTS + 11;
pub(crate) const EVICTED_EXPIRING: usize = INSERTS + 12;
pub(crate) const EVICTED_AGE_SECS: usize = INSERTS + 13;
/// Of expired items: those never found, and those that nobody came upon.
pub(crate) const EXPIRED_UNREAD: usize = INSERTS + 14;
pub(crate) const REAPED: usize = INSERTS + 15;
/// Items of slabs that left: those that were moved, and those that were evicted.
pub(crate) const MOVED: usize = INSERTS + 16;
pub(crate) const MOVE_EVICTIONS: usize = INSERTS + 17;
/// Runs that came, that left, and that could not be emptied.
pub(crate) const RUNS_ADDED: usize = INSERTS + 18;
pub(crate) const RUNS_RELEASED: usize = INSERTS + 19;
pub(crate) const RELEASES_ABORTED: usize = INSERTS + 20;
/// Items that came from another class of the pool, or went to one, when chunk sizes changed.
pub(crate) const MOVED_IN: usize = INSERTS + 21;
pub(crate) const MOVED_OUT: usize = INSERTS + 22;
/// Of expired items, those that were flushed.
pub(crate) const FLUSHED: usize = INSERTS + 23;
/// Of evicted items, those that were while a slab of the class was on its way elsewhere, and while
/// one was for a lower limit.
pub(crate) const SHIFT_EVICTIONS: usize = INSERTS + 24;
pub(crate) const LIMIT_EVICTIONS: usize = INSERTS + 25;
pub(super) const COUNTERS: usize = INSERTS + 26;

/// Counts of items that are gone.
#[derive(Default)]
pub(crate) struct Gone {
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) unread: u64,
    pub(super) expiring: u64,
    /// Those whose time had not come.
    pub(super) in_time: u64,
    pub(super) age_secs: u64,
    pub(super) last_idle_secs: u32,
}

impl Gone {
    /// One more.
    ///
    /// # Safety
    /// As for [`slab::Item::key`].
    pub(crate) unsafe fn add(&mut self, item: Item<'_>, now: u32) {
        // SAFETY: the caller meets the duties of `key`, so that the item is not freed and its
        // lengths do not change (invariants 2, 3 and 5 of `slab::item`).
        let (bytes, created, expiry, used) =
            unsafe { (item.used_bytes(), item.created(), item.expiry(), item.last_access()) };
        self.items += 1;
        self.bytes += bytes as u64;
        self.unread += u64::from(!item.state().is_fetched());
        let expiry = expiry.map_or(0, |time| time.load(Ordering::Relaxed));
        self.expiring += u64::from(expiry != 0);
        self.in_time += u64::from(expiry == 0 || expiry > now);
        self.age_secs += u64::from(now.saturating_sub(created));
        self.last_idle_secs = now.saturating_sub(used.map_or(created, |time| time.load(Ordering::Relaxed)));
    }
}

//! Look-ups without a lock.

use base::sync::atomic::{Ordering, fence};
use slab::ItemPtr;

use crate::bucket::{Meta, pause};
use crate::{Index, tag_of};

impl Index {
    /// Offers each entry that may belong to `hash` to `accept` until it returns something. Takes no
    /// lock.
    ///
    /// `accept` may be offered entries of other keys, and entries that are being removed: it must
    /// decide by a reference to the item. `None` means that no accepted entry was there at some
    /// moment during the call. Reads one cache line on a miss unless the home has spilled entries.
    #[inline]
    pub fn find<R>(&self, hash: u64, mut accept: impl FnMut(ItemPtr) -> Option<R>) -> Option<R> {
        let home = self.shape.load().home(hash);
        let bucket = self.table.get(home);
        let meta = bucket.meta();
        for slot in bucket.matching(tag_of(hash)) {
            if let Some(found) = accept(bucket.ptr(slot)) {
                return Some(found);
            }
        }
        self.find_elsewhere(hash, (home, meta), accept)
    }

    /// The rest of a search that has found nothing in the home, whose state it read first: not a
    /// part of [`Self::find`], so that what is found at once saves no registers for this.
    #[inline(never)]
    fn find_elsewhere<R>(
        &self,
        hash: u64,
        (mut home, mut meta): (u32, Meta),
        mut accept: impl FnMut(ItemPtr) -> Option<R>,
    ) -> Option<R> {
        let tag = tag_of(hash);
        let (mut distance, mut spins) = (1, 0);
        loop {
            while distance <= meta.reach() {
                let bucket = self.table.get(home + distance);
                for slot in bucket.matching(tag) {
                    if let Some(found) = accept(bucket.ptr(slot)) {
                        return Some(found);
                    }
                }
                distance += 1;
            }
            // Invariants 1 and 4: the home did not change during the search, and it still is the
            // home.
            fence(Ordering::Acquire);
            if !meta.is_locked()
                && self.table.get(home).meta() == meta
                && self.shape.load().home(hash) == home
            {
                return None;
            }
            pause(&mut spins);
            home = self.shape.load().home(hash);
            meta = self.table.get(home).meta();
            distance = 0;
        }
    }

    /// Prefetches the home of `hash` into the processor's cache.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        base::sync::prefetch(self.table.get(self.shape.load().home(hash)));
    }

    /// Returns the first entry in the home of `hash` that may belong to it: only a hint for
    /// prefetching.
    #[inline]
    pub fn likely(&self, hash: u64) -> Option<ItemPtr> {
        let bucket = self.table.get(self.shape.load().home(hash));
        bucket.matching(tag_of(hash)).next().map(|slot| bucket.ptr(slot))
    }
}

//! Look-ups without a lock.

use base::sync::atomic::{Ordering, fence};
use slab::ItemPtr;

use crate::bucket::pause;
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
        let tag = tag_of(hash);
        let mut spins = 0;
        loop {
            let view = self.shape.load();
            let home = view.home(hash);
            let first = self.table.get(home);
            let meta = first.meta();
            let (mut bucket, mut distance) = (first, 0);
            // `accept` is called in one place, so that it is compiled into the loop.
            loop {
                for slot in bucket.matching(tag) {
                    if let Some(found) = accept(bucket.ptr(slot)) {
                        return Some(found);
                    }
                }
                if distance == meta.reach() {
                    break;
                }
                distance += 1;
                bucket = self.table.get(home + distance);
            }
            // Invariants 1 and 4: the home did not change during the search, and it still is the
            // home.
            fence(Ordering::Acquire);
            if !meta.is_locked() && first.meta() == meta && self.shape.load().home(hash) == home {
                return None;
            }
            pause(&mut spins);
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

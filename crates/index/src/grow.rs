//! Growth in place, a bucket at a time, by the threads that insert.

use base::Part;
use base::sync::atomic::Ordering;
use slab::ItemPtr;

use crate::bucket::SLOTS;
use crate::shape::place;
use crate::{EARLY_PER_BUCKET_X100, Index, REMOVED, TRIGGER_PER_BUCKET_X100, buckets_for, table, tag_of};

/// An entry to be moved.
struct Moving {
    distance: u32,
    slot: usize,
    hash: u64,
    ptr: ItemPtr,
}

impl Index {
    /// Returns whether the index holds enough entries that growth should begin. Costs a sum over
    /// the stripes of a counter, so call it only now and then.
    pub fn wants_growth(&self) -> bool {
        let view = self.shape.load();
        !view.is_growing() && view.old < self.shape.max() && self.is_full_with(0, view.old)
    }

    /// Returns whether growth makes room for an entry whose home is full: the index grows, or half
    /// of its slots are in use and it may grow.
    pub fn can_spread(&self) -> bool {
        let view = self.shape.load();
        let is_half_full = || self.len() * 100 >= u64::from(view.old) * EARLY_PER_BUCKET_X100;
        view.is_growing() || view.old < self.shape.max() && is_half_full()
    }

    /// Returns whether `buckets` are too few for the present entries and `more_entries`.
    fn is_full_with(&self, more_entries: u64, buckets: u32) -> bool {
        (self.len() + more_entries) * 100 > u64::from(buckets) * TRIGGER_PER_BUCKET_X100
    }

    /// Takes memory from the system for the buckets that the index will grow into before it holds
    /// `more_entries` more, so that no insertion waits for it. Meant for a background thread.
    /// `expected_entries` is as in [`Self::begin_growth`].
    pub fn touch_ahead(&self, more_entries: u64, expected_entries: u64) {
        let view = self.shape.load();
        let to = if view.is_growing() {
            view.new
        } else if self.is_full_with(more_entries, view.old) {
            self.next_size(view.old, expected_entries)
        } else {
            return;
        };
        let from = self.touched.fetch_max(to, Ordering::Relaxed).max(view.old);
        if from < to {
            self.table.touch(from, to);
        }
    }

    /// The number of buckets that an index of `old` should grow to.
    fn next_size(&self, old: u32, expected_entries: u64) -> u32 {
        let least = old.saturating_add((old / 8).max(1));
        let twice = old.saturating_mul(2);
        buckets_for(expected_entries).clamp(least, twice.max(least)).min(self.shape.max())
    }

    /// Memory that [`Self::begin_growth`] would charge, in bytes.
    pub fn growth_bytes(&self, expected_entries: u64) -> u64 {
        let old = self.shape.load().old;
        table::bytes(self.next_size(old, expected_entries)) - table::bytes(old)
    }

    /// Begins growth to twice the size, or to less if `expected_entries` (the estimated number that
    /// the index will hold in the end) needs less, but by at least an eighth. Charges the memory.
    /// Returns `false` if another thread is growing the index, or it has its largest size.
    pub fn begin_growth(&self, expected_entries: u64) -> bool {
        let Some(_grower) = self.grower.try_lock() else { return false };
        let view = self.shape.load();
        if view.is_growing() {
            return false;
        }
        let new = self.next_size(view.old, expected_entries);
        if new <= view.old {
            return false;
        }
        self.ledger.charge(Part::Index, table::bytes(new) - table::bytes(view.old));
        self.shape.begin(new);
        true
    }

    /// Moves up to `buckets` buckets if the index is growing and no other thread moves any.
    /// `hash_of` returns the hash of an item in the index, and may read its key. Returns the
    /// entries that found no place and are no longer in the index; the caller treats them like
    /// evicted ones. There are hardly ever any, as growth makes room.
    #[must_use]
    pub fn grow(
        &self,
        buckets: u32,
        hash_of: impl Fn(ItemPtr) -> u64,
        prefetch: impl Fn(ItemPtr),
    ) -> Vec<ItemPtr> {
        if !self.is_growing() {
            return Vec::new();
        }
        let Some(_grower) = self.grower.try_lock() else { return Vec::new() };
        self.move_buckets(buckets, hash_of, prefetch)
    }

    /// [`Self::grow`] for an entry that found its home full. Waits for another thread that moves
    /// buckets, since that thread may have been preempted while others filled the index. The caller
    /// must not hold a bucket lock.
    #[must_use]
    pub fn grow_on(
        &self,
        buckets: u32,
        hash_of: impl Fn(ItemPtr) -> u64,
        prefetch: impl Fn(ItemPtr),
    ) -> Vec<ItemPtr> {
        let _grower = self.grower.lock();
        self.move_buckets(buckets, hash_of, prefetch)
    }

    /// Moves buckets while the index is growing. The caller is the grower.
    fn move_buckets(
        &self,
        buckets: u32,
        hash_of: impl Fn(ItemPtr) -> u64,
        prefetch: impl Fn(ItemPtr),
    ) -> Vec<ItemPtr> {
        let mut dropped = Vec::new();
        for _ in 0..buckets {
            if !self.shape.load().is_growing() {
                break;
            }
            self.move_bucket(&hash_of, &prefetch, &mut dropped);
        }
        dropped
    }

    /// Moves all entries whose old home is the bucket below the frontier. Holds the locks of that
    /// bucket and of those that its entries lie in, at most 16; moves all entries it finds,
    /// typically 10.
    fn move_bucket(
        &self,
        hash_of: &impl Fn(ItemPtr) -> u64,
        prefetch: &impl Fn(ItemPtr),
        dropped: &mut Vec<ItemPtr>,
    ) {
        let view = self.shape.load();
        let home = view.frontier() - 1;
        let bucket = self.table.get(home);
        bucket.lock();
        let reach = bucket.meta().reach();
        for distance in 1..=reach {
            self.table.get(home + distance).lock();
        }
        let mut entries = Vec::with_capacity(SLOTS);
        for distance in 0..=reach {
            let from = self.table.get(home + distance);
            from.occupied().for_each(|slot| prefetch(from.ptr(slot)));
            for slot in from.occupied() {
                let ptr = from.ptr(slot);
                // Invariant 2: the bucket is locked, so the item's key may be read.
                let hash = hash_of(ptr);
                if place(hash, view.old) == home && place(hash, view.new) != home {
                    entries.push(Moving { distance, slot, hash, ptr });
                }
            }
        }
        // Highest new home first: then no entry below is in the way.
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.hash));
        for entry in entries {
            if !self.move_entry(home, reach, view.new, &entry) {
                self.counts.add(REMOVED, 1);
                dropped.push(entry.ptr);
            }
        }
        // Invariant 4: visible before the lock of the old home is released.
        self.shape.advance(home);
        for distance in (1..=reach).rev() {
            self.table.get(home + distance).unlock(true);
        }
        bucket.unlock(true);
    }

    /// Moves one entry of the locked old home `home` to its place among `new` buckets. Returns
    /// `false` if no slot was free within its reach: the entry is then no longer in the index.
    fn move_entry(&self, home: u32, reach: u32, new: u32, entry: &Moving) -> bool {
        let target = place(entry.hash, new);
        let locked_to = home + reach;
        let target_bucket = self.table.get(target);
        if target > locked_to {
            target_bucket.lock();
        }
        let placed =
            self.place_from(target, locked_to.max(target), (tag_of(entry.hash), entry.ptr), || ()).is_ok();
        if target > locked_to {
            target_bucket.unlock(true);
        }
        // Invariant 5: the entry is in its new place, so the old slot may be cleared.
        self.table.get(home + entry.distance).clear(entry.slot);
        if entry.distance > 0 {
            self.table.get(home).note_unspilled();
        }
        placed
    }
}

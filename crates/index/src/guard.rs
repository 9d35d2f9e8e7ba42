//! Changes, under the lock of a key's home.

use slab::ItemPtr;

use crate::bucket::MAX_REACH;
use crate::{ADDED, Index, REMOVED, tag_of};

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    distance: u32,
    slot: usize,
}

/// No slot is free within reach of the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The locked home of a hash, and the buckets that its spilled entries may lie in.
///
/// While it lives, no other thread adds or removes an entry of this hash, and the items of all
/// entries in the locked buckets keep their chunks.
pub struct BucketGuard<'a> {
    index: &'a Index,
    hash: u64,
    home: u32,
    /// Buckets `home ..= home + reach` are locked.
    reach: u32,
    changed: bool,
}

impl Index {
    /// Locks the home of `hash`.
    pub fn lock(&self, hash: u64) -> BucketGuard<'_> {
        loop {
            let home = self.shape.load().home(hash);
            let bucket = self.table.get(home);
            bucket.lock();
            // Invariant 4: now that the lock is held, the mapping of this hash cannot change.
            if self.shape.load().home(hash) != home {
                bucket.unlock(false);
                continue;
            }
            let reach = bucket.meta().reach();
            for distance in 1..=reach {
                self.table.get(home + distance).lock();
            }
            held::add(1);
            return BucketGuard { index: self, hash, home, reach, changed: false };
        }
    }

    /// Checks, in builds with debug assertions, that the calling thread holds no lock
    /// ([`Self::lock`]) of this index or another. For functions that take such locks themselves.
    #[inline]
    pub fn check_unlocked(&self) {
        debug_assert_eq!(held::count(), 0, "the thread holds a lock of the index");
    }

    /// Removes the entry of `hash` that points to `ptr`, if there is one.
    pub fn remove(&self, hash: u64, ptr: ItemPtr) -> bool {
        let mut guard = self.lock(hash);
        let Some(slot) = guard.find(|candidate| candidate == ptr) else { return false };
        guard.clear(slot);
        true
    }

    /// Returns whether an entry of `hash` points to `ptr`. For checks of a cache at rest; takes the
    /// lock.
    pub fn contains(&self, hash: u64, ptr: ItemPtr) -> bool {
        self.lock(hash).find(|candidate| candidate == ptr).is_some()
    }
}

impl BucketGuard<'_> {
    /// The first entry with the hash's tag that `accept` accepts.
    #[inline]
    pub fn find(&self, mut accept: impl FnMut(ItemPtr) -> bool) -> Option<Slot> {
        let tag = tag_of(self.hash);
        for distance in 0..=self.reach {
            let bucket = self.index.table.get(self.home + distance);
            for slot in bucket.matching(tag) {
                if accept(bucket.ptr(slot)) {
                    return Some(Slot { distance, slot });
                }
            }
        }
        None
    }

    /// The item that `slot` points to.
    pub fn ptr(&self, slot: Slot) -> ItemPtr {
        self.index.table.get(self.home + slot.distance).ptr(slot.slot)
    }

    /// Makes the entry in `slot` point to `ptr` instead.
    pub fn exchange(&mut self, slot: Slot, ptr: ItemPtr) {
        self.index.table.get(self.home + slot.distance).exchange(slot.slot, ptr);
        self.changed = true;
    }

    /// Removes the entry in `slot`.
    pub fn clear(&mut self, slot: Slot) {
        self.index.table.get(self.home + slot.distance).clear(slot.slot);
        if slot.distance > 0 {
            self.index.table.get(self.home).note_unspilled();
        }
        self.index.counts.add(REMOVED, 1);
        self.changed = true;
    }

    /// Adds an entry that points to `ptr`, in the home or, if that is full, in one of the next 15
    /// buckets.
    ///
    /// # Errors
    /// [`Full`] if those are full too. The caller makes room by removing an entry nearby, or grows
    /// the index.
    pub fn add(&mut self, ptr: ItemPtr) -> Result<(), Full> {
        self.add_after(ptr, || ())
    }

    /// [`Self::add`], which calls `before` once there is a slot, before that points to `ptr`. The
    /// bucket of the slot is locked meanwhile.
    ///
    /// # Errors
    /// [`Full`]; `before` is not called then.
    #[inline]
    pub fn add_after(&mut self, ptr: ItemPtr, before: impl FnOnce()) -> Result<(), Full> {
        let tag = tag_of(self.hash);
        self.index.place_from(self.home, self.home + self.reach, (tag, ptr), before)?;
        self.index.counts.add(ADDED, 1);
        self.changed = true;
        Ok(())
    }

    /// The entries in the home, of any key: the candidates for removal on [`Full`].
    pub fn home_slots(&self) -> impl Iterator<Item = Slot> {
        let bucket = self.index.table.get(self.home);
        bucket.occupied().map(|slot| Slot { distance: 0, slot })
    }
}

impl Drop for BucketGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        held::add(-1);
        for distance in (1..=self.reach).rev() {
            self.index.table.get(self.home + distance).unlock(false);
        }
        self.index.table.get(self.home).unlock(self.changed);
    }
}

impl Index {
    /// Puts an entry into the first free slot of `home` or of the buckets behind it, and notes a
    /// spill in the home. Calls `before` before the slot points to the item. The caller holds the
    /// locks of `home ..= locked_to`; further ones are taken here, upwards (invariant 3).
    pub(crate) fn place_from(
        &self,
        home: u32,
        locked_to: u32,
        (tag, ptr): (u8, ItemPtr),
        before: impl FnOnce(),
    ) -> Result<(), Full> {
        for distance in 0..=MAX_REACH {
            let at = home + distance;
            let bucket = self.table.get(at);
            let locked_here = at > locked_to;
            if locked_here {
                bucket.lock();
            }
            if let Some(slot) = bucket.matching(0).next() {
                // The home records the spill first: a reader that sees the new reach may search in
                // vain, but the home is locked, so the reader will retry.
                if distance > 0 {
                    self.table.get(home).note_spilled(distance);
                }
                before();
                bucket.fill(slot, tag, ptr);
                if locked_here {
                    bucket.unlock(false);
                }
                return Ok(());
            }
            if locked_here {
                bucket.unlock(false);
            }
        }
        Err(Full)
    }
}

/// The number of guards that the calling thread has, in builds with debug assertions.
#[cfg(all(debug_assertions, not(loom)))]
mod held {
    use std::cell::Cell;

    thread_local!(static GUARDS: Cell<i32> = const { Cell::new(0) });

    pub(super) fn add(guards: i32) {
        GUARDS.set(GUARDS.get() + guards);
    }

    pub(super) fn count() -> i32 {
        GUARDS.get()
    }
}

#[cfg(not(all(debug_assertions, not(loom))))]
mod held {
    #[inline]
    pub(super) fn add(_guards: i32) {}

    pub(super) fn count() -> i32 {
        0
    }
}

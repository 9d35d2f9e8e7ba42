//! Removal from the index of items that a thread has claimed.
//!
//! An item leaves the index under the hash of its own key ([`Keyed`]), before its chunk is freed.

use slab::ItemPtr;

use super::Magazine;
use crate::cache::Core;
use crate::class::{Class, Gone, Keyed};
use crate::lifecycle::RemovalCause;
use crate::plant::Plant;
use crate::watch::gone_for;

impl Core {
    /// Takes what was evicted out of the index.
    pub(super) fn unlink_evicted(&self, class: &Class, magazine: &mut Magazine) {
        let (cause, plant) = (RemovalCause::Evicted, Plant::EvictedUnderAnother);
        self.unlink(class, (cause, plant), magazine.evicted.iter().copied());
        magazine.freed.extend(magazine.evicted.drain(..).map(Keyed::ptr));
    }

    /// Takes items that this thread has claimed out of the index, and counts them as gone for
    /// `cause`, those that were evicted when they were over as expired.
    fn unlink(
        &self,
        class: &Class,
        (cause, plant): (RemovalCause, Plant),
        claimed: impl Iterator<Item = Keyed>,
    ) {
        let space = self.keyspace(class.info.keyspace);
        let (now, mut gone, mut expired) = (self.now(), Gone::default(), Gone::default());
        let mut before = None;
        for keyed in claimed {
            let (ptr, hash) = (keyed.ptr(), keyed.hash());
            let another = before.replace(hash).filter(|_| self.strikes(plant));
            self.index.remove(another.unwrap_or(hash), ptr);
            self.check_unlinked(ptr);
            let item = self.arena.item(ptr).0;
            // SAFETY: the item was claimed, so that this thread owns its chunk (invariant 2 of
            // `slab::item`).
            unsafe {
                let cause = self.cause_of_end(cause, item, space);
                if cause == RemovalCause::Expired { &mut expired } else { &mut gone }.add(item, now);
                self.note_item(gone_for(cause), hash, ptr);
            }
        }
        class.count_gone(cause, &gone);
        class.count_gone(RemovalCause::Expired, &expired);
    }

    /// Takes items that this thread has claimed out of the index, counts them as gone for `cause`,
    /// and frees them.
    pub(crate) fn end_claimed(&self, class: &Class, cause: RemovalCause, mut claimed: Vec<ItemPtr>) {
        claimed.retain(|ptr| {
            let wants_finish = self.wants_finish(class, *ptr);
            if wants_finish {
                self.arena.item(*ptr).0.state().hold_claimed();
                self.unlink_held(*ptr, cause);
            }
            !wants_finish
        });
        // SAFETY: the items were claimed, so that this thread owns their chunks (invariant 2 of
        // `slab::item`).
        let keyed = claimed.iter().map(|ptr| unsafe { Keyed::of(self, *ptr) });
        let plant = match cause {
            RemovalCause::Expired => Plant::ExpiredUnderAnother,
            _ => Plant::ReleasedUnderAnother,
        };
        self.unlink(class, (cause, plant), keyed);
        self.free_evicted(class, claimed);
    }

    /// Takes an item out of the index that this thread has taken out of sight, with a reference,
    /// and gives that back.
    pub(crate) fn unlink_held(&self, ptr: ItemPtr, cause: RemovalCause) {
        let changes_nothing = !self.strikes(Plant::FinishedStays) && self.depart(ptr, cause);
        if changes_nothing {
            self.retire_unnoticed(ptr);
        } else {
            self.finish_removal(ptr, cause, false);
        }
    }

    /// Checks, in builds with debug assertions, that no entry of the index leads to an item whose
    /// chunk this thread owns and is about to free. Whoever calls this holds no lock of the index
    /// and none of a class.
    #[inline]
    pub(crate) fn check_unlinked(&self, ptr: ItemPtr) {
        if cfg!(debug_assertions) && self.checks_ends() {
            // SAFETY: this thread owns the chunk, so that nobody else frees it (invariant 2 of
            // `slab::item`).
            let entry = unsafe {
                (!self.arena.item(ptr).0.is_link()).then(|| self.index.contains(self.hash_of_item(ptr), ptr))
            };
            assert!(entry != Some(true), "the index leads to an item whose chunk is being freed");
        }
    }
}

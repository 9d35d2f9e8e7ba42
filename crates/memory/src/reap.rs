//! Taking expired items out, a few at a time.

use std::sync::atomic::Ordering;

use evict::{Entry, Items};
use slab::{ChunkNumber, ItemPtr};

use crate::cache::{Cache, Core};
use crate::class::{Class, Inner, REAPED, View};
use crate::lifecycle::RemovalCause;
use crate::pool::Pool;
use crate::wheel::Wheel;

/// Entries of a wheel that are looked at under one hold of a class's lock.
const STEP: usize = 64;

impl Cache {
    /// Takes out the items that have expired, and returns how many. [`Self::maintain`] does so as
    /// well. Costs in proportion to what expires, and a look at one cache line of each pool; an
    /// item is reaped late by less than a 15th of its time to live, and is never found meanwhile.
    pub fn reap(&self) -> u64 {
        let core = self.core();
        let (pools, now) = (core.pools.all(), core.now());
        let due = pools.iter().filter(|pool| pool.upkeep.take_due(now));
        // The class says when it is due next, even if it is not due now.
        let due = due.flat_map(Pool::used_classes).filter(|(_, class)| class.take_due(now));
        due.map(|(_, class)| core.reap_class(class)).sum()
    }
}

impl Inner {
    /// Puts an entry that was taken out of the wheel back for another time.
    fn put_off(&mut self, entry: Entry, expiry: u32, now: u32) {
        if let Some(wheel) = &mut self.wheel {
            wheel.insert(entry, expiry, now);
        }
    }
}

impl Core {
    /// Notes when an item expires. Called under the lock of its class.
    pub(crate) fn put_in_wheel(&self, class: &Class, inner: &mut Inner, entry: Entry, expiry: u32) {
        if expiry == 0 {
            return;
        }
        let Inner { chunks, policy, wheel, .. } = inner;
        let now = self.now();
        let wheel = wheel.get_or_insert_with(|| Box::new(Wheel::new(now)));
        class.note_due(wheel.insert(entry, expiry, now));
        let view = View::new(self, chunks);
        wheel.sweep(policy.len(), |entry| view.prefetch(entry), |entry| view.bits(entry).is_some());
    }

    fn reap_class(&self, class: &Class) -> u64 {
        if !self.fold_idle_magazines(class).is_complete {
            // The magazine in use may have an item that is due: the next round looks again.
            class.note_due(0);
        }
        let mut reaped = 0;
        loop {
            let mut due = Vec::new();
            let more = self.collect_due(class, &mut due);
            reaped += due.len() as u64;
            class.counters.add(REAPED, due.len() as u64);
            self.end_claimed(class, RemovalCause::Expired, due);
            if !more {
                return reaped;
            }
        }
    }

    /// Claims the items of up to [`STEP`] due entries. Returns whether there may be more.
    fn collect_due(&self, class: &Class, due: &mut Vec<ItemPtr>) -> bool {
        let now = self.now();
        let mut inner = class.inner.lock();
        for _ in 0..STEP {
            let Some(entry) = inner.wheel.as_mut().and_then(|wheel| wheel.pop_due(now)) else {
                class.note_due(inner.wheel.as_ref().map_or(u32::MAX, |wheel| wheel.next_due()));
                inner.settle(self);
                return false;
            };
            let found = inner.chunks.resolve(&self.arena, ChunkNumber(entry.0));
            let Some((ptr, item)) = found.filter(|(_, item)| item.state().is_indexed()) else { continue };
            // SAFETY: the item was in the index while this thread held the lock of the class, which
            // it still holds (invariant 5 of `magazine`).
            let expiry = unsafe { item.expiry() }.map_or(0, |expiry| expiry.load(Ordering::Relaxed));
            if expiry == 0 {
                continue;
            }
            if expiry > now {
                // It was put off.
                inner.put_off(entry, expiry, now);
                continue;
            }
            match inner.claim(self, ptr) {
                Ok(_) => due.push(ptr),
                // Its holder will have let go of it by then.
                Err(slab::item::Claim::Held) => inner.put_off(entry, now.saturating_add(1), now),
                Err(_) => {}
            }
        }
        inner.settle(self);
        true
    }
}

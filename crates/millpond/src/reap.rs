//! Taking expired items out, a few at a time.

use std::sync::atomic::Ordering;

use evict::{Entry, Items};
use slab::{ChunkNumber, ItemPtr};

use crate::cache::{Cache, Core};
use crate::class::{Class, Inner, REAPED, View};
use crate::life::RemovalCause;
use crate::pool::Pool;

/// Entries of a wheel that are looked at under one hold of a class's lock.
const STEP: usize = 64;

impl Cache {
    /// Takes out the items that have expired, and returns how many. [`Self::maintain`] does so as well. Costs in
    /// proportion to what expires; an item is reaped late by at most a 16th of its time to live, and is never found
    /// meanwhile.
    pub fn reap(&self) -> u64 {
        let core = self.core();
        let pools = core.pools.all();
        pools.iter().flat_map(Pool::used_classes).map(|(_, class)| core.reap_class(class)).sum()
    }
}

impl Core {
    /// Notes when an item expires. Called under the lock of its class.
    pub(crate) fn put_in_wheel(&self, inner: &mut Inner, entry: Entry, expiry: u32) {
        if expiry == 0 {
            return;
        }
        let Inner { chunks, policy, wheel, .. } = inner;
        wheel.insert(entry, expiry);
        let view = View::new(self, chunks);
        wheel.sweep(policy.len(), |entry| view.prefetch(entry), |entry| view.bits(entry).is_some());
    }

    fn reap_class(&self, class: &Class) -> u64 {
        self.fold_magazines(class);
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
            let Some(entry) = inner.wheel.pop_due(now) else {
                inner.settle(&self.ledger);
                return false;
            };
            let found = inner.chunks.resolve(&self.arena, ChunkNumber(entry.0));
            let Some((ptr, item)) = found.filter(|(_, item)| item.state().is_indexed()) else { continue };
            // SAFETY: the item was in the index while this thread held the lock of the class, without which no chunk that
            // was freed since then is used again.
            let expiry = unsafe { item.expiry() }.map_or(0, |expiry| expiry.load(Ordering::Relaxed));
            if expiry == 0 {
                continue;
            }
            if expiry > now {
                // It was put off.
                inner.wheel.insert(entry, expiry);
                continue;
            }
            match inner.claim(self, ptr) {
                Ok(_) => due.push(ptr),
                // Its holder will have let go of it by then.
                Err(slab::item::Claim::Held) => inner.wheel.insert(entry, now.saturating_add(1)),
                Err(_) => {}
            }
        }
        inner.settle(&self.ledger);
        true
    }
}

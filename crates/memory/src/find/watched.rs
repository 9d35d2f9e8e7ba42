//! Look-ups while something is watched ([`crate::watch`]).

use super::{Keys, NO_KEY};
use crate::handle::{ItemRef, ReadHandle};
use crate::watch::{Timed, Wanted};

impl<'c> Keys<'c> {
    #[inline(never)]
    pub(super) fn find_watched(self, wanted: Wanted, hash: u64, key: &[u8]) -> Option<ReadHandle<'c>> {
        let core = self.cache.core();
        let stopwatch = core.watch.stopwatch(wanted, &core.clock);
        let found = self.find_hashed(hash, key);
        core.watch.stop(stopwatch, &core.clock, Timed::Find, 1);
        self.note_find(wanted, (key, hash), found.as_ref().map(ReadHandle::found));
        found
    }

    #[inline(never)]
    pub(super) fn find_with_watched<R>(
        self,
        wanted: Wanted,
        hash: u64,
        key: &[u8],
        seen: impl FnOnce(ItemRef<'_>) -> R,
    ) -> Option<R> {
        let core = self.cache.core();
        let mut stopwatch = core.watch.stopwatch(wanted, &core.clock);
        let result = self.find_in_place(self.space(), (hash, key), |found| {
            stopwatch.pause(&core.clock);
            self.note_find(wanted, (key, hash), Some(found));
            seen(found)
        });
        core.watch.stop(stopwatch, &core.clock, Timed::Find, 1);
        if result.is_none() {
            self.note_find(wanted, (key, hash), None);
        }
        result
    }

    #[inline(never)]
    pub(super) fn find_batch_watched(self, keys: &[&[u8]], mut seen: impl FnMut(usize, Option<ItemRef<'_>>)) {
        let core = self.cache.core();
        let mut stopwatch = core.watch.stopwatch(core.watch.wants(NO_KEY), &core.clock);
        self.find_batch(keys, |i, hash, found| {
            stopwatch.pause(&core.clock);
            self.note_find(core.watch.wants(hash), (keys[i], hash), found);
            seen(i, found);
            stopwatch.resume(&core.clock);
        });
        core.watch.stop(stopwatch, &core.clock, Timed::Find, keys.len());
    }

    /// Tells those who watch what a look-up found.
    #[inline]
    pub(super) fn note_find(self, wanted: Wanted, key: (&[u8], u64), found: Option<ItemRef<'_>>) {
        if wanted.any() {
            self.cache.core().tell_find(wanted, key, found, self.own_pool());
        }
    }
}

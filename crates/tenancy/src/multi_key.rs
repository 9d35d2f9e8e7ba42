//! Several keys at one moment: writes of several keys are seen by reads of several keys as a whole,
//! or not at all.
//!
//! A sequence lock beside the [gate](base::pin::Gate) of a key space. Commands on one key ignore
//! it. A command that writes several keys makes the number odd while it does; one that reads
//! several looks at the number before and after, and reads again if another has written meanwhile.
//! No thread waits: a command that cannot continue ends its turn.
//!
//! Invariants:
//! 1. At most one [`Writing`] of a key space is there at a time, and the number is odd while it is.
//! 2. Each value is published by a release and read by an acquire, in the engine. So a reader that
//!    has seen anything of a write sees, when it looks at the number afterwards, that the number is
//!    not the even one it began with.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// See the module.
#[derive(Debug, Default)]
pub struct MultiKeyLock(AtomicU64);

/// The state of a key space when a reader began to read several of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMark(u64);

/// Several keys are being written.
#[derive(Debug)]
pub struct Writing<'a>(&'a MultiKeyLock);

impl MultiKeyLock {
    /// Begins to write several keys, unless another does.
    pub fn write(&self) -> Option<Writing<'_>> {
        let before = self.0.load(Ordering::Relaxed);
        let is_free = before.is_multiple_of(2)
            && self.0.compare_exchange(before, before + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        // The values written next must not be seen before the number is odd.
        fence(Ordering::Release);
        // Not created if it is not free: it would be dropped.
        is_free.then(|| Writing(self))
    }

    /// Begins to read several keys, unless several are being written.
    pub fn look(&self) -> Option<ReadMark> {
        let seen = self.0.load(Ordering::Acquire);
        seen.is_multiple_of(2).then_some(ReadMark(seen))
    }

    /// Returns whether all keys read since then were in the cache at one moment.
    pub fn is_as(&self, seen: ReadMark) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen.0
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_at_a_time_and_who_reads_meanwhile_knows() {
        let several = MultiKeyLock::default();
        let seen = several.look().expect("nobody writes");
        assert!(several.is_as(seen));
        let writing = several.write().expect("nobody else writes");
        assert!(several.write().is_none() && several.look().is_none() && !several.is_as(seen));
        drop(writing);
        assert!(!several.is_as(seen) && several.look().is_some_and(|seen| several.is_as(seen)));
        assert!(several.write().is_some());
    }
}

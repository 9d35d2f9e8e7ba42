//! Keys whose items are not evicted for a while.

use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Counts: 256 KiB. Keys share one by chance, and are kept together then: while 1,000 keys are
/// kept, so are 1.5 % of all others.
const COUNTS: usize = 1 << 16;

/// The number of operations under way for the keys of each count.
pub(super) struct RetainedKeys(Box<[AtomicU32]>);

impl Default for RetainedKeys {
    fn default() -> Self {
        Self((0..COUNTS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl RetainedKeys {
    pub(super) const BYTES: u64 = (COUNTS * size_of::<AtomicU32>()) as u64;

    fn of(&self, fingerprint: u32) -> &AtomicU32 {
        &self.0[fingerprint as usize % COUNTS]
    }

    /// Keeps the items of a key, whatever they will be. What the caller finds of the key afterwards
    /// is not evicted, nor is what is stored in its place.
    pub(super) fn begin(&self, fingerprint: u32) {
        self.of(fingerprint).fetch_add(1, Ordering::SeqCst);
        // With that of `has`: an eviction that does not see the count is seen.
        fence(Ordering::SeqCst);
    }

    pub(super) fn end(&self, fingerprint: u32) {
        self.of(fingerprint).fetch_sub(1, Ordering::Release);
    }

    /// Returns whether a key is kept: asked before its item is claimed for eviction.
    pub(super) fn has(&self, fingerprint: u32) -> bool {
        fence(Ordering::SeqCst);
        self.of(fingerprint).load(Ordering::Acquire) > 0
    }
}

//! State of tuning that a pool has.

use base::pin::Grace;

use crate::sizing::{SizeHistogram, Tuning};

/// The state that keeps the sizes of a pool to its items.
pub(crate) struct Tuner {
    pub(crate) tuning: Tuning,
    pub(super) seen: SizeHistogram,
    /// The time at which the pool was last looked at, in seconds.
    pub(super) looked_at: u32,
}

impl Tuner {
    pub(crate) fn new(tuning: Tuning, now: u32) -> Self {
        Self { tuning, seen: SizeHistogram::new(), looked_at: now }
    }

    /// Its memory, in bytes.
    pub(crate) fn bytes() -> u64 {
        SizeHistogram::memory_bytes() as u64
    }
}

/// A class that a pool allocates from no more.
pub(crate) struct LeavingClass {
    pub(super) number: u8,
    pub(super) chunk_bytes: u32,
    /// Of those who may have seen the table in which it was. `None`: it was in none.
    pub(super) grace: Option<Grace>,
}

//! The figures that one round of taking memory ahead leaves for the next.

use std::sync::atomic::AtomicU64;

/// The slabs and index entries at the end of the last round.
#[derive(Default)]
pub(crate) struct Touched {
    pub(super) slabs: AtomicU64,
    pub(super) entries: AtomicU64,
}

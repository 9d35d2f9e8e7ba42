//! The state of the search for room.

use std::sync::atomic::AtomicU32;

use parking_lot::Mutex;

/// The search for room: at most one thread searches at a time.
#[derive(Default)]
pub(crate) struct Room {
    /// Held by the one thread that does: several would each take what is lacking once.
    pub(super) looking: Mutex<()>,
    /// Allocations that yet do not look for it.
    pub(super) waits: AtomicU32,
}

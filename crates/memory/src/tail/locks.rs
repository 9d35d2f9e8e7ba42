//! Lock stripes and identifiers that the structures of one cache share.

use std::sync::atomic::{AtomicU64, Ordering};

use base::hash::mix64;
use base::rng::entropy_seed;
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

const STRIPES: usize = 64;

/// The locks and identifiers that all structures of a cache share.
pub struct Structures {
    stripes: Box<[CachePadded<Mutex<()>>]>,
    mark: u32,
    next_id: AtomicU64,
}

impl std::fmt::Debug for Structures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Structures").field("mark", &self.mark).finish_non_exhaustive()
    }
}

impl Structures {
    pub(crate) fn new() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            mark: (entropy_seed() as u32).max(1),
            next_id: AtomicU64::new(entropy_seed()),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val::<[CachePadded<Mutex<()>>]>(&self.stripes) as u64
    }

    /// The mark of this process on frozen items, never 0.
    #[inline]
    pub fn mark(&self) -> u32 {
        self.mark
    }

    /// Locks the stripe of a structure.
    #[inline]
    pub fn lock(&self, id: u64) -> MutexGuard<'_, ()> {
        self.stripes[(mix64(id) % STRIPES as u64) as usize].lock()
    }

    /// A new identifier, unique in the cache.
    #[inline]
    pub fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

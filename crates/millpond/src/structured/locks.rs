//! Lock stripes and identifiers that the structures of one cache share.

use std::sync::atomic::{AtomicU64, Ordering};

use base::hash::mix64;
use base::rng::entropy_seed;
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

const STRIPES: usize = 64;

/// What the structures of one cache share.
pub(crate) struct Structures {
    stripes: Box<[CachePadded<Mutex<()>>]>,
    /// The mark of this process on frozen items: never 0.
    pub(super) mark: u32,
    next_id: AtomicU64,
    /// What a test does between the copying of a structure and its taking the place of the old one.
    #[cfg(test)]
    pub(super) before_exchange: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Structures {
    pub(crate) fn new() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            mark: (entropy_seed() as u32).max(1),
            next_id: AtomicU64::new(entropy_seed()),
            #[cfg(test)]
            before_exchange: Mutex::new(None),
        }
    }

    #[cfg(test)]
    pub(super) fn pause_before_exchange(&self) {
        let pause = self.before_exchange.lock().take();
        if let Some(pause) = pause {
            pause();
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val::<[CachePadded<Mutex<()>>]>(&self.stripes) as u64
    }

    pub(super) fn lock(&self, id: u64) -> MutexGuard<'_, ()> {
        self.stripes[(mix64(id) % STRIPES as u64) as usize].lock()
    }

    pub(super) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

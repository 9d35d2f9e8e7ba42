//! Stores whose memory is part of a cache's bill without lying in its slabs: compact caches, which
//! are a room above.
//!
//! The cache knows a store as [`SharesMemory`], and holds it weakly; the store knows the cache as
//! its [`Host`].

use std::sync::{Arc, Weak};

use base::Ledger;
use base::pin::Pins;

use crate::cache::{Cache, Core};
use crate::error::Error;
use crate::stats::CompactStats;

/// A store that gives memory up where the cache has too little.
pub trait SharesMemory: Send + Sync {
    /// Memory that it takes, in bytes.
    fn bytes(&self) -> u64;

    /// Gives up some of it because the cache has none. `false`: another thread resizes it, or there
    /// is nothing to give.
    fn shrink(&self, host: Host<'_>) -> bool;

    /// What it holds, and what was done so far.
    fn stats(&self) -> CompactStats;
}

/// The cache in whose bill a store is.
#[derive(Clone, Copy)]
pub struct Host<'c>(&'c Core);

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Host").field(&self.0.ledger).finish()
    }
}

impl<'c> Host<'c> {
    /// This cache.
    #[inline]
    pub fn of(cache: &'c Cache) -> Self {
        Self(cache.core())
    }

    /// The bill.
    #[inline]
    pub fn ledger(self) -> &'c Arc<Ledger> {
        &self.0.ledger
    }

    /// What says which threads read in place.
    #[inline]
    pub fn pins(self) -> &'c Pins {
        &self.0.pins
    }

    /// Memory that queues, ghosts and index will yet take when all chunks are in use, and what is
    /// kept spare.
    pub fn metadata_to_come(self) -> u64 {
        self.0.metadata_to_come()
    }

    /// Takes memory from pools and stores until the bill is within the limit.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`] where that is not to be had.
    pub fn shrink_to_limit(self) -> Result<(), Error> {
        self.0.shrink_to_limit()
    }

    /// Whether the cache asks for large pages.
    pub fn uses_huge_pages(self) -> bool {
        self.0.huge_pages
    }

    /// Has the store asked for memory, and its statistics shown, as long as it lives.
    pub fn add(self, store: Weak<dyn SharesMemory>) {
        let mut stores = self.0.stores.lock();
        stores.retain(|store| store.strong_count() > 0);
        stores.push(store);
    }
}

impl Core {
    /// The stores that there are.
    pub(crate) fn stores(&self) -> Vec<Arc<dyn SharesMemory>> {
        self.stores.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes memory from the largest store that has some to give.
    pub(crate) fn shrink_a_store(&self) -> bool {
        let mut stores = self.stores();
        stores.sort_by_key(|store| std::cmp::Reverse(store.bytes()));
        stores.iter().any(|store| store.shrink(Host(self)))
    }
}

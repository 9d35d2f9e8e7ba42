//! Stores whose memory is charged to a cache but is not in its slabs: compact caches, which are in
//! a room above.
//!
//! The cache has weak references to its stores, as [`SharesMemory`]; a store sees the cache as its
//! [`Host`].

pub mod host;

use std::sync::Arc;

use base::Ledger;
use base::pin::Pins;

use crate::error::Error;
pub use crate::stats::CompactStats;

/// A store that gives up memory if the cache has too little.
pub trait SharesMemory: Send + Sync {
    /// Memory that it takes, in bytes.
    fn bytes(&self) -> u64;

    /// Gives up some of it. `false`: another thread is resizing the store, or it has no memory to
    /// give up.
    fn shrink(&self, host: &dyn Host) -> bool;

    /// Its content and counters at this moment.
    fn stats(&self) -> CompactStats;
}

/// The cache to which a store's memory is charged.
pub trait Host {
    /// The ledger to which memory is charged.
    fn ledger(&self) -> &Arc<Ledger>;

    /// The list of threads that read in place.
    fn pins(&self) -> &Pins;

    /// Bytes that queues, ghosts and the index will take in addition when all chunks are in use,
    /// with the reserve.
    fn metadata_to_come(&self) -> u64;

    /// Reclaims memory of pools and stores until the ledger is within its limit.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`] if they cannot give up enough.
    fn shrink_to_limit(&self) -> Result<(), Error>;

    /// Returns whether the cache asks for large pages.
    fn uses_huge_pages(&self) -> bool;
}

//! Millpond's engine: a cache to embed.
//!
//! A [`Cache`] holds items – a key and a value of bytes – in a fixed amount of memory, split into
//! *pools*. What [`Cache::find`] returns is a handle onto the item's own memory, which keeps the
//! item alive and in place.
//!
//! ```
//! use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
//! # fn main() -> Result<(), millpond::Error> {
//! let cache = Cache::maintained(CacheConfig {
//!     memory: millpond::ByteSize::mib(64),
//!     ..CacheConfig::default()
//! })?;
//! let users = cache.add_pool(PoolConfig::named("users"))?;
//!
//! cache.put_value(users, b"user:1", b"Alice", &ItemOptions::default())?;
//!
//! let found = cache.keys(users).find(b"user:1").expect("just put");
//! assert_eq!(&*found, b"Alice");
//! # Ok(())
//! # }
//! ```
//!
//! Most programs want [`typed::TypedCache`], for values of their own types by keys of any length,
//! or [`Loader`], for bytes. docs/embedding.md shows both. [`Cache::maintained`] starts a thread
//! that keeps the promises below between calls. A program that uses [`Cache::new`] must call
//! [`Cache::maintain`] about once a second.
//!
//! What the crate promises:
//! 1. Concurrent calls on a key are linearizable; eviction is a removal that may happen at any
//!    time.
//! 2. Nothing is returned once it has expired, by the kernel's coarse clock (4 ms).
//! 3. [`CacheConfig::memory`] bounds everything: items, index, queues, ghosts, and what an embedder
//!    charges to [`Cache::ledger`].
//! 4. A hit takes no lock.
//!
//! Handles may be dropped anywhere, except that a method of a [`secondary::SecondaryCache`] may not
//! drop an [`OutgoingHandle`](secondary::OutgoingHandle). User code runs without a lock, except for
//! the hooks: [`Lifecycle`] says what hooks may call. The crates re-exported here document their
//! lock orders.

#![forbid(unsafe_code)]

pub mod control;
mod load;
pub mod monitor;
pub mod typed;

#[doc(inline)]
pub use ::compact::{compact, negative};
#[doc(inline)]
pub use ::structured;
pub use load::{
    Fetched, Job, LoadError, LoadOptions, LoadStats, Loaded, Loader, OnTimeout, Origin, OwnedValue, Task,
    Value,
};
#[doc(inline)]
pub use memory::{
    AttachedPool, ByteSize, Cache, CacheConfig, CacheStats, ClassStats, Clock, Cursor, Error, ErrorKind,
    Expiry, Fence, Held, ItemOptions, ItemRef, ItemTag, Items, Keys, Ledger, Lifecycle, Link, LinkHandle,
    Links, MAX_KEY_BYTES, MAX_VALUE_BYTES, MaintenanceStatus, MaintenanceThread, OwnedHandle, Part, Piece,
    Pieces, PolicyKind, PoolConfig, PoolId, PoolRemoval, PoolStats, QueueStats, ReadHandle, ReadOnlyCache,
    Reclaimed, Recovered, RemovalCause, RemovedItem, Seen, SizeClassConfig, Snapshot, Split, SplitStats,
    Step, Tuned, ValueWriter, Walked, WeakCache, WriteHandle, secondary, sizing, strategy, watch,
};

/// The example of the README, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeExample;

//! Millpond's engine: a cache to embed.
//!
//! A [`Cache`] holds items – a key and a value of bytes – in a fixed amount of memory, split into
//! *pools*. What [`Cache::find`] returns is a handle onto the item's own memory, which keeps the
//! item alive and in place.
//!
//! ```
//! use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
//! # fn main() -> Result<(), millpond::Error> {
//! let cache = Cache::maintained(CacheConfig { memory: millpond::ByteSize::mib(64), ..CacheConfig::default() })?;
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
//! or [`Loader`], for bytes. docs/embedding.md shows both. [`Cache::maintained`] starts the thread
//! that keeps the promises below while nobody calls; who uses [`Cache::new`] calls
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
//! Locks, in the order in which they may be taken: a stripe of the structured items, with none of
//! the others below it; the names of pools, what is watched, the optimizer, a pool's `resizing`, a
//! magazine, a class's `inner`; a magazine, an index bucket, a class's `inner`; then that of a
//! chain; a magazine, a pass over a class's stock, its lists, and with those nothing else; under
//! any of the others, the event buffer or a pool's hot keys. None is held while user code runs, but
//! for [`Lifecycle::may_evict`], and handles may be dropped anywhere.

mod allocate;
mod attach;
mod cache;
mod cells;
mod chain;
mod class;
pub mod compact;
mod config;
mod error;
mod find;
mod handle;
mod idle;
mod insert;
mod iterate;
mod keyspace;
mod large;
mod life;
mod load;
mod magazine;
mod maintenance;
pub mod monitor;
pub mod negative;
mod owned;
mod pick;
mod plant;
mod policy;
mod pool;
mod pools;
mod reap;
mod rebalance;
mod recover;
mod release;
mod relocate;
mod remove;
mod resize;
mod room;
mod share;
mod sizes;
mod slot;
mod stats;
#[doc(hidden)]
pub mod stores;
pub mod structured;
#[doc(hidden)]
pub mod tail;
mod touch;
mod tune;
pub mod typed;
mod upkeep;
mod vacant;
pub mod watch;
mod wheel;

pub use ::rebalance::{sizing, strategy};
#[doc(hidden)]
pub use allocate::check_place;
pub use attach::{AttachedPool, ReadOnlyCache, Seen, Snapshot, Walked};
pub use base::{ByteSize, Clock, Ledger, Part};
pub use cache::Cache;
pub use chain::{Link, LinkHandle, Links};
pub use config::{CacheConfig, Expiry, ItemOptions, ItemTag, PoolConfig, SizeClassConfig};
pub use error::{Error, ErrorKind};
pub use evict::PolicyKind;
pub use find::Keys;
pub use handle::{Found, ReadHandle, WriteHandle};
pub use iterate::{Held, Items, Place, Step};
pub use large::{MAX_VALUE_BYTES, Piece, Pieces, ValueWriter};
pub use life::{Departed, Lifecycle, RemovalCause};
pub use load::{
    Fetched, Job, LoadError, LoadOptions, LoadStats, Loaded, Loader, OnTimeout, Origin, OwnedValue, Task,
    Value,
};
pub use maintenance::{MaintenanceStatus, MaintenanceThread};
pub use owned::OwnedHandle;
pub use pools::PoolId;
pub use recover::Recovered;
pub use remove::PoolRemoval;
pub use share::Reclaimed;
pub use stats::{CacheStats, ClassStats, PoolStats, QueueStats};
pub use tune::Tuned;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = slab::item::MAX_KEY_BYTES;

/// The example of the README, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeExample;

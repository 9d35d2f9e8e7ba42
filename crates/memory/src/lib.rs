//! The cache in memory: pools, size classes, find, insert, chains, relocation, rebalancing,
//! recovery, statistics and observers. Applications use it through `millpond`, whose documentation
//! has its promises.
//!
//! Hidden modules are for the other rooms of the engine:
//!
//! - [`tail`] and [`cells`]: words that change in place, in an item's tail;
//! - [`stores`]: memory that is charged to a cache but is not in slabs;
//! - [`fence`]: tables of fences, for other stores than the cache itself;
//! - [`secondary`]: what a cache beneath memory is to do, and items that are brought from there.
//!
//! Lock order: a thread that holds a lock takes only locks to its right.
//!
//! - stripe of the structured items → index bucket;
//! - names of pools → what is watched → optimizer → a pool's `searching` → its `resizing` →
//!   magazine → a class's `inner` → chain;
//! - magazine → index bucket → a class's `inner` → chain;
//! - magazine → a retire list's `passing` → its `lists` → nothing else;
//! - any other lock → event buffer, hot keys of a pool, or one shard of the fences.
//!
//! Locks that may be held while user code runs:
//!
//! | user code | locks |
//! |---|---|
//! | [`Lifecycle::may_evict`] | a class's `inner`, an index bucket |
//! | `admit`, `erase` and `may_have` of [`secondary::SecondaryCache`] | an index bucket |
//! | `insert` of it, and the other methods of [`Lifecycle`] | a pool's `searching`, `resizing` and tuner, the lock of the search for room |
//!
//! Handles may be dropped anywhere, except that a method of a [`secondary::SecondaryCache`] may not
//! drop an [`OutgoingHandle`](secondary::OutgoingHandle).

mod allocate;
mod attach;
mod cache;
#[doc(hidden)]
pub mod cells;
mod chain;
mod class;
mod cliffs;
mod config;
mod error;
#[doc(hidden)]
pub mod fence;
mod find;
mod flushed;
mod handle;
mod idle;
mod insert;
mod iterate;
mod keyspace;
mod large;
mod lifecycle;
mod long_lock;
mod magazine;
mod maintenance;
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
#[doc(hidden)]
pub mod secondary;
mod share;
mod sizes;
mod slot;
mod split;
mod stats;
#[doc(hidden)]
pub mod stores;
#[doc(hidden)]
pub mod tail;
mod touch;
mod tune;
mod upkeep;
mod vacant;
pub mod watch;
mod wheel;

pub use ::rebalance::{sizing, strategy};
#[doc(hidden)]
pub use allocate::check_place;
pub use attach::{AttachedPool, ReadOnlyCache, Seen, Snapshot, Walked};
pub use base::{ByteSize, Clock, Ledger, Part};
pub use cache::{Cache, WeakCache};
pub use chain::{Link, LinkHandle, Links};
pub use config::{CacheConfig, Expiry, ItemOptions, ItemTag, PoolConfig, SizeClassConfig};
pub use error::{Error, ErrorKind};
pub use evict::PolicyKind;
pub use evict::split::Split;
pub use find::Keys;
pub use find::fence::Fence;
pub use handle::{ItemRef, ReadHandle, WriteHandle};
pub use iterate::{Cursor, Held, Items, Step};
pub use large::{MAX_VALUE_BYTES, Piece, Pieces, ValueWriter};
pub use lifecycle::{Lifecycle, RemovalCause, RemovedItem};
pub use maintenance::{MaintenanceStatus, MaintenanceThread};
pub use owned::OwnedHandle;
pub use pools::PoolId;
pub use recover::Recovered;
pub use remove::PoolRemoval;
pub use share::Reclaimed;
pub use split::SplitStats;
pub use stats::{CacheStats, ClassStats, PoolStats, QueueStats};
pub use tune::Tuned;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = slab::item::MAX_KEY_BYTES;

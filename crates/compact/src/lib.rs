//! Caches of plain data beside that of items, charged to the same ledger.
//!
//! - [`compact`]: keys and values of fixed size, without an item for each entry;
//! - [`negative`]: keys known to be absent, as fingerprints in a compact cache.
//!
//! They see the cache through `memory::stores`, and the cache reclaims their memory if it has too
//! little. Locks, in the order in which they may be taken: a store's `resizer`, under which the
//! cache is asked for memory and takes its own; a bucket; the bucket to which entries are moved. No
//! code of the caller runs under a lock.

pub mod compact;
pub mod negative;

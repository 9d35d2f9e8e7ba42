//! Items with a tail of words, for rooms above: allocation, access and locks.
//!
//! A thread that writes to published words holds a reference to the item, and the lock of its
//! stripe.

mod locks;

use std::sync::atomic::AtomicU32;

pub use locks::Structures;

use crate::allocate::Body;
use crate::cache::Cache;
use crate::config::ItemOptions;
use crate::error::Error;
use crate::find::Keys;
use crate::handle::{ItemRef, ReadHandle, WriteHandle};
use crate::pools::PoolId;

/// A handle of an item, which may have a tail.
pub trait Tailed {
    /// The words of the tail. `None`: the item has none.
    fn tail(&self) -> Option<&[AtomicU32]>;
}

impl Tailed for ItemRef<'_> {
    #[inline]
    fn tail(&self) -> Option<&[AtomicU32]> {
        self.words()
    }
}

impl Tailed for ReadHandle<'_> {
    #[inline]
    fn tail(&self) -> Option<&[AtomicU32]> {
        self.words()
    }
}

impl Tailed for WriteHandle<'_> {
    #[inline]
    fn tail(&self) -> Option<&[AtomicU32]> {
        self.words()
    }
}

/// Allocates an item with a tail of at least `bytes` bytes, which the caller initialises.
///
/// # Errors
/// As for [`Cache::allocate`].
#[inline]
pub fn make<'c>(
    cache: &'c Cache,
    pool: PoolId,
    key: &[u8],
    bytes: usize,
    options: &ItemOptions,
) -> Result<WriteHandle<'c>, Error> {
    cache.core().make_item(pool, key, Body::Tail(bytes), options)
}

/// The largest tail of an item of the pool with a key of `key_len` bytes, in bytes.
///
/// # Errors
/// [`crate::ErrorKind::NoSuchPool`].
pub fn largest(cache: &Cache, pool: PoolId, key_len: usize) -> Result<usize, Error> {
    cache.core().largest_tail(pool, key_len)
}

/// The locks and identifiers of the cache's structures.
#[inline]
pub fn structures(cache: &Cache) -> &Structures {
    &cache.core().structures
}

/// Returns whether the item belongs to this cache.
#[inline]
pub fn is_of(item: &ReadHandle<'_>, cache: &Cache) -> bool {
    item.is_of(cache.core())
}

/// Returns whether the item still is that of its key: what precedes a look at an item whose stripe
/// the caller has locked, as [`begin_change`] precedes a change.
pub fn is_current(item: &ReadHandle<'_>, _: &Cache) -> bool {
    item.is_current()
}

/// Begins to change an item in place, whose stripe the caller has locked. `false`: it is not the
/// item of its key any more.
pub fn begin_change(item: &ReadHandle<'_>, cache: &Cache) -> bool {
    cache.core().begin_change(item)
}

/// Records that the item of a key of this pool was changed in place, for readers of changes.
#[inline]
pub fn note_change(keys: Keys<'_>, pool: PoolId, key: &[u8]) {
    keys.note_change(pool, key);
}

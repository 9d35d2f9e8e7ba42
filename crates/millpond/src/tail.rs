//! What rooms above need to keep words in an item's tail: to make such an item, to reach its words,
//! and to lock them.
//!
//! Whoever writes to words that others may see holds a reference to the item, and their stripe.

mod locks;

use std::sync::atomic::AtomicU32;

pub use locks::Structures;

use crate::allocate::Body;
use crate::cache::Cache;
use crate::config::ItemOptions;
use crate::error::Error;
use crate::find::Keys;
use crate::handle::{Found, ReadHandle, WriteHandle};
use crate::pools::PoolId;

/// What may be an item with a tail.
pub trait Tailed {
    /// The words of the tail. `None`: the item has none.
    fn tail(&self) -> Option<&[AtomicU32]>;
}

impl Tailed for Found<'_> {
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

/// Makes an item with a tail of at least `bytes`, which the caller lays out.
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

/// The longest tail that an item of the pool with a key of such a length may have, in bytes.
///
/// # Errors
/// [`crate::ErrorKind::NoSuchPool`].
pub fn largest(cache: &Cache, pool: PoolId, key_len: usize) -> Result<usize, Error> {
    cache.core().largest_tail(pool, key_len)
}

/// The locks and identifiers of all that lies in tails of the cache's items.
#[inline]
pub fn structures(cache: &Cache) -> &Structures {
    &cache.core().structures
}

/// Whether the item lies in this cache.
#[inline]
pub fn is_of(item: &ReadHandle<'_>, cache: &Cache) -> bool {
    item.is_of(cache.core())
}

/// Notes that the item of a key, of this pool, was changed in place.
#[inline]
pub fn note_change(keys: Keys<'_>, pool: PoolId, key: &[u8]) {
    keys.note_change(pool, key);
}

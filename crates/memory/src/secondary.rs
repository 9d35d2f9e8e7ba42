//! A cache beneath memory: evicted items go there, and are brought back when they are asked for.
//!
//! Memory and the cache beneath share out the keys: what memory has, the cache beneath has not. An
//! eviction hands the item down ([`SecondaryCache::admit`], [`SecondaryCache::insert`]); a write of
//! the key takes what is beneath away ([`SecondaryCache::erase`]); [`crate::Keys::bring`] has it
//! fetched, and memory takes it back if nobody wrote the key meanwhile ([`Request::hit`]).
//!
//! Invariants:
//! 1. A key moves between memory and the secondary cache only under the lock of the key's bucket.
//!    The slot of an evicted item is cleared in the critical section in which the secondary cache
//!    admits the key; a write erases the key there in the one in which the write becomes visible.
//!    So a thread that holds the lock and finds no slot of the key needs to ask only
//!    [`SecondaryCache::may_have`].
//! 2. A value that is beneath is never older than the last write of its key: it is erased by that
//!    write, or refused by the fence of its [`Request`], which was made before it was fetched.
//! 3. A brought item is held until those who waited for it have let go of it ([`Pending`]), so that
//!    it is not evicted again before they have seen it.
//! 4. While a key is retained ([`RetainedKey`]), no item of it is claimed for eviction: neither the
//!    present one nor any that takes its place. So what an operation finds in memory is all that
//!    there is. Exception: if an insertion into the index finds no free slot, the item that is
//!    displaced is lost, even if its key is retained; the cache beneath is not offered it.
//! 5. A request that misses proves that the key has no item, as long as its fence holds: nobody had
//!    given the request up, it was the only one of the key, and it began when memory had no item of
//!    the key, after the fence was made. If the fence is void, the miss proves nothing, and those
//!    who waited ask again.

mod bring;
mod image;
mod keeps;
mod outgoing;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use base::Part;
use parking_lot::Mutex;

pub use bring::{Brought, Pending, Request, RetainedKey};
pub use image::ItemImage;
pub use outgoing::{DemotedItem, OutgoingHandle};

use crate::cache::{Cache, Core};
use crate::config::CacheConfig;
use crate::error::Error;
pub use crate::lifecycle::SecondaryKey;
use crate::lifecycle::{LowerTier, RemovedItem};
use bring::Flights;
use keeps::RetainedKeys;
use outgoing::Outgoing;

/// A cache beneath memory ([`Cache::over`]): on flash, on another machine, or
/// wherever it likes.
///
/// Methods that say so are called with a lock of the engine held: they must return at once, and
/// must not use the cache. Calls for the same key under that lock come one after the other.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
/// use millpond::secondary::{DemotedItem, ItemImage, Request, SecondaryCache, SecondaryKey};
/// use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
///
/// /// Keeps all that is evicted, in a map. One on flash would take its time in `fetch`.
/// #[derive(Default)]
/// struct Map(Mutex<(u64, HashMap<(u16, Vec<u8>), (u64, Option<ItemImage>)>)>);
/// impl SecondaryCache for Map {
///     fn admit(&self, key: SecondaryKey<'_>) -> Option<u64> {
///         let (tickets, items) = &mut *self.0.lock().unwrap();
///         *tickets += 1;
///         items.insert((key.space, key.bytes.to_vec()), (*tickets, None));
///         Some(*tickets)
///     }
///     fn insert(&self, key: SecondaryKey<'_>, ticket: u64, item: DemotedItem<'_>) {
///         // Unless the key was written since.
///         let (_, items) = &mut *self.0.lock().unwrap();
///         if let Some(place) = items.get_mut(&(key.space, key.bytes.to_vec()))
///             && place.0 == ticket
///         {
///             place.1 = item.image();
///         }
///     }
///     fn erase(&self, key: SecondaryKey<'_>) {
///         self.0.lock().unwrap().1.remove(&(key.space, key.bytes.to_vec()));
///     }
///     fn may_have(&self, key: SecondaryKey<'_>) -> bool {
///         self.0.lock().unwrap().1.contains_key(&(key.space, key.bytes.to_vec()))
///     }
///     fn fetch(&self, request: Request) {
///         let key = request.key();
///         let found = self.0.lock().unwrap().1.get(&(key.space, key.bytes.to_vec())).cloned();
///         if let Some((_, Some(image))) = found {
///             request.hit(&image);
///         }
///     }
/// }
/// # fn main() -> Result<(), millpond::Error> {
/// let cache = Cache::over(CacheConfig::default(), Arc::new(Map::default()))?;
/// let pool = cache.add_pool(PoolConfig::named("users"))?;
/// cache.put_value(pool, b"user:1", b"Alice", &ItemOptions::default())?;
/// assert!(cache.keys(pool).evict(b"user:1") && cache.find(b"user:1").is_none());
/// let kept = cache.keys(pool).bring_blocking(b"user:1");
/// assert_eq!(kept.item().map(|item| item.value()), Some(&b"Alice"[..]));
/// assert!(cache.find(b"user:1").is_some());
/// # Ok(())
/// # }
/// ```
pub trait SecondaryCache: Send + Sync {
    /// Returns a ticket if the cache accepts the item of this key, which is about to be evicted.
    /// From then on [`Self::may_have`] must return true for the key; [`Self::insert`] follows with
    /// the ticket. Called with a lock of the engine held.
    fn admit(&self, key: SecondaryKey<'_>) -> Option<u64>;

    /// Stores an item that was admitted with this ticket, unless the key was admitted again or
    /// erased since. May be called while the engine takes memory from one class for another: must
    /// not use the cache, answer requests, drop an [`OutgoingHandle`] or wait.
    fn insert(&self, key: SecondaryKey<'_>, ticket: u64, item: DemotedItem<'_>);

    /// Erases a key that was written, including an admission whose item has not arrived yet. Called
    /// for each write, even of a key that was never admitted, with a lock of the engine held. Must
    /// not drop a [`Request`] or an [`OutgoingHandle`]. If it panics, the write is finished all the
    /// same, and [`Self::may_have`] must return `false` for the key, or the old value comes back.
    fn erase(&self, key: SecondaryKey<'_>);

    /// Returns whether it may have a key; `false` must be certain. Called with a lock of the engine
    /// held.
    fn may_have(&self, key: SecondaryKey<'_>) -> bool;

    /// Fetches an item and answers the request, now or later, on any thread. A request that is
    /// dropped is a miss. There is one request for a key, however many callers wait for it; one
    /// that all have given up may still be under way when the next begins. If the key was admitted
    /// and [`Self::insert`] has not come yet, the answer is to be given after that. A request keeps
    /// the cache in use.
    fn fetch(&self, request: Request);

    /// Returns the longest time that a caller is to wait for an item. After that the caller takes
    /// the key for absent, as if the item had been lost when it was evicted
    /// ([`Pending::give_up`]).
    fn fetch_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }
}

impl std::fmt::Debug for dyn SecondaryCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecondaryCache")
    }
}

/// The cache beneath, and what is on its way from there.
struct Secondary {
    cache: Arc<dyn SecondaryCache>,
    flights: Mutex<Flights>,
    keeps: RetainedKeys,
    outgoing: Outgoing,
}

impl LowerTier for Secondary {
    fn erase(&self, key: SecondaryKey<'_>) {
        self.cache.erase(key);
    }

    fn admit(&self, key: SecondaryKey<'_>) -> Option<u64> {
        self.cache.admit(key)
    }

    fn insert(&self, key: SecondaryKey<'_>, ticket: u64, item: RemovedItem<'_>) {
        self.cache.insert(key, ticket, DemotedItem::new(item, &self.outgoing));
    }

    fn keeps(&self, fingerprint: u32) -> bool {
        self.keeps.has(fingerprint)
    }
}

impl Secondary {
    /// The one that is beneath a cache.
    fn of(core: &Core) -> Option<&Self> {
        let beneath: &dyn Any = &**core.lower_tier.get()?;
        beneath.downcast_ref()
    }
}

impl Cache {
    /// A cache without pools over another cache, which takes its evicted items and gives them back:
    /// see [`SecondaryCache`].
    ///
    /// # Errors
    /// As [`Cache::new`].
    #[doc(hidden)]
    pub fn over(config: CacheConfig, secondary: Arc<dyn SecondaryCache>) -> Result<Self, Error> {
        let cache = Self::new(config)?;
        let core = cache.core();
        core.ledger.charge(Part::Fixed, RetainedKeys::BYTES + Outgoing::BYTES);
        let beneath = Secondary {
            cache: secondary,
            flights: Mutex::default(),
            keeps: RetainedKeys::default(),
            outgoing: Outgoing::default(),
        };
        // Nobody else has the cache yet.
        let _ = core.lower_tier.set(Arc::new(beneath));
        Ok(cache)
    }

    /// Returns the longest time that a caller is to wait for an item from beneath, zero if there is
    /// nothing beneath.
    #[doc(hidden)]
    pub fn fetch_timeout(&self) -> Duration {
        Secondary::of(self.core()).map_or(Duration::ZERO, |secondary| secondary.cache.fetch_timeout())
    }

    /// Returns whether there is a cache beneath memory ([`Cache::over`]).
    #[inline]
    #[doc(hidden)]
    pub fn has_secondary(&self) -> bool {
        self.core().lower_tier.get().is_some()
    }
}

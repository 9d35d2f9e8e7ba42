//! Read-through loading: a cache in front of a database, a service, or a computation.
//!
//! A [`Loader`] answers from the cache. If the cache has nothing fresh, it runs the caller's *load
//! function*: once per key, however many callers ask at the same time (*single flight*). In
//! addition, stale values are returned at once while one caller reloads them; waiting for another
//! caller's loader is limited in time; a loader's error, panic or cancelled future wakes all
//! waiting callers; and the absence of a value can be cached too.
//!
//! ```
//! use millpond::{Cache, CacheConfig, LoadOptions, Loaded, Loader, PoolConfig};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = Cache::new(CacheConfig::default())?;
//! let users = Loader::new(&cache, cache.add_pool(PoolConfig::named("users"))?);
//! let options = LoadOptions {
//!     fresh_secs: Some(60),
//!     stale_secs: 30,
//!     negative_secs: 5,
//!     ..LoadOptions::default()
//! };
//!
//! let read_from_database = |_key: &[u8]| Ok::<_, std::io::Error>(Loaded::value("Alice"));
//! let user = users.get_or_load(b"user:1", &options, read_from_database)?;
//! assert_eq!(user.value.as_deref(), Some(&b"Alice"[..]));
//!
//! // Code that changes the database removes the key through the loader: a load that began before
//! // stores nothing.
//! users.remove(b"user:1");
//! # Ok(())
//! # }
//! ```
//!
//! What must hold:
//! 1. A fresh hit takes no lock: it is one [`crate::Keys::find`].
//! 2. A loaded value is stored under a [`crate::Fence`] that was made before the load function ran.
//!    If anyone writes, removes or flushes the key in the meantime, whether or not it had an item,
//!    the value is not stored. So it never replaces a newer value, nor undoes a removal or a flush.
//! 3. No lock is held while a loader runs.

mod asynchronous;
mod flight;
mod owned;
mod store;
mod turn;
mod value;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use base::counter::Counters;

pub use asynchronous::Task;
use compact::negative::NegativeCache;
use flight::Flights;
use memory::Cache;
use memory::PoolId;
pub use owned::OwnedValue;
use store::Found;
use turn::{Held, Turn};
pub use value::{Fetched, LoadError, LoadOptions, LoadStats, Loaded, OnTimeout, Origin, Value};

/// Counters of a loader.
const LOADS: usize = 0;
const FAILURES: usize = 1;
const JOINED: usize = 2;
const STALE: usize = 3;
const FALLBACKS: usize = 4;
const TIMEOUTS: usize = 5;
const OVERTAKEN: usize = 6;
const REFUSED: usize = 7;

/// The user bit that marks an item which says that there is no value.
const ABSENT_MARK: u8 = 0b10;

/// A cache in front of something slower. Cloning is cheap and shares the flights.
///
/// All loaders of the same keys should be clones of one: two know nothing of each other's flights,
/// and load a key twice.
#[derive(Clone)]
pub struct Loader {
    inner: Arc<Inner>,
}

struct Inner {
    cache: Cache,
    pool: PoolId,
    absent_mark: u8,
    /// The cache of keys that have no value, in the place of marked items.
    negative: Option<NegativeCache>,
    flights: Arc<Flights>,
    counters: Counters<8>,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("pool", &self.inner.pool).field("stats", &self.stats()).finish()
    }
}

/// A job that reloads a stale value, to be run on another thread.
pub type Job = Box<dyn FnOnce() + Send + 'static>;

impl Loader {
    /// A loader of keys that are in this pool, or go there.
    ///
    /// The second user bit of an item (`0b10`) marks one that says that there is no value; its own
    /// value is empty.
    pub fn new(cache: &Cache, pool: PoolId) -> Self {
        Self::with_absent_mark(cache, pool, ABSENT_MARK)
    }

    /// The same with other user bits for the mark, where the application uses the second one
    /// itself.
    pub fn with_absent_mark(cache: &Cache, pool: PoolId, bits: u8) -> Self {
        Self::made(cache, pool, bits, None)
    }

    /// Creates a loader that records absent keys in a negative cache rather than as items, and
    /// consults it if the cache has no item. The loader voids the negative entry of each key that
    /// it stores or removes. Code that inserts into the backend calls [`Self::remove`] or
    /// [`Self::put`]: after [`NegativeCache::void`] alone, a later caller may still join a load
    /// that found nothing before.
    pub fn with_negative_cache(cache: &Cache, pool: PoolId, negative: &NegativeCache) -> Self {
        Self::made(cache, pool, ABSENT_MARK, Some(negative.clone()))
    }

    fn made(cache: &Cache, pool: PoolId, bits: u8, negative: Option<NegativeCache>) -> Self {
        let inner = Inner {
            cache: cache.clone(),
            pool,
            absent_mark: bits,
            negative,
            flights: Arc::new(Flights::new(base::rng::entropy_seed())),
            counters: Counters::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The value of `key`: from the cache, from another caller's loader, or from `load`, which is
    /// run at most once, on the calling thread.
    ///
    /// If the cache has a stale value, one caller reloads it and waits for the result; all others
    /// get the stale value at once. With [`Self::get_or_spawn`] no caller waits for a reload.
    ///
    /// # Errors
    /// - [`LoadError::Failed`] if the loader, this caller's or the one waited for, returned an
    ///   error;
    /// - [`LoadError::Panicked`] or [`LoadError::TimedOut`] if another caller's loader panicked, or
    ///   ran longer than this caller waits;
    /// - [`LoadError::Failed`] before any load, with [`crate::ErrorKind::KeyLength`] for an invalid
    ///   key and [`crate::ErrorKind::NoSuchPool`] if the pool was removed.
    ///
    /// A stale value or a fallback is returned instead of the errors of a load. A value for which
    /// the cache has no room is returned, but not stored.
    ///
    /// # Panics
    /// If `load` panics. Callers that wait for it get [`LoadError::Panicked`], and this loader
    /// remains usable.
    #[inline]
    pub fn get_or_load<E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        key: &[u8],
        options: &LoadOptions,
        load: impl FnOnce(&[u8]) -> Result<Loaded, E>,
    ) -> Result<Fetched<'_>, LoadError> {
        let found = match self.look_up(key, options) {
            Found::Fresh(fetched) => return Ok(fetched),
            found => found,
        };
        match self.turn(key, options, found)? {
            Turn::Answer(fetched) => Ok(fetched),
            Turn::Lead(claim, fallback) => self.lead(claim, options, fallback, load),
        }
    }

    /// As [`Self::get_or_load`], but a stale value is returned at once to everybody: loading it
    /// anew is a job that is handed to `spawn`, to be run on a thread of the caller's. A job that
    /// is dropped instead leaves the work to the next caller. Where there is no value at all,
    /// `load` runs on the calling thread.
    ///
    /// # Errors
    /// As for [`Self::get_or_load`].
    ///
    /// # Panics
    /// As for [`Self::get_or_load`].
    pub fn get_or_spawn<E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        key: &[u8],
        options: &LoadOptions,
        spawn: impl FnOnce(Job),
        load: impl FnOnce(&[u8]) -> Result<Loaded, E> + Send + 'static,
    ) -> Result<Fetched<'_>, LoadError> {
        let found = match self.look_up(key, options) {
            Found::Fresh(fetched) => return Ok(fetched),
            found => found,
        };
        match self.turn(key, options, found)? {
            Turn::Answer(fetched) => Ok(fetched),
            Turn::Lead(claim, Some(Held { handle, is_stale: true })) => {
                let (loader, options) = (self.clone(), *options);
                spawn(Box::new(move || {
                    // No caller is there to handle an error; it is counted, and reported to those
                    // who joined.
                    let _ = loader.lead(claim, &options, None, load);
                }));
                self.count(STALE);
                Ok(Fetched { value: Some(Value::Item(handle)), origin: Origin::Stale })
            }
            Turn::Lead(claim, fallback) => self.lead(claim, options, fallback, load),
        }
    }

    /// The value of `key` if the cache has one that is fresh or stale; loads nothing.
    /// [`Fetched::value`] is `None` where it is known that there is none.
    pub fn find(&self, key: &[u8], options: &LoadOptions) -> Option<Fetched<'_>> {
        match self.look_up(key, options) {
            Found::Fresh(fetched) => Some(fetched),
            Found::Stale(handle) => Some(Fetched { value: Some(Value::Item(handle)), origin: Origin::Stale }),
            Found::Fallback(_) | Found::Nothing => None,
        }
    }

    /// Removes `key`, after the backend has changed it. A load in progress gives its value to the
    /// callers that wait for it and does not store it; later callers start a new load. Returns
    /// whether the cache had an item, or knew that there is no value.
    ///
    /// [`crate::Keys::remove`] does the same, but leaves what a negative cache knows.
    pub fn remove(&self, key: &[u8]) -> bool {
        let was_absent = self.void_negative(key);
        self.inner.cache.keys(self.inner.pool).remove(key) || was_absent
    }

    /// Removes all keys of the pool's key space, as [`crate::Keys::flush`] does, and sees to it
    /// that nothing is stored whose load has begun before.
    pub fn flush(&self) {
        if let Some(negative) = &self.inner.negative {
            negative.void_all();
        }
        self.inner.cache.keys(self.inner.pool).flush();
    }

    /// Stores a value that the caller has at hand, as if it had been loaded now; what was being
    /// loaded meanwhile is not stored over it.
    ///
    /// # Errors
    /// As for [`Cache::allocate`]; then the key is removed, so that no older value stays.
    pub fn put(&self, key: &[u8], options: &LoadOptions, loaded: &Loaded) -> Result<(), crate::Error> {
        if let (None, Some(negative)) = (&loaded.value, &self.inner.negative) {
            // The ticket is taken before the removal, so that a later put of a value voids it.
            let ticket = negative.begin(key);
            self.inner.cache.keys(self.inner.pool).remove(key);
            self.note_absent(ticket, options, loaded);
            return Ok(());
        }
        let item = match self.make_item(key, options, loaded) {
            Ok(Some(item)) => item,
            Ok(None) => {
                self.remove(key);
                return Ok(());
            }
            Err(error) => {
                self.remove(key);
                return Err(error);
            }
        };
        self.inner.cache.put(item);
        self.void_negative(key);
        Ok(())
    }

    /// The cache that values are kept in.
    pub fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    /// Returns what was done so far, and what is under way.
    pub fn stats(&self) -> LoadStats {
        let count = |counter| self.inner.counters.sum(counter);
        LoadStats {
            loads: count(LOADS),
            failures: count(FAILURES),
            joined: count(JOINED),
            stale: count(STALE),
            fallbacks: count(FALLBACKS),
            timeouts: count(TIMEOUTS),
            overtaken: count(OVERTAKEN),
            refused: count(REFUSED),
            flights: self.inner.flights.len() as u64,
            waiting: self.inner.flights.waiting(),
        }
    }

    fn count(&self, counter: usize) {
        self.inner.counters.add(counter, 1);
    }
}

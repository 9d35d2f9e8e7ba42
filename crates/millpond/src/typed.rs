//! A cache of values of any type by keys of any type and length.
//!
//! ```
//! use std::time::Duration;
//! use millpond::typed::TypedCache;
//! use millpond::{Cache, CacheConfig, PoolConfig};
//!
//! #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
//! struct User {
//!     name: String,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = Cache::maintained(CacheConfig::default())?;
//! let pool = cache.add_pool(PoolConfig::named("users"))?;
//! let users: TypedCache<u64, User> =
//!     TypedCache::new(&cache, pool).with_ttl(Duration::from_millis(1_500));
//!
//! users.insert(&1, &User { name: "Alice".to_owned() })?;
//! assert_eq!(users.get(&1).map(|user| user.name).as_deref(), Some("Alice"));
//!
//! // Where there is none, one caller loads it, however many ask.
//! let read_from_database = || Ok::<_, std::io::Error>(User { name: "Bob".to_owned() });
//! assert_eq!(users.get_or_load(&2, read_from_database)?.name, "Bob");
//! # Ok(())
//! # }
//! ```
//!
//! It is a layer over [`crate::Loader`]: single flight, and leases that keep a load which is
//! overtaken by a write from storing what it read. Each `get` decodes the value; to look at bytes
//! in place, use [`crate::Keys::find_with`].
//!
//! The item's value, all numbers little-endian: a byte of flags; with flag 1 the Unix millisecond
//! (u64) from which on the value has expired; with flag 2, a length (u32) and that much of the key;
//! then what the codec wrote.

mod codec;
mod key;

use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, pending};
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::load::{Fetched, LoadError, LoadOptions, LoadStats, Loaded, Loader, Value};
#[cfg(feature = "postcard")]
pub use codec::Postcard;
pub use codec::{Codec, CodecError, Plain};
pub use key::Key;
use key::Place;
use memory::Cache;
use memory::PoolId;
use memory::{Error, ErrorKind};

const HAS_DEADLINE: u8 = 1;
const HAS_KEY: u8 = 2;
/// Number of times that a value that turns out to be of no use is cleared away and loaded anew,
/// before the caller's own is returned without being stored.
const ATTEMPTS: u32 = 2;

#[cfg(feature = "postcard")]
type DefaultCodec = Postcard;
#[cfg(not(feature = "postcard"))]
type DefaultCodec = Plain;

/// Values of type `V` by keys of type `K`, in a pool. Cloning is cheap and shares the flights; all
/// writers of a pool's keys should be clones of one. `K` may be unsized, as in
/// `TypedCache<str, User>`.
pub struct TypedCache<K: ?Sized, V, C = DefaultCodec> {
    loader: Loader,
    pool: PoolId,
    codec: C,
    ttl: Option<Duration>,
    types: PhantomData<fn(&K) -> V>,
}

/// The reason that the bytes of an item are not a value for a caller.
enum Useless {
    /// Of a key with the same hash.
    Foreign,
    /// It has expired, or cannot be decoded.
    Spoilt,
}

#[cfg(feature = "postcard")]
impl<K: Key + ?Sized, V: serde::Serialize + serde::de::DeserializeOwned> TypedCache<K, V> {
    /// A cache of values that are kept in the pool by [`Postcard`], and do not expire.
    pub fn new(cache: &Cache, pool: PoolId) -> Self {
        Self::with_codec(cache, pool, Postcard)
    }
}

impl<K: Key + ?Sized, V, C: Codec<V>> TypedCache<K, V, C> {
    /// A cache of values that are kept in the pool as `codec` writes them, and do not expire.
    pub fn with_codec(cache: &Cache, pool: PoolId, codec: C) -> Self {
        Self { loader: Loader::new(cache, pool), pool, codec, ttl: None, types: PhantomData }
    }

    /// The same with values that expire this long after they were stored, to the millisecond. 0:
    /// none is kept.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// The value of `key`.
    pub fn get(&self, key: &K) -> Option<V> {
        let bytes = key.bytes();
        let place = Place::of(bytes.as_ref());
        let fetched = self.loader.find(place.key(), &self.options(None))?;
        self.take(&place, fetched)
    }

    /// Stores a value, in the place of what the key has. What is being loaded meanwhile is not
    /// stored over it.
    ///
    /// # Errors
    /// [`ErrorKind::WrongType`] if the codec refuses the value; otherwise as [`Cache::allocate`].
    /// Then the key has no value.
    pub fn insert(&self, key: &K, value: &V) -> Result<(), Error> {
        self.store(key, value, self.ttl)
    }

    /// The same with a time to live of its own.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_for(&self, key: &K, value: &V, ttl: Duration) -> Result<(), Error> {
        self.store(key, value, Some(ttl))
    }

    fn store(&self, key: &K, value: &V, ttl: Option<Duration>) -> Result<(), Error> {
        let bytes = key.bytes();
        let place = Place::of(bytes.as_ref());
        let packed = self.pack(&place, value, ttl).map_err(|error| {
            // No older value stays.
            self.loader.remove(place.key());
            Error::with_source(ErrorKind::WrongType, "the value cannot be encoded", error)
        })?;
        self.loader.put(place.key(), &self.options(ttl), &Loaded::value(packed))
    }

    /// Removes the value of `key`. `false`: there was none. What is being loaded meanwhile is not
    /// stored.
    pub fn remove(&self, key: &K) -> bool {
        self.loader.remove(Place::of(key.bytes().as_ref()).key())
    }

    /// Removes all values, and all else that is in the key space of the pool.
    pub fn clear(&self) {
        self.loader.flush();
    }

    /// The value of `key`, or what `load` returns, which is then stored. Of those who ask for a key
    /// at the same time one runs its `load`, and the others wait for it and get the same value.
    ///
    /// # Errors
    /// [`LoadError::Failed`] if `load` failed, this caller's or the one that was waited for, or if
    /// the codec refused the value; [`LoadError::Panicked`] if another caller's panicked.
    pub fn get_or_load<E: Into<CodecError>>(
        &self,
        key: &K,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, LoadError> {
        let bytes = key.bytes();
        let place = Place::of(bytes.as_ref());
        let options = self.options(self.ttl);
        let (mut load, mut own) = (Some(load), None);
        for _ in 0..ATTEMPTS {
            let fetched = self.loader.get_or_load(place.key(), &options, |_| match load.take() {
                Some(load) => self.loaded(&place, load().map_err(Into::into)?, &mut own),
                None => Err("a caller leads one flight".into()),
            })?;
            if let Some(value) = own.take().or_else(|| self.take(&place, fetched)) {
                return Ok(value);
            }
        }
        // Others, with a key of the same hash, are in the way: nothing is stored.
        match load.take() {
            Some(load) => load().map_err(failed),
            None => Err(LoadError::Panicked),
        }
    }

    /// [`Self::get_or_load`] for futures, of any runtime or none: `load` is polled only if this
    /// caller is the one that loads. Dropping the future cancels it; then another of those who wait
    /// loads.
    ///
    /// # Errors
    /// As there.
    pub async fn get_or_load_async<E: Into<CodecError>>(
        &self,
        key: &K,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, LoadError> {
        let bytes = key.bytes();
        let place = Place::of(bytes.as_ref());
        let options = self.options(self.ttl);
        let (mut load, mut own) = (pin!(load), None);
        for _ in 0..ATTEMPTS {
            let lead = async {
                let value = load.as_mut().await.map_err(Into::into)?;
                self.loaded(&place, value, &mut own)
            };
            let forever = |_| pending::<()>();
            let fetched = self.loader.get_or_load_async(place.key(), &options, forever, lead).await?;
            if let Some(value) = own.take().or_else(|| self.take(&place, fetched)) {
                return Ok(value);
            }
        }
        load.await.map_err(failed)
    }

    /// Returns what was done so far, and what is under way. Hits, misses and bytes are in
    /// [`Cache::stats`], by pool.
    pub fn load_stats(&self) -> LoadStats {
        self.loader.stats()
    }

    /// The cache that the values are kept in.
    pub fn cache(&self) -> &Cache {
        self.loader.cache()
    }

    /// The pool that they are in.
    pub fn pool(&self) -> PoolId {
        self.pool
    }

    /// A value that was just loaded, packed; the caller's own copy stays with it.
    fn loaded(&self, place: &Place<'_>, value: V, own: &mut Option<V>) -> Result<Loaded, CodecError> {
        let packed = self.pack(place, &value, self.ttl)?;
        *own = Some(value);
        Ok(Loaded::value(packed))
    }

    /// Returns the options for the loader: the item stays at least as long as the value is good
    /// for, as its time is in whole seconds.
    fn options(&self, ttl: Option<Duration>) -> LoadOptions {
        let secs = |ttl: Duration| {
            let whole = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0));
            // The present second has begun already.
            if whole == 0 { 0 } else { u32::try_from(whole.saturating_add(1)).unwrap_or(u32::MAX) }
        };
        LoadOptions { fresh_secs: ttl.map(secs), wait: None, ..LoadOptions::default() }
    }

    fn now_millis(&self) -> u64 {
        self.cache().clock().unix_nanos() / 1_000_000
    }

    fn pack(&self, place: &Place<'_>, value: &V, ttl: Option<Duration>) -> Result<Vec<u8>, CodecError> {
        let mut packed = vec![0];
        if let Some(ttl) = ttl {
            packed[0] |= HAS_DEADLINE;
            let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            packed.extend_from_slice(&self.now_millis().saturating_add(millis).to_le_bytes());
        }
        if let Some(rest) = place.rest() {
            packed[0] |= HAS_KEY;
            packed.extend_from_slice(&u32::try_from(rest.len())?.to_le_bytes());
            packed.extend_from_slice(rest);
        }
        self.codec.encode(value, &mut packed)?;
        Ok(packed)
    }

    fn unpack(&self, place: &Place<'_>, bytes: &[u8]) -> Result<V, Useless> {
        let (&flags, mut bytes) = bytes.split_first().ok_or(Useless::Spoilt)?;
        let mut deadline = None;
        if flags & HAS_DEADLINE != 0 {
            let (millis, more) = bytes.split_first_chunk().ok_or(Useless::Spoilt)?;
            (deadline, bytes) = (Some(u64::from_le_bytes(*millis)), more);
        }
        if flags & HAS_KEY != 0 {
            let (len, more) = bytes.split_first_chunk().ok_or(Useless::Spoilt)?;
            let len = u32::from_le_bytes(*len) as usize;
            let (rest, more) = more.split_at_checked(len).ok_or(Useless::Spoilt)?;
            if place.rest() != Some(rest) {
                return Err(Useless::Foreign);
            }
            bytes = more;
        } else if place.rest().is_some() {
            return Err(Useless::Spoilt);
        }
        if deadline.is_some_and(|deadline| self.now_millis() >= deadline) {
            return Err(Useless::Spoilt);
        }
        self.codec.decode(bytes).map_err(|_| Useless::Spoilt)
    }

    /// The value of an answer. One that is of no use to anybody is removed.
    fn take(&self, place: &Place<'_>, fetched: Fetched<'_>) -> Option<V> {
        let found = fetched.value?;
        match self.unpack(place, &found) {
            Ok(value) => Some(value),
            Err(useless) => {
                if let (Useless::Spoilt, Value::Item(item)) = (useless, &found) {
                    self.cache().remove_matching(item);
                }
                None
            }
        }
    }
}

fn failed(error: impl Into<CodecError>) -> LoadError {
    LoadError::Failed(Arc::<dyn StdError + Send + Sync>::from(error.into()))
}

impl<K: ?Sized, V, C: Clone> Clone for TypedCache<K, V, C> {
    fn clone(&self) -> Self {
        Self {
            loader: self.loader.clone(),
            pool: self.pool,
            codec: self.codec.clone(),
            ttl: self.ttl,
            types: PhantomData,
        }
    }
}

impl<K: ?Sized, V, C> fmt::Debug for TypedCache<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedCache").field("loader", &self.loader).field("ttl", &self.ttl).finish()
    }
}

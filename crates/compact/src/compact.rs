//! Compact caches: tiny entries of fixed size, without an item around each.
//!
//! An item of the cache costs some 24 bytes of metadata; where key and value are 8 bytes each, most
//! of the memory goes there. A compact cache has none of that: its entries lie side by side in
//! buckets, whose order is that of their use. What it gives up are handles, expiry, policies,
//! values of any length, and a place in shared memory. (Berg et al., "The CacheLib Caching Engine",
//! OSDI 2020, section 4.1; CacheLib's `CompactCache`.)
//!
//! ```
//! use millpond::compact::{CompactCache, CompactConfig};
//! use millpond::{ByteSize, Cache, CacheConfig};
//! # fn main() -> Result<(), millpond::Error> {
//! let cache = Cache::new(CacheConfig::default())?;
//! let seen = CompactCache::<u64, u32>::new(&cache, CompactConfig::new("seen", ByteSize::mib(4)))?;
//!
//! assert_eq!(seen.set(&7, &1), None);
//! assert_eq!(seen.get(&7), Some(1));
//! seen.resize(ByteSize::mib(8))?;
//! assert_eq!(seen.remove(&7), Some(1));
//! # Ok(())
//! # }
//! ```
//!
//! Its memory is part of the cache's ([`memory::Part::Compact`] of the ledger). If no memory is
//! free, creating or enlarging a compact cache takes slabs from pools. If the cache shrinks and no
//! pool has a slab left to give, compact caches shrink.
//!
//! A key has one bucket, of 256 bytes or eight entries, whichever is more. A new entry goes to the
//! front of the bucket; if the bucket is full, its last entry is evicted. A hit in the rear half
//! moves the entry to the front. A hit in the front half moves nothing, and so writes nothing: the
//! half that is used most is read without a store. Calls are linearizable. A bucket that no thread
//! writes to is read without a lock, and changed under its own. The number of buckets changes in
//! place, one bucket at a time, while all others are read and written.
//!
//! Invariants:
//! 1. The words of a bucket change only under its lock, and each such change raises its version.
//!    Who reads believes what was read only if the bucket was unlocked before, and its word is the
//!    same after.
//! 2. A key's home changes only under the lock of its old home. Before that lock is released, the
//!    new mapping is visible and the entry is in its new place. A thread that reads or locks a
//!    bucket checks afterwards that the bucket still is the key's home.
//! 3. Whoever looks at buckets is pinned; memory that is nobody's home is given back after a grace
//!    period.
//! 4. No code of the caller runs while a bucket is locked, or while this thread is pinned.

mod bucket;
mod shape;
mod stats;
mod store;
mod table;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use base::ByteSize;
use bytemuck::{Pod, bytes_of};

use bucket::{Bucket, BucketLayout, Locked};
use memory::Cache;
pub use memory::stores::CompactStats;
use memory::stores::{SharesMemory, host};
use memory::{Error, ErrorKind};
use store::Store;
use store::{EVICTIONS, HITS, INSERTS, MISSES, REMOVED, REPLACED};

/// The configuration of a compact cache.
#[derive(Clone, Debug)]
pub struct CompactConfig {
    /// Its name in statistics.
    pub name: String,
    /// Memory of its buckets, rounded down to whole ones; at least one.
    pub memory: ByteSize,
    /// The most that [`CompactCache::resize`] may ever be given: address space is reserved for it
    /// now. Default: [`Cache::max_memory`].
    pub max_memory: Option<ByteSize>,
    /// Seed of the hash of its keys. Default: from the operating system.
    pub hash_seed: Option<u64>,
}

impl CompactConfig {
    /// One of this name and size with all defaults.
    pub fn new(name: impl Into<String>, memory: ByteSize) -> Self {
        Self { name: name.into(), memory, max_memory: None, hash_seed: None }
    }
}

/// A cache of plain data by plain data: see [`crate::compact`]. Cloning is cheap and shares it. `V`
/// may be `()`, for a set.
///
/// Keys are the same if their bytes are.
pub struct CompactCache<K, V> {
    cache: Cache,
    store: Arc<Store>,
    types: PhantomData<fn(&K, &V)>,
}

impl<K, V> Clone for CompactCache<K, V> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), store: Arc::clone(&self.store), types: PhantomData }
    }
}

impl<K, V> std::fmt::Debug for CompactCache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CompactCache").field(&self.store).finish()
    }
}

/// The result of [`CompactCache::update`] for an entry.
type Updated<V> = Option<Option<V>>;

impl<K: Pod, V: Pod> CompactCache<K, V> {
    const FORM: BucketLayout = BucketLayout::new(size_of::<K>(), size_of::<V>());

    /// Makes an empty one. May take slabs away: not to be called from a [`memory::Lifecycle`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a size is out of range, [`ErrorKind::System`] if the system refuses
    /// the address space, and [`ErrorKind::OutOfMemory`] if the cache cannot free enough memory:
    /// its items are held, or its limit is too low.
    pub fn new(cache: &Cache, config: CompactConfig) -> Result<Self, Error> {
        let max_memory = config.max_memory.unwrap_or_else(|| cache.max_memory()).max(config.memory);
        let [buckets, max_buckets] = [config.memory, max_memory].map(buckets_of::<K, V>);
        let (buckets, max_buckets) = (buckets?, max_buckets?);
        let seed = config.hash_seed.unwrap_or_else(base::rng::entropy_seed);
        let store = Store::new(host::of(cache), config.name, Self::FORM, buckets, max_buckets, seed)?;
        let store = Arc::new(store);
        let weak = Arc::downgrade(&store);
        host::add(cache, weak);
        Ok(Self { cache: cache.clone(), store, types: PhantomData })
    }

    /// The value of `key`. Counts a hit or a miss, and counts as a use.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        let _pinned = host::pins(&self.cache).pin();
        let Some((place, value)) = self.store.find(bytes_of(key), value_at) else {
            self.store.count(MISSES, 1);
            return None;
        };
        // If another thread has changed the bucket, or is changing it, the entry is not promoted:
        // that is cheaper than to wait.
        if place.number >= Self::FORM.entries / 2
            && let Some(mut locked) = place.bucket.try_lock(place.head)
        {
            let _ = locked.promote(place.number);
        }
        self.store.count(HITS, 1);
        Some(value)
    }

    /// Returns the value of `key`; counts nothing, and is not a use of the entry.
    pub fn peek(&self, key: &K) -> Option<V> {
        let _pinned = host::pins(&self.cache).pin();
        self.store.find(bytes_of(key), value_at).map(|(_, value)| value)
    }

    /// Returns whether `key` has a value; counts nothing, and is not a use of the entry.
    pub fn contains(&self, key: &K) -> bool {
        let _pinned = host::pins(&self.cache).pin();
        self.store.find(bytes_of(key), |_, _| Ok(())).is_some()
    }

    /// Sets the value of `key` and returns what it was. A use.
    pub fn set(&self, key: &K, value: &V) -> Option<V> {
        self.put(key, value, true)
    }

    /// Sets the value of `key` if it has none. Otherwise returns the value that it has, which does
    /// not count as a use.
    pub fn insert(&self, key: &K, value: &V) -> Option<V> {
        self.put(key, value, false)
    }

    /// Sets the value of `key` if `allowed` says so while the bucket is locked.
    pub(crate) fn set_if(&self, key: &K, value: &V, allowed: impl FnOnce() -> bool) -> bool {
        let _pinned = host::pins(&self.cache).pin();
        let locked = self.store.lock(bytes_of(key));
        let allowed = allowed();
        if allowed {
            self.put_locked(locked, (key, value), true);
        }
        allowed
    }

    fn put(&self, key: &K, value: &V, replace: bool) -> Option<V> {
        let _pinned = host::pins(&self.cache).pin();
        self.put_locked(self.store.lock(bytes_of(key)), (key, value), replace)
    }

    fn put_locked(&self, mut locked: Locked<'_>, (key, value): (&K, &V), replace: bool) -> Option<V> {
        if let Ok(Some(number)) = locked.find(bytes_of(key)) {
            let old = value_at(locked.bucket, number).ok();
            if replace {
                let _ = locked.set_value(number, bytes_of(value));
                let _ = locked.promote(number);
                self.store.count(REPLACED, 1);
            }
            return old;
        }
        let evicted = locked.push(bytes_of(key), bytes_of(value)).unwrap_or(false);
        drop(locked);
        self.store.count(INSERTS, 1);
        self.store.count(EVICTIONS, u64::from(evicted));
        None
    }

    /// Updates the value of `key` as one step: `update` is given its value now, or `None`, and what
    /// it returns takes that value's place; `None` removes the key. Returns the value before. A
    /// use, but counts neither hit nor miss. `update` runs with no lock held, and again if another
    /// thread has changed the bucket meanwhile.
    pub fn update(&self, key: &K, mut update: impl FnMut(Option<V>) -> Option<V>) -> Option<V> {
        loop {
            let old = self.peek(key);
            let new = update(old);
            if let Some(old) = self.exchange(key, old, new) {
                return old;
            }
        }
    }

    /// Replaces the value of `key` by `new` if it is `old`, and returns `old`; `None` if it is not.
    pub(crate) fn exchange(&self, key: &K, old: Option<V>, new: Option<V>) -> Updated<V> {
        let _pinned = host::pins(&self.cache).pin();
        let mut locked = self.store.lock(bytes_of(key));
        let number = locked.find(bytes_of(key)).ok().flatten();
        let now = number.and_then(|number| value_at::<V>(locked.bucket, number).ok());
        if now.as_ref().map(bytes_of) != old.as_ref().map(bytes_of) {
            return None;
        }
        match (number, new) {
            (Some(number), Some(new)) => {
                let _ = locked.set_value(number, bytes_of(&new));
                let _ = locked.promote(number);
                self.store.count(REPLACED, 1);
            }
            (Some(number), None) => {
                let _ = locked.remove(number);
                self.store.count(REMOVED, 1);
            }
            (None, Some(new)) => {
                let evicted = locked.push(bytes_of(key), bytes_of(&new)).unwrap_or(false);
                self.store.count(INSERTS, 1);
                self.store.count(EVICTIONS, u64::from(evicted));
            }
            (None, None) => {}
        }
        Some(now)
    }

    /// Removes `key` and returns its value.
    pub fn remove(&self, key: &K) -> Option<V> {
        let _pinned = host::pins(&self.cache).pin();
        let mut locked = self.store.lock(bytes_of(key));
        let number = locked.find(bytes_of(key)).ok().flatten()?;
        let old = value_at(locked.bucket, number).ok();
        let _ = locked.remove(number);
        self.store.count(REMOVED, 1);
        old
    }

    /// Removes everything that is there when it begins, one bucket after the other.
    pub fn purge(&self) {
        self.store.purge(host::of(&self.cache));
    }

    /// Removes the entries that `keep` says no to, if they still have that value then. `keep` runs
    /// with no lock held.
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        for (key, value) in self.iter() {
            if !keep(&key, &value) {
                self.exchange(&key, Some(value), None);
            }
        }
    }

    /// The entries, in no particular order, while others change them. An entry that is there from
    /// the beginning to the end is seen once, also where the number of buckets changes meanwhile;
    /// one that comes or goes may be seen or not.
    pub fn iter(&self) -> Entries<'_, K, V> {
        Entries { of: self, next: 0, ready: VecDeque::new() }
    }

    /// Changes the memory of the compact cache while it is in use, on the calling thread. Evicts
    /// the least recently used entries of buckets that become too full. May take slabs from pools,
    /// so do not call it from a [`memory::Lifecycle`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for less than a bucket or more than [`CompactConfig::max_memory`];
    /// [`ErrorKind::OutOfMemory`] if the cache has no memory for it. The size is then unchanged.
    pub fn resize(&self, memory: ByteSize) -> Result<(), Error> {
        let buckets = buckets_of::<K, V>(memory)?;
        if buckets > self.store.max_buckets {
            let context = format!(
                "{memory} is more than the max_memory of the compact cache `{}`: give it more when it is made",
                self.store.name
            );
            return Err(Error::new(ErrorKind::Config, context));
        }
        self.store.resize(host::of(&self.cache), buckets)
    }

    /// Returns what it holds, and what was done so far.
    pub fn stats(&self) -> CompactStats {
        SharesMemory::stats(&*self.store)
    }

    /// Walks everything and checks that each entry is where it is looked for. For tests, at rest.
    ///
    /// # Panics
    /// If an entry is in a wrong bucket, or the counters do not match the number of entries.
    pub fn validate(&self) {
        assert_eq!(self.store.validate(), self.stats().entries, "the counters count the entries");
    }
}

fn buckets_of<K: Pod, V: Pod>(memory: ByteSize) -> Result<u32, Error> {
    let bucket_bytes = CompactCache::<K, V>::FORM.bucket_bytes as u64;
    let buckets = u32::try_from(memory.as_u64() / bucket_bytes).ok().filter(|buckets| *buckets > 0);
    buckets.ok_or_else(|| {
        let context =
            format!("{memory} is not a size for a compact cache with buckets of {bucket_bytes} bytes");
        Error::new(ErrorKind::Config, context)
    })
}

#[inline]
fn value_at<V: Pod>(bucket: Bucket<'_>, number: usize) -> memory::cells::CellResult<V> {
    bucket.cells.pod(bucket.form.value(number))
}

/// The entries of a compact cache: see [`CompactCache::iter`].
pub struct Entries<'c, K, V> {
    of: &'c CompactCache<K, V>,
    /// The place to go on from, as a fraction of all hashes.
    next: u64,
    ready: VecDeque<(K, V)>,
}

impl<K: Pod, V: Pod> Iterator for Entries<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(entry);
            }
            let fraction = u32::try_from(self.next).ok()?;
            let _pinned = host::pins(&self.of.cache).pin();
            let (entries, next) = self.of.store.read_home(fraction);
            self.next = next;
            self.ready.extend(entries.iter().map(|entry| {
                let (key, value) = entry.split_at(size_of::<K>().div_ceil(size_of::<u32>()));
                (from_words(key), from_words(value))
            }));
        }
    }
}

impl<K, V> std::fmt::Debug for Entries<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries").field("next", &self.next).finish_non_exhaustive()
    }
}

/// The value that the words begin with.
fn from_words<T: Pod>(words: &[u32]) -> T {
    let mut value = T::zeroed();
    let bytes: &[u8] = bytemuck::cast_slice(words);
    bytemuck::bytes_of_mut(&mut value).copy_from_slice(&bytes[..size_of::<T>()]);
    value
}

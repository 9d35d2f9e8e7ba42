//! Fences: whether a key was written since somebody looked elsewhere for its value.
//!
//! Whoever fills a cache from something slower reads there first, and stores afterwards. If the key
//! is written or removed in between, what was read is out of date. A [`Fence`] is made before the
//! read; [`Cache::put_fenced`] stores what was read only if nobody has written the key since. This
//! is the lease of Nishtala et al., "Scaling Memcache at Facebook", NSDI 2013, section 3.2.1.
//!
//! Invariants:
//! 1. A write voids the fences of its key under the lock of the bucket in which it changes the
//!    index, and [`Cache::put_fenced`] asks under the same lock. So either the write sees that the
//!    value was stored, and replaces or removes it, or the value is not stored. A change in place
//!    voids under that lock before it begins, and then looks whether its item still is that of the
//!    key; and again when it is done.
//! 2. The bucket is locked once after a fence was registered and before it is handed out. So a
//!    write that did not see the fence has ended before whatever is read next.
//! 3. A flush voids nothing: a fence is stamped like an item made at its time, and is void once
//!    such an item is flushed. What is stored under a fence gets that stamp, so that a flush that
//!    comes after the question, or is under way, takes it with the fence.

use std::fmt;
use std::sync::atomic::{self, AtomicBool, Ordering};

use base::Part;

use super::Keys;
use crate::cache::{Cache, Core};
use crate::fence::{Fences, Ticket};
use crate::handle::{ReadHandle, WriteHandle};
use crate::pools::Scope;

/// A condition on one key: that nobody has written it since. Made by [`Keys::fence`]. Keeps the
/// cache in use, as an [`crate::OwnedHandle`] does.
pub struct Fence {
    cache: Cache,
    ticket: Ticket,
    scope: Scope,
    /// The creation time of an item that was made with it.
    made: u32,
    is_given_up: AtomicBool,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("holds", &self.holds()).finish_non_exhaustive()
    }
}

impl Fence {
    /// Makes one for a key with this hash.
    fn new(cache: &Cache, scope: Scope, hash: u64) -> Self {
        let core = cache.core();
        let fences = core.fences.get_or_init(|| {
            core.ledger.charge(Part::Fixed, Fences::BYTES);
            Fences::new()
        });
        let ticket = fences.begin(hash);
        let made = core.keyspace(scope.keyspace()).stamp(core.now());
        // With that of `Keyspace::flush`: a flush that does not see the stamp began before.
        atomic::fence(Ordering::SeqCst);
        // Invariant 2.
        drop(core.index.lock(hash));
        Self { cache: cache.clone(), ticket, scope, made, is_given_up: AtomicBool::new(false) }
    }

    /// Returns whether it is one of a key with this hash.
    pub(crate) fn is_of(&self, keys: Keys<'_>, hash: u64) -> bool {
        self.ticket.hash() == hash && self.scope == keys.scope && std::ptr::eq(self.cache.core(), keys.core())
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Makes this fence void, and no other of its key.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Returns whether nobody has written its key since it was made, and it was not given up.
    ///
    /// Writes are insertions, replacements, removals by key or handle, flushes, the end of the
    /// pool, changes of structured items and attempts at one, and the copy that gives an item room
    /// for an expiration time or a tag. Evictions, expirations, other changes of expiration times
    /// and of user bits, and links that are added to a chain or taken from it are not.
    pub fn holds(&self) -> bool {
        let core = self.cache.core();
        !self.ticket.is_void()
            && !self.is_given_up.load(Ordering::Acquire)
            && !core.keyspace(self.scope.keyspace()).is_flushed(self.made, || core.now())
            && self.scope.pool().is_none_or(|pool| core.pools.has(pool))
    }
}

impl Keys<'_> {
    /// Begins to watch for writes of `key`: to be called before its value is asked for elsewhere,
    /// so that [`Cache::put_fenced`] stores the answer only if it is not out of date.
    ///
    /// A fence takes some 100 bytes until it is dropped. A write that meets one pays for a lock.
    ///
    /// ```
    /// # use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// # let cache = Cache::new(CacheConfig::default())?;
    /// # let pool = cache.add_pool(PoolConfig::named("users"))?;
    /// # let read_from_database = || b"Alice";
    /// let fence = cache.keys(pool).fence(b"user:1");
    /// let value = read_from_database();
    /// let mut item = cache.allocate(pool, b"user:1", value.len(), &ItemOptions::default())?;
    /// item.value_mut().copy_from_slice(value);
    ///
    /// // Somebody changes the database in the meantime, and removes the key.
    /// cache.keys(pool).remove(b"user:1");
    /// assert!(!fence.holds());
    /// assert!(cache.put_fenced(&fence, item).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence(self, key: &[u8]) -> Fence {
        Fence::new(self.cache, self.scope, self.hash(key))
    }
}

impl Cache {
    /// Makes an item visible, in the place of the one that its key has, if the key was not written
    /// since `fence` was made. The fence, and all others of the key, are void afterwards.
    ///
    /// The item counts as made when the fence was: a flush since then takes it, or keeps it from
    /// being stored.
    ///
    /// # Errors
    /// The item, unchanged but for its age, if the fence does not hold any more ([`Fence::holds`]),
    /// or if the fence is of another key or cache.
    pub fn put_fenced<'c>(
        &'c self,
        fence: &Fence,
        item: WriteHandle<'c>,
    ) -> Result<ReadHandle<'c>, WriteHandle<'c>> {
        let core = item.core();
        let is_its = std::ptr::eq(core, self.core())
            && std::ptr::eq(core, fence.cache.core())
            && item.hash() == fence.ticket.hash()
            && core.arena.info_of(item.ptr()).keyspace == fence.scope.keyspace();
        if !is_its {
            return Err(item);
        }
        core.put_made_at(item, fence.made, || fence.holds())
    }
}

impl Core {
    /// Makes the fences of a key void: called by a write, with the bucket of the key locked.
    #[inline]
    pub(crate) fn void_fences(&self, hash: u64) {
        if let Some(fences) = self.fences.get() {
            fences.void(hash);
        }
    }

    /// Makes the fences of an item void that is about to be changed in place. `false`: it is not
    /// the item of its key any more.
    pub(crate) fn begin_change(&self, item: &ReadHandle<'_>) -> bool {
        if let Some(fences) = self.fences.get() {
            let hash = self.hash(self.keyspace(self.arena.info_of(item.ptr()).keyspace), item.key());
            // With that of `Fences::begin`: who is not seen here reads what was changed elsewhere.
            // For the very first fence of a cache, the lock of the stripe does as much.
            atomic::fence(Ordering::SeqCst);
            if fences.may_have(hash) {
                let locked = self.index.lock(hash);
                fences.void(hash);
                drop(locked);
            }
        }
        item.is_current()
    }
}

#[cfg(test)]
mod tests;

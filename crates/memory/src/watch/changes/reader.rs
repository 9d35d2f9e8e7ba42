//! Recording of changes, and their reader.

use std::sync::atomic::{Ordering, fence};

use base::{ByteSize, Part};
use parking_lot::Mutex;

use super::super::{CHANGES, Spent, Watch};
use super::{AUTHOR, Buffer, COUNTERS, Change, Changes, RECORD_BYTES, first};
use crate::cache::{Cache, Core};
use crate::error::{Error, ErrorKind};
use crate::find::Keys;
use crate::pools::PoolId;

impl Watch {
    /// Returns the changes if one of this key is to be reported. Asked after the change can be
    /// seen.
    #[inline]
    fn tells(&self, hash: u64) -> Option<&Changes> {
        if !self.has(CHANGES) {
            return None;
        }
        let changes = self.changes.get()?;
        fence(Ordering::SeqCst);
        changes.follows(hash).then_some(changes)
    }
}

impl Core {
    /// Notes that a key `of` a pool has another value than before, or none, where somebody follows
    /// it. Called after the change can be seen.
    #[inline]
    pub(crate) fn note_change<'a>(&self, hash: u64, of: impl FnOnce() -> (PoolId, &'a [u8])) {
        if let Some(changes) = self.watch.tells(hash) {
            let (pool, key) = of();
            changes.note(Change { pool, key, author: AUTHOR.get() });
        }
    }

    /// As [`Self::note_change`], for what nobody asked for.
    #[inline]
    pub(crate) fn note_change_by_itself<'a>(&self, hash: u64, of: impl FnOnce() -> (PoolId, &'a [u8])) {
        if let Some(changes) = self.watch.tells(hash) {
            let (pool, key) = of();
            changes.note(Change { pool, key, author: 0 });
        }
    }
}

impl Cache {
    /// Begins to report changes of keys that are followed ([`ChangeReader::follow`]), for as long
    /// as the reader lives. There is one at a time. `buffer` bounds how much is kept that was not
    /// read yet: a change takes its key and 16 bytes.
    ///
    /// A change is that an item was made visible, replaced, removed, evicted or has expired, that
    /// it was given another time to expire, or that a structured item was changed in place; not
    /// that everything was flushed, and not that a chain got longer or shorter. While there is a
    /// reader, a call that changes something pays for a fence and a look at a table of half a MiB;
    /// that of a followed key takes a lock that all share.
    ///
    /// ```
    /// use base::ByteSize;
    /// use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// let pool = cache.add_pool(PoolConfig::named("users"))?;
    /// let changes = cache.changes(ByteSize::mib(1))?;
    /// let keys = cache.keys(pool);
    /// changes.follow(keys, b"user:1");
    /// assert!(keys.find(b"user:1").is_none());
    /// cache.put(cache.allocate(pool, b"user:1", 0, &ItemOptions::default())?);
    /// changes.drain(|change| assert_eq!((change.pool, change.key), (pool, &b"user:1"[..])));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where there is a reader already, or where the buffer is larger than 1
    /// GiB or has no room for a change; [`ErrorKind::OutOfMemory`] where held items keep the cache
    /// from making room for it.
    pub fn changes(&self, buffer: ByteSize) -> Result<ChangeReader, Error> {
        let least = RECORD_BYTES + crate::MAX_KEY_BYTES;
        if buffer.as_usize() < least || buffer > ByteSize::gib(1) {
            let context = format!("a buffer for changes of {buffer}: give it {least} bytes to 1GiB");
            return Err(Error::new(ErrorKind::Config, context));
        }
        let core = self.core();
        let is_free = || {
            let has_reader = |changes: &Changes| changes.buffer.lock().has_reader;
            let context = "somebody reads the changes of this cache already: drop that reader first";
            let is_taken = core.watch.changes.get().is_some_and(has_reader);
            if is_taken { Err(Error::new(ErrorKind::Config, context)) } else { Ok(()) }
        };
        is_free()?;
        // The counters stay for the next reader, as others may still look at them.
        let counters =
            if core.watch.changes.get().is_none() { Some(core.spend(COUNTERS as u64)?) } else { None };
        let spent = core.spend(2 * buffer.as_u64())?;
        let _switching = core.watch.switching.lock();
        is_free()?;
        spent.keep();
        let was_there = core.watch.changes.get().is_some();
        counters.into_iter().filter(|_| !was_there).for_each(Spent::keep);
        let changes = core.watch.changes.get_or_init(Changes::new);
        let capacity = buffer.as_usize();
        *changes.buffer.lock() =
            Buffer { records: Vec::with_capacity(capacity), capacity, lost: 0, has_reader: true };
        core.watch.switch(CHANGES, true);
        Ok(ChangeReader { cache: self.clone(), spare: Mutex::new(Vec::with_capacity(capacity)) })
    }
}

/// Reports changes of the keys that it follows. Made by [`Cache::changes`]; may be shared by
/// threads. When it is dropped, nothing is followed any more.
#[derive(Debug)]
pub struct ChangeReader {
    cache: Cache,
    spare: Mutex<Vec<u8>>,
}

impl ChangeReader {
    fn all(&self) -> Option<&Changes> {
        self.cache.core().watch.changes.get()
    }

    /// From now on every change of this key is told, but not that an item leaves which is over
    /// already. To be called before the value is read, and as often as [`Self::unfollow`] will be.
    pub fn follow(&self, keys: Keys<'_>, key: &[u8]) {
        let Some(changes) = self.all() else { return };
        keys.clear_dead(keys.hash(key), key);
        let more = |count: u8| (count < u8::MAX).then(|| count + 1);
        // A counter that is full stays so: its keys are followed for ever.
        let _ = changes.counter(keys.hash(key)).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        fence(Ordering::SeqCst);
    }

    /// Takes back one [`Self::follow`].
    pub fn unfollow(&self, keys: Keys<'_>, key: &[u8]) {
        let Some(changes) = self.all() else { return };
        let less = |count: u8| (0 < count && count < u8::MAX).then(|| count - 1);
        let _ = changes.counter(keys.hash(key)).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Sets whether the changes of all keys are reported, whatever is followed.
    pub fn follow_all(&self, all: bool) {
        if let Some(changes) = self.all() {
            changes.follows_all.store(all, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// Stops reporting changes, so that calls pay nothing for it, until it is told to go on. What
    /// was followed, and what was not read yet, is forgotten.
    pub fn pause(&self) {
        let core = self.cache.core();
        let _switching = core.watch.switching.lock();
        self.forget_all();
    }

    /// Goes on after [`Self::pause`].
    pub fn resume(&self) {
        let watch = &self.cache.core().watch;
        let _switching = watch.switching.lock();
        watch.switch(CHANGES, true);
    }

    fn forget_all(&self) {
        self.cache.core().watch.switch(CHANGES, false);
        let Some(changes) = self.all() else { return };
        changes.follows_all.store(false, Ordering::Relaxed);
        changes.counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        let mut buffer = changes.buffer.lock();
        buffer.records.clear();
        buffer.lost = 0;
        changes.is_waiting.store(false, Ordering::Relaxed);
    }

    /// Returns whether there is something to read. Costs a load.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.all().is_some_and(|changes| changes.is_waiting.load(Ordering::Acquire))
    }

    /// Calls `tell` with every change that is there, with no lock of the cache held; returns how
    /// many were lost for want of room since the last call. Of two threads that call it at once the
    /// second waits for the first.
    pub fn drain(&self, mut tell: impl FnMut(Change<'_>)) -> u64 {
        let Some(changes) = self.all() else { return 0 };
        let mut spare = self.spare.lock();
        spare.clear();
        let lost = {
            let mut buffer = changes.buffer.lock();
            changes.is_waiting.store(false, Ordering::Relaxed);
            std::mem::swap(&mut buffer.records, &mut *spare);
            std::mem::take(&mut buffer.lost)
        };
        let mut rest = &spare[..];
        while let Some((change, after)) = first(rest) {
            tell(change);
            rest = after;
        }
        lost
    }
}

impl Drop for ChangeReader {
    fn drop(&mut self) {
        let core = self.cache.core();
        let _switching = core.watch.switching.lock();
        self.forget_all();
        let Some(changes) = core.watch.changes.get() else { return };
        let mut buffer = changes.buffer.lock();
        core.ledger.release(Part::Fixed, 2 * buffer.capacity as u64);
        *buffer = Buffer { records: Vec::new(), capacity: 0, lost: 0, has_reader: false };
    }
}

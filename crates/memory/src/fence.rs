//! Tables of fences: what was written since, by hash.
//!
//! A [`Ticket`] is registered before something is read elsewhere, and void once somebody has
//! written what it is for. A write leaves no trace where nobody asked for one. Two keys of one hash
//! share their fences: one in 2^64 is void for the other's sake. A cache has a table, of which
//! `find::fence` says how it is used; other stores have their own.
//!
//! Invariants:
//! 1. The count of a hash is raised before its mark is in the table, and lowered after it has left:
//!    a write that sees no count has no fence to void.
//! 2. The lock of a shard is taken last, and nothing is called under it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

/// Counts of open fences, by the lower bits of the hash: 4 KiB.
const COUNTS: usize = 1024;
const SHARDS: usize = 32;

/// A table of what is fenced, by 64-bit hash.
#[derive(Debug)]
pub struct Fences {
    counts: Box<[AtomicU32]>,
    shards: Box<[Shard]>,
}

type Shard = CachePadded<Mutex<HashMap<u64, Mark>>>;

/// Fences of one hash that no write has met yet.
#[derive(Debug, Default)]
struct Mark {
    is_void: Arc<AtomicBool>,
    fences: u32,
}

impl Fences {
    /// Bytes of an empty table.
    pub const BYTES: u64 = (COUNTS * size_of::<AtomicU32>() + SHARDS * size_of::<Shard>()) as u64;

    /// An empty table.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            counts: (0..COUNTS).map(|_| AtomicU32::new(0)).collect(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        })
    }

    fn count(&self, hash: u64) -> &AtomicU32 {
        &self.counts[hash as usize % COUNTS]
    }

    fn shard(&self, hash: u64) -> &Shard {
        // Other bits than those that choose the count.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Registers a fence. Of this and a [`Self::void`] at the same time, with a sequentially
    /// consistent fence or a common lock before it, one sees what was done before the other.
    pub fn begin(self: &Arc<Self>, hash: u64) -> Ticket {
        self.count(hash).fetch_add(1, Ordering::Relaxed);
        let is_void = {
            let mut shard = self.shard(hash).lock();
            let mark = shard.entry(hash).or_default();
            mark.fences += 1;
            Arc::clone(&mark.is_void)
        };
        fence(Ordering::SeqCst);
        Ticket { fences: Arc::clone(self), hash, is_void }
    }

    /// Returns whether a fence of this hash, or of one with the same count, is registered.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        self.count(hash).load(Ordering::Relaxed) != 0
    }

    /// Makes the fences of this hash void that are registered now. Costs a load if there is none.
    #[inline]
    pub fn void(&self, hash: u64) {
        if self.may_have(hash) {
            self.void_marked(hash);
        }
    }

    #[cold]
    fn void_marked(&self, hash: u64) {
        if let Some(mark) = self.shard(hash).lock().remove(&hash) {
            mark.is_void.store(true, Ordering::Release);
        }
    }

    /// Makes all fences void that are registered now.
    pub fn void_all(&self) {
        for shard in &self.shards {
            shard.lock().drain().for_each(|(_, mark)| mark.is_void.store(true, Ordering::Release));
        }
    }
}

/// A registered fence. Dropping it takes it out of the table.
#[derive(Debug)]
pub struct Ticket {
    fences: Arc<Fences>,
    hash: u64,
    is_void: Arc<AtomicBool>,
}

impl Ticket {
    /// The hash that it was registered with.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns whether its hash was voided since it was registered.
    pub fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Acquire)
    }

    /// Returns whether it was registered in this table.
    pub fn is_of(&self, fences: &Arc<Fences>) -> bool {
        Arc::ptr_eq(&self.fences, fences)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut shard = self.fences.shard(self.hash).lock();
        if let Entry::Occupied(mut entry) = shard.entry(self.hash)
            && Arc::ptr_eq(&entry.get().is_void, &self.is_void)
        {
            entry.get_mut().fences -= 1;
            if entry.get().fences == 0 {
                entry.remove();
            }
        }
        drop(shard);
        self.fences.count(self.hash).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;

//! Telling an embedder how the lives of its items end.

use std::collections::HashMap;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use base::Part;
use parking_lot::Mutex;
use slab::ItemPtr;

use crate::cache::Core;
use crate::chain::{LinkHandle, Links};
use crate::class::{Class, EVICTIONS, EXPIRED, REMOVED, REPLACED};
use crate::handle::{ItemRef, View};
use crate::large::Pieces;
use crate::long_lock::{Alone, CALLS_HOOK};

/// The cause of an item's removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovalCause {
    /// Evicted to make room: for another item, under a lower limit, or because its memory moved to
    /// another class or pool.
    Evicted,
    /// Expired or flushed, even if only an eviction noticed that.
    Expired,
    /// Removed by key or by handle.
    Removed,
    /// Replaced by another item with the same key.
    Replaced,
}

impl RemovalCause {
    /// The counter of the class that counts such ends.
    pub(crate) fn counter(self) -> usize {
        match self {
            Self::Evicted => EVICTIONS,
            Self::Expired => EXPIRED,
            Self::Removed => REMOVED,
            Self::Replaced => REPLACED,
        }
    }
}

/// Hooks for the lifecycle of a pool's items: [`crate::PoolConfig::lifecycle`]. The defaults do
/// nothing. A hook runs on the thread that evicts, removes or releases the item.
/// [`Self::on_remove`] and [`Self::on_destroy`] may use the cache, except for calls that take
/// memory from classes or wait for that: limits, memory, policies, tuning,
/// [`crate::Cache::move_slab`], [`crate::Cache::resize_pools`], [`crate::Cache::remove_pool`],
/// [`crate::Cache::maintain`]. An allocation in a hook fails at once if no memory is free.
///
/// A hook that panics counts as returned, and [`Self::may_evict`] as having returned true. The
/// panic hook (`std::panic::set_hook`) reports the panic, which goes no further.
///
/// Each inserted item gets one call of [`Self::on_remove`] and then one of [`Self::on_destroy`]. An
/// item gets neither if it was never inserted, if an earlier process left it and it could not be
/// recovered, or if it is in the cache when the cache is dropped. A `Lifecycle` that owns the
/// cache, or a structure in it, prevents that drop until it releases it.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use millpond::{
///     Cache, CacheConfig, ItemOptions, Lifecycle, PoolConfig, RemovalCause, RemovedItem,
/// };
///
/// #[derive(Default)]
/// struct Count(AtomicU64);
/// impl Lifecycle for Count {
///     fn on_destroy(&self, item: RemovedItem<'_>, cause: RemovalCause) {
///         assert_eq!((item.key(), cause), (&b"k"[..], RemovalCause::Removed));
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// # fn main() -> Result<(), millpond::Error> {
/// let count = Arc::new(Count::default());
/// let cache = Cache::new(CacheConfig::default())?;
/// let lifecycle = Some(count.clone() as Arc<dyn Lifecycle>);
/// let pool = cache.add_pool(PoolConfig { lifecycle, ..PoolConfig::named("counted") })?;
/// cache.put(cache.allocate(pool, b"k", 0, &ItemOptions::default())?);
/// let held = cache.find(b"k");
/// cache.remove(b"k");
/// assert_eq!(count.0.load(Ordering::Relaxed), 0);
/// drop(held);
/// assert_eq!(count.0.load(Ordering::Relaxed), 1);
/// # Ok(())
/// # }
/// ```
pub trait Lifecycle: Send + Sync {
    /// Returns whether the item, which is about to be evicted, may be evicted. If not, it stays in
    /// its queue, and another item is evicted. An item that may not be evicted still expires, and
    /// can be removed or replaced. Memory that holds such items cannot be freed, so lowering a
    /// limit may fail with [`crate::ErrorKind::OutOfMemory`]. So may an allocation if thousands of
    /// such items are next in the queue.
    ///
    /// Called with locks of the engine held, and often: it must return at once, and must not use
    /// the cache. It may be asked about an item that is evicted only later, or never. Default: yes.
    fn may_evict(&self, item: ItemRef<'_>) -> bool {
        let _ = item;
        true
    }

    /// The item has left the index: nobody will find it any more. Handles of it may be held still.
    fn on_remove(&self, item: RemovedItem<'_>, cause: RemovalCause) {
        let _ = (item, cause);
    }

    /// Nobody holds the item any more; its memory will be used again. What the item owns elsewhere
    /// – a file, a connection, a count – can be given up here.
    fn on_destroy(&self, item: RemovedItem<'_>, cause: RemovalCause) {
        let _ = (item, cause);
    }
}

impl std::fmt::Debug for dyn Lifecycle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lifecycle")
    }
}

/// A store beneath memory, as the engine sees it: `secondary` is one. Called with the bucket of the
/// key locked, but for [`Self::insert`] and [`Self::keeps`].
pub(crate) trait LowerTier: std::any::Any + Send + Sync {
    /// The key was written.
    fn erase(&self, key: SecondaryKey<'_>);
    /// Returns a ticket if it takes the item of the key, whose slot is about to be cleared.
    fn admit(&self, key: SecondaryKey<'_>) -> Option<u64>;
    /// Takes an item whose key it has admitted, by its ticket.
    fn insert(&self, key: SecondaryKey<'_>, ticket: u64, item: RemovedItem<'_>);
    /// Returns whether the items of keys with this fingerprint are not to be evicted now. May be
    /// called with the lock of a class held.
    fn keeps(&self, fingerprint: u32) -> bool;
}

/// A key, as a cache beneath memory knows it. Keys of different key spaces may have the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecondaryKey<'k> {
    /// The number of the key space: that of the pool, or 0 if pools share it.
    pub space: u16,
    /// The hash, which differs from cache to cache.
    pub hash: u64,
    /// The bytes.
    pub bytes: &'k [u8],
}

/// An item that has left its cache, for as long as a [`Lifecycle`] is shown it.
#[derive(Clone, Copy)]
pub struct RemovedItem<'a> {
    found: ItemRef<'a>,
    core: &'a Core,
    ptr: ItemPtr,
}

impl<'a> RemovedItem<'a> {
    /// The item's place.
    pub(crate) fn place(&self) -> (&'a Core, ItemPtr) {
        (self.core, self.ptr)
    }

    /// Its value, as it lies there: in one piece, or a long one in several, in order.
    pub fn pieces(&self) -> Pieces<'a> {
        // SAFETY: as long as the item is shown, somebody holds or owns it (invariant 1 of
        // `handle`).
        unsafe { Pieces::of(self.core, self.ptr) }
    }

    /// Returns the links that are chained to it, the latest first.
    pub fn links(&self) -> Links<'a> {
        Links::of(self.core, self.ptr)
    }

    /// The link that was chained to it last.
    pub fn first_link(&self) -> Option<LinkHandle<'a>> {
        self.links().next()
    }
}

impl<'a> Deref for RemovedItem<'a> {
    type Target = ItemRef<'a>;

    fn deref(&self) -> &ItemRef<'a> {
        &self.found
    }
}

impl std::fmt::Debug for RemovedItem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.found.fmt(f)
    }
}

/// The lifecycle hooks of a pool, and the removal causes of its items that are still held.
#[derive(Debug)]
pub(crate) struct Hooks {
    user: Arc<dyn Lifecycle>,
    /// Items that have left and that somebody may hold, by the bits of their pointers.
    leaving: Mutex<HashMap<u32, RemovalCause>>,
}

/// Memory of an entry of `leaving`, in bytes, about.
const LEAVING_BYTES: u64 = 16;

impl Hooks {
    pub(crate) fn new(user: Arc<dyn Lifecycle>) -> Self {
        Self { user, leaving: Mutex::default() }
    }
}

/// Calls the embedder's own code, and returns its result; `None`: it has panicked. An item that is
/// being ended must be ended all the same. Allocations of that code wait for nobody: the thread
/// itself may have the lock that they, or those before them, need.
pub(crate) fn told<R>(call: impl FnOnce() -> R) -> Option<R> {
    let _alone = Alone::enter(&CALLS_HOOK);
    catch_unwind(AssertUnwindSafe(call)).ok()
}

impl Core {
    /// Checks, in builds with debug assertions, that this thread is not pinned, where an item may
    /// end: the hooks may use the cache, which pins again, and may wait for pinned threads. Called
    /// whenever a reference is given back, whether it was the last or not, of an item with hooks or
    /// without: so every test checks it.
    #[inline]
    pub(crate) fn check_unpinned(&self) {
        debug_assert!(self.pins.pin_if_not().is_some(), "an item ends on a thread that is pinned");
    }

    /// # Safety
    /// As for [`View::new`].
    pub(crate) unsafe fn departed(&self, ptr: ItemPtr) -> RemovedItem<'_> {
        let item = self.arena.item(ptr).0;
        // SAFETY: the caller meets the duties of `View::new` (invariant 1 of `handle`).
        RemovedItem { found: ItemRef(unsafe { View::new(self, item, ptr) }), core: self, ptr }
    }

    /// Returns whether an item of a class with these hooks may be evicted: its key is not kept, and
    /// the hooks agree.
    ///
    /// # Safety
    /// As for [`Self::hooks_let_go`].
    #[inline]
    pub(crate) unsafe fn may_evict(&self, hooks: Option<&Hooks>, ptr: ItemPtr) -> bool {
        // SAFETY: the caller meets the duties of `key`, so that the item is not freed (invariants 2
        // and 5 of `slab::item`).
        unsafe { !self.is_kept(ptr) && hooks.is_none_or(|hooks| self.hooks_let_go(hooks, ptr)) }
    }

    /// Returns whether the hooks agree to the eviction of an item.
    ///
    /// # Safety
    /// As for [`slab::Item::key`]; and the item was published.
    pub(crate) unsafe fn hooks_let_go(&self, hooks: &Hooks, ptr: ItemPtr) -> bool {
        let item = self.arena.item(ptr).0;
        // SAFETY: the caller meets the duties of `key` while the hook is shown the item (invariant
        // 1 of `handle`).
        let found = ItemRef(unsafe { View::with_locks(self, item, ptr) });
        told(|| hooks.user.may_evict(found)).unwrap_or(true)
    }

    /// Tells that an item has left the index. The caller holds a reference, and no lock of a class
    /// or a bucket; perhaps one of an operation that takes memory from a class (`long_lock`).
    pub(crate) fn tell_removed(&self, hooks: &Hooks, ptr: ItemPtr, cause: RemovalCause) {
        // SAFETY: the caller holds a reference, so that the item is not freed (invariant 2 of
        // `slab::item`).
        let departed = unsafe { self.departed(ptr) };
        told(|| hooks.user.on_remove(departed, cause));
        hooks.leaving.lock().insert(ptr.to_bits(), cause);
        self.ledger.charge(Part::Fixed, LEAVING_BYTES);
    }

    /// Ends an item that this thread owns, whose chunk is about to be free: calls the hooks, and
    /// gives up what is chained to it. The caller holds no lock of a class or a bucket.
    #[cold]
    pub(crate) fn finish(&self, class: &Class, ptr: ItemPtr) {
        if let Some(hooks) = &class.hooks {
            let cause = hooks.leaving.lock().remove(&ptr.to_bits());
            // Without an entry it was never inserted.
            if let Some(cause) = cause {
                self.ledger.release(Part::Fixed, LEAVING_BYTES);
                // SAFETY: this thread owns the chunk, so that nobody else frees it (invariant 2 of
                // `slab::item`).
                let departed = unsafe { self.departed(ptr) };
                told(|| hooks.user.on_destroy(departed, cause));
            }
        }
        if self.arena.item(ptr).0.state().is_chained() {
            self.end_chain(ptr);
        }
    }

    /// Returns whether something is to be done when the item ends: [`Self::finish`], or
    /// [`Self::depart`].
    #[inline]
    pub(crate) fn wants_finish(&self, class: &Class, ptr: ItemPtr) -> bool {
        class.hooks.is_some()
            || self.lower_tier.get().is_some()
            || self.arena.item(ptr).0.state().is_chained()
    }
}

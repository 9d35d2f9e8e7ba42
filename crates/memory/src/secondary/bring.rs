//! Bringing items back into memory.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{ItemImage, Secondary, SecondaryKey};
use crate::cache::{Cache, Core};
use crate::class::fingerprint;
use crate::find::Keys;
use crate::find::fence::Fence;
use crate::handle::ReadHandle;
use crate::lifecycle::RemovalCause;
use crate::owned::OwnedHandle;
use crate::plant::Plant;

/// Times that a thread looks again for an item that another thread is evicting, before it lets its
/// caller ask again.
const LOOKS: u32 = 64;

/// The outcome of [`Keys::bring`].
#[derive(Debug)]
pub enum Brought<'c> {
    /// It is in memory, or nowhere.
    Ready(RetainedKey<'c>),
    /// It is on its way: ask again once that is done.
    Pending(Pending),
}

/// A key whose item is in memory, or nowhere. While this is held, whatever item the key has or gets
/// stays in memory until it is removed or expires. To be held for the time of an operation.
pub struct RetainedKey<'c> {
    item: Option<ReadHandle<'c>>,
    core: &'c Core,
    hash: u64,
}

impl<'c> RetainedKey<'c> {
    /// The item that the key had. `None`: it had none.
    pub fn item(&self) -> Option<&ReadHandle<'c>> {
        self.item.as_ref()
    }
}

impl std::fmt::Debug for RetainedKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetainedKey").field("item", &self.item).finish_non_exhaustive()
    }
}

impl Drop for RetainedKey<'_> {
    fn drop(&mut self) {
        if let Some(secondary) = Secondary::of(self.core) {
            secondary.keeps.end(fingerprint(self.hash));
        }
    }
}

/// An item on its way into memory. As a future, it is done when that is, or turned out to be in
/// vain. What was brought stays in memory as long as this is held, unless it is written.
#[derive(Debug)]
pub struct Pending {
    flight: Arc<Flight>,
    is_given_up: bool,
    /// Its number among those of the flight, by which its waker is known.
    number: u64,
}

impl Clone for Pending {
    fn clone(&self) -> Self {
        let mut copy = Self::new(Arc::clone(&self.flight));
        copy.is_given_up = self.is_given_up;
        copy
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.flight.forget_waker(self.number);
    }
}

impl Pending {
    fn new(flight: Arc<Flight>) -> Self {
        let number = flight.joined.fetch_add(1, Ordering::Relaxed);
        Self { flight, is_given_up: false, number }
    }

    /// Returns whether it has arrived, or will not, or was given up.
    pub fn is_done(&self) -> bool {
        self.is_given_up || self.flight.state.lock().is_done
    }

    /// Returns whether it was given up.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Waits no longer: who passes this to [`Keys::bring_again`] takes the key for absent, as if
    /// the item had been lost when it was evicted, and whoever brings the key after that begins a
    /// request of its own. The present request may still be answered, as long as its fence holds.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
        self.flight.forget_waker(self.number);
    }

    /// Has `waker` called once it is done; at once if it is. Replaces the waker of an earlier call.
    /// Once this is dropped, the waker is not called.
    pub fn wake(&self, waker: &Waker) {
        let mut state = self.flight.state.lock();
        if self.is_given_up || state.is_done {
            drop(state);
            return waker.wake_by_ref();
        }
        let before = state.wakers.insert(self.number, waker.clone());
        drop(state);
        // It may be somebody else's code.
        drop(before);
    }

    /// Returns whether nothing came of it, of a key with this hash, and nobody has written since;
    /// or nobody waits for it any longer.
    fn has_missed(&self, keys: Keys<'_>, hash: u64) -> bool {
        if self.is_given_up {
            return (self.flight.space, self.flight.hash) == (keys.space_number(), hash);
        }
        let state = self.flight.state.lock();
        state.missed.as_ref().is_some_and(|fence| fence.is_of(keys, hash) && fence.holds())
    }

    /// Blocks the thread until it is done, for this time at most. Returns whether it is.
    pub fn wait_for(&self, timeout: Duration) -> bool {
        let mut state = self.flight.state.lock();
        if !self.is_given_up {
            self.flight.done.wait_while_for(&mut state, |state| !state.is_done, timeout);
        }
        self.is_given_up || state.is_done
    }
}

impl Future for Pending {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_done() {
            return Poll::Ready(());
        }
        self.wake(context.waker());
        Poll::Pending
    }
}

/// The keys that are being fetched, by key space and key.
pub(super) type Flights = HashMap<(u16, Box<[u8]>), Arc<Flight>>;

/// A key that is being fetched.
pub(super) struct Flight {
    space: u16,
    hash: u64,
    /// Number of callers that have waited for it.
    joined: AtomicU64,
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    is_done: bool,
    /// Invariant 3.
    item: Option<OwnedHandle>,
    /// The fence of the request, if nothing came of it: as long as it holds, there is nothing.
    missed: Option<Fence>,
    /// By the number of the caller.
    wakers: BTreeMap<u64, Waker>,
}

impl std::fmt::Debug for Flight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flight").field("is_done", &self.state.lock().is_done).finish_non_exhaustive()
    }
}

impl Flight {
    fn new(space: u16, hash: u64) -> Arc<Self> {
        Arc::new(Self {
            space,
            hash,
            joined: AtomicU64::new(0),
            state: Mutex::default(),
            done: Condvar::new(),
        })
    }

    fn end(&self, item: Option<OwnedHandle>, missed: Option<Fence>) {
        let mut state = self.state.lock();
        (state.is_done, state.item, state.missed) = (true, item, missed);
        let wakers = std::mem::take(&mut state.wakers);
        self.done.notify_all();
        drop(state);
        wakers.into_values().for_each(Waker::wake);
    }

    fn forget_waker(&self, number: u64) {
        let waker = self.state.lock().wakers.remove(&number);
        // Without the lock: it may be somebody else's code.
        drop(waker);
    }
}

/// A key that a [`super::SecondaryCache`] is to fetch. Dropping it says that there is nothing.
pub struct Request {
    /// `None` once it was answered.
    fence: Option<Fence>,
    space: u16,
    hash: u64,
    key: Box<[u8]>,
    flight: Arc<Flight>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("key", &self.key()).finish_non_exhaustive()
    }
}

impl Request {
    /// The key.
    pub fn key(&self) -> SecondaryKey<'_> {
        SecondaryKey { space: self.space, hash: self.hash, bytes: &self.key }
    }

    /// Brings the item into memory. Returns `false` if nothing came of it: the item has expired,
    /// was flushed or written meanwhile, its pool is gone, or there is no memory. Those who wait
    /// for it take it for absent then, unless it was written.
    ///
    /// Allocates, and so may evict other items to the cache beneath; the caller must hold no lock
    /// that the methods of that cache need.
    pub fn hit(mut self, image: &ItemImage) -> bool {
        let Some(fence) = self.fence.take() else { return false };
        let item = self.put_back(&fence, image);
        let is_hit = item.is_some();
        self.end(fence, item);
        is_hit
    }

    fn put_back(&self, fence: &Fence, image: &ItemImage) -> Option<OwnedHandle> {
        let cache = fence.cache();
        let core = cache.core();
        if image.expires_at().is_some_and(|time| core.now() >= time) {
            // Nobody was told when its time came, as it lay beneath.
            core.note_change_by_itself(self.hash, || (image.pool(), &self.key));
            return None;
        }
        let item = image.make(cache, &self.key).ok().filter(|item| item.hash() == self.hash)?;
        let (space, made) = (core.keyspace(self.space), image.created_at());
        let holds = || {
            (fence.holds() || core.strikes(Plant::BroughtOverAWrite))
                && !space.is_flushed(made, || core.now())
        };
        Some(core.put_back(item, made, holds).ok()?.into_owned())
    }

    fn end(&self, fence: Fence, item: Option<OwnedHandle>) {
        let secondary = Secondary::of(fence.cache().core());
        let was_only = secondary.is_some_and(|secondary| secondary.land(&self.flight, &self.key));
        // Otherwise another request may have brought the item, and it was evicted again.
        let missed = (item.is_none() && was_only).then_some(fence);
        self.flight.end(item, missed);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(fence) = self.fence.take() {
            self.end(fence, None);
        }
    }
}

impl Secondary {
    /// Removes a flight that ends or was given up: who brings the key after that begins a request
    /// of its own. Returns whether it was the key's flight all the time.
    fn land(&self, flight: &Arc<Flight>, key: &[u8]) -> bool {
        let mut flights = self.flights.lock();
        let name = (flight.space, Box::from(key));
        let was_only = flights.get(&name).is_some_and(|present| Arc::ptr_eq(present, flight));
        if was_only {
            flights.remove(&name);
        }
        was_only
    }
}

/// The state of a key, seen with its bucket locked.
enum Look {
    Here,
    /// Another thread is evicting it.
    Leaving,
    LowerTier,
    Nowhere,
}

impl<'c> Keys<'c> {
    /// Brings the item of `key` into memory, if it is beneath ([`Cache::over`]),
    /// so that it can be found. Counts no access. To be called for each key of an operation before
    /// the operation; what it returns is to be held until that is done.
    #[doc(hidden)]
    pub fn bring(self, key: &[u8]) -> Brought<'c> {
        self.bring_again(key, &[])
    }

    /// [`Self::bring`] for a caller who has waited for these: of a key of which nothing came, and
    /// which nobody has written since, there is nothing.
    #[doc(hidden)]
    pub fn bring_again(self, key: &[u8], waited: &[Pending]) -> Brought<'c> {
        let core = self.core();
        let (space, hash) = (self.space_number(), self.hash(key));
        let Some(secondary) = Secondary::of(core) else {
            return Brought::Ready(RetainedKey { item: self.peek(key), core, hash });
        };
        // Invariant 4: before anything is looked at.
        secondary.keeps.begin(fingerprint(hash));
        let mut kept = RetainedKey { item: self.peek(key), core, hash };
        if kept.item.is_some() {
            return Brought::Ready(kept);
        }
        for _ in 0..LOOKS {
            match self.look_locked(secondary, SecondaryKey { space, hash, bytes: key }) {
                Look::Nowhere => return Brought::Ready(kept),
                Look::LowerTier if waited.iter().any(|pending| pending.has_missed(self, hash)) => {
                    for pending in waited.iter().filter(|pending| pending.is_given_up()) {
                        secondary.land(&pending.flight, key);
                    }
                    return Brought::Ready(kept);
                }
                Look::LowerTier => {
                    drop(kept);
                    return Brought::Pending(self.fetch(secondary, key));
                }
                Look::Here => {
                    // It may have expired, or have come since.
                    kept.item = self.peek(key);
                    return Brought::Ready(kept);
                }
                Look::Leaving => std::thread::yield_now(),
            }
        }
        let flight = Flight::new(space, hash);
        flight.end(None, None);
        Brought::Pending(Pending::new(flight))
    }

    /// [`Self::bring`], which blocks the thread for as long as the item is on its way, and takes
    /// the key for absent after [`Cache::fetch_timeout`].
    #[doc(hidden)]
    pub fn bring_blocking(self, key: &[u8]) -> RetainedKey<'c> {
        loop {
            match self.bring(key) {
                Brought::Ready(kept) => return kept,
                Brought::Pending(mut pending) => {
                    let timeout = Secondary::of(self.core()).map(|secondary| secondary.cache.fetch_timeout());
                    if !pending.wait_for(timeout.unwrap_or_default()) {
                        pending.give_up();
                    }
                    // It is held until it is found.
                    if let Brought::Ready(kept) = self.bring_again(key, &[pending]) {
                        return kept;
                    }
                }
            }
        }
    }

    fn look_locked(self, secondary: &Secondary, key: SecondaryKey<'_>) -> Look {
        let core = self.core();
        let guard = core.index.lock(key.hash);
        match guard.find(|ptr| core.has_key_of(ptr, key.space, key.bytes)) {
            Some(slot) if core.arena.item(guard.ptr(slot)).0.state().is_indexed() => Look::Here,
            Some(_) => Look::Leaving,
            // Invariant 1.
            None if !self.is_gone() && secondary.cache.may_have(key) => Look::LowerTier,
            None => Look::Nowhere,
        }
    }

    /// Joins the flight of a key, or begins one.
    ///
    /// From the look on that follows the fence and the flight, only a write, which voids the fence,
    /// can put an item of the key into memory: so a request that ends in vain while its fence holds
    /// says that there is none (invariant 5).
    fn fetch(self, secondary: &Secondary, key: &[u8]) -> Pending {
        // Made first (invariant 2), and with no lock held.
        let fence = self.fence(key);
        let (space, hash) = (self.space_number(), self.hash(key));
        let name = (space, Box::from(key));
        let flight = {
            let mut flights = secondary.flights.lock();
            if let Some(flight) = flights.get(&name) {
                return Pending::new(Arc::clone(flight));
            }
            let flight = Flight::new(space, hash);
            flights.insert(name, Arc::clone(&flight));
            flight
        };
        let pending = Pending::new(Arc::clone(&flight));
        match self.look_locked(secondary, SecondaryKey { space, hash, bytes: key }) {
            Look::LowerTier => {
                secondary.cache.fetch(Request { fence: Some(fence), space, hash, key: key.into(), flight });
            }
            // It has come meanwhile, or has gone: to be looked at again.
            Look::Here | Look::Leaving | Look::Nowhere => {
                secondary.land(&flight, key);
                flight.end(None, None);
            }
        }
        pending
    }

    /// Evicts the item of `key`, as if its turn had come. Returns `false` if there is none, if it
    /// is held, or if a [`crate::Lifecycle`] keeps it.
    #[doc(hidden)]
    pub fn evict(self, key: &[u8]) -> bool {
        let (space, hash) = (self.space_number(), self.hash(key));
        !self.is_gone() && self.core().evict_item(SecondaryKey { space, hash, bytes: key })
    }
}

impl Cache {
    /// [`Keys::evict`], for a [`super::SecondaryCache`] that wants an item.
    #[doc(hidden)]
    pub fn hand_down(&self, key: SecondaryKey<'_>) -> bool {
        self.core().evict_item(key)
    }

    /// Returns whether memory has an item of a key, which may have expired.
    #[doc(hidden)]
    pub fn has(&self, SecondaryKey { space, hash, bytes }: SecondaryKey<'_>) -> bool {
        let core = self.core();
        core.index.lock(hash).find(|ptr| core.is_item_of(ptr, space, bytes)).is_some()
    }
}

impl Core {
    fn evict_item(&self, SecondaryKey { space, hash, bytes }: SecondaryKey<'_>) -> bool {
        // Until the item has ended.
        let using = self.pools.enter();
        let guard = self.index.lock(hash);
        let slot = guard.find(|ptr| self.is_item_of(ptr, space, bytes));
        let Some(ptr) = slot.map(|slot| guard.ptr(slot)) else { return false };
        // SAFETY: this thread uses the table of pools, and the bucket that points to the item is
        // locked, so that its chunk stays its own (invariant 2 of `Index`).
        let (class, may_go) = unsafe {
            let class = self.class_of(self.arena.item(ptr).1);
            (class, self.may_evict(class.hooks.as_deref(), ptr))
        };
        let mut inner = class.inner.lock();
        let is_claimed = may_go && inner.claim(self, ptr).is_ok();
        inner.settle(self);
        drop(inner);
        drop(guard);
        if is_claimed {
            self.end_claimed(class, RemovalCause::Evicted, vec![ptr]);
        }
        drop(using);
        is_claimed
    }
}

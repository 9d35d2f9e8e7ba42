//! Flights: who loads which key, and who waits for it.
//!
//! A *flight* is one run of a loader for one key. The table of flights has shards by the key's
//! hash; a flight is in the table while another caller may join it. Whoever starts one has its
//! [`Claim`]; dropping the claim ends the flight, so that no way out of a loader – return, error,
//! panic, a future that is dropped – leaves anybody waiting.
//!
//! What must hold:
//! 1. At most one flight of a key is in the table. A flight leaves it when it is done, or before
//!    that when it is void.
//! 2. A void flight stores nothing. It cannot become void once it stores: [`Flights::void`] then
//!    waits until it is done, so that what it stored is there for the caller to remove.
//! 3. Whoever waits is woken when the flight is done, and it is done when its claim is gone.
//! 4. Locks: a shard of the table, then the state of a flight. No engine call, loader or waker runs
//!    under either.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use base::hash::key_hash;
use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};

use super::value::LoadError;

/// Shards of the table.
const SHARDS: usize = 64;

/// The outcome of a flight, for those who waited for it.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// With a value, or with the knowledge that there is none.
    Value(Option<Arc<Vec<u8>>>),
    /// With an error.
    Failed(LoadError),
    /// Without a result: look again, and load if need be.
    Again,
}

/// The phase of a flight.
enum Phase {
    Loading,
    /// This thread puts the value into the cache.
    Storing(ThreadId),
    Done(Outcome),
}

struct State {
    phase: Phase,
    /// True if the key was written or removed since the flight began.
    void: bool,
    /// Futures that wait, by number.
    wakers: Vec<(u64, Waker)>,
    next_waker: u64,
}

/// One run of a loader for one key.
pub(super) struct Flight {
    key: Arc<[u8]>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Flight {
    fn new(key: Arc<[u8]>) -> Self {
        let state = State { phase: Phase::Loading, void: false, wakers: Vec::new(), next_waker: 0 };
        Self { key, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for the end, at most for `limit`; `None`: it was not reached.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Option<Outcome> {
        let mut state = self.state.lock();
        let is_open = |state: &mut State| !matches!(state.phase, Phase::Done(_));
        match limit {
            None => self.changed.wait_while(&mut state, is_open),
            Some(limit) => {
                let _ = self.changed.wait_while_for(&mut state, is_open, limit);
            }
        }
        match &state.phase {
            Phase::Done(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }
}

/// All flights of a loader.
pub(super) struct Flights {
    shards: Box<[Shard]>,
    seed: u64,
    waiting: AtomicU64,
}

type Shard = CachePadded<Mutex<HashMap<Arc<[u8]>, Arc<Flight>>>>;

/// The part in a flight of a caller who needs a value.
pub(super) enum Joined {
    /// Load it.
    Leads(Claim),
    /// Wait for it.
    Waits(Arc<Flight>),
}

impl Flights {
    pub(super) fn new(seed: u64) -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::default()).collect(), seed, waiting: AtomicU64::new(0) }
    }

    fn shard(&self, key: &[u8]) -> &Shard {
        // The remainder is below the number of shards.
        &self.shards[key_hash(self.seed, key) as usize % SHARDS]
    }

    /// Joins the key's flight, or starts one.
    pub(super) fn join(self: &Arc<Self>, key: &[u8]) -> Joined {
        let mut shard = self.shard(key).lock();
        if let Some(flight) = shard.get(key) {
            return Joined::Waits(Arc::clone(flight));
        }
        let flight = Arc::new(Flight::new(Arc::from(key)));
        shard.insert(Arc::clone(&flight.key), Arc::clone(&flight));
        Joined::Leads(Claim { flights: Arc::clone(self), flight, is_done: false })
    }

    /// Starts a flight in the place of one that is too slow, which becomes void. `None`: it is
    /// about to end, or was replaced already; look again.
    pub(super) fn take_over(self: &Arc<Self>, late: &Arc<Flight>) -> Option<Claim> {
        let mut shard = self.shard(&late.key).lock();
        if !shard.get(&late.key).is_some_and(|flight| Arc::ptr_eq(flight, late)) {
            return None;
        }
        let mut state = late.state.lock();
        if !matches!(state.phase, Phase::Loading) {
            return None;
        }
        state.void = true;
        drop(state);
        let flight = Arc::new(Flight::new(Arc::clone(&late.key)));
        shard.insert(Arc::clone(&flight.key), Arc::clone(&flight));
        Some(Claim { flights: Arc::clone(self), flight, is_done: false })
    }

    /// Makes the key's flight void: what it loads may be older than what the caller is about to do
    /// to the key. Who joined it gets its value all the same; who comes later starts another.
    ///
    /// Waits for a flight that is putting its value into the cache, unless it is this thread that
    /// does.
    pub(super) fn void(&self, key: &[u8]) {
        let mut shard = self.shard(key).lock();
        let Some(flight) = shard.get(key).cloned() else { return };
        let mut state = flight.state.lock();
        if let Phase::Loading = state.phase {
            state.void = true;
            shard.remove(key);
            return;
        }
        drop(shard);
        let me = std::thread::current().id();
        let is_storing = |state: &mut State| matches!(state.phase, Phase::Storing(thread) if thread != me);
        flight.changed.wait_while(&mut state, is_storing);
    }

    /// [`Self::void`] for all keys.
    pub(super) fn void_all(&self) {
        for shard in &self.shards {
            let keys: Vec<_> = shard.lock().keys().cloned().collect();
            keys.iter().for_each(|key| self.void(key));
        }
    }

    /// Waits for a flight on the calling thread, at most for `limit`.
    pub(super) fn wait(&self, flight: &Flight, limit: Option<Duration>) -> Option<Outcome> {
        let _counted = Counted::new(&self.waiting);
        flight.wait(limit)
    }

    /// A future of the end of a flight.
    pub(super) fn ended(self: &Arc<Self>, flight: Arc<Flight>) -> Ended {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ended { flights: Arc::clone(self), flight, number: None }
    }

    /// Returns the number of callers that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the number of flights that may be joined.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

/// Counts a caller who waits for as long as it lives.
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The right, and the duty, to end a flight.
pub(super) struct Claim {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    is_done: bool,
}

impl Claim {
    /// The key to be loaded.
    pub(super) fn key(&self) -> Arc<[u8]> {
        Arc::clone(&self.flight.key)
    }

    /// Says that the value is now put into the cache, by this thread. `false`: the flight is void,
    /// and it must not be.
    pub(super) fn begin_storing(&self) -> bool {
        let mut state = self.flight.state.lock();
        if state.void {
            return false;
        }
        state.phase = Phase::Storing(std::thread::current().id());
        true
    }

    /// Ends the flight and wakes who waits for it.
    pub(super) fn finish(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        self.is_done = true;
        let mut shard = self.flights.shard(&self.flight.key).lock();
        if shard.get(&self.flight.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            shard.remove(&self.flight.key);
        }
        drop(shard);
        let mut state = self.flight.state.lock();
        state.phase = Phase::Done(outcome);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.flight.changed.notify_all();
        for (_, waker) in wakers {
            waker.wake();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // A loader that panics would most likely do so for the next caller too; a future that was
        // dropped says nothing about the loader, and one of those who wait goes on in its place.
        let panicking = std::thread::panicking();
        self.end(if panicking { Outcome::Failed(LoadError::Panicked) } else { Outcome::Again });
    }
}

/// A future of the end of a flight. Dropping it leaves the flight as it is.
pub(super) struct Ended {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    /// The number of the waker that was last left.
    number: Option<u64>,
}

impl Future for Ended {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let flight = Arc::clone(&self.flight);
        let mut state = flight.state.lock();
        if let Phase::Done(outcome) = &state.phase {
            return Poll::Ready(outcome.clone());
        }
        let number = self.number.unwrap_or_else(|| {
            state.next_waker += 1;
            state.next_waker
        });
        self.number = Some(number);
        let waker = context.waker().clone();
        let replaced = match state.wakers.iter_mut().find(|(left, _)| *left == number) {
            Some((_, left)) => Some(std::mem::replace(left, waker)),
            None => {
                state.wakers.push((number, waker));
                None
            }
        };
        // A waker's drop is not ours to run under a lock.
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.flights.waiting.fetch_sub(1, Ordering::Relaxed);
        let Some(number) = self.number else { return };
        let mut state = self.flight.state.lock();
        let place = state.wakers.iter().position(|(left, _)| *left == number);
        let left = place.map(|place| state.wakers.swap_remove(place));
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests;

//! Flights: who loads which key, and who waits for it.
//!
//! A *flight* is one run of a loader for one key. The table of flights has shards by the key's
//! hash; a flight is in the table while another caller may join it. Whoever starts one has its
//! [`LeaderDuty`]; dropping that ends the flight, so that no way out of a loader – return, error,
//! panic, a future that is dropped – leaves anybody waiting.
//!
//! What must hold:
//! 1. At most one flight of a key is in the table. A flight leaves it when it is done, or before
//!    that when another takes its place.
//! 2. A flight whose key was written since its [`Fence`] was made is not joined. The fence is made
//!    when the flight begins, or anew when its load does, and is set under the lock of the shard.
//! 3. Whoever waits is woken when the flight is done, and it is done when its claim is gone.
//! 4. Locks: a shard of the table, then the state of a flight. No loader or waker runs under
//!    either; no call of the engine but the question whether a fence holds, which takes no lock.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::hash::key_hash;
use crossbeam_utils::CachePadded;
use memory::Fence;
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

struct State {
    /// The outcome, once the flight is done.
    outcome: Option<Outcome>,
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
        let state = State { outcome: None, wakers: Vec::new(), next_waker: 0 };
        Self { key, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for the end, at most for `limit`; `None`: it was not reached.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Option<Outcome> {
        let mut state = self.state.lock();
        let is_open = |state: &mut State| state.outcome.is_none();
        match limit {
            None => self.changed.wait_while(&mut state, is_open),
            Some(limit) => {
                let _ = self.changed.wait_while_for(&mut state, is_open, limit);
            }
        }
        state.outcome.clone()
    }
}

/// All flights of a loader.
pub(super) struct Flights {
    shards: Box<[Shard]>,
    seed: u64,
    waiting: AtomicU64,
}

type Shard = CachePadded<Mutex<HashMap<Arc<[u8]>, Entry>>>;

/// A flight that may be joined, for as long as its fence holds. Before it has one, it has not begun
/// to load.
struct Entry {
    flight: Arc<Flight>,
    fence: Option<Arc<Fence>>,
}

impl Entry {
    fn is_of(&self, flight: &Arc<Flight>) -> bool {
        Arc::ptr_eq(&self.flight, flight)
    }

    fn is_void(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| !fence.holds())
    }
}

/// The role of a caller who needs a value.
pub(super) enum Joined {
    /// Load it.
    Leads(LeaderDuty),
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

    /// Joins the key's flight, or starts one if there is none or the present one is void. Callers
    /// that joined the void one before still receive its value.
    pub(super) fn join(self: &Arc<Self>, key: &[u8]) -> Joined {
        let mut shard = self.shard(key).lock();
        match shard.get(key) {
            Some(entry) if !entry.is_void() => Joined::Waits(Arc::clone(&entry.flight)),
            _ => Joined::Leads(self.start(&mut shard, Arc::from(key))),
        }
    }

    /// Starts a flight in the place of one that is too slow, which may no longer store. `None`: it
    /// has just ended, or was replaced already; look again.
    pub(super) fn take_over(self: &Arc<Self>, late: &Arc<Flight>) -> Option<LeaderDuty> {
        let mut shard = self.shard(&late.key).lock();
        let entry = shard.get(&late.key).filter(|entry| entry.is_of(late))?;
        // Before the next flight has its fence: either that one's sees what is stored, or nothing
        // is.
        entry.fence.iter().for_each(|fence| fence.give_up());
        Some(self.start(&mut shard, Arc::clone(&late.key)))
    }

    fn start(self: &Arc<Self>, shard: &mut HashMap<Arc<[u8]>, Entry>, key: Arc<[u8]>) -> LeaderDuty {
        let flight = Arc::new(Flight::new(key));
        shard.insert(Arc::clone(&flight.key), Entry { flight: Arc::clone(&flight), fence: None });
        LeaderDuty { flights: Arc::clone(self), flight, fence: None, is_done: false }
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
        let joinable = |shard: &Shard| shard.lock().values().filter(|entry| !entry.is_void()).count();
        self.shards.iter().map(joinable).sum()
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
pub(super) struct LeaderDuty {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    fence: Option<Arc<Fence>>,
    is_done: bool,
}

impl LeaderDuty {
    /// The key to be loaded.
    pub(super) fn key(&self) -> Arc<[u8]> {
        Arc::clone(&self.flight.key)
    }

    /// Sees to it that the flight has a fence that holds: the one that it has, or one that `make`
    /// makes. `false`: another flight is in its place.
    pub(super) fn begin(&mut self, make: impl FnOnce() -> Fence) -> bool {
        if self.fence().is_some() {
            return true;
        }
        let fence = Arc::new(make());
        let mut shard = self.flights.shard(&self.flight.key).lock();
        let entry = shard.get_mut(&self.flight.key);
        let Some(entry) = entry.filter(|entry| entry.is_of(&self.flight)) else {
            return false;
        };
        entry.fence = Some(Arc::clone(&fence));
        drop(shard);
        self.fence = Some(fence);
        true
    }

    /// The fence under which the value may be stored, if it may still be.
    pub(super) fn fence(&self) -> Option<&Fence> {
        self.fence.as_deref().filter(|fence| fence.holds())
    }

    /// Ends the flight and wakes who waits for it.
    pub(super) fn finish(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        self.is_done = true;
        let mut shard = self.flights.shard(&self.flight.key).lock();
        if shard.get(&self.flight.key).is_some_and(|entry| entry.is_of(&self.flight)) {
            shard.remove(&self.flight.key);
        }
        drop(shard);
        let mut state = self.flight.state.lock();
        state.outcome = Some(outcome);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.flight.changed.notify_all();
        for (_, waker) in wakers {
            waker.wake();
        }
    }
}

impl Drop for LeaderDuty {
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
        if let Some(outcome) = &state.outcome {
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

//! A cache beneath memory that answers late: for tests that everything works over one.
//!
//! It takes whatever is evicted, and copies it in the next round if it could be held until then. It
//! has all that is written or brought back evicted, as soon as nobody holds it. So hardly any
//! request finds its item in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond::WeakCache;
use millpond::secondary::{DemotedItem, ItemImage, OutgoingHandle, Request, SecondaryCache, SecondaryKey};

/// Time between two rounds of answers and evictions.
const PACE: Duration = Duration::from_micros(50);
/// Rounds that an answer takes, at most.
const MOST_ROUNDS: u64 = 4;
/// Keys that are to be evicted next, at most.
const MOST_KEYS: usize = 4_096;

/// See the module.
#[derive(Default)]
pub(crate) struct Late(Mutex<State>);

#[derive(Default)]
struct State {
    /// The items by key, with the tickets of their admission; `None` while one is on its way down.
    items: HashMap<Name, (u64, Option<ItemImage>)>,
    /// Items that are held until they are copied, with those tickets.
    outgoing: Vec<(Name, u64, OutgoingHandle)>,
    /// Requests, with the rounds that each still takes.
    asked: Vec<(u64, Request)>,
    /// Keys that memory may have.
    above: VecDeque<(Name, u64)>,
    rounds: u64,
    tickets: u64,
    fetched: u64,
    /// True while no request is answered.
    hangs: bool,
}

type Name = (u16, Vec<u8>);

fn name(key: SecondaryKey<'_>) -> Name {
    (key.space, key.bytes.to_vec())
}

impl SecondaryCache for Late {
    fn admit(&self, key: SecondaryKey<'_>) -> Option<u64> {
        let mut state = self.lock();
        state.tickets += 1;
        let ticket = state.tickets;
        state.items.insert(name(key), (ticket, None));
        Some(ticket)
    }

    fn insert(&self, key: SecondaryKey<'_>, ticket: u64, item: DemotedItem<'_>) {
        match item.hold() {
            Some(handle) => self.lock().outgoing.push((name(key), ticket, handle)),
            None => {
                let image = item.image().expect("it has no links of its own");
                self.lock().place(&name(key), ticket, image);
            }
        }
    }

    fn erase(&self, key: SecondaryKey<'_>) {
        let mut state = self.lock();
        state.items.remove(&name(key));
        if state.above.len() < MOST_KEYS {
            state.above.push_back((name(key), key.hash));
        }
    }

    fn may_have(&self, key: SecondaryKey<'_>) -> bool {
        self.lock().items.contains_key(&name(key))
    }

    /// Long, since the machine may be busy, unless a test is about it.
    fn fetch_timeout(&self) -> Duration {
        Duration::from_secs(if self.lock().hangs { 1 } else { 60 })
    }

    fn fetch(&self, request: Request) {
        let mut state = self.lock();
        let takes = (request.key().hash ^ state.rounds) % MOST_ROUNDS;
        state.asked.push((takes, request));
    }
}

impl State {
    /// Stores the copy of an item, unless the key was written since it came down.
    fn place(&mut self, name: &Name, ticket: u64, image: ItemImage) {
        if let Some((last, place)) = self.items.get_mut(name)
            && *last == ticket
        {
            *place = Some(image);
        }
    }
}

impl Late {
    /// Has threads answer and evict for as long as there is the cache.
    pub(crate) fn serve(self: &Arc<Self>, cache: &WeakCache) {
        let (late, cache) = (Arc::clone(self), cache.clone());
        let body = move || {
            while late.round(&cache) {
                base::thread::sleep(PACE);
            }
        };
        base::thread::spawn("late", body).expect("a thread");
    }

    /// Answers what is due, and evicts what nobody holds. `false`: the cache is gone.
    fn round(&self, cache: &WeakCache) -> bool {
        let Some(cache) = cache.upgrade() else { return false };
        let outgoing = std::mem::take(&mut self.lock().outgoing);
        for (name, ticket, handle) in outgoing {
            let image = handle.item().image().expect("it has no links of its own");
            self.lock().place(&name, ticket, image);
        }
        let mut state = self.lock();
        state.rounds += 1;
        let hangs = state.hangs;
        let above: Vec<(Name, u64)> = state.above.drain(..).collect();
        let mut due = Vec::new();
        for (takes, request) in std::mem::take(&mut state.asked) {
            match state.items.get(&name(request.key())) {
                _ if hangs => state.asked.push((takes, request)),
                Some((_, Some(image))) if takes == 0 => due.push((request, Some(image.clone()))),
                None if takes == 0 => due.push((request, None)),
                _ => state.asked.push((takes.saturating_sub(1), request)),
            }
        }
        state.fetched += due.len() as u64;
        drop(state);
        for (request, image) in due {
            if let Some(image) = image {
                request.hit(&image);
            }
        }
        let mut held = Vec::new();
        for (name, hash) in above {
            let key = SecondaryKey { space: name.0, hash, bytes: &name.1 };
            if !cache.hand_down(key) && cache.has(key) {
                held.push((name, hash));
            }
        }
        self.lock().above.extend(held);
        true
    }

    /// Has no request be answered from now on, or all that were not.
    pub(crate) fn hang(&self, hangs: bool) {
        self.lock().hangs = hangs;
    }

    /// The number of requests that were answered.
    pub(crate) fn fetched(&self) -> u64 {
        self.lock().fetched
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

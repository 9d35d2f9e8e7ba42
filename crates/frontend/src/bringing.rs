//! Waiting for items that are beneath memory: before a request is carried out, its keys are brought
//! into memory, and held there until it is done.

use std::sync::Arc;
use std::task::{Wake, Waker};

use millpond::Keys;
use millpond::secondary::{Brought, Kept, Pending};

use crate::connections::ConnectionInfo;
use crate::mailbox::{Mailbox, Message, Token};
use crate::shared::Shared;

/// The items that the request at the front of a connection waits for, and the keys that it has been
/// given already: those stay, so that each attempt is nearer to all of them.
#[derive(Debug, Default)]
pub struct Bringing<'c> {
    pending: Vec<Pending>,
    kept: Vec<Kept<'c>>,
    /// Time at which waiting is in vain, in nanoseconds of the monotonic clock.
    until: u64,
}

impl<'c> Bringing<'c> {
    /// Returns whether an item is still on its way.
    pub fn is_waiting(&self) -> bool {
        self.pending.iter().any(|pending| !pending.is_done())
    }

    /// Waits no longer for what has taken too long ([`millpond::Cache::patience`]): a device that
    /// hangs must not hold up clients. Returns whether there is such an item; the connection is to
    /// go on without it. To be called once a second.
    pub fn give_up(&mut self, now_nanos: u64) -> bool {
        let is_overdue = now_nanos >= self.until && self.is_waiting();
        if is_overdue {
            self.pending.iter_mut().filter(|pending| !pending.is_done()).for_each(Pending::give_up);
        }
        is_overdue
    }

    /// Brings the items of `keys`, each named once, into memory, and keeps them there as long as
    /// the result is held: until the request is done. `None`: some are on their way, and the
    /// connection is woken when they have come ([`Message::Brought`]); its turn ends with
    /// [`crate::turn::Next::Bring`].
    pub fn bring<'k>(
        &mut self,
        (shared, info): (&Shared, &ConnectionInfo),
        space: Keys<'c>,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Option<Vec<Kept<'c>>> {
        let (mut kept, mut pending) = (Vec::new(), Vec::new());
        for key in keys {
            match space.bring_again(key, &self.pending) {
                Brought::Kept(key) => kept.push(key),
                Brought::Pending(item) => pending.push(item),
            }
        }
        if pending.is_empty() {
            self.pending.clear();
            self.kept.clear();
            return Some(kept);
        }
        if let Some((worker, token)) = info.place.get()
            && let Some(worker) = shared.workers.get(*worker)
        {
            let waker = Waker::from(Arc::new(Woken(Arc::clone(&worker.mailbox), *token)));
            pending.iter().for_each(|item| item.wake(&waker));
        }
        let now = shared.clock.monotonic_nanos();
        if self.pending.is_empty() || now >= self.until {
            self.until = now.saturating_add(shared.cache.patience().as_nanos() as u64);
        }
        // What was kept before stays kept until here.
        self.kept = kept;
        self.pending.extend(pending);
        None
    }
}

/// The connection to be woken.
struct Woken(Arc<Mailbox>, Token);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.send(Message::Brought(self.1));
    }
}

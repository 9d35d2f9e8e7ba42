//! Waiting for items that are beneath memory: before a request is carried out, its keys are brought
//! into memory, and held there until it is done.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Wake, Waker};

use millpond::Keys;
use millpond::secondary::{Brought, Pending, RetainedKey};

use crate::connections::ConnectionInfo;
use crate::mailbox::{Mailbox, Message, Token};
use crate::shared::Shared;

/// A key whose item a request needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// The key.
    pub key: Vec<u8>,
    /// True if the request may change what the key has.
    pub is_written: bool,
}

/// The items that the request at the front of a connection waits for or has waited for, and the
/// keys that it has been given already: those stay, so that each attempt is nearer to all of them.
#[derive(Debug, Default)]
pub struct Bringing<'c> {
    waits: HashMap<Vec<u8>, Wait>,
    /// Keys whose items may still be on their way: those that have come are taken from its end.
    waiting: Vec<Pending>,
    kept: Vec<RetainedKey<'c>>,
    waker: Option<Waker>,
}

/// An item that a request waits for.
#[derive(Debug)]
struct Wait {
    item: Pending,
    /// Time at which waiting is in vain, in nanoseconds of the monotonic clock.
    until: u64,
}

impl<'c> Bringing<'c> {
    /// Returns whether an item is still on its way.
    pub fn is_waiting(&mut self) -> bool {
        while self.waiting.last().is_some_and(Pending::is_done) {
            self.waiting.pop();
        }
        !self.waiting.is_empty()
    }

    /// Waits no longer for what has taken too long ([`millpond::Cache::fetch_timeout`]): a device
    /// that hangs must not hold up clients. Returns whether there is such an item; the connection
    /// is to go on without it. To be called once a second.
    pub fn give_up(&mut self, now_nanos: u64) -> bool {
        if !self.is_waiting() {
            return false;
        }
        let overdue = self.waits.values_mut().filter(|wait| wait.until <= now_nanos && !wait.item.is_done());
        let mut has_some = false;
        for wait in overdue {
            wait.item.give_up();
            has_some = true;
        }
        if has_some {
            self.waiting.clear();
            let left = self.waits.values().filter(|wait| !wait.item.is_done());
            self.waiting.extend(left.map(|wait| wait.item.clone()));
        }
        has_some
    }

    /// Brings the items of `keys`, each given once, into memory, and keeps those keys until the
    /// result is dropped: until the request is carried out. Returns `None` if some are still on
    /// their way: the turn then ends with [`crate::turn::Next::AwaitItems`], and
    /// [`Message::Brought`] wakes the connection.
    ///
    /// A key that was given up is absent, and if the request may change what it has, it is removed:
    /// what the client was told is gone does not come back.
    pub fn bring(
        &mut self,
        (shared, info): (&Shared, &ConnectionInfo),
        space: Keys<'c>,
        keys: &[Needed],
    ) -> Option<Vec<RetainedKey<'c>>> {
        let (mut kept, mut is_pending) = (Vec::with_capacity(keys.len()), false);
        for Needed { key, is_written } in keys {
            let waited = self.waits.get(key);
            let waited_for = waited.map(|wait| std::slice::from_ref(&wait.item)).unwrap_or_default();
            match space.bring_again(key, waited_for) {
                Brought::Ready(found) => {
                    let is_lost =
                        found.item().is_none() && waited.is_some_and(|wait| wait.item.is_given_up());
                    if is_lost && *is_written {
                        space.remove(key);
                    }
                    kept.push(found);
                }
                Brought::Pending(item) => {
                    is_pending = true;
                    self.await_item(shared, info, key, item);
                }
            }
        }
        if !is_pending {
            self.kept.clear();
            return Some(kept);
        }
        // What was kept before stays kept until here.
        self.kept = kept;
        None
    }

    fn await_item(&mut self, shared: &Shared, info: &ConnectionInfo, key: &[u8], item: Pending) {
        if let Some((worker, token)) = info.place.get()
            && let Some(worker) = shared.workers.get(*worker)
        {
            let waker = self
                .waker
                .get_or_insert_with(|| Waker::from(Arc::new(Woken(Arc::clone(&worker.mailbox), *token))));
            item.wake(waker);
        }
        self.waiting.push(item.clone());
        let fetch_timeout = shared.cache.fetch_timeout().as_nanos() as u64;
        let until = shared.clock.monotonic_nanos().saturating_add(fetch_timeout);
        match self.waits.get_mut(key) {
            // However often it is asked for: the timeout is that of the request for this key.
            Some(wait) => wait.item = item,
            None => drop(self.waits.insert(key.to_vec(), Wait { item, until })),
        }
    }

    /// Forgets what the request waited for: it was carried out, or refused.
    pub fn end(&mut self) {
        if !self.waits.is_empty() || !self.kept.is_empty() {
            self.waits.clear();
            self.waiting.clear();
            self.kept.clear();
        }
    }
}

/// The connection to be woken.
struct Woken(Arc<Mailbox>, Token);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.send(Message::Brought(self.1));
    }
}

//! State that a connection keeps from command to command.

use protocol::resp::{Version, reply};

use super::tracking::Tracks;
use protocol::resp::commands::Spec;
use tenancy::users::Delay;

/// The client's choice of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Replies {
    #[default]
    On,
    Off,
    /// Not to the next command.
    SkipNext,
}

/// The most commands that a transaction may have: they are carried out in one go.
pub(super) const MAX_QUEUED: usize = 65_536;

/// A transaction that is being put together.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The commands, as requests.
    pub(super) requests: Vec<u8>,
    pub(super) count: usize,
    /// A command was refused, and so the transaction will be.
    pub(super) is_spoilt: bool,
    /// One of them may change something.
    pub(super) has_writes: bool,
}

impl Transaction {
    /// Adds a command; false where there is no room within `max_bytes`.
    pub(super) fn queue(&mut self, args: &[&[u8]], max_bytes: usize) -> bool {
        let bytes: usize = args.iter().map(|arg| arg.len() + 32).sum();
        if self.count >= MAX_QUEUED || self.requests.len() + bytes > max_bytes {
            return false;
        }
        reply::request(&mut self.requests, args.iter().copied());
        self.count += 1;
        self.has_writes |= args.first().and_then(|name| Spec::find(name)).is_some_and(Spec::writes);
        true
    }
}

/// A key whose change lets the next transaction fail.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) key: Box<[u8]>,
    /// The token of its state when it was watched; `None` if there was no item.
    pub(super) token: Option<(u64, u32)>,
    /// The connection has switched to another tenant since: the key counts as changed.
    pub(super) is_elsewhere: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) version: Version,
    pub(super) replies: Replies,
    pub(super) transaction: Option<Transaction>,
    pub(super) watched: Vec<Watched>,
    /// The database that was chosen.
    pub(super) database: u32,
    /// A transaction is being carried out.
    pub(super) is_executing: bool,
    /// It has asked for its own end, which comes after the reply.
    pub(super) is_leaving: bool,
    /// Time at which the present request, which had a wrong password, is answered.
    pub(super) delay: Option<Delay>,
    /// Settings by which the client is notified of changes, if it is.
    pub(super) tracking: Option<Tracks>,
}

impl Client {
    /// Returns the number of commands in the transaction, and their bytes.
    pub(super) fn queued(&self) -> Option<(usize, usize)> {
        let transaction = self.transaction.as_ref()?;
        Some((transaction.count, transaction.requests.capacity()))
    }

    /// Memory that it has taken, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let queued = self.transaction.as_ref().map_or(0, |transaction| transaction.requests.capacity());
        let watched: usize =
            self.watched.iter().map(|watched| watched.key.len() + size_of::<Watched>()).sum();
        queued + watched + self.tracking.as_ref().map_or(0, Tracks::held_bytes)
    }
}

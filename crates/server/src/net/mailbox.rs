//! Messages to a worker, with a descriptor that wakes it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};

use super::listener::Peer;
use super::table::Token;
use crate::tenants::Tenant;

/// What a worker may be told.
pub(crate) enum Message {
    /// Serve this connection, accepted on the listener of that number.
    Serve(OwnedFd, Peer, usize),
    /// Say that you are alive.
    Beat,
    /// Send these connections, if they are there yet, these bytes between two replies.
    Push(Vec<(Token, Vec<u8>)>),
    /// Close this connection, if it is there yet: a client has asked for it.
    Close(Token),
    /// Close connections of this tenant, for as long as it is asked to give up memory.
    Shed(Arc<Tenant>),
    /// Some who wait for their tenant's clients to go on may do so.
    LookAtPauses,
    /// A command that took long is done, or there is nobody any more who does them.
    Returned,
    /// Look at the settings again.
    Reload,
    /// Stop accepting, answer what has arrived, and end.
    Drain,
}

/// A worker's inbox. Any thread may send.
pub(crate) struct Mailbox {
    messages: Mutex<Vec<Message>>,
    wake: OwnedFd,
}

impl Mailbox {
    /// An empty inbox.
    ///
    /// # Errors
    /// Where there is no descriptor left.
    pub(crate) fn new() -> std::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { messages: Mutex::new(Vec::new()), wake })
    }

    /// Leaves a message and wakes the worker.
    pub(crate) fn send(&self, message: Message) {
        self.lock().push(message);
        // A full counter means that the worker is awake already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// All messages since the last time.
    pub(crate) fn take(&self) -> Vec<Message> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Message>> {
        self.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

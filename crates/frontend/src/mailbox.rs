//! Messages to a worker, with a descriptor that wakes it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};
use tenancy::Tenant;

use crate::peer::Peer;

/// Names a connection of a worker: generation in the upper half, slot in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// Creates the name of the connection in a slot.
    pub fn new(slot: usize, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | slot as u64)
    }

    /// Returns the slot of the worker's table.
    pub fn slot(self) -> usize {
        self.0 as u32 as usize
    }

    /// Returns the generation of the slot's connection.
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A message to a worker.
pub enum Message {
    /// Serve this connection, accepted on the listener of that number.
    Serve(OwnedFd, Peer, usize),
    /// Say that you are alive.
    Beat,
    /// Send these connections, if they are there yet, these bytes between two replies.
    Push(Vec<(Token, Vec<u8>)>),
    /// Close this connection, if it still exists: a client has asked for it.
    Close(Token),
    /// Close connections of this tenant, for as long as it has to release memory.
    Shed(Arc<Tenant>),
    /// Some connections that wait for their tenant's pause to end may continue.
    LookAtPauses,
    /// An item that this connection waits for has been brought into memory, or will not be.
    Brought(Token),
    /// A slow command is done, or the thread for slow commands is gone.
    Returned,
    /// Look at the settings again.
    Reload,
    /// Stop accepting, answer what has arrived, and exit.
    Drain,
}

/// A worker's inbox. Any thread may send.
pub struct Mailbox {
    messages: Mutex<Vec<Message>>,
    wake: OwnedFd,
}

impl Mailbox {
    /// Creates an empty inbox.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { messages: Mutex::new(Vec::new()), wake })
    }

    /// Leaves a message and wakes the worker.
    pub fn send(&self, message: Message) {
        self.lock().push(message);
        // A full counter means that the worker is awake already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// All messages since the last time.
    pub fn take(&self) -> Vec<Message> {
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

//! Sockets and the event loop: everything that is the same whatever is spoken.

mod connection;
mod context;
mod input;
mod lanes;
mod listener;
mod long;
mod mailbox;
mod output;
mod table;
mod tls;
mod worker;

pub(crate) use context::Context;
pub(crate) use listener::{Listener, Peer};
pub(crate) use long::Long;
pub(crate) use mailbox::{Mailbox, Message};
pub(crate) use output::{End, MIN_IN_PLACE_BYTES, Output};
pub(crate) use table::Token;
pub(crate) use worker::Worker;

/// Calls `call` until no signal interrupts it.
fn retry<T>(mut call: impl FnMut() -> Result<T, rustix::io::Errno>) -> Result<T, rustix::io::Errno> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return result,
        }
    }
}

//! Sockets and the event loop: everything that is the same whatever is spoken.

mod connection;
mod context;
mod input;
mod listener;
mod mailbox;
mod output;
mod table;
mod worker;

pub(crate) use context::Context;
pub(crate) use listener::{Listener, Peer};
pub(crate) use mailbox::{Mailbox, Message};
pub(crate) use output::{End, MIN_IN_PLACE_BYTES, Output};
pub(crate) use worker::Worker;

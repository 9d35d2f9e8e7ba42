//! Sockets and the event loop.

mod listener;
mod mailbox;
mod output;
mod table;

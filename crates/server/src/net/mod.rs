//! Sockets and the event loop: everything that is the same whatever is spoken.

mod connection;
mod input;
mod lanes;
mod listener;
mod slow;
mod table;
mod tls;
mod worker;

pub(crate) use listener::Listener;
pub(crate) use slow::SlowThread;
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

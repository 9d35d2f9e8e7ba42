//! The contract between a worker and the protocol of a connection.
//!
//! A worker reads, sends and shares out time; a [`Session`] answers. What a protocol needs from the
//! worker is in the turn's [`Context`]. The program that starts the server names the protocols
//! ([`Protocols`]), so that neither the workers nor what else the server has depends on one.

use std::sync::Arc;

use millpond::ReadHandle;
use tenancy::Account;
use tenancy::latency::ProtocolFamily;

use crate::connections::ConnectionInfo;
use crate::context::Context;
use crate::output::Output;
use crate::settings::Settings;
use crate::turn::Turn;

/// The protocol's side of one connection.
pub trait Session<'c>: Send {
    /// The protocol.
    fn spoken(&self) -> ProtocolFamily;

    /// The account charged for the connection's next turn.
    fn account(&self) -> &Arc<Account>;

    /// The account of the connection itself, whichever tenant's key it works on.
    fn own_account(&self) -> &Arc<Account>;

    /// Takes over changed limits, at the next turn.
    fn reload(&mut self, settings: &Settings);

    /// Returns whether all requests of the connection wait during a pause of the tenant's clients
    /// (`CLIENT PAUSE`). If not, the session decides for each request.
    fn waits_as_a_whole(&self) -> bool;

    /// Returns whether the next request waits for items to be brought into memory.
    fn is_bringing(&mut self) -> bool;

    /// Stops waiting for overdue items. Returns whether there are some: the next request
    /// is carried out without them.
    fn give_up_items(&mut self, now_nanos: u64) -> bool;

    /// Returns whether the session is in the middle of a large value.
    fn is_receiving_value(&self) -> bool;

    /// Item memory that cannot be evicted while a large value is received or keys are listed, in
    /// bytes.
    fn held_bytes(&self) -> usize;

    /// Memory of its own, its size included, in bytes.
    fn own_bytes(&self) -> usize;

    /// Returns the buffer for the missing bytes of a large value.
    fn value_buffer(&mut self) -> Option<&mut [u8]>;

    /// Notes that `bytes` were put into [`Self::value_buffer`].
    fn value_received(&mut self, bytes: usize);

    /// Queues the bytes of a push message, to be sent between two replies. False if more than `max`
    /// bytes would be queued. The default, for protocols without such messages, drops the bytes and
    /// returns true.
    fn push(&mut self, bytes: &[u8], max: usize) -> bool {
        let _ = (bytes, max);
        true
    }

    /// Appends the bytes kept by [`Self::push`], if the output ends with a whole reply.
    fn take_pushes(&mut self, output: &mut Output<ReadHandle<'c>>) {
        let _ = output;
    }

    /// Returns whether changes are reported to the client.
    fn tracks(&self) -> bool {
        false
    }

    /// Answers the whole requests in `input`, up to the bounds of a turn.
    fn turn(&mut self, context: &mut Context<'c>, input: &[u8], output: &mut Output<ReadHandle<'c>>) -> Turn;
}

/// Creates the session of a connection that is charged to the account.
pub type NewSession =
    for<'c> fn(Arc<ConnectionInfo>, Arc<Account>, &Context<'c>) -> Box<dyn Session<'c> + 'c>;

/// The protocols that connections speak.
#[derive(Clone, Copy, Debug)]
pub struct Protocols {
    /// memcached's: classic and meta commands as text, and the binary ones.
    pub memcached: NewSession,
    /// RESP2 and RESP3.
    pub resp: NewSession,
}

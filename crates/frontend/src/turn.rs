//! A turn of a connection: its result, and the condition for the next one.

use tenancy::metrics::Counter;
use tenancy::users::Delay;

/// A value of at least this many bytes that has not arrived whole is received straight into its
/// item.
pub const MIN_DIRECT_BYTES: usize = 16 << 10;

/// The condition for the next step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input.
    Input,
    /// Another turn, after others had theirs.
    Again,
    /// Another turn, behind the connections whose turns are short: the last request was slow.
    Yield,
    /// Another turn, once another thread has reopened the key space's gate or has finished a write
    /// of several keys.
    AwaitGate,
    /// A turn on the worker's thread for slow commands: the next command is slow.
    Slow,
    /// Another turn, once what the next request needs has been brought into memory.
    AwaitItems,
    /// A turn charged to another tenant, in which this many bytes are parsed again.
    SwitchTenant(usize),
    /// Another turn, once the pause of the tenant's clients (`CLIENT PAUSE`) is over.
    AwaitUnpause,
    /// A delay until this time, before which nothing is sent: a password was wrong.
    Delay(Delay),
    /// Another turn, once the output was sent.
    AwaitSend,
    /// The end of the connection, once the output was sent.
    Close(Counter),
}

/// The result of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Requests that were answered; a look-up of several keys counts once for each key.
    pub answered: usize,
    /// The condition for the next turn.
    pub next: Next,
}

impl Turn {
    /// A turn in which nothing could be done: the key space is closed for a moment.
    pub const AWAIT_GATE: Self = Self { consumed: 0, answered: 0, next: Next::AwaitGate };
}

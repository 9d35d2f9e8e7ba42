//! A turn of a connection: its result, and the condition for the next one.

use tenancy::metrics::Counter;
use tenancy::users::Late;

/// A value of at least this many bytes that has not arrived whole is received straight into its
/// item.
pub const MIN_DIRECT_BYTES: usize = 16 << 10;

/// The condition for the next step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input.
    Input,
    /// Another turn, after others had theirs.
    Turn,
    /// Another turn, after those whose turns are short: the last request was a slow one.
    Yield,
    /// Another turn, once others are through with the key space.
    Later,
    /// A turn in which no other connection waits: the next command is slow.
    Long,
    /// A turn of another tenant, in which this many bytes are parsed again.
    Elsewhere(usize),
    /// Another turn, once the tenant's clients do not wait any more.
    Hold,
    /// Nothing, and the output is not sent, until then: a password was wrong.
    Late(Late),
    /// That the output is sent.
    Drain,
    /// To be closed once the output is sent.
    Close(Counter),
}

/// The result of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Requests, or keys of them, that were answered.
    pub answered: usize,
    /// The condition for the next turn.
    pub next: Next,
}

impl Turn {
    /// A turn in which nothing could be done: the key space is closed for a moment.
    pub const LATER: Self = Self { consumed: 0, answered: 0, next: Next::Later };
}

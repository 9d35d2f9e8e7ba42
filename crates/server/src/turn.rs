//! A turn of a connection: what it came to, and what the connection needs next.

use crate::metrics::Counter;
use crate::users::Late;

/// A value of at least so many bytes that has not arrived whole is received straight into its item.
pub(crate) const MIN_DIRECT_BYTES: usize = 16 << 10;

/// What a session needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More input.
    Input,
    /// Another turn, after others had theirs.
    Turn,
    /// Another turn, after those whose turns are short: the last request was one whose answer is
    /// long in the making.
    Yield,
    /// Another turn, once others are through with the key space.
    Later,
    /// A turn in which nobody else waits: the next command takes long.
    Long,
    /// A turn of another tenant, in which so many bytes are parsed again.
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

/// What a turn came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Bytes of the input that are done with.
    pub(crate) consumed: usize,
    /// Requests, or keys of them, that were answered.
    pub(crate) answered: usize,
    pub(crate) next: Next,
}

impl Turn {
    /// A turn in which nothing could be done: the key space is closed for a moment.
    pub(crate) const LATER: Self = Self { consumed: 0, answered: 0, next: Next::Later };
}

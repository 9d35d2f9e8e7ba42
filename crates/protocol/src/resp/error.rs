//! The errors sent to a client whose bytes are not valid requests, before its connection is closed.

use std::fmt;

/// The reason why a connection's bytes can't be read any further. The texts are those of Redis 7.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A line of words is longer than the limit, or has no end within it.
    TooBigInline,
    /// The line that begins a request has no end within the limit of a line.
    TooBigCount,
    /// The number of arguments is none, or beyond the limit.
    InvalidCount,
    /// An argument begins with this byte in place of `$`.
    ExpectedBulk(u8),
    /// The line that begins an argument has no end within the limit of a line.
    TooBigBulkCount,
    /// The length of an argument is none, or beyond the limit.
    InvalidBulkLength,
    /// A line of words opens a quotation and does not close it.
    UnbalancedQuotes,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::TooBigInline => f.write_str("too big inline request"),
            Self::TooBigCount => f.write_str("too big mbulk count string"),
            Self::InvalidCount => f.write_str("invalid multibulk length"),
            // A byte that would end the line is reported as Redis reports it, as a space.
            Self::ExpectedBulk(b'\r' | b'\n') => f.write_str("expected '$', got ' '"),
            Self::ExpectedBulk(byte) => write!(f, "expected '$', got '{}'", char::from(*byte)),
            Self::TooBigBulkCount => f.write_str("too big bulk count string"),
            Self::InvalidBulkLength => f.write_str("invalid bulk length"),
            Self::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
        }
    }
}

impl std::error::Error for ProtocolError {}

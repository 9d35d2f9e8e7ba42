//! RESP, the protocol of Redis, in its versions 2 and 3: requests parsed and replies composed, no
//! I/O.
//!
//! A request is an array of bulk strings, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, or a line of words,
//! `GET k\r\n`, for people who type. Requests are accepted and rejected as in Redis 7.0, with its
//! error messages.
//!
//! - [`Parser`]: requests out of the bytes of a connection, however they are cut, without a copy.
//! - [`reply`]: every kind of reply, for either version.
//! - [`commands`]: the table of commands.
//! - [`glob`]: patterns of keys and names.

pub mod commands;
mod error;
pub mod glob;
mod inline;
mod parser;
pub mod reply;

pub use error::ProtocolError;
pub use inline::split_words;
pub use parser::{Limits, Parse, Parser, PendingBulk, number};
pub use reply::Version;

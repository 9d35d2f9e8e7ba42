//! memcached's protocols: text, classic and meta, and binary.
//!
//! A server feeds what it has read to a [`Parser`] and acts on the [`Parse`] it gets back; it
//! composes answers with [`Reply`], [`WireError`] and the functions of [`reply`]. A client composes
//! with [`command`] and reads answers with a [`ResponseParser`]. The deprecated binary protocol has
//! a parser and answers of its own, in [`binary`].
//!
//! # Invariants
//! 1. Nothing is copied and nothing is allocated: requests borrow their keys and data from the
//!    caller's buffer.
//! 2. How the bytes were cut into pieces never changes what is parsed.
//! 3. A parse consumes at most what is in the buffer, and either consumes something or says that
//!    more is needed.
//! 4. No byte sequence panics.
//!
//! # Source
//! memcached's `doc/protocol.txt`, and the observed behaviour of Debian's memcached 1.6.18, which
//! decides where the document is silent. `docs/protocol-memcached.md` lists the grammar, every
//! error text and the deliberate differences.
//!
//! ```
//! use millpond_protocol::memcached::{Limits, Parse, Parser, Reply, Request};
//!
//! let mut parser = Parser::new(Limits::default());
//! let Parse::Request { request: Request::Get(get), consumed } =
//!     parser.parse(b"get a b\r\nquit\r\n")
//! else {
//!     panic!("a whole line is a whole request");
//! };
//! assert_eq!(get.keys.collect::<Vec<_>>(), [b"a", b"b"]);
//! assert_eq!(consumed, 9);
//! assert_eq!(Reply::End.as_bytes(), b"END\r\n");
//! ```

pub mod binary;
mod classic;
pub mod command;
mod data;
mod error;
mod expiry;
mod key;
mod limits;
mod meta;
mod number;
mod parser;
pub mod reply;
mod request;
mod response;
mod token;

pub use data::{DataBlock, DataPart, DataState};
pub use error::{Refusal, WireError};
pub use expiry::{Expiry, Exptime, RELATIVE_EXPTIME_MAX_SECS};
pub use key::{KEY_MAX_BYTES, Key, KeyBuf};
pub use limits::Limits;
pub use meta::{MetaFlags, MetaToken, MetaTokens};
pub use number::write_u64;
pub use parser::{Parse, Parser};
pub use reply::{MetaFacts, MetaMarks, MetaStatus, Remaining, Reply};
pub use request::{
    ArithmeticRequest, DeleteRequest, Direction, GetRequest, Keys, MetaCommand, MetaRequest, Request,
    ShutdownMode, StoreCommand, StoreHeader, StoreRequest, TouchRequest,
};
pub use response::{ParsedResponse, Response, ResponseError, ResponseLimits, ResponseParser};
pub use token::Tokens;

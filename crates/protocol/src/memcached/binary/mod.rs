//! memcached's binary protocol, which memcached has deprecated since 1.6.0 and still speaks.
//!
//! A request and an answer are a header of 24 bytes, then extras, key and value, whose lengths the
//! header has. The words mean what the text commands mean: a storage request is the same
//! [`StoreHeader`] with the same rules.
//!
//! # Invariants
//! 1. Nothing is copied and nothing is allocated: requests borrow their keys and data from the
//!    caller's buffer.
//! 2. How the bytes were cut into pieces never changes what is parsed.
//! 3. Whether a request can be accepted is known from its header alone, so that what a client may
//!    make a server hold before it is refused is [`HEADER_BYTES`], extras and key: less than 300
//!    bytes.
//! 4. No byte sequence panics.
//!
//! # Source
//! memcached's `doc/protocol-binary.xml`, and the observed behaviour of Debian's memcached 1.6.18,
//! which decides. Differences are listed in `docs/protocol-memcached.md`.
//!
//! ```
//! use millpond_protocol::memcached::Limits;
//! use millpond_protocol::memcached::binary::{Frame, Opcode, Parse, Parser, Request};
//!
//! let mut sent = Vec::new();
//! Frame { opcode: Opcode::GET_K.0, key: b"pond", ..Frame::default() }.write(&mut sent);
//! let Parse::Request { packet, consumed } = Parser::new(Limits::default()).parse(&sent) else {
//!     panic!("a whole packet is a whole request");
//! };
//! let Request::Get(get) = packet.request else { panic!("it is a retrieval") };
//! assert_eq!((get.key.wire(), get.with_key, consumed), (&b"pond"[..], true, 28));
//! ```

mod frame;
mod opcode;
mod parser;
pub mod reply;

pub use frame::{Answer, Frame, MalformedAnswer};
pub use opcode::Opcode;
pub use parser::{Parse, Parser, Refusal};

use super::expiry::Exptime;
use super::key::Key;
use super::request::{Direction, StoreHeader, StoreRequest};
use super::token::Tokens;

/// The first byte of every request, which distinguishes it from the text protocol.
pub const REQUEST_MAGIC: u8 = 0x80;
/// The first byte of every answer.
pub const RESPONSE_MAGIC: u8 = 0x81;
/// Length of the header of a request or an answer, in bytes.
pub const HEADER_BYTES: usize = 24;

/// The fields of a request that its response repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    /// The requested operation, quiet or not.
    pub opcode: Opcode,
    /// The client's own bytes.
    pub opaque: u32,
}

/// The outcome of a request, as its response states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Status {
    /// It is done.
    Ok = 0x00,
    /// There is nothing under the key.
    NotFound = 0x01,
    /// There is something under the key, or it has another compare-and-swap token.
    Exists = 0x02,
    /// The item is larger than the limit.
    TooLarge = 0x03,
    /// The lengths in the header are not those of the request.
    Invalid = 0x04,
    /// There is nothing to append to.
    NotStored = 0x05,
    /// The value to increment is not a valid number.
    NonNumeric = 0x06,
    /// The client may not do that.
    NotAllowed = 0x20,
    /// There is no such request.
    UnknownCommand = 0x81,
    /// There is no memory.
    OutOfMemory = 0x82,
}

impl Status {
    /// The text that comes with it, in memcached's words; empty for [`Self::Ok`].
    pub const fn text(self) -> &'static [u8] {
        match self {
            Self::Ok => b"",
            Self::NotFound => b"Not found",
            Self::Exists => b"Data exists for key.",
            Self::TooLarge => b"Too large.",
            Self::Invalid => b"Invalid arguments",
            Self::NotStored => b"Not stored.",
            Self::NonNumeric => b"Non-numeric server-side value for incr or decr",
            Self::NotAllowed => b"Auth failure.",
            Self::UnknownCommand => b"Unknown command",
            Self::OutOfMemory => b"Out of memory",
        }
    }
}

/// One request with the fields that its response repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// For the answer.
    pub head: Head,
    /// Retrievals: do not answer a miss. All others: answer errors only.
    pub quiet: bool,
    /// The request itself.
    pub request: Request<'a>,
}

/// A client's request. It borrows everything from the buffer it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Get and get-and-touch.
    Get(Get<'a>),
    /// Touch: the answer has the client flags and no value.
    Touch {
        /// Of which item.
        key: Key<'a>,
        /// Its new end.
        exptime: Exptime,
    },
    /// Set, add, replace, append and prepend. With a compare-and-swap token the first three are
    /// [`super::StoreCommand::Cas`].
    Store(StoreRequest<'a>),
    /// Delete.
    Delete {
        /// The key to remove.
        key: Key<'a>,
        /// Only if the item has this token.
        compare_cas: Option<u64>,
    },
    /// Increment and decrement.
    Arithmetic(Arithmetic<'a>),
    /// Flush: removes everything that is stored before the delay has passed. 0 is now.
    Flush {
        /// Delay of the flush, by the rules of expiration times.
        delay: Exptime,
    },
    /// No operation: answers, and so ends a series of quiet requests.
    Noop,
    /// Version.
    Version,
    /// Statistics, of the kind that the key names.
    Stat(Tokens<'a>),
    /// Close once earlier answers are written; not quiet: answer first.
    Quit,
}

/// A retrieval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// Of which item.
    pub key: Key<'a>,
    /// True if the response, even that of a miss, carries the key.
    pub with_key: bool,
    /// Get-and-touch: its new end.
    pub touch: Option<Exptime>,
}

/// A change of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// Of which number.
    pub key: Key<'a>,
    /// Up or down.
    pub direction: Direction,
    /// By how much.
    pub delta: u64,
    /// The expiration time and the number to create on a miss, if any.
    pub create: Option<(Exptime, u64)>,
    /// Only if the item has this token.
    pub compare_cas: Option<u64>,
}

/// A storage request whose data has not all arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// For the answer.
    pub head: Head,
    /// Under which key, how; its `noreply` says that only errors are answered.
    pub header: StoreHeader<'a>,
}

#[cfg(test)]
mod tests;

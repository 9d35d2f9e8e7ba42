//! The requests that a client can send.

use std::fmt;

use super::expiry::Exptime;
use super::key::Key;
use super::meta::MetaFlags;
use super::token::{Text, Tokens};

/// One request. It borrows everything from the buffer it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Get(GetRequest<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas` and `ms`.
    Store(StoreRequest<'a>),
    /// `delete`.
    Delete(DeleteRequest<'a>),
    /// `incr`, `decr`.
    Arithmetic(ArithmeticRequest<'a>),
    /// `touch`.
    Touch(TouchRequest<'a>),
    /// `mg`, `md`, `ma`, `me`.
    Meta(MetaRequest<'a>),
    /// `mn`: answer `MN`, and flush the answers so far.
    MetaNoop,
    /// `flush_all`: removes everything that is stored before the delay has passed. 0 and less is
    /// now.
    FlushAll {
        /// Delay of the flush, by the rules of expiration times.
        delay: Exptime,
        /// Do not answer.
        noreply: bool,
    },
    /// `stats`, with whatever follows.
    Stats(Tokens<'a>),
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// Level of logging; memcached has 0 to 2 and takes more for 2.
        level: u32,
        /// Do not answer.
        noreply: bool,
    },
    /// `cache_memlimit`.
    CacheMemlimit {
        /// The new memory limit in MiB.
        mebibytes: u64,
        /// Do not answer.
        noreply: bool,
    },
    /// `shutdown`.
    Shutdown(ShutdownMode),
    /// `quit`: close without an answer, once earlier answers are written.
    Quit,
    /// A command of memcached that controls memcached's own engine (`slabs`, `lru`, `lru_crawler`,
    /// `watch`, `extstore`, `refresh_certs`). A server answers those that it does not implement
    /// with [`super::WireError::UnknownCommand`].
    Unsupported {
        /// The command.
        name: &'a [u8],
        /// The words that follow it.
        arguments: Tokens<'a>,
    },
}

/// `get`, `gets`, `gat` or `gats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetRequest<'a> {
    /// The keys, in order and with repetitions; possibly none after `gat` and `gats`.
    pub keys: Keys<'a>,
    /// `gets` and `gats`: answer with the compare-and-swap token.
    pub with_cas: bool,
    /// `gat` and `gats`: the new expiration time of the items found.
    pub touch: Option<Exptime>,
}

/// The keys of a retrieval, read from the command line on demand. Every one of them is 1 to
/// [`super::KEY_MAX_BYTES`] bytes long, and their number is within the limits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Keys<'a> {
    words: Tokens<'a>,
    left: usize,
}

impl<'a> Keys<'a> {
    pub(crate) const fn new(words: Tokens<'a>, count: usize) -> Self {
        Self { words, left: count }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        self.words.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Keys<'_> {}

impl fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.map(Text)).finish()
    }
}

/// The effect of a storage command on a value that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreCommand {
    /// Replaces it.
    Set,
    /// Stores only if there is no item.
    Add,
    /// Stores only if there is an item.
    Replace,
    /// Puts the data behind it; client flags and expiration stay as they are.
    Append,
    /// Puts the data in front of it; client flags and expiration stay as they are.
    Prepend,
    /// Replaces the item if its compare-and-swap token is the one given. `ms` with flag `C` and
    /// mode set or replace is this.
    Cas,
}

/// The command line of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreHeader<'a> {
    /// The command itself.
    pub command: StoreCommand,
    /// Under which key.
    pub key: Key<'a>,
    /// The number that the client gets back with the value. memcached and Millpond keep the low 32
    /// bits of it.
    pub client_flags: u32,
    /// Expiry time of the item.
    pub exptime: Exptime,
    /// The compare-and-swap token: always there with [`StoreCommand::Cas`], possibly there with the
    /// others through `ms`.
    pub compare_cas: Option<u64>,
    /// True if the response carries the token of the stored value, or the client is likely to
    /// request it next.
    pub wants_cas: bool,
    /// Length of the data in bytes, its `\r\n` not included.
    pub data_len: usize,
    /// Classic commands: do not answer, not even with an error.
    pub noreply: bool,
    /// `ms`: its flags, which say how to answer. `None` for the classic commands.
    pub meta: Option<MetaFlags<'a>>,
}

impl StoreHeader<'_> {
    /// Returns whether it stores the value whatever was there before: neither its effect nor its
    /// reply depends on that.
    pub fn overwrites(&self) -> bool {
        self.command == StoreCommand::Set && self.compare_cas.is_none()
    }
}

/// A storage command with all of its data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreRequest<'a> {
    /// The command line.
    pub header: StoreHeader<'a>,
    /// The data, without its line end.
    pub data: &'a [u8],
}

impl fmt::Debug for StoreRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreRequest").field("header", &self.header).field("data", &Text(self.data)).finish()
    }
}

/// `delete`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteRequest<'a> {
    /// The key to remove.
    pub key: Key<'a>,
    /// Do not answer.
    pub noreply: bool,
}

/// Up or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Add, and wrap around at 2^64.
    Increment,
    /// Subtract, and stop at 0.
    Decrement,
}

impl Direction {
    /// The number after it, by memcached's rules.
    ///
    /// ```
    /// use millpond_protocol::memcached::Direction;
    /// assert_eq!(Direction::Increment.apply(u64::MAX, 2), 1);
    /// assert_eq!(Direction::Decrement.apply(5, 7), 0);
    /// ```
    pub const fn apply(self, value: u64, delta: u64) -> u64 {
        match self {
            Self::Increment => value.wrapping_add(delta),
            Self::Decrement => value.saturating_sub(delta),
        }
    }
}

/// `incr` or `decr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArithmeticRequest<'a> {
    /// Of which number.
    pub key: Key<'a>,
    /// Up or down.
    pub direction: Direction,
    /// By how much.
    pub delta: u64,
    /// Do not answer.
    pub noreply: bool,
}

/// `touch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TouchRequest<'a> {
    /// Of which item.
    pub key: Key<'a>,
    /// Its new end.
    pub exptime: Exptime,
    /// Do not answer.
    pub noreply: bool,
}

/// Which meta command. `ms` is a [`StoreRequest`], because it is handled like the other storage
/// commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaCommand {
    /// `mg`.
    Get,
    /// `md`.
    Delete,
    /// `ma`, with its mode.
    Arithmetic(Direction),
    /// `me`. Its flags are not checked; only `b` right after the key means something.
    Debug,
}

/// `mg`, `md`, `ma` or `me`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaRequest<'a> {
    /// Which of them.
    pub command: MetaCommand,
    /// Of which item.
    pub key: Key<'a>,
    /// Flags of the request.
    pub flags: MetaFlags<'a>,
}

/// The manner of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShutdownMode {
    /// Now.
    Immediate,
    /// Once everything that can be saved has been saved.
    Graceful,
    /// A word that memcached does not know either.
    Unknown,
}

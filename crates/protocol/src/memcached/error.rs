//! Every error that is sent to a client, in memcached's words.

/// An error line. [`Self::as_bytes`] is what a client reads.
///
/// The first group comes from the parser, the second is there for the server that acts on a
/// well-formed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireError {
    /// No such command, or the wrong number of words for it.
    UnknownCommand,
    /// A key is too long, a number is not one, or a length is impossible.
    BadFormat,
    /// `delete` was given more than `0` and `noreply`.
    DeleteUsage,
    /// The data block did not end in `\r\n` at the place that its length gave.
    BadDataChunk,
    /// The line exceeds its limit. The connection is closed, because the end of the line is
    /// unknown.
    LineTooLong,
    /// A retrieval names more keys than the limit.
    TooManyKeys,
    /// The first byte is that of memcached's binary protocol. The connection is closed.
    BinaryProtocol,
    /// An HTTP request, which a web page may have caused. The connection is closed without an
    /// answer, as by memcached.
    Http,
    /// An expiration time is not a number.
    InvalidExptime,
    /// The amount of an `incr` or `decr` is not an unsigned number.
    InvalidDelta,
    /// A meta flag is not known.
    InvalidFlag,
    /// A meta flag was given twice, or is not a letter of ASCII.
    DuplicateFlag,
    /// `md` and `ma`: any fault in the flags.
    InvalidOrDuplicateFlag,
    /// `mg`: more flags than memcached reads.
    GetFlagsTooLong,
    /// `ms`, `md`, `ma`: more flags than memcached reads.
    FlagsTooLong,
    /// The token of a meta flag is not a number.
    BadToken,
    /// The key is not valid base64 although flag `b` was given.
    BadBase64Key,
    /// The token of flag `M` is not one character.
    ModeTokenLength,
    /// `ms`: no such mode.
    InvalidSetMode,
    /// `ma`: no such mode.
    InvalidArithmeticMode,
    /// The token of flag `J` is not a number.
    InvalidMetaInitial,
    /// The token of flag `D` is not a number.
    InvalidMetaDelta,
    /// The opaque token has more than 31 bytes.
    OpaqueTooLong,
    /// The item is larger than the limit.
    ObjectTooLarge,

    /// `incr`, `decr` and `ma` on a value that is not a decimal number of 64 bits.
    NonNumeric,
    /// There is no memory for the item.
    OutOfMemoryStoring,
    /// There is no memory for anything else.
    OutOfMemory,
    /// The output that this connection has not read exceeds its limit. Close after sending.
    OutputTooLarge,
    /// There are as many connections as there may be. Close after sending.
    TooManyConnections,
    /// `flush_all` is switched off.
    FlushNotAllowed,
    /// `shutdown` is switched off.
    ShutdownNotEnabled,
    /// `shutdown` with a mode that does not exist.
    InvalidShutdownMode,
    /// `cache_memlimit` below 8 MiB.
    MemlimitTooSmall,
    /// `cache_memlimit` with a number that can only be bytes.
    MemlimitNotMegabytes,
    /// `cache_memlimit` with a size that the cache cannot take.
    MemlimitOutOfBounds,
    /// `stats detail` with an unknown word.
    StatsDetailUsage,
}

impl WireError {
    /// The whole line, `\r\n` included.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::UnknownCommand => b"ERROR\r\n",
            Self::BadFormat => b"CLIENT_ERROR bad command line format\r\n",
            Self::DeleteUsage => b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n",
            Self::BadDataChunk => b"CLIENT_ERROR bad data chunk\r\n",
            Self::LineTooLong => b"CLIENT_ERROR line too long\r\n",
            Self::TooManyKeys => b"CLIENT_ERROR too many keys\r\n",
            Self::BinaryProtocol => b"CLIENT_ERROR the binary protocol is not supported\r\n",
            Self::Http => b"CLIENT_ERROR this is not a web server\r\n",
            Self::InvalidExptime => b"CLIENT_ERROR invalid exptime argument\r\n",
            Self::InvalidDelta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            Self::InvalidFlag => b"CLIENT_ERROR invalid flag\r\n",
            Self::DuplicateFlag => b"CLIENT_ERROR duplicate flag\r\n",
            Self::InvalidOrDuplicateFlag => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            Self::GetFlagsTooLong => b"CLIENT_ERROR options flags are too long\r\n",
            Self::FlagsTooLong => b"CLIENT_ERROR options flags too long\r\n",
            Self::BadToken => b"CLIENT_ERROR bad token in command line format\r\n",
            Self::BadBase64Key => b"CLIENT_ERROR error decoding key\r\n",
            Self::ModeTokenLength => b"CLIENT_ERROR incorrect length for M token\r\n",
            Self::InvalidSetMode => b"CLIENT_ERROR invalid mode for ms M token\r\n",
            Self::InvalidArithmeticMode => b"CLIENT_ERROR invalid mode for ma M token\r\n",
            Self::InvalidMetaInitial => b"CLIENT_ERROR invalid numeric initial value\r\n",
            Self::InvalidMetaDelta => b"CLIENT_ERROR invalid numeric delta value\r\n",
            Self::OpaqueTooLong => b"CLIENT_ERROR opaque token too long\r\n",
            Self::ObjectTooLarge => b"SERVER_ERROR object too large for cache\r\n",
            Self::NonNumeric => b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
            Self::OutOfMemoryStoring => b"SERVER_ERROR out of memory storing object\r\n",
            Self::OutOfMemory => b"SERVER_ERROR out of memory\r\n",
            Self::OutputTooLarge => b"SERVER_ERROR output too large\r\n",
            Self::TooManyConnections => b"ERROR Too many open connections\r\n",
            Self::FlushNotAllowed => b"CLIENT_ERROR flush_all not allowed\r\n",
            Self::ShutdownNotEnabled => b"ERROR: shutdown not enabled\r\n",
            Self::InvalidShutdownMode => b"CLIENT_ERROR invalid shutdown mode\r\n",
            Self::MemlimitTooSmall => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
            Self::MemlimitNotMegabytes => b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n",
            Self::MemlimitOutOfBounds => b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
            Self::StatsDetailUsage => b"CLIENT_ERROR usage: stats detail on|off|dump\r\n",
        }
    }
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.as_bytes().trim_ascii_end().escape_ascii())
    }
}

impl std::error::Error for WireError {}

/// The reason why a request was refused, and how to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error to answer with.
    pub error: WireError,
    /// The client asked for no reply: count the error, but do not write it.
    pub quiet: bool,
    /// Close the connection once the error is written: the start of the next request is unknown.
    pub close: bool,
}

impl Refusal {
    /// Rejects with `error`, and stays silent if the client asked for no reply.
    pub(crate) const fn new(error: WireError, quiet: bool) -> Self {
        Self { error, quiet, close: false }
    }

    /// Aborts a connection whose client speaks HTTP, without a response.
    pub(crate) const fn http() -> Self {
        Self { error: WireError::Http, quiet: true, close: true }
    }

    /// Refuses with `error` and gives up the connection.
    pub(crate) const fn fatal(error: WireError) -> Self {
        Self { error, quiet: false, close: true }
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        Self::new(error, false)
    }
}

//! Answers of a server, read by a client: the load bench, the wire tests.
//!
//! An answer of several lines is read as several [`Response`]s: a retrieval gives its values one by
//! one and then [`Response::End`], statistics likewise. Which answer belongs to which request is
//! for the caller to know, as the protocol does not say it.

use std::fmt;

use memchr::memchr;

use super::meta::MetaTokens;
use super::number::digits;
use super::reply::MetaStatus;
use super::token::{Text, Tokens};

/// One answer, or one part of an answer. It borrows from the buffer it was parsed from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Response<'a> {
    /// `VALUE`, with its data.
    Value {
        /// Of which key.
        key: &'a [u8],
        /// Client flags.
        client_flags: u32,
        /// Compare-and-swap token, after `gets` and `gats`.
        cas: Option<u64>,
        /// The data, without its line end.
        data: &'a [u8],
    },
    /// `END`
    End,
    /// `STORED`
    Stored,
    /// `NOT_STORED`
    NotStored,
    /// `EXISTS`
    Exists,
    /// `NOT_FOUND`
    NotFound,
    /// `DELETED`
    Deleted,
    /// `TOUCHED`
    Touched,
    /// `OK`
    Ok,
    /// `RESET`
    Reset,
    /// The answer to `incr` and `decr`.
    Number(u64),
    /// `STAT`
    Stat {
        /// Its name, which has no space.
        name: &'a [u8],
        /// All that follows.
        value: &'a [u8],
    },
    /// `VERSION`, with all that follows.
    Version(&'a [u8]),
    /// `HD`, `VA`, `EN`, `NS`, `EX`, `NF`.
    Meta {
        /// Which.
        status: MetaStatus,
        /// The flags that came back.
        flags: MetaTokens<'a>,
        /// The data of `VA`, without its line end.
        data: &'a [u8],
    },
    /// `ME`, with key and fields.
    MetaDebug(Tokens<'a>),
    /// `MN`
    MetaNoop,
    /// `ERROR`, with whatever follows.
    Error(&'a [u8]),
    /// `CLIENT_ERROR`, with its text.
    ClientError(&'a [u8]),
    /// `SERVER_ERROR`, with its text.
    ServerError(&'a [u8]),
    /// Any other line, such as the answers to `slabs` and `cache_memlimit`.
    Other(&'a [u8]),
}

impl fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Value { key, client_flags, cas, data } => {
                write!(f, "Value {:?} flags {client_flags} cas {cas:?} {:?}", Text(key), Text(data))
            }
            Self::Number(number) => write!(f, "Number {number}"),
            Self::Stat { name, value } => write!(f, "Stat {:?} {:?}", Text(name), Text(value)),
            Self::Meta { status, flags, data } => write!(f, "Meta {status:?} {flags:?} {:?}", Text(data)),
            Self::MetaDebug(words) => write!(f, "MetaDebug {words:?}"),
            Self::Version(text) => write!(f, "Version {:?}", Text(text)),
            Self::Error(text) => write!(f, "Error {:?}", Text(text)),
            Self::ClientError(text) => write!(f, "ClientError {:?}", Text(text)),
            Self::ServerError(text) => write!(f, "ServerError {:?}", Text(text)),
            Self::Other(text) => write!(f, "Other {:?}", Text(text)),
            Self::End => f.write_str("End"),
            Self::Stored => f.write_str("Stored"),
            Self::NotStored => f.write_str("NotStored"),
            Self::Exists => f.write_str("Exists"),
            Self::NotFound => f.write_str("NotFound"),
            Self::Deleted => f.write_str("Deleted"),
            Self::Touched => f.write_str("Touched"),
            Self::Ok => f.write_str("Ok"),
            Self::Reset => f.write_str("Reset"),
            Self::MetaNoop => f.write_str("MetaNoop"),
        }
    }
}

/// The result of parsing the front of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedResponse<'a> {
    /// Not a whole answer yet.
    Incomplete {
        /// At least this many bytes are missing; never 0.
        needed: usize,
    },
    /// A whole answer.
    Response {
        /// The answer.
        response: Response<'a>,
        /// Its length in bytes; drop them before parsing again.
        consumed: usize,
    },
    /// No answer of any memcached: the connection is of no further use.
    Invalid(ResponseError),
}

/// The reason why the bytes are not a valid response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseError {
    /// A line is longer than [`ResponseLimits::max_line_bytes`].
    LineTooLong,
    /// A value is longer than [`ResponseLimits::max_value_bytes`].
    ValueTooLarge,
    /// The line that announces a value makes no sense.
    BadValueLine,
    /// There is no `\r\n` at the end of a value.
    BadValueEnd,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineTooLong => "a line of the answer is longer than the limit",
            Self::ValueTooLarge => "a value is larger than the limit",
            Self::BadValueLine => "the line that announces a value is malformed",
            Self::BadValueEnd => "a value does not end where its length says",
        })
    }
}

impl std::error::Error for ResponseError {}

/// Limits on what a server can make the client hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Longest line in bytes. Default 8,192.
    pub max_line_bytes: usize,
    /// Largest value in bytes. Default 128 MiB.
    pub max_value_bytes: usize,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self { max_line_bytes: 8_192, max_value_bytes: 128 << 20 }
    }
}

/// Parses the answers on one connection.
#[derive(Clone, Debug, Default)]
pub struct ResponseParser {
    limits: ResponseLimits,
    /// This many bytes at the front of the buffer are known to have no line end.
    scanned: usize,
}

/// A line that stands alone, or announces data of some length.
enum Head<'a> {
    Alone(Response<'a>),
    Value { key: &'a [u8], client_flags: u32, cas: Option<u64>, len: usize },
    Meta { flags: MetaTokens<'a>, len: usize },
}

impl ResponseParser {
    /// A parser for a new connection.
    pub const fn new(limits: ResponseLimits) -> Self {
        Self { limits, scanned: 0 }
    }

    /// Parses the front of `buf`, which holds everything that was received and not yet dropped.
    /// Between calls that return [`ParsedResponse::Incomplete`] the caller must only append to the
    /// buffer.
    pub fn parse<'a>(&mut self, buf: &'a [u8]) -> ParsedResponse<'a> {
        let known = if self.scanned <= buf.len() { self.scanned } else { 0 };
        let end = memchr(b'\n', buf.get(known..).unwrap_or_default()).map(|at| at.saturating_add(known));
        if end.unwrap_or(buf.len()) > self.limits.max_line_bytes {
            return ParsedResponse::Invalid(ResponseError::LineTooLong);
        }
        let Some(end) = end else {
            self.scanned = buf.len();
            return ParsedResponse::Incomplete { needed: 1 };
        };
        self.scanned = 0;
        let line = buf.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line_len = end.saturating_add(1);
        match head(line) {
            Ok(Head::Alone(response)) => ParsedResponse::Response { response, consumed: line_len },
            Ok(Head::Value { key, client_flags, cas, len }) => {
                self.data(buf, line_len, len, |data| Response::Value { key, client_flags, cas, data })
            }
            Ok(Head::Meta { flags, len }) => self.data(buf, line_len, len, |data| Response::Meta {
                status: MetaStatus::Value { len },
                flags,
                data,
            }),
            Err(error) => ParsedResponse::Invalid(error),
        }
    }

    /// The data of `len` bytes behind a line of `line_len` bytes.
    fn data<'a>(
        &self,
        buf: &'a [u8],
        line_len: usize,
        len: usize,
        response: impl FnOnce(&'a [u8]) -> Response<'a>,
    ) -> ParsedResponse<'a> {
        if len > self.limits.max_value_bytes {
            return ParsedResponse::Invalid(ResponseError::ValueTooLarge);
        }
        let arrived = buf.get(line_len..).unwrap_or_default();
        let block_len = len.saturating_add(2);
        let Some(block) = arrived.get(..block_len) else {
            return ParsedResponse::Incomplete { needed: block_len.saturating_sub(arrived.len()) };
        };
        match block.strip_suffix(b"\r\n") {
            Some(data) => ParsedResponse::Response {
                response: response(data),
                consumed: line_len.saturating_add(block_len),
            },
            None => ParsedResponse::Invalid(ResponseError::BadValueEnd),
        }
    }
}

fn head(line: &[u8]) -> Result<Head<'_>, ResponseError> {
    let mut words = Tokens::new(line);
    let meta = |status, words| Response::Meta { status, flags: MetaTokens::new(words), data: b"" };
    let response = match words.next().unwrap_or_default() {
        b"VALUE" => return value_head(words).ok_or(ResponseError::BadValueLine),
        b"VA" => {
            let len = words.next().and_then(digits).and_then(|len| usize::try_from(len).ok());
            let len = len.ok_or(ResponseError::BadValueLine)?;
            return Ok(Head::Meta { flags: MetaTokens::new(words), len });
        }
        b"HD" => meta(MetaStatus::Done, words),
        b"EN" => meta(MetaStatus::Miss, words),
        b"NS" => meta(MetaStatus::NotStored, words),
        b"EX" => meta(MetaStatus::Exists, words),
        b"NF" => meta(MetaStatus::NotFound, words),
        b"END" if line.len() == 3 => Response::End,
        b"STORED" if line.len() == 6 => Response::Stored,
        b"NOT_STORED" if line.len() == 10 => Response::NotStored,
        b"EXISTS" if line.len() == 6 => Response::Exists,
        b"NOT_FOUND" if line.len() == 9 => Response::NotFound,
        b"DELETED" if line.len() == 7 => Response::Deleted,
        b"TOUCHED" if line.len() == 7 => Response::Touched,
        b"OK" if line.len() == 2 => Response::Ok,
        b"RESET" if line.len() == 5 => Response::Reset,
        b"MN" if line.len() == 2 => Response::MetaNoop,
        b"STAT" => {
            let name = words.next().unwrap_or_default();
            Response::Stat { name, value: words.as_bytes().trim_ascii_start() }
        }
        b"VERSION" => Response::Version(words.as_bytes().trim_ascii_start()),
        b"ME" => Response::MetaDebug(words),
        b"ERROR" => Response::Error(words.as_bytes().trim_ascii_start()),
        b"CLIENT_ERROR" => Response::ClientError(words.as_bytes().trim_ascii_start()),
        b"SERVER_ERROR" => Response::ServerError(words.as_bytes().trim_ascii_start()),
        _ => digits(line).map_or(Response::Other(line), Response::Number),
    };
    Ok(Head::Alone(response))
}

fn value_head(mut words: Tokens<'_>) -> Option<Head<'_>> {
    let key = words.next()?;
    let client_flags = u32::try_from(digits(words.next()?)?).ok()?;
    let len = usize::try_from(digits(words.next()?)?).ok()?;
    let cas = match words.next() {
        Some(cas) => Some(digits(cas)?),
        None => None,
    };
    words.next().is_none().then_some(Head::Value { key, client_flags, cas, len })
}

#[cfg(test)]
mod tests;

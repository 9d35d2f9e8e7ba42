//! Parses the text commands of a connection, classic and meta, in whatever pieces the bytes arrive.
//! `binary` has the parser of the binary protocol.
//!
//! The parser keeps three small facts between calls and no bytes: how far it has looked for a line
//! end, how much of a refused data block is still to come, and whether anything was parsed before.

use memchr::{memchr, memchr2};

use super::classic;
use super::error::{Refusal, WireError};
use super::limits::Limits;
use super::request::{Request, StoreHeader, StoreRequest};
use super::token::Tokens;

/// The result of parsing the front of the buffer.
///
/// If a variant has `consumed`, the caller drops that many bytes from the front of its buffer
/// before it parses again; with the others it parses the same bytes again once there are more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parse<'a> {
    /// Not a whole command line yet.
    Incomplete {
        /// At least this many bytes are missing; never 0.
        needed: usize,
    },
    /// A whole request.
    Request {
        /// The request.
        request: Request<'a>,
        /// Its length in bytes, data included.
        consumed: usize,
    },
    /// The whole command line of a storage command that will be accepted, but not all of its data.
    ///
    /// The caller may wait for `missing` more bytes and parse again. Or it drops `header_len`
    /// bytes, receives the data into memory of its choice by a [`super::DataBlock`] of
    /// `header.data_len` bytes, and parses the bytes after the data.
    NeedData {
        /// The command line.
        header: StoreHeader<'a>,
        /// Its length in bytes.
        header_len: usize,
        /// Number of bytes of the data and its line end that are not in the buffer yet; never 0.
        missing: usize,
    },
    /// A storage command whose item is larger than the limit. Its data is skipped by the parses
    /// that follow.
    ///
    /// memcached removes the item under the key in the case of `set` and `ms`, so that no client
    /// reads an old value.
    TooLarge {
        /// The command line.
        header: StoreHeader<'a>,
        /// [`WireError::ObjectTooLarge`].
        refusal: Refusal,
        /// The length of the command line in bytes.
        consumed: usize,
    },
    /// A request that cannot be carried out.
    Refused {
        /// The reason, and how to continue.
        refusal: Refusal,
        /// Number of bytes to drop. All of them if the connection is to be closed.
        consumed: usize,
    },
    /// Data of a request that was refused; there is nothing to answer.
    Skipped {
        /// Number of bytes to drop; never 0.
        consumed: usize,
    },
}

/// Parses the requests of one connection.
#[derive(Clone, Debug)]
pub struct Parser {
    limits: Limits,
    /// This many bytes at the front of the buffer are known to have no line end.
    scanned: usize,
    /// This many bytes are still to be skipped.
    skip: usize,
    /// Nothing has been parsed yet.
    fresh: bool,
}

/// A parsed command line.
pub(crate) enum Command<'a> {
    Request(Request<'a>),
    /// A storage command, whose data follows.
    Store(StoreHeader<'a>),
}

/// A refused command line, and how many bytes of data behind it are to be skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    refusal: Refusal,
    skip: usize,
}

impl Refused {
    pub(crate) const fn new(error: WireError, quiet: bool) -> Self {
        Self::skipping(error, quiet, 0)
    }

    /// An HTTP request.
    pub(crate) const fn http() -> Self {
        Self { refusal: Refusal::http(), skip: 0 }
    }

    /// A refused line whose data block is skipped, as by memcached.
    pub(crate) const fn skipping(error: WireError, quiet: bool, skip: usize) -> Self {
        Self { refusal: Refusal::new(error, quiet), skip }
    }

    /// A refused line whose data block memcached would read as commands. The block is skipped only
    /// with [`Limits::skip_refused_data`].
    pub(crate) const fn line(error: WireError, quiet: bool, skip: usize, limits: &Limits) -> Self {
        Self::skipping(error, quiet, if limits.skip_refused_data { skip } else { 0 })
    }
}

impl From<WireError> for Refused {
    fn from(error: WireError) -> Self {
        Self::new(error, false)
    }
}

/// The first byte of every request of memcached's binary protocol.
const BINARY_MAGIC: u8 = 0x80;

enum Line<'a> {
    /// Without its line end, and the length with it.
    Whole(&'a [u8], usize),
    Partial,
    TooLong,
}

impl Parser {
    /// A parser for a new connection.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, scanned: 0, skip: 0, fresh: true }
    }

    /// The limits it was made with.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of bytes of a refused data block that are still to arrive and to be
    /// dropped.
    pub const fn skipping(&self) -> usize {
        self.skip
    }

    /// Parses the front of `buf`, which holds everything that was received and not yet dropped.
    ///
    /// Cost: a look at every byte of the command line, and none at data. Between calls that return
    /// [`Parse::Incomplete`] the caller must only append to the buffer.
    #[inline]
    pub fn parse<'a>(&mut self, buf: &'a [u8]) -> Parse<'a> {
        if self.skip != 0 {
            return self.skip_data(buf);
        }
        if self.fresh {
            match buf.first() {
                Some(&BINARY_MAGIC) => return refuse_all(buf, WireError::BinaryProtocol),
                Some(_) => self.fresh = false,
                None => {}
            }
        }
        match self.line(buf) {
            Line::Whole(line, line_len) => match classic::parse(line, &self.limits) {
                Ok(Command::Request(request)) => Parse::Request { request, consumed: line_len },
                Ok(Command::Store(header)) => self.store(buf, header, line_len),
                Err(Refused { refusal, skip }) => {
                    self.skip = skip;
                    Parse::Refused { refusal, consumed: if refusal.close { buf.len() } else { line_len } }
                }
            },
            Line::Partial => Parse::Incomplete { needed: 1 },
            Line::TooLong => refuse_all(buf, WireError::LineTooLong),
        }
    }

    #[cold]
    fn skip_data<'a>(&mut self, buf: &'a [u8]) -> Parse<'a> {
        if buf.is_empty() {
            return Parse::Incomplete { needed: self.skip };
        }
        let consumed = self.skip.min(buf.len());
        self.skip = self.skip.saturating_sub(consumed);
        Parse::Skipped { consumed }
    }

    /// Finds the line at the front of `buf`. A line ends at `\n` or `\r\n`; bytes after a NUL are
    /// ignored.
    #[inline]
    fn line<'a>(&mut self, buf: &'a [u8]) -> Line<'a> {
        let (end, nul) = if self.scanned == 0 {
            match memchr2(b'\n', 0, buf) {
                Some(at) if buf.get(at) == Some(&b'\n') => (Some(at), None),
                Some(at) => (memchr(b'\n', buf), Some(at)),
                None => (None, None),
            }
        } else {
            self.resume(buf)
        };
        let Some(end) = end else {
            self.scanned = buf.len();
            return if self.too_long(buf, buf.len()) { Line::TooLong } else { Line::Partial };
        };
        self.scanned = 0;
        if self.too_long(buf, end) {
            return Line::TooLong;
        }
        let line = buf.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = nul.and_then(|nul| line.get(..nul)).unwrap_or(line);
        Line::Whole(line, end.saturating_add(1))
    }

    /// The positions of the line end and of the first NUL before it, when the front of the buffer
    /// is known already.
    #[cold]
    fn resume(&self, buf: &[u8]) -> (Option<usize>, Option<usize>) {
        // A caller that dropped bytes in between is looked at from the start.
        let known = if self.scanned <= buf.len() { self.scanned } else { 0 };
        let fresh = buf.get(known..).unwrap_or_default();
        let end = memchr(b'\n', fresh).map(|at| at.saturating_add(known));
        let nul = end.and_then(|end| memchr(0, buf.get(..end)?));
        (end, nul)
    }

    /// Returns whether a line of at least `len` bytes at the front of `buf` is beyond its limit.
    #[inline]
    fn too_long(&self, buf: &[u8], len: usize) -> bool {
        len > self.limits.max_line_bytes && (len > self.limits.max_get_line_bytes || !self.is_retrieval(buf))
    }

    #[cold]
    fn is_retrieval(&self, buf: &[u8]) -> bool {
        let mut front = Tokens::new(buf.get(..self.limits.max_line_bytes).unwrap_or(buf));
        matches!(front.next(), Some(b"get" | b"gets" | b"gat" | b"gats"))
    }

    /// A storage command whose line is `line_len` bytes long.
    #[inline]
    fn store<'a>(&mut self, buf: &'a [u8], header: StoreHeader<'a>, line_len: usize) -> Parse<'a> {
        let block_len = header.data_len.saturating_add(2);
        if !self.limits.item_fits(header.key.byte_len(), header.client_flags, header.data_len) {
            self.skip = block_len;
            let refusal = Refusal::new(WireError::ObjectTooLarge, header.noreply);
            return Parse::TooLarge { header, refusal, consumed: line_len };
        }
        let arrived = buf.get(line_len..).unwrap_or_default();
        let Some(block) = arrived.get(..block_len) else {
            let missing = block_len.saturating_sub(arrived.len());
            return Parse::NeedData { header, header_len: line_len, missing };
        };
        let consumed = line_len.saturating_add(block_len);
        match block.strip_suffix(b"\r\n") {
            Some(data) => Parse::Request { request: Request::Store(StoreRequest { header, data }), consumed },
            None => {
                Parse::Refused { refusal: Refusal::new(WireError::BadDataChunk, header.noreply), consumed }
            }
        }
    }
}

#[cold]
fn refuse_all(buf: &[u8], error: WireError) -> Parse<'_> {
    Parse::Refused { refusal: Refusal::fatal(error), consumed: buf.len() }
}

#[cfg(test)]
mod tests;

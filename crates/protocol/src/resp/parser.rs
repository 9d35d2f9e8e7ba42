//! Requests out of the bytes of a connection.
//!
//! The caller passes all unconsumed bytes of the connection, from the beginning of a request on,
//! and passes them again whenever more have arrived. The parser remembers how far it got, and reads
//! nothing twice: it skips the arguments that it has parsed, and waits for the end of a large
//! argument by its length, without reading the data.
//!
//! Invariants:
//! 1. `spans` are the arguments read so far, in the bytes from the request's beginning on; `at` is
//!    the beginning of the next.
//! 2. The memory that a request makes the parser keep is bounded by the bytes that were sent for
//!    it: a span for each argument that has arrived.

use memchr::memchr;

use super::error::ProtocolError;
use super::inline::split_words;

/// Bounds on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most arguments of a request, with the command's name. A request with more is
    /// [`Parse::Refused`], after which the connection cannot be parsed further.
    pub max_args: usize,
    /// The longest argument, in bytes. A longer one is [`Parse::Refused`], after which the
    /// connection cannot be parsed further. Must be less than [`u32::MAX`].
    pub max_bulk_bytes: usize,
    /// The longest line, in bytes: an inline command, or a header that has the number of arguments
    /// or the length of one.
    pub max_line_bytes: usize,
    /// The longest argument that is kept. A request with a longer one is dropped as it comes:
    /// [`Parse::TooLarge`].
    pub max_kept_bulk_bytes: usize,
    /// The longest request that is kept. A longer one is dropped as well.
    pub max_request_bytes: usize,
}

impl Default for Limits {
    /// Those of Redis, and 64 MiB for a request.
    fn default() -> Self {
        Self {
            max_args: i32::MAX as usize,
            max_bulk_bytes: 512 << 20,
            max_line_bytes: 64 << 10,
            max_kept_bulk_bytes: 512 << 20,
            max_request_bytes: 64 << 20,
        }
    }
}

/// The result of parsing the front of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parse {
    /// A request of this many bytes. [`Parser::arg`] returns its arguments until the next request
    /// is parsed. There is at least one, except after [`Parser::leave_pending`].
    Request {
        /// Its length in bytes.
        consumed: usize,
    },
    /// An inline command: a request sent as a line of words, of which there is at least one.
    Words {
        /// Its length in bytes.
        consumed: usize,
        /// Its arguments.
        words: Vec<Vec<u8>>,
    },
    /// Nothing that is answered: an empty line, a request without arguments, a part of one that is
    /// dropped.
    Nothing {
        /// Its length in bytes, at least 1.
        consumed: usize,
    },
    /// The end of a request that was dropped for its size.
    TooLarge {
        /// The length of its last part, in bytes; the parts before were [`Parse::Nothing`].
        consumed: usize,
    },
    /// More bytes are needed to complete the request.
    Incomplete,
    /// The connection cannot be parsed further.
    Refused(ProtocolError),
}

/// An argument that has begun to come: see [`Parser::pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingBulk {
    /// Which argument it is; the command's name is 0.
    pub index: usize,
    /// Its length in bytes.
    pub len: usize,
    /// The offset at which its data begins.
    pub start: usize,
    /// Number of arguments behind it.
    pub behind: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a request.
    Start,
    /// Before an argument, or behind the last.
    Argument,
    /// In an argument of this many bytes.
    Data(usize),
    /// Behind a request, which `spans` are of.
    Done,
    /// In a request that is dropped: this many bytes of an argument and its line end remain.
    Dropping(usize),
}

/// Reads requests. See the module.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    state: State,
    /// Arguments that have not arrived completely.
    missing: usize,
    /// The input before this offset is parsed.
    at: usize,
    /// The input from `at` to this offset has no line end.
    searched: usize,
    spans: Vec<Span>,
}

/// Spans that are kept from request to request.
const KEEP_SPANS: usize = 64;

impl Parser {
    /// A parser at the beginning of a connection.
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: State::Start, missing: 0, at: 0, searched: 0, spans: Vec::new() }
    }

    /// The bounds that it keeps.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Changes the limits, for all bytes that are parsed from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Memory that it has taken, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.spans.capacity().saturating_mul(size_of::<Span>())
    }

    /// Continues with `input`, which begins where the present request does: behind the consumed
    /// bytes.
    pub fn parse(&mut self, input: &[u8]) -> Parse {
        if self.state == State::Done {
            self.restart();
        }
        loop {
            let step = match self.state {
                State::Start => self.start(input),
                State::Argument if self.missing == 0 => {
                    self.state = State::Done;
                    return Parse::Request { consumed: self.at };
                }
                State::Argument => self.argument(input),
                State::Data(len) => self.data(input, len),
                State::Dropping(left) => return self.drop_rest(input, left),
                State::Done => None,
            };
            if let Some(parse) = step {
                return parse;
            }
        }
    }

    /// Forgets the present request. The next call parses from the front of its input: the same
    /// request again, or the next one.
    pub fn restart(&mut self) {
        self.spans.clear();
        if self.spans.capacity() > KEEP_SPANS {
            self.spans = Vec::new();
        }
        (self.state, self.missing, self.at, self.searched) = (State::Start, 0, 0, 0);
    }

    /// Returns whether the parser is within a request that is dropped.
    pub fn is_dropping(&self) -> bool {
        matches!(self.state, State::Dropping(_))
    }

    /// Returns how many arguments of the request have arrived.
    #[inline]
    pub fn arg_count(&self) -> usize {
        self.spans.len()
    }

    /// Argument number `index` of the request that was parsed from `input`, or of the part of it
    /// that is there.
    #[inline]
    pub fn arg<'i>(&self, input: &'i [u8], index: usize) -> Option<&'i [u8]> {
        let span = self.spans.get(index)?;
        input.get(span.start as usize..)?.get(..span.len as usize)
    }

    /// The argument that a request waits for, after [`Parse::Incomplete`].
    pub fn pending(&self) -> Option<PendingBulk> {
        let State::Data(len) = self.state else { return None };
        let behind = self.missing.saturating_sub(1);
        Some(PendingBulk { index: self.spans.len(), len, start: self.at, behind })
    }

    /// Leaves the data of the pending argument, and its line end, to the caller, which takes them
    /// off the front of the bytes; the bytes parsed before are dropped as well. Then the arguments
    /// behind it are parsed as a request of their own, which may have none.
    pub fn leave_pending(&mut self) {
        let behind = self.missing.saturating_sub(1);
        self.restart();
        (self.state, self.missing) = (State::Argument, behind);
    }

    /// Returns the line at `at`, without its end, and the beginning of the next. Redis looks for
    /// the `\r` and skips the byte behind it unchecked.
    fn line<'i>(&mut self, input: &'i [u8], error: ProtocolError) -> Result<(&'i [u8], usize), Parse> {
        let rest = input.get(self.at..).unwrap_or_default();
        let skip = self.searched.saturating_sub(self.at).min(rest.len());
        match memchr(b'\r', rest.get(skip..).unwrap_or_default()).map(|found| found.saturating_add(skip)) {
            Some(end) if end > self.limits.max_line_bytes => Err(Parse::Refused(error)),
            Some(end) if end.saturating_add(1) < rest.len() => {
                Ok((rest.get(..end).unwrap_or_default(), self.at.saturating_add(end).saturating_add(2)))
            }
            Some(_) => Err(Parse::Incomplete),
            None if rest.len() > self.limits.max_line_bytes => Err(Parse::Refused(error)),
            None => {
                self.searched = self.at.saturating_add(rest.len());
                Err(Parse::Incomplete)
            }
        }
    }

    fn start(&mut self, input: &[u8]) -> Option<Parse> {
        match input.first() {
            None => return Some(Parse::Incomplete),
            Some(b'*') => {}
            Some(_) => return Some(self.words(input)),
        }
        let (line, next) = match self.line(input, ProtocolError::TooBigCount) {
            Ok(line) => line,
            Err(parse) => return Some(parse),
        };
        let count = line.get(1..).and_then(number);
        let Some(count) = count.filter(|count| *count <= self.limits.max_args as i64) else {
            return Some(Parse::Refused(ProtocolError::InvalidCount));
        };
        if count <= 0 {
            self.restart();
            return Some(Parse::Nothing { consumed: next });
        }
        (self.state, self.missing, self.at) = (State::Argument, count as usize, next);
        None
    }

    /// A request as a line.
    fn words(&mut self, input: &[u8]) -> Parse {
        let skip = self.searched.min(input.len());
        let found = memchr(b'\n', input.get(skip..).unwrap_or_default()).map(|end| end.saturating_add(skip));
        let Some(end) = found else {
            self.searched = input.len();
            let is_too_big = input.len() > self.limits.max_line_bytes;
            return if is_too_big { Parse::Refused(ProtocolError::TooBigInline) } else { Parse::Incomplete };
        };
        if end > self.limits.max_line_bytes {
            return Parse::Refused(ProtocolError::TooBigInline);
        }
        let line = input.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let consumed = end.saturating_add(1);
        self.restart();
        match split_words(line) {
            Some(words) if words.is_empty() => Parse::Nothing { consumed },
            Some(words) => Parse::Words { consumed, words },
            None => Parse::Refused(ProtocolError::UnbalancedQuotes),
        }
    }

    fn argument(&mut self, input: &[u8]) -> Option<Parse> {
        let (line, next) = match self.line(input, ProtocolError::TooBigBulkCount) {
            Ok(line) => line,
            Err(parse) => return Some(parse),
        };
        match line.first() {
            Some(b'$') => {}
            Some(other) => return Some(Parse::Refused(ProtocolError::ExpectedBulk(*other))),
            None => return Some(Parse::Refused(ProtocolError::ExpectedBulk(b'\r'))),
        }
        let len = line.get(1..).and_then(number).and_then(|len| usize::try_from(len).ok());
        let Some(len) = len.filter(|len| *len <= self.limits.max_bulk_bytes && *len < u32::MAX as usize)
        else {
            return Some(Parse::Refused(ProtocolError::InvalidBulkLength));
        };
        self.at = next;
        if len > self.limits.max_kept_bulk_bytes || next.saturating_add(len) > self.limits.max_request_bytes {
            self.spans = Vec::new();
            self.state = State::Dropping(len.saturating_add(2));
            return (next > 0).then(|| {
                self.at = 0;
                self.searched = 0;
                Parse::Nothing { consumed: next }
            });
        }
        self.state = State::Data(len);
        None
    }

    fn data(&mut self, input: &[u8], len: usize) -> Option<Parse> {
        // The two bytes of the line end are not looked at, as in Redis.
        let next = self.at.saturating_add(len).saturating_add(2);
        if input.len() < next {
            return Some(Parse::Incomplete);
        }
        self.spans.push(Span { start: self.at as u32, len: len as u32 });
        (self.state, self.at, self.missing) = (State::Argument, next, self.missing.saturating_sub(1));
        None
    }

    /// Drops the arrived part of a request: the rest of an argument, and those behind it.
    fn drop_rest(&mut self, input: &[u8], mut left: usize) -> Parse {
        let mut consumed = 0_usize;
        self.at = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            let part = left.min(rest.len());
            consumed = consumed.saturating_add(part);
            left = left.saturating_sub(part);
            self.state = State::Dropping(left);
            if left > 0 {
                return if consumed > 0 { Parse::Nothing { consumed } } else { Parse::Incomplete };
            }
            self.missing = self.missing.saturating_sub(1);
            if self.missing == 0 {
                self.restart();
                return Parse::TooLarge { consumed };
            }
            let rest = input.get(consumed..).unwrap_or_default();
            self.searched = 0;
            let (line, next) = match self.line(rest, ProtocolError::TooBigBulkCount) {
                Ok(line) => line,
                Err(Parse::Incomplete) => {
                    // Its line is looked for again from its beginning.
                    self.searched = 0;
                    self.missing = self.missing.saturating_add(1);
                    return if consumed > 0 { Parse::Nothing { consumed } } else { Parse::Incomplete };
                }
                Err(parse) => return parse,
            };
            let len = line.strip_prefix(b"$").and_then(number).and_then(|len| usize::try_from(len).ok());
            let Some(len) = len.filter(|len| *len <= self.limits.max_bulk_bytes) else {
                return Parse::Refused(match line.first() {
                    Some(b'$') => ProtocolError::InvalidBulkLength,
                    other => ProtocolError::ExpectedBulk(other.copied().unwrap_or(b'\r')),
                });
            };
            consumed = consumed.saturating_add(next);
            left = len.saturating_add(2);
        }
    }
}

/// A number as Redis reads them: an optional `-`, digits, no zero in front, nothing else.
pub fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits == b"0" {
        return (!negative).then_some(0);
    }
    // The longest number has 19 digits.
    if digits.len() > 19 || digits.first().is_none_or(|digit| !matches!(digit, b'1'..=b'9')) {
        return None;
    }
    let magnitude = digits.iter().try_fold(0_i64, |sum, digit| {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        // Summed up below zero, where the range has one more number.
        (0..=9).contains(&digit).then_some(())?;
        sum.checked_mul(10)?.checked_sub(digit)
    })?;
    if negative { Some(magnitude) } else { magnitude.checked_neg() }
}

#[cfg(test)]
mod tests;

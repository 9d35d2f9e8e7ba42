//! Lines out of a byte stream through one buffer that is used again and again.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use super::TraceError;

/// The longest line that is read, in bytes.
pub const MAX_LINE_BYTES: usize = 16 << 20;
const FIRST_BUFFER_BYTES: usize = 256 << 10;

/// A stream cut into lines. The current one stays readable until the next is asked for.
///
/// Invariant 1: `line.end <= next <= filled <= buffer.len()`.
pub(super) struct Lines {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    line: Range<usize>,
    /// The start of the next line.
    next: usize,
    /// Number of bytes of the buffer that hold data.
    filled: usize,
    number: u64,
    ended: bool,
    held: bool,
}

impl Lines {
    pub(super) fn new(source: Box<dyn Read + Send>) -> Self {
        Self {
            source,
            buffer: vec![0; FIRST_BUFFER_BYTES],
            line: 0..0,
            next: 0,
            filled: 0,
            number: 0,
            ended: false,
            held: false,
        }
    }

    /// The current line without its end (`\n` or `\r\n`).
    #[inline]
    pub(super) fn line(&self) -> &[u8] {
        self.buffer.get(self.line.clone()).unwrap_or_default()
    }

    /// The number of the current line, counted from 1.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Makes the next call of [`Lines::advance`] stay where it is.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// Goes to the next line that is not blank; false at the end.
    #[inline]
    pub(super) fn advance(&mut self, name: &str) -> Result<bool, TraceError> {
        if std::mem::take(&mut self.held) {
            return Ok(true);
        }
        loop {
            let unread = self.buffer.get(self.next..self.filled).unwrap_or_default();
            let Some(length) = unread.iter().position(|byte| *byte == b'\n') else {
                if self.fill(name)? {
                    continue;
                }
                return Ok(self.take_last());
            };
            let carriage_return = usize::from(length > 0 && unread.get(length - 1) == Some(&b'\r'));
            self.line = self.next..self.next + length - carriage_return;
            self.next += length + 1;
            self.number += 1;
            if !self.line.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Takes the text after the last line end. Returns whether there is any.
    fn take_last(&mut self) -> bool {
        self.line = self.next..self.filled;
        self.next = self.filled;
        if self.line().last() == Some(&b'\r') {
            self.line.end -= 1;
        }
        self.number += u64::from(!self.line.is_empty());
        !self.line.is_empty()
    }

    /// Reads more behind what is there; false when the stream has ended.
    #[cold]
    fn fill(&mut self, name: &str) -> Result<bool, TraceError> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.copy_within(self.next..self.filled, 0);
        self.filled -= self.next;
        self.next = 0;
        self.line = 0..0;
        if self.filled == self.buffer.len() {
            if self.buffer.len() >= MAX_LINE_BYTES {
                self.ended = true;
                let problem = format!("the line is longer than {} MiB", MAX_LINE_BYTES >> 20);
                return Err(TraceError::line(name, self.number + 1, problem, "check that this is a trace"));
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
            match self.source.read(room) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(n) => {
                    self.filled += n;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    let advice = "the file is damaged or cut off: fetch it again";
                    return Err(TraceError::io(name, Some(self.number + 1), &error, advice));
                }
            }
        }
    }
}

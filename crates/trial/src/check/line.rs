//! A connection to a server, of whatever kind: requests are sent whole, and replies awaited.

use std::io::{self, Read, Write};

/// More than any reply to what is asked here.
const MOST_REPLY_BYTES: usize = 64 << 20;

/// Bytes that go both ways: a socket, or TLS on one.
pub(crate) trait Duplex: Read + Write + Send {}

impl<T: Read + Write + Send> Duplex for T {}

/// A connection with room for requests and replies. That it is gone shows as an [`io::Error`] in
/// the chain of an error.
pub(crate) struct Line {
    stream: Box<dyn Duplex>,
    /// The requests to be sent.
    pub(crate) output: Vec<u8>,
    input: Vec<u8>,
    read: usize,
    filled: usize,
}

impl Line {
    pub(crate) fn new(stream: impl Duplex + 'static) -> Self {
        Self { stream: Box::new(stream), output: Vec::new(), input: vec![0; 16 << 10], read: 0, filled: 0 }
    }

    /// Sends `output`.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(&self.output).and_then(|()| self.stream.flush());
        self.output.clear();
        sent
    }

    /// The bytes that have been received and not yet consumed.
    pub(crate) fn arrived(&self) -> &[u8] {
        &self.input[self.read..self.filled]
    }

    /// Takes the first bytes of what has arrived.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.read += bytes;
    }

    /// Waits until more has arrived.
    pub(crate) fn receive(&mut self) -> io::Result<()> {
        self.input.copy_within(self.read..self.filled, 0);
        self.filled -= self.read;
        self.read = 0;
        if self.filled == self.input.len() {
            if self.input.len() >= MOST_REPLY_BYTES {
                return Err(io::Error::other(format!("a reply of more than {MOST_REPLY_BYTES} bytes")));
            }
            self.input.resize(self.input.len() * 2, 0);
        }
        match self.stream.read(&mut self.input[self.filled..])? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            bytes => {
                self.filled += bytes;
                Ok(())
            }
        }
    }
}

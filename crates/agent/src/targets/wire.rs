//! A connection to another server: blocking, with a deadline for each call and a limit for each
//! answer.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Duration;

use base::Clock;

use crate::{InstanceError, MILLI, Nanos};

/// The time that one call of an instance may take, whatever the number of its commands. Below the
/// second that [`crate::Instance`] allows.
pub(super) const PATIENCE: Nanos = 900 * MILLI;
/// Bytes that are read at once.
const PIECE: usize = 16 << 10;

/// The time at which a call gives up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Nanos);

impl Deadline {
    pub(super) fn after(nanos: Nanos) -> Self {
        Self(Clock::System.monotonic_nanos().saturating_add(nanos))
    }

    /// The remaining time, at least a millisecond.
    ///
    /// # Errors
    /// If less remains.
    pub(super) fn left(self) -> io::Result<Duration> {
        let left = self.0.saturating_sub(Clock::System.monotonic_nanos());
        if left < MILLI {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        }
        Ok(Duration::from_nanos(left))
    }
}

/// The host and the port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Address {
    /// Looks the host up. The system's resolver has no deadline: it runs in a thread of its own,
    /// which is left behind if it is late.
    fn resolve(&self, deadline: Deadline) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        let (answer, answered) = mpsc::channel();
        let (host, port) = (self.host.clone(), self.port);
        base::thread::spawn("resolve", move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            // Nobody listens any more if the answer is late.
            let _ = answer.send(found);
        })?;
        answered.recv_timeout(deadline.left()?).map_err(|_| {
            io::Error::new(io::ErrorKind::TimedOut, "the host's address was not found in time")
        })?
    }

    pub(super) fn connect(&self, deadline: Deadline) -> io::Result<Wire> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in self.resolve(deadline)? {
            match TcpStream::connect_timeout(&address, deadline.left()?) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Wire { stream, read: Vec::new(), at: 0 });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// An error of a server at this address, with the remedy.
    pub(super) fn failed(&self, kind: &str, error: io::Error) -> InstanceError {
        let remedy = match error.kind() {
            io::ErrorKind::ConnectionRefused => "start it, or correct the address",
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                "it may be overloaded or stopped: see that it runs and can be reached"
            }
            io::ErrorKind::InvalidData => "see that this is the server that the address names",
            _ => "see that it runs and can be reached",
        };
        InstanceError::because(format!("cannot talk to {kind} at {self}; {remedy}"), error)
    }
}

/// Bytes that are not the protocol's.
pub(super) fn garbled(words: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.into())
}

/// An open connection, with bytes that were received and not yet taken.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
    at: usize,
}

impl Wire {
    pub(super) fn send(&mut self, mut bytes: &[u8], deadline: Deadline) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(deadline.left()?))?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next line without its end. One of more than `most` bytes is an error.
    pub(super) fn line(&mut self, most: usize, deadline: Deadline) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            let waiting = self.read.get(self.at..).unwrap_or_default();
            let fresh = waiting.get(searched..).unwrap_or_default();
            if let Some(end) = fresh.iter().position(|&byte| byte == b'\n') {
                let line = waiting.get(..searched + end).unwrap_or_default();
                if line.len() > most {
                    return Err(garbled("a line of the answer is too long"));
                }
                let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
                self.at += searched + end + 1;
                return Ok(line);
            }
            searched = waiting.len();
            if searched > most {
                return Err(garbled("a line of the answer is too long"));
            }
            self.more(deadline)?;
        }
    }

    /// The next `len` bytes. The caller limits `len`.
    pub(super) fn bytes(&mut self, len: usize, deadline: Deadline) -> io::Result<Vec<u8>> {
        loop {
            let waiting = self.read.get(self.at..).unwrap_or_default();
            if let Some(bytes) = waiting.get(..len) {
                let bytes = bytes.to_vec();
                self.at += len;
                return Ok(bytes);
            }
            self.more(deadline)?;
        }
    }

    fn more(&mut self, deadline: Deadline) -> io::Result<()> {
        self.read.drain(..self.at.min(self.read.len()));
        self.at = 0;
        self.stream.set_read_timeout(Some(deadline.left()?))?;
        let mut piece = [0; PIECE];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the server closed the connection",
                    ));
                }
                Ok(len) => {
                    self.read.extend_from_slice(piece.get(..len).unwrap_or_default());
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Turns the connection into a source of lines that come unasked.
    pub(super) fn into_feed(self, most_kept: usize) -> Feed {
        let early = self.read.get(self.at..).unwrap_or_default().to_vec();
        Feed { stream: self.stream, lines: Lines::new(most_kept), early, piece: vec![0; 4 * PIECE] }
    }
}

/// Lines that a server sends unasked.
#[derive(Debug)]
pub(super) struct Feed {
    stream: TcpStream,
    lines: Lines,
    /// Bytes that came with the answer before.
    early: Vec<u8>,
    piece: Vec<u8>,
}

impl Feed {
    /// Waits for bytes, at most for `wait`, and passes the lines that are complete to `each`, with
    /// their full lengths. Returns the number of bytes.
    pub(super) fn read(&mut self, wait: Duration, mut each: impl FnMut(&[u8], usize)) -> io::Result<usize> {
        self.lines.push(&std::mem::take(&mut self.early), &mut each);
        self.stream.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        match self.stream.read(&mut self.piece) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(len) => {
                self.lines.push(self.piece.get(..len).unwrap_or_default(), &mut each);
                Ok(len)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(0),
                _ => Err(error),
            },
        }
    }
}

/// Cuts a stream into lines, of which it keeps the beginning.
#[derive(Debug)]
struct Lines {
    most_kept: usize,
    /// The line that is not complete: its beginning, and its length so far.
    begun: Vec<u8>,
    len: usize,
}

impl Lines {
    fn new(most_kept: usize) -> Self {
        Self { most_kept, begun: Vec::new(), len: 0 }
    }

    fn push(&mut self, mut bytes: &[u8], each: &mut impl FnMut(&[u8], usize)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.begin(bytes.get(..end).unwrap_or_default());
            // Of a line that was cut, the last byte is unknown.
            if self.begun.len() == self.len && self.begun.last() == Some(&b'\r') {
                self.begun.pop();
                self.len -= 1;
            }
            each(&self.begun, self.len);
            self.begun.clear();
            self.len = 0;
            bytes = bytes.get(end + 1..).unwrap_or_default();
        }
        self.begin(bytes);
    }

    fn begin(&mut self, bytes: &[u8]) {
        let room = self.most_kept.saturating_sub(self.begun.len()).min(bytes.len());
        self.begun.extend_from_slice(bytes.get(..room).unwrap_or_default());
        self.len = self.len.saturating_add(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(text: &[u8], piece: usize) -> Vec<(Vec<u8>, usize)> {
        let mut lines = Lines::new(20);
        let mut all = Vec::new();
        for bytes in text.chunks(piece) {
            lines.push(bytes, &mut |line: &[u8], len| all.push((line.to_vec(), len)));
        }
        all
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_they_arrive(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..300),
            piece in 1_usize..40,
        ) {
            let whole = cut(&text, usize::MAX >> 1);
            prop_assert_eq!(&whole, &cut(&text, piece));
            prop_assert_eq!(whole.len(), text.iter().filter(|byte| **byte == b'\n').count());
            prop_assert!(whole.iter().all(|(line, len)| line.len() <= 20 && line.len() <= *len));
        }
    }

    #[test]
    fn a_long_line_is_cut_and_its_length_is_known() {
        let text = [&[b'x'; 1000][..], b"y\nab\r\n"].concat();
        assert_eq!(cut(&text, 7), [(vec![b'x'; 20], 1001), (b"ab".to_vec(), 2)]);
    }
}

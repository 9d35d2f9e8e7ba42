//! One connection to a server: requests that are out, bytes on their way, replies matched to
//! requests.
//!
//! Invariant 1: `asked` holds the operations whose replies have not come, in the order in which
//! they were sent; the reads of one request stand together, and the first of them says how many
//! they are.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use workload::value::{Values, is_value_of};
use workload::{OpKind, Operation};

use super::tally::{Outcome, Tally};
use crate::targets::{Address, Event, Wire};

/// Longest time in which a server must reply before it is taken for dead.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_INPUT_BYTES: usize = 64 << 10;
/// More than any value that a cache takes, with room for its header.
const MAX_INPUT_BYTES: usize = 256 << 20;

/// A connection's socket.
#[derive(Debug)]
pub enum Stream {
    /// To a host and port.
    Tcp(TcpStream),
    /// To a socket in the file system.
    Unix(UnixStream),
}

impl Stream {
    /// Connects; reads wait for 30 seconds at most.
    ///
    /// # Errors
    /// Where the server cannot be reached.
    pub fn open(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
                Ok(Self::Unix(stream))
            }
        }
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(on),
            Self::Unix(stream) => stream.set_nonblocking(on),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Unix(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// An operation whose reply has not come.
struct Asked {
    operation: Operation,
    /// Time at which the request was sent, or was due.
    since: u64,
    /// Written because a read missed.
    is_fill: bool,
    /// The outcome as far as replies have shown it.
    outcome: Outcome,
    /// Number of reads in the request; 0 for all but its first.
    reads: u16,
}

/// The effects of replies.
pub(crate) struct Replies<'a> {
    pub(crate) tally: &'a mut Tally,
    /// Time at which the replies arrived.
    pub(crate) now: u64,
    pub(crate) look_aside: bool,
    /// The reads that missed and are to be written.
    pub(crate) fills: &'a mut Vec<Operation>,
}

/// A connection and what is under way on it.
pub(crate) struct Connection<W> {
    wire: W,
    stream: Stream,
    nonblocking: bool,
    output: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    /// The part of `input` that holds bytes not yet understood.
    unread: std::ops::Range<usize>,
    asked: VecDeque<Asked>,
    /// Requests under way, which are fewer than operations where reads share one.
    requests: usize,
    /// Number of reads of the request at the front that have been passed.
    passed: usize,
    key: Vec<u8>,
    keys: Vec<Vec<u8>>,
}

impl<W: Wire> Connection<W> {
    /// Connects; a call waits for bytes until [`Connection::set_nonblocking`].
    pub(crate) fn open(wire: W, address: &Address) -> Result<Self> {
        let stream = Stream::open(address).with_context(|| format!("connecting to {address}"))?;
        Ok(Self {
            wire,
            stream,
            nonblocking: false,
            output: Vec::new(),
            written: 0,
            input: vec![0; FIRST_INPUT_BYTES],
            unread: 0..0,
            asked: VecDeque::new(),
            requests: 0,
            passed: 0,
            key: Vec::new(),
            keys: Vec::new(),
        })
    }

    /// Makes calls on the socket return rather than wait, or wait again.
    pub(crate) fn set_nonblocking(&mut self, on: bool) -> io::Result<()> {
        if self.nonblocking != on {
            self.stream.set_nonblocking(on)?;
            self.nonblocking = on;
        }
        Ok(())
    }

    /// Requests whose replies have not come.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// Adds a request for operations of one kind: one, or several reads.
    pub(crate) fn ask(&mut self, operations: &[Operation], since: u64, values: &mut Values, is_fill: bool) {
        let Some(first) = operations.first() else { return };
        first.write_key(&mut self.key);
        match first.kind {
            OpKind::Get if operations.len() == 1 => self.wire.get(&[&self.key], &mut self.output),
            OpKind::Get => {
                self.keys.resize_with(self.keys.len().max(operations.len()), Vec::new);
                for (operation, key) in operations.iter().zip(&mut self.keys) {
                    operation.write_key(key);
                }
                let keys: Vec<&[u8]> = self.keys.iter().take(operations.len()).map(Vec::as_slice).collect();
                self.wire.get(&keys, &mut self.output);
            }
            OpKind::Set => self.wire.set(&self.key, values.of(first), first.ttl_secs, &mut self.output),
            OpKind::Delete => self.wire.delete(&self.key, &mut self.output),
            OpKind::Touch => self.wire.touch(&self.key, first.ttl_secs, &mut self.output),
        }
        for (i, operation) in operations.iter().enumerate() {
            let reads = if i == 0 { operations.len() as u16 } else { 0 };
            let asked = Asked { operation: *operation, since, is_fill, outcome: Outcome::Miss, reads };
            self.asked.push_back(asked);
        }
        self.requests += 1;
    }

    /// Writes what is to be sent; false where the socket takes no more for now.
    pub(crate) fn flush(&mut self) -> Result<bool> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => bail!("the server takes no more bytes"),
                Ok(n) => self.written += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("sending requests"),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(true)
    }

    /// Reads once; false where nothing has come.
    pub(crate) fn read(&mut self) -> Result<bool> {
        if self.unread.is_empty() {
            self.unread = 0..0;
        } else if self.unread.end == self.input.len() {
            self.input.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            if self.unread.end == self.input.len() {
                if self.input.len() >= MAX_INPUT_BYTES {
                    bail!("a reply of more than {MAX_INPUT_BYTES} bytes");
                }
                self.input.resize(self.input.len() * 2, 0);
            }
        }
        loop {
            match self.stream.read(&mut self.input[self.unread.end..]) {
                Ok(0) => {
                    let what =
                        format!("the server closed the connection with {} requests open", self.requests);
                    return Err(std::io::Error::new(ErrorKind::UnexpectedEof, what).into());
                }
                Ok(n) => {
                    self.unread.end += n;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("waiting for replies"),
            }
        }
    }

    /// Matches the replies that have come whole to their operations.
    pub(crate) fn take_replies(&mut self, replies: &mut Replies<'_>) -> Result<()> {
        loop {
            let input = &self.input[self.unread.clone()];
            if input.is_empty() {
                return Ok(());
            }
            let Some((event, bytes)) = self.wire.event(input)? else { return Ok(()) };
            let front = self.asked.front().ok_or_else(|| anyhow!("the server answered what nobody asked"))?;
            let (kind, reads) = (front.operation.kind, usize::from(front.reads));
            let is_read = kind == OpKind::Get;
            match event {
                Event::Value(key, value) if is_read => {
                    // Values come in the order of the keys; keys without a value are passed over.
                    let mut at = self.passed;
                    while reads > 1 && at < reads {
                        self.asked[at].operation.write_key(&mut self.key);
                        if self.key == key {
                            break;
                        }
                        at += 1;
                    }
                    if at >= reads {
                        bail!("the server sent a value that nobody asked for");
                    }
                    let right = is_value_of(&self.asked[at].operation, value);
                    self.asked[at].outcome = if right { Outcome::Hit } else { Outcome::WrongValue };
                    self.passed = at + 1;
                }
                Event::End if is_read => self.finish(None, replies),
                Event::Done if !is_read => self.finish(Some(Outcome::Done), replies),
                Event::NotDone if !is_read => self.finish(Some(Outcome::NotFound), replies),
                Event::Refused(reason) => {
                    replies.tally.note_refusal(reason);
                    self.finish(Some(Outcome::Refused), replies);
                }
                other => bail!("the server answered {other:?} to a {}", kind.name()),
            }
            self.unread.start += bytes;
        }
    }

    /// Counts the operations of the request at the front; `outcome` where the reply says it for all
    /// of them.
    fn finish(&mut self, outcome: Option<Outcome>, replies: &mut Replies<'_>) {
        self.requests -= 1;
        self.passed = 0;
        let reads = self.asked.front().map_or(0, |front| front.reads.max(1));
        for asked in self.asked.drain(..usize::from(reads)) {
            let outcome = outcome.unwrap_or(asked.outcome);
            if asked.is_fill {
                replies.tally.count_fill(&asked.operation, outcome == Outcome::Done);
                continue;
            }
            let latency = replies.now.saturating_sub(asked.since);
            replies.tally.count(&asked.operation, outcome, Some(latency));
            if replies.look_aside && outcome == Outcome::Miss {
                replies.fills.push(Operation { kind: OpKind::Set, ..asked.operation });
            }
        }
    }
}

impl<W> AsFd for Connection<W> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

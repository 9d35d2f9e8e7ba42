//! The load on a server: closed loop over a number of connections, each with a batch of requests
//! under way.
//!
//! A connection sends its batch in one write, takes in replies until the last has come, and sends
//! the next. A thread with one connection waits in `read` itself; with more it waits in epoll.
//! Latency runs from the write to the read that brought the reply.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base::Clock;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use workload::histogram::Latencies;

use super::stream::{Stream, TLS_RECORD_BYTES, Target};
use super::wire::{Reply, Wire};
use crate::keys::key;

/// The load on a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) wire: Wire,
    pub(crate) target: &'a Target,
    /// Connections of all threads.
    pub(crate) connections: usize,
    /// Requests in a batch.
    pub(crate) pipeline: usize,
    /// Writes in every ten requests.
    pub(crate) writes_of_ten: usize,
    /// The numbers of the keys that are asked for, in order, round and round.
    pub(crate) order: &'a [u32],
    pub(crate) value: &'a [u8],
    /// The processors of the threads, one each.
    pub(crate) cpus: &'a [usize],
    /// Time at the start that isn't measured, in milliseconds.
    pub(crate) warm_up_ms: u64,
    /// Time that is measured, in milliseconds.
    pub(crate) measured_ms: u64,
}

/// The replies and their latencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Replies, of which [`Self::misses`] said that there is no value.
    pub(crate) replies: u64,
    pub(crate) misses: u64,
    pub(crate) latencies: Latencies,
}

impl Load<'_> {
    /// Carries it out, and adds up what all threads saw.
    pub(crate) fn run(&self) -> Result<Tally> {
        let tallies: Result<Vec<Tally>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.cpus.len())
                .map(|thread| {
                    scope.spawn(move || {
                        base::thread::pin_to_cpu(self.cpus[thread])?;
                        Thread::open(self, thread)?.run()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
                .collect()
        });
        let mut all = Tally::default();
        for tally in tallies? {
            all.replies += tally.replies;
            all.misses += tally.misses;
            all.latencies.add(&tally.latencies);
        }
        Ok(all)
    }

    /// Returns the number of connections of thread `thread`.
    fn connections_of(&self, thread: usize) -> usize {
        let threads = self.cpus.len();
        self.connections / threads + usize::from(thread < self.connections % threads)
    }
}

/// A connection and its batch.
struct Connection {
    stream: Stream,
    out: Vec<u8>,
    /// Number of bytes of `out` that were sent.
    sent: usize,
    input: Vec<u8>,
    /// Start and end of the input that wasn't consumed yet.
    taken: usize,
    filled: usize,
    waiting_for: usize,
    since: u64,
    /// Its place in the order, and how many requests it sent.
    at: usize,
    requests: usize,
    watches_writes: bool,
}

/// One thread of the load.
struct Thread<'a> {
    load: &'a Load<'a>,
    connections: Vec<Connection>,
    epoll: OwnedFd,
    tally: Tally,
    /// From when on replies count, in nanoseconds.
    count_from: u64,
    until: u64,
}

impl<'a> Thread<'a> {
    fn open(load: &'a Load<'a>, thread: usize) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let count = load.connections_of(thread);
        let mut connections = Vec::new();
        for i in 0..count {
            let stream = Stream::open(load.target, Duration::from_secs(10))?;
            stream.socket().set_nonblocking(count > 1)?;
            epoll::add(&epoll, stream.socket(), epoll::EventData::new_u64(i as u64), epoll::EventFlags::IN)?;
            let at = load.order.len() / load.connections * (thread + i * load.cpus.len());
            connections.push(Connection::new(stream, at, load));
        }
        let start = Clock::System.monotonic_nanos();
        let count_from = start + load.warm_up_ms * 1_000_000;
        let until = count_from + load.measured_ms * 1_000_000;
        Ok(Self { load, connections, epoll, tally: Tally::default(), count_from, until })
    }

    fn run(mut self) -> Result<Tally> {
        let mut now = Clock::System.monotonic_nanos();
        for connection in &mut self.connections {
            connection.send_batch(self.load, now)?;
        }
        let mut events = Vec::with_capacity(self.connections.len().max(1));
        while now < self.until {
            if let [connection] = &mut self.connections[..] {
                connection.read()?;
                now = self.take(0)?;
                continue;
            }
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&TEN_SECONDS))?;
            if events.is_empty() {
                bail!("the server has not answered for 10 seconds");
            }
            for event in &events {
                let (flags, i) = (event.flags, event.data.u64() as usize);
                if flags.contains(epoll::EventFlags::OUT) {
                    self.connections[i].flush()?;
                    self.watch(i)?;
                }
                if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP) {
                    self.connections[i].read()?;
                    now = self.take(i)?;
                    self.watch(i)?;
                }
            }
        }
        Ok(self.tally)
    }

    /// Takes in the replies on a connection, and sends the next batch when all have come. Returns
    /// the time.
    fn take(&mut self, i: usize) -> Result<u64> {
        let now = Clock::System.monotonic_nanos();
        let connection = &mut self.connections[i];
        let counts = now >= self.count_from;
        let waited = now - connection.since;
        while connection.waiting_for > 0 {
            let input = &connection.input[connection.taken..connection.filled];
            let Some((reply, length)) = self.load.wire.reply(input, self.load.value.len())? else { break };
            connection.taken += length;
            connection.waiting_for -= 1;
            if counts {
                self.tally.replies += 1;
                self.tally.misses += u64::from(reply == Reply::Miss);
                self.tally.latencies.record(waited);
            }
        }
        connection.make_room();
        if connection.waiting_for == 0 && now < self.until {
            connection.send_batch(self.load, now)?;
        }
        Ok(now)
    }

    /// Has epoll say when the rest of a batch can be sent.
    fn watch(&mut self, i: usize) -> Result<()> {
        let connection = &mut self.connections[i];
        let unsent = connection.sent < connection.out.len() || connection.stream.holds_output();
        if unsent != connection.watches_writes {
            connection.watches_writes = unsent;
            let flags =
                if unsent { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            epoll::modify(
                &self.epoll,
                connection.stream.socket(),
                epoll::EventData::new_u64(i as u64),
                flags,
            )?;
        }
        Ok(())
    }
}

const TEN_SECONDS: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };

impl Connection {
    fn new(stream: Stream, at: usize, load: &Load<'_>) -> Self {
        let batch_bytes = load.pipeline * (load.value.len() + 128);
        Self {
            stream,
            out: Vec::with_capacity(batch_bytes),
            sent: 0,
            input: vec![0; batch_bytes.max(64 << 10)],
            taken: 0,
            filled: 0,
            waiting_for: 0,
            since: 0,
            at,
            requests: 0,
            watches_writes: false,
        }
    }

    /// Makes up the next batch and sends what goes.
    fn send_batch(&mut self, load: &Load<'_>, now: u64) -> Result<()> {
        self.out.clear();
        self.sent = 0;
        for _ in 0..load.pipeline {
            if self.at >= load.order.len() {
                self.at = 0;
            }
            let key = key(u64::from(load.order[self.at]));
            self.at += 1;
            self.requests += 1;
            if self.requests % 10 < load.writes_of_ten {
                load.wire.set(&key, load.value, &mut self.out);
            } else {
                load.wire.get(&key, &mut self.out);
            }
        }
        self.waiting_for = load.pipeline;
        self.since = now;
        self.flush()
    }

    /// Sends what goes.
    fn flush(&mut self) -> Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                // TLS takes no more until the socket does.
                Ok(0) => break,
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("writing to the server"),
            }
        }
        match self.stream.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                Err(error).context("writing to the server")
            }
            _ => Ok(()),
        }
    }

    /// Reads what has come.
    fn read(&mut self) -> Result<()> {
        loop {
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(n) => self.filled += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Bytes of TLS may have come without any that are the application's.
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.may_block() => {}
                Err(error) => return Err(error).context("reading from the server"),
            }
            if !self.stream.holds_input() {
                return Ok(());
            }
        }
    }

    fn may_block(&self) -> bool {
        self.watches_writes || matches!(self.stream, Stream::Tls(_))
    }

    /// Moves input that was not taken to the front.
    fn make_room(&mut self) {
        self.input.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
    }
}

/// Writes the keys `from..from + count` in batches that one record of TLS holds ([`Kind::takes`]).
///
/// [`Kind::takes`]: super::server::Kind::takes
pub(crate) fn fill(wire: Wire, target: &Target, from: u64, count: u64, value: &[u8]) -> Result<()> {
    let batch_len = (TLS_RECORD_BYTES / (value.len() + 128)).clamp(1, 64) as u64;
    let mut stream = Stream::open(target, Duration::from_secs(30))?;
    let (mut out, mut input) = (Vec::new(), vec![0; 64 << 10]);
    for start in (from..from + count).step_by(batch_len as usize) {
        let batch = batch_len.min(from + count - start);
        out.clear();
        for number in start..start + batch {
            wire.set(&key(number), value, &mut out);
        }
        stream.write_all(&out)?;
        stream.flush()?;
        let (mut left, mut filled) = (batch, 0);
        while left > 0 {
            let n = stream.read(&mut input[filled..])?;
            if n == 0 {
                bail!("the server closed the connection during the fill");
            }
            filled += n;
            let mut taken = 0;
            while let Some((reply, length)) = wire.reply(&input[taken..filled], value.len())? {
                if reply != Reply::Stored {
                    bail!("the server answered {reply:?} to a write");
                }
                taken += length;
                left -= 1;
            }
            input.copy_within(taken..filled, 0);
            filled -= taken;
        }
    }
    Ok(())
}

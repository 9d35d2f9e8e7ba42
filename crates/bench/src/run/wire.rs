//! One thread's load on a server, over one or many connections.
//!
//! In closed loop each connection sends as many requests as the pipeline is deep in one write,
//! takes all replies, and begins again; connections do not wait for each other. In open loop a
//! request is sent when it is due, on the next connection that has room; where none has, it waits,
//! and its latency runs all the same.
//!
//! A single connection without pipelining waits in `read` itself. Everything else waits in epoll;
//! the next due time is a timer among its descriptors, because epoll's own timeout counts in
//! milliseconds.

use anyhow::{Context, Error, Result, anyhow};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use workload::value::Values;
use workload::{OpKind, Operation};

use super::connection::{Connection, REPLY_TIMEOUT, Replies};
use super::source::Phase;
use super::tally::Tally;
use crate::targets::{Address, Wire};

/// A thread's connections and buffers.
pub(crate) struct WireThread<W> {
    links: Vec<Link<W>>,
    epoll: OwnedFd,
    /// Wakes epoll when the next request is due.
    timer: OwnedFd,
    /// Time at which the timer goes off, or went off without being set anew; `u64::MAX` if it isn't
    /// set.
    alarm: u64,
    events: Vec<epoll::Event>,
    values: Values,
    fills: Vec<Operation>,
    group: Vec<Operation>,
    /// An operation that was drawn and did not fit into the last request.
    held: Option<Operation>,
    /// Index at which the search for a connection with room begins.
    turn: usize,
    waits_in_read: bool,
}

/// The timer's token in epoll; connections have their number.
const TIMER: u64 = u64::MAX;

/// A connection and what epoll knows of it.
struct Link<W> {
    connection: Connection<W>,
    waits_to_write: bool,
}

impl<W: Wire + Clone> WireThread<W> {
    /// Opens `connections` connections.
    pub(crate) fn open(
        wire: &W,
        address: &Address,
        connections: usize,
        largest_value: usize,
    ) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("creating an epoll instance")?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
            .context("creating a timer")?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)
            .context("watching the timer")?;
        let mut links = Vec::new();
        for i in 0..connections.max(1) {
            let connection = Connection::open(wire.clone(), address)?;
            epoll::add(&epoll, &connection, epoll::EventData::new_u64(i as u64), epoll::EventFlags::IN)
                .context("watching a connection")?;
            links.push(Link { connection, waits_to_write: false });
        }
        Ok(Self {
            links,
            epoll,
            timer,
            alarm: u64::MAX,
            events: Vec::with_capacity(256),
            values: Values::new(largest_value),
            fills: Vec::new(),
            group: Vec::new(),
            held: None,
            turn: 0,
            waits_in_read: false,
        })
    }

    /// Drives a phase to its end, when the last reply has come.
    ///
    /// # Errors
    /// If a connection breaks or the server sends an invalid reply.
    pub(crate) fn drive(&mut self, phase: &mut Phase<'_>) -> Result<Tally> {
        let single = self.links.len() == 1 && phase.pipeline == 1 && phase.pace.is_none();
        self.waits_in_read = single;
        for link in &mut self.links {
            link.connection.set_nonblocking(!single)?;
        }
        let mut tally = Tally::default();
        let start = phase.clock.monotonic_nanos();
        if phase.pace.is_some() {
            self.open_loop(phase, &mut tally)?;
        } else {
            self.closed_loop(phase, &mut tally)?;
        }
        tally.nanos = phase.clock.monotonic_nanos() - start;
        Ok(tally)
    }

    fn closed_loop(&mut self, phase: &mut Phase<'_>, tally: &mut Tally) -> Result<()> {
        for i in 0..self.links.len() {
            self.refill(i, phase)?;
        }
        while self.links.iter().any(|link| link.connection.requests() > 0) {
            self.wait(phase, u64::MAX, tally)?;
            for event in 0..self.events.len() {
                let i = self.events[event].data.u64() as usize;
                if self.links[i].connection.requests() == 0 {
                    self.refill(i, phase)?;
                }
            }
            self.events.clear();
        }
        Ok(())
    }

    /// Sends the next batch on a connection that has nothing under way.
    fn refill(&mut self, i: usize, phase: &mut Phase<'_>) -> Result<()> {
        let since = phase.clock.monotonic_nanos();
        while self.links[i].connection.requests() < phase.pipeline && self.next_group(phase) {
            self.links[i].connection.ask(&self.group, since, &mut self.values, false);
        }
        self.flush(i)
    }

    /// Puts the operations of the next request into `group`: one, or reads that follow each other.
    /// False when the phase is over.
    fn next_group(&mut self, phase: &mut Phase<'_>) -> bool {
        self.group.clear();
        while self.group.len() < phase.multi_get {
            let Some(operation) = self.held.take().or_else(|| phase.next()) else { break };
            let is_read = operation.kind == OpKind::Get;
            if !self.group.is_empty() && !is_read {
                self.held = Some(operation);
                break;
            }
            self.group.push(operation);
            if !is_read {
                break;
            }
        }
        !self.group.is_empty()
    }

    fn open_loop(&mut self, phase: &mut Phase<'_>, tally: &mut Tally) -> Result<()> {
        loop {
            let mut now = phase.clock.monotonic_nanos();
            let mut due = phase.pace.as_ref().map_or(u64::MAX, super::pace::Pace::due);
            if due >= phase.deadline {
                phase.left = 0;
            }
            let mut blocked = false;
            while !phase.is_over() && due <= now {
                let Some(i) = self.link_with_room(phase.pipeline) else {
                    blocked = true;
                    break;
                };
                let Some(operation) = phase.next() else { break };
                self.links[i].connection.ask(&[operation], due, &mut self.values, false);
                self.flush(i)?;
                if let Some(pace) = &mut phase.pace {
                    pace.advance();
                    due = pace.due();
                }
                now = phase.clock.monotonic_nanos();
            }
            let idle = self.links.iter().all(|link| link.connection.requests() == 0);
            if phase.is_over() && idle {
                return Ok(());
            }
            let until = if phase.is_over() || blocked { u64::MAX } else { due };
            self.wait(phase, until, tally)?;
            self.events.clear();
        }
    }

    fn link_with_room(&mut self, pipeline: usize) -> Option<usize> {
        let links = self.links.len();
        let turns = (self.turn..links).chain(0..self.turn);
        let found = turns.into_iter().find(|i| self.links[*i].connection.requests() < pipeline)?;
        self.turn = (found + 1) % links;
        Some(found)
    }

    /// Waits for replies until the time `until`, and takes them in. `events` then holds the
    /// connections with news.
    fn wait(&mut self, phase: &Phase<'_>, until: u64, tally: &mut Tally) -> Result<()> {
        self.events.clear();
        if self.waits_in_read {
            if !self.links[0].connection.read()? {
                return Err(silent());
            }
            self.take(0, phase, tally)?;
            let data = epoll::EventData::new_u64(0);
            self.events.push(epoll::Event { flags: epoll::EventFlags::IN, data });
            return Ok(());
        }
        self.set_alarm(until)?;
        let patience = timespec(REPLY_TIMEOUT.as_nanos() as u64);
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the server"),
        }
        let waits_for_replies = self.links.iter().any(|link| link.connection.requests() > 0);
        if self.events.is_empty() && waits_for_replies {
            return Err(silent());
        }
        self.events.retain(|event| event.data.u64() != TIMER);
        for event in 0..self.events.len() {
            let (flags, i) = (self.events[event].flags, self.events[event].data.u64() as usize);
            if flags.contains(epoll::EventFlags::OUT) {
                self.flush(i)?;
            }
            if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
                && self.links[i].connection.read()?
            {
                self.take(i, phase, tally)?;
            }
        }
        Ok(())
    }

    /// Has epoll woken at `until`, in nanoseconds of the monotonic clock; `u64::MAX` for never.
    fn set_alarm(&mut self, until: u64) -> Result<()> {
        if until == self.alarm {
            return Ok(());
        }
        self.alarm = until;
        // A time of 0 takes the alarm away, and a time that has passed sets it off.
        let at = if until == u64::MAX { 0 } else { until.max(1) };
        let alarm = Itimerspec { it_interval: timespec(0), it_value: timespec(at) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &alarm).context("setting the timer")?;
        Ok(())
    }

    /// Takes in the replies that have come on a connection, and writes what look-aside reads
    /// missed.
    fn take(&mut self, i: usize, phase: &Phase<'_>, tally: &mut Tally) -> Result<()> {
        let now = phase.clock.monotonic_nanos();
        let connection = &mut self.links[i].connection;
        let look_aside = phase.look_aside;
        connection.take_replies(&mut Replies { tally, now, look_aside, fills: &mut self.fills })?;
        if self.fills.is_empty() {
            return Ok(());
        }
        for fill in self.fills.drain(..) {
            connection.ask(&[fill], now, &mut self.values, true);
        }
        self.flush(i)
    }

    /// Sends what is waiting, and has epoll say when the rest can go.
    fn flush(&mut self, i: usize) -> Result<()> {
        let link = &mut self.links[i];
        let all_sent = link.connection.flush()?;
        if all_sent == link.waits_to_write {
            link.waits_to_write = !all_sent;
            let flags =
                if all_sent { epoll::EventFlags::IN } else { epoll::EventFlags::IN | epoll::EventFlags::OUT };
            epoll::modify(&self.epoll, &link.connection, epoll::EventData::new_u64(i as u64), flags)
                .context("watching a connection")?;
        }
        Ok(())
    }
}

fn timespec(nanos: u64) -> Timespec {
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

fn silent() -> Error {
    anyhow!("the server has not answered for {} seconds", REPLY_TIMEOUT.as_secs())
}

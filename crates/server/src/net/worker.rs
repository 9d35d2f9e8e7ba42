//! A worker: one thread, one epoll instance, and the connections it was given.
//!
//! Every worker watches every listener (with EPOLLEXCLUSIVE, so that one is woken per connection), but a connection goes to
//! the worker that has the fewest: who accepts hands over. Each connection then stays where it is, so that a request is
//! received, answered and sent by one thread.
//!
//! Within a round every connection with an event gets one turn of bounded work. Those that have more to do stand in a queue
//! and get another turn each before the next events are fetched.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Part;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};

use super::connection::{Connection, Step};
use super::context::{Context, RECEIVE_BYTES};
use super::listener::{Listener, Peer};
use super::mailbox::Message;
use super::output::KEEP_BYTES as SPARE_OUTPUT_BYTES;
use super::table::{Table, Token};
use super::tls::{TlsBuffers, TlsStream};
use crate::config::Protocol;
use crate::metrics::Counter;
use crate::shared::{ConnectionInfo, Held, ListenerState, Shared};

/// Events that are fetched at a time.
const MAX_EVENTS: usize = 256;
/// Connections that are accepted before requests are answered again.
const MAX_ACCEPTS: usize = 64;
/// Epoll data from here on is no connection: the mailbox, then the listeners.
const MAILBOX: u64 = 1 << 63;
const LISTENER: u64 = MAILBOX + 1;

/// What goes to a client that is one too many.
const fn too_many(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Resp => b"-ERR max number of clients reached\r\n",
        _ => protocol::memcached::WireError::TooManyConnections.as_bytes(),
    }
}

/// The state of a worker's thread.
pub(crate) struct Worker<'c> {
    index: usize,
    epoll: OwnedFd,
    context: Context<'c>,
    listeners: Vec<Arc<Listener>>,
    connections: Table<Connection<'c>>,
    /// Connections that have more to do.
    queue: Vec<Token>,
    /// Given up to accept, and refuse, a connection when there are no descriptors left.
    spare_descriptor: Option<OwnedFd>,
    /// When connections were last looked at for being overdue, Unix seconds.
    swept_secs: u32,
    /// When what still drains is closed, Unix seconds.
    drain_until_secs: Option<u32>,
}

impl<'c> Worker<'c> {
    /// What a worker needs for itself: the buffers that it lends to its connections.
    const OWN_BYTES: u64 = (RECEIVE_BYTES + SPARE_OUTPUT_BYTES + size_of::<Self>()) as u64;

    /// Worker number `index`, watching its mailbox and `listeners`, which are numbered as in `shared`.
    ///
    /// # Errors
    /// Where there are no descriptors left.
    pub(crate) fn new(
        shared: &'c Shared,
        index: usize,
        listeners: Vec<Arc<Listener>>,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let worker = shared.workers.get(index).ok_or_else(|| std::io::Error::other("no such worker"))?;
        epoll::add(&epoll, &worker.mailbox, EventData::new_u64(MAILBOX), EventFlags::IN)?;
        for (number, listener) in listeners.iter().enumerate() {
            let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
            epoll::add(&epoll, listener, EventData::new_u64(LISTENER + number as u64), flags)?;
        }
        shared.cache.ledger().charge(Part::Connections, Self::OWN_BYTES);
        Ok(Self {
            index,
            epoll,
            swept_secs: shared.clock.unix_secs(),
            context: Context::new(shared),
            listeners,
            connections: Table::default(),
            queue: Vec::new(),
            spare_descriptor: spare_descriptor(),
            drain_until_secs: None,
        })
    }

    /// Serves until it is told to drain and everything is sent or given up.
    pub(crate) fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(MAX_EVENTS);
        while !self.is_finished() {
            if let Err(error) = self.wait(&mut events) {
                tracing::error!(worker = self.index, %error, "A worker cannot wait for events and stops.");
                break;
            }
            self.context.now_secs = self.context.shared.clock.unix_secs();
            for event in &events {
                match event.data.u64() {
                    MAILBOX => self.read_mail(),
                    listener if listener >= LISTENER => self.accept((listener - LISTENER) as usize),
                    token => self.drive(Token(token)),
                }
            }
            for token in std::mem::take(&mut self.queue) {
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.queued = false;
                    self.drive(token);
                }
            }
            self.sweep();
        }
        self.close_all();
    }

    fn is_finished(&self) -> bool {
        let Some(until) = self.drain_until_secs else { return false };
        self.connections.len() == 0 || self.context.now_secs >= until
    }

    /// Fetches the next events. For a while after there was work it asks again and again instead of sleeping, if the
    /// settings say so: waking up can take longer than answering.
    fn wait(&self, events: &mut Vec<Event>) -> Result<(), Errno> {
        let was_busy = !events.is_empty();
        events.clear();
        let busy_poll_nanos = u64::from(self.context.settings.busy_poll_micros) * 1000;
        if was_busy && busy_poll_nanos > 0 && self.queue.is_empty() {
            let clock = &self.context.shared.clock;
            let until = clock.monotonic_nanos().saturating_add(busy_poll_nanos);
            while events.is_empty() && clock.monotonic_nanos() < until {
                self.fetch(events, Some(Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            }
        }
        if events.is_empty() { self.fetch(events, self.timeout()) } else { Ok(()) }
    }

    fn fetch(&self, events: &mut Vec<Event>, timeout: Option<Timespec>) -> Result<(), Errno> {
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        if !self.queue.is_empty() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        // A second is the resolution of all time-outs; with nobody connected there is nothing to time.
        (self.connections.len() > 0).then_some(Timespec { tv_sec: 1, tv_nsec: 0 })
    }

    /// Lets a connection do what it can, and sees to what it needs next.
    fn drive(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        match connection.drive(&mut self.context) {
            Step::Close(reason) => return self.close(token, reason),
            Step::Wait(interest) => {
                if interest != connection.interest {
                    connection.interest = interest;
                    let data = EventData::new_u64(token.0);
                    if epoll::modify(&self.epoll, &*connection, data, interest).is_err() {
                        return self.close(token, Counter::ClosedBroken);
                    }
                }
            }
            Step::Again => {
                if !connection.queued {
                    connection.queued = true;
                    self.queue.push(token);
                }
            }
        }
        connection.publish_activity();
        let holding = connection.holding();
        if holding != connection.held {
            self.charge(token, holding);
        }
    }

    /// Accounts for what a connection holds now. Where that is too much, those that hold most are closed.
    fn charge(&mut self, token: Token, holding: Held) {
        loop {
            let Some(connection) = self.connections.get_mut(token) else { return };
            let shared = self.context.shared;
            if shared.budget.try_change(shared.cache.ledger(), connection.held, holding) {
                connection.held = holding;
                return;
            }
            let largest = self
                .connections
                .iter_mut()
                .map(|(other, connection)| {
                    let held = if other == token { holding } else { connection.held };
                    (held.total(), other)
                })
                .max_by_key(|(held, _)| *held);
            let Some((_, victim)) = largest else { return };
            self.close(victim, Counter::ClosedMemory);
        }
    }

    fn accept(&mut self, number: usize) {
        let Some(listener) = self.listeners.get(number).cloned() else { return };
        for _ in 0..MAX_ACCEPTS {
            let accepted = {
                let _accepting = self.context.shared.accepting();
                listener.accept()
            };
            match accepted {
                Ok((socket, peer)) => self.admit(socket, peer, number),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::MFILE | Errno::NFILE) => {
                        if !self.refuse_for_want_of_descriptors(&listener, number) {
                            return;
                        }
                    }
                    // The client was gone before it was accepted, or the kernel was short of memory for a moment.
                    _ => tracing::debug!(%error, "A connection could not be accepted."),
                },
            }
        }
    }

    /// Takes a connection that waits and closes it at once, so that it does not wait, and wake the worker, for ever.
    /// Returns whether that worked.
    fn refuse_for_want_of_descriptors(&mut self, listener: &Listener, number: usize) -> bool {
        // Or else another worker would accept with the descriptor that is given up here, and it would not come back.
        let _accepting = self.context.shared.accepting();
        drop(self.spare_descriptor.take());
        let refused = listener.accept().map(|(socket, _)| {
            if let Some(state) = self.context.shared.listeners.get(number) {
                refuse(&socket, state);
            }
        });
        self.spare_descriptor = spare_descriptor();
        if let Some(state) = self.context.shared.listeners.get(number) {
            state.counters.add(Counter::RefusedDescriptor, 1);
        }
        refused.is_ok()
    }

    /// Gives a new connection to the worker that has the fewest, or refuses it.
    fn admit(&mut self, socket: OwnedFd, peer: Peer, number: usize) {
        let shared = self.context.shared;
        let Some(state) = shared.listeners.get(number) else { return };
        state.counters.add(Counter::Accepted, 1);
        let open = shared.connections.fetch_add(1, Ordering::Relaxed);
        if open >= self.context.settings.max_connections {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            state.counters.add(Counter::RefusedConnection, 1);
            refuse(&socket, state);
            return;
        }
        state.connections.fetch_add(1, Ordering::Relaxed);
        let load = |index: usize| {
            shared.workers.get(index).map_or(usize::MAX, |worker| worker.connections.load(Ordering::Relaxed))
        };
        let least = (0..shared.workers.len()).min_by_key(|index| (load(*index), *index != self.index));
        let chosen = least.unwrap_or(self.index);
        let Some(worker) = shared.workers.get(chosen) else { return };
        worker.connections.fetch_add(1, Ordering::Relaxed);
        if chosen == self.index {
            self.serve(socket, peer, number);
        } else {
            worker.mailbox.send(Message::Serve(socket, peer, number));
        }
    }

    /// Adds a connection that was counted already.
    fn serve(&mut self, socket: OwnedFd, peer: Peer, number: usize) {
        let Some(state) = self.context.shared.listeners.get(number) else { return };
        let tls = match state.tls.get().map(|tls| TlsStream::new(Arc::clone(&tls.config))).transpose() {
            Ok(tls) => tls.map(Box::new),
            Err(error) => {
                tracing::error!(listener = state.name, %error, "TLS cannot begin.");
                state.counters.add(Counter::TlsOther, 1);
                return self.uncount(state, Counter::ClosedTls);
            }
        };
        if tls.is_some() && self.context.tls.is_none() {
            self.context.tls = Some(Box::default());
            self.context.shared.cache.ledger().charge(Part::Connections, TlsBuffers::BYTES);
        }
        let descriptor = socket.as_raw_fd();
        let id = self.context.shared.next_connection_id();
        let info =
            Arc::new(ConnectionInfo::new((descriptor, id), peer, Arc::clone(state), self.context.now_secs));
        tracing::debug!(listener = state.name, peer = %info.peer, worker = self.index, "A client connected.");
        self.context.shared.registry.add(Arc::clone(&info));
        let context = &self.context;
        let token = self.connections.insert(|_| Connection::new(socket, tls, info, context));
        let Some(connection) = self.connections.get_mut(token) else { return };
        if epoll::add(&self.epoll, &*connection, EventData::new_u64(token.0), EventFlags::IN).is_err() {
            return self.close(token, Counter::ClosedBroken);
        }
        // Most clients have sent their first request by now.
        self.drive(token);
    }

    fn close(&mut self, token: Token, reason: Counter) {
        let Some(connection) = self.connections.remove(token) else { return };
        let shared = self.context.shared;
        let none = Held::default();
        let _ = shared.budget.try_change(shared.cache.ledger(), connection.held, none);
        shared.registry.remove(connection.descriptor());
        let state = &connection.info.listener;
        self.uncount(state, reason);
        tracing::debug!(listener = state.name, peer = %connection.info.peer, ?reason, "A connection was closed.");
        if self.spare_descriptor.is_none() {
            drop(connection);
            self.spare_descriptor = spare_descriptor();
        }
    }

    /// Takes a connection out of all counts, and counts why.
    fn uncount(&self, state: &ListenerState, reason: Counter) {
        let shared = self.context.shared;
        shared.connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(worker) = shared.workers.get(self.index) {
            worker.connections.fetch_sub(1, Ordering::Relaxed);
        }
        state.connections.fetch_sub(1, Ordering::Relaxed);
        state.counters.add(reason, 1);
    }

    fn read_mail(&mut self) {
        let Some(worker) = self.context.shared.workers.get(self.index) else { return };
        for message in worker.mailbox.take() {
            match message {
                Message::Serve(socket, peer, number) => self.serve(socket, peer, number),
                Message::Reload => self.reload(),
                Message::Drain => self.drain(),
            }
        }
    }

    fn reload(&mut self) {
        self.context.settings = self.context.shared.settings();
        for (_, connection) in self.connections.iter_mut() {
            connection.reload(&self.context);
        }
    }

    fn drain(&mut self) {
        self.listeners.iter().for_each(|listener| {
            let _ = epoll::delete(&self.epoll, listener);
        });
        self.listeners.clear();
        let patience = self.context.settings.drain_timeout_secs;
        self.drain_until_secs = Some(self.context.now_secs.saturating_add(patience).saturating_add(1));
        let tokens: Vec<Token> = self.connections.iter_mut().map(|(token, _)| token).collect();
        for token in tokens {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.drain();
                self.drive(token);
            }
        }
    }

    /// Once a second: closes what is idle or stalled for too long.
    fn sweep(&mut self) {
        if self.context.now_secs == self.swept_secs {
            return;
        }
        self.swept_secs = self.context.now_secs;
        let context = &self.context;
        let overdue: Vec<(Token, Counter)> = self
            .connections
            .iter_mut()
            .filter_map(|(token, connection)| Some((token, connection.overdue(context)?)))
            .collect();
        for (token, reason) in overdue {
            self.close(token, reason);
        }
    }

    fn close_all(&mut self) {
        let tokens: Vec<Token> = self.connections.iter_mut().map(|(token, _)| token).collect();
        for token in tokens {
            self.close(token, Counter::ClosedDrained);
        }
        let tls = if self.context.tls.is_some() { TlsBuffers::BYTES } else { 0 };
        self.context.shared.cache.ledger().release(Part::Connections, Self::OWN_BYTES + tls);
    }
}

/// Tells a client that it is one too many. What it has sent already is read, so that closing does not reset the connection
/// before the client has the answer.
fn refuse(socket: &OwnedFd, listener: &ListenerState) {
    // Within TLS it could only be told after the handshake, which is what there is no room for.
    if listener.tls.get().is_none() {
        let _ = rustix::net::send(socket, too_many(listener.protocol), SendFlags::NOSIGNAL);
    }
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    let _ = rustix::io::read(socket, &mut [0_u8; 4096]);
}

fn spare_descriptor() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

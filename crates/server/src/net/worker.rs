//! A worker: one thread, one epoll instance, and the connections it was given.
//!
//! Every worker polls every listener, with EPOLLEXCLUSIVE to avoid waking all of them. The worker
//! that accepts a connection hands it to the worker with the fewest connections, where it stays:
//! one thread receives, answers and sends, except for slow commands ([`super::slow`]).
//!
//! A connection with an event stands in the lane of its tenant until it gets a turn of bounded
//! work, and stands there again if it has more to do. Events are fetched between rounds, in each of
//! which every lane gets its share ([`super::lanes`]).

mod away;
mod connections;
mod mail;
mod memory;
mod newcomers;

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Part;
use config::Protocol;
use frontend::context::{Context, RECEIVE_BYTES};
use frontend::listener::ListenerState;
use frontend::mailbox::Message;
use frontend::mailbox::Token;
use frontend::output::KEEP_BYTES as SPARE_OUTPUT_BYTES;
use frontend::peer::Peer;
use frontend::session::Protocols;
use frontend::settings::Settings;
use frontend::shared::Shared;
use frontend::tls::TlsBuffers;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use tenancy::metrics::Counter;
use tenancy::{Spent, Tenant};

use super::connection::{Connection, Step};
use super::lanes::{LaneId, Lanes};
use super::listener::Listener;
use super::slow::SlowThread;
use super::table::Table;

/// Events that are fetched at a time.
const MAX_EVENTS: usize = 256;
/// Connections that are accepted before requests are answered again.
const MAX_ACCEPTS: usize = 64;
/// Lowest epoll data that isn't a connection's: the mailbox, then the listeners.
const MAILBOX: u64 = 1 << 63;
const LISTENER: u64 = MAILBOX + 1;

/// Time for which a worker leaves its processor while a slow command is under way, every
/// `GIVE_WAY_EVERY_NANOS`: about 2.5 %.
const GIVE_WAY: Duration = Duration::from_micros(100);
const GIVE_WAY_EVERY_NANOS: u64 = 4_000_000;

/// Most connections of a worker whose reply to a wrong password is being delayed. Beyond that, a
/// connection is closed without the reply.
const MAX_DELAYED: usize = 1_024;

/// Duration from which a turn is slow: the next one of the connection waits behind those of others.
const SLOW_TURN_NANOS: u64 = 1_000_000;

const SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Interval at which a worker checks whether a new connection that waits can be accepted.
const PLACE_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// The error sent to a client when the limit of connections is reached.
const fn too_many(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Resp => b"-ERR max number of clients reached\r\n",
        _ => protocol::memcached::WireError::TooManyConnections.as_bytes(),
    }
}

/// A connection that the thread for slow commands has: its lane, its memory, and what is to be
/// pushed to it once it is back.
#[derive(Default)]
struct Detached {
    lane: LaneId,
    held_bytes: u64,
    pushes: Vec<u8>,
    closes: Option<Counter>,
}

/// A connection that was accepted when there was no place for another.
struct Newcomer {
    socket: OwnedFd,
    peer: Peer,
    /// The number of its listener.
    listener: usize,
    /// Nanoseconds of the machine's monotonic clock at which it is refused.
    until: u64,
}

/// The state of a worker's thread.
pub(crate) struct Worker<'c> {
    index: usize,
    epoll: OwnedFd,
    context: Context<'c>,
    protocols: Protocols,
    listeners: Vec<Arc<Listener>>,
    connections: Table<Connection<'c>>,
    /// Connections that have something to do.
    lanes: Lanes,
    /// The thread for slow commands, and the connections that it has.
    slow: SlowThread<'c>,
    away: BTreeMap<u64, Detached>,
    /// Time at which the worker last left its processor to that thread for a while, in nanoseconds.
    gave_way_at: u64,
    /// The settings.
    settings: Turns,
    /// Given up to accept, and refuse, a connection when there are no descriptors left.
    spare_descriptor: Option<OwnedFd>,
    /// Connections that wait with their tenant's other clients, and until when at the latest, in
    /// nanoseconds of the monotonic clock.
    paused: Vec<(Token, u64)>,
    /// Connections that wait for the answer to a wrong password, and until when, as there.
    delayed: Vec<(Token, u64)>,
    newcomers: Vec<Newcomer>,
    /// Time at which connections were last checked for being overdue, Unix seconds.
    swept_secs: u32,
    /// Time at which connections that still drain are closed, Unix seconds.
    drain_until_secs: Option<u32>,
}

impl<'c> Worker<'c> {
    /// The memory that a worker needs for itself: the buffers that it lends to its connections.
    const OWN_BYTES: u64 = (RECEIVE_BYTES + SPARE_OUTPUT_BYTES + size_of::<Self>()) as u64;

    /// Worker number `index`, watching its mailbox and `listeners`, which are numbered as in
    /// `shared`.
    ///
    /// # Errors
    /// Where there are no descriptors left.
    pub(crate) fn new(
        shared: &'c Shared,
        index: usize,
        listeners: Vec<Arc<Listener>>,
        slow: SlowThread<'c>,
        protocols: Protocols,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let worker = shared.workers.get(index).ok_or_else(|| std::io::Error::other("no such worker"))?;
        epoll::add(&epoll, &worker.mailbox, EventData::new_u64(MAILBOX), EventFlags::IN)?;
        for (number, listener) in listeners.iter().enumerate() {
            let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
            epoll::add(&epoll, listener, EventData::new_u64(LISTENER + number as u64), flags)?;
            if let Some(state) = shared.listeners.get(number) {
                state.descriptor.store(listener.as_fd().as_raw_fd(), Ordering::Relaxed);
            }
        }
        shared.cache.ledger().charge(Part::Connections, Self::OWN_BYTES);
        Ok(Self {
            index,
            epoll,
            swept_secs: shared.clock.unix_secs(),
            settings: settings_of(shared),
            context: Context::new(shared, index),
            protocols,
            listeners,
            connections: Table::default(),
            lanes: Lanes::default(),
            slow,
            away: BTreeMap::new(),
            gave_way_at: 0,
            spare_descriptor: spare_descriptor(),
            paused: Vec::new(),
            delayed: Vec::new(),
            newcomers: Vec::new(),
            drain_until_secs: None,
        })
    }

    /// Serves until it is told to drain and everything is sent or given up.
    pub(crate) fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(MAX_EVENTS);
        while !self.is_finished() {
            let waits_since = self.slow.is_busy().then(|| self.context.shared.clock.monotonic_nanos());
            if let Err(error) = self.wait(&mut events) {
                tracing::error!(worker = self.index, %error, "A worker cannot wait for events and stops.");
                break;
            }
            if let Some(since) = waits_since {
                self.yield_to_slow_thread(since);
            }
            self.context.now_secs = self.context.shared.clock.unix_secs();
            for event in &events {
                match event.data.u64() {
                    MAILBOX => self.read_mail(),
                    listener if listener >= LISTENER => self.accept((listener - LISTENER) as usize),
                    token => self.wake(Token(token), event.flags),
                }
            }
            self.release(false);
            self.round();
            self.look_for_places();
            let shared = self.context.shared;
            for (token, bytes) in shared.tracking.deliver(shared, Some(self.index)) {
                self.push(token, &bytes);
            }
            self.sweep();
        }
        self.close_all();
    }

    fn is_finished(&self) -> bool {
        let Some(until) = self.drain_until_secs else { return false };
        self.connections.len() == 0 || self.context.now_secs >= until
    }

    /// Fetches the next events. For a while after there was work it asks again and again instead of
    /// sleeping, if the settings say so: waking up can take longer than answering.
    fn wait(&self, events: &mut Vec<Event>) -> Result<(), Errno> {
        let was_busy = !events.is_empty();
        events.clear();
        let busy_poll_nanos = u64::from(self.context.settings.busy_poll_micros) * 1000;
        if was_busy && busy_poll_nanos > 0 && self.lanes.next_at().is_none() {
            let clock = &self.context.shared.clock;
            let until = clock.monotonic_nanos().saturating_add(busy_poll_nanos);
            while events.is_empty() && clock.monotonic_nanos() < until {
                self.fetch(events, Some(Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            }
        }
        if events.is_empty() { self.fetch(events, self.timeout()) } else { Ok(()) }
    }

    /// Leaves the processor to the thread of a slow command, which runs only when nothing else
    /// wants to: it must also get to run under a worker that always has something to do. The worker
    /// has waited for events since `since`.
    fn yield_to_slow_thread(&mut self, since: u64) {
        let clock = &self.context.shared.clock;
        let now = clock.monotonic_nanos();
        let rest_nanos = GIVE_WAY.as_nanos() as u64;
        if now.saturating_sub(since) >= rest_nanos {
            self.gave_way_at = now;
        } else if now.saturating_sub(self.gave_way_at) >= GIVE_WAY_EVERY_NANOS {
            base::thread::sleep(GIVE_WAY);
            self.gave_way_at = clock.monotonic_nanos();
        }
    }

    fn fetch(&self, events: &mut Vec<Event>, mut timeout: Option<Timespec>) -> Result<(), Errno> {
        // The kernel's call for this counts milliseconds.
        let is_short = |timeout: &Timespec| timeout.tv_sec == 0 && (1..1_000_000).contains(&timeout.tv_nsec);
        if timeout.as_ref().is_some_and(is_short) {
            let mut readable = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut readable, timeout.as_ref()) {
                Ok(0) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            timeout = Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        // A second is the resolution of all time-outs; with nobody connected there is nothing to
        // time.
        let longest = if self.newcomers.is_empty() { SECOND } else { PLACE_LOOK };
        let paused_until = self.paused.iter().chain(&self.delayed).map(|(_, until)| *until).min();
        match self.lanes.next_at().into_iter().chain(paused_until).min() {
            None => (self.connections.len() > 0 || !self.newcomers.is_empty()).then_some(longest),
            Some(0) => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
            Some(at) => {
                let nanos = at.saturating_sub(self.context.shared.clock.monotonic_nanos());
                let nanos = Duration::from_nanos(nanos);
                Some(Timespec::try_from(nanos).map_or(longest, |wait| wait.min(longest)))
            }
        }
    }

    /// Something happened to a connection: it is to have a turn.
    fn wake(&mut self, token: Token, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.is_paused() && flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            // Its client is gone, and epoll would say so again and again.
            return self.close(token, Counter::ClosedByClient);
        }
        if !connection.queued {
            connection.queued = true;
            self.lanes.push(connection.lane, token);
        }
    }

    /// Wakes connections that `CLIENT PAUSE` holds: those whose pause is over or, with `all`, every
    /// one. Also wakes those whose delayed reply to a wrong password is due.
    fn release(&mut self, all: bool) {
        if self.paused.is_empty() && self.delayed.is_empty() {
            return;
        }
        let now = self.context.shared.clock.monotonic_nanos();
        let mut over: Vec<(Token, u64)> =
            self.paused.extract_if(.., |(_, until)| all || *until <= now).collect();
        over.extend(self.delayed.extract_if(.., |(_, until)| *until <= now));
        over.into_iter().for_each(|(token, _)| self.wake(token, EventFlags::empty()));
    }

    /// Gives every lane in which something stands its share.
    fn round(&mut self) {
        if self.lanes.active() == 0 {
            return;
        }
        let mut now = self.context.shared.clock.monotonic_nanos();
        for _ in 0..self.lanes.active() {
            let Some((lane, standing)) = self.lanes.begin() else { break };
            let several = self.lanes.are_several();
            let mut served = 0;
            while (several || served < standing) && self.is_open(lane) {
                let Some(token) = self.lanes.next(lane) else { break };
                served += 1;
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.queued = false;
                    connection.resume(self.context.now_secs);
                    now = self.drive(token, lane, now);
                }
            }
            self.lanes.end(lane);
        }
    }

    /// Returns whether a lane may be served now. If its tenant's rate is spent, its connections
    /// wait, and nothing is read from them.
    fn is_open(&mut self, lane: LaneId) -> bool {
        let clock = &self.context.shared.clock;
        if self.lanes.waits(lane, || clock.monotonic_nanos()) {
            return false;
        }
        let is_ending = self.drain_until_secs.is_some();
        // While draining, and for a tenant that is being removed, last replies ignore the rate.
        let is_bound =
            |tenant: &&Arc<Tenant>| tenant.is_limited() && !tenant.is_being_removed() && !is_ending;
        let Some(tenant) = self.lanes.tenant(lane).filter(is_bound) else {
            self.lanes.open(lane);
            return true;
        };
        let now = self.context.shared.clock.monotonic_nanos();
        let wait = tenant.wait(now);
        let (connections, epoll) = (&mut self.connections, &self.epoll);
        if wait == 0 {
            self.lanes.open(lane);
            return true;
        }
        self.lanes.close_until(lane, now.saturating_add(wait), |token| {
            let Some(connection) = connections.get_mut(token) else { return };
            connection.pause();
            connection.interest = EventFlags::empty();
            // Where that fails it is woken for nothing, and waits all the same.
            let _ = epoll::modify(epoll, &*connection, EventData::new_u64(token.0), EventFlags::empty());
        });
        false
    }

    /// Charges the tenant's buckets for a turn, and puts the connection into its tenant's lane.
    /// Returns the cost of the turn.
    fn charge_turn(&mut self, token: Token, lane: LaneId) -> Spent {
        let Some(connection) = self.connections.get_mut(token) else { return Spent::default() };
        let spent = connection.take_spent();
        let Some(tenant) = self.lanes.tenant(lane) else { return spent };
        if tenant.is_limited() {
            tenant.charge(self.context.shared.clock.monotonic_nanos(), spent);
        }
        let present = &connection.account().tenant;
        if !Arc::ptr_eq(tenant, present) {
            tenant.connection_memory.hand_over(&present.connection_memory, connection.held.total());
            connection.lane = self.lanes.join(present);
            self.lanes.leave(lane);
            self.share_settings();
        }
        spent
    }

    /// Has turns be short while several tenants have connections here.
    fn share_settings(&mut self) {
        let Turns { alone, several, .. } = &self.settings;
        self.context.settings = Arc::clone(if self.lanes.are_several() { several } else { alone });
    }

    /// Lets a connection do what it can, and sees to what it needs next. The turn began at `since`;
    /// returns when it was over.
    fn drive(&mut self, token: Token, lane: LaneId, since: u64) -> u64 {
        let Some(connection) = self.connections.get_mut(token) else { return since };
        let step = connection.drive(&mut self.context);
        let spent = self.charge_turn(token, lane);
        let now = self.context.shared.clock.monotonic_nanos();
        let nanos = now.saturating_sub(since);
        let was_slow = step == Step::Again && nanos >= SLOW_TURN_NANOS;
        self.schedule(token, lane, if was_slow { Step::Yield } else { step });
        self.lanes.spend(lane, spent, nanos);
        now
    }

    /// Sees to what a connection needs that had a turn.
    fn schedule(&mut self, token: Token, lane: LaneId, step: Step) {
        let clock = &self.context.shared.clock;
        self.lanes.note_vain(lane, step == Step::AwaitGate, || clock.monotonic_nanos());
        let Some(connection) = self.connections.get_mut(token) else { return };
        match step {
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
            Step::AwaitUnpause => {
                connection.hold();
                let until = connection.own_account().tenant.pause.until_nanos();
                set_aside(&self.epoll, connection, &mut self.paused, (token, until));
            }
            Step::AwaitItems if connection.await_items() => {
                connection.interest = EventFlags::empty();
                let (data, none) = (EventData::new_u64(token.0), EventFlags::empty());
                let _ = epoll::modify(&self.epoll, &*connection, data, none);
            }
            // The items have arrived already, and the wake-up may have been lost: send it again.
            Step::AwaitItems => {
                if let Some(worker) = self.context.shared.workers.get(self.index) {
                    worker.mailbox.send(Message::Brought(token));
                }
            }
            // One delayed connection costs little, but many clients may guess passwords.
            Step::Delay(_) if self.delayed.len() >= MAX_DELAYED => {
                return self.close(token, Counter::ClosedRefused);
            }
            Step::Delay(until) => {
                connection.delay();
                set_aside(&self.epoll, connection, &mut self.delayed, (token, until));
            }
            Step::Again | Step::AwaitGate => self.stand_again(token, lane, false),
            Step::Yield => self.stand_again(token, lane, true),
            Step::Slow => {}
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.publish_activity();
        let holding = connection.holding();
        if holding != connection.held {
            self.charge(token, holding);
        }
        if step == Step::Slow {
            self.send_away(token, lane);
        }
    }

    /// Has a connection stand in its lane for another turn; in `lane`, which is being served, at
    /// the end, or where slow turns wait.
    fn stand_again(&mut self, token: Token, lane: LaneId, is_slow: bool) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if !connection.queued {
            connection.queued = true;
            if connection.lane == lane && is_slow {
                self.lanes.push_slow(lane, token);
            } else if connection.lane == lane {
                self.lanes.push_again(lane, token);
            } else {
                self.lanes.push(connection.lane, token);
            }
        }
    }

    /// Once a second: closes what is idle or stalled for too long, and has connections go on that
    /// have waited too long for items.
    fn sweep(&mut self) {
        if self.context.now_secs == self.swept_secs {
            return;
        }
        self.swept_secs = self.context.now_secs;
        let now = self.context.shared.clock.monotonic_nanos();
        let waited: Vec<Token> = self
            .connections
            .iter_mut()
            .filter_map(|(token, connection)| connection.give_up_items(now).then_some(token))
            .collect();
        waited.into_iter().for_each(|token| self.wake(token, EventFlags::empty()));
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
        for job in self.slow.end() {
            let (token, _, connection, _) = job.end();
            self.connections.put_back(token, connection);
        }
        let tokens: Vec<Token> = self.connections.iter_mut().map(|(token, _)| token).collect();
        for token in tokens {
            self.close(token, Counter::ClosedDrained);
        }
        let tls = if self.context.tls.is_some() { TlsBuffers::BYTES } else { 0 };
        self.context.shared.cache.ledger().release(Part::Connections, Self::OWN_BYTES + tls);
    }
}

/// The settings, as they hold for turns of different kinds.
struct Turns {
    /// While one tenant has connections here, and while several have.
    alone: Arc<Settings>,
    several: Arc<Settings>,
    /// With the thread for slow commands.
    away: Arc<Settings>,
}

fn settings_of(shared: &Shared) -> Turns {
    let alone = shared.settings();
    let several = alone.for_several_tenants();
    let away = Arc::new(several.clone().for_nobody_waiting(&alone));
    Turns { alone, several: Arc::new(several), away }
}

/// Tells a client that it is one too many. What it has sent already is read, so that closing does
/// not reset the connection before the client has the answer.
fn refuse(socket: &OwnedFd, listener: &ListenerState) {
    // A TLS client could read the error only after a handshake, for which there is no capacity.
    if listener.tls.get().is_none() {
        let _ = rustix::net::send(socket, too_many(listener.protocol), SendFlags::NOSIGNAL);
    }
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    let _ = rustix::io::read(socket, &mut [0_u8; 4096]);
}

/// Has a connection wait in a list, until a moment at the latest. Nothing is read from it
/// meanwhile.
fn set_aside(
    epoll: &OwnedFd,
    connection: &mut Connection<'_>,
    list: &mut Vec<(Token, u64)>,
    (token, until): (Token, u64),
) {
    connection.interest = EventFlags::empty();
    // Where that fails it is woken for nothing, and waits all the same.
    let _ = epoll::modify(epoll, &*connection, EventData::new_u64(token.0), EventFlags::empty());
    list.retain(|(waiting, _)| *waiting != token);
    list.push((token, until));
}

fn spare_descriptor() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

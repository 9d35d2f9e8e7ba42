//! One connection: receives, lets its session answer, sends, and says what it waits for.
//!
//! Invariants:
//! 1. Nothing is received while anything is unsent. A client that does not read stops being read
//!    from, and what is unsent is what one turn produced: at most the output limit and one item.
//! 2. A connection that waits for its client owns buffers only for what is pending: a partial
//!    request, unsent responses. Everything else uses the worker's.

mod receive;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use frontend::connections::{Activity, ConnectionInfo};
use frontend::context::Context;
use frontend::output::{Output, Sent};
use frontend::session::Protocols;
use frontend::telemetry::Over;
use frontend::tls::Subject;
use frontend::turn::{Next, Turn};
use millpond::ReadHandle;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::Shutdown;
use tenancy::budget::Held;
use tenancy::latency;
use tenancy::metrics::Counter;
use tenancy::{Account, Spent};

use super::input::Input;
use super::lanes::LaneId;
use super::retry;
use super::tls::TlsStream;
use crate::session::AnySession;

/// At least this much of a value must be missing for it to be received straight into its item.
const MIN_MISSING_BYTES: usize = 4096;

/// The next step that a connection needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An event.
    Wait(EventFlags),
    /// Another turn: it has requests that were not answered yet.
    Again,
    /// Another turn, behind those of its tenant whose turns are short.
    Yield,
    /// Another turn, once its tenant's clients do not wait any more.
    AwaitUnpause,
    /// Another turn, once others are through with its key space.
    AwaitGate,
    /// Another turn, once what it needs has been brought into memory.
    AwaitItems,
    /// Another turn at that moment of the monotonic clock, in nanoseconds: a password was wrong.
    Delay(u64),
    /// Another turn, with the thread for slow commands.
    Slow,
    /// To be closed, for that reason.
    Close(Counter),
}

/// Time that a client has to close the connection after the last answer.
const LINGER_SECS: u32 = 2;
/// Bytes that the client may still send in that time.
const LINGER_BYTES: usize = 4 << 20;

/// The remaining time and bytes before a closing connection is dropped.
#[derive(Clone, Copy, Debug)]
struct Lingering {
    bytes_left: usize,
    until_secs: u32,
}

/// The outcome of receiving.
enum Received {
    /// Something came and was answered as far as possible.
    Some,
    /// Nothing is there.
    Nothing,
    /// The client will send no more.
    End,
}

/// One connection.
pub(crate) struct Connection<'c> {
    socket: OwnedFd,
    /// Between socket and session, where TLS is spoken.
    tls: Option<Box<TlsStream>>,
    pub(crate) info: Arc<ConnectionInfo>,
    session: AnySession<'c>,
    input: Input,
    output: Output<ReadHandle<'c>>,
    /// `input` may hold whole requests.
    backlog: bool,
    /// The needs of the next turn, if there is such a backlog.
    needs: Step,
    /// Nothing is read or sent until then, in nanoseconds of the monotonic clock.
    delayed_until: Option<u64>,
    /// Nothing more is read, and it is closed for that reason once everything is sent.
    closing: Option<Counter>,
    /// It is closed when nothing more has arrived, and in this Unix second at the latest.
    drains_until_secs: Option<u32>,
    /// Everything was said and the client was told that no more will come; what it still sends is
    /// dropped until it closes. Closing at once would make the kernel reset the connection, and the
    /// client might lose the last answer.
    lingering: Option<Lingering>,
    /// The events that epoll watches for.
    pub(crate) interest: EventFlags,
    /// The lane of its tenant.
    pub(crate) lane: LaneId,
    /// True if the connection is queued in that lane.
    pub(crate) queued: bool,
    /// True if the connection waits for its tenant's rate, for a pause of the tenant's clients, for
    /// items to be brought into memory, or for the answer to a wrong password.
    paused: bool,
    /// The work done since it was last taken.
    spent: Spent,
    /// The memory that the connection was last charged for.
    pub(crate) held: Held,
    /// Time at which bytes last moved, Unix seconds.
    moved_secs: u32,
}

impl<'c> Connection<'c> {
    pub(crate) fn new(
        socket: OwnedFd,
        tls: Option<Box<TlsStream>>,
        info: Arc<ConnectionInfo>,
        protocols: Protocols,
        context: &Context<'c>,
    ) -> Self {
        let session = AnySession::new(Arc::clone(&info), protocols, context);
        Self {
            socket,
            tls,
            info,
            session,
            input: Input::default(),
            output: Output::default(),
            backlog: false,
            needs: Step::Again,
            delayed_until: None,
            closing: None,
            drains_until_secs: None,
            lingering: None,
            interest: EventFlags::IN,
            lane: LaneId::default(),
            queued: false,
            paused: false,
            spent: Spent::default(),
            held: Held::default(),
            moved_secs: context.now_secs,
        }
    }

    /// Does what can be done without waiting: one receive, one turn of the session, one send.
    pub(crate) fn drive(&mut self, context: &mut Context<'c>) -> Step {
        if let Some(lingering) = self.lingering {
            return self.linger(lingering, context);
        }
        if let Some(until) = self.waits_until(context) {
            return Step::Delay(until);
        }
        match self.flush(context) {
            Err(_) => return Step::Close(Counter::ClosedBroken),
            Ok(Sent::Blocked) => return Step::Wait(EventFlags::OUT),
            Ok(Sent::Part) => return Step::Again,
            Ok(Sent::All) => {}
        }
        if let Some(reason) = self.closing {
            return self.finish(reason, context);
        }
        // Messages about the client's own change come before the reply to its next request.
        self.session.take_pushes(&mut self.output);
        if self.backlog {
            self.answer_pending(context);
        } else {
            match self.receive(context) {
                Err(_) => return Step::Close(Counter::ClosedBroken),
                Ok(Received::Some) => {}
                Ok(Received::Nothing) if self.drains_until_secs.is_some() => {
                    self.closing = Some(Counter::ClosedDrained)
                }
                Ok(Received::Nothing) => {}
                Ok(Received::End) => self.end(),
            }
        }
        if self.tls.as_ref().is_some_and(|tls| tls.is_ended()) && !self.backlog && self.closing.is_none() {
            self.closing = Some(Counter::ClosedByClient);
        }
        self.session.take_pushes(&mut self.output);
        if let Some(until) = self.waits_until(context) {
            return Step::Delay(until);
        }
        match self.flush(context) {
            Err(_) => Step::Close(Counter::ClosedBroken),
            Ok(Sent::Blocked) => Step::Wait(EventFlags::OUT),
            Ok(Sent::Part) => Step::Again,
            Ok(Sent::All) => match self.closing {
                Some(reason) => self.finish(reason, context),
                None if self.backlog => self.needs,
                None if self.drains_until_secs.is_some() => Step::Again,
                None => Step::Wait(EventFlags::IN),
            },
        }
    }

    /// The moment until which it does nothing, as a password was wrong. At the end of the server
    /// nobody waits.
    fn waits_until(&mut self, context: &Context<'c>) -> Option<u64> {
        let until = self.delayed_until?;
        if self.drains_until_secs.is_none() && context.shared.clock.monotonic_nanos() < until {
            return Some(until);
        }
        self.delayed_until = None;
        None
    }

    /// Everything is sent: closes the connection, or begins to linger where the client may be
    /// sending still.
    fn finish(&mut self, reason: Counter, context: &mut Context<'c>) -> Step {
        if let (Some(tls), Some(buffers)) = (&mut self.tls, &mut context.tls) {
            tls.say_goodbye(&self.socket, buffers);
        }
        let is_told_why = matches!(reason, Counter::ClosedRefused | Counter::ClosedTls);
        if !is_told_why || rustix::net::shutdown(&self.socket, Shutdown::Write).is_err() {
            return Step::Close(reason);
        }
        let until_secs = context.now_secs.saturating_add(LINGER_SECS);
        let lingering = Lingering { bytes_left: LINGER_BYTES, until_secs };
        self.input = Input::default();
        self.lingering = Some(lingering);
        self.linger(lingering, context)
    }

    fn linger(&mut self, lingering: Lingering, context: &mut Context<'c>) -> Step {
        let close = Step::Close(self.closing.unwrap_or(Counter::ClosedRefused));
        match retry(|| rustix::io::read(&self.socket, &mut *context.receive_buffer)) {
            Ok(0) => close,
            Ok(received) => match lingering.bytes_left.checked_sub(received) {
                Some(bytes_left) => {
                    self.lingering = Some(Lingering { bytes_left, ..lingering });
                    Step::Wait(EventFlags::IN)
                }
                None => close,
            },
            Err(Errno::AGAIN) => Step::Wait(EventFlags::IN),
            Err(_) => close,
        }
    }

    /// The account charged for the next turn.
    #[inline]
    pub(crate) fn account(&self) -> &Arc<Account> {
        self.session.account()
    }

    /// The account that the connection belongs to.
    pub(crate) fn own_account(&self) -> &Arc<Account> {
        self.session.own_account()
    }

    /// Returns the work done since the last call.
    pub(crate) fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }

    /// It is to wait for its tenant's rate: nothing is read from it meanwhile, and it is not closed
    /// for being slow.
    pub(crate) fn pause(&mut self) {
        self.paused = true;
        self.account().counters.add(Counter::PausedRate, 1);
    }

    /// It is to wait with its tenant's other clients, as for the rate.
    pub(crate) fn hold(&mut self) {
        self.paused = true;
        self.own_account().counters.add(Counter::PausedByClient, 1);
    }

    /// It is to wait for items to be brought into memory. Returns whether they have not come yet.
    pub(crate) fn await_items(&mut self) -> bool {
        self.paused = self.session.is_bringing();
        self.paused
    }

    /// Returns whether the next request waits for items that have not come yet.
    pub(crate) fn is_bringing(&mut self) -> bool {
        self.session.is_bringing()
    }

    /// Stops waiting for overdue items. Returns whether there are some, so that the
    /// connection is to have a turn.
    pub(crate) fn give_up_items(&mut self, now_nanos: u64) -> bool {
        self.paused && self.session.give_up_items(now_nanos)
    }

    /// It is to wait for the answer to a wrong password.
    pub(crate) fn delay(&mut self) {
        self.paused = true;
        self.own_account().counters.add(Counter::PausedLogin, 1);
    }

    /// Its wait is over.
    pub(crate) fn resume(&mut self, now_secs: u32) {
        if self.paused {
            self.paused = false;
            self.moved_secs = now_secs;
            self.info.active_secs.store(now_secs, Ordering::Relaxed);
        }
    }

    /// Returns whether the connection waits for its tenant's rate, or for a pause of its clients.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Has it sent what nobody asked for, between two replies; false where more than `max` bytes
    /// wait for that.
    pub(crate) fn push(&mut self, bytes: &[u8], max: usize) -> bool {
        self.session.push(bytes, max)
    }

    /// Returns whether the client tracks changes of keys.
    pub(crate) fn tracks(&self) -> bool {
        self.session.tracks()
    }

    /// From now on: answer what has arrived, and close.
    pub(crate) fn drain(&mut self, until_secs: u32) {
        self.drains_until_secs.get_or_insert(until_secs);
    }

    /// Applies changed settings.
    pub(crate) fn reload(&mut self, context: &Context<'c>) {
        self.session.reload(&context.settings);
    }

    /// Returns the connection's share of the memory for connections.
    pub(crate) fn holding(&self) -> Held {
        let buffers = size_of::<Self>()
            + self.tls.as_ref().map_or(0, |tls| tls.held_bytes())
            + self.info.subject.get().map_or(0, Subject::held_bytes)
            + self.session.own_bytes()
            + self.input.buffer_bytes()
            + self.output.buffer_bytes();
        let output_items = self.output.held_bytes() - self.output.buffer_bytes();
        Held { buffers: buffers as u64, items: (output_items + self.session.held_bytes()) as u64 }
    }

    /// Returns the reason to close the connection because it is overdue, if it is.
    pub(crate) fn overdue(&self, context: &Context<'c>) -> Option<Counter> {
        if self.drains_until_secs.is_some_and(|until| context.now_secs >= until) {
            return Some(Counter::ClosedDrained);
        }
        if self.paused {
            return None;
        }
        let over = |since: u32, limit: u32| limit != 0 && context.now_secs.saturating_sub(since) >= limit;
        if let Some(lingering) = self.lingering {
            return (context.now_secs > lingering.until_secs)
                .then_some(self.closing.unwrap_or(Counter::ClosedRefused));
        }
        if let Some(tls) = &self.tls
            && tls.is_in_handshake()
        {
            let is_over = over(self.info.since_secs, context.settings.handshake_timeout_secs);
            return is_over.then(|| {
                self.account().counters.add(Counter::TlsTimeout, 1);
                Counter::ClosedTls
            });
        }
        let is_within_record = self.tls.as_ref().is_some_and(|tls| tls.is_within_record() || !tls.is_sent());
        let busy = is_within_record
            || !self.output.is_empty()
            || !self.input.is_empty()
            || self.session.is_receiving_value();
        if busy {
            return over(self.moved_secs, context.settings.stall_timeout_secs)
                .then_some(Counter::ClosedStalled);
        }
        let active = self.info.active_secs.load(Ordering::Relaxed);
        over(active, context.settings.idle_timeout_secs).then_some(Counter::ClosedIdle)
    }

    /// Tells `stats conns` and `CLIENT LIST` what it is doing.
    pub(crate) fn publish_activity(&self) {
        let figures = &self.info.figures;
        figures.pending_bytes.store(self.input.pending().len() as u64, Ordering::Relaxed);
        figures.unsent_bytes.store(self.output.len() as u64, Ordering::Relaxed);
        figures.unsent_values.store(self.output.value_count() as u32, Ordering::Relaxed);
        figures.output_bytes.store(self.output.buffer_bytes() as u64, Ordering::Relaxed);
        figures.held_bytes.store(self.held.total(), Ordering::Relaxed);
        self.info.set_activity(if self.closing.is_some() {
            Activity::Closing
        } else if !self.output.is_empty() {
            Activity::Writing
        } else if self.session.is_receiving_value() {
            Activity::ReadingValue
        } else if self.input.is_empty() {
            Activity::Waiting
        } else {
            Activity::Reading
        });
    }

    /// The client will send no more.
    fn end(&mut self) {
        if self.tls.as_ref().is_some_and(|tls| tls.is_in_handshake()) {
            self.account().counters.add(Counter::TlsClosed, 1);
        }
        self.closing = Some(Counter::ClosedByClient);
    }

    fn answer_pending(&mut self, context: &mut Context<'c>) {
        let input = std::mem::take(&mut self.input);
        let consumed = self.answer(input.pending(), context);
        self.input = input;
        self.input.consume(consumed);
    }

    /// Gives the session its turn, and returns how much of `bytes` it is done with.
    fn answer(&mut self, bytes: &[u8], context: &mut Context<'c>) -> usize {
        if self.session.waits_as_a_whole(bytes) && context.shared.paused(&self.own_account().tenant).is_some()
        {
            (self.backlog, self.needs) = (true, Step::AwaitUnpause);
            return 0;
        }
        if self.output.is_empty() && self.output.buffer_bytes() == 0 {
            std::mem::swap(&mut self.output, &mut context.spare_output);
        }
        context.turns = context.turns.wrapping_add(1);
        let clock = &context.shared.clock;
        let since = context.turns.is_multiple_of(latency::ONE_IN).then(|| clock.monotonic_nanos());
        let account = Arc::clone(self.account());
        let unsent = self.output.len();
        context.sampled = context.shared.tracing.begin(context.worker, context.turns);
        let turn = self.session.turn(context, bytes, &mut self.output);
        self.end_trace(context, &account.tenant.name, &turn, unsent);
        if self.info.listener.by_prefix {
            self.spent.received += turn.consumed as u64;
            account.counters.add(Counter::ReceivedBytes, turn.consumed as u64);
            let composed = (self.output.len() - unsent) as u64;
            self.spent.sent += composed;
            account.counters.add(Counter::SentBytes, composed);
        }
        if let (Some(since), Some(spoken)) = (since.filter(|_| turn.answered > 0), self.session.spoken()) {
            let nanos = clock.monotonic_nanos().saturating_sub(since);
            context.shared.latencies.add(spoken, nanos, turn.answered as u64);
            account.tenant.latencies.add(nanos, turn.answered as u64);
        }
        if turn.answered > 0 {
            self.info.active_secs.store(context.now_secs, Ordering::Relaxed);
            self.spent.requests += turn.answered as u64;
            account.counters.add(Counter::Answered, turn.answered as u64);
        }
        self.backlog = false;
        self.needs = Step::Again;
        match turn.next {
            Next::Input => {}
            Next::AwaitGate => (self.backlog, self.needs) = (true, Step::AwaitGate),
            Next::Slow => (self.backlog, self.needs) = (true, Step::Slow),
            Next::Again | Next::Yield => {
                self.backlog = true;
                self.needs = if turn.next == Next::Yield { Step::Yield } else { Step::Again };
                account.counters.add(Counter::PausedTurn, 1);
            }
            Next::SwitchTenant(bytes) => {
                self.backlog = true;
                self.spent.parsed_again += bytes as u64;
            }
            Next::AwaitUnpause => (self.backlog, self.needs) = (true, Step::AwaitUnpause),
            Next::AwaitItems => (self.backlog, self.needs) = (true, Step::AwaitItems),
            Next::Delay(delay) => {
                self.backlog = true;
                self.delayed_until = Some(delay.until);
                self.closing = delay.closes.then_some(Counter::ClosedRefused);
            }
            Next::AwaitSend => {
                self.backlog = true;
                account.counters.add(Counter::PausedOutput, 1);
            }
            Next::Close(reason) => self.closing = Some(reason),
        }
        turn.consumed
    }

    /// Has the turn traced, if it is in the sample and answered something.
    #[inline]
    fn end_trace(&self, context: &mut Context<'c>, tenant: &str, turn: &Turn, unsent: usize) {
        let Some(sampled) = context.sampled.take() else { return };
        if let Some(spoken) = self.session.spoken().filter(|_| turn.answered > 0) {
            let over = Over {
                worker: context.worker,
                spoken,
                tenant,
                listener: &self.info.listener.name,
                requests: turn.answered,
                received_bytes: turn.consumed,
                sent_bytes: self.output.len() - unsent,
            };
            context.shared.tracing.end(sampled, &over);
        }
    }

    fn flush(&mut self, context: &mut Context<'c>) -> Result<Sent, Errno> {
        let before = self.output.len();
        let is_sent = self.tls.as_ref().is_none_or(|tls| tls.is_sent());
        if before == 0 && self.output.buffer_bytes() == 0 && is_sent {
            return Ok(Sent::All);
        }
        let most = context.settings.max_moved_bytes;
        let sent = match &mut self.tls {
            None => self.output.send(&self.socket, most)?,
            Some(tls) => {
                let buffers = context.tls.get_or_insert_default();
                tls.send(&self.socket, &mut self.output, buffers, most)?
            }
        };
        let moved = before - self.output.len();
        if moved > 0 || !is_sent {
            self.moved_secs = context.now_secs;
            if !self.info.listener.by_prefix {
                self.spent.sent += moved as u64;
                self.account().counters.add(Counter::SentBytes, moved as u64);
            }
        }
        if sent == Sent::All {
            // The buffer goes back to the worker; a second one, from a turn that began with the
            // first away, is dropped.
            let buffer = std::mem::take(&mut self.output);
            if context.spare_output.buffer_bytes() < buffer.buffer_bytes() {
                context.spare_output = buffer;
            }
        }
        Ok(sent)
    }
}

impl AsFd for Connection<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Connection<'_> {
    /// The number of its descriptor, under which the registry has it.
    pub(crate) fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }
}

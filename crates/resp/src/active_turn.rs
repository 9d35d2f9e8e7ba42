//! A turn of a connection: requests are read one by one, and each is gathered, executed, or left
//! for another turn.

use std::sync::Arc;

use base::pin::Passed;
use frontend::bringing::Bringing;
use frontend::lookup::Batch;
use frontend::output::Output;
use frontend::turn::{Next, Turn};
use millpond::ReadHandle;
use millpond::watch::set_author;
use protocol::http;
use protocol::resp::commands::{Command, Spec, Str};
use protocol::resp::{Parse, Parser, ProtocolError, reply};
use tenancy::Account;
use tenancy::metrics::Counter;

use super::client::Replies;
use super::commands::Commands;
use super::gather::Answer;
use super::incoming::Incoming;
use super::listing::Listing;
use super::timing::Gathered;
use super::writer::{Failure, Writer};

/// Lookups are batched, and not timed one by one, if the threshold of the slow log is at least
/// this: a whole batch takes less.
const MIN_GATHERED_NANOS: u64 = 1_000_000;
/// Arguments that are gathered without an allocation.
const FEW: usize = 8;

/// The outcome of a request.
pub(super) enum Done {
    /// It was answered.
    Yes,
    /// It was answered, and the turn ends.
    Ends(Next),
    /// It was not executed, as the key space is closed or the key is another tenant's: retry it.
    Later,
    /// It was not executed, as it is slow: retry it on the thread for slow commands.
    Slow,
    /// It was not executed, as items of its keys are on their way into memory: retry it then.
    Bring,
}

impl Done {
    /// Returns whether the request was executed, and is not to be retried.
    const fn is_executed(&self) -> bool {
        match self {
            Self::Yes | Self::Ends(_) => true,
            Self::Later | Self::Slow | Self::Bring => false,
        }
    }
}

/// A turn in progress.
pub(super) struct ActiveTurn<'a, 'c, 'i> {
    pub(super) parser: &'a mut Parser,
    pub(super) answered_keys: &'a mut usize,
    pub(super) incoming: &'a mut Option<Incoming<'c>>,
    pub(super) listing: &'a mut Option<Listing<'c>>,
    /// Items that the request at the front waits for.
    pub(super) bringing: &'a mut Bringing<'c>,
    pub(super) commands: Commands<'a, 'c>,
    /// The pass of the key space's gate. `None` while this turn has closed the gate, or if another
    /// thread has closed it since.
    pub(super) passed: Option<Passed<'a>>,
    pub(super) input: &'i [u8],
    pub(super) output: &'a mut Output<ReadHandle<'c>>,
    /// Lookups that have been read but not answered. Their requests are before `position`, except
    /// for an `MGET` that begins at `position`.
    pub(super) batch: Batch<'i, Answer>,
    pub(super) gathered: Gathered,
    /// The position of the next request.
    pub(super) position: usize,
    pub(super) answered: usize,
    /// Start of the turn, in nanoseconds, if its time is limited.
    pub(super) began: Option<u64>,
    /// The time at which the last request was answered, where nothing was done since, in
    /// nanoseconds.
    pub(super) mark: Option<u64>,
    /// The account that the next turn is to be of, where that is another.
    pub(super) moves_to: Option<Arc<Account>>,
    /// True if this turn is on the thread for slow commands.
    pub(super) is_slow_thread: bool,
    /// The present request answers with much of what the server knows of itself (`INFO`, `CLIENT
    /// LIST`).
    pub(super) has_introspection_reply: bool,
}

impl<'i> ActiveTurn<'_, '_, 'i> {
    /// Runs as the connection `id`. Returns the outcome, and the account charged for the next turn,
    /// if that is another.
    pub(super) fn carry_out(mut self, id: u64) -> (Turn, Option<Arc<Account>>) {
        let next = self.run_as(id);
        (Turn { consumed: self.position, answered: self.answered, next }, self.moves_to)
    }

    /// Runs the turn. If the client tracks keys with `NOLOOP`, the engine attributes the turn's
    /// changes to the connection `id`, which is then not notified of them.
    pub(super) fn run_as(&mut self, id: u64) -> Next {
        let author = self.commands.client.tracking.as_ref().map_or(0, |tracks| tracks.author(id));
        if author != 0 {
            set_author(author);
        }
        let next = self.run();
        if self.commands.client.tracking.is_some() {
            set_author(0);
        }
        next
    }

    pub(super) fn run(&mut self) -> Next {
        let settings = self.commands.settings;
        loop {
            if self.incoming.is_some()
                && let Some(next) = self.receive_value()
            {
                return next;
            }
            if self.listing.is_some()
                && let Some(next) = self.continue_listing()
            {
                return next;
            }
            if self.answered + self.batch.len() >= settings.max_requests_per_turn {
                return self.answer_batch().unwrap_or(Next::Again);
            }
            if self.output.len() >= settings.max_output_bytes {
                return self.answer_batch().unwrap_or(Next::AwaitSend);
            }
            if let Some(next) = self.step() {
                return next;
            }
        }
    }

    /// Goes on with the request at the front. `Some` ends the turn.
    pub(super) fn step(&mut self) -> Option<Next> {
        let input = self.input.get(self.position..).unwrap_or_default();
        match self.parser.parse(input) {
            Parse::Request { consumed } => self.request(input, consumed),
            Parse::Nothing { consumed } => {
                self.position += consumed;
                None
            }
            parse => {
                if let Some(next) = self.answer_batch() {
                    return Some(next);
                }
                self.other(input, parse)
            }
        }
    }

    /// Handles input that is not a request in the usual form. The batch is empty.
    pub(super) fn other(&mut self, input: &'i [u8], parse: Parse) -> Option<Next> {
        match parse {
            Parse::Words { consumed, words } => {
                let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                if http::is_request(args.iter().copied()) {
                    return Some(self.commands.refuse_http());
                }
                return self.answer(&args, consumed);
            }
            Parse::TooLarge { consumed } => {
                self.position += consumed;
                self.answered += 1;
                *self.incoming = None;
                self.commands.counters.add(Counter::RefusedSize, 1);
                self.abort_transaction();
                self.fail(&Failure::TOO_LONG);
            }
            Parse::Incomplete => {
                if self.incoming.is_none() && self.must_wait_with_value() {
                    return Some(self.wait());
                }
                if self.incoming.is_none() && !self.begin_incoming(input) {
                    return Some(if self.moves_to.is_some() { self.move_on(0) } else { Next::Input });
                }
                if self.incoming.as_ref().is_some_and(Incoming::is_filled) {
                    return Some(Next::Input);
                }
            }
            Parse::Refused(error) => return Some(self.refuse(error)),
            Parse::Request { .. } | Parse::Nothing { .. } => {}
        }
        None
    }

    pub(super) fn refuse(&mut self, error: ProtocolError) -> Next {
        let too_long = matches!(
            error,
            ProtocolError::TooBigInline | ProtocolError::TooBigCount | ProtocolError::TooBigBulkCount
        );
        let counter = if too_long { Counter::RefusedLineLength } else { Counter::RefusedLine };
        self.commands.counters.add(counter, 1);
        self.fail(&Failure::from_text(format!("ERR {error}")));
        Next::Close(Counter::ClosedRefused)
    }

    pub(super) fn fail(&mut self, failure: &Failure) {
        self.commands.count_error(failure);
        self.output.compose(|out| reply::error(out, &failure.0));
    }

    pub(super) fn abort_transaction(&mut self) {
        if let Some(transaction) = &mut self.commands.client.transaction {
            transaction.is_spoilt = true;
        }
    }

    /// Acts on a request of `consumed` bytes at the front of `input`.
    pub(super) fn request(&mut self, input: &'i [u8], consumed: usize) -> Option<Next> {
        let count = self.parser.arg_count();
        if self.incoming.is_some() {
            return self.finish_incoming(input, consumed);
        }
        let name = self.parser.arg(input, 0).unwrap_or_default();
        // Where each request is to be timed, lookups are not gathered.
        let is_timed = self.commands.settings.slow_nanos.is_some_and(|least| least < MIN_GATHERED_NANOS);
        if self.commands.client.transaction.is_none()
            && self.commands.client.replies == Replies::On
            && !self.commands.info.is_subscribed()
            && !is_timed
            && !self.commands.identity.is_restricted
            && self.commands.paused.get().is_none()
            && !self.commands.shared.cache.has_secondary()
        {
            match Spec::find(name).map(|spec| spec.command) {
                Some(Command::Str(Str::Get)) if count == 2 => return self.gather(input, consumed, None),
                Some(Command::Str(Str::MGet)) if count > 1 => {
                    return self.gather(input, consumed, Some(count as u32 - 1));
                }
                _ => {}
            }
        }
        if let Some(next) = self.answer_batch() {
            return Some(next);
        }
        let arg = |index| self.parser.arg(input, index).unwrap_or_default();
        if count <= FEW {
            let mut few = [&[][..]; FEW];
            few.iter_mut().take(count).enumerate().for_each(|(index, slot)| *slot = arg(index));
            self.answer(few.get(..count).unwrap_or_default(), consumed)
        } else {
            let many: Vec<&[u8]> = (0..count).map(arg).collect();
            self.answer(&many, consumed)
        }
    }

    /// Ends the turn: the request at the front is to be asked again once the tenant's clients go
    /// on.
    pub(super) fn wait(&mut self) -> Next {
        self.parser.restart();
        Next::AwaitUnpause
    }

    /// Ends the turn: the request at the front, of which `parsed` bytes were parsed, continues as
    /// another tenant.
    pub(super) fn move_on(&mut self, parsed: usize) -> Next {
        self.parser.restart();
        Next::SwitchTenant(parsed)
    }

    /// Carries out a request of `consumed` bytes, and answers it.
    pub(super) fn answer(&mut self, args: &[&[u8]], consumed: usize) -> Option<Next> {
        if self.commands.must_wait(args) {
            return Some(self.wait());
        }
        let before = self.commands.client.replies;
        let end = self.output.end();
        let is_timed = self.commands.is_timed;
        let clock = &self.commands.shared.clock;
        let since = if is_timed { self.mark.take().unwrap_or_else(|| clock.monotonic_nanos()) } else { 0 };
        let done = self.execute(args);
        if done.is_executed() {
            self.bringing.end();
        }
        if is_timed && done.is_executed() {
            let now = clock.monotonic_nanos();
            self.mark = Some(now);
            self.commands.note_time(args, now.saturating_sub(since));
            self.commands.trace(args, since);
        }
        if before != Replies::On || self.commands.client.replies != Replies::On {
            self.withhold(before, end, &done);
        }
        match done {
            Done::Yes => {}
            Done::Ends(next) => {
                self.position += consumed;
                self.answered += 1;
                return Some(next);
            }
            Done::Later if self.moves_to.is_some() => return Some(self.move_on(0)),
            Done::Later => {
                self.parser.restart();
                return Some(Next::AwaitGate);
            }
            Done::Slow => {
                self.parser.restart();
                return Some(Next::Slow);
            }
            Done::Bring => {
                self.parser.restart();
                return Some(Next::AwaitItems);
            }
        }
        self.position += consumed;
        self.answered += 1;
        if let Some(delay) = self.commands.client.delay.take()
            && (delay.closes || delay.until > self.commands.shared.clock.monotonic_nanos())
        {
            return Some(Next::Delay(delay));
        }
        if self.commands.client.is_leaving {
            return Some(Next::Close(Counter::ClosedByQuit));
        }
        if std::mem::take(&mut self.has_introspection_reply) && self.position < self.input.len() {
            return Some(Next::Yield);
        }
        // The turn ends if another thread has closed the gate since this request closed it, if the
        // connection has switched tenants or authenticated, or if the turn has used its time.
        (self.passed.is_none() || self.commands.has_moved() || self.has_used_its_time())
            .then_some(Next::Again)
    }

    /// Returns whether slow commands go to another thread.
    pub(super) fn hands_over(&self) -> bool {
        !self.is_slow_thread && self.commands.settings.max_turn_nanos.is_some()
    }

    /// Returns whether the turn has used its time.
    pub(super) fn has_used_its_time(&self) -> bool {
        let most = self.commands.settings.max_turn_nanos;
        let took = self.mark.zip(self.began).map(|(now, began)| now.saturating_sub(began));
        took.zip(most).is_some_and(|(took, most)| took >= most)
    }

    /// Takes a reply back that the client does not want.
    pub(super) fn withhold(&mut self, before: Replies, end: frontend::output::End, done: &Done) {
        if !done.is_executed() {
            return;
        }
        let after = &mut self.commands.client.replies;
        match (before, *after) {
            // `CLIENT REPLY ON` is answered.
            (Replies::Off, Replies::On) => {}
            (Replies::SkipNext, Replies::SkipNext) => {
                *after = Replies::On;
                self.output.rewind(end);
            }
            _ => self.output.rewind(end),
        }
    }

    /// Goes on with a listing. `Some` ends the turn.
    pub(super) fn continue_listing(&mut self) -> Option<Next> {
        let since = self.commands.traced_since();
        let listing = self.listing.as_mut()?;
        let mut writer = Writer { output: &mut *self.output, version: self.commands.client.version };
        let is_complete =
            self.commands.time_listing(listing, self.commands.settings.max_listed_chunks, &mut writer);
        if let Some(since) = since {
            self.commands.trace_step("listing", None, 0, since);
        }
        if !is_complete {
            return Some(Next::Again);
        }
        *self.listing = None;
        None
    }
}

//! What a Redis client is answered: strings, collections and keys, in RESP2 and RESP3.
//!
//! A [`Session`] is given what a connection has received and answers every whole request in it.
//! `GET`s that follow one another and the keys of `MGET` are gathered and looked up at once.
//! Commands that change an item depending on what it is are optimistic: read, make a new item, put
//! it in place of exactly the one that was read, and begin again if that is no longer there. What
//! must not be interleaved with – `EXEC`, and commands that set several keys at once – closes the
//! gate of the key space ([`base::pin::Gate`]).
//!
//! Replies and errors are those of Redis 7.0; `docs/resp.md` has every command, and what differs.

mod acl;
mod arguments;
mod bits;
mod client;
mod clients;
mod collections;
mod commands;
mod connection;
mod expire;
mod hashes;
mod incoming;
mod info;
mod introspect;
mod key_specs;
mod keys;
mod latency;
mod lcs;
mod listing;
mod lists;
mod long;
mod notes;
mod numbers;
mod object;
mod pause;
mod pubsub;
mod set;
mod sets;
mod settings;
mod several;
mod sorted;
mod sorting;
mod strings;
mod subcommands;
mod table;
mod tenant;
mod timing;
mod tracking;
mod transaction;
mod writer;

use std::cell::Cell;
use std::sync::Arc;

use base::pin::Passed;
use millpond::ReadHandle;
use millpond::watch::set_author;
use protocol::http;
use protocol::resp::{Limits, Parse, Parser, ProtocolError, reply};

pub(crate) use self::acl::{full_name, note_refusal};
use self::client::{Client, Replies};
use self::commands::Commands;
use self::incoming::Incoming;
use self::listing::Listing;
use self::long::MOST_ARGS;
use self::several::Whole;
pub(crate) use self::subcommands::NUMBERS;
pub(crate) use self::table::Spec as CommandSpec;
pub(crate) use self::table::{COUNT, SPECS};
use self::table::{Command, Spec};
use self::timing::Gathered;
pub(crate) use self::writer::ERROR_CODES;
use self::writer::{Failure, Writer};
use crate::deadline::is_over;
use crate::latency::{ONE_IN, Spoken};
use crate::lookup::{Batch, Value};
use crate::metrics::Counter;
use crate::net::{Context, MIN_IN_PLACE_BYTES, Output};
use crate::session::{Next, Turn};
use crate::shared::{ConnectionInfo, Settings};
use crate::tenants::{Account, go_on};
use crate::users::{Identity, Users};

/// The most that an answer with a small value takes, with the head of an array before it.
const MAX_SMALL_ANSWER_BYTES: usize = MIN_IN_PLACE_BYTES + 64;
/// Below so much time in the slow log lookups are timed one by one. Together they take less.
const MIN_GATHERED_NANOS: u64 = 1_000_000;
/// The longest argument of a client that has not said who it is, as in Redis.
const MAX_STRANGERS_BYTES: usize = 16 << 10;
/// Arguments that are gathered without an allocation.
const FEW: usize = 8;

/// How a lookup is answered: as a value, with the head of an array of so many before it.
#[derive(Clone, Copy, Debug)]
struct Answer {
    array: Option<u32>,
    /// It is not one of several keys.
    is_single: bool,
    /// No key of the same command comes behind it.
    is_last: bool,
}

/// How a request went.
enum Done {
    /// It was answered.
    Yes,
    /// It was, and the turn ends.
    Ends(Next),
    /// The key space is closed: it is to be asked again.
    Later,
    /// It takes long: it is to be asked again where nobody waits for it.
    Long,
}

/// The RESP side of one connection.
pub(crate) struct Session<'c> {
    parser: Parser,
    info: Arc<ConnectionInfo>,
    account: Arc<Account>,
    /// The account of the key that comes next, where that is another.
    elsewhere: Option<Arc<Account>>,
    identity: Identity,
    client: Client,
    /// Keys of the `MGET` at the front of the input that have been answered already.
    answered_keys: usize,
    /// A large value that is on its way.
    incoming: Option<Incoming<'c>>,
    /// A listing that is not complete.
    listing: Option<Listing<'c>>,
    /// Limits have changed, to be applied between requests.
    has_new_limits: bool,
    /// Whether the limits are those of a client that has said who it is.
    was_known: bool,
    /// What is to be sent between two replies.
    pushes: Vec<u8>,
}

impl<'c> Session<'c> {
    pub(crate) fn new(
        info: Arc<ConnectionInfo>,
        account: Arc<Account>,
        settings: &Settings,
        users: &Users,
    ) -> Self {
        let identity = Identity::new(users, info.listener.auth);
        info.named().resp = 2;
        Self {
            parser: Parser::new(limits(settings, &identity)),
            info,
            account,
            elsewhere: None,
            identity,
            client: Client::default(),
            answered_keys: 0,
            incoming: None,
            listing: None,
            has_new_limits: false,
            was_known: false,
            pushes: Vec::new(),
        }
    }

    /// Whose its next turn is, and where that counts.
    pub(crate) fn account(&self) -> &Arc<Account> {
        self.elsewhere.as_ref().unwrap_or(&self.account)
    }

    /// Whose connection it is.
    pub(crate) fn own_account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Takes over changed limits, at the next turn.
    pub(crate) fn reload(&mut self) {
        self.has_new_limits = true;
    }

    /// Whether it is in the middle of a large value.
    pub(crate) fn is_receiving_value(&self) -> bool {
        self.incoming.is_some()
    }

    /// Item memory that cannot be evicted while a value is on its way or a listing is.
    pub(crate) fn held_bytes(&self) -> usize {
        let listing = self.listing.as_ref().map_or(0, Listing::held_bytes);
        self.incoming.as_ref().map_or(0, Incoming::held_bytes) + listing
    }

    /// Memory of its own, besides its size.
    pub(crate) fn buffer_bytes(&self) -> usize {
        let listing = self.listing.as_ref().map_or(0, Listing::buffer_bytes);
        self.parser.held_bytes() + self.client.held_bytes() + listing + self.pushes.capacity()
    }

    /// Keeps what is to be sent between two replies; false where that would be more than `max`
    /// bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], max: usize) -> bool {
        let fits = self.pushes.len() + bytes.len() <= max;
        if fits {
            self.pushes.extend_from_slice(bytes);
        }
        fits
    }

    /// Appends what was kept by [`Self::push`], if the output ends with a whole reply.
    #[inline]
    pub(crate) fn take_pushes(&mut self, output: &mut Output<ReadHandle<'c>>) {
        if !self.pushes.is_empty() && self.answered_keys == 0 && self.listing.is_none() {
            output.write(&std::mem::take(&mut self.pushes));
        }
    }

    /// Whether its client is told of changes.
    pub(crate) fn tracks(&self) -> bool {
        self.client.tracking.is_some()
    }

    /// Where the missing bytes of a large value belong.
    pub(crate) fn value_buffer(&mut self) -> Option<&mut [u8]> {
        self.incoming.as_mut()?.buffer()
    }

    /// Notes that `bytes` were put into [`Self::value_buffer`].
    pub(crate) fn value_received(&mut self, bytes: usize) {
        if let Some(incoming) = &mut self.incoming {
            incoming.advance(bytes);
        }
    }

    /// Answers the whole requests in `input`, up to the bounds of a turn.
    pub(crate) fn turn(
        &mut self,
        context: &mut Context<'c>,
        input: &[u8],
        output: &mut Output<ReadHandle<'c>>,
    ) -> Turn {
        let Context { shared, worker, settings, turns, sampled, is_long, .. } = context;
        if !self.refresh(&shared.users, settings) {
            return Turn { consumed: input.len(), answered: 0, next: Next::Close(Counter::ClosedRefused) };
        }
        let Self {
            parser,
            info,
            account: home,
            elsewhere,
            identity,
            client,
            answered_keys,
            incoming,
            listing,
            ..
        } = self;
        // A command may turn to another tenant; the next turn is then that one's.
        let own = Arc::clone(home);
        let account = elsewhere.as_ref().unwrap_or(&own);
        let directory = info.listener.by_prefix.then(|| shared.directory());
        let pool = &*account.tenant.pool;
        let Some(passed) = pool.gate.pass() else { return Turn::LATER };
        let commands = Commands {
            shared,
            settings,
            info,
            pool,
            counters: &account.counters,
            present: account,
            own: &own,
            directory: directory.as_deref(),
            account: home,
            was_known: identity.is_known,
            identity,
            client,
            now: Cell::new(None),
            notes: shared.requests.notes(*worker, &account.tenant.name, Spoken::Resp),
            told: Cell::default(),
            is_timed: settings.times_commands() || turns.is_multiple_of(ONE_IN) || sampled.is_some(),
            untimed: Cell::new(None),
            paused: Cell::new(shared.paused(&own.tenant)),
            sampled,
        };
        let batch = Batch::new(Answer { array: None, is_single: true, is_last: true });
        let began = settings.max_turn_nanos.map(|_| shared.clock.monotonic_nanos());
        #[rustfmt::skip]
        let round = Round {
            parser, answered_keys, incoming, listing, commands, input, output, batch, began,
            passed: Some(passed),
            gathered: Gathered::default(),
            position: 0,
            answered: 0,
            mark: None,
            moves_to: None,
            is_away: *is_long,
            is_verbose: false,
        };
        let (turn, moves_to) = round.carry_out(info.id);
        if client.transaction.is_some() || info.figures.queued() >= 0 {
            info.figures.note_queued(client.queued());
        }
        go_on(elsewhere, home, moves_to);
        turn
    }

    /// Takes over what the user may do by now, and limits that have changed, or that are others now
    /// that it is known who asks. False: the user is no more.
    fn refresh(&mut self, users: &Users, settings: &Settings) -> bool {
        if !self.identity.refresh(users) {
            return false;
        }
        if std::mem::take(&mut self.has_new_limits) || self.was_known != self.identity.is_known {
            self.was_known = self.identity.is_known;
            self.parser.set_limits(limits(settings, &self.identity));
        }
        true
    }
}

/// A turn in progress.
struct Round<'a, 'c, 'i> {
    parser: &'a mut Parser,
    answered_keys: &'a mut usize,
    incoming: &'a mut Option<Incoming<'c>>,
    listing: &'a mut Option<Listing<'c>>,
    commands: Commands<'a, 'c>,
    /// The gate of the key space; nothing while this turn has closed it.
    passed: Option<Passed<'a>>,
    input: &'i [u8],
    output: &'a mut Output<ReadHandle<'c>>,
    /// Lookups that have been read but not answered; they come before `position`, but for those of
    /// an `MGET` there.
    batch: Batch<'i, Answer>,
    gathered: Gathered,
    /// Where the next request begins.
    position: usize,
    answered: usize,
    /// When it began, in nanoseconds, where there is an end to it.
    began: Option<u64>,
    /// The time at which the last request was answered, where nothing was done since, in
    /// nanoseconds.
    mark: Option<u64>,
    /// The account that the next turn is to be of, where that is another.
    moves_to: Option<Arc<Account>>,
    /// Whether it is a turn with the thread for commands that take long.
    is_away: bool,
    /// The present request makes a long answer out of what the server knows.
    is_verbose: bool,
}

impl<'i> Round<'_, '_, 'i> {
    /// Runs as the connection `id`, and says what that came to, and whose account the next turn is
    /// to be of, where that is another.
    fn carry_out(mut self, id: u64) -> (Turn, Option<Arc<Account>>) {
        let next = self.run_as(id);
        (Turn { consumed: self.position, answered: self.answered, next }, self.moves_to)
    }

    /// Runs, and has the engine tell others of changes as those of the connection `id`, where it
    /// tracks.
    fn run_as(&mut self, id: u64) -> Next {
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

    fn run(&mut self) -> Next {
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
                return self.answer_batch().unwrap_or(Next::Turn);
            }
            if self.output.len() >= settings.max_output_bytes {
                return self.answer_batch().unwrap_or(Next::Drain);
            }
            if let Some(next) = self.step() {
                return next;
            }
        }
    }

    /// Goes on with the request at the front. `Some` ends the turn.
    fn step(&mut self) -> Option<Next> {
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

    /// What is no request in the usual form. The batch is empty.
    fn other(&mut self, input: &'i [u8], parse: Parse) -> Option<Next> {
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
                self.spoil();
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

    fn refuse(&mut self, error: ProtocolError) -> Next {
        let too_long = matches!(
            error,
            ProtocolError::TooBigInline | ProtocolError::TooBigCount | ProtocolError::TooBigBulkCount
        );
        let counter = if too_long { Counter::RefusedLineLength } else { Counter::RefusedLine };
        self.commands.counters.add(counter, 1);
        self.fail(&Failure::from_text(format!("ERR {error}")));
        Next::Close(Counter::ClosedRefused)
    }

    fn fail(&mut self, failure: &Failure) {
        self.commands.count_error(failure);
        self.output.compose(|out| reply::error(out, &failure.0));
    }

    fn spoil(&mut self) {
        if let Some(transaction) = &mut self.commands.client.transaction {
            transaction.is_spoilt = true;
        }
    }

    /// Acts on a request of `consumed` bytes at the front of `input`.
    fn request(&mut self, input: &'i [u8], consumed: usize) -> Option<Next> {
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
            && !self.commands.identity.is_bound
            && self.commands.paused.get().is_none()
        {
            match Spec::find(name).map(|spec| spec.command) {
                Some(Command::Get) if count == 2 => return self.gather(input, consumed, None),
                Some(Command::MGet) if count > 1 => {
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
    fn wait(&mut self) -> Next {
        self.parser.restart();
        Next::Hold
    }

    /// Ends the turn: the request at the front, of which so many bytes were parsed, goes on as
    /// another tenant.
    fn move_on(&mut self, parsed: usize) -> Next {
        self.parser.restart();
        Next::Elsewhere(parsed)
    }

    /// Gathers the keys of a `GET`, or of an `MGET` of so many.
    fn gather(&mut self, input: &'i [u8], consumed: usize, array: Option<u32>) -> Option<Next> {
        if self.hands_over() && self.parser.arg_count() > MOST_ARGS {
            return self.answer_batch().or_else(|| {
                self.parser.restart();
                Some(Next::Long)
            });
        }
        let mut whole = match self.begin_whole(self.parser.arg_count() - 1) {
            Ok(whole) => whole,
            Err(next) => return Some(next),
        };
        loop {
            if let Some(next) = self.gather_keys(input, consumed, array, whole.as_ref()) {
                return Some(next);
            }
            match whole.as_mut().map_or(Ok(true), |whole| self.end_whole(whole)) {
                Ok(true) => break,
                Ok(false) => {}
                Err(next) => return Some(next),
            }
        }
        *self.answered_keys = 0;
        self.position += consumed;
        let command = if array.is_some() { Command::MGet } else { Command::Get };
        self.gathered.last = command as usize;
        self.commands.end_caching(command);
        None
    }

    /// Gathers the keys that are not answered yet.
    fn gather_keys(
        &mut self,
        input: &'i [u8],
        consumed: usize,
        array: Option<u32>,
        whole: Option<&Whole>,
    ) -> Option<Next> {
        for index in *self.answered_keys..self.parser.arg_count() - 1 {
            if self.batch.is_full()
                && let Some(next) = self.answer_batch().or_else(|| self.pause_within(index, whole))
            {
                return Some(whole.map_or(next, |whole| self.drain_whole(whole, next)));
            }
            let key = self.parser.arg(input, index + 1).unwrap_or_default();
            if let Some(account) = self.commands.elsewhere(Some(key)) {
                if let Some(next) = self.answer_batch() {
                    return Some(next);
                }
                *self.answered_keys = index;
                self.moves_to = Some(account);
                return Some(self.move_on(consumed));
            }
            self.commands.remember(key);
            let (is_single, is_last) = (array.is_none(), index + 2 == self.parser.arg_count());
            let answer = Answer { array: array.filter(|_| index == 0), is_single, is_last };
            self.batch.push(key, answer, self.position, index);
        }
        None
    }

    /// Has the turn end before this key of the request at the front, where it has answered as many
    /// as it may.
    fn pause_within(&mut self, index: usize, whole: Option<&Whole>) -> Option<Next> {
        if whole.is_some() || self.answered < self.commands.settings.max_requests_per_turn {
            return None;
        }
        *self.answered_keys = index;
        self.parser.restart();
        Some(Next::Turn)
    }

    /// Answers the lookups that were gathered. Where the output gets too large meanwhile, the turn
    /// ends, and goes on from there with the next.
    fn answer_batch(&mut self) -> Option<Next> {
        if self.batch.len() == 0 {
            return None;
        }
        let commands = &self.commands;
        let clock = &commands.shared.clock;
        let is_timed = commands.is_timed || !commands.counters.times.knows(self.gathered.last);
        let since = self.mark.take().filter(|_| is_timed);
        let since = since.or_else(|| is_timed.then(|| clock.monotonic_nanos()));
        let gathered = &mut self.gathered;
        let version = commands.client.version;
        let space = commands.keys();
        let (mut hits, mut misses) = (0, 0);
        let bounds = (commands.settings.max_output_bytes, MAX_SMALL_ANSWER_BYTES);
        let done = self.batch.look_up(space, self.output, bounds, |key, answer, found, output| {
            if let Some(len) = answer.array {
                output.compose(|out| reply::array(out, len as usize));
            }
            if answer.is_single
                && found.is_some_and(|found| found.is_structured())
                && commands.peek(key).is_some_and(|item| item.is_structured())
            {
                hits += 1;
                gathered.note(answer, true);
                return Writer { output, version }.failure(&Failure::WRONG_TYPE);
            }
            let value = found
                .and_then(|found| Value::of(found, space, key, false))
                .filter(|value| !is_over(value.expires_at(), value.client_flags(), || commands.now_millis()));
            *if value.is_some() { &mut hits } else { &mut misses } += 1;
            gathered.note(answer, false);
            let command = if answer.is_single { "get" } else { "mget" };
            commands.note_read(command, key, value.as_ref().map(|value| value.len()));
            Writer { output, version }.value(value);
        });
        commands.count_reads(hits, misses);
        self.mark = since.map(|_| clock.monotonic_nanos());
        let nanos = since.zip(self.mark).map(|(since, now)| now.saturating_sub(since));
        commands.count_gathered(gathered, nanos);
        self.answered += done;
        if self.commands.sampled.is_some()
            && let Some(since) = since
        {
            self.commands.trace_step("get", self.batch.first_key(), done, since);
        }
        if let Some((position, key_index)) = self.batch.place_of(done) {
            *self.answered_keys = key_index;
            // What was parsed beyond that place is parsed again; the request at the front, of
            // however many keys, is not.
            if self.position != position {
                self.position = position;
            }
            self.parser.restart();
            return Some(Next::Drain);
        }
        self.batch.clear();
        None
    }

    /// Carries out a request of `consumed` bytes, and answers it.
    fn answer(&mut self, args: &[&[u8]], consumed: usize) -> Option<Next> {
        if self.commands.must_wait(args) {
            return Some(self.wait());
        }
        let before = self.commands.client.replies;
        let end = self.output.end();
        let is_timed = self.commands.is_timed;
        let clock = &self.commands.shared.clock;
        let since = if is_timed { self.mark.take().unwrap_or_else(|| clock.monotonic_nanos()) } else { 0 };
        let done = self.execute(args);
        if is_timed && !matches!(done, Done::Later | Done::Long) {
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
                return Some(Next::Later);
            }
            Done::Long => {
                self.parser.restart();
                return Some(Next::Long);
            }
        }
        self.position += consumed;
        self.answered += 1;
        if let Some(late) = self.commands.client.late.take()
            && (late.closes || late.until > self.commands.shared.clock.monotonic_nanos())
        {
            return Some(Next::Late(late));
        }
        if self.commands.client.is_leaving {
            return Some(Next::Close(Counter::ClosedByQuit));
        }
        if std::mem::take(&mut self.is_verbose) && self.position < self.input.len() {
            return Some(Next::Yield);
        }
        // The gate was closed for this request, and another has closed it since; or what comes next
        // is another tenant's.
        (self.passed.is_none() || self.commands.has_moved() || self.is_long()).then_some(Next::Turn)
    }

    /// Whether commands that take long are for another thread.
    fn hands_over(&self) -> bool {
        !self.is_away && self.commands.settings.max_turn_nanos.is_some()
    }

    /// Whether the turn has taken as long as it may.
    fn is_long(&self) -> bool {
        let most = self.commands.settings.max_turn_nanos;
        let took = self.mark.zip(self.began).map(|(now, began)| now.saturating_sub(began));
        took.zip(most).is_some_and(|(took, most)| took >= most)
    }

    /// Takes a reply back that the client does not want.
    fn withhold(&mut self, before: Replies, end: crate::net::End, done: &Done) {
        if matches!(done, Done::Later | Done::Long) {
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

    /// Looks the command up, checks it, and carries it out or keeps it for later.
    fn execute(&mut self, args: &[&[u8]]) -> Done {
        let name = args.first().copied().unwrap_or_default();
        let Some(spec) = Spec::find(name) else {
            if http::is_first_word(name) {
                return Done::Ends(self.commands.refuse_http());
            }
            self.spoil();
            self.commands.counters.add(Counter::RefusedLine, 1);
            self.fail(&introspect::unknown_command(args));
            return Done::Yes;
        };
        if !spec.takes(args.len()) {
            let failure = if spec.command == Command::Exec {
                self.commands.abort()
            } else {
                Failure::wrong_number(spec.name)
            };
            return self.turn_down(spec, args, &failure);
        }
        if let Err(failure) = subcommands::check(spec, args) {
            return self.turn_down(spec, args, &failure);
        }
        if self.commands.identity.is_bound
            && let Err(failure) = self.commands.may(spec, args)
        {
            return self.turn_down(spec, args, &failure);
        }
        match self.commands.leads_elsewhere(spec, args) {
            Ok(None) => {}
            Ok(Some(account)) => {
                self.moves_to = Some(account);
                return Done::Later;
            }
            Err(failure) => return self.turn_down(spec, args, &failure),
        }
        if self.commands.client.transaction.is_some() && !transaction::is_immediate(spec.command) {
            let result = self.commands.queue(args);
            match result {
                Ok(()) => self.output.write(reply::QUEUED),
                Err(failure) => self.fail(&failure),
            }
            return Done::Yes;
        }
        if let Some(failure) = self.commands.forbidden_by_subscription(spec, args) {
            return self.turn_down(spec, args, &failure);
        }
        if self.hands_over() && self.commands.is_long(spec, args) {
            return Done::Long;
        }
        self.is_verbose = is_verbose(spec.command);
        self.carry_out_command(spec, args)
    }

    /// Carries a command out that has been checked.
    fn carry_out_command(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Done {
        match spec.command {
            command if is_exclusive(command) => self.exclusively(spec, args),
            command if several::writes_several(command, args.len()) => self.write_several(spec, args),
            command if several::reads_several(command, args.len()) => self.read_several(spec, args),
            Command::Keys | Command::DbSize | Command::RandomKey | Command::Scan
                if self.commands.client.replies == Replies::On =>
            {
                match self.commands.begin_listing(spec.command, args) {
                    Ok(listing) => *self.listing = Some(listing),
                    Err(failure) => {
                        self.fail(&failure);
                        self.commands.count_call(spec.number(), &Err(failure));
                    }
                }
                Done::Yes
            }
            Command::Quit => {
                self.output.write(reply::OK);
                Done::Ends(Next::Close(Counter::ClosedByQuit))
            }
            _ => {
                self.commands.run(spec, args, self.output);
                Done::Yes
            }
        }
    }

    /// Answers a command with why it is not carried out, and a transaction that it is in will not
    /// be either.
    fn turn_down(&mut self, spec: &Spec, args: &[&[u8]], failure: &Failure) -> Done {
        self.spoil();
        subcommands::number_of(spec, args)
            .into_iter()
            .for_each(|number| self.commands.count_rejected(number));
        self.fail(failure);
        Done::Yes
    }

    /// Carries a command out while nobody else is in the key space.
    fn exclusively(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Done {
        let gate = &self.commands.pool.gate;
        // It would wait for a command that takes long.
        if !self.is_away && gate.is_long() {
            return Done::Long;
        }
        self.passed = None;
        let Some(closed) = gate.close() else { return Done::Later };
        self.commands.run(spec, args, self.output);
        drop(closed);
        self.passed = gate.pass();
        Done::Yes
    }

    /// Goes on with a listing. `Some` ends the turn.
    fn continue_listing(&mut self) -> Option<Next> {
        let since = self.commands.traced_since();
        let listing = self.listing.as_mut()?;
        let mut writer = Writer { output: &mut *self.output, version: self.commands.client.version };
        let is_complete =
            self.commands.time_listing(listing, self.commands.settings.max_listed_chunks, &mut writer);
        if let Some(since) = since {
            self.commands.trace_step("listing", None, 0, since);
        }
        if !is_complete {
            return Some(Next::Turn);
        }
        *self.listing = None;
        None
    }
}

/// What may be sent: little, until it is known by whom.
fn limits(settings: &Settings, identity: &Identity) -> Limits {
    let limits = settings.resp.clone();
    if identity.is_known {
        return limits;
    }
    Limits {
        max_bulk_bytes: limits.max_bulk_bytes.min(MAX_STRANGERS_BYTES),
        max_kept_bulk_bytes: limits.max_kept_bulk_bytes.min(MAX_STRANGERS_BYTES),
        max_request_bytes: limits.max_request_bytes.min(4 * MAX_STRANGERS_BYTES),
        ..limits
    }
}

/// Whether the command makes a long answer out of what the server knows, in some ten microseconds
/// and up. A turn has one of them, so that a client which sends many and reads no answer does not
/// hold up others.
const fn is_verbose(command: Command) -> bool {
    use Command as C;
    matches!(command, C::Info | C::Client | C::Config | C::Command | C::Latency | C::SlowLog | C::Acl)
}

/// Whether nobody else may be in the key space meanwhile: whether it changes several keys, or looks
/// at several at one moment.
const fn is_exclusive(command: Command) -> bool {
    use Command as C;
    matches!(
        command,
        C::Exec
            | C::BitOp
            | C::MSetNx
            | C::Rename
            | C::RenameNx
            | C::Copy
            | C::LMove
            | C::RPopLPush
            | C::LMPop
            | C::Lcs
            | C::SMove
            | C::SInter
            | C::SInterCard
            | C::SInterStore
            | C::SUnion
            | C::SUnionStore
            | C::SDiff
            | C::Sort
            | C::SortRo
            | C::SDiffStore
            | C::ZUnion
            | C::ZUnionStore
            | C::ZInter
            | C::ZInterCard
            | C::ZInterStore
            | C::ZDiff
            | C::ZDiffStore
            | C::ZRangeStore
            | C::ZMPop
    )
}

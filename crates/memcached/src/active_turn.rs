//! A turn in progress: the requests of the input, one after the other, with lookups gathered.

use std::ops::ControlFlow;
use std::sync::Arc;

use frontend::bringing::{Bringing, Needed};
use frontend::lookup::Batch;
use frontend::output::Output;
use frontend::settings::Settings;
use frontend::turn::Next;
use millpond::ReadHandle;
use millpond::secondary::RetainedKey;
use protocol::memcached::binary::{Parser as BinaryParser, REQUEST_MAGIC};
use protocol::memcached::{Key, KeyBuf, MetaCommand, MetaRequest, Parse, Parser, Reply, Request};
use tenancy::{Account, Route};

use super::authentication::Credentials;
use super::commands::{Commands, ExpiresAt};
use super::crawler::Dump;
use super::incoming::Incoming;
use super::lookup::{self, Answer};
use super::wire::Wire;
use super::{arithmetic, store};

/// Keys of a retrieval that are brought into memory together, if something is beneath it.
const KEPT_TOGETHER: usize = 32;

/// A turn in progress.
pub(super) struct ActiveTurn<'a, 'c, 'i> {
    pub(super) wire: &'a mut Wire,
    pub(super) parser: &'a mut Parser,
    pub(super) binary: &'a mut BinaryParser,
    pub(super) answered_keys: &'a mut usize,
    pub(super) incoming: &'a mut Option<Incoming<'c>>,
    pub(super) dump: &'a mut Option<Dump<'c>>,
    /// Items that the request at the front waits for.
    pub(super) bringing: &'a mut Bringing<'c>,
    pub(super) commands: Commands<'a, 'c>,
    pub(super) settings: &'a Settings,
    /// The route of keys to tenants, if prefixes of keys matter.
    pub(super) route: Option<Route<'a>>,
    /// The account that the next turn is to be of, where that is another.
    pub(super) moves_to: Option<Arc<Account>>,
    /// The credentials in the request that ended the turn.
    pub(super) credentials: Option<Credentials<'i>>,
    pub(super) input: &'i [u8],
    pub(super) output: &'a mut Output<ReadHandle<'c>>,
    /// Lookups that have been read but not answered; they come before `position`.
    pub(super) batch: Batch<'i, Answer<'i>>,
    /// The position of the next request.
    pub(super) position: usize,
    pub(super) answered: usize,
}

impl<'c, 'i> ActiveTurn<'_, 'c, 'i> {
    /// Answers requests until the turn is to end.
    pub(super) fn run(&mut self) -> Next {
        loop {
            if self.incoming.is_some()
                && let Some(next) = self.receive_value()
            {
                return next;
            }
            if self.dump.is_some()
                && let Some(next) = self.continue_dump()
            {
                return next;
            }
            if self.answered + self.batch.len() >= self.settings.max_requests_per_turn {
                return self.answer_batch().unwrap_or(Next::Again);
            }
            if self.output.len() >= self.settings.max_output_bytes {
                return self.answer_batch().unwrap_or(Next::AwaitSend);
            }
            let input = self.input.get(self.position..).unwrap_or_default();
            let next = match self.wire {
                Wire::Binary => self.binary_step(input),
                Wire::Text => self.text_step(input),
                Wire::Unknown => match input.first() {
                    Some(&first) => {
                        *self.wire = if first == REQUEST_MAGIC { Wire::Binary } else { Wire::Text };
                        None
                    }
                    None => Some(Next::Input),
                },
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// Goes on with the request at the front of `input`. `Some` ends the turn.
    fn text_step(&mut self, input: &'i [u8]) -> Option<Next> {
        match self.parser.parse(input) {
            Parse::Request { request, consumed } => self.request(request, consumed),
            parse => self.other(parse),
        }
    }

    /// Switches to another account if a request with this key, or one without a key, does not
    /// belong to the present tenant. `Some` ends the turn, and the request is still to be handled.
    pub(super) fn switch_tenant(&mut self, key: Option<Key<'i>>) -> Option<Next> {
        let route = self.route.as_ref()?;
        let mut scratch = KeyBuf::default();
        let account = route.elsewhere(key.as_ref().map(|key| key.bytes(&mut scratch)))?;
        Some(self.move_to(account))
    }

    /// Ends the turn, as what comes next is another tenant's; what was gathered before comes first.
    fn move_to(&mut self, account: Arc<Account>) -> Next {
        if let Some(next) = self.answer_batch() {
            return next;
        }
        self.moves_to = Some(account);
        self.parse_afresh();
        Next::SwitchTenant(0)
    }

    /// Has the parsers begin with a request that was parsed already.
    fn parse_afresh(&mut self) {
        *self.parser = Parser::new(self.parser.limits().clone());
        *self.binary = BinaryParser::new(self.binary.limits().clone());
    }

    /// Acts on a request of `consumed` bytes. `Some` ends the turn.
    fn request(&mut self, request: Request<'i>, consumed: usize) -> Option<Next> {
        if self.commands.bound.is_some()
            && let ControlFlow::Break(next) = self.deny(&request, consumed)
        {
            self.bringing.end();
            return next;
        }
        if self.route.is_some()
            && let Some(key) = key_of(&request)
            && let Some(next) = self.switch_tenant(key)
        {
            return Some(next);
        }
        if !self.commands.shared.cache.has_secondary() {
            return self.carry_out(request, consumed);
        }
        let kept = match &request {
            // It is answered in parts, for each of which its keys are brought.
            Request::Get(_) => return self.carry_out(request, consumed),
            Request::Store(request) if request.header.overwrites() => self.bring(&[], true),
            request => {
                let is_written = !matches!(
                    request,
                    Request::Touch(_)
                        | Request::Meta(MetaRequest { command: MetaCommand::Get | MetaCommand::Debug, .. })
                );
                self.bring(key_of(request).flatten().as_slice(), is_written)
            }
        };
        let kept = match kept {
            Ok(kept) => kept,
            Err(next) => return Some(next),
        };
        let next = self.carry_out(request, consumed).or_else(|| self.answer_batch());
        drop(kept);
        self.bringing.end();
        next
    }

    /// Brings the items of keys into memory, and keeps them there as long as the result is held.
    ///
    /// # Errors
    /// Ends the turn: some are on their way, and the request is to be parsed again.
    pub(super) fn bring(&mut self, keys: &[Key<'i>], is_written: bool) -> Result<Vec<RetainedKey<'c>>, Next> {
        let mut scratch = KeyBuf::default();
        let keys = keys.iter().map(|key| key.bytes(&mut scratch).to_vec());
        self.bring_all(&keys.map(|key| Needed { key, is_written }).collect::<Vec<_>>())
    }

    /// Does so for keys as they are stored.
    fn bring_all(&mut self, keys: &[Needed]) -> Result<Vec<RetainedKey<'c>>, Next> {
        if let Some(next) = self.answer_batch() {
            return Err(next);
        }
        let place = (self.commands.shared, self.commands.info);
        let brought = self.bringing.bring(place, self.commands.keys(), keys);
        brought.ok_or_else(|| {
            self.parse_afresh();
            Next::AwaitItems
        })
    }

    /// Carries out a request of `consumed` bytes, or gathers it. `Some` ends the turn.
    fn carry_out(&mut self, request: Request<'i>, consumed: usize) -> Option<Next> {
        match request {
            Request::Get(get) => return self.retrieve(get, consumed),
            Request::Meta(meta) if meta.command == MetaCommand::Get && lookup::is_plain(&meta) => {
                if let Some(next) = self.make_room() {
                    return Some(next);
                }
                self.batch.push(meta.key.wire(), Answer::Meta(meta.flags), self.position, 0);
                self.position += consumed;
                return None;
            }
            _ => {}
        }
        if let Some(next) = self.answer_batch() {
            return Some(next);
        }
        self.position += consumed;
        self.answered += 1;
        let traced = self.commands.traced_since().map(|since| (since, name_of(&request), key_of(&request)));
        let next = self.execute(request);
        if let Some((since, name, key)) = traced {
            self.commands.trace_command(name, key.flatten(), since);
        }
        self.unless_last(next)
    }

    /// Drops a yield after the last request of the input, where the turn ends anyway.
    pub(super) fn unless_last(&self, next: Option<Next>) -> Option<Next> {
        next.filter(|next| *next != Next::Yield || self.position < self.input.len())
    }

    /// Gathers the keys of a retrieval.
    fn retrieve(&mut self, get: protocol::memcached::GetRequest<'i>, consumed: usize) -> Option<Next> {
        let mut keys = get.keys;
        let mut index = 0;
        let now_secs = self.commands.now_secs;
        let ends_now = get.touch.is_some_and(|exptime| ExpiresAt::new(exptime, now_secs) == ExpiresAt::Past);
        if keys.len() == 0 {
            if let Some(next) = self.answer_batch() {
                return Some(next);
            }
            self.output.write(Reply::End.as_bytes());
        }
        // The keys that are in memory until they are answered, if something is beneath that.
        let (mut kept, mut kept_until) = (Vec::new(), 0);
        while let Some(key) = keys.next() {
            index += 1;
            if index <= *self.answered_keys {
                continue;
            }
            if index > kept_until && self.commands.shared.cache.has_secondary() {
                if let Some(next) = self.answer_batch() {
                    return Some(next);
                }
                let some = std::iter::once(key).chain(keys).take(KEPT_TOGETHER);
                let mut needed: Vec<Needed> =
                    some.map(|key| Needed { key: key.to_vec(), is_written: false }).collect();
                needed.sort_unstable();
                needed.dedup();
                match self.bring_all(&needed) {
                    Ok(brought) => (kept, kept_until) = (brought, index - 1 + KEPT_TOGETHER),
                    Err(next) => {
                        *self.answered_keys = index - 1;
                        return Some(next);
                    }
                }
            }
            if let Some(account) = self.route.as_ref().and_then(|route| route.elsewhere(Some(key))) {
                let next = self.move_to(account);
                if self.moves_to.is_none() {
                    return Some(next);
                }
                *self.answered_keys = index - 1;
                return Some(Next::SwitchTenant(consumed));
            }
            if let Some(next) = self.make_room() {
                return Some(next);
            }
            let answer = Answer::Value { with_cas: get.with_cas, touch: get.touch, last: keys.len() == 0 };
            self.batch.push(key, answer, self.position, index - 1);
            // What ends now is not to be found by the lookups after it.
            if ends_now && let Some(next) = self.answer_batch() {
                return Some(next);
            }
        }
        if !kept.is_empty() {
            // The batch is looked up while they are kept.
            if let Some(next) = self.answer_batch() {
                return Some(next);
            }
            self.bringing.end();
        }
        *self.answered_keys = 0;
        self.position += consumed;
        None
    }

    /// Sees to it that there is room for another lookup. `Some` ends the turn.
    pub(super) fn make_room(&mut self) -> Option<Next> {
        if self.batch.is_full() { self.answer_batch() } else { None }
    }

    /// Answers the lookups that were gathered. Where the output gets too large meanwhile, the turn
    /// ends, and goes on from there with the next.
    pub(super) fn answer_batch(&mut self) -> Option<Next> {
        if self.batch.is_empty() {
            return None;
        }
        let since = self.commands.traced_since();
        let done = self.commands.lookup(&self.batch, self.output, self.settings.max_output_bytes);
        self.answered += done;
        if let Some(since) = since {
            self.commands.trace("get", self.batch.first_key(), done, since);
        }
        if let Some((position, key_index)) = self.batch.place_of(done) {
            self.position = position;
            *self.answered_keys = key_index;
            // What was parsed beyond that place is parsed again.
            self.parse_afresh();
            return Some(Next::AwaitSend);
        }
        self.batch.clear();
        None
    }

    /// Goes on with a listing. `Some` ends the turn.
    fn continue_dump(&mut self) -> Option<Next> {
        let dump = self.dump.as_mut()?;
        let room = self.settings.max_requests_per_turn.saturating_sub(self.answered);
        let since = self.commands.traced_since();
        let (looked_at, next) = self.commands.continue_dump(dump, room, self.output);
        self.answered += looked_at;
        if let Some(since) = since {
            self.commands.trace_command("lru_crawler", None, since);
        }
        if next.is_none() {
            *self.dump = None;
        }
        next
    }

    /// Goes on with a large value. `Some` where it is not complete.
    fn receive_value(&mut self) -> Option<Next> {
        let incoming = self.incoming.as_mut()?;
        self.position += incoming.take(self.input.get(self.position..).unwrap_or_default());
        if !incoming.is_complete() {
            return Some(Next::Input);
        }
        if let Some(incoming) = self.incoming.take() {
            self.answered += 1;
            let since = self.commands.traced_since();
            self.commands.finish_incoming(incoming, self.output);
            if let Some(since) = since {
                self.commands.trace_command("set", None, since);
            }
        }
        None
    }
}

/// Returns the name of a request in spans.
const fn name_of(request: &Request<'_>) -> &'static str {
    match request {
        Request::Get(_) => "get",
        Request::Store(request) if request.header.meta.is_some() => "ms",
        Request::Store(request) => store::name(request.header.command),
        Request::Delete(_) => "delete",
        Request::Arithmetic(request) => arithmetic::name(request.direction),
        Request::Touch(_) => "touch",
        Request::Meta(request) => match request.command {
            MetaCommand::Get => "mg",
            MetaCommand::Delete => "md",
            MetaCommand::Arithmetic(_) => "ma",
            MetaCommand::Debug => "me",
        },
        Request::MetaNoop => "mn",
        Request::FlushAll { .. } => "flush_all",
        Request::Stats(_) => "stats",
        Request::Version => "version",
        Request::Verbosity { .. } => "verbosity",
        Request::CacheMemlimit { .. } => "cache_memlimit",
        Request::Shutdown(_) => "shutdown",
        Request::Quit => "quit",
        Request::Unsupported { .. } => "unknown",
    }
}

/// Returns the key that routes a request to a tenant: `Some(None)` if the request has no key, and
/// `None` if any tenant can answer it or it may have several keys.
pub(super) fn key_of<'i>(request: &Request<'i>) -> Option<Option<Key<'i>>> {
    match request {
        Request::Store(request) => Some(Some(request.header.key)),
        Request::Delete(request) => Some(Some(request.key)),
        Request::Arithmetic(request) => Some(Some(request.key)),
        Request::Touch(request) => Some(Some(request.key)),
        Request::Meta(request) => Some(Some(request.key)),
        Request::Get(_) | Request::MetaNoop | Request::Version | Request::Quit => None,
        _ => Some(None),
    }
}

//! The binary protocol: the same commands as in text, in and out of packets.
//!
//! memcached has deprecated it; it is there for clients that have not moved yet. Nothing is decided
//! here but how a request is read and its outcome told: what a command does is in the other files.

use std::ops::ControlFlow;

use frontend::deadline::shown_flags;
use frontend::lookup::Value;
use frontend::output::Output;
use frontend::turn::Next;
use millpond::ReadHandle;
use protocol::memcached::binary::{
    Arithmetic, Get, Head, Opcode, Packet, Parse, Refusal, Request, Status, Store, reply,
};
use protocol::memcached::{Exptime, Key, StoreCommand, StoreHeader, Tokens, WireError};
use tenancy::metrics::Counter;

use super::active_turn::ActiveTurn;
use super::arithmetic::{self, Change, Changed};
use super::commands::{Commands, ExpiresAt, Removed};
use super::lookup::Answer;
use super::store::{self, Stored, cas_of};
use super::wire::VERSION;

/// memcached's description of a failed allocation, after the error token.
const NO_MEMORY_STORING: &[u8] = b"Out of memory allocating item";
/// The same, where a number was to be changed.
const NO_MEMORY_COUNTING: &[u8] = b"Out of memory incrementing value";

/// The form of a retrieval's answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BinaryGet {
    head: Head,
    /// True if a miss gets no answer.
    quiet: bool,
    with_key: bool,
    /// The new end of what is found.
    pub(super) touch: Option<Exptime>,
}

impl BinaryGet {
    /// Answers with what was found under `key`, and its compare-and-swap token.
    #[inline]
    pub(super) fn write<'c>(
        self,
        key: &[u8],
        value: Option<(Value<'_, 'c>, u64)>,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        let key = self.with_key.then_some(key);
        match value {
            Some((value, cas)) => {
                let flags = shown_flags(value.client_flags());
                output.compose(|out| {
                    reply::value_header(out, self.head, key, flags, value.len(), cas);
                });
                value.send(output);
            }
            None if self.quiet => {}
            None => output.compose(|out| reply::miss(out, self.head, key)),
        }
    }
}

impl<'i> ActiveTurn<'_, '_, 'i> {
    /// Goes on with the request at the front of `input`. `Some` ends the turn.
    pub(super) fn binary_step(&mut self, input: &'i [u8]) -> Option<Next> {
        let parse = self.binary.parse(input);
        if self.commands.bound.is_some()
            && let Parse::Request { packet, consumed } = &parse
            && let ControlFlow::Break(next) = self.deny_binary(packet, *consumed)
        {
            return next;
        }
        if self.commands.shared.cache.has_secondary()
            && let Parse::Request { packet, .. } = &parse
        {
            let key = match &packet.request {
                Request::Get(get) => Some(get.key),
                request => key_of(request).flatten(),
            };
            if let Some(next) = key.and_then(|key| self.switch_tenant(Some(key))) {
                return Some(next);
            }
            let overwrites = matches!(&packet.request, Request::Store(store) if store.header.overwrites());
            let is_written = !matches!(&packet.request, Request::Get(_) | Request::Touch { .. });
            let kept = match self.bring(key.filter(|_| !overwrites).as_slice(), is_written) {
                Ok(kept) => kept,
                Err(next) => return Some(next),
            };
            let next = self.binary_act(parse).or_else(|| self.answer_batch());
            drop(kept);
            self.bringing.end();
            return next;
        }
        self.binary_act(parse)
    }

    /// Acts on what was parsed. `Some` ends the turn.
    fn binary_act(&mut self, parse: Parse<'i>) -> Option<Next> {
        match parse {
            Parse::Request { packet: Packet { head, quiet, request: Request::Get(get) }, consumed } => {
                self.binary_retrieve(head, quiet, get, consumed)
            }
            parse => {
                if let Some(next) = self.answer_batch() {
                    return Some(next);
                }
                self.binary_other(parse)
            }
        }
    }

    fn binary_retrieve(&mut self, head: Head, quiet: bool, get: Get<'i>, consumed: usize) -> Option<Next> {
        if let Some(next) = self.switch_tenant(Some(get.key)).or_else(|| self.make_room()) {
            return Some(next);
        }
        let Get { key, with_key, touch } = get;
        let answer = Answer::Binary(BinaryGet { head, quiet, with_key, touch });
        self.batch.push(key.wire(), answer, self.position, 0);
        // What ends now is not to be found by the lookups after it.
        let now_secs = self.commands.now_secs;
        let ends_now = touch.is_some_and(|exptime| ExpiresAt::new(exptime, now_secs) == ExpiresAt::Past);
        if ends_now && let Some(next) = self.answer_batch() {
            return Some(next);
        }
        self.position += consumed;
        None
    }

    /// Acts on what is not gathered. The batch is empty.
    fn binary_other(&mut self, parse: Parse<'i>) -> Option<Next> {
        let key = match &parse {
            Parse::NeedData { store, .. } | Parse::TooLarge { store, .. } => Some(Some(store.header.key)),
            Parse::Request { packet, .. } => key_of(&packet.request),
            _ => None,
        };
        if let Some(next) = key.and_then(|key| self.switch_tenant(key)) {
            return Some(next);
        }
        match parse {
            Parse::Incomplete { .. } => Some(Next::Input),
            Parse::NeedData { store, header_len, .. } => self.wait_for_value(&store.header, header_len),
            Parse::Request { packet, consumed } => {
                self.position += consumed;
                self.answered += 1;
                let traced = self
                    .commands
                    .traced_since()
                    .map(|since| (since, name_of(&packet.request), key_of(&packet.request)));
                let next = self.commands.binary(packet, self.output);
                if let Some((since, name, key)) = traced {
                    self.commands.trace_command(name, key.flatten(), since);
                }
                self.unless_last(next)
            }
            Parse::TooLarge { store: Store { head, header }, consumed } => {
                self.commands.counters.add(Counter::RefusedSize, 1);
                if matches!(head.opcode, Opcode::SET | Opcode::SET_Q)
                    && self.commands.denies_store(&header).is_none()
                {
                    self.commands.remove(header.key.wire(), None);
                }
                self.position += consumed;
                self.answered += 1;
                self.output.compose(|out| reply::error(out, head, Status::TooLarge));
                None
            }
            Parse::Refused { refusal: Refusal { answer, close }, consumed } => {
                self.commands.counters.add(Counter::RefusedLine, 1);
                self.position += consumed;
                self.answered += 1;
                if let Some((head, status)) = answer {
                    self.output.compose(|out| reply::error(out, head, status));
                }
                close.then_some(Next::Close(Counter::ClosedRefused))
            }
            Parse::Skipped { consumed } => {
                self.position += consumed;
                None
            }
        }
    }
}

impl<'c> Commands<'_, 'c> {
    /// Acts on a request that isn't a retrieval. `Some` ends the turn.
    fn binary(&mut self, packet: Packet<'_>, output: &mut Output<ReadHandle<'c>>) -> Option<Next> {
        let Packet { head, quiet, request } = packet;
        let done = |output: &mut Output<_>, cas: u64| {
            if !quiet {
                output.compose(|out| reply::done(out, head, cas));
            }
        };
        match request {
            Request::Store(store) => {
                let outcome = self.store_item(&store.header, store.data);
                report_binary(head, &store.header, outcome, output);
            }
            Request::Touch { key, exptime } => match self.touch_item(key.wire(), exptime) {
                Some(item) => {
                    let item = self.tagged(item);
                    let (flags, cas) = (shown_flags(item.client_flags()), cas_of(&item).unwrap_or(0));
                    output.compose(|out| reply::value_header(out, head, None, flags, 0, cas));
                }
                None => output.compose(|out| reply::miss(out, head, None)),
            },
            Request::Delete { key, compare_cas } => {
                let removed = self.remove(key.wire(), compare_cas);
                self.count_removal(removed == Removed::Yes);
                match removed {
                    Removed::Yes => done(output, 0),
                    Removed::NotFound => output.compose(|out| reply::error(out, head, Status::NotFound)),
                    Removed::Exists => output.compose(|out| reply::error(out, head, Status::Exists)),
                }
            }
            Request::Arithmetic(request) => self.binary_arithmetic(head, quiet, request, output),
            Request::Flush { delay } => {
                self.flush_all(delay);
                done(output, 0);
            }
            Request::Noop => done(output, 0),
            Request::Version => output.compose(|out| reply::text(out, head, VERSION.as_bytes())),
            Request::Stat(arguments) => {
                self.binary_stats(head, arguments, output);
                return Some(Next::Yield);
            }
            Request::Quit => {
                done(output, 0);
                return Some(Next::Close(Counter::ClosedByQuit));
            }
            // Retrievals are gathered by the caller.
            Request::Get(_) => {}
        }
        None
    }

    fn binary_arithmetic(
        &mut self,
        head: Head,
        quiet: bool,
        request: Arithmetic<'_>,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        let Arithmetic { key, direction, delta, create, compare_cas } = request;
        let change =
            Change { direction, delta, compare_cas, new_cas: None, wants_cas: !quiet, create, touch: None };
        let changed = self.change(key.wire(), &change);
        output.compose(|out| match changed {
            Changed::Yes { .. } if quiet => {}
            Changed::Yes { number, cas, .. } => reply::number(out, head, number, cas),
            Changed::NotFound => reply::error(out, head, Status::NotFound),
            Changed::Exists => reply::error(out, head, Status::Exists),
            Changed::Failed(WireError::NonNumeric) => reply::error(out, head, Status::NonNumeric),
            Changed::Failed(_) => reply::error_text(out, head, Status::OutOfMemory, NO_MEMORY_COUNTING),
        });
    }

    /// The statistics of the text protocol, each line in a packet.
    fn binary_stats(&mut self, head: Head, arguments: Tokens<'_>, output: &mut Output<ReadHandle<'c>>) {
        let mut text = Vec::new();
        if self.write_stats(arguments, &mut text).is_err() {
            return output.compose(|out| reply::error(out, head, Status::NotFound));
        }
        output.compose(|out| {
            for line in text.split(|byte| *byte == b'\n') {
                let Some(stat) = line.strip_prefix(b"STAT ") else { continue };
                let stat = stat.strip_suffix(b"\r").unwrap_or(stat);
                let end = stat.iter().position(|byte| *byte == b' ').unwrap_or(stat.len());
                let (name, value) = stat.split_at_checked(end).unwrap_or((stat, b""));
                reply::stat(out, head, name, value.strip_prefix(b" ").unwrap_or(value));
            }
            reply::done(out, head, 0);
        });
    }
}

/// Returns the name of a request in spans, as in the text protocol.
const fn name_of(request: &Request<'_>) -> &'static str {
    match request {
        Request::Get(_) => "get",
        Request::Store(store) => store::name(store.header.command),
        Request::Delete { .. } => "delete",
        Request::Arithmetic(request) => arithmetic::name(request.direction),
        Request::Touch { .. } => "touch",
        Request::Flush { .. } => "flush_all",
        Request::Stat(_) => "stats",
        Request::Noop => "noop",
        Request::Version => "version",
        Request::Quit => "quit",
    }
}

/// As [`super::active_turn::key_of`].
pub(super) fn key_of<'i>(request: &Request<'i>) -> Option<Option<Key<'i>>> {
    match request {
        Request::Touch { key, .. } | Request::Delete { key, .. } => Some(Some(*key)),
        Request::Store(store) => Some(Some(store.header.key)),
        Request::Arithmetic(arithmetic) => Some(Some(arithmetic.key)),
        Request::Get(_) | Request::Noop | Request::Version | Request::Quit => None,
        Request::Flush { .. } | Request::Stat(_) => Some(None),
    }
}

/// Tells the client what became of a storage request.
pub(super) fn report_binary(
    head: Head,
    header: &StoreHeader<'_>,
    outcome: Stored,
    output: &mut Output<ReadHandle<'_>>,
) {
    let status = match outcome {
        Stored::Yes(_) if header.noreply => return,
        Stored::Yes(cas) => return output.compose(|out| reply::done(out, head, cas)),
        Stored::Exists => Status::Exists,
        Stored::NotFound => Status::NotFound,
        Stored::Refused => match header.command {
            StoreCommand::Add => Status::Exists,
            StoreCommand::Replace => Status::NotFound,
            _ => Status::NotStored,
        },
        Stored::Failed(WireError::ObjectTooLarge) => Status::TooLarge,
        Stored::Failed(_) => {
            return output
                .compose(|out| reply::error_text(out, head, Status::OutOfMemory, NO_MEMORY_STORING));
        }
    };
    output.compose(|out| reply::error(out, head, status));
}

//! Execution of memcached's classic, meta and binary commands on the engine.
//!
//! A session ([`new_session`]) is given the input of a connection and answers every whole request
//! in it.
//! Consecutive lookups – the keys of a retrieval, pipelined retrievals, plain `mg` – are batched.
//! Commands whose change to an item depends on its state are optimistic: they read the item, make a
//! new one, replace exactly the item that was read, and retry if that item is no longer there. No
//! command takes a server lock.
//!
//! Semantics are those of memcached 1.6.18, which the wire tests compare with;
//! `docs/compatibility.md` has the exceptions.

#![forbid(unsafe_code)]

mod active_turn;
mod arithmetic;
mod authentication;
mod binary;
mod commands;
mod crawler;
mod execute;
mod incoming;
mod lookup;
mod meta;
mod permission;
mod refused;
mod stats;
mod store;
mod wire;

use std::sync::Arc;

use config::Protocol;
use frontend::bringing::Bringing;
use frontend::connections::ConnectionInfo;
use frontend::context::Context;
use frontend::lookup::Batch;
use frontend::output::Output;
use frontend::settings::Settings;
use frontend::turn::{Next, Turn};
use millpond::ReadHandle;
use protocol::memcached::binary::Parser as BinaryParser;
use protocol::memcached::{Limits, Parser};
use tenancy::latency::ProtocolFamily;
use tenancy::metrics::Counter;
use tenancy::users::{Identity, Users};
use tenancy::{Account, Route, note_next_account};

use self::active_turn::ActiveTurn;
use self::commands::Commands;
use self::crawler::Dump;
use self::incoming::Incoming;
use self::lookup::Answer;
use self::wire::Wire;

/// Creates the session of a connection that is charged to `account`: a
/// [`NewSession`](frontend::session::NewSession).
pub fn new_session<'c>(
    info: Arc<ConnectionInfo>,
    account: Arc<Account>,
    context: &Context<'c>,
) -> Box<dyn frontend::session::Session<'c> + 'c> {
    Box::new(Session::new(info, account, &context.settings, &context.shared.users))
}

/// The memcached side of one connection.
struct Session<'c> {
    wire: Wire,
    parser: Parser,
    binary: BinaryParser,
    info: Arc<ConnectionInfo>,
    account: Arc<Account>,
    /// The account of the key that comes next, where that is another.
    elsewhere: Option<Arc<Account>>,
    identity: Identity,
    /// Keys of the retrieval at the front of the input that have been answered already.
    answered_keys: usize,
    /// A large value that is on its way.
    incoming: Option<Incoming<'c>>,
    /// A listing that is not complete.
    dump: Option<Dump<'c>>,
    /// New limits, to be applied between requests.
    new_limits: Option<Limits>,
    /// Items that the request at the front waits for.
    bringing: Bringing<'c>,
}

impl<'c> Session<'c> {
    fn new(info: Arc<ConnectionInfo>, account: Arc<Account>, settings: &Settings, users: &Users) -> Self {
        let identity = Identity::new(users, info.listener.auth);
        let wire = match info.listener.protocol {
            Protocol::Memcached | Protocol::Auto | Protocol::Resp => Wire::Unknown,
            Protocol::MemcachedText => Wire::Text,
            Protocol::MemcachedBinary => Wire::Binary,
        };
        let parser = Parser::new(settings.protocol.clone());
        let binary = BinaryParser::new(settings.protocol.clone());
        Self {
            wire,
            parser,
            binary,
            info,
            account,
            elsewhere: None,
            identity,
            answered_keys: 0,
            incoming: None,
            dump: None,
            new_limits: None,
            bringing: Bringing::default(),
        }
    }

    /// As `turn`, for an authenticated client.
    fn answer(
        &mut self,
        context: &mut Context<'c>,
        input: &[u8],
        output: &mut Output<ReadHandle<'c>>,
    ) -> Turn {
        let Context { shared, worker, settings, now_secs, key_buffer, sampled, .. } = context;
        let Self {
            wire,
            parser,
            binary,
            info,
            account: own,
            elsewhere,
            identity,
            answered_keys,
            incoming,
            dump,
            bringing,
            ..
        } = self;
        let account = elsewhere.as_ref().unwrap_or(own);
        let directory = info.listener.by_prefix.then(|| shared.directory());
        let route = directory
            .as_deref()
            .map(|directory| Route::new(directory, own, account, &identity.user, &info.listener.accounts));
        let pool = &account.tenant.pool;
        let Some(passed) = pool.gate.pass() else { return Turn::AWAIT_GATE };
        let commands = Commands {
            shared,
            tenant: &account.tenant,
            pool,
            info,
            bound: identity.is_restricted.then_some(&*identity.user),
            counters: &account.counters,
            settings,
            now_secs: *now_secs,
            key_buffer,
            notes: shared.request_log.notes(*worker, &account.tenant.name, ProtocolFamily::Memcached),
            has_details: account.tenant.prefix_counts.is_on(),
            sampled,
        };
        let mut active = ActiveTurn {
            wire,
            parser,
            binary,
            answered_keys,
            incoming,
            dump,
            bringing,
            commands,
            settings,
            route,
            moves_to: None,
            credentials: None,
            input,
            output,
            batch: Batch::new(Answer::NONE),
            position: 0,
            answered: 0,
        };
        let mut next = active.run();
        let ActiveTurn { position: consumed, answered, moves_to, credentials, .. } = active;
        drop(passed);
        note_next_account(elsewhere, own, moves_to);
        if let Some(credentials) = credentials {
            next = self.authenticate(shared, credentials, output);
        }
        Turn { consumed, answered, next }
    }

    /// Takes over changed limits, once no request that the old ones refused is being skipped.
    fn take_limits(&mut self) {
        if self.parser.skipping() == 0
            && self.binary.skipping() == 0
            && let Some(limits) = self.new_limits.take()
        {
            self.binary = BinaryParser::new(limits.clone());
            self.parser = Parser::new(limits);
        }
    }
}

impl<'c> frontend::session::Session<'c> for Session<'c> {
    fn spoken(&self) -> ProtocolFamily {
        ProtocolFamily::Memcached
    }

    fn account(&self) -> &Arc<Account> {
        self.elsewhere.as_ref().unwrap_or(&self.account)
    }

    fn own_account(&self) -> &Arc<Account> {
        &self.account
    }

    fn reload(&mut self, settings: &Settings) {
        self.new_limits = Some(settings.protocol.clone());
    }

    fn waits_as_a_whole(&self) -> bool {
        true
    }

    fn is_bringing(&mut self) -> bool {
        self.bringing.is_waiting()
    }

    fn give_up_items(&mut self, now_nanos: u64) -> bool {
        self.bringing.give_up(now_nanos)
    }

    fn is_receiving_value(&self) -> bool {
        self.incoming.is_some()
    }

    fn held_bytes(&self) -> usize {
        let dump = self.dump.as_ref().map_or(0, Dump::held_bytes);
        self.incoming.as_ref().map_or(0, Incoming::held_bytes) + dump
    }

    fn own_bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn value_buffer(&mut self) -> Option<&mut [u8]> {
        self.incoming.as_mut()?.buffer()
    }

    fn value_received(&mut self, bytes: usize) {
        if let Some(incoming) = &mut self.incoming {
            incoming.advance(bytes);
        }
    }

    fn turn(&mut self, context: &mut Context<'c>, input: &[u8], output: &mut Output<ReadHandle<'c>>) -> Turn {
        if !self.identity.refresh(&context.shared.users) {
            return Turn { consumed: input.len(), answered: 0, next: Next::Close(Counter::ClosedRefused) };
        }
        if !self.identity.is_authenticated {
            return self.serve_unauthenticated(context.shared, input, output);
        }
        if self.bringing.is_waiting() {
            return Turn { consumed: 0, answered: 0, next: Next::AwaitItems };
        }
        self.take_limits();
        self.answer(context, input, output)
    }
}

//! One connection that speaks RESP, from turn to turn.

use std::cell::Cell;
use std::sync::Arc;

use frontend::bringing::Bringing;
use frontend::connections::ConnectionInfo;
use frontend::context::Context;
use frontend::lookup::Batch;
use frontend::output::Output;
use frontend::settings::Settings;
use frontend::turn::{Next, Turn};
use millpond::ReadHandle;
use protocol::resp::{Limits, Parser};
use tenancy::latency::{ONE_IN, ProtocolFamily};
use tenancy::metrics::Counter;
use tenancy::users::{Identity, Users};
use tenancy::{Account, note_next_account};

use super::active_turn::ActiveTurn;
use super::client::Client;
use super::commands::Commands;
use super::gather::Answer;
use super::incoming::Incoming;
use super::listing::Listing;
use super::timing::Gathered;

/// The longest argument of an unauthenticated client, as in Redis.
const MAX_UNAUTHENTICATED_BULK_BYTES: usize = 16 << 10;
/// The most arguments of a request of such a client, the command's name among them, as in Redis.
const MAX_UNAUTHENTICATED_ARGS: usize = 10;

/// Creates the session of a connection that is charged to `account`: a
/// [`NewSession`](frontend::session::NewSession).
pub fn new_session<'c>(
    info: Arc<ConnectionInfo>,
    account: Arc<Account>,
    context: &Context<'c>,
) -> Box<dyn frontend::session::Session<'c> + 'c> {
    Box::new(Session::new(info, account, &context.settings, &context.shared.users))
}

/// The RESP side of one connection.
struct Session<'c> {
    parser: Parser,
    info: Arc<ConnectionInfo>,
    account: Arc<Account>,
    /// The account charged for the next turn, if it is not the connection's own.
    elsewhere: Option<Arc<Account>>,
    identity: Identity,
    client: Client,
    /// Keys of the `MGET` at the front of the input that have been answered already.
    answered_keys: usize,
    /// A large value that is on its way.
    incoming: Option<Incoming<'c>>,
    /// A listing of keys that continues in the next turn.
    listing: Option<Listing<'c>>,
    /// Limits have changed, to be applied between requests.
    has_new_limits: bool,
    /// True if the limits are those of an authenticated client.
    was_authenticated: bool,
    /// Items that the request at the front waits for.
    bringing: Bringing<'c>,
    /// Push messages to be sent between two replies.
    pushes: Vec<u8>,
}

impl<'c> Session<'c> {
    fn new(info: Arc<ConnectionInfo>, account: Arc<Account>, settings: &Settings, users: &Users) -> Self {
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
            was_authenticated: false,
            bringing: Bringing::default(),
            pushes: Vec::new(),
        }
    }

    /// Applies changes of the user's rules and of limits, and the limits that follow from
    /// authentication. Returns false if the user no longer exists.
    fn refresh(&mut self, users: &Users, settings: &Settings) -> bool {
        if !self.identity.refresh(users) {
            return false;
        }
        if std::mem::take(&mut self.has_new_limits)
            || self.was_authenticated != self.identity.is_authenticated
        {
            self.was_authenticated = self.identity.is_authenticated;
            self.parser.set_limits(limits(settings, &self.identity));
        }
        true
    }
}

impl<'c> frontend::session::Session<'c> for Session<'c> {
    fn spoken(&self) -> ProtocolFamily {
        ProtocolFamily::Resp
    }

    fn account(&self) -> &Arc<Account> {
        self.elsewhere.as_ref().unwrap_or(&self.account)
    }

    fn own_account(&self) -> &Arc<Account> {
        &self.account
    }

    fn reload(&mut self, _: &Settings) {
        self.has_new_limits = true;
    }

    fn waits_as_a_whole(&self) -> bool {
        false
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
        let listing = self.listing.as_ref().map_or(0, Listing::held_bytes);
        self.incoming.as_ref().map_or(0, Incoming::held_bytes) + listing
    }

    fn own_bytes(&self) -> usize {
        let listing = self.listing.as_ref().map_or(0, Listing::buffer_bytes);
        let buffers = self.parser.held_bytes() + self.client.held_bytes() + self.pushes.capacity();
        size_of::<Self>() + buffers + listing
    }

    fn push(&mut self, bytes: &[u8], max: usize) -> bool {
        let fits = self.pushes.len() + bytes.len() <= max;
        if fits {
            self.pushes.extend_from_slice(bytes);
        }
        fits
    }

    #[inline]
    fn take_pushes(&mut self, output: &mut Output<ReadHandle<'c>>) {
        if !self.pushes.is_empty() && self.answered_keys == 0 && self.listing.is_none() {
            output.write(&std::mem::take(&mut self.pushes));
        }
    }

    fn tracks(&self) -> bool {
        self.client.tracking.is_some()
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
        let Context { shared, worker, settings, turns, sampled, is_slow_thread, .. } = context;
        if !self.refresh(&shared.users, settings) {
            return Turn { consumed: input.len(), answered: 0, next: Next::Close(Counter::ClosedRefused) };
        }
        if self.bringing.is_waiting() {
            return Turn { consumed: 0, answered: 0, next: Next::AwaitItems };
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
            bringing,
            ..
        } = self;
        // A command may switch to another tenant; the next turn is then that one's.
        let own = Arc::clone(home);
        let account = elsewhere.as_ref().unwrap_or(&own);
        let directory = info.listener.by_prefix.then(|| shared.directory());
        let pool = &*account.tenant.pool;
        let Some(passed) = pool.gate.pass() else { return Turn::AWAIT_GATE };
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
            was_authenticated: identity.is_authenticated,
            identity,
            client,
            now: Cell::new(None),
            notes: shared.request_log.notes(*worker, &account.tenant.name, ProtocolFamily::Resp),
            told: Cell::default(),
            is_timed: settings.times_commands() || turns.is_multiple_of(ONE_IN) || sampled.is_some(),
            untimed: Cell::new(None),
            paused: Cell::new(shared.paused(&own.tenant)),
            sampled,
        };
        let batch = Batch::new(Answer { array: None, is_single: true, is_last: true });
        let began = settings.max_turn_nanos.map(|_| shared.clock.monotonic_nanos());
        #[rustfmt::skip]
        let active = ActiveTurn {
            parser, answered_keys, incoming, listing, bringing, commands, input, output, batch, began,
            passed: Some(passed),
            gathered: Gathered::default(),
            position: 0,
            answered: 0,
            mark: None,
            moves_to: None,
            is_slow_thread: *is_slow_thread,
            has_introspection_reply: false,
        };
        let (turn, moves_to) = active.carry_out(info.id);
        if client.transaction.is_some() || info.figures.queued() >= 0 {
            info.figures.note_queued(client.queued());
        }
        note_next_account(elsewhere, home, moves_to);
        turn
    }
}

/// Returns the limits of requests: low ones until the client is authenticated.
fn limits(settings: &Settings, identity: &Identity) -> Limits {
    let limits = settings.resp.clone();
    if identity.is_authenticated {
        return limits;
    }
    Limits {
        max_args: limits.max_args.min(MAX_UNAUTHENTICATED_ARGS),
        max_bulk_bytes: limits.max_bulk_bytes.min(MAX_UNAUTHENTICATED_BULK_BYTES),
        max_kept_bulk_bytes: limits.max_kept_bulk_bytes.min(MAX_UNAUTHENTICATED_BULK_BYTES),
        max_request_bytes: limits.max_request_bytes.min(4 * MAX_UNAUTHENTICATED_BULK_BYTES),
        ..limits
    }
}

//! The session of a connection, of whichever protocol the listener or the first request determines.

use std::sync::Arc;

use config::Protocol;
use frontend::connections::ConnectionInfo;
use frontend::context::Context;
use frontend::output::Output;
use frontend::settings::Settings;
use frontend::turn::{Next, Turn};
use millpond::ReadHandle;
use tenancy::Account;
use tenancy::latency::Spoken;
use tenancy::users::Users;

use crate::detect::{Detected, detect};

/// The protocol's side of a connection.
pub(crate) enum Session<'c> {
    /// The first request will decide.
    Undecided(Arc<ConnectionInfo>, Arc<Account>),
    Memcached(Box<memcached::Session<'c>>),
    Resp(Box<resp::Session<'c>>),
}

impl<'c> Session<'c> {
    /// One of the listener's tenant.
    pub(crate) fn new(info: Arc<ConnectionInfo>, settings: &Settings, users: &Users) -> Self {
        let account = Arc::clone(&info.listener.accounts.home);
        match info.listener.protocol {
            Protocol::Auto => Self::Undecided(info, account),
            Protocol::Resp => Self::of_resp(info, account, settings, users),
            Protocol::Memcached | Protocol::MemcachedText | Protocol::MemcachedBinary => {
                Self::of_memcached(&info, account, settings, users)
            }
        }
    }

    fn of_resp(info: Arc<ConnectionInfo>, account: Arc<Account>, settings: &Settings, users: &Users) -> Self {
        Self::Resp(Box::new(resp::Session::new(info, account, settings, users)))
    }

    fn of_memcached(
        info: &Arc<ConnectionInfo>,
        account: Arc<Account>,
        settings: &Settings,
        users: &Users,
    ) -> Self {
        Self::Memcached(Box::new(memcached::Session::new(Arc::clone(info), account, settings, users)))
    }

    /// The account charged for the connection's next turn.
    #[inline]
    pub(crate) fn account(&self) -> &Arc<Account> {
        match self {
            Self::Undecided(_, account) => account,
            Self::Memcached(session) => session.account(),
            Self::Resp(session) => session.account(),
        }
    }

    /// The account of the connection itself, whichever tenant's key it works on.
    #[inline]
    pub(crate) fn own_account(&self) -> &Arc<Account> {
        match self {
            Self::Undecided(_, account) => account,
            Self::Memcached(session) => session.own_account(),
            Self::Resp(session) => session.own_account(),
        }
    }

    /// Takes over changed limits, at the next turn.
    pub(crate) fn reload(&mut self, settings: &Settings) {
        match self {
            Self::Undecided(..) => {}
            Self::Memcached(session) => session.reload(settings),
            Self::Resp(session) => session.reload(),
        }
    }

    /// Returns the protocol, once it is known.
    pub(crate) fn spoken(&self) -> Option<Spoken> {
        match self {
            Self::Undecided(..) => None,
            Self::Memcached(_) => Some(Spoken::Memcached),
            Self::Resp(_) => Some(Spoken::Resp),
        }
    }

    /// Returns whether the connection waits while its tenant's clients do, with these bytes to be
    /// read: those of memcached wait whatever they request.
    pub(crate) fn waits_as_a_whole(&self, input: &[u8]) -> bool {
        match self {
            Self::Undecided(..) => detect(input) == Some(Detected::Memcached),
            Self::Memcached(_) => true,
            Self::Resp(_) => false,
        }
    }

    /// Returns whether the session is in the middle of a large value.
    pub(crate) fn is_receiving_value(&self) -> bool {
        match self {
            Self::Undecided(..) => false,
            Self::Memcached(session) => session.is_receiving_value(),
            Self::Resp(session) => session.is_receiving_value(),
        }
    }

    /// Item memory that cannot be evicted while a value is on its way or a listing is.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Undecided(..) => 0,
            Self::Memcached(session) => session.held_bytes(),
            Self::Resp(session) => session.held_bytes(),
        }
    }

    /// Memory of its own.
    pub(crate) fn buffer_bytes(&self) -> usize {
        match self {
            Self::Undecided(..) => 0,
            Self::Memcached(_) => size_of::<memcached::Session<'_>>(),
            Self::Resp(session) => size_of::<resp::Session<'_>>() + session.buffer_bytes(),
        }
    }

    /// Returns the buffer for the missing bytes of a large value.
    pub(crate) fn value_buffer(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Undecided(..) => None,
            Self::Memcached(session) => session.value_buffer(),
            Self::Resp(session) => session.value_buffer(),
        }
    }

    /// Notes that `bytes` were put into [`Self::value_buffer`].
    pub(crate) fn value_received(&mut self, bytes: usize) {
        match self {
            Self::Undecided(..) => {}
            Self::Memcached(session) => session.value_received(bytes),
            Self::Resp(session) => session.value_received(bytes),
        }
    }

    /// Keeps bytes that are to be sent between two replies; false if that would be more than `max`
    /// bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], max: usize) -> bool {
        match self {
            Self::Undecided(..) | Self::Memcached(_) => true,
            Self::Resp(session) => session.push(bytes, max),
        }
    }

    /// Appends the bytes kept by [`Self::push`], if the output ends with a whole reply.
    #[inline]
    pub(crate) fn take_pushes(&mut self, output: &mut Output<ReadHandle<'c>>) {
        if let Self::Resp(session) = self {
            session.take_pushes(output);
        }
    }

    /// Returns whether changes are reported to the client.
    pub(crate) fn tracks(&self) -> bool {
        matches!(self, Self::Resp(session) if session.tracks())
    }

    /// Answers the whole requests in `input`, up to the bounds of a turn.
    pub(crate) fn turn(
        &mut self,
        context: &mut Context<'c>,
        input: &[u8],
        output: &mut Output<ReadHandle<'c>>,
    ) -> Turn {
        if let Self::Undecided(info, account) = self {
            let (account, users) = (Arc::clone(account), &context.shared.users);
            *self = match detect(input) {
                None => return Turn { consumed: 0, answered: 0, next: Next::Input },
                Some(Detected::Resp) => Self::of_resp(Arc::clone(info), account, &context.settings, users),
                Some(Detected::Memcached) => Self::of_memcached(info, account, &context.settings, users),
            };
        }
        match self {
            Self::Memcached(session) => session.turn(context, input, output),
            Self::Resp(session) => session.turn(context, input, output),
            Self::Undecided(..) => Turn::LATER,
        }
    }
}

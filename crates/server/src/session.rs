//! The session of a connection, of whichever protocol the listener or the first request determines.

use std::sync::Arc;

use config::Protocol;
use frontend::connections::ConnectionInfo;
use frontend::context::Context;
use frontend::output::Output;
use frontend::session::{Protocols, Session};
use frontend::settings::Settings;
use frontend::turn::{Next, Turn};
use millpond::ReadHandle;
use tenancy::Account;
use tenancy::latency::ProtocolFamily;

use crate::detect::{Detected, detect};

/// The protocol's side of a connection, from before its protocol is known.
pub(crate) enum AnySession<'c> {
    /// The first request will decide.
    Undecided(Arc<ConnectionInfo>, Arc<Account>, Protocols),
    Decided(Box<dyn Session<'c> + 'c>),
}

impl<'c> AnySession<'c> {
    /// One of the listener's tenant.
    pub(crate) fn new(info: Arc<ConnectionInfo>, protocols: Protocols, context: &Context<'c>) -> Self {
        let account = Arc::clone(&info.listener.accounts.home);
        let new = match info.listener.protocol {
            Protocol::Auto => return Self::Undecided(info, account, protocols),
            Protocol::Resp => protocols.resp,
            Protocol::Memcached | Protocol::MemcachedText | Protocol::MemcachedBinary => protocols.memcached,
        };
        Self::Decided(new(info, account, context))
    }

    fn decided(&self) -> Option<&(dyn Session<'c> + 'c)> {
        match self {
            Self::Undecided(..) => None,
            Self::Decided(session) => Some(&**session),
        }
    }

    fn decided_mut(&mut self) -> Option<&mut (dyn Session<'c> + 'c)> {
        match self {
            Self::Undecided(..) => None,
            Self::Decided(session) => Some(&mut **session),
        }
    }

    /// The account charged for the connection's next turn.
    #[inline]
    pub(crate) fn account(&self) -> &Arc<Account> {
        match self {
            Self::Undecided(_, account, _) => account,
            Self::Decided(session) => session.account(),
        }
    }

    /// The account of the connection itself, whichever tenant's key it works on.
    #[inline]
    pub(crate) fn own_account(&self) -> &Arc<Account> {
        match self {
            Self::Undecided(_, account, _) => account,
            Self::Decided(session) => session.own_account(),
        }
    }

    /// Takes over changed limits, at the next turn.
    pub(crate) fn reload(&mut self, settings: &Settings) {
        if let Some(session) = self.decided_mut() {
            session.reload(settings);
        }
    }

    /// Returns the protocol, once it is known.
    pub(crate) fn spoken(&self) -> Option<ProtocolFamily> {
        self.decided().map(Session::spoken)
    }

    /// Returns whether the connection waits while its tenant's clients do, with these bytes to be
    /// read: those of memcached wait whatever they request.
    pub(crate) fn waits_as_a_whole(&self, input: &[u8]) -> bool {
        match self {
            Self::Undecided(..) => detect(input) == Some(Detected::Memcached),
            Self::Decided(session) => session.waits_as_a_whole(),
        }
    }

    /// Returns whether the next request waits for items to be brought into memory.
    pub(crate) fn is_bringing(&mut self) -> bool {
        self.decided_mut().is_some_and(|session| session.is_bringing())
    }

    /// Stops waiting for overdue items, and returns whether there are some.
    pub(crate) fn give_up_items(&mut self, now_nanos: u64) -> bool {
        self.decided_mut().is_some_and(|session| session.give_up_items(now_nanos))
    }

    /// Returns whether the session is in the middle of a large value.
    pub(crate) fn is_receiving_value(&self) -> bool {
        self.decided().is_some_and(Session::is_receiving_value)
    }

    /// Item memory that cannot be evicted while a value is on its way or a listing is.
    pub(crate) fn held_bytes(&self) -> usize {
        self.decided().map_or(0, Session::held_bytes)
    }

    /// Memory of its own.
    pub(crate) fn own_bytes(&self) -> usize {
        self.decided().map_or(0, Session::own_bytes)
    }

    /// Returns the buffer for the missing bytes of a large value.
    pub(crate) fn value_buffer(&mut self) -> Option<&mut [u8]> {
        self.decided_mut()?.value_buffer()
    }

    /// Notes that `bytes` were put into [`Self::value_buffer`].
    pub(crate) fn value_received(&mut self, bytes: usize) {
        if let Some(session) = self.decided_mut() {
            session.value_received(bytes);
        }
    }

    /// Keeps bytes that are to be sent between two replies; false if that would be more than `max`
    /// bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], max: usize) -> bool {
        self.decided_mut().is_none_or(|session| session.push(bytes, max))
    }

    /// Appends the bytes kept by [`Self::push`], if the output ends with a whole reply.
    #[inline]
    pub(crate) fn take_pushes(&mut self, output: &mut Output<ReadHandle<'c>>) {
        if let Some(session) = self.decided_mut() {
            session.take_pushes(output);
        }
    }

    /// Returns whether changes are reported to the client.
    pub(crate) fn tracks(&self) -> bool {
        self.decided().is_some_and(Session::tracks)
    }

    /// Answers the whole requests in `input`, up to the bounds of a turn.
    pub(crate) fn turn(
        &mut self,
        context: &mut Context<'c>,
        input: &[u8],
        output: &mut Output<ReadHandle<'c>>,
    ) -> Turn {
        if let Self::Undecided(info, account, protocols) = self {
            let new = match detect(input) {
                None => return Turn { consumed: 0, answered: 0, next: Next::Input },
                Some(Detected::Resp) => protocols.resp,
                Some(Detected::Memcached) => protocols.memcached,
            };
            *self = Self::Decided(new(Arc::clone(info), Arc::clone(account), context));
        }
        match self {
            Self::Decided(session) => session.turn(context, input, output),
            Self::Undecided(..) => Turn::AWAIT_GATE,
        }
    }
}

//! Connections as other threads see them: the open ones, what each does, and how to close one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use config::acl::DEFAULT_USER;
use tenancy::{Account, Rejected};

use crate::listener::ListenerState;
use crate::mailbox::Token;
use crate::peer::Peer;
use crate::tls::Subject;

/// The activity of a connection, for `stats conns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// Waiting for a request.
    Waiting,
    /// In the middle of a request.
    Reading,
    /// In the middle of a large value.
    ReadingValue,
    /// Waiting for its client to take responses.
    Writing,
    /// Waiting only for that before it is closed.
    Closing,
}

impl Activity {
    /// memcached's name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "conn_new_cmd",
            Self::Reading => "conn_waiting",
            Self::ReadingValue => "conn_nread",
            Self::Writing => "conn_mwrite",
            Self::Closing => "conn_closing",
        }
    }
}

/// The public state of a connection. Its worker writes, anyone reads.
pub struct ConnectionInfo {
    /// The number of its socket's descriptor.
    pub descriptor: i32,
    /// Its number since the server was started.
    pub id: u64,
    /// The other end.
    pub peer: Peer,
    /// The listener that accepted it.
    pub listener: Arc<ListenerState>,
    /// Unix seconds of the last request.
    pub active_secs: AtomicU32,
    activity: AtomicU8,
    /// Time at which it was accepted, Unix seconds.
    pub since_secs: u32,
    /// The names that its client has given. Locked when it gives them, and while connections are
    /// listed.
    pub named: Mutex<Named>,
    /// The subject of the client's certificate, once it was verified.
    pub subject: OnceLock<Subject>,
    /// Which worker has it, and as which connection.
    pub place: OnceLock<(usize, Token)>,
    /// The figures that change from turn to turn, for `CLIENT LIST`.
    pub figures: ConnectionFigures,
    /// True if it has subscribed to the channel of changes.
    subscribed: AtomicBool,
    closed: AtomicBool,
}

/// The figures of a connection that change from turn to turn. Its worker writes, anyone reads.
#[derive(Default)]
pub struct ConnectionFigures {
    /// The number of the command of RESP that was carried out last, plus 1.
    command: AtomicU32,
    /// Commands of its transaction, plus 1; 0 = there is none.
    queued: AtomicU32,
    /// Bytes of those commands.
    pub queued_bytes: AtomicU64,
    /// Bytes that were received and not carried out.
    pub pending_bytes: AtomicU64,
    /// Bytes that are to be sent, and the memory that holds them.
    pub unsent_bytes: AtomicU64,
    /// Values in place that are to be sent.
    pub unsent_values: AtomicU32,
    /// Memory of its output.
    pub output_bytes: AtomicU64,
    /// All that it holds.
    pub held_bytes: AtomicU64,
}

impl ConnectionFigures {
    /// A command was carried out.
    #[inline]
    pub fn note_command(&self, number: usize) {
        self.command.store(number as u32 + 1, Ordering::Relaxed);
    }

    /// The number of the command that was carried out last.
    pub fn command(&self) -> Option<usize> {
        (self.command.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// Notes that the transaction, if there is one, has this many commands of this many bytes.
    pub fn note_queued(&self, queued: Option<(usize, usize)>) {
        let (count, bytes) = queued.map_or((0, 0), |(count, bytes)| (count as u32 + 1, bytes as u64));
        self.queued.store(count, Ordering::Relaxed);
        self.queued_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The commands of the transaction; -1: there is none.
    pub fn queued(&self) -> i64 {
        i64::from(self.queued.load(Ordering::Relaxed)) - 1
    }
}

/// The facts that a client has given by `CLIENT SETNAME`, `CLIENT SETINFO` and `HELLO`, for
/// `CLIENT LIST`.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The name of the connection.
    pub name: Vec<u8>,
    /// The name of the client's library.
    pub library: Vec<u8>,
    /// The version of that library.
    pub library_version: Vec<u8>,
    /// The version of RESP that it speaks; 0 if it speaks another protocol.
    pub resp: u8,
    /// The database that it has chosen.
    pub database: u32,
    /// The tenant that it is.
    pub tenant: String,
    /// The connection to which changes are reported, if they are; 0 = itself.
    pub redirect: Option<i64>,
    /// The user that it is.
    pub user: String,
}

impl ConnectionInfo {
    /// Creates the state of a connection that was just accepted.
    pub fn new(
        (descriptor, id): (i32, u64),
        peer: Peer,
        listener: Arc<ListenerState>,
        now_secs: u32,
    ) -> Self {
        let activity = AtomicU8::new(Activity::Waiting as u8);
        let tenant = listener.accounts.home.tenant.name.clone();
        let named = Mutex::new(Named { tenant, user: DEFAULT_USER.to_owned(), ..Named::default() });
        let active_secs = AtomicU32::new(now_secs);
        Self {
            descriptor,
            id,
            peer,
            listener,
            active_secs,
            activity,
            since_secs: now_secs,
            named,
            subject: OnceLock::new(),
            place: OnceLock::new(),
            figures: ConnectionFigures::default(),
            subscribed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Notes that the connection is closed.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Returns whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Notes whether it has subscribed to the channel of changes.
    pub fn subscribe(&self, subscribed: bool) {
        self.subscribed.store(subscribed, Ordering::Relaxed);
    }

    /// Returns whether it has subscribed to the channel of changes.
    pub fn is_subscribed(&self) -> bool {
        self.subscribed.load(Ordering::Relaxed)
    }

    /// Locks the facts that its client has given.
    pub fn named(&self) -> std::sync::MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches the connection from the account `own` to `next`. Returns whether these differ.
    ///
    /// # Errors
    /// Why it cannot be `next`'s, and it stays what it is.
    pub fn turn(&self, own: &mut Arc<Account>, next: Arc<Account>) -> Result<bool, Rejected> {
        let turned = Account::turn(own, next)?;
        if turned {
            self.named().tenant.clone_from(&own.tenant.name);
        }
        Ok(turned)
    }

    /// Notes what the connection does now.
    pub fn set_activity(&self, activity: Activity) {
        self.activity.store(activity as u8, Ordering::Relaxed);
    }

    /// Returns what the connection does now.
    pub fn activity(&self) -> Activity {
        const ALL: [Activity; 5] = [
            Activity::Waiting,
            Activity::Reading,
            Activity::ReadingValue,
            Activity::Writing,
            Activity::Closing,
        ];
        let at = usize::from(self.activity.load(Ordering::Relaxed));
        ALL.get(at).copied().unwrap_or(Activity::Waiting)
    }
}

/// All connections by descriptor, for `stats conns`. Locked when one is opened or closed, and while
/// they are listed.
#[derive(Default)]
pub struct Registry(Mutex<BTreeMap<i32, Arc<ConnectionInfo>>>);

impl Registry {
    /// Adds a connection that was opened.
    pub fn add(&self, info: Arc<ConnectionInfo>) {
        self.lock().insert(info.descriptor, info);
    }

    /// Removes a connection that is closed.
    pub fn remove(&self, descriptor: i32) {
        self.lock().remove(&descriptor);
    }

    /// Returns all connections, by descriptor.
    pub fn list(&self) -> Vec<Arc<ConnectionInfo>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Arc<ConnectionInfo>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What all workers, the admin server and the main thread share.

use protocol::resp::commands::SPECS;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use base::pin::Gate;
use base::{Clock, Ledger, Part};
use millpond::{Cache, PoolId, PoolStats};
use protocol::memcached::Limits;
use protocol::resp;

use crate::admin::AccessSlot;
use crate::config::{Address, Auto, Config, ListenerConfig, Protocol};
use crate::latency::RequestLatencies;
use crate::log::Seldom;
use crate::maintenance::Maintenance;
use crate::metrics::{Counter, Ended, ListenerCounters};
use crate::monitoring::Monitoring;
use crate::net::{Mailbox, Peer, Token};
use crate::reload::Changing;
use crate::requests::RequestLog;
use crate::several::Several;
use crate::slow::SlowLog;
use crate::telemetry::Tracing;
use crate::tenants::{Account, Departing, Directory, Paused, Tenant};
use crate::tls::{Subject, TlsSlot};
use crate::tracking::Tracking;
use crate::users::{DEFAULT_USER, Users};
use crate::watching::Watching;

/// The settings that change while serving, in the form in which they are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) max_connections: usize,
    pub(crate) protocol: Limits,
    pub(crate) resp: resp::Limits,
    pub(crate) max_output_bytes: usize,
    pub(crate) max_requests_per_turn: usize,
    /// Once a turn has taken so long, no further command of RESP is carried out in it.
    pub(crate) max_turn_nanos: Option<u64>,
    /// Bytes of one value that are received in a turn, and bytes that are sent.
    pub(crate) max_moved_bytes: usize,
    /// Chunks that a listing passes in a turn.
    pub(crate) max_listed_chunks: u32,
    pub(crate) max_tracked_keys: usize,
    pub(crate) max_connection_memory_bytes: u64,
    pub(crate) busy_poll_micros: u32,
    pub(crate) idle_timeout_secs: u32,
    pub(crate) stall_timeout_secs: u32,
    /// A request that takes so long comes into the slow log; `None`: none does.
    pub(crate) slow_nanos: Option<u64>,
    pub(crate) slow_entries: usize,
    /// A command of RESP that takes so long is an event; `None`: none is.
    pub(crate) latency_nanos: Option<u64>,
    pub(crate) handshake_timeout_secs: u32,
    pub(crate) drain_timeout_secs: u32,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Self {
        let limits = &config.limits;
        Self {
            max_connections: limits.max_connections,
            protocol: Limits {
                max_line_bytes: limits.max_line_bytes.as_usize(),
                max_get_line_bytes: limits.max_get_line_bytes.as_usize(),
                max_keys: limits.max_get_keys,
                max_item_bytes: limits.max_item_bytes.as_usize(),
                skip_refused_data: limits.skip_refused_data,
            },
            resp: resp::Limits {
                max_kept_bulk_bytes: limits.max_item_bytes.as_usize(),
                max_request_bytes: limits.max_request_bytes.as_usize(),
                ..resp::Limits::default()
            },
            max_output_bytes: limits.max_output_buffer_bytes.as_usize(),
            max_requests_per_turn: limits.max_requests_per_turn,
            max_turn_nanos: None,
            max_moved_bytes: usize::MAX,
            max_listed_chunks: LISTED_CHUNKS,
            max_tracked_keys: limits.max_tracked_keys,
            max_connection_memory_bytes: config.max_connection_memory().as_u64(),
            busy_poll_micros: config.busy_poll_micros,
            idle_timeout_secs: limits.idle_timeout_secs,
            stall_timeout_secs: limits.stall_timeout_secs,
            slow_nanos: u64::try_from(config.watch.slow_log_micros)
                .ok()
                .map(|micros| micros.saturating_mul(1000)),
            slow_entries: config.watch.slow_log_entries,
            latency_nanos: Some(u64::from(config.watch.latency_monitor_millis) * 1_000_000)
                .filter(|nanos| *nanos > 0),
            handshake_timeout_secs: limits.handshake_timeout_secs,
            drain_timeout_secs: limits.drain_timeout_secs,
        }
    }
}

/// Some 200 µs.
const LISTED_CHUNKS: u32 = 4_096;

/// While several tenants share a worker, a turn is no longer than this, so that none waits long for
/// another's.
const SHARED_TURN_REQUESTS: usize = 32;
/// And its output no larger, but for one value.
const SHARED_TURN_OUTPUT_BYTES: usize = 64 << 10;
/// And takes no longer, but for one command.
const SHARED_TURN_NANOS: u64 = 50_000;
/// And moves no more of a large value, which takes some 20 µs.
const SHARED_MOVED_BYTES: usize = 64 << 10;
const SHARED_LISTED_CHUNKS: u32 = 512;

impl Settings {
    /// Whether every command of RESP is timed, but for lookups that are made together.
    pub(crate) fn times_commands(&self) -> bool {
        self.slow_nanos.is_some() || self.latency_nanos.is_some() || self.max_turn_nanos.is_some()
    }

    /// As they hold in a worker that several tenants share.
    pub(crate) fn for_several_tenants(&self) -> Self {
        Self {
            max_requests_per_turn: self.max_requests_per_turn.min(SHARED_TURN_REQUESTS),
            max_output_bytes: self.max_output_bytes.min(SHARED_TURN_OUTPUT_BYTES),
            max_turn_nanos: Some(SHARED_TURN_NANOS),
            max_moved_bytes: SHARED_MOVED_BYTES,
            max_listed_chunks: SHARED_LISTED_CHUNKS,
            ..self.clone()
        }
    }

    /// As they hold in a turn that nobody waits for: it does as much as one of a client that has
    /// the worker alone, and its output is no larger than where there are others, who would wait
    /// while it is sent.
    pub(crate) fn for_nobody_waiting(self, alone: &Self) -> Self {
        Self {
            max_requests_per_turn: alone.max_requests_per_turn,
            max_turn_nanos: alone.max_turn_nanos,
            ..self
        }
    }
}

/// A pool as the server sees it.
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) id: PoolId,
    /// Before its key space, which other pools may share. Turns of connections, which are bounded,
    /// pass it; transactions close it.
    pub(crate) gate: Arc<Entrance>,
}

/// What is before a key space.
#[derive(Default)]
pub(crate) struct Entrance {
    pub(crate) gate: Gate,
    /// Writes of several keys, as reads of several keys see them.
    pub(crate) several: Several,
}

impl Deref for Entrance {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

#[cfg(test)]
impl Pool {
    /// One for tests that need a pool and look at nothing in it.
    pub(crate) fn alone() -> Arc<Self> {
        let memory = base::ByteSize::mib(16);
        let cache = Cache::new(millpond::CacheConfig { memory, ..millpond::CacheConfig::default() });
        let id = cache.expect("a cache").add_pool(millpond::PoolConfig::default()).expect("a pool");
        Arc::new(Self { name: "p".to_owned(), id, gate: Arc::default() })
    }
}

/// A listener as everyone but the accepting workers sees it.
pub(crate) struct ListenerState {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) protocol: Protocol,
    /// Whether its clients must authenticate.
    pub(crate) auth: Auto<bool>,
    /// How its next connections speak TLS, if they do.
    pub(crate) tls: TlsSlot,
    /// What its clients are as long as they say nothing else.
    pub(crate) home: Arc<Account>,
    /// Other tenants that they may turn to.
    pub(crate) tenants: Vec<String>,
    /// Whether a key that begins with another's prefix is that tenant's.
    pub(crate) by_prefix: bool,
    /// One account for each tenant that its clients have been, `home` the first.
    accounts: Mutex<Vec<Arc<Account>>>,
    /// What clients did as tenants that are gone.
    past: ListenerCounters,
    /// Connections open now.
    pub(crate) connections: AtomicUsize,
    /// The number of its socket's descriptor.
    pub(crate) descriptor: AtomicI32,
}

impl ListenerState {
    pub(crate) fn new(settings: &ListenerConfig, address: Address, tenant: Arc<Tenant>) -> Self {
        let home = Arc::new(Account::new(tenant));
        Self {
            name: settings.name.clone(),
            address,
            protocol: settings.protocol,
            auth: settings.auth,
            tls: TlsSlot::default(),
            accounts: Mutex::new(vec![Arc::clone(&home)]),
            home,
            tenants: settings.tenants.clone(),
            by_prefix: settings.by_prefix,
            past: ListenerCounters::default(),
            connections: AtomicUsize::new(0),
            descriptor: AtomicI32::new(-1),
        }
    }

    /// The account of a tenant; made when it is first asked for.
    pub(crate) fn account(&self, tenant: &Arc<Tenant>) -> Arc<Account> {
        let mut accounts = self.accounts();
        if let Some(known) = accounts.iter().find(|account| Arc::ptr_eq(&account.tenant, tenant)) {
            return Arc::clone(known);
        }
        let account = Arc::new(Account::new(Arc::clone(tenant)));
        accounts.push(Arc::clone(&account));
        account
    }

    /// The account of a tenant, if it has one.
    pub(crate) fn account_of(&self, tenant: &Arc<Tenant>) -> Option<Arc<Account>> {
        self.accounts().iter().find(|account| Arc::ptr_eq(&account.tenant, tenant)).cloned()
    }

    /// Keeps what was counted for a tenant that is gone, and nothing else of it.
    pub(crate) fn forget(&self, tenant: &Arc<Tenant>, ledger: &Ledger) {
        let mut accounts = self.accounts();
        for account in accounts.extract_if(.., |account| Arc::ptr_eq(&account.tenant, tenant)) {
            self.past.take_over(&account.counters, ledger);
        }
    }

    fn accounts(&self) -> MutexGuard<'_, Vec<Arc<Account>>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each(&self, mut look: impl FnMut(&ListenerCounters)) {
        self.accounts().iter().for_each(|account| look(&account.counters));
        look(&self.past);
    }

    fn sum(&self, of: impl Fn(&ListenerCounters) -> u64) -> u64 {
        let mut sum = 0;
        self.each(|counters| sum += of(counters));
        sum
    }

    /// The count since the start, over all tenants.
    pub(crate) fn total(&self, counter: Counter) -> u64 {
        self.sum(|counters| counters.total(counter))
    }

    /// Commands of RESP that were carried out, by name and outcome, without those that never were.
    pub(crate) fn calls(&self) -> Vec<(&'static str, &'static str, u64)> {
        let mut calls = Vec::new();
        for (outcome, ends) in [("ok", &[Ended::Well][..]), ("error", &[Ended::Failed, Ended::Rejected])] {
            for spec in &SPECS {
                let of = |counters: &ListenerCounters, ended: &Ended| -> u64 {
                    spec.numbers().map(|number| counters.calls_of(number, *ended)).sum()
                };
                let count = self.sum(|counters| ends.iter().map(|ended| of(counters, ended)).sum());
                if count > 0 {
                    calls.push((spec.name, outcome, count));
                }
            }
        }
        calls
    }
}

/// Where other threads reach a worker, and how busy it is.
pub(crate) struct WorkerState {
    pub(crate) mailbox: Mailbox,
    pub(crate) connections: AtomicUsize,
    /// How often it said that it is alive.
    pub(crate) beats: AtomicU64,
}

/// What a connection is doing, for `stats conns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Activity {
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
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "conn_new_cmd",
            Self::Reading => "conn_waiting",
            Self::ReadingValue => "conn_nread",
            Self::Writing => "conn_mwrite",
            Self::Closing => "conn_closing",
        }
    }
}

/// What others may know of a connection. Its worker writes, anyone reads.
pub(crate) struct ConnectionInfo {
    pub(crate) descriptor: i32,
    /// Its number since the server was started.
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    pub(crate) listener: Arc<ListenerState>,
    /// Unix seconds of the last request.
    pub(crate) active_secs: AtomicU32,
    activity: AtomicU8,
    /// When it was accepted, Unix seconds.
    pub(crate) since_secs: u32,
    /// What its client told of itself. Locked when it does, and while connections are listed.
    pub(crate) named: Mutex<Named>,
    /// Whom the client's certificate names, once it was verified.
    pub(crate) subject: OnceLock<Subject>,
    /// Which worker has it, and as which connection.
    pub(crate) place: OnceLock<(usize, Token)>,
    /// What of it changes from turn to turn, for `CLIENT LIST`.
    pub(crate) figures: ConnectionFigures,
    /// Whether it has subscribed to the channel of changes.
    subscribed: AtomicBool,
    closed: AtomicBool,
}

/// What of a connection changes from turn to turn. Its worker writes, anyone reads.
#[derive(Default)]
pub(crate) struct ConnectionFigures {
    /// The number of the command of RESP that was carried out last, plus 1.
    command: AtomicU32,
    /// Commands of its transaction, plus 1; 0 = there is none.
    queued: AtomicU32,
    /// Bytes of those commands.
    pub(crate) queued_bytes: AtomicU64,
    /// Bytes that were received and not carried out.
    pub(crate) pending_bytes: AtomicU64,
    /// Bytes that are to be sent, and what holds them.
    pub(crate) unsent_bytes: AtomicU64,
    pub(crate) unsent_values: AtomicU32,
    pub(crate) output_bytes: AtomicU64,
    /// All that it holds.
    pub(crate) held_bytes: AtomicU64,
}

impl ConnectionFigures {
    /// A command was carried out.
    #[inline]
    pub(crate) fn note_command(&self, number: usize) {
        self.command.store(number as u32 + 1, Ordering::Relaxed);
    }

    /// The number of the command that was carried out last.
    pub(crate) fn command(&self) -> Option<usize> {
        (self.command.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// The transaction has so many commands, if there is one, of so many bytes.
    pub(crate) fn note_queued(&self, queued: Option<(usize, usize)>) {
        let (count, bytes) = queued.map_or((0, 0), |(count, bytes)| (count as u32 + 1, bytes as u64));
        self.queued.store(count, Ordering::Relaxed);
        self.queued_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The commands of the transaction; -1: there is none.
    pub(crate) fn queued(&self) -> i64 {
        i64::from(self.queued.load(Ordering::Relaxed)) - 1
    }
}

/// What a client told of itself by `CLIENT SETNAME`, `CLIENT SETINFO` and `HELLO`, for
/// `CLIENT LIST`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(crate) name: Vec<u8>,
    pub(crate) library: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
    /// The version of RESP that it speaks; 0 where it speaks something else.
    pub(crate) resp: u8,
    /// The database that it has chosen.
    pub(crate) database: u32,
    /// The tenant that it is.
    pub(crate) tenant: String,
    /// Where it is told of changes, if it is: to which connection; 0 = itself.
    pub(crate) redirect: Option<i64>,
    /// The user that it is.
    pub(crate) user: String,
}

impl ConnectionInfo {
    pub(crate) fn new(
        (descriptor, id): (i32, u64),
        peer: Peer,
        listener: Arc<ListenerState>,
        now_secs: u32,
    ) -> Self {
        let activity = AtomicU8::new(Activity::Waiting as u8);
        let tenant = listener.home.tenant.name.clone();
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

    /// Notes that it is no more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Notes whether it has subscribed to the channel of changes.
    pub(crate) fn subscribe(&self, subscribed: bool) {
        self.subscribed.store(subscribed, Ordering::Relaxed);
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.subscribed.load(Ordering::Relaxed)
    }

    pub(crate) fn named(&self) -> std::sync::MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_activity(&self, activity: Activity) {
        self.activity.store(activity as u8, Ordering::Relaxed);
    }

    pub(crate) fn activity(&self) -> Activity {
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

/// All connections by descriptor, for `stats conns`. Locked when one comes or goes, and while they
/// are listed.
#[derive(Default)]
pub(crate) struct Registry(Mutex<BTreeMap<i32, Arc<ConnectionInfo>>>);

impl Registry {
    pub(crate) fn add(&self, info: Arc<ConnectionInfo>) {
        self.lock().insert(info.descriptor, info);
    }

    pub(crate) fn remove(&self, descriptor: i32) {
        self.lock().remove(&descriptor);
    }

    pub(crate) fn list(&self) -> Vec<Arc<ConnectionInfo>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Arc<ConnectionInfo>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one connection has taken of the memory for connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// In buffers of its own, which the ledger is charged with.
    pub(crate) buffers: u64,
    /// In items that cannot be evicted while it sends or receives them, which the ledger counts as
    /// items.
    pub(crate) items: u64,
}

impl Held {
    pub(crate) const fn total(self) -> u64 {
        self.buffers.saturating_add(self.items)
    }
}

/// What one tenant's connections have taken of the memory for connections, on all workers together.
#[derive(Default)]
pub(crate) struct TenantHeld {
    bytes: AtomicU64,
    /// What it was asked to give up last, and has not yet.
    asked: AtomicU64,
}

impl TenantHeld {
    /// In bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A connection that holds so much turns to another tenant.
    pub(crate) fn hand_over(&self, next: &Self, bytes: u64) {
        next.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Asks it to give up so much, in place of what it was asked for before: what it could not give
    /// then is not wanted for ever.
    pub(crate) fn ask(&self, bytes: u64) {
        self.asked.store(bytes, Ordering::Relaxed);
    }

    /// Whether it is to give up a connection that holds so much. Each is asked for once, whichever
    /// worker has it: together they come to what was asked, and to less without the last of them.
    pub(crate) fn gives_up(&self, bytes: u64) -> bool {
        let rest = |asked: u64| (asked > 0).then(|| asked.saturating_sub(bytes));
        self.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok()
    }
}

/// The memory for connections: a limit over all of them, and a charge on the cache's ledger.
#[derive(Default)]
pub(crate) struct Budget {
    held: AtomicU64,
    limit: AtomicU64,
}

impl Budget {
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// How much of `more` bytes is beyond the limit.
    pub(crate) fn missing(&self, more: u64) -> u64 {
        self.held().saturating_add(more).saturating_sub(self.limit.load(Ordering::Relaxed))
    }

    /// Changes what a connection of the tenant holds from `from` to `to`; false, and no change,
    /// where that is more and beyond the limit.
    #[must_use]
    pub(crate) fn try_change(&self, ledger: &Ledger, tenant: &TenantHeld, from: Held, to: Held) -> bool {
        if to.total() > from.total() {
            let more = to.total() - from.total();
            let limit = self.limit.load(Ordering::Relaxed);
            let within = |held: u64| held.checked_add(more).filter(|after| *after <= limit);
            if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_err() {
                return false;
            }
            tenant.bytes.fetch_add(more, Ordering::Relaxed);
        } else {
            let less = from.total() - to.total();
            self.held.fetch_sub(less, Ordering::Relaxed);
            tenant.bytes.fetch_sub(less, Ordering::Relaxed);
        }
        if to.buffers >= from.buffers {
            ledger.charge(Part::Connections, to.buffers - from.buffers);
        } else {
            ledger.release(Part::Connections, from.buffers - to.buffers);
        }
        true
    }
}

/// What everyone shares.
pub(crate) struct Shared {
    pub(crate) cache: Cache,
    pub(crate) clock: Clock,
    /// The configuration as it holds now.
    pub(crate) config: RwLock<Arc<Config>>,
    settings: RwLock<Arc<Settings>>,
    /// How the admin server's next connections speak TLS, if they do.
    pub(crate) admin_tls: TlsSlot,
    /// Who may ask the admin server.
    pub(crate) admin_access: AccessSlot,
    directory: RwLock<Arc<Directory>>,
    departing: Mutex<Departing>,
    pub(crate) listeners: Vec<Arc<ListenerState>>,
    pub(crate) workers: Vec<WorkerState>,
    pub(crate) registry: Registry,
    pub(crate) budget: Budget,
    /// Connections open now, over all listeners.
    pub(crate) connections: AtomicUsize,
    /// The last compare-and-swap token that was given out.
    cas: AtomicU64,
    /// The number of the last connection.
    connection_ids: AtomicU64,
    pub(crate) draining: AtomicBool,
    /// Held by the worker that accepts, so that a spare descriptor that one gives up is not taken
    /// by another.
    accepting: Mutex<()>,
    pub(crate) maintenance: Maintenance,
    pub(crate) users: Users,
    pub(crate) watching: Watching,
    pub(crate) requests: Arc<RequestLog>,
    pub(crate) tracing: Arc<Tracing>,
    pub(crate) tracking: Tracking,
    pub(crate) monitoring: Monitoring,
    pub(crate) changing: Changing,
    pub(crate) slow: SlowLog,
    pub(crate) latencies: RequestLatencies,
    pub(crate) started_secs: u32,
    /// Of HTTP on a port of the cache.
    warns_of_http: Seldom,
    /// Of a handshake of TLS that has failed.
    warns_of_tls: Seldom,
}

impl Shared {
    pub(crate) fn new(
        cache: Cache,
        config: Config,
        directory: Directory,
        listeners: Vec<Arc<ListenerState>>,
        workers: Vec<WorkerState>,
    ) -> Self {
        let clock = cache.clock().clone();
        let settings = Settings::new(&config);
        let budget = Budget::default();
        let users = Users::new(&config);
        let requests = Arc::new(RequestLog::new(clock.clone(), workers.len()));
        let tracing = Arc::new(Tracing::new(clock.clone(), workers.len()));
        let outlives = !config.shared_memory.as_os_str().is_empty();
        // No process gives out more than one a nanosecond.
        let first_cas = if outlives { clock.unix_nanos() } else { 0 };
        budget.set_limit(settings.max_connection_memory_bytes);
        Self {
            started_secs: clock.unix_secs(),
            cache,
            clock,
            config: RwLock::new(Arc::new(config)),
            settings: RwLock::new(Arc::new(settings)),
            admin_tls: TlsSlot::default(),
            admin_access: AccessSlot::default(),
            directory: RwLock::new(Arc::new(directory)),
            departing: Mutex::default(),
            listeners,
            workers,
            registry: Registry::default(),
            budget,
            connections: AtomicUsize::new(0),
            // Above all tokens of an earlier process whose items may be here.
            cas: AtomicU64::new(first_cas),
            connection_ids: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            accepting: Mutex::default(),
            maintenance: Maintenance::default(),
            users,
            watching: Watching::default(),
            requests,
            tracing,
            tracking: Tracking::default(),
            monitoring: Monitoring::default(),
            changing: Changing::default(),
            slow: SlowLog::default(),
            latencies: RequestLatencies::default(),
            warns_of_http: Seldom::once_in(60),
            warns_of_tls: Seldom::once_in(60),
        }
    }

    /// A compare-and-swap token that was never given out before and is larger than all that were.
    #[inline]
    pub(crate) fn next_cas(&self) -> u64 {
        self.cas.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A number for a new connection.
    pub(crate) fn next_connection_id(&self) -> u64 {
        self.connection_ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The right to accept a connection, for a moment.
    pub(crate) fn accepting(&self) -> MutexGuard<'_, ()> {
        self.accepting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings as they are now.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The configuration as it holds now.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts `config` in force for what asks for it; workers are told by message.
    pub(crate) fn set_config(&self, config: Config) {
        let settings = Settings::new(&config);
        self.budget.set_limit(settings.max_connection_memory_bytes);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// All tenants and pools as they are now.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has these be all tenants and pools.
    pub(crate) fn set_directory(&self, directory: Directory) {
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(directory);
    }

    /// Those who have left the directory and are not gone.
    pub(crate) fn departing(&self) -> MutexGuard<'_, Departing> {
        self.departing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has statistics for clients begin at zero: those of the client's tenant, where there are
    /// several, as those of others are not its to reset.
    pub(crate) fn reset_counters(&self, tenant: &Arc<Tenant>) {
        self.each_seen(tenant, ListenerCounters::reset);
    }

    /// Who of the tenant's clients waits, because one of them asked for it. At the end nobody does.
    #[inline]
    pub(crate) fn paused(&self, tenant: &Tenant) -> Option<Paused> {
        let paused = tenant.pause.now(&self.clock)?;
        (!tenant.is_leaving() && !self.draining.load(Ordering::Relaxed)).then_some(paused)
    }

    /// Warns of HTTP on a port of the cache, at most once a minute.
    pub(crate) fn warn_of_http(&self, info: &ConnectionInfo) {
        if self.warns_of_http.is_due(self.clock.monotonic_nanos()) {
            let (listener, peer) = (&info.listener.name, &info.peer);
            tracing::warn!(
                listener,
                %peer,
                "A client sent an HTTP request to a port of the cache and was disconnected. A web page may have made it do so."
            );
        }
    }

    /// Tells of a handshake that has failed: as a warning at most once a minute, else for
    /// debugging.
    pub(crate) fn tell_of_tls(&self, info: &ConnectionInfo, error: &rustls::Error) {
        let (listener, peer) = (&info.listener.name, &info.peer);
        if self.warns_of_tls.is_due(self.clock.monotonic_nanos()) {
            tracing::warn!(
                listener,
                %peer,
                %error,
                "TLS with a client has failed. Others that fail within a minute are told of at log.level = \"debug\" only."
            );
        } else {
            tracing::debug!(listener, %peer, %error, "TLS with a client has failed.");
        }
    }

    /// Whether several tenants share the server, so that none may change what is everybody's.
    pub(crate) fn is_shared(&self) -> bool {
        self.directory().tenants.len() > 1
    }

    /// Looks at the counters that a client may see: those of its own tenant where there are
    /// several, else at all.
    pub(crate) fn each_seen(&self, tenant: &Arc<Tenant>, mut look: impl FnMut(&ListenerCounters)) {
        if self.is_shared() {
            let accounts = self.listeners.iter().filter_map(|listener| listener.account_of(tenant));
            accounts.for_each(|account| look(&account.counters));
        } else {
            self.listeners.iter().for_each(|listener| listener.each(&mut look));
        }
    }

    /// The sum of what `of` reads of them.
    pub(crate) fn seen_by(&self, tenant: &Arc<Tenant>, of: impl Fn(&ListenerCounters) -> u64) -> u64 {
        let mut sum = 0;
        self.each_seen(tenant, |counters| sum += of(counters));
        sum
    }

    /// The pools that a client may know of: its own tenant's where there are several, else all.
    pub(crate) fn pools_seen_by(&self, tenant: &Tenant) -> Vec<PoolStats> {
        if self.is_shared() {
            self.cache.pool_stats(tenant.pool.id).into_iter().collect()
        } else {
            self.cache.stats().pools
        }
    }

    /// The memory that a client's items may have: its own tenant's where there are several, else
    /// all. `pools` are those that it may know of.
    pub(crate) fn memory_limit_seen(&self, pools: &[PoolStats]) -> u64 {
        let all = self.cache.ledger().limit();
        if self.is_shared() {
            pools.iter().filter_map(|pool| pool.limit_bytes).fold(all, u64::min)
        } else {
            all
        }
    }

    /// The connections that a client may know of, as [`Self::pools_seen_by`].
    pub(crate) fn connections_seen_by(&self, tenant: &Tenant) -> usize {
        if self.is_shared() { tenant.connections() } else { self.connections.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_a_limit_and_charges_buffers_only() {
        let ledger = Ledger::new(1 << 20);
        let (budget, tenant) = (Budget::default(), TenantHeld::default());
        let try_change = |from, to| budget.try_change(&ledger, &tenant, from, to);
        let all = || (budget.held(), tenant.bytes(), ledger.part(Part::Connections));
        budget.set_limit(100);
        let (none, some) = (Held::default(), Held { buffers: 40, items: 50 });
        assert!(try_change(none, some));
        assert_eq!(all(), (90, 90, 40));
        assert!(!try_change(none, Held { buffers: 11, items: 0 }));
        assert_eq!((all(), budget.missing(11)), ((90, 90, 40), 1), "a refusal changes nothing");
        assert!(try_change(some, Held { buffers: 60, items: 20 }), "less in all");
        assert_eq!(all(), (80, 80, 60));
        budget.set_limit(0);
        assert!(try_change(Held { buffers: 60, items: 20 }, none), "giving back always works");
        assert_eq!((all(), budget.missing(0)), ((0, 0, 0), 0));
    }

    #[test]
    fn a_tenant_gives_up_what_was_asked_and_no_more() {
        let ledger = Ledger::new(1 << 20);
        let (budget, first, second) = (Budget::default(), TenantHeld::default(), TenantHeld::default());
        budget.set_limit(100);
        let (none, some) = (Held::default(), Held { buffers: 40, items: 50 });
        assert!(budget.try_change(&ledger, &first, none, some));
        first.hand_over(&second, 90);
        assert_eq!((first.bytes(), second.bytes(), budget.held()), (0, 90, 90));
        assert!(!second.gives_up(10), "nobody asked");
        second.ask(30);
        assert!(second.gives_up(20) && second.gives_up(20) && !second.gives_up(20));
        second.ask(50);
        second.ask(10);
        assert!(second.gives_up(20) && !second.gives_up(1), "the last that asks counts");
        assert!(budget.try_change(&ledger, &second, some, none));
        assert_eq!((first.bytes(), second.bytes(), budget.held()), (0, 0, 0));
    }
}

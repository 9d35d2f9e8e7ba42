//! State that all workers, the admin server and the main thread share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use base::Clock;
use config::Config;
use millpond::{Cache, PoolStats};
use tenancy::budget::Budget;
use tenancy::latency::RequestLatencies;
use tenancy::metrics::ListenerCounters;
use tenancy::users::Entry;
use tenancy::users::Users;
use tenancy::{Directory, Draining, Paused, Tenant};

use crate::access::AccessSlot;
use crate::changing::Changing;
use crate::connections::{ConnectionInfo, Registry};
use crate::control::Control;
use crate::described::describe;
use crate::listener::ListenerState;
use crate::log::Seldom;
use crate::mailbox::Mailbox;
use crate::maintenance::Maintenance;
use crate::monitoring::Monitoring;
use crate::requests::RequestLog;
use crate::settings::Settings;
use crate::slow::SlowLog;
use crate::telemetry::Tracing;
use crate::tls::TlsSlot;
use crate::tracking::Tracking;
use crate::watching::Watching;

/// A worker's mailbox for other threads, and its load.
pub struct WorkerState {
    /// Its inbox.
    pub mailbox: Arc<Mailbox>,
    /// Connections that it has now.
    pub connections: AtomicUsize,
    /// Number of times that the worker has reported to be alive.
    pub beats: AtomicU64,
    /// Commands of transactions that it has carried out: a worker that is in the middle of one
    /// reads no mail.
    pub steps: AtomicU64,
}

/// The state that all threads share.
pub struct Shared {
    /// The cache.
    pub cache: Cache,
    /// The cache's clock.
    pub clock: Clock,
    /// The configuration as it holds now.
    pub config: RwLock<Arc<Config>>,
    settings: RwLock<Arc<Settings>>,
    /// TLS settings of the admin server's next connections, if they use TLS.
    pub admin_tls: TlsSlot,
    /// The access rules of the admin server.
    pub admin_access: AccessSlot,
    directory: RwLock<Arc<Directory>>,
    departing: Mutex<Draining>,
    /// The listeners, in the order of the configuration.
    pub listeners: Vec<Arc<ListenerState>>,
    /// The workers, by number.
    pub workers: Vec<WorkerState>,
    /// All connections.
    pub registry: Registry,
    /// The memory for connections.
    pub budget: Budget,
    /// Connections open now, over all listeners.
    pub connections: AtomicUsize,
    /// The last compare-and-swap token that was given out.
    cas: AtomicU64,
    /// The number of the last connection.
    connection_ids: AtomicU64,
    /// True once the server stops.
    pub draining: AtomicBool,
    /// Held while a worker accepts. A worker without a free descriptor also holds it while it gives
    /// up its spare one, so that no other worker accepts with that descriptor.
    accepting: Mutex<()>,
    /// Requests to the maintenance thread.
    pub maintenance: Maintenance,
    /// The users, and what each may do.
    pub users: Users,
    /// Samples of the cache's accesses.
    pub watching: Watching,
    /// The log of requests.
    pub request_log: Arc<RequestLog>,
    /// Traces of a sample of turns.
    pub tracing: Arc<Tracing>,
    /// The copies of keys that clients have.
    pub tracking: Tracking,
    /// The memory monitor.
    pub monitoring: Monitoring,
    /// The policy that moves memory between pools.
    pub control: Control,
    /// State for changes of the configuration.
    pub changing: Changing,
    /// The slow log.
    pub slow_log: SlowLog,
    /// The latencies of all requests.
    pub latencies: RequestLatencies,
    /// The start of the server, Unix seconds.
    pub started_secs: u32,
    /// Limits how often HTTP on a port of the cache is logged.
    warns_of_http: Seldom,
    /// Limits how often a TLS failure is logged as a warning.
    warns_of_tls: Seldom,
}

impl Shared {
    /// Creates the state of a server with this cache and configuration.
    pub fn new(
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
        // Above all tokens of an earlier process, which gave out less than one per nanosecond.
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
            request_log: requests,
            tracing,
            tracking: Tracking::default(),
            monitoring: Monitoring::default(),
            control: Control::default(),
            changing: Changing::default(),
            slow_log: SlowLog::default(),
            latencies: RequestLatencies::default(),
            warns_of_http: Seldom::once_in(60),
            warns_of_tls: Seldom::once_in(60),
        }
    }

    /// A compare-and-swap token that was never given out before and is larger than all that were.
    #[inline]
    pub fn next_cas(&self) -> u64 {
        self.cas.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A number for a new connection.
    pub fn next_connection_id(&self) -> u64 {
        self.connection_ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The right to accept a connection, for a moment.
    pub fn accepting(&self) -> MutexGuard<'_, ()> {
        self.accepting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings as they are now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The configuration as it holds now.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the configuration, and the settings that follow from it. Workers keep copies of
    /// them, so the caller must send [`Message::Reload`](crate::mailbox::Message::Reload).
    pub fn set_config(&self, config: Config) {
        let settings = Settings::new(&config);
        self.budget.set_limit(settings.max_connection_memory_bytes);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// All tenants and pools as they are now.
    pub fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has these be all tenants and pools.
    pub fn set_directory(&self, directory: Directory) {
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(directory);
    }

    /// Returns the tenants and pools that are no longer in the directory but still have connections
    /// or memory.
    pub fn departing(&self) -> MutexGuard<'_, Draining> {
        self.departing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets the counters that clients of `tenant` may see: those of [`Self::each_seen`].
    pub fn reset_counters(&self, tenant: &Arc<Tenant>) {
        self.each_seen(tenant, ListenerCounters::reset);
    }

    /// Returns which of the tenant's clients are paused, because one of them asked for it. While
    /// the server drains or the tenant is removed, none are.
    #[inline]
    pub fn paused(&self, tenant: &Tenant) -> Option<Paused> {
        let paused = tenant.pause.now(&self.clock)?;
        (!tenant.is_being_removed() && !self.draining.load(Ordering::Relaxed)).then_some(paused)
    }

    /// Warns of HTTP on a port of the cache, at most once a minute.
    pub fn warn_of_http(&self, info: &ConnectionInfo) {
        if self.warns_of_http.is_due(self.clock.monotonic_nanos()) {
            let (listener, peer) = (&info.listener.name, &info.peer);
            tracing::warn!(
                listener,
                %peer,
                "A client sent an HTTP request to a port of the cache and was disconnected. A web page may have made it do so."
            );
        }
    }

    /// Logs a TLS failure of a client: as a warning at most once a minute, otherwise at debug
    /// level.
    pub fn tell_of_tls(&self, info: &ConnectionInfo, error: &rustls::Error) {
        let (listener, peer) = (&info.listener.name, &info.peer);
        if self.warns_of_tls.is_due(self.clock.monotonic_nanos()) {
            tracing::warn!(
                listener,
                %peer,
                %error,
                "TLS with a client has failed. Others that fail within a minute are logged at log.level = \"debug\" only."
            );
        } else {
            tracing::debug!(listener, %peer, %error, "TLS with a client has failed.");
        }
    }

    /// Returns whether several tenants share the server, so that none may change shared state.
    pub fn has_several_tenants(&self) -> bool {
        self.directory().tenants.len() > 1
    }

    /// Calls `look` with the counters that clients of `tenant` may see: the tenant's own if several
    /// tenants share the server, otherwise all.
    pub fn each_seen(&self, tenant: &Arc<Tenant>, mut look: impl FnMut(&ListenerCounters)) {
        if self.has_several_tenants() {
            let accounts = self.listeners.iter().filter_map(|listener| listener.accounts.account_of(tenant));
            accounts.for_each(|account| look(&account.counters));
        } else {
            self.listeners.iter().for_each(|listener| listener.accounts.each(&mut look));
        }
    }

    /// Returns the sum of `of` over the counters that clients of `tenant` may see.
    pub fn seen_by(&self, tenant: &Arc<Tenant>, of: impl Fn(&ListenerCounters) -> u64) -> u64 {
        let mut sum = 0;
        self.each_seen(tenant, |counters| sum += of(counters));
        sum
    }

    /// The pools that a client may know of: its own tenant's where there are several, else all.
    pub fn pools_seen_by(&self, tenant: &Tenant) -> Vec<PoolStats> {
        if self.has_several_tenants() {
            self.cache.pool_stats(tenant.pool.id).into_iter().collect()
        } else {
            self.cache.stats().pools
        }
    }

    /// The memory that a client's items may have: its own tenant's where there are several, else
    /// all. `pools` are those that it may know of.
    pub fn memory_limit_seen(&self, pools: &[PoolStats]) -> u64 {
        let all = self.cache.ledger().limit();
        if self.has_several_tenants() {
            pools.iter().filter_map(|pool| pool.limit_bytes).fold(all, u64::min)
        } else {
            all
        }
    }

    /// The connections that a client may know of, as [`Self::pools_seen_by`].
    pub fn connections_seen_by(&self, tenant: &Tenant) -> usize {
        if self.has_several_tenants() {
            tenant.connections()
        } else {
            self.connections.load(Ordering::Relaxed)
        }
    }

    /// Keeps for `ACL LOG` that a connection was refused something: why, and what.
    pub fn note_refusal(
        &self,
        info: &ConnectionInfo,
        context: &'static str,
        (reason, object): (&'static str, Vec<u8>),
        user: &[u8],
    ) {
        let now_secs = self.clock.unix_secs();
        self.users.log.add(Entry {
            count: 1,
            reason,
            context,
            object,
            user: user.to_vec(),
            client: describe(info, now_secs).trim_end().to_owned(),
            at_secs: now_secs,
        });
    }
}

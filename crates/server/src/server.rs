//! Starts the server, and changes and stops it while it runs.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use base::Clock;
use config::change::Change;
use config::{Address, Config, Error, ErrorKind, ListenerConfig, PoolSettings};
use frontend::instance::Instance;
use frontend::listener::ListenerState;
use frontend::mailbox::{Mailbox, Message};
use frontend::pools::{add_pool, set_shares};
use frontend::reload::put_in_force;
use frontend::requests::Files;
use frontend::session::Protocols;
use frontend::shared::{Shared, WorkerState};
use millpond::secondary::SecondaryCache;
use millpond::{Cache, CacheConfig};
use tenancy::key_space::{KeySpaceGate, Pool};
use tenancy::{Directory, Tenant};

use crate::activation::Activated;
use crate::admin::AdminServer;
use crate::fleet;
use crate::maintain;
use crate::maintain::Toucher;
use crate::net::{Listener, SlowThread, Worker};
use crate::open::{self, Opened};

/// Descriptors that are needed besides those of connections: epoll instances, mailboxes, listeners,
/// admin, log.
const OTHER_DESCRIPTORS: u64 = 64;

/// Slabs that a pool gives to others, or back, about once a second.
const RESIZE_SLABS: u64 = 32;

/// A running server. [`Server::stop`] drains it; dropping it without that stops it as well.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    admin: Option<AdminServer>,
    maintenance: Option<JoinHandle<()>>,
    toucher: Option<Toucher>,
    failure: Arc<Failure>,
    /// Of an orchestrator.
    fleet: Option<agent::service::Service>,
}

/// A worker to be started.
struct NewWorker {
    index: usize,
    protocols: Protocols,
    listeners: Vec<Arc<Listener>>,
    /// True if it stays on one processor.
    pin: bool,
}

/// The mark that a worker died, which must not happen.
#[derive(Default)]
pub(crate) struct Failure {
    failed: std::sync::atomic::AtomicBool,
    notify: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Failure {
    fn report(&self) {
        self.failed.store(true, Ordering::Relaxed);
        if let Some(notify) = &*self.notify.lock().unwrap_or_else(PoisonError::into_inner) {
            notify();
        }
    }
}

impl Server {
    /// Starts a server of `protocols` with a checked configuration on the system's clock: builds
    /// the cache, listens, starts the threads.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`], [`ErrorKind::Listen`] or [`ErrorKind::System`], naming the part that
    /// failed.
    pub fn start(config: Config, protocols: Protocols) -> Result<Self, Error> {
        Self::start_with_clock(config, protocols, Clock::System)
    }

    /// As [`Self::start`], on the given clock. On a manual clock time-outs and expiry happen when
    /// it is moved.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with_clock(config: Config, protocols: Protocols, clock: Clock) -> Result<Self, Error> {
        Self::start_with(config, protocols, (clock, None), Activated::default())
    }

    /// As [`Self::start_with_clock`], over a cache beneath memory: what is evicted goes there, and
    /// a request whose item is there waits until it has been brought back, while others are served.
    ///
    /// Requests that are not about given keys – listings, random keys, counts – see what is in
    /// memory alone.
    ///
    /// # Errors
    /// As [`Self::start`].
    #[doc(hidden)]
    pub fn start_over(
        config: Config,
        protocols: Protocols,
        clock: Clock,
        secondary: Arc<dyn SecondaryCache>,
    ) -> Result<Self, Error> {
        Self::start_with(config, protocols, (clock, Some(secondary)), Activated::default())
    }

    /// As [`Self::start_with_clock`], on sockets that were handed over if there are any.
    pub(crate) fn start_with(
        mut config: Config,
        protocols: Protocols,
        (clock, secondary): (Clock, Option<Arc<dyn SecondaryCache>>),
        mut activated: Activated,
    ) -> Result<Self, Error> {
        config::check::check(&config)?;
        activated.match_names(&config)?;
        let Opened { sockets, absent, admin_socket, certificates, access } =
            open::open(&mut config, &mut activated)?;
        let threads = config.threads();
        check_descriptors(&config, threads);
        let cache = build_cache(&config, clock, secondary)?;
        let pools = build_pools(&config, &cache)?;
        set_shares(&cache, &config, &pools)?;
        let directory = directory(&config, pools)?;
        let listeners = listener_states(&config, &sockets, &directory);
        let workers = (0..threads).map(|_| worker_state()).collect::<Result<Vec<_>, _>>()?;
        let pin = config.pin_threads;
        let shared = Arc::new(Shared::new(cache, config, directory, listeners, workers));
        shared.changing.set_absent(absent);
        put_in_force(&shared, certificates);
        shared.admin_access.set(access);
        let config = shared.config();
        shared.watching.apply(&shared.cache, &shared.directory().pools, &config.watch)?;
        shared.request_log.apply(shared.cache.ledger(), &config.watch, Files::Reopen)?;
        shared.tracing.apply(shared.cache.ledger(), &config.telemetry)?;
        shared.monitoring.start(&shared.cache, &config.monitor)?;
        shared.control.apply(&shared.cache, &config)?;
        let mut server = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            admin: None,
            maintenance: Some(maintain::start(Arc::clone(&shared))?),
            toucher: Some(maintain::start_toucher(Arc::clone(&shared))?),
            failure: Arc::default(),
            fleet: None,
        };
        server.fleet = fleet::start(&shared)?;
        if let Some(socket) = admin_socket {
            server.admin = Some(AdminServer::start(Arc::clone(&shared), socket)?);
        }
        for index in 0..threads {
            let worker = NewWorker { index, protocols, listeners: sockets.clone(), pin };
            server.spawn(Arc::clone(&shared), worker)?;
        }
        Ok(server)
    }

    /// Starts a worker and waits until it is set up.
    fn spawn(&mut self, shared: Arc<Shared>, worker: NewWorker) -> Result<(), Error> {
        let NewWorker { index, protocols, listeners, pin } = worker;
        let failure = Arc::clone(&self.failure);
        let (started, wait) = std::sync::mpsc::channel();
        let body = move || {
            if pin && let Err(error) = base::thread::pin_to_cpu(index % base::thread::available_cpus()) {
                tracing::warn!(worker = index, %error, "A worker could not be pinned to its processor.");
            }
            base::thread::scope(|scope| {
                let slow = SlowThread::new(scope, &shared, index);
                match Worker::new(&shared, index, listeners, slow, protocols) {
                    Ok(worker) => {
                        let _ = started.send(Ok(()));
                        worker.run();
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                    }
                }
            });
        };
        let guarded = move || {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err() {
                tracing::error!(worker = index, "A worker panicked; this is a bug. The server stops.");
                failure.report();
            }
        };
        let cannot =
            |e: std::io::Error| Error::with_source(ErrorKind::System, "a worker cannot be started", e);
        self.threads.push(base::thread::spawn(format!("worker-{index}"), guarded).map_err(cannot)?);
        wait.recv().unwrap_or_else(|_| Err(std::io::Error::other("it ended at once"))).map_err(cannot)
    }

    /// Returns the names of the listeners and their addresses, with the ports that the kernel
    /// chose.
    pub fn addresses(&self) -> Vec<(String, Address)> {
        self.shared
            .listeners
            .iter()
            .map(|listener| (listener.name.clone(), listener.address.clone()))
            .collect()
    }

    /// Returns the address of the admin server, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(AdminServer::address)
    }

    /// The cache that is served.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// The configuration as it holds now.
    pub fn config(&self) -> Arc<Config> {
        self.shared.config()
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Connections that are open now, worker by worker.
    pub fn connections_by_worker(&self) -> Vec<usize> {
        self.shared.workers.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).collect()
    }

    /// Returns the server as those see it who observe and change it. It may be observed after the
    /// server has stopped; the memory of its cache stays as long as that.
    pub fn instance(&self) -> Arc<dyn Instance> {
        Arc::<Shared>::clone(&self.shared)
    }

    /// Applies the part of `config` that can be changed while serving, and returns all differences.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the configuration, or a file that it names, is invalid, and nothing
    /// was changed; [`ErrorKind::Engine`] if the cache rejects a limit: the settings applied before
    /// that stay.
    pub fn reload(&self, config: &Config) -> Result<Vec<Change>, Error> {
        self.shared.reload(config, "program")
    }

    /// Returns the state that the threads share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Server {
    /// Stops accepting, answers what has arrived, sends the remaining output for as long as the
    /// drain time-out allows, and returns.
    pub fn stop(mut self) {
        self.shut_down();
    }

    /// Returns whether a worker died.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.failed.load(Ordering::Relaxed)
    }

    /// Has `notify` called when a worker dies.
    pub(crate) fn on_failure(&self, notify: impl Fn() + Send + 'static) {
        *self.failure.notify.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(notify));
    }

    fn shut_down(&mut self) {
        self.shared.draining.store(true, Ordering::Relaxed);
        self.shared.workers.iter().for_each(|worker| worker.mailbox.send(Message::Drain));
        for thread in self.threads.drain(..) {
            // A worker's panic has been reported already.
            let _ = thread.join();
        }
        self.admin = None;
        if let Some(agent) = self.fleet.take() {
            // What the server has is free when its process is gone, and not before.
            agent.abandon();
        }
        self.shared.monitoring.stop();
        self.shared.watching.stop();
        self.shared.request_log.stop(self.shared.cache.ledger());
        self.shared.tracing.stop(self.shared.cache.ledger());
        self.toucher = None;
        self.shared.maintenance.stop();
        if let Some(thread) = self.maintenance.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Raises the limit on descriptors, and warns if it is too low for the connections that are
/// allowed.
fn check_descriptors(config: &Config, threads: usize) {
    let wanted = config.limits.max_connections as u64 + OTHER_DESCRIPTORS + 3 * threads as u64;
    let limit = base::machine::raise_open_files(wanted);
    if limit < wanted {
        tracing::warn!(
            limit,
            wanted,
            "The limit on open files is too low for limits.max_connections; raise it with ulimit -n."
        );
    }
}

/// Warns if the cache may have more memory than its container.
fn check_memory(config: &Config) {
    let container = base::ByteSize::new(base::machine::memory_bytes());
    if config.memory() > container {
        tracing::warn!(
            memory = %config.memory(),
            container = %container,
            "The cache may grow beyond the memory limit of its container, and be killed; lower memory, or raise that limit."
        );
    }
}

fn build_cache(
    config: &Config,
    clock: Clock,
    secondary: Option<Arc<dyn SecondaryCache>>,
) -> Result<Cache, Error> {
    check_memory(config);
    let config = CacheConfig {
        memory: config.memory(),
        max_memory: config.max_memory.set(),
        clock,
        huge_pages: config.huge_pages,
        resize_slabs: RESIZE_SLABS,
        shared: (!config.shared_memory.as_os_str().is_empty()).then(|| config.shared_memory.clone()),
        ..CacheConfig::default()
    };
    match secondary {
        None => Cache::new(config),
        Some(secondary) => Cache::over(config, secondary),
    }
    .map_err(|e| Error::with_source(ErrorKind::Engine, "the cache cannot be built", e))
}

fn build_pools(config: &Config, cache: &Cache) -> Result<Vec<Arc<Pool>>, Error> {
    let of_shared_keys = Arc::<KeySpaceGate>::default();
    let add = |settings: &PoolSettings| {
        let gate = if settings.own_keys { Arc::default() } else { Arc::clone(&of_shared_keys) };
        add_pool(cache, settings, gate)
    };
    let pools: Result<Vec<_>, Error> = config.all_pools().iter().map(add).collect();
    // The leftovers of a pool that is not in the configuration any more are of no use.
    let discarded = cache.discard_unclaimed();
    if discarded > base::ByteSize::new(0) {
        tracing::warn!(
            "{discarded} of items that another process left in {} are lost: no pool and no tenant has the name of theirs any \
             more",
            config.shared_memory.display()
        );
    }
    let recovered = cache.recovered();
    if recovered.items + recovered.dropped > 0 {
        tracing::info!(
            items = recovered.items,
            dropped = recovered.dropped,
            "The items that another process left were taken over."
        );
    }
    if recovered.lost_bytes > 0 {
        tracing::warn!(
            "{} that another process left in {} could not be taken over, with all items in it: there is \
             less memory than that process had, or the files are damaged",
            base::ByteSize::new(recovered.lost_bytes),
            config.shared_memory.display()
        );
    }
    pools
}

/// All tenants over the pools.
fn directory(config: &Config, pools: Vec<Arc<Pool>>) -> Result<Directory, Error> {
    let mut tenants = Vec::new();
    for settings in config.all_tenants() {
        let pool = pools.iter().find(|pool| pool.name == settings.pool()).ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                format!("there is no pool {} for tenant {}", settings.pool(), settings.name),
            )
        })?;
        tenants.push(Arc::new(Tenant::new(&settings, Arc::clone(pool))));
    }
    Ok(Directory::new(tenants, pools))
}

fn listener_states(
    config: &Config,
    sockets: &[Arc<Listener>],
    directory: &Directory,
) -> Vec<Arc<ListenerState>> {
    let state = |(settings, socket): (&ListenerConfig, &Arc<Listener>)| {
        let tenant = directory.tenant(settings.tenant())?;
        Some(Arc::new(ListenerState::new(settings, socket.address().clone(), Arc::clone(tenant))))
    };
    config.listeners.iter().zip(sockets).filter_map(state).collect()
}

fn worker_state() -> Result<WorkerState, Error> {
    let mailbox = Mailbox::new()
        .map_err(|e| Error::with_source(ErrorKind::System, "a worker's mailbox cannot be made", e))?;
    Ok(WorkerState {
        mailbox: Arc::new(mailbox),
        connections: AtomicUsize::new(0),
        beats: AtomicU64::new(0),
        steps: AtomicU64::new(0),
    })
}

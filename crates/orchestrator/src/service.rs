//! A fleet with sockets, a clock, a thread and a store.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Clock;
use control::access::{Access, AccessError, causes};
use control::patient::Bounded;
use control::v1::orchestrator_server::{Orchestrator as Serve, OrchestratorServer};
use control::v1::register_response::Standing;
use control::v1::{LeaveRequest, LeaveResponse, RegisterRequest, RegisterResponse};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic::{Response, Status};

use crate::etcd::EtcdConfig;
use crate::etcd::candidate::Candidate;
use crate::etcd::client::Client;
use crate::etcd::keys::{Contender, Keys};
use crate::etcd::reign::Election;
use crate::fleet::{Fleet, FleetConfig, FleetError};
use crate::history::History;
use crate::keeper::Keeper;
use crate::led::Led;
use crate::registration::MOST_INSTANCES;
use crate::shared::{LONGEST_CALL, LONGEST_SAVE, Shared};
use crate::store::{Store, StoreError};
use crate::whole::Whole;
use crate::{Nanos, admin};

/// The longest that the tasks take to end: the last one gives the leadership back.
const LONGEST_END: Duration = Duration::from_secs(2);

/// Connections of agents at the same time: each is of one registration.
const MOST_AGENTS: usize = 256;

/// Descriptors of the state, etcd, the runtime and the standard streams.
const OTHER_DESCRIPTORS: u64 = 64;

/// The settings of a [`Service`].
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The address at which agents register; port 0 chooses one.
    pub listen: SocketAddr,
    /// The address of the page, the figures and the commands of operators. `None`: there are none.
    pub admin: Option<SocketAddr>,
    /// The time between two rounds.
    pub period: Duration,
    /// The fleet; its id is that of the state, if that is kept.
    pub fleet: FleetConfig,
    /// The file of the state. `None`: a restart waits until agents have registered again.
    pub state: Option<PathBuf>,
    /// The etcd by which several orchestrators elect one, and where the state is kept. `None`: this
    /// one is alone.
    pub etcd: Option<EtcdConfig>,
    /// Decisions that are kept to be shown.
    pub history: usize,
    /// The node whose memory the orchestrator of a fleet sets ([`Service::whole`]), up to what the
    /// budget has for it. Needs a state, which keeps the amount. `None`: the budget holds.
    pub led_node: Option<String>,
}

/// The reason why an orchestrator cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// An address cannot be listened on.
    #[error("the orchestrator cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// Others may reach it, and need not show anything.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The settings of the fleet are wrong.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The state cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The settings of etcd are wrong.
    #[error("{0}")]
    Etcd(String),
    /// The memory that the orchestrator of a fleet sets would be forgotten with the process.
    #[error("a node that a fleet's orchestrator leads needs --state, which keeps the memory that it has")]
    Led,
    /// Certificates are refused.
    #[error("the certificates of the orchestrator are refused")]
    Tls(#[source] tonic::transport::Error),
    /// The operating system gives no thread.
    #[error("the orchestrator has no thread")]
    Thread(#[source] std::io::Error),
}

/// An orchestrator that runs until it is stopped.
pub struct Service {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Service {
    /// Starts an orchestrator.
    ///
    /// # Errors
    /// If an address cannot be listened on or would be open to everybody, or the state cannot be
    /// read.
    pub fn start(config: ServiceConfig, access: Access, clock: Clock) -> Result<Self, ServiceError> {
        let ServiceConfig { listen, admin, period, fleet, state, etcd, history, led_node } = config;
        access.check(listen)?;
        check_descriptors();
        if led_node.is_some() && (state.is_none() || etcd.is_some()) {
            return Err(ServiceError::Led);
        }
        if let Some(admin) = admin {
            access.check_token(admin)?;
        }
        let (socket, address) = bind(listen)?;
        let admin = admin.map(bind).transpose()?;
        let admin_address = admin.as_ref().map(|(_, address)| *address);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServiceError::Thread)?;
        let entered = runtime.enter();
        let policy = fleet.policy.clone();
        let (elected, later_terms) = match &etcd {
            Some(etcd) => {
                elected(etcd, &fleet, address).map(|(election, terms)| (Some(election), Some(terms)))?
            }
            None => (None, None),
        };
        let (fleet, store) = match elected {
            Some(_) => (Fleet::follower(&fleet)?, None),
            None => alone(fleet, state.as_deref(), led_node.as_deref(), clock.monotonic_nanos())?,
        };
        let shared = Arc::new(Shared {
            fleet: Mutex::new(fleet),
            history: Mutex::new(history_of(store.as_deref(), history)),
            clock,
            access: access.clone(),
            policy,
            keeper: Mutex::new(store.is_some().then(Keeper::new)),
            store,
            leads_until: AtomicU64::new(if elected.is_some() { 0 } else { Nanos::MAX }),
            leader: Mutex::default(),
            later_terms,
            channels: Mutex::default(),
            deadline: (period * 3 / 4).min(LONGEST_CALL),
            failures: Mutex::default(),
            compute_nanos: AtomicU64::default(),
            memory_set: Notify::new(),
            memory_saved: Condvar::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let mut server = Server::builder().timeout(LONGEST_CALL);
        if let Some(tls) = access.server_tls() {
            server = server.tls_config(tls).map_err(ServiceError::Tls)?;
        }
        let handler = OrchestratorServer::with_interceptor(Handler(Arc::clone(&shared)), access.asked());
        let router = server.add_service(handler);
        let incoming = Bounded::new(from_std(socket, address)?, MOST_AGENTS).into_stream();
        let admin = admin.map(|(socket, address)| from_std(socket, address)).transpose()?;
        drop(entered);
        let mut until = stopped.clone();
        let served = router.serve_with_incoming_shutdown(incoming, async move {
            let _ = until.wait_for(|stopped| *stopped).await;
        });
        let tasks = Tasks { shared: Arc::clone(&shared), admin, elected, period, history, stopped };
        let thread = base::thread::spawn("orchestrator", move || {
            runtime.block_on(tasks.run(served));
        });
        let thread = Some(thread.map_err(ServiceError::Thread)?);
        Ok(Self { address, admin: admin_address, shared, stop, thread })
    }

    /// The address at which agents register.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the page and the figures.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The instances of the node that another orchestrator leads as one.
    pub fn whole(&self) -> Option<Whole> {
        let is_led = self.shared.fleet().led.is_some();
        is_led.then(|| Whole::of(Arc::clone(&self.shared)))
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns whether it runs: false if it has ended by an error of its own.
    pub fn is_up(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops. Instances go on with their last limits.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// The work of an orchestrator's thread.
struct Tasks {
    shared: Arc<Shared>,
    admin: Option<TcpListener>,
    elected: Option<Election>,
    period: Duration,
    history: usize,
    stopped: watch::Receiver<bool>,
}

impl Tasks {
    /// Runs until it is stopped; `served` answers agents until then.
    async fn run(self, served: impl Future<Output = Result<(), tonic::transport::Error>> + Send + 'static) {
        let Self { shared, admin, elected, period, history, stopped } = self;
        let mut tasks = JoinSet::new();
        tasks.spawn(async {
            if let Err(error) = served.await {
                tracing::error!(error = causes(&error), "Agents cannot register any more.");
            }
        });
        if let Some(listener) = admin {
            tasks.spawn(admin::serve(listener, Arc::clone(&shared), stopped.clone()));
        }
        if let Some(election) = elected {
            tasks.spawn(election.run(Arc::clone(&shared), stopped.clone()));
        }
        let keeping = tokio::spawn(Arc::clone(&shared).keep_alone());
        let is_led = shared.fleet().led.is_some();
        let keeping_memory = is_led.then(|| tokio::spawn(Arc::clone(&shared).keep_memory()));
        shared.rounds(period, history, stopped).await;
        keeping.abort();
        if let Some(task) = keeping_memory {
            task.abort();
        }
        let ended = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LONGEST_END, ended).await;
    }
}

/// The decisions of earlier processes, if they are kept. Nothing else depends on them.
fn history_of(store: Option<&Store>, most: usize) -> History {
    let mut history = History::default();
    match store.map(|store| store.decisions(most)) {
        Some(Ok((decisions, last))) => history.remember(decisions, last),
        Some(Err(error)) => {
            tracing::error!(error = causes(&error), "Decisions of earlier processes cannot be read.");
        }
        None => {}
    }
    history
}

/// Raises the limit on descriptors: each agent that is asked has a connection.
fn check_descriptors() {
    let wanted = (MOST_INSTANCES + MOST_AGENTS + admin::MOST_CONNECTIONS) as u64 + OTHER_DESCRIPTORS;
    let limit = base::machine::raise_open_files(wanted);
    if limit < wanted {
        tracing::info!(limit, "The limit on open files bounds how many agents can be asked.");
    }
}

fn bind(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), ServiceError> {
    let listen = |source| ServiceError::Listen { address, source };
    let socket = std::net::TcpListener::bind(address).map_err(listen)?;
    socket.set_nonblocking(true).map_err(listen)?;
    let local = socket.local_addr().map_err(listen)?;
    Ok((socket, local))
}

fn from_std(socket: std::net::TcpListener, address: SocketAddr) -> Result<TcpListener, ServiceError> {
    TcpListener::from_std(socket).map_err(|source| ServiceError::Listen { address, source })
}

/// The fleet of the only orchestrator, which leads from the start, with its store if it keeps one.
fn alone(
    mut config: FleetConfig,
    state: Option<&Path>,
    led_node: Option<&str>,
    now: Nanos,
) -> Result<(Fleet, Option<Arc<Store>>), ServiceError> {
    let Some(path) = state else { return Ok((Fleet::new(config, 1, [], now)?, None)) };
    let store = Store::open(path)?;
    let (id, term) = store.begin_term(0)?;
    config.id = id;
    let most = led_node.and_then(|node| config.budget.of(node)).unwrap_or(0);
    let memory = store.led_memory(led_node, most)?;
    let records = store.records()?;
    tracing::info!(state = %path.display(), term, instances = records.len(), "The state was read.");
    let mut fleet = Fleet::new(config, term, records, now)?;
    fleet.led = led_node.map(|node| Led::new(node.to_owned(), most, memory, fleet.raises_from));
    Ok((fleet, Some(Arc::new(store))))
}

/// One of several orchestrators, with the way to have it begin a later term.
fn elected(
    etcd: &EtcdConfig,
    fleet: &FleetConfig,
    listens: SocketAddr,
) -> Result<(Election, mpsc::Sender<u64>), ServiceError> {
    let address = match &etcd.advertise {
        Some(address) => address.clone(),
        None if listens.ip().is_unspecified() => {
            let words =
                format!("--advertise: {listens} is all addresses; say at which of them agents register");
            return Err(ServiceError::Etcd(words));
        }
        None => listens.to_string(),
    };
    let client = Client::new(etcd).map_err(ServiceError::Etcd)?;
    let own = Contender { id: fleet.id, address, term: 0 };
    let (sender, later_terms) = mpsc::channel(1);
    let candidate = Candidate::new(Keys::below(&etcd.prefix), own, etcd.lease_secs);
    Ok((Election { candidate, client: Arc::new(client), fleet: fleet.clone(), later_terms }, sender))
}

struct Handler(Arc<Shared>);

#[tonic::async_trait]
impl Serve for Handler {
    async fn register(
        &self,
        request: tonic::Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let request = request.into_inner();
        if !self.0.leads() {
            let leader_address = self.0.leader().unwrap_or_default();
            let standing = Standing::NotLeader.into();
            let answer = RegisterResponse { standing, leader_address, ..RegisterResponse::default() };
            return Ok(Response::new(answer));
        }
        let (response, outgoing) = self.0.fleet().register(&request, self.0.now());
        let name = request.instance.as_ref().map_or("", |instance| &instance.name);
        tracing::info!(
            name,
            address = request.address,
            standing = response.standing().as_str_name(),
            "An agent registers."
        );
        let ticket = self.0.carry_out(outgoing);
        let is_accepted = response.standing() == Standing::Accepted;
        if let Some(ticket) = ticket.filter(|_| is_accepted)
            && !tokio::time::timeout(LONGEST_SAVE, ticket.saved()).await.unwrap_or(false)
        {
            let reason = "the orchestrator cannot save its state".to_owned();
            let standing = Standing::Wait.into();
            return Ok(Response::new(RegisterResponse { standing, reason, wait_millis: 1_000, ..response }));
        }
        Ok(Response::new(response))
    }

    async fn leave(&self, request: tonic::Request<LeaveRequest>) -> Result<Response<LeaveResponse>, Status> {
        let request = request.into_inner();
        tracing::info!(name = request.name, "An instance leaves.");
        let outgoing = self.0.fleet().leave(&request, self.0.now());
        self.0.carry_out(outgoing);
        Ok(Response::new(LeaveResponse {}))
    }
}

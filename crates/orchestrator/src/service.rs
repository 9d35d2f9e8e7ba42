//! A fleet with sockets, a clock, a thread and a store.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Clock;
use control::access::{Access, AccessError, causes};
use control::v1::agent_client::AgentClient;
use control::v1::orchestrator_server::{Orchestrator as Serve, OrchestratorServer};
use control::v1::{LeaveRequest, LeaveResponse, RegisterRequest, RegisterResponse};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Response, Status};

use crate::admin;
use crate::exchange::{Answer, Call, Failure, Key, MemberStatus, Outgoing, Record, Request};
use crate::fleet::{Fleet, FleetConfig, FleetError};
use crate::history::History;
use crate::store::{Store, StoreError};
use crate::{MILLI, Nanos};

/// The longest that an agent is waited for.
const LONGEST_CALL: Duration = Duration::from_secs(1);

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
    /// Decisions that are kept to be shown.
    pub history: usize,
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
    /// Certificates are refused.
    #[error("the certificates of the orchestrator are refused")]
    Tls(#[source] tonic::transport::Error),
    /// The operating system gives no thread.
    #[error("the orchestrator has no thread")]
    Thread(#[source] std::io::Error),
}

/// An orchestrator that runs until it is stopped.
#[derive(Debug)]
pub struct Service {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// The state of the orchestrator, which all tasks share.
pub(crate) struct Shared {
    pub(crate) fleet: Mutex<Fleet>,
    pub(crate) history: Mutex<History>,
    pub(crate) clock: Clock,
    pub(crate) access: Access,
    pub(crate) policy: String,
    store: Option<Store>,
    /// Records that could not be saved yet.
    unsaved: Mutex<Vec<(Key, Option<Record>)>>,
    channels: Mutex<HashMap<String, Channel>>,
    deadline: Duration,
    pub(crate) failures: Mutex<Failures>,
}

/// Counts of what failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures {
    pub(crate) silent: u64,
    pub(crate) refused: u64,
    pub(crate) unsaved: u64,
}

impl Service {
    /// Starts an orchestrator.
    ///
    /// # Errors
    /// If an address cannot be listened on or would be open to everybody, or the state cannot be
    /// read.
    pub fn start(config: ServiceConfig, access: Access, clock: Clock) -> Result<Self, ServiceError> {
        let ServiceConfig { listen, admin, period, mut fleet, state, history } = config;
        for address in [Some(listen), admin].into_iter().flatten() {
            access.check(address)?;
        }
        let store = state.as_deref().map(Store::open).transpose()?;
        let (mut term, mut records) = (1, Vec::new());
        if let Some(store) = &store {
            (fleet.id, term) = store.begin_term(0)?;
            records = store.records()?;
        }
        let policy = fleet.policy.clone();
        let deadline = (period * 3 / 4).min(LONGEST_CALL);
        let fleet = Fleet::new(fleet, term, records, clock.monotonic_nanos())?;
        let (socket, address) = bind(listen)?;
        let admin = admin.map(bind).transpose()?;
        let admin_address = admin.as_ref().map(|(_, address)| *address);
        let shared = Arc::new(Shared {
            fleet: Mutex::new(fleet),
            history: Mutex::default(),
            clock,
            access: access.clone(),
            policy,
            store,
            unsaved: Mutex::default(),
            channels: Mutex::default(),
            deadline,
            failures: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServiceError::Thread)?;
        let mut server = Server::builder().timeout(LONGEST_CALL);
        if let Some(tls) = access.server_tls() {
            server = server.tls_config(tls).map_err(ServiceError::Tls)?;
        }
        let handler = OrchestratorServer::with_interceptor(Handler(Arc::clone(&shared)), access.asked());
        let router = server.add_service(handler);
        let from_std = |socket, address| {
            let _entered = runtime.enter();
            TcpListener::from_std(socket).map_err(|source| ServiceError::Listen { address, source })
        };
        let incoming = TcpIncoming::from(from_std(socket, address)?).with_nodelay(Some(true));
        let admin = admin.map(|(socket, address)| from_std(socket, address)).transpose()?;
        let thread = base::thread::spawn("orchestrator", move || {
            runtime.block_on(async move {
                let mut until = stopped.clone();
                let served = router.serve_with_incoming_shutdown(incoming, async move {
                    let _ = until.wait_for(|stopped| *stopped).await;
                });
                let mut tasks = JoinSet::new();
                tasks.spawn(async {
                    if let Err(error) = served.await {
                        tracing::error!(error = causes(&error), "Agents cannot register any more.");
                    }
                });
                if let Some(listener) = admin {
                    tasks.spawn(admin::serve(listener, Arc::clone(&shared), stopped.clone()));
                }
                shared.rounds(period, history, stopped).await;
                let ended = async { while tasks.join_next().await.is_some() {} };
                let _ = tokio::time::timeout(LONGEST_CALL, ended).await;
            });
        });
        let thread = Some(thread.map_err(ServiceError::Thread)?);
        Ok(Self { address, admin: admin_address, stop, thread })
    }

    /// The address at which agents register.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the page and the figures.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
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

fn bind(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), ServiceError> {
    let listen = |source| ServiceError::Listen { address, source };
    let socket = std::net::TcpListener::bind(address).map_err(listen)?;
    socket.set_nonblocking(true).map_err(listen)?;
    let local = socket.local_addr().map_err(listen)?;
    Ok((socket, local))
}

struct Handler(Arc<Shared>);

#[tonic::async_trait]
impl Serve for Handler {
    async fn register(
        &self,
        request: tonic::Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let request = request.into_inner();
        let (response, outgoing) = self.0.fleet().register(&request, self.0.now());
        let name = request.instance.as_ref().map_or("", |instance| &instance.name);
        tracing::info!(
            name,
            address = request.address,
            standing = response.standing().as_str_name(),
            "An agent registers."
        );
        self.0.carry_out(outgoing);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        lock(&self.fleet)
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.clock.monotonic_nanos()
    }

    /// The instances as they stand.
    pub(crate) fn members(&self) -> Vec<MemberStatus> {
        self.fleet().members(self.now())
    }

    async fn rounds(self: &Arc<Self>, period: Duration, history: usize, mut stopped: watch::Receiver<bool>) {
        loop {
            let started = tokio::time::Instant::now();
            let outgoing = self.fleet().begin(self.now());
            let mut answers = JoinSet::new();
            for call in self.save(outgoing) {
                answers.spawn(Arc::clone(self).call(call));
            }
            let all = async { while answers.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(self.deadline, all).await;
            answers.abort_all();
            self.lead_again();
            let (decided, outgoing) = self.fleet().decide(self.now());
            self.carry_out(outgoing);
            if !decided.is_empty() {
                self.history().note(decided, &self.policy, self.clock.unix_secs(), history);
            }
            self.forget_channels();
            let stop = stopped.wait_for(|stopped| *stopped);
            if tokio::time::timeout_at(started + period, stop).await.is_ok() {
                break;
            }
        }
    }

    /// Leads in a later term if agents know one, and nobody leads them: there is one orchestrator,
    /// whose state was lost.
    fn lead_again(&self) {
        let mut fleet = self.fleet();
        let Some(other) = fleet.superseded() else { return };
        if other.lease_left > 0 {
            let lease_left_ms = other.lease_left / MILLI;
            tracing::warn!(
                term = other.term,
                lease_left_ms,
                "Another orchestrator leads agents: nothing is decided."
            );
            return;
        }
        let term = match self.store.as_ref().map(|store| store.begin_term(other.term + 1)).transpose() {
            Ok(begun) => begun.map_or(other.term + 1, |(_, term)| term),
            Err(error) => return tracing::error!(error = causes(&error), "The state cannot be saved."),
        };
        tracing::info!(term, "Agents have known a later term: this orchestrator leads in another one.");
        fleet.lead(term, self.now());
    }

    /// Saves records, and makes calls that wait for nothing.
    pub(crate) fn carry_out(self: &Arc<Self>, outgoing: Outgoing) {
        for call in self.save(outgoing) {
            tokio::spawn(Arc::clone(self).call(call));
        }
    }

    /// Saves records; returns the calls that may be made. If the disk fails, none may.
    fn save(&self, outgoing: Outgoing) -> Vec<Call> {
        let Some(store) = &self.store else { return outgoing.calls };
        let mut unsaved = lock(&self.unsaved);
        unsaved.extend(outgoing.save);
        match store.save(&unsaved) {
            Ok(()) => {
                unsaved.clear();
                outgoing.calls
            }
            Err(error) => {
                lock(&self.failures).unsaved += 1;
                tracing::error!(error = causes(&error), "The state cannot be saved, so no limit is changed.");
                drop(unsaved);
                let now = self.now();
                // As far as the fleet knows, they are lost; that is what it is made for. Nothing
                // follows, as it could not be saved either.
                for call in outgoing.calls.iter().filter(|call| matches!(call.request, Request::Stats(_))) {
                    let _ = self.fleet().note_answer(call, Err(Failure::Silent), now);
                }
                Vec::new()
            }
        }
    }

    /// Makes a call, and what its answer allows.
    async fn call(self: Arc<Self>, call: Call) {
        let answer = match tokio::time::timeout(self.deadline, self.ask(&call)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) if is_refused(&status) => Err(Failure::Refused),
            Ok(Err(status)) => {
                tracing::debug!(
                    address = call.address,
                    error = status.message(),
                    "An agent does not answer."
                );
                Err(Failure::Silent)
            }
            Err(_) => Err(Failure::Silent),
        };
        match answer {
            Ok(_) => {}
            Err(Failure::Silent) => lock(&self.failures).silent += 1,
            Err(Failure::Refused) => lock(&self.failures).refused += 1,
        }
        let now = self.now();
        let outgoing = self.fleet().note_answer(&call, answer.as_ref().map_err(|failure| *failure), now);
        self.carry_out(outgoing);
    }

    async fn ask(&self, call: &Call) -> Result<Answer, Status> {
        let channel = self.channel(&call.address).map_err(Status::unavailable)?;
        let mut client = AgentClient::with_interceptor(channel, self.access.shown());
        match &call.request {
            Request::Stats(request) => Ok(Answer::Stats(client.stats(request.clone()).await?.into_inner())),
            Request::Resize(request) => {
                Ok(Answer::Resize(client.resize(request.clone()).await?.into_inner()))
            }
        }
    }

    fn channel(&self, address: &str) -> Result<Channel, String> {
        if let Some(channel) = lock(&self.channels).get(address) {
            return Ok(channel.clone());
        }
        let uri = format!("{}://{address}", self.access.scheme());
        let endpoint = Endpoint::from_shared(uri).map_err(|error| causes(&error))?;
        let mut endpoint = endpoint.connect_timeout(LONGEST_CALL).timeout(LONGEST_CALL).tcp_nodelay(true);
        if let Some(tls) = self.access.client_tls() {
            endpoint = endpoint.tls_config(tls).map_err(|error| causes(&error))?;
        }
        let channel = endpoint.connect_lazy();
        lock(&self.channels).insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// Closes connections to agents that are not known any more.
    fn forget_channels(&self) {
        let members = self.members();
        let mut channels = lock(&self.channels);
        if channels.len() > members.len() {
            channels.retain(|address, _| members.iter().any(|member| member.address == *address));
        }
    }
}

/// Returns whether nobody listens at the address that was called.
fn is_refused(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        let io = cause.downcast_ref::<std::io::Error>();
        if io.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        source = cause.source();
    }
    false
}

//! An agent with a socket, a clock and a thread: serves orchestrators, and registers with one.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Clock;
use control::access::Access;
use control::patient::Bounded;
use control::v1::agent_server::{Agent as Serve, AgentServer};
use control::v1::orchestrator_client::OrchestratorClient;
use control::v1::register_response::Standing;
use control::v1::{
    LeaveRequest, RegisterRequest, RegisterResponse, ResizeRequest, ResizeResponse, StatsRequest,
    StatsResponse,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

use crate::Nanos;
use crate::agent::{Agent, AgentConfig, Next};
use crate::instance::{Instance, InstanceError};

/// The longest that an orchestrator is waited for.
const DEADLINE: Duration = Duration::from_secs(1);
/// The shortest and the longest time between two attempts to register.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(5);
/// Connections at the same time: of the orchestrator that leads, and of earlier ones.
const MOST_CONNECTIONS: usize = 64;

/// The addresses of an agent.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The address that is listened on; port 0 chooses one.
    pub listen: SocketAddr,
    /// `host:port` at which orchestrators reach the agent. `None`: the address that is listened on.
    pub advertise: Option<String>,
    /// `host:port` of each orchestrator, one of which leads.
    pub orchestrators: Vec<String>,
}

/// The reason why an agent cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The address cannot be listened on.
    #[error("the agent cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// Others may reach the agent, and need not show anything.
    #[error(transparent)]
    Access(#[from] control::access::AccessError),
    /// The address can be listened on, and names no host that others could reach.
    #[error("the agent listens on {0}, all addresses: say at which of them orchestrators reach it")]
    Advertise(SocketAddr),
    /// Certificates are refused.
    #[error("the certificates of the agent are refused")]
    Tls(#[source] tonic::transport::Error),
    /// The operating system gives no thread.
    #[error("the agent has no thread")]
    Thread(#[source] std::io::Error),
}

/// An agent that is served until it is stopped.
#[derive(Debug)]
pub struct Service {
    address: String,
    stop: watch::Sender<bool>,
    led: Arc<AtomicBool>,
    abandoned: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The agent, as its handlers and the registration share it.
struct Shared<I> {
    agent: Mutex<Agent<I>>,
    clock: Clock,
    led: Arc<AtomicBool>,
    /// True once an orchestrator has asked since the last registration.
    asked: AtomicBool,
}

struct Handler<I>(Arc<Shared<I>>);

impl Service {
    /// Starts to serve `instance` to orchestrators.
    ///
    /// # Errors
    /// If the address cannot be listened on, or would be open to everybody.
    pub fn start<I: Instance>(
        config: ServiceConfig,
        access: Access,
        instance: I,
        clock: Clock,
    ) -> Result<Self, ServiceError> {
        access.check(config.listen)?;
        if config.listen.ip().is_unspecified() && config.advertise.is_none() {
            return Err(ServiceError::Advertise(config.listen));
        }
        let listen = |source| ServiceError::Listen { address: config.listen, source };
        let listener = std::net::TcpListener::bind(config.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let local = listener.local_addr().map_err(listen)?;
        let address = config.advertise.clone().unwrap_or_else(|| local.to_string());
        let session = base::rng::entropy_seed() | 1;
        let agent = Agent::new(AgentConfig { address: address.clone(), session }, instance);
        let led = Arc::new(AtomicBool::new(false));
        let (agent, asked) = (Mutex::new(agent), AtomicBool::new(false));
        let shared = Arc::new(Shared { agent, clock, led: Arc::clone(&led), asked });
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServiceError::Thread)?;
        let server = {
            let _entered = runtime.enter();
            let mut server = Server::builder().timeout(DEADLINE);
            if let Some(tls) = access.server_tls() {
                server = server.tls_config(tls).map_err(ServiceError::Tls)?;
            }
            let listener = TcpListener::from_std(listener).map_err(listen)?;
            let incoming = Bounded::new(listener, MOST_CONNECTIONS).into_stream();
            let handler = AgentServer::with_interceptor(Handler(Arc::clone(&shared)), access.asked());
            let mut until = stopped.clone();
            server.add_service(handler).serve_with_incoming_shutdown(incoming, async move {
                let _ = until.wait_for(|stopped| *stopped).await;
            })
        };
        let abandoned = Arc::new(AtomicBool::new(false));
        let registration = Registration {
            shared,
            address: address.clone(),
            access,
            orchestrators: config.orchestrators,
            stopped,
            abandoned: Arc::clone(&abandoned),
        };
        let thread = base::thread::spawn("agent", move || {
            runtime.block_on(async {
                let served = tokio::spawn(async {
                    if let Err(error) = server.await {
                        tracing::error!(%error, "The agent cannot be reached any more.");
                    }
                });
                registration.run().await;
                // An orchestrator that hangs does not close its connection.
                let _ = tokio::time::timeout(DEADLINE, served).await;
            });
        });
        let thread = Some(thread.map_err(ServiceError::Thread)?);
        Ok(Self { address, stop, led, abandoned, thread })
    }

    /// The address at which orchestrators reach the agent.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether it runs: false if it has ended by an error of its own.
    pub fn is_up(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Returns whether an orchestrator leads the instance: there is a lease.
    pub fn is_led(&self) -> bool {
        self.led.load(Ordering::Relaxed)
    }

    /// Leaves the orchestrator, and stops.
    pub fn stop(mut self) {
        self.end();
    }

    /// Stops, and does not leave: the orchestrator counts what the instance has until it knows that
    /// the process is gone.
    pub fn abandon(mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
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

impl<I: Instance> Shared<I> {
    fn lock(&self) -> MutexGuard<'_, Agent<I>> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_led(&self, agent: &Agent<I>) {
        self.led.store(agent.is_led(), Ordering::Relaxed);
    }

    fn now(&self) -> Nanos {
        self.clock.monotonic_nanos()
    }

    /// Has the agent do something that may wait for another server, apart from the sockets.
    async fn apart<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Agent<I>, &Self) -> Result<T, InstanceError> + Send + 'static,
    ) -> Result<T, Status> {
        let shared = Arc::clone(self);
        let act = move || {
            let mut agent = shared.lock();
            let done = act(&mut agent, &shared);
            shared.note_led(&agent);
            done
        };
        let done = tokio::task::spawn_blocking(act).await;
        match done {
            Ok(answer) => answer.map_err(|error| Status::unavailable(control::access::causes(&error))),
            Err(error) => Err(Status::internal(error.to_string())),
        }
    }
}

#[tonic::async_trait]
impl<I: Instance> Serve for Handler<I> {
    async fn stats(&self, request: Request<StatsRequest>) -> Result<Response<StatsResponse>, Status> {
        let request = request.into_inner();
        // A lease counts from now on, however long the instance takes to answer.
        let came_at = self.0.now();
        let answer = self.0.apart(move |agent, _| agent.stats(&request, came_at)).await?;
        if answer.accepted {
            self.0.asked.store(true, Ordering::Relaxed);
        }
        Ok(Response::new(answer))
    }

    async fn resize(&self, request: Request<ResizeRequest>) -> Result<Response<ResizeResponse>, Status> {
        let request = request.into_inner();
        // The lease may have ended while this waited for its turn.
        let answer = self.0.apart(move |agent, shared| agent.resize(&request, shared.now())).await?;
        if !answer.failure.is_empty() {
            tracing::warn!(error = answer.failure, "The instance could not be resized.");
        }
        Ok(Response::new(answer))
    }
}

/// Keeps the agent registered.
struct Registration<I> {
    shared: Arc<Shared<I>>,
    /// The address at which orchestrators reach the agent.
    address: String,
    access: Access,
    orchestrators: Vec<String>,
    stopped: watch::Receiver<bool>,
    abandoned: Arc<AtomicBool>,
}

/// The log of who leads: each change once.
#[derive(Debug, Default)]
struct Told {
    /// True if an orchestrator asks.
    is_led: bool,
    term: u64,
    /// The reason why none does.
    error: String,
    /// The orchestrator that has accepted the instance, and has not asked yet.
    accepted_by: Option<String>,
}

impl Told {
    fn accepted(&mut self, orchestrator: &str) {
        self.accepted_by = Some(orchestrator.to_owned());
    }

    /// Notes that there is a lease. Returns false until the orchestrator has asked.
    fn led(&mut self, is_asked: bool, term: u64) -> bool {
        if is_asked && !self.is_led {
            tracing::info!(term, "An orchestrator leads the instance.");
            self.error.clear();
        } else if self.is_led && term != self.term {
            tracing::info!(term, "Another orchestrator leads the instance.");
        }
        if is_asked {
            (self.is_led, self.accepted_by) = (true, None);
        }
        self.term = term;
        self.is_led
    }

    /// Notes that there is no lease.
    fn not_led(&mut self, address: &str) {
        if std::mem::take(&mut self.is_led) {
            tracing::warn!(
                "No orchestrator asks for the instance any more; it keeps its memory until one leads it again."
            );
        }
        if let Some(orchestrator) = self.accepted_by.take() {
            let error = format!(
                "it has accepted the instance, and does not reach its agent at {address}; correct fleet.listen or \
                 fleet.advertise of a server, --listen or --advertise of an agent"
            );
            self.failed(&orchestrator, error);
        }
    }

    fn waits(&mut self, orchestrator: &str, reason: String) {
        if reason != self.error {
            tracing::info!(orchestrator, reason, "The instance waits to be led.");
            self.error = reason;
        }
    }

    fn failed(&mut self, orchestrator: &str, error: String) {
        if error != self.error {
            tracing::warn!(orchestrator, error, "The instance is not led.");
            self.error = error;
        }
    }
}

impl<I: Instance> Registration<I> {
    async fn run(mut self) {
        let mut pause = SHORTEST;
        let mut turn = 0;
        let mut failed: usize = 0;
        let mut told = Told::default();
        let mut leader: Option<String> = None;
        loop {
            let (next, term) = {
                let mut agent = self.shared.lock();
                let next = agent.next(self.shared.now());
                self.shared.note_led(&agent);
                (next, agent.term())
            };
            let wait = match next {
                Next::Wait(left) => {
                    let left = Duration::from_nanos(left) + SHORTEST / 10;
                    let is_told = told.led(self.shared.asked.load(Ordering::Relaxed), term);
                    if is_told { left } else { left.min(SHORTEST) }
                }
                Next::Register if self.orchestrators.is_empty() => LONGEST,
                Next::Register => {
                    told.not_led(&self.address);
                    self.shared.asked.store(false, Ordering::Relaxed);
                    let address = leader.take().unwrap_or_else(|| {
                        turn += 1;
                        self.orchestrators[turn % self.orchestrators.len()].clone()
                    });
                    let registered = tokio::time::timeout(3 * DEADLINE, self.register(&address)).await;
                    match registered.unwrap_or_else(|_| Err("it does not answer".to_owned())) {
                        Ok(Registered::Led) => {
                            told.accepted(&address);
                            (pause, failed) = (SHORTEST, 0);
                            SHORTEST
                        }
                        Ok(Registered::Elsewhere(address)) => {
                            leader = address;
                            SHORTEST
                        }
                        Ok(Registered::Later(wait, reason)) => {
                            told.waits(&address, reason);
                            wait.clamp(SHORTEST, LONGEST)
                        }
                        Err(error) => {
                            told.failed(&address, error);
                            failed += 1;
                            // One that is down does not keep the agent from asking the others.
                            if failed.is_multiple_of(self.orchestrators.len()) {
                                pause = (pause * 2).min(LONGEST);
                                pause
                            } else {
                                SHORTEST
                            }
                        }
                    }
                }
            };
            let stop = self.stopped.wait_for(|stopped| *stopped);
            if tokio::time::timeout(wait, stop).await.is_ok() {
                break;
            }
        }
        if !self.abandoned.load(Ordering::Relaxed) {
            self.leave().await;
        }
    }

    async fn register(&self, address: &str) -> Result<Registered, String> {
        let request = self.shared.apart(|agent, shared| agent.registration(shared.now())).await;
        let request = request.map_err(|status| status.message().to_owned())?;
        let response = call_register(&self.access, address, request).await?;
        let is_led = {
            let mut agent = self.shared.lock();
            let is_led = agent.registered(&response);
            self.shared.note_led(&agent);
            is_led
        };
        match response.standing() {
            Standing::Accepted if is_led => Ok(Registered::Led),
            Standing::Accepted => Err("the orchestrator is superseded by another".to_owned()),
            Standing::NotLeader => {
                let leader = Some(response.leader_address).filter(|leader| !leader.is_empty());
                Ok(Registered::Elsewhere(leader))
            }
            Standing::Wait => {
                Ok(Registered::Later(Duration::from_millis(response.wait_millis.into()), response.reason))
            }
            Standing::Refused | Standing::Unspecified => Err(response.reason),
        }
    }

    async fn leave(&self) {
        let (request, is_led) = {
            let agent = self.shared.lock();
            (agent.departure(), agent.is_led())
        };
        for address in self.orchestrators.iter().filter(|_| is_led) {
            let left = call_leave(&self.access, address, request.clone());
            let _ = tokio::time::timeout(2 * DEADLINE, left).await;
        }
    }
}

/// The outcome of an attempt to register.
enum Registered {
    Led,
    /// Another orchestrator leads, perhaps the one at this address.
    Elsewhere(Option<String>),
    /// The orchestrator asks to come again after this time, for this reason.
    Later(Duration, String),
}

/// A client of the orchestrator at `address`.
async fn connect(
    access: &Access,
    address: &str,
) -> Result<OrchestratorClient<InterceptedService<Channel, impl Interceptor + use<>>>, String> {
    let channel = access.endpoint(address, DEADLINE)?.connect().await;
    let channel = channel.map_err(|error| control::access::causes(&error))?;
    Ok(OrchestratorClient::with_interceptor(channel, access.shown()))
}

async fn call_register(
    access: &Access,
    address: &str,
    request: RegisterRequest,
) -> Result<RegisterResponse, String> {
    let mut client = connect(access, address).await?;
    let response = client.register(request).await.map_err(|status| refusal(&status))?;
    Ok(response.into_inner())
}

/// A refused call in words. Servers of another kind answer without the protocol's headers.
fn refusal(status: &Status) -> String {
    let message = status.message();
    if ["grpc-status header missing", "invalid compression flag"].iter().any(|odd| message.contains(odd)) {
        return format!(
            "there is another kind of server: agents register at the --listen address of `millpond orchestrate` (port \
             11220), not at its --admin address ({message})"
        );
    }
    message.to_owned()
}

async fn call_leave(access: &Access, address: &str, request: LeaveRequest) -> Result<(), String> {
    let mut client = connect(access, address).await?;
    client.leave(request).await.map_err(|status| status.message().to_owned())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_accepted_and_not_asked_names_its_address() {
        let mut told = Told::default();
        told.accepted("orchestrator:1");
        assert!(!told.led(false, 1), "a lease by registration alone");
        told.not_led("127.0.0.1:9");
        assert!(told.error.contains("does not reach its agent at 127.0.0.1:9"), "{}", told.error);
        // One that is asked is led; it is lost, and found again without a registration.
        told.accepted("orchestrator:1");
        assert!(told.led(true, 1) && told.error.is_empty());
        told.not_led("127.0.0.1:9");
        assert!(!told.is_led && told.error.is_empty(), "it was reached: {}", told.error);
        assert!(told.led(true, 2) && told.led(true, 3));
        assert_eq!(told.term, 3);
    }
}

//! The state of a running orchestrator: the rounds, the calls to agents, and what is saved.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Clock;
use control::access::{Access, causes};
use control::v1::agent_client::AgentClient;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::transport::Channel;

use crate::exchange::{Answer, Call, Failure, Key, MemberStatus, Outgoing, Record, Request};
use crate::fleet::{Fleet, FleetError, Presence};
use crate::history::History;
use crate::journal::Batch;
use crate::keeper::{Keeper, Ticket};
use crate::store::{Store, StoreError};
use crate::{MILLI, Nanos};

/// The longest that an agent is waited for.
pub(crate) const LONGEST_CALL: Duration = Duration::from_secs(1);

/// The time between two attempts to save outcomes of decisions; new ones are saved at once.
const KEEP_EVERY: Duration = Duration::from_secs(30);
/// The longest that the last attempt takes, as the orchestrator ends.
const LONGEST_KEEP: Duration = Duration::from_secs(2);
/// The longest that a registration waits for its record to be saved: less than an agent waits.
pub(crate) const LONGEST_SAVE: Duration = Duration::from_millis(800);

/// The state of the orchestrator, which all tasks share.
pub(crate) struct Shared {
    pub(crate) fleet: Mutex<Fleet>,
    pub(crate) history: Mutex<History>,
    pub(crate) clock: Clock,
    pub(crate) access: Access,
    pub(crate) policy: String,
    /// The embedded store, if there is one.
    pub(crate) store: Option<Arc<Store>>,
    /// Saves the records of the present leadership; `None`: none are kept.
    pub(crate) keeper: Mutex<Option<Arc<Keeper>>>,
    /// The time until which this orchestrator leads; 0: another one does, or nobody.
    pub(crate) leads_until: AtomicU64,
    /// The address at which agents register with the leader, if there are several orchestrators
    /// and it is known.
    pub(crate) leader: Mutex<Option<KnownLeader>>,
    /// Has an elected leader begin a later term.
    pub(crate) later_terms: Option<mpsc::Sender<u64>>,
    pub(crate) channels: Mutex<HashMap<String, Channel>>,
    pub(crate) deadline: Duration,
    pub(crate) failures: Mutex<Failures>,
    /// The processor time of rounds, without that of messages.
    pub(crate) compute_nanos: AtomicU64,
    /// Says that the memory of a node was set that is led, and is to be saved.
    pub(crate) memory_set: Notify,
    /// Says, with [`Self::fleet`], that an attempt to save it has ended.
    pub(crate) memory_saved: Condvar,
}

/// The orchestrator that leads, as etcd said last.
#[derive(Clone, Debug)]
pub(crate) struct KnownLeader {
    pub(crate) address: String,
    /// True if it is this one.
    pub(crate) is_own: bool,
}

/// Counts of what failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures {
    pub(crate) silent: u64,
    pub(crate) refused: u64,
    pub(crate) unsaved: u64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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

    /// Returns whether this orchestrator leads at this moment.
    pub(crate) fn leads(&self) -> bool {
        self.now() < self.leads_until.load(Ordering::Relaxed)
    }

    /// The address at which agents register with the leader. `None`: nobody leads, as far as is
    /// known, or this orchestrator is the only one.
    pub(crate) fn leader(&self) -> Option<String> {
        let known = lock(&self.leader).clone();
        // Without an answer of etcd for a lease, this orchestrator does not know that it leads.
        known.filter(|leader| !leader.is_own || self.leads()).map(|leader| leader.address)
    }

    /// Leads this fleet from now on.
    pub(crate) fn begin_leadership(&self, fleet: Fleet, keeper: Arc<Keeper>) {
        *self.fleet() = fleet;
        *lock(&self.keeper) = Some(keeper);
    }

    /// Leads no more. What waits to be saved is not saved, and what depends on it is not asked.
    pub(crate) fn end_leadership(&self, follower: Result<Fleet, FleetError>) {
        self.leads_until.store(0, Ordering::Relaxed);
        // It fails only if there is no such policy, and then none has led.
        if let Ok(follower) = follower {
            *self.fleet() = follower;
        }
        *lock(&self.keeper) = Some(Keeper::new());
        self.history().latest.clear();
    }

    /// The instances as they stand.
    pub(crate) fn members(&self) -> Vec<MemberStatus> {
        self.fleet().members(self.now())
    }

    /// Has the fleet work, and notes how long that took.
    fn compute<T>(&self, work: impl FnOnce(&mut Fleet, Nanos) -> T) -> T {
        let began = base::thread::processor_time();
        let done = work(&mut self.fleet(), self.now());
        let took = base::thread::processor_time().saturating_sub(began);
        self.compute_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        done
    }

    /// Saves the decisions that are new, or whose outcome is, if there is a store. What is decided
    /// next does not depend on it, so a failure is logged, and the next attempt saves all.
    async fn keep_decisions(self: Arc<Self>) {
        let Some(store) = self.store.clone() else { return };
        let (told, oldest) = self.history().take_unsaved();
        if told.is_empty() {
            return;
        }
        let kept = told.clone();
        if let Err(error) = apart(move || store.save_decisions(&kept, oldest)).await {
            tracing::warn!(error, "Decisions cannot be saved; after a restart they are not shown.");
            self.history().note_unsaved(&told);
        }
    }

    /// Makes rounds until it is stopped.
    pub(crate) async fn rounds(
        self: &Arc<Self>,
        period: Duration,
        history: usize,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut keeping = JoinSet::new();
        let mut kept_at = tokio::time::Instant::now();
        loop {
            let started = tokio::time::Instant::now();
            while keeping.try_join_next().is_some() {}
            let is_due = started >= kept_at + KEEP_EVERY || self.history().has_new();
            if keeping.is_empty() && is_due {
                kept_at = started;
                keeping.spawn(Arc::clone(self).keep_decisions());
            }
            if self.leads() {
                self.round(history).await;
            }
            self.forget_channels();
            let stop = stopped.wait_for(|stopped| *stopped);
            if tokio::time::timeout_at(started + period, stop).await.is_ok() {
                break;
            }
        }
        let kept = async {
            while keeping.join_next().await.is_some() {}
            Arc::clone(self).keep_decisions().await;
        };
        let _ = tokio::time::timeout(LONGEST_KEEP, kept).await;
    }

    async fn round(self: &Arc<Self>, history: usize) {
        let (leader, outgoing) = self.compute(|fleet, now| (fleet.leader(), fleet.begin(now)));
        let mut answers = JoinSet::new();
        // These calls ask only, and so wait for nothing.
        drop(self.keep(outgoing.save));
        for call in outgoing.calls {
            answers.spawn(Arc::clone(self).call(call));
        }
        let all = async { while answers.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.deadline, all).await;
        answers.abort_all();
        self.lead_again().await;
        // The answers were of another leadership, or this one has ended.
        if self.fleet().leader() != leader || !self.leads() {
            return;
        }
        let (decided, outgoing) = self.compute(Fleet::decide);
        self.log_presence();
        self.carry_out(outgoing);
        if !decided.is_empty() {
            self.history().note(decided, &self.policy, self.clock.unix_secs(), history);
        }
    }

    /// Logs the instances that have begun or ceased to answer, or have ended.
    fn log_presence(&self) {
        let changes = self.fleet().presence_changes(self.now());
        for (name, node, presence) in changes {
            match presence {
                Presence::Answers => tracing::info!(name, node, "An instance answers."),
                Presence::Silent => {
                    tracing::warn!(
                        name,
                        node,
                        "An instance does not answer; what it can have is kept for it."
                    );
                }
                Presence::Ended => tracing::info!(name, node, "An instance has ended; what it had is free."),
            }
        }
    }

    /// Leads in a later term if agents know one, and nobody leads them: there is one orchestrator,
    /// whose state was lost.
    async fn lead_again(&self) {
        let Some(other) = self.fleet().superseded() else { return };
        let lease_left_ms = other.until.saturating_sub(self.now()) / MILLI;
        if lease_left_ms > 0 {
            tracing::warn!(
                term = other.term,
                lease_left_ms,
                "Another orchestrator leads agents: nothing is decided."
            );
            return;
        }
        let next = other.term.saturating_add(1);
        if let Some(elected) = &self.later_terms {
            // A full channel: it is told already.
            let _ = elected.try_send(next);
            return;
        }
        let term = match &self.store {
            None => next,
            Some(store) => {
                let store = Arc::clone(store);
                match apart(move || store.begin_term(next)).await {
                    Ok((_, term)) => term,
                    Err(error) => return tracing::error!(error, "The state cannot be saved."),
                }
            }
        };
        tracing::info!(term, "Agents have known a later term: this orchestrator leads in another one.");
        self.fleet().lead(term, self.now());
    }

    /// Saves the records in the embedded store, if there is one, for as long as the caller polls
    /// this.
    pub(crate) async fn keep_alone(self: Arc<Self>) {
        let keeper = lock(&self.keeper).clone();
        let Some((store, keeper)) = self.store.clone().zip(keeper) else { return };
        let shared = &self;
        let save = |batch: Batch| {
            let store = Arc::clone(&store);
            async move {
                let saved = apart(move || store.save(&batch.records)).await;
                saved.inspect_err(|error| shared.note_unsaved(error)).is_ok()
            }
        };
        keeper.run(save).await;
    }

    pub(crate) fn note_unsaved(&self, error: &str) {
        lock(&self.failures).unsaved += 1;
        tracing::error!(error, "The state cannot be saved, so no limit is changed.");
    }

    /// Begins to save the records of all instances, whatever was saved before.
    pub(crate) fn save_again(&self) {
        // In the order in which the fleet returns records: another one comes after these.
        let mut fleet = self.fleet();
        let outgoing = fleet.save_again();
        drop(self.keep(outgoing.save));
        drop(fleet);
    }

    /// Begins to save records. `None`: none are kept.
    fn keep(&self, records: Vec<(Key, Option<Record>)>) -> Option<Ticket> {
        lock(&self.keeper).as_ref().map(|keeper| keeper.add(records))
    }

    /// Begins to save records, and to make calls: those that ask only at once, and those that set
    /// limits once all records are saved. If the store fails, these are lost as far as the fleet
    /// knows.
    pub(crate) fn carry_out(self: &Arc<Self>, outgoing: Outgoing) -> Option<Ticket> {
        let ticket = self.keep(outgoing.save);
        let is_question = |call: &Call| matches!(call.request, Request::Stats(_));
        let (questions, orders): (Vec<_>, Vec<_>) = outgoing.calls.into_iter().partition(is_question);
        for call in questions {
            tokio::spawn(Arc::clone(self).call(call));
        }
        if orders.is_empty() {
            return ticket;
        }
        let Some(ticket) = ticket else {
            for call in orders {
                tokio::spawn(Arc::clone(self).call(call));
            }
            return None;
        };
        let (shared, saved) = (Arc::clone(self), ticket.clone());
        tokio::spawn(async move {
            if saved.saved().await {
                for call in orders {
                    tokio::spawn(Arc::clone(&shared).call(call));
                }
            }
        });
        Some(ticket)
    }

    /// Makes a call, and what its answer allows.
    async fn call(self: Arc<Self>, call: Call) {
        if !self.leads() {
            return;
        }
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
        let answer = answer.as_ref().map_err(|failure| *failure);
        let outgoing = self.compute(|fleet, now| fleet.note_answer(&call, answer, now));
        self.carry_out(outgoing);
    }

    async fn ask(&self, call: &Call) -> Result<Answer, Status> {
        let channel = self.channel(&call.address).map_err(Status::unavailable)?;
        let client = AgentClient::with_interceptor(channel, self.access.shown());
        let mut client = client.max_decoding_message_size(control::LONGEST_ANSWER);
        match &call.request {
            Request::Stats(request) => Ok(Answer::Stats(client.stats(*request).await?.into_inner())),
            Request::Resize(request) => {
                Ok(Answer::Resize(client.resize(request.clone()).await?.into_inner()))
            }
        }
    }

    fn channel(&self, address: &str) -> Result<Channel, String> {
        if let Some(channel) = lock(&self.channels).get(address) {
            return Ok(channel.clone());
        }
        let channel = self.access.endpoint(address, LONGEST_CALL)?.connect_lazy();
        lock(&self.channels).insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// Closes connections to agents that are not known any more.
    fn forget_channels(&self) {
        let mut channels = lock(&self.channels);
        let fleet = self.fleet();
        if channels.len() > fleet.len() {
            let known: HashSet<&str> = fleet.addresses().collect();
            channels.retain(|address, _| known.contains(address.as_str()));
        }
    }
}

/// Has the disk work apart from the sockets.
///
/// # Errors
/// In words.
pub(crate) async fn apart<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(act).await {
        Ok(done) => done.map_err(|error| causes(&error)),
        Err(error) => Err(error.to_string()),
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

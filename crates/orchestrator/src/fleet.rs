//! The instances, their leases, and what they can have.

use std::collections::BTreeMap;

use allocate::cost::Objective;
use allocate::guard::Rails;
use allocate::registry;
use control::amounts;
use control::v1::register_response::Standing;
use control::v1::{
    Leader, LeaveRequest, RegisterRequest, RegisterResponse, ResizeRequest, ResizeResponse, StatsRequest,
    StatsResponse,
};

use crate::decide::{Decided, Decider};
use crate::exchange::{Answer, Call, Failure, Key, MemberStatus, Outgoing, Record, Request, Superseded};
use crate::hold::Hold;
use crate::led::Led;
use crate::member::{Member, none_is_any};
use crate::members::Members;
use crate::{MILLI, Nanos};

/// A lease counts here for one part in this many longer, as clocks differ.
const DRIFT_PART: Nanos = 8;

/// The memory of nodes, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Of each node that is not named; `None`: instances on such nodes are refused.
    pub each: Option<u64>,
    /// By name.
    pub nodes: BTreeMap<String, u64>,
    /// Memory of each node that is not given to instances: for those that come with memory of
    /// their own.
    pub spare: u64,
}

impl Budget {
    pub(crate) fn of(&self, node: &str) -> Option<u64> {
        self.nodes.get(node).copied().or(self.each)
    }
}

/// The settings of a [`Fleet`].
#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// The orchestrator: another number for each.
    pub id: u64,
    /// The memory of nodes.
    pub budget: Budget,
    /// How long an instance is counted on that does not answer, in nanoseconds.
    pub lease: Nanos,
    /// The policy, by its name in [`allocate::registry`].
    pub policy: String,
    /// The aim of policies that save misses.
    pub objective: Objective,
    /// Bounds on decisions; nodes and instances are the fleet's own.
    pub rails: Rails,
}

/// The reason why a fleet cannot be led as configured.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// There is no policy of this name.
    #[error("there is no policy {0:?}; one of {names}", names = registry::policies().iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "))]
    Policy(String),
}

/// The presence of an instance, as the log tells its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Answers,
    /// Its lease is over.
    Silent,
    /// It has left or ended, or was forgotten.
    Ended,
}

/// All instances of an orchestrator.
pub struct Fleet {
    pub(crate) config: FleetConfig,
    entry: &'static registry::Entry,
    /// By node.
    deciders: BTreeMap<String, Decider>,
    pub(crate) leader: Leader,
    pub(crate) sequence: u64,
    pub(crate) members: Members,
    /// Limits are raised from then on: those who had a lease of an earlier orchestrator have come
    /// by then.
    pub(crate) raises_from: Nanos,
    /// The node whose memory the orchestrator of a fleet sets, if there is one.
    pub(crate) led: Option<Led>,
    superseded: Option<Superseded>,
    unsaved: Vec<(Key, Option<Record>)>,
    /// Instances that were forgotten since [`Self::presence_changes`] was asked last, and their
    /// nodes.
    ended: Vec<(String, String)>,
    #[cfg(test)]
    pub(crate) planted: Planted,
}

/// Faults that tests plant, which the invariants must show.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Planted {
    #[default]
    None,
    /// Receivers grow before donors have shrunk.
    GrowFirst,
    /// Memory of an instance is free as soon as its lease is over.
    ForgetSilent,
    /// A request that was not answered is taken to be lost.
    ForgetSent,
    /// A request is made before what it allows is saved.
    SaveLate,
    /// Records are saved whoever leads.
    SaveUnguarded,
    /// Of two transactions of a leader, the earlier may be carried out later.
    SaveUnordered,
    /// The lease of the election is counted from its answer, and longer than etcd counts it.
    LeaseLate,
    /// A leader takes the last term, and not the next.
    RepeatTerm,
}

impl Fleet {
    /// A fleet that is led in `term` from now on; `records` are what was saved.
    ///
    /// # Errors
    /// If there is no such policy.
    pub fn new(
        config: FleetConfig,
        term: u64,
        records: impl IntoIterator<Item = Record>,
        now: Nanos,
    ) -> Result<Self, FleetError> {
        let entry =
            registry::entry(&config.policy).ok_or_else(|| FleetError::Policy(config.policy.clone()))?;
        let lease = config.lease + config.lease / DRIFT_PART;
        let members = records.into_iter().map(|record| {
            let hold = Hold::remembered(record.held_bytes);
            let member = Member {
                session: record.session,
                lease_until: now + lease,
                obeys_until: now + lease,
                saved: Some(record.clone()),
                ..Member::new(record.instance, record.address, hold)
            };
            (Key::of(&member.instance), member)
        });
        Ok(Self {
            leader: Leader { term, id: config.id },
            entry,
            deciders: BTreeMap::new(),
            sequence: 0,
            members: members.collect(),
            raises_from: now + lease,
            led: None,
            superseded: None,
            unsaved: Vec::new(),
            ended: Vec::new(),
            config,
            #[cfg(test)]
            planted: Planted::None,
        })
    }

    /// The fleet of an orchestrator that does not lead: without instances, in no term.
    ///
    /// # Errors
    /// If there is no such policy.
    pub(crate) fn follower(config: &FleetConfig) -> Result<Self, FleetError> {
        Self::new(config.clone(), 0, [], 0)
    }

    /// The present leadership.
    pub fn leader(&self) -> Leader {
        self.leader
    }

    /// The latest leader after this one, as an agent knows.
    pub fn superseded(&self) -> Option<Superseded> {
        self.superseded
    }

    /// The instances.
    pub fn members(&self, now: Nanos) -> Vec<MemberStatus> {
        let status = |member: &Member| MemberStatus {
            instance: member.instance.clone(),
            address: member.address.clone(),
            is_leased: member.is_leased(now),
            limit_bytes: member.hold.limit(),
            used_bytes: member.hold.used(),
            held_bytes: member.hold.held(),
            target_bytes: member.target,
        };
        self.members.values().map(status).collect()
    }

    /// The most memory that the instances of a node can have together, in bytes.
    pub fn held(&self, node: &str) -> u64 {
        self.members.on(node).map(|(_, member)| member.hold.held()).fold(0, u64::saturating_add)
    }

    /// By node, the memory that its instances may have together, and the most that they can have,
    /// in bytes.
    pub fn nodes(&self) -> BTreeMap<&str, (u64, u64)> {
        let held = |node| (self.memory(node), self.held(node));
        self.members.nodes().map(|(node, _)| (node, held(node))).collect()
    }

    /// Number of instances.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The addresses of their agents.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.members.values().map(|member| member.address.as_str())
    }

    /// An agent registers.
    pub fn register(&mut self, request: &RegisterRequest, now: Nanos) -> (RegisterResponse, Outgoing) {
        let response = match self.registered(request, now) {
            Ok(()) => RegisterResponse {
                standing: Standing::Accepted.into(),
                leader: Some(self.leader),
                lease_millis: self.lease_millis(),
                ..RegisterResponse::default()
            },
            Err(response) => *response,
        };
        let key = Key::of(&request.instance.clone().unwrap_or_default());
        (response, self.outgoing(Vec::new(), &[&key]))
    }

    fn registered(&mut self, request: &RegisterRequest, now: Nanos) -> Result<(), Box<RegisterResponse>> {
        let refused = |reason: String| {
            let standing = Standing::Refused.into();
            Box::new(RegisterResponse { standing, reason, ..RegisterResponse::default() })
        };
        let instance = self.checked(request).map_err(refused)?;
        if request.seen_term > self.leader.term {
            self.note_superseded(Superseded { term: request.seen_term, until: now });
            return Err(Box::new(RegisterResponse {
                standing: Standing::NotLeader.into(),
                ..RegisterResponse::default()
            }));
        }
        let key = Key::of(&instance);
        let holding = request.holding.clone().unwrap_or_default();
        if let Some(member) = self.members.get(&key)
            && member.session != request.session
            && now < member.obeys_until.max(member.lease_until)
        {
            let left = (member.obeys_until.max(member.lease_until) - now) / MILLI + 1;
            return Err(Box::new(RegisterResponse {
                standing: Standing::Wait.into(),
                wait_millis: u32::try_from(left).unwrap_or(u32::MAX),
                reason: "another agent has a lease under this name; it is over soon if that is an earlier one of the \
                         same instance, else give one of them another name"
                    .to_owned(),
                ..RegisterResponse::default()
            }));
        }
        self.warn_of_twin(&instance, request.session, now);
        let lease_until = now + self.lease();
        let mut member = self
            .members
            .remove(&key)
            .unwrap_or_else(|| Member::new(instance.clone(), request.address.clone(), Hold::of(&holding)));
        if member.session == request.session {
            member.hold.witness(&holding);
        } else {
            member.begin_session(request.session, &holding);
        }
        member.instance = instance;
        member.address.clone_from(&request.address);
        // An instance that asks for more than there is takes nothing from others by that.
        member.least =
            amounts::memory(&request.least).min(self.config.budget.of(&member.instance.node).unwrap_or(0));
        member.most = none_is_any(&request.most);
        (member.lease_until, member.obeys_until) = (lease_until, lease_until);
        (member.came_at, member.is_refused) = (now, false);
        self.members.insert(key, member);
        Ok(())
    }

    /// An instance ends in order. One that goes on without its agent keeps what it can have.
    pub fn leave(&mut self, request: &LeaveRequest, now: Nanos) -> Outgoing {
        let key = Key { name: request.name.as_str().into(), incarnation: request.incarnation };
        if let Some(member) = self.members.get_mut(&key).filter(|member| member.session == request.session) {
            if member.instance.outlives_agent {
                member.lease_until = now;
            } else {
                self.forget(&key);
            }
        }
        self.outgoing(Vec::new(), &[])
    }

    /// A person says that an instance has ended: all incarnations of the name on a node that do
    /// not answer are forgotten. Returns how many.
    pub fn forget_instance(&mut self, node: &str, name: &str, now: Nanos) -> (usize, Outgoing) {
        let here = self.members.on(node);
        let named = here.filter(|(key, member)| &*key.name == name && now >= member.lease_until);
        let named: Vec<Key> = named.map(|(key, _)| key.clone()).collect();
        named.iter().for_each(|key| self.forget(key));
        (named.len(), self.outgoing(Vec::new(), &[]))
    }

    /// Begins a round: asks all agents. Those whose lease is over are asked without a new one: they
    /// are to register again.
    pub fn begin(&mut self, now: Nanos) -> Outgoing {
        self.forget_gone(now);
        let (leader, lease_millis, lease) = (self.leader, self.lease_millis(), self.lease());
        let calls = self.members.iter_mut().map(|(key, member)| {
            (member.is_present, member.asked_limit) = (false, None);
            let lease_millis = if now < member.lease_until { lease_millis } else { 0 };
            if lease_millis > 0 {
                member.obeys_until = now + lease;
            }
            let session = member.session;
            let request = StatsRequest { leader: Some(leader), session, lease_millis, known: member.known };
            member.call(key, Request::Stats(request), now)
        });
        let calls = calls.collect();
        self.outgoing_of_all(calls)
    }

    /// An agent answered a call, or did not; returns what can be done now.
    pub fn note_answer(&mut self, call: &Call, answer: Result<&Answer, Failure>, now: Nanos) -> Outgoing {
        let leader = match &call.request {
            Request::Stats(request) => request.leader,
            Request::Resize(request) => request.leader,
        };
        if leader != Some(self.leader) {
            // Of an earlier term: another orchestrator may have led since then.
            return Outgoing::default();
        }
        match (&call.request, answer) {
            (Request::Stats(request), Ok(Answer::Stats(response))) => {
                self.told(call, request, response, now);
                self.outgoing(Vec::new(), &[&call.key])
            }
            (Request::Resize(request), Ok(Answer::Resize(response))) => {
                self.resized(call, request, response, now);
                self.go_on(call, now)
            }
            (_, Ok(_)) => Outgoing::default(),
            (request, Err(failure)) => {
                let is_resize = matches!(request, Request::Resize(_));
                if let Some(member) = self.asked(call) {
                    member.is_refused = failure == Failure::Refused;
                }
                #[cfg(test)]
                if is_resize
                    && self.planted == Planted::ForgetSent
                    && let Some(member) = self.asked(call)
                {
                    member.hold = Hold::of(&member.hold.as_said());
                }
                if is_resize { self.go_on(call, now) } else { Outgoing::default() }
            }
        }
    }

    /// The instance that was asked, if the same agent speaks for it still.
    fn asked(&mut self, call: &Call) -> Option<&mut Member> {
        let session = match &call.request {
            Request::Stats(request) => request.session,
            Request::Resize(request) => request.session,
        };
        self.members.get_mut(&call.key).filter(|member| member.session == session)
    }

    fn told(&mut self, call: &Call, request: &StatsRequest, response: &StatsResponse, now: Nanos) {
        let lease = self.lease();
        let Some(member) = self.asked(call) else { return };
        // Somebody else is where the agent was.
        member.is_refused = response.session != request.session;
        if member.is_refused {
            return;
        }
        if !response.accepted {
            return self.note_leader(response.leader, response.lease_left_millis, now);
        }
        if request.lease_millis > 0 {
            (member.lease_until, member.is_present) = (now + lease, true);
        }
        member.hold.confirm(&response.holding.clone().unwrap_or_default(), term(request.leader));
        member.report(response, now);
        if member.instance.is_alone {
            self.forget_others(call, now);
        }
    }

    /// Names of instances, their nodes, and their presence: those of which that has changed since
    /// it was asked last.
    pub(crate) fn presence_changes(&mut self, now: Nanos) -> Vec<(String, String, Presence)> {
        let ended = std::mem::take(&mut self.ended).into_iter();
        let mut changes: Vec<_> = ended.map(|(name, node)| (name, node, Presence::Ended)).collect();
        for (key, member) in self.members.iter_mut() {
            let is_leased = member.is_leased(now);
            if std::mem::replace(&mut member.is_told_leased, is_leased) != is_leased {
                let presence = if is_leased { Presence::Answers } else { Presence::Silent };
                changes.push((key.name.to_string(), member.instance.node.clone(), presence));
            }
        }
        changes
    }

    /// Forgets other incarnations of an instance that was alone at its place after the call was
    /// made: those that came before that, and do not answer any more.
    fn forget_others(&mut self, call: &Call, now: Nanos) {
        let Some(node) = self.members.get(&call.key).map(|member| member.instance.node.clone()) else {
            return;
        };
        let others = self.members.on(&node).filter(|(key, member)| {
            key.name == call.key.name
                && **key != call.key
                && member.came_at < call.made_at
                && now >= member.lease_until
        });
        let others: Vec<Key> = others.map(|(key, _)| key.clone()).collect();
        others.iter().for_each(|key| self.forget(key));
    }

    fn resized(&mut self, call: &Call, request: &ResizeRequest, response: &ResizeResponse, now: Nanos) {
        let Some(member) = self.asked(call) else { return };
        member.is_refused = response.session != request.session;
        if member.is_refused {
            return;
        }
        if response.accepted {
            member.hold.confirm(&response.holding.clone().unwrap_or_default(), term(request.leader));
        } else {
            self.note_leader(response.leader, response.lease_left_millis, now);
        }
    }

    fn go_on(&mut self, call: &Call, now: Nanos) -> Outgoing {
        let node = self.members.get(&call.key).map(|member| member.instance.node.clone());
        let Some(node) = node.filter(|_| self.superseded.is_none()) else { return Outgoing::default() };
        let calls = self.advance(&node, now);
        self.outgoing(calls, &[])
    }

    /// Decides about all nodes, from the answers of this round.
    pub fn decide(&mut self, now: Nanos) -> (Vec<Decided>, Outgoing) {
        if self.superseded.is_some() {
            return (Vec::new(), Outgoing::default());
        }
        let nodes: Vec<String> = self.members.nodes().map(|(node, _)| node.to_owned()).collect();
        self.deciders.retain(|node, _| nodes.binary_search(node).is_ok());
        let mut decided = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let absent = self.members.on(node).filter(|(_, member)| !member.is_present);
            let absent = absent.map(|(_, member)| member.hold.held()).fold(0, u64::saturating_add);
            let memory = self.memory(node).saturating_sub(absent);
            let FleetConfig { rails, objective, .. } = &self.config;
            let new = || Decider::new(self.entry, rails, *objective);
            let decider = self.deciders.entry(node.clone()).or_insert_with(new);
            let Some(members) = self.members.on_mut(node) else { continue };
            let decide = || decider.decide(node, members, memory, now);
            // Figures come from others: what they make of one node is not to stop the rest.
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(decide)) {
                Ok(made) => decided.push(made),
                Err(_) => {
                    tracing::error!(node, "No decision could be made; this is a bug.");
                    self.deciders.remove(node);
                }
            }
        }
        let mut calls = Vec::new();
        for node in &nodes {
            calls.extend(self.repeat(node, now));
            calls.extend(self.advance(node, now));
            calls.extend(self.share_out(node, now));
        }
        (decided, self.outgoing(calls, &[]))
    }

    /// Leads in a later term from now on: after the orchestrator was elected again, or because it
    /// is alone and agents know a later term.
    pub fn lead(&mut self, term: u64, now: Nanos) {
        self.leader.term = term.max(self.leader.term);
        self.superseded = self.superseded.filter(|other| other.term >= self.leader.term);
        self.raises_from = now + self.lease();
    }

    fn lease(&self) -> Nanos {
        self.config.lease + self.config.lease / DRIFT_PART
    }

    fn lease_millis(&self) -> u32 {
        u32::try_from(self.config.lease / MILLI).unwrap_or(u32::MAX)
    }

    fn note_leader(&mut self, leader: Option<Leader>, lease_left_millis: u32, now: Nanos) {
        let other = leader.unwrap_or_default();
        let is_later = control::is_later_term(other.term, self.leader.term);
        if is_later || other.term == self.leader.term && other.id != self.leader.id {
            let until = now + (Nanos::from(lease_left_millis) * MILLI).min(self.lease());
            self.note_superseded(Superseded { term: other.term, until });
        }
    }

    fn note_superseded(&mut self, other: Superseded) {
        if self.superseded.is_none_or(|before| before.term <= other.term) {
            self.superseded = Some(other);
        }
    }

    /// Forgets instances whose process is known to be gone.
    fn forget_gone(&mut self, now: Nanos) {
        let is_gone = |member: &Member| {
            #[cfg(test)]
            if self.planted == Planted::ForgetSilent {
                return now >= member.lease_until;
            }
            member.is_refused && !member.instance.outlives_agent && now >= member.lease_until
        };
        let gone: Vec<Key> =
            self.members.iter().filter(|(_, member)| is_gone(member)).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.forget(key));
    }

    fn forget(&mut self, key: &Key) {
        if let Some(member) = self.members.remove(key) {
            self.ended.push((key.name.to_string(), member.instance.node));
            self.unsaved.push((key.clone(), None));
        }
    }

    /// Adds the records that must be saved before `calls` are made: of the instances that are
    /// called, and of those that are `touched`. What an instance can have no more is saved in the
    /// next round.
    fn outgoing(&mut self, calls: Vec<Call>, touched: &[&Key]) -> Outgoing {
        for key in calls.iter().map(|call| &call.key).chain(touched.iter().copied()) {
            if let Some(member) = self.members.get_mut(key) {
                let held = member.hold.held();
                #[cfg(test)]
                let held = if self.planted == Planted::SaveLate { member.hold.limit() } else { held };
                self.unsaved.extend(member.unsaved(held, false).map(|record| (key.clone(), Some(record))));
            }
        }
        Outgoing { save: std::mem::take(&mut self.unsaved), calls }
    }

    /// The records of all instances, whatever was saved before: the store has lost some.
    pub fn save_again(&mut self) -> Outgoing {
        self.members.iter_mut().for_each(|(_, member)| member.saved = None);
        self.outgoing_of_all(Vec::new())
    }

    /// The same, for all instances.
    fn outgoing_of_all(&mut self, calls: Vec<Call>) -> Outgoing {
        for (key, member) in self.members.iter_mut() {
            let held = member.hold.held();
            #[cfg(test)]
            let held = if self.planted == Planted::SaveLate { member.hold.limit() } else { held };
            self.unsaved.extend(member.unsaved(held, true).map(|record| (key.clone(), Some(record))));
        }
        Outgoing { save: std::mem::take(&mut self.unsaved), calls }
    }
}

fn term(leader: Option<Leader>) -> u64 {
    leader.map_or(0, |leader| leader.term)
}

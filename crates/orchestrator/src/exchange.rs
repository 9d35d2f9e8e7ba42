//! The seam between a fleet and its driver: records to save, calls to make, and their answers.

use std::sync::Arc;

use control::v1::{Instance, ResizeRequest, ResizeResponse, StatsRequest, StatsResponse};

use crate::Nanos;

/// An instance, told apart from others of its name by its incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The name.
    pub name: Arc<str>,
    /// The incarnation.
    pub incarnation: u64,
}

impl Key {
    /// The key of an instance.
    pub fn of(instance: &Instance) -> Self {
        Self { name: instance.name.as_str().into(), incarnation: instance.incarnation }
    }
}

/// The state of an instance that is saved.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its identity.
    pub instance: Instance,
    /// Its agent.
    pub session: u64,
    /// The address of its agent.
    pub address: String,
    /// The most memory that it can have, in bytes.
    pub held_bytes: u64,
}

/// The work of the driver, in this order: first all is saved, then the calls are made.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// Records of instances; `None`: the former one is deleted.
    pub save: Vec<(Key, Option<Record>)>,
    /// Calls to agents, which do not wait for one another.
    pub calls: Vec<Call>,
}

/// A call to an agent.
#[derive(Clone, Debug)]
pub struct Call {
    /// The instance.
    pub key: Key,
    /// The address of its agent.
    pub address: String,
    /// When it was made.
    pub made_at: Nanos,
    /// The request.
    pub request: Request,
}

/// A request to an agent.
#[derive(Clone, Debug)]
pub enum Request {
    /// For the state of its instance.
    Stats(StatsRequest),
    /// To set limits.
    Resize(ResizeRequest),
}

/// The answer of an agent.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To [`Request::Stats`].
    Stats(StatsResponse),
    /// To [`Request::Resize`].
    Resize(ResizeResponse),
}

/// The reason why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// None came in time, or the network failed: the agent may have carried it out.
    Silent,
    /// Nobody listens at its address.
    Refused,
}

/// Another orchestrator that an agent knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superseded {
    /// Its term.
    pub term: u64,
    /// The time until which the agent counts on it.
    pub until: Nanos,
}

/// An instance as it stands.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Its identity.
    pub instance: Instance,
    /// The address of its agent.
    pub address: String,
    /// True if its lease runs.
    pub is_leased: bool,
    /// The limit that it said last, in bytes.
    pub limit_bytes: u64,
    /// The memory that it uses, as it said last.
    pub used_bytes: u64,
    /// The most that it can have.
    pub held_bytes: u64,
    /// The limit that was decided.
    pub target_bytes: Option<u64>,
}

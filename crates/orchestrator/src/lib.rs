//! The orchestrator: divides the memory of each node between the cache instances on it, through
//! their agents (HOLPACA, ICPE 2026, section 3.3).
//!
//! [`Fleet`] is a plain value without a clock, a thread or a socket: it is told what agents answer,
//! and returns what to ask of them and what to save. Its tests run it with agents in a simulated
//! network. [`service`] gives it all three.
//!
//! One orchestrator keeps its records in an embedded store, or nowhere. Of several, one is elected
//! by etcd, which has the records (`etcd`). Either way, records are saved apart from decisions
//! (`journal`, `keeper`), and what depends on them waits.
//!
//! Invariants:
//! 1. For each node, the sum of what instances can have (`hold`) never exceeds its memory because
//!    of a request: a limit is raised only by memory that nobody can have. It may exceed it because
//!    instances come that have memory already; then limits are only lowered.
//! 2. What is saved of an instance is never less than what it can have, at the moment that a
//!    request is sent.
//! 3. An instance that does not answer keeps what it can have. That is free once it has left, once
//!    its process is known to be gone and its lease is over, or once a person says so.
//! 4. No instance waits for another: who does not answer in a round is left out of its decision.

#![forbid(unsafe_code)]

mod admin;
mod ask;
pub mod command;
mod decide;
mod enforce;
mod etcd;
mod exchange;
mod fleet;
mod history;
mod hold;
mod journal;
mod keeper;
mod led;
mod member;
mod members;
mod metrics;
mod names;
mod record;
mod registration;
pub mod service;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod told;
mod whole;

pub use ask::{Learnt, PoolCurve, PoolName, Unanswered, WhatIf};
pub use decide::{Decided, DecidedPool, Move};
pub use etcd::EtcdConfig;
pub use exchange::{Answer, Call, Failure, Key, MemberStatus, Outgoing, Record, Request, Superseded};
pub use fleet::{Budget, Fleet, FleetConfig, FleetError};
pub use store::StoreError;
pub use told::{Told, Totals};
pub use whole::{Whole, WholeError, WholeLook};

/// A time or a span of time, in nanoseconds.
pub type Nanos = u64;

/// A thousandth of a second.
pub(crate) const MILLI: Nanos = 1_000_000;

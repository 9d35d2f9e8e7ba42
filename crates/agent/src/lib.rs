//! The agent of a cache instance: tells an orchestrator what the instance has and how it is used,
//! and sets its limits as the orchestrator decides (HOLPACA, ICPE 2026, section 3.2).
//!
//! [`Agent`] is a plain value without a clock, a thread or a socket, over any [`Instance`].
//! [`service`] gives it all three.
//!
//! Invariants:
//! 1. A request of a leader is carried out only if no later leader is known, and none of its own
//!    later requests was carried out before.
//! 2. A resize is carried out only during a lease that its leader gave to this session of the
//!    agent. The agent counts a lease from when the request came, the orchestrator from when it had
//!    the answer, or else from when it asked: the agent's ends first, unless a request comes after
//!    its deadline.
//! 3. Without a lease the instance goes on with its last limits.

#![forbid(unsafe_code)]

mod agent;
pub mod command;
mod duty;
pub mod embedded;
mod instance;
mod report;
pub mod service;
pub mod targets;

pub use agent::{Agent, AgentConfig, Next};
pub use control::access;
pub use instance::{Instance, InstanceError, Look};

/// A time or a span of time, in nanoseconds.
pub type Nanos = u64;

/// A thousandth of a second.
pub(crate) const MILLI: Nanos = 1_000_000;

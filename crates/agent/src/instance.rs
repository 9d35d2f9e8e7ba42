//! The seam between an agent and what it speaks for.

use control::v1::{self, Amount, PoolGrant, PoolReport};

/// The reason why an instance cannot be asked or changed. The next attempt may succeed.
#[derive(Debug, thiserror::Error)]
#[error("{context}")]
pub struct InstanceError {
    /// The attempt, the address, and the remedy.
    pub context: String,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl InstanceError {
    /// An error without a cause of its own.
    pub fn new(context: impl Into<String>) -> Self {
        Self { context: context.into(), source: None }
    }

    /// An error with its cause.
    pub fn because(
        context: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { context: context.into(), source: Some(source.into()) }
    }
}

/// A cache instance as it is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// Its identity. The incarnation differs if the instance was restarted.
    pub instance: v1::Instance,
    /// The limits in force.
    pub limits: Vec<Amount>,
    /// The amounts in use.
    pub used: Vec<Amount>,
    /// The least that the instance can have.
    pub least: Vec<Amount>,
    /// The most that the instance can have.
    pub most: Vec<Amount>,
    /// All pools, each with its name, and its curve if that is known.
    pub pools: Vec<PoolReport>,
    /// The reads so far that a curve is learnt from, and those from which one is told; `None`: it
    /// is told, or is not learnt from reads.
    pub learning: Option<(u64, u64)>,
}

/// A cache instance: one that is embedded in this process, or another server.
pub trait Instance: Send + 'static {
    /// Looks at the instance. May wait for a server, for a second at most.
    ///
    /// # Errors
    /// If a server does not answer, or answers what cannot be understood.
    fn look(&mut self) -> Result<Look, InstanceError>;

    /// Sets the limits, and what pools are granted. May wait, as [`Self::look`] does.
    ///
    /// # Errors
    /// If the instance refuses, or does not answer: then the limits may be the former ones or
    /// these.
    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError>;

    /// Notes that an orchestrator leads the instance from now on, or does not any more.
    fn set_led(&mut self, is_led: bool) {
        let _ = is_led;
    }
}

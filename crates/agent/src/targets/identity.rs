//! The name of a target, its bounds, and whether it is only looked at, as its settings say.

use control::amounts;
use control::v1::Amount;

/// The name of an instance, its machine, its bounds, and whether it is only looked at.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
    /// True if nothing may be changed.
    pub(super) reads_only: bool,
}

impl Identity {
    /// The most that it can have; nothing if there is no bound.
    pub(super) fn most(&self) -> Vec<Amount> {
        self.most.map(amounts::of_memory).unwrap_or_default()
    }

    /// Checks that a limit may be set, and is within the bounds, given the least of the server.
    pub(super) fn check(&self, limit: u64, of_server: u64) -> Result<(), String> {
        if self.reads_only {
            return Err("it is only looked at, so that its limit cannot be set".to_owned());
        }
        let least = self.least.unwrap_or(0).max(of_server);
        let most = self.most.unwrap_or(u64::MAX);
        if (least..=most).contains(&limit) {
            return Ok(());
        }
        Err(format!("a limit of {limit} bytes is outside of its bounds, {least} to {most}; give one within"))
    }

    /// The least that it can have, given the least of the server.
    pub(super) fn least(&self, of_server: u64) -> Vec<Amount> {
        amounts::of_memory(self.least.unwrap_or(0).max(of_server))
    }
}

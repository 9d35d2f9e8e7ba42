//! The state that moving memory between pools keeps from round to round.

use crate::strategy::{Optimizer, OptimizerConfig};

/// The state of moving limits and slabs between pools.
pub(crate) struct Sharing {
    pub(super) optimizer: Optimizer,
    /// True if maintenance asks it.
    pub(super) is_automatic: bool,
    /// Most slabs that a pool over its limit gives back in one round.
    pub(super) resize_slabs: u64,
    /// True if the last round of reclaiming held pools back, which the next one has to end.
    pub(super) holds_back: bool,
}

impl Sharing {
    pub(crate) fn new(config: Option<OptimizerConfig>, resize_slabs: u64) -> Self {
        let is_automatic = config.is_some();
        Self {
            optimizer: Optimizer::new(config.unwrap_or_default()),
            is_automatic,
            resize_slabs,
            holds_back: false,
        }
    }
}

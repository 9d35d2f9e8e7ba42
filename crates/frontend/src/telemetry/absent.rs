//! The stubs in place of tracing without the feature `opentelemetry`.

use std::sync::Arc;

use base::{Clock, Ledger};
use config::{Error, Telemetry};

use super::{Over, Step};

/// A turn in the sample, of which there is none.
pub enum Sampled {}

impl Sampled {
    /// Never called.
    pub const fn is_slow(&self, _took_nanos: u64) -> bool {
        match *self {}
    }

    /// Never called.
    pub fn note(&mut self, _step: Step) {
        match *self {}
    }
}

/// Traces nothing.
pub struct Tracing;

impl Tracing {
    /// Returns the value that traces nothing.
    pub fn new(_clock: Clock, _workers: usize) -> Self {
        Self
    }

    /// Ignores the settings.
    pub const fn apply(self: &Arc<Self>, _ledger: &Ledger, _wanted: &Telemetry) -> Result<(), Error> {
        Ok(())
    }

    /// Does nothing.
    pub const fn stop(&self, _ledger: &Ledger) {}

    /// Returns `None`: there is nothing to count.
    pub const fn figures(&self) -> Option<(u64, u64)> {
        None
    }

    /// Returns `None`: no turn is in the sample.
    #[inline]
    pub const fn begin(&self, _worker: usize, _turn: u32) -> Option<Sampled> {
        None
    }

    /// Never called.
    pub const fn end(&self, sampled: Sampled, _over: &Over<'_>) {
        match sampled {}
    }
}

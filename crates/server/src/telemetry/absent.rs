//! The stubs in place of tracing without the feature `opentelemetry`.

use std::sync::Arc;

use base::{Clock, Ledger};
use config::{Error, Telemetry};

use super::{Over, Step};

/// A turn in the sample, of which there is none.
pub(crate) enum Sampled {}

impl Sampled {
    pub(crate) const fn is_slow(&self, _took_nanos: u64) -> bool {
        match *self {}
    }

    pub(crate) fn note(&mut self, _step: Step) {
        match *self {}
    }
}

/// Traces nothing.
pub(crate) struct Tracing;

impl Tracing {
    pub(crate) fn new(_clock: Clock, _workers: usize) -> Self {
        Self
    }

    #[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
    pub(crate) const fn apply(self: &Arc<Self>, _ledger: &Ledger, _wanted: &Telemetry) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) const fn stop(&self, _ledger: &Ledger) {}

    pub(crate) const fn figures(&self) -> Option<(u64, u64)> {
        None
    }

    #[inline]
    pub(crate) const fn begin(&self, _worker: usize, _turn: u32) -> Option<Sampled> {
        None
    }

    pub(crate) const fn end(&self, sampled: Sampled, _over: &Over<'_>) {
        match sampled {}
    }
}

//! Threads that maintain the cache about once a second, so that no client's request has to.
//!
//! One does the work that has to be done in time. The other takes memory from the system ahead of
//! need, which can take a processor a second and never has to be done: it yields to all others.

use std::sync::Arc;
use std::thread::JoinHandle;

use base::thread::Repeating;
use config::{Error, ErrorKind};
use frontend::log::Seldom;
use frontend::maintenance::INTERVAL;
use frontend::shared::Shared;
use frontend::tenant_changes;

/// Takes memory ahead, until it is dropped.
pub(crate) type Toucher = Repeating<Arc<Shared>>;

/// The refusals of memory by a file system that the log has reported.
struct Refusals {
    count: u64,
    telling: Seldom,
}

impl Refusals {
    fn tell(&mut self, shared: &Shared) {
        let count = shared.cache.refused_slabs();
        if count > self.count && self.telling.is_due(shared.clock.monotonic_nanos()) {
            let folder = shared.config().shared_memory.clone();
            tracing::warn!(
                folder = %folder.display(),
                refusals = count - self.count,
                "The file system of shared_memory is full: the cache is smaller than `memory` allows, and evicts for it."
            );
            self.count = count;
        }
    }
}

/// Starts the thread.
///
/// # Errors
/// If the operating system refuses it.
pub(crate) fn start(shared: Arc<Shared>) -> Result<JoinHandle<()>, Error> {
    let body = move || {
        let mut refusals = Refusals { count: 0, telling: Seldom::once_in(600) };
        while shared.maintenance.wait() {
            if let Err(error) = shared.cache.maintain() {
                tracing::debug!(%error, "The cache is above its memory for now.");
            }
            shared.control.round_if_due(&shared.cache, &shared.clock);
            refusals.tell(&shared);
            tenant_changes::bury(&shared);
            shared.tracking.deliver(&shared, None);
            shared.monitoring.tell();
        }
    };
    base::thread::spawn("maintenance", body)
        .map_err(|e| Error::with_source(ErrorKind::System, "the maintenance thread cannot be started", e))
}

/// Starts the thread that takes memory ahead.
///
/// # Errors
/// If the operating system refuses it.
pub(crate) fn start_toucher(shared: Arc<Shared>) -> Result<Toucher, Error> {
    let mut is_first = true;
    let body = move |shared: &mut Arc<Shared>, is_last: bool| {
        if std::mem::take(&mut is_first)
            && let Err(error) = base::thread::lower_priority()
        {
            tracing::debug!(%error, "Memory is taken ahead while others may want the processor.");
        }
        if !is_last {
            shared.cache.touch_ahead();
        }
    };
    Repeating::start("touch", INTERVAL, shared, body).map_err(|e| {
        Error::with_source(ErrorKind::System, "the thread that takes memory ahead cannot be started", e)
    })
}

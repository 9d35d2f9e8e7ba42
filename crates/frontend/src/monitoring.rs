//! The memory monitor: started, changed and stopped as the configuration says, and reported in the
//! log.

use std::sync::{Mutex, PoisonError};

use config::{Error, ErrorKind, MonitorSettings};
use millpond::Cache;
use millpond::monitor::{Monitor, MonitorStatus, MonitorThread, Source};

/// The monitor, if there is one.
#[derive(Default)]
pub struct Monitoring(Mutex<State>);

#[derive(Default)]
struct State {
    settings: Option<MonitorSettings>,
    thread: Option<MonitorThread>,
    /// The status that the log has reported.
    told: MonitorStatus,
    /// True if it could give no more back when the log was last written to.
    was_exhausted: bool,
}

impl Monitoring {
    /// Returns whether these settings are already in force.
    pub fn is(&self, settings: &MonitorSettings) -> bool {
        self.lock().settings.as_ref() == Some(settings)
    }

    /// Stops the monitor. The cache keeps the memory that it has.
    pub fn stop(&self) {
        let mut state = self.lock();
        (state.settings, state.thread) = (None, None);
    }

    /// Starts a monitor with `settings`, which gives back from the memory that the cache has now.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the memory to be watched cannot be read.
    pub fn start(&self, cache: &Cache, settings: &MonitorSettings) -> Result<(), Error> {
        let refused =
            |error| Error::with_source(ErrorKind::System, "the memory monitor cannot be started", error);
        let monitor = settings.engine().map(|config| Monitor::new(cache, config, Source::default()));
        let monitor = monitor.transpose().map_err(refused)?;
        // The maintenance thread evicts. A thread that changes settings waits for the end of a run.
        let thread = monitor.map(|monitor| MonitorThread::start(monitor.leaving_eviction()));
        let thread = thread.transpose().map_err(refused)?;
        *self.lock() = State { settings: Some(settings.clone()), thread, ..State::default() };
        Ok(())
    }

    /// Returns the status of the monitor; `None` if there is none.
    pub fn status(&self) -> Option<MonitorStatus> {
        self.lock().thread.as_ref().map(MonitorThread::status)
    }

    /// Logs the monitor's actions since the last time.
    pub fn tell(&self) {
        let mut state = self.lock();
        let Some(now) = state.thread.as_ref().map(MonitorThread::status) else { return };
        let given_bytes = now.given_bytes;
        let decision = now.last_decision.as_deref().unwrap_or_default();
        // Several things may have happened since the last time; the words are of the last one.
        if now.gives > state.told.gives {
            tracing::info!(given_bytes, decision, "The cache has given memory back.");
        }
        if now.takes > state.told.takes {
            tracing::info!(given_bytes, decision, "The cache has taken memory back.");
        }
        let is_exhausted = now.exhausted > state.told.exhausted;
        // Once for as long as it lasts.
        if is_exhausted && !state.was_exhausted {
            tracing::warn!(given_bytes, decision, "Memory is short, and the cache may give no more back.");
        }
        if now.errors > state.told.errors {
            let error = now.last_error.as_deref().unwrap_or_default();
            tracing::warn!(errors = now.errors, error, "The memory monitor could not do its work.");
        }
        (state.told, state.was_exhausted) = (now, is_exhausted);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

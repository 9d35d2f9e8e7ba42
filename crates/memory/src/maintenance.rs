//! A thread that does what a cache needs about once a second.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base::thread::Repeating;
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::config::CacheConfig;
use crate::error::{Error, ErrorKind};

/// The interval at which [`Cache::maintained`] has a cache maintained.
const INTERVAL: Duration = Duration::from_secs(1);

/// Counts of a [`MaintenanceThread`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceStatus {
    /// Rounds that are done.
    pub rounds: u64,
    /// Those of them in which held items kept the cache above a limit. The next round tries again.
    pub failures: u64,
    /// The message of the last of those failures.
    pub last_failure: Option<String>,
}

/// A thread that calls [`Cache::maintain`] at an interval, until it is dropped.
///
/// Without it, or a loop of the embedder's own, expired items keep their memory until they are
/// looked for or evicted, pools do not trade memory, and queues and index may grow a few percent
/// beyond the limit of the cache.
///
/// ```
/// # use millpond::{Cache, CacheConfig, MaintenanceThread};
/// # use std::time::Duration;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cache = Cache::new(CacheConfig::default())?;
/// let maintenance = MaintenanceThread::start(&cache, Duration::from_secs(1))?;
/// assert_eq!(maintenance.status().failures, 0);
/// # Ok(())
/// # }
/// ```
pub struct MaintenanceThread {
    status: Arc<Mutex<MaintenanceStatus>>,
    _thread: Repeating<Cache>,
}

impl MaintenanceThread {
    /// Starts the thread. One a cache is enough. Rounds are cheap if there is nothing to do; an
    /// interval of a second is meant.
    ///
    /// # Errors
    /// If the operating system refuses another thread.
    pub fn start(cache: &Cache, interval: Duration) -> io::Result<Self> {
        let status = Arc::new(Mutex::new(MaintenanceStatus::default()));
        let theirs = Arc::clone(&status);
        let run = move |cache: &mut Cache, is_last: bool| {
            if !is_last {
                let done = cache.maintain();
                let mut status = theirs.lock();
                status.rounds += 1;
                if let Err(error) = done {
                    status.failures += 1;
                    status.last_failure = Some(error.to_string());
                }
            }
        };
        let thread = Repeating::start("maintenance", interval, cache.unattended(), run)?;
        Ok(Self { status, _thread: thread })
    }

    /// Returns what was done so far.
    pub fn status(&self) -> MaintenanceStatus {
        self.status.lock().clone()
    }
}

impl fmt::Debug for MaintenanceThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaintenanceThread").field("status", &self.status()).finish()
    }
}

impl Cache {
    /// [`Cache::new`], and a [`MaintenanceThread`] that calls [`Cache::maintain`] once a second for
    /// as long as there is a clone of this cache: what most programs want. Not for a cache with a
    /// [`crate::Clock`] that is moved by hand: there the thread would act at moments of its own.
    ///
    /// The thread ends with the last clone, which waits for the round under way.
    ///
    /// # Errors
    /// As [`Cache::new`]; [`ErrorKind::System`] too if no thread is to be had.
    pub fn maintained(config: CacheConfig) -> Result<Self, Error> {
        let cache = Self::new(config)?;
        let thread = MaintenanceThread::start(&cache, INTERVAL).map_err(|error| {
            Error::with_source(ErrorKind::System, "cannot start the maintenance thread", error)
        })?;
        Ok(cache.attended_by(thread))
    }
}

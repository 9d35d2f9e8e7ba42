//! The memory monitor: the cache gives memory back when the machine, the process or its cgroup runs
//! short, and takes it back when there is plenty – so that whoever needs memory gets it, and nobody
//! is killed for want of it.
//!
//! Parameters, formulas and defaults are those of CacheLib (Berg et al., OSDI 2020, section 4.2,
//! and its sources as of 2026); `docs/memory-monitor.md` writes them out, with what Millpond adds:
//! a mode for cgroups of both versions with their pressure, at least one slab per run, and steps
//! that begin at what the cache uses rather than at what it may use.
//!
//! Three parts: [`Policy`] decides and does nothing else; [`Source`] reads; [`Monitor`] joins them
//! with a cache, and [`MonitorThread`] runs that now and then.
//!
//! What must hold:
//! 1. The policy has no lock, clock, thread or I/O.
//! 2. The cache's memory stays between what may not be given and what it had when the monitor
//!    began, or what somebody else has set since.
//! 3. A file that cannot be read changes nothing.

mod policy;
mod source;

use std::fmt;
use std::sync::Arc;

use base::ByteSize;
use base::thread::Repeating;
use parking_lot::Mutex;

use memory::Cache;

pub use policy::{Decision, Mode, MonitorConfig, Policy, Readings};
pub use source::{MonitorError, Source};

/// A policy, what it reads and the cache that it changes. Runs when it is told to.
///
/// ```no_run
/// use millpond::monitor::{Mode, Monitor, MonitorConfig, MonitorThread, Source};
/// use millpond::{ByteSize, Cache, CacheConfig};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cache = Cache::new(CacheConfig { memory: ByteSize::gib(4), ..CacheConfig::default() })?;
/// let config = MonitorConfig {
///     mode: Mode::Cgroup,
///     lower: ByteSize::mib(256),
///     upper: ByteSize::mib(512),
///     ..MonitorConfig::default()
/// };
/// let thread = MonitorThread::start(Monitor::new(&cache, config, Source::default())?)?;
/// // … serve …
/// println!("{}", thread.status());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Monitor {
    cache: Cache,
    policy: Policy,
    source: Source,
    is_lazy: bool,
}

impl Monitor {
    /// A monitor that gives back from the memory which the cache has now. Reads once, to see
    /// whether all is there.
    ///
    /// # Errors
    /// [`MonitorError::Config`], or what [`Source`] says of a file that is missing.
    pub fn new(cache: &Cache, config: MonitorConfig, source: Source) -> Result<Self, MonitorError> {
        let memory = ByteSize::new(cache.ledger().limit());
        let monitor =
            Self { cache: cache.clone(), policy: Policy::new(config, memory)?, source, is_lazy: false };
        monitor.read()?;
        Ok(monitor)
    }

    /// Leaves evicting to whoever calls [`Cache::maintain`]: a run is short, and so is the end of a
    /// thread that makes them.
    #[must_use]
    pub fn leaving_eviction(self) -> Self {
        Self { is_lazy: true, ..self }
    }

    /// Reads all that the policy looks at.
    ///
    /// # Errors
    /// As for [`Source::watched_bytes`] and [`Source::pressure_percent`].
    pub fn read(&self) -> Result<Readings, MonitorError> {
        let config = self.policy.config();
        let reads_pressure = config.mode == Mode::Cgroup && config.max_pressure_percent.is_some();
        Ok(Readings {
            watched_bytes: self.source.watched_bytes(config.mode)?,
            pressure_percent: if reads_pressure { Some(self.source.pressure_percent()?) } else { None },
            memory_bytes: self.cache.ledger().limit(),
            spent_bytes: self.cache.ledger().total(),
        })
    }

    /// One run: reads, decides, and changes the cache's memory, to no less than
    /// [`Cache::least_memory`]. Giving back evicts on the calling thread, but for
    /// [`Self::leaving_eviction`].
    ///
    /// # Errors
    /// As for [`Self::read`]; [`MonitorError::Cache`] where held items keep slabs that should go:
    /// the next run goes on.
    pub fn run(&mut self) -> Result<Decision, MonitorError> {
        let readings = self.read()?;
        let decision = self.policy.observe(&readings);
        let refused = |error: crate::Error| MonitorError::Cache(error.to_string());
        match &decision {
            Decision::GiveBack { memory_bytes, .. } | Decision::TakeBack { memory_bytes, .. } => {
                let memory = ByteSize::new(*memory_bytes).max(self.cache.least_memory());
                let changed = match self.is_lazy {
                    true => self.cache.set_memory_lazily(memory),
                    false => self.cache.set_memory(memory),
                };
                changed.map_err(refused)?;
            }
            Decision::Stay | Decision::Exhausted { .. } if self.is_lazy => {}
            Decision::Stay | Decision::Exhausted { .. } if readings.spent_bytes > readings.memory_bytes => {
                self.cache.maintain().map_err(refused)?;
            }
            Decision::Stay | Decision::Exhausted { .. } => {}
        }
        Ok(decision)
    }

    /// Returns the memory that the cache has given back so far, in bytes.
    pub fn given_bytes(&self) -> u64 {
        self.policy.given_bytes()
    }
}

/// The work that a monitor's thread has done so far.
#[derive(Clone, Debug, Default)]
pub struct MonitorStatus {
    /// Runs.
    pub runs: u64,
    /// Runs that gave back.
    pub gives: u64,
    /// Runs that took back.
    pub takes: u64,
    /// Runs that would have given back more than may be given.
    pub exhausted: u64,
    /// Runs that failed.
    pub errors: u64,
    /// Memory that the cache has given back and not taken back, in bytes.
    pub given_bytes: u64,
    /// The last decision that was not to stay, for people.
    pub last_decision: Option<String>,
    /// The error of the last run that failed, for people.
    pub last_error: Option<String>,
}

impl fmt::Display for MonitorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = ByteSize::new(self.given_bytes);
        write!(f, "{} runs, {} given back; last: ", self.runs, given)?;
        f.write_str(self.last_decision.as_deref().unwrap_or("nothing to do"))?;
        match &self.last_error {
            Some(error) => write!(f, "; {} errors, the last: {error}", self.errors),
            None => Ok(()),
        }
    }
}

impl MonitorStatus {
    fn note(&mut self, result: Result<Decision, MonitorError>, given_bytes: u64) {
        self.runs += 1;
        self.given_bytes = given_bytes;
        match result {
            Ok(decision) => {
                match &decision {
                    Decision::Stay => return,
                    Decision::GiveBack { .. } => self.gives += 1,
                    Decision::TakeBack { .. } => self.takes += 1,
                    Decision::Exhausted { .. } => self.exhausted += 1,
                }
                self.last_decision = Some(decision.to_string());
            }
            Err(error) => {
                self.errors += 1;
                self.last_error = Some(error.to_string());
            }
        }
    }
}

/// A thread that runs a monitor at its interval, until this is dropped. The cache then keeps the
/// memory that it has.
#[derive(Debug)]
pub struct MonitorThread {
    status: Arc<Mutex<MonitorStatus>>,
    _thread: Repeating<Monitor>,
}

impl MonitorThread {
    /// Starts the thread. What goes wrong in a run is in [`Self::status`], and the next run tries
    /// again.
    ///
    /// # Errors
    /// [`MonitorError::Cache`] where the system refuses another thread.
    pub fn start(monitor: Monitor) -> Result<Self, MonitorError> {
        let status = Arc::new(Mutex::new(MonitorStatus::default()));
        let theirs = Arc::clone(&status);
        let interval = monitor.policy.config().interval;
        let run = move |monitor: &mut Monitor, is_last: bool| {
            if !is_last {
                let result = monitor.run();
                theirs.lock().note(result, monitor.given_bytes());
            }
        };
        let thread = Repeating::start("memory-monitor", interval, monitor, run)
            .map_err(|error| MonitorError::Cache(format!("cannot start the monitor's thread: {error}")))?;
        Ok(Self { status, _thread: thread })
    }

    /// Returns what was done so far.
    pub fn status(&self) -> MonitorStatus {
        self.status.lock().clone()
    }
}

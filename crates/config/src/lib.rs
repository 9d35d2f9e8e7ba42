//! The settings: one TOML file, then environment variables, then flags, over defaults that live
//! here.
//!
//! A setting has one name everywhere: `limits.max_connections` in the file is
//! `MILLPOND_LIMITS_MAX_CONNECTIONS` in the environment and `--set limits.max_connections=…` on the
//! command line. Each is declared once, as a row of its section's `settings!`, from which
//! [`keys::all`], `config/millpond.toml` and the table in `docs/configuration.md` are made.
//!
//! [`acl`] is here because users' access rules are settings, and the server's [`Error`] because
//! most of its errors concern a setting.
//!
//! Invariant 1: a [`Config`] returned by [`load::load`] has passed [`check::check`], so the server
//! may rely on its names being unique, its references resolving and its sizes being in range.
//!
//! This crate opens no socket, starts no thread and makes no cache. The caller passes a
//! [`load::Survey`], which checks whether the files and addresses of a configuration are usable.

#![forbid(unsafe_code)]

#[macro_use]
mod settings;
#[macro_use]
mod values;

pub mod acl;
mod admin;
pub mod change;
pub mod check;
mod control;
pub mod edit;
mod error;
pub mod files;
mod fleet;
mod folder;
pub mod keys;
mod limits;
mod listeners;
pub mod load;
mod monitor;
mod pools;
mod print;
mod read;
pub mod rewrite;
mod telemetry;
mod tenants;
mod tls;
mod users;
mod watch;

use std::path::PathBuf;

use base::ByteSize;

pub use admin::{Admin, MIN_TOKEN_BYTES};
pub use control::ControlSettings;
pub use error::{Error, ErrorKind};
pub use fleet::Fleet;
pub use limits::Limits;
pub use listeners::ListenerConfig;
pub use monitor::MonitorSettings;
pub use pools::PoolSettings;
pub use print::render;
pub use settings::Key;
pub use telemetry::Telemetry;
pub use tenants::TenantSettings;
pub use tls::{ClientAuth, NO_TLS_KEY, TlsSettings, TlsVersion};
pub use users::{Secret, UserSettings};
pub use values::{
    Address, Auto, Classes, ControlMode, ControlObjective, FileMode, Listen, LogLevel, MonitorMode, Protocol,
};
pub use watch::Watch;

/// The largest cache: the engine's pointers address no more.
pub(crate) const MAX_MEMORY: ByteSize = ByteSize::gib(256);

settings! {
    /// Everything an operator may set. `Config::default()` serves on loopback with nothing
    /// configured.
    pub struct Config in "" {
        /// All memory of the cache: items, index, queues, connection buffers. A size, as in
        /// "512MiB" or "1.5GiB". "auto": a quarter of the machine's (or the container's) memory, at
        /// most 1GiB.
        online memory: Auto<ByteSize> = Auto::Auto;

        /// Upper bound for `memory` while serving: this much address space is reserved, and no
        /// memory. At most 256GiB. "auto": the memory of the machine (or the container).
        restart max_memory: Auto<ByteSize> = Auto::Auto;

        /// Worker threads. "auto": one for each processor the process may use.
        restart threads: Auto<usize> = Auto::Auto, in 1..=1024;

        /// Keeps each worker on one processor.
        restart pin_threads: bool = false;

        /// Microseconds for which a worker without work polls before it sleeps. On virtual
        /// machines, waking a thread can take longer than answering a request; polling avoids that,
        /// at the cost of processor time. Use it only if workers have processors to themselves; 50
        /// is much. 0: sleeps at once.
        online busy_poll_micros: u32 = 0, in ..=10_000;

        /// Asks the kernel for huge pages for item memory, which make lookups in large caches
        /// faster.
        restart huge_pages: bool = true;

        /// A folder in memory, as in "/dev/shm/millpond", for a cache that outlives the process:
        /// the next start takes it over, however this process ended. One server at a time. Empty: a
        /// restart begins with an empty cache.
        restart shared_memory: PathBuf = PathBuf::new();

        /// Allows unauthenticated clients from other machines: anyone who can connect can then
        /// read, write and flush. If false, a listener that is not on loopback or a unix socket
        /// needs `[[user]]` with passwords.
        restart allow_remote: bool = false;
    }
    and sections {
        /// The listeners to which clients connect.
        #[serde(rename = "listener")]
        listeners: Vec<ListenerConfig> = ListenerConfig::usual();
        /// The parts that the memory is shared by.
        #[serde(rename = "pool")]
        pools: Vec<PoolSettings> = vec![PoolSettings::default()];
        /// The tenants that share the server.
        #[serde(rename = "tenant")]
        tenants: Vec<TenantSettings> = Vec::new();
        /// The users that clients can authenticate as.
        #[serde(rename = "user")]
        users: Vec<UserSettings> = Vec::new();
        /// Limits on what a client can make grow.
        limits: Limits = Limits::default();
        /// The HTTP server for operators.
        admin: Admin = Admin::default();
        /// The sampling of calls and keys.
        watch: Watch = Watch::default();
        /// Moving memory between pools.
        control: ControlSettings = ControlSettings::default();
        /// Being led by an orchestrator.
        fleet: Fleet = Fleet::default();
        /// Giving memory back when others need it.
        monitor: MonitorSettings = MonitorSettings::default();
        /// The tracing of requests.
        telemetry: Telemetry = Telemetry::default();
        /// The server's log.
        log: Log = Log::default();
    }
}

settings! {
    /// Logging, to standard error.
    pub struct Log in "log." {
        /// Lowest level logged to standard error: "error", "warn", "info", "debug" or "trace".
        online level: LogLevel = LogLevel::Info;
    }
}

impl Config {
    /// Returns the effective `memory`, asking the machine if it is automatic.
    pub fn memory(&self) -> ByteSize {
        self.memory.or(|| {
            let quarter = base::machine::memory_bytes() / 4;
            ByteSize::new(quarter.clamp(ByteSize::mib(64).as_u64(), ByteSize::gib(1).as_u64()))
        })
    }

    /// Returns the effective `max_memory`, asking the machine if it is automatic.
    pub fn max_memory(&self) -> ByteSize {
        self.max_memory.or(|| ByteSize::new(base::machine::memory_bytes()).min(MAX_MEMORY).max(self.memory()))
    }

    /// How many workers there are.
    pub fn threads(&self) -> usize {
        self.threads.or(base::thread::available_cpus)
    }

    /// Returns the limit on the buffers of all connections.
    pub fn max_connection_memory(&self) -> ByteSize {
        self.limits
            .max_connection_memory_bytes
            .or(|| ByteSize::new((self.memory().as_u64() / 8).max(ByteSize::mib(16).as_u64())))
    }
}

#[cfg(test)]
mod tests;

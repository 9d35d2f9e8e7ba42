//! The settings: one TOML file, then environment variables, then flags, over defaults that live
//! here.
//!
//! A setting has one name everywhere: `limits.max_connections` in the file is
//! `MILLPOND_LIMITS_MAX_CONNECTIONS` in the environment and `--set limits.max_connections=…` on the
//! command line. [`keys::KEYS`] lists every one with its help and whether it changes while serving;
//! a test keeps that list, the structures below, `config/millpond.toml` and `docs/configuration.md`
//! in agreement.
//!
//! The rules of users ([`acl`]) are here because they are settings, and the server's [`Error`]
//! because most of its failures are those of a setting.
//!
//! Invariant 1: a [`Config`] returned by [`load::load`] has passed [`check::check`], so the server
//! may rely on its names being unique, its references resolving and its sizes being in range.
//!
//! Absences: no socket, no thread, no cache. Whether the files and addresses of a configuration can
//! be used is found out by a [`load::Survey`], which the caller hands in.

#![forbid(unsafe_code)]

pub mod acl;
pub mod change;
pub mod check;
pub mod edit;
mod error;
pub mod files;
mod folder;
pub mod keys;
pub mod load;
mod print;
mod read;
pub mod rewrite;
mod telemetry;
mod tenants;
mod users;
#[macro_use]
mod values;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

use base::ByteSize;
use millpond::PolicyKind;
use millpond::monitor::{Mode, MonitorConfig};
use serde::{Deserialize, Serialize};

pub use error::{Error, ErrorKind};
pub use print::render;
pub use telemetry::Telemetry;
pub use tenants::TenantSettings;
pub use tls::{ClientAuth, NO_TLS_KEY, TlsSettings, TlsVersion};
pub use users::{Secret, UserSettings};
pub use values::{Address, Auto, Classes, FileMode, Listen, LogLevel, MonitorMode, Protocol};

/// The largest cache: the engine's pointers address no more.
pub(crate) const MAX_MEMORY: ByteSize = ByteSize::gib(256);

/// Everything an operator may set. `Config::default()` serves on loopback with nothing configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// All memory of the cache: items, index, queues and connection buffers. Auto: a quarter of the
    /// machine's memory, at most 1 GiB.
    pub memory: Auto<ByteSize>,
    /// How far `memory` may be raised while serving. Auto: to the memory of the machine or the
    /// container.
    pub max_memory: Auto<ByteSize>,
    /// Worker threads. Auto: one for each processor the process may use.
    pub threads: Auto<usize>,
    /// True if each worker stays on one processor.
    pub pin_threads: bool,
    /// How long a worker that had work polls for more before it sleeps, in microseconds.
    pub busy_poll_micros: u32,
    /// True if item memory asks for huge pages.
    pub huge_pages: bool,
    /// A folder in memory for a cache that shall outlive the process; empty = none.
    pub shared_memory: PathBuf,
    /// True if a listener or the admin server may be reached from another machine.
    pub allow_remote: bool,
    /// The listeners to which clients connect.
    #[serde(rename = "listener")]
    pub listeners: Vec<ListenerConfig>,
    /// The parts that the memory is shared by.
    #[serde(rename = "pool")]
    pub pools: Vec<PoolSettings>,
    /// The tenants that share the server.
    #[serde(rename = "tenant")]
    pub tenants: Vec<TenantSettings>,
    /// The users that clients can authenticate as.
    #[serde(rename = "user")]
    pub users: Vec<UserSettings>,
    /// Limits on what a client can make grow.
    pub limits: Limits,
    /// The HTTP server for operators.
    pub admin: Admin,
    /// The sampling of calls and keys.
    pub watch: Watch,
    /// Giving memory back when others need it.
    pub monitor: MonitorSettings,
    /// The tracing of requests.
    pub telemetry: Telemetry,
    /// The server's log.
    pub log: Log,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: Auto::Auto,
            max_memory: Auto::Auto,
            threads: Auto::Auto,
            pin_threads: false,
            busy_poll_micros: 0,
            huge_pages: true,
            shared_memory: PathBuf::new(),
            allow_remote: false,
            listeners: ListenerConfig::usual(),
            pools: vec![PoolSettings::default()],
            tenants: Vec::new(),
            users: Vec::new(),
            limits: Limits::default(),
            admin: Admin::default(),
            watch: Watch::default(),
            monitor: MonitorSettings::default(),
            telemetry: Telemetry::default(),
            log: Log::default(),
        }
    }
}

/// An address to which clients connect, and the tenant of those clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenerConfig {
    /// Its name in logs and metrics.
    pub name: String,
    /// `tcp://IP:PORT` or `unix:///PATH`.
    pub address: Address,
    /// The permissions of a unix socket, in octal.
    pub mode: FileMode,
    /// The pool that its clients read and write, if no tenant is named.
    pub pool: String,
    /// The tenant of its clients. Empty: the one with the pool's name.
    pub tenant: String,
    /// Other tenants to which its clients may switch by `SELECT`; `*` = all.
    pub tenants: Vec<String>,
    /// True if a key that begins with a prefix of one of those tenants is routed to that tenant.
    pub by_prefix: bool,
    /// The protocol that is spoken there.
    pub protocol: Protocol,
    /// True if clients must authenticate. Auto: if users are configured, and `default` has a
    /// password.
    pub auth: Auto<bool>,
    /// True if the server starts without it when another program has its address.
    pub optional: bool,
    /// The file with its certificate for TLS; empty = no TLS.
    pub tls_certificate: PathBuf,
    /// The file with the certificate's key.
    pub tls_key: PathBuf,
    /// The file with the roots of clients' certificates; empty = clients are not asked for one.
    pub tls_client_ca: PathBuf,
    /// How strictly clients need a certificate, if they are asked for one.
    pub tls_client_auth: ClientAuth,
    /// The oldest version of TLS that is spoken.
    pub tls_min_version: TlsVersion,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            name: "main".to_owned(),
            address: Address::default(),
            mode: FileMode::default(),
            pool: "default".to_owned(),
            tenant: String::new(),
            tenants: Vec::new(),
            by_prefix: false,
            protocol: Protocol::default(),
            auth: Auto::Auto,
            optional: false,
            tls_certificate: PathBuf::new(),
            tls_key: PathBuf::new(),
            tls_client_ca: PathBuf::new(),
            tls_client_auth: ClientAuth::Required,
            tls_min_version: TlsVersion::V1_2,
        }
    }
}

impl ListenerConfig {
    /// The listeners of a server without configured ones: the ports that clients of memcached and
    /// of Redis expect, each unless another program has it.
    fn usual() -> Vec<Self> {
        let usual = |name: &str, port| Self {
            name: name.to_owned(),
            address: Address::loopback(port),
            optional: true,
            ..Self::default()
        };
        vec![usual("main", values::MEMCACHED_PORT), usual("redis", values::REDIS_PORT)]
    }

    /// The name of the tenant that its clients are.
    pub fn tenant(&self) -> &str {
        if self.tenant.is_empty() { &self.pool } else { &self.tenant }
    }
}

/// A part of the memory with its own limit, policy and size classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolSettings {
    /// Its name in listeners, logs and metrics.
    pub name: String,
    /// The most it may hold. Auto: whatever is free.
    pub limit: Auto<ByteSize>,
    /// The memory that other pools cannot take from it.
    pub reserve: ByteSize,
    /// Which items are evicted when it is full.
    pub policy: PolicyKind,
    /// How its size classes trade slabs: a name of [`millpond::strategy::Strategy`].
    pub rebalance: String,
    /// True if its keys are separate from those of other pools.
    pub own_keys: bool,
    /// How its size classes adapt to its items.
    pub classes: Classes,
    /// How much larger each size class is than the one before.
    pub class_factor: f64,
    /// The smallest size class.
    pub class_min_bytes: ByteSize,
    /// The largest size class, which bounds an item with its header and key.
    pub class_max_bytes: ByteSize,
    /// The size classes one by one; replaces factor, min and max if it is not empty.
    pub class_sizes_bytes: Vec<u32>,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            limit: Auto::Auto,
            reserve: ByteSize::new(0),
            policy: PolicyKind::S3_FIFO,
            rebalance: "base".to_owned(),
            own_keys: true,
            classes: Classes::Fixed,
            class_factor: 1.25,
            class_min_bytes: ByteSize::new(64),
            class_max_bytes: ByteSize::mib(4),
            class_sizes_bytes: Vec::new(),
        }
    }
}

/// Limits on what a client can make grow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at a time, over all listeners.
    pub max_connections: usize,
    /// The longest command line, other than of a retrieval.
    pub max_line_bytes: ByteSize,
    /// The longest command line of a retrieval.
    pub max_get_line_bytes: ByteSize,
    /// The most keys in one retrieval.
    pub max_get_keys: usize,
    /// The longest request of RESP that is buffered.
    pub max_request_bytes: ByteSize,
    /// The most copies of keys that `CLIENT TRACKING` follows, over all clients.
    pub max_tracked_keys: usize,
    /// The largest item, as memcached counts it.
    pub max_item_bytes: ByteSize,
    /// True if the data of a storage command whose line was rejected is skipped.
    pub skip_refused_data: bool,
    /// Unsent responses of one connection above which nothing more is read from it.
    pub max_output_buffer_bytes: ByteSize,
    /// Buffers of all connections together. Auto: an eighth of `memory`, at least 16 MiB.
    pub max_connection_memory_bytes: Auto<ByteSize>,
    /// Requests of one connection that are answered before the others get their turn.
    pub max_requests_per_turn: usize,
    /// Seconds without a request after which a connection is closed; 0 for never.
    pub idle_timeout_secs: u32,
    /// Seconds without progress in the middle of a request or response after which a connection is
    /// closed; 0 for never.
    pub stall_timeout_secs: u32,
    /// Seconds that a client has for the handshake of TLS; 0 for as long as it likes.
    pub handshake_timeout_secs: u32,
    /// Seconds that clients are given to take their last responses when the server stops or their
    /// tenant is removed.
    pub drain_timeout_secs: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_line_bytes: ByteSize::kib(2),
            max_get_line_bytes: ByteSize::mib(1),
            max_get_keys: 65_536,
            max_request_bytes: ByteSize::mib(16),
            max_tracked_keys: 1_000_000,
            max_item_bytes: ByteSize::mib(1),
            skip_refused_data: false,
            max_output_buffer_bytes: ByteSize::mib(1),
            max_connection_memory_bytes: Auto::Auto,
            max_requests_per_turn: 256,
            idle_timeout_secs: 0,
            stall_timeout_secs: 60,
            handshake_timeout_secs: 10,
            drain_timeout_secs: 5,
        }
    }
}

/// The HTTP server with `/metrics`, `/healthz` and `/stats.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// True if the admin server is started.
    pub enabled: bool,
    /// `tcp://IP:PORT`. Auto: the usual one, and no admin server if another program has it.
    pub address: Auto<Address>,
    /// The host names and addresses, besides its own, by which it may be addressed; `*` = any.
    pub hosts: Vec<String>,
    /// The token that operators show; empty = none.
    pub token: Secret,
    /// A file with further tokens, one a line; empty = none.
    pub tokens_file: PathBuf,
    /// The file with its certificate for TLS; empty = no TLS.
    pub tls_certificate: PathBuf,
    /// The file with the certificate's key.
    pub tls_key: PathBuf,
    /// The file with the roots of clients' certificates; empty = clients are not asked for one.
    pub tls_client_ca: PathBuf,
    /// How strictly clients need a certificate, if they are asked for one.
    pub tls_client_auth: ClientAuth,
    /// The oldest version of TLS that is spoken.
    pub tls_min_version: TlsVersion,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            enabled: true,
            address: Auto::Auto,
            hosts: Vec::new(),
            token: Secret::default(),
            tokens_file: PathBuf::new(),
            tls_certificate: PathBuf::new(),
            tls_key: PathBuf::new(),
            tls_client_ca: PathBuf::new(),
            tls_client_auth: ClientAuth::Required,
            tls_min_version: TlsVersion::V1_2,
        }
    }
}

impl Admin {
    /// Returns the address it listens on.
    pub fn address(&self) -> Address {
        self.address.or(|| Address::loopback(values::ADMIN_PORT))
    }
}

/// The sampling of calls and keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watch {
    /// One call of the engine in this many is timed; 0 = none.
    pub latency_one_in: u32,
    /// A request of RESP that takes this many microseconds enters the slow log; 0 = every request,
    /// -1 = none.
    pub slow_log_micros: i64,
    /// How many requests the slow log keeps.
    pub slow_log_entries: usize,
    /// A command of RESP that takes this many milliseconds is an event of `LATENCY`; 0 = none is.
    pub latency_monitor_millis: u32,
    /// How many hot keys are kept of each pool; 0 = none are looked for.
    pub hot_keys: usize,
    /// One find in this many is sampled for hot keys.
    pub hot_keys_one_in: u32,
    /// How many keys of each pool are followed to learn its miss-ratio curve; 0 = nothing is
    /// learnt.
    pub curve_keys: usize,
    /// At most one key in this many is followed for the curve.
    pub curve_one_in: u32,
    /// The file to which events are written; empty = none.
    pub trace_file: PathBuf,
    /// The events of one key in this many are written.
    pub trace_one_in: u32,
    /// The file to which requests are written; empty = none.
    pub request_log: PathBuf,
    /// The requests for one key in this many are written.
    pub request_log_one_in: u32,
    /// True if keys are written as they are.
    pub request_log_plain_keys: bool,
    /// The size at which the file is rotated.
    pub request_log_max_bytes: ByteSize,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            latency_one_in: 0,
            slow_log_micros: 10_000,
            slow_log_entries: 128,
            latency_monitor_millis: 0,
            hot_keys: 16,
            hot_keys_one_in: 1_000,
            curve_keys: 2_048,
            curve_one_in: 64,
            trace_file: PathBuf::new(),
            trace_one_in: 1_000,
            request_log: PathBuf::new(),
            request_log_one_in: 100,
            request_log_plain_keys: false,
            request_log_max_bytes: ByteSize::mib(256),
        }
    }
}

/// When memory is given back and taken back: [`millpond::monitor`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MonitorSettings {
    /// The memory that is monitored, if any.
    pub mode: MonitorMode,
    /// How often.
    pub interval_millis: u32,
    /// Below this much available memory it is given back; below this much resident memory it is
    /// taken back.
    pub lower_bytes: ByteSize,
    /// Above this much available memory it is taken back; above this much resident memory it is
    /// given back.
    pub upper_bytes: ByteSize,
    /// How much is given back at once, in percent of the difference between the two bounds.
    pub give_percent: u32,
    /// How much is taken back at once, in percent of the difference between the two bounds.
    pub take_percent: u32,
    /// The most that is given back, in percent of the memory.
    pub max_given_percent: u32,
    /// Over how long the rate is measured by which taking back is slowed; 0 = it is not.
    pub take_window_secs: u32,
    /// Under more pressure than this memory is given back, in cgroups; 0 = pressure is not read.
    pub max_pressure_percent: f64,
}

impl Default for MonitorSettings {
    fn default() -> Self {
        let engine = MonitorConfig::default();
        Self {
            mode: MonitorMode::Off,
            interval_millis: engine.interval.as_millis() as u32,
            lower_bytes: engine.lower,
            upper_bytes: engine.upper,
            give_percent: engine.give_percent,
            take_percent: engine.take_percent,
            max_given_percent: engine.max_given_percent,
            take_window_secs: engine.take_window.as_secs() as u32,
            max_pressure_percent: engine.max_pressure_percent.unwrap_or(0.0),
        }
    }
}

impl MonitorSettings {
    /// As the engine wants it; `None` = there is no monitor.
    pub fn engine(&self) -> Option<MonitorConfig> {
        let mode = match self.mode {
            MonitorMode::Off => return None,
            MonitorMode::FreeMemory => Mode::FreeMemory,
            MonitorMode::ResidentMemory => Mode::ResidentMemory,
            MonitorMode::Cgroup => Mode::Cgroup,
        };
        Some(MonitorConfig {
            mode,
            interval: Duration::from_millis(self.interval_millis.into()),
            lower: self.lower_bytes,
            upper: self.upper_bytes,
            give_percent: self.give_percent,
            take_percent: self.take_percent,
            max_given_percent: self.max_given_percent,
            take_window: Duration::from_secs(self.take_window_secs.into()),
            max_pressure_percent: (self.max_pressure_percent != 0.0).then_some(self.max_pressure_percent),
        })
    }
}

/// Logging, to standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// The least important level that is shown.
    pub level: LogLevel,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: LogLevel::Info }
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

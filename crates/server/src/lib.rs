//! The cache server: listeners, connections, commands, metrics.
//!
//! # Rooms
//! - `net`: sockets and the event loop. One thread per processor has its own epoll instance and its
//!   own connections; a request is received, answered and sent by one thread, which hands nothing
//!   to another.
//! - `turn`, `context`, `output`, `mailbox`, `peer`: what sockets and sessions know of one another.
//! - `session`: the protocol of a connection: `memcached` or `resp`, each with its commands on the
//!   engine; `lookup`, which both use for lookups; `deadline`, expiry times to the millisecond.
//! - `tracking`: which connections have copies of which keys, and the reports of changes to them.
//! - `access`: authentication and permissions of operators.
//! - `shared`: the state that all threads see, and its parts: `settings`, `listener`,
//!   `connections`, `maintenance`.
//! - `tls`: certificates and keys, read and reported; the encryption itself is within `net`.
//! - `admin`: HTTP for operators and for Prometheus.
//! - `preflight`, `open`: checking and opening files and addresses.
//! - `server`, `reload`, `tenant_changes`, `run`: starting, changing settings, stopping; signals.
//!   `activation`, `notify`: the interface to a service manager.
//! - `slow`: the log of slow requests.
//! - `watching`, `requests`, `telemetry`: samples, and what of them is written to files and sent to
//!   a collector.
//!
//! The settings, rules of access as data and the errors of the server are a crate of their own,
//! [`config`]. So are tenants and users, with what each may use and has used: [`tenancy`].
//!
//! # Invariants
//! 1. Nothing that a client sends makes the server hold more than `limits` allow: not in a
//!    connection, and not in all together.
//! 2. A client that is slow, silent or hostile harms itself only: work per turn is bounded, nothing
//!    is read from a client that does not read, and the connection that holds most is closed first
//!    when the memory for connections is spent.
//! 3. No request waits for a lock of the server's that is held for longer than a few instructions.

#![forbid(unsafe_code)]

mod access;
mod activation;
mod admin;
mod banner;
mod changing;
mod connections;
mod context;
mod curves;
mod deadline;
mod described;
mod detect;
mod listener;
mod log;
mod lookup;
mod machine;
mod mailbox;
mod maintain;
mod maintenance;
mod memcached;
mod monitoring;
mod net;
mod notify;
mod open;
mod output;
mod peer;
pub mod preflight;
mod reload;
mod requests;
mod resp;
mod run;
mod server;
mod session;
mod settings;
mod shared;
mod slow;
mod telemetry;
mod tenant_changes;
mod tenant_figures;
mod tls;
mod tracking;
mod turn;
mod watching;

pub use config::acl::hash_password;
pub use config::{self, Config, Error, ErrorKind};
pub use log::LogControl;
pub use run::run;
pub use server::Server;

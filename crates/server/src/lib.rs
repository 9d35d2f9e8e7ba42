//! The cache server: listeners, connections, workers, metrics.
//!
//! # Modules
//! - `net`: sockets and the event loop. One thread per processor has its own epoll instance and its
//!   own connections; it receives, answers and sends their requests, except for slow commands.
//! - `session`: the session of a connection, for the protocol that the listener sets or `detect`
//!   finds. The commands of each protocol are in a crate on which this one does not depend; the
//!   program that starts the server passes them in ([`Protocols`]).
//! - `admin`: HTTP for operators and for Prometheus.
//! - `preflight`, `open`: checking and opening files and addresses.
//! - `server`, `run`: starting, stopping; signals. `maintain`: the thread that maintains the cache.
//!   `activation`, `notify`: the interface to a service manager.
//!
//! The settings, the access rules as data and the server's errors are in the crate [`config`];
//! tenants and users, with their limits and usage, in [`tenancy`]; and the state that all threads
//! share, with the interfaces between connections, turns and protocols, in [`frontend`].
//!
//! # Invariants
//! 1. Nothing that a client sends makes the server hold more than `limits` allow: not in a
//!    connection, and not in all together.
//! 2. A client that is slow, silent or hostile harms itself only: work per turn is bounded, nothing
//!    is read from a client that does not read, and the connection that holds most is closed first
//!    when the memory for connections is spent.
//! 3. No request waits for a lock of the server's that is held for longer than a few instructions.

#![forbid(unsafe_code)]

mod activation;
mod admin;
mod banner;
mod detect;
mod fleet;
mod maintain;
mod net;
mod notify;
mod open;
pub mod preflight;
mod run;
mod server;
mod session;

pub use config::acl::hash_password;
pub use config::{self, Config, Error, ErrorKind};
pub use frontend::instance::{Instance, Observation};
pub use frontend::log::{LastLines, LogControl, LossyLines};
pub use frontend::session::Protocols;
pub use frontend::tenant_figures::TenantFigures;
pub use run::run;
#[doc(hidden)]
pub use run::run_over;
pub use server::Server;

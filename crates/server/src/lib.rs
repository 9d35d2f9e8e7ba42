//! The cache server: listeners, connections, commands, metrics.
//!
//! # Rooms
//! - `net`: sockets and the event loop. One thread per processor has its own epoll instance and its
//!   own connections; a request is received, answered and sent by one thread, which hands nothing
//!   to another.
//! - `session`: the protocol of a connection, which `detect` finds out. The commands of each are a
//!   crate that is not known here; who starts a server names them ([`Protocols`]).
//! - `admin`: HTTP for operators and for Prometheus.
//! - `preflight`, `open`: checking and opening files and addresses.
//! - `server`, `run`: starting, stopping; signals. `maintain`: the thread that maintains the cache.
//!   `activation`, `notify`: the interface to a service manager.
//!
//! The settings, rules of access as data and the errors of the server are a crate of their own,
//! [`config`]. So are tenants and users, with what each may use and has used: [`tenancy`]; and the
//! state that all threads share, with what connections, turns and both protocols need of one
//! another: [`frontend`].
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
pub use frontend::log::LogControl;
pub use frontend::session::Protocols;
pub use run::run;
pub use server::Server;

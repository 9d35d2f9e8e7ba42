//! Those who share the server: what each may use, what it has used, and who is which.
//!
//! A connection is a tenant's at every moment. It begins as its listener's; a user may be
//! another's, and `SELECT` switches to another that the user, or without one the listener, names.
//! If the listener routes by prefixes, the connection has single turns as the tenants of its keys
//! ([`Route`]). Its counts go to its [`Account`]: one for each tenant at each listener, so that
//! both can be distinguished at the price of one counter.
//!
//! # Rooms
//! - `tenant`, `bucket`, `pause`, `details`: a tenant, its rates, and figures of its requests.
//! - `accounts`, [`metrics`], [`times`], [`latency`], [`spikes`]: what is counted, and for whom.
//! - `directory`, `prefixes`, `route`, `departing`: which tenants there are, and whose a key is.
//! - [`key_space`], [`several`]: a tenant's pool, and the gate before its keys.
//! - [`budget`]: the memory for connections, and each tenant's share of it.
//! - [`users`]: authentication and permissions.
//!
//! # Invariants
//! 1. A tenant's pool is there for as long as a connection is the tenant's own: it is removed only
//!    once the tenant has left the directory, no connection can join it ([`Tenant::open`]), and
//!    none is left. A turn by prefix does not keep it: for such a turn a pool that goes is an empty
//!    one.
//! 2. A listener's own tenant is never removed while the server runs.
//!
//! Absences: no socket, no thread, no connection and no listener. Time is a parameter.

#![forbid(unsafe_code)]

mod accounts;
mod bucket;
pub mod budget;
mod departing;
mod details;
mod directory;
pub mod key_space;
pub mod latency;
pub mod metrics;
mod pause;
mod prefixes;
mod route;
pub mod several;
pub mod spikes;
mod tenant;
pub mod times;
pub mod users;

pub use accounts::{Account, Accounts};
pub use departing::Departing;
pub use details::{Counts, Details, Does};
pub use directory::Directory;
pub use pause::{Pause, Paused};
pub use route::{Route, go_on, may_turn_to};
pub use tenant::{Rejected, Spent, Tenant};

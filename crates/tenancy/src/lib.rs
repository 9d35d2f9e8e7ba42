//! Tenants: their limits and usage, and the assignment of connections, users and keys to them.
//!
//! A connection always belongs to one tenant: first that of its listener, then that of the user it
//! authenticates as. `SELECT` switches it to another tenant that the user lists, or, if the user
//! lists none, the listener. If the listener routes by prefix, each turn runs as the tenant of its
//! keys ([`Route`]). Requests are counted in the [`Account`] of the tenant at the listener.
//!
//! # Modules
//! - `tenant`, `bucket`, `pause`, `details`: a tenant, its rates, and figures of its requests.
//! - `accounts`, [`metrics`], [`times`], [`latency`], [`spikes`]: what is counted, and for whom.
//! - `directory`, `prefixes`, `route`, `departing`: which tenants there are, and whose a key is.
//! - [`key_space`], [`multi_key`]: a tenant's pool, and the gate before its keys.
//! - [`budget`]: the memory for connections, and each tenant's share of it.
//! - [`users`]: authentication and permissions.
//!
//! # Invariants
//! 1. A tenant's pool exists as long as a connection belongs to the tenant: it is removed only
//!    after the tenant has left the directory, no connection can join it
//!    ([`Tenant::admit_connection`]), and none is left. A turn that is routed by prefix does not
//!    keep the pool: if the pool is being removed, the turn finds it empty.
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
pub mod multi_key;
mod pause;
mod prefixes;
mod route;
pub mod spikes;
mod tenant;
pub mod times;
pub mod users;

pub use accounts::{Account, Accounts};
pub use departing::Draining;
pub use details::{Counts, Details, KeyEffect};
pub use directory::Directory;
pub use pause::{Pause, Paused};
pub use route::{Route, may_switch_to, note_next_account};
pub use tenant::{Rejected, Spent, Tenant};

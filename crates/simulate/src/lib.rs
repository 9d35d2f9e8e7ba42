//! The simulator: tenants, caches, limits and decisions in virtual time.
//!
//! Nothing here waits and nothing reads a clock but to say how long a run took: a second of virtual
//! time costs what its requests cost to compute. Random numbers are drawn from seeds, so that a run
//! can be repeated.
//!
//! | module | contents |
//! |---|---|
//! | [`scenario`] | a simulated scenario: tenants, memory, limits, backend, control |
//! | [`world`] | the simulation of a scenario under a policy |
//! | [`file`](mod@file) | scenarios as TOML files |
//! | [`command`] | `millpond simulate` |
//! | [`table`] | tables of figures as text |
//! | [`progress`] | a bar that shows how far runs are |

#![forbid(unsafe_code)]

pub mod command;
pub mod file;
pub mod progress;
pub mod scenario;
pub mod table;
pub mod world;

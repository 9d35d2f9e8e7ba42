//! The simulator: tenants, caches, limits and decisions in virtual time; and the papers'
//! experiments, which run on it and on the models of the crates below.
//!
//! Nothing here waits and nothing reads a clock but to say how long a run took: a second of virtual
//! time costs what its requests cost to compute. Random numbers are drawn from seeds, so that a run
//! can be repeated.
//!
//! | module | contents |
//! |---|---|
//! | [`scenario`] | a simulated scenario: tenants, memory, limits, backend, control |
//! | [`world`] | the simulation of a scenario under a policy |
//! | [`experiments`] | the papers' figures as experiments with pass criteria, by name |
//! | [`report`] | the findings of an experiment: criteria with verdicts, tables, charts |
//! | [`runner`] | runs experiments in parallel |
//! | [`file`](mod@file) | scenarios as TOML files |
//! | [`command`] | `millpond experiment` and `millpond simulate` |

#![forbid(unsafe_code)]

pub mod command;
pub mod experiments;
pub mod file;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod world;

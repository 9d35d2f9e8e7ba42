//! The load generator: what drives caches and servers, and measures them.
//!
//! The crate exists so that every figure comes from one place with one set of rules: latencies are
//! measured from the moment a request was due, each report names the machine and what the bench
//! itself costs, and a value that is not the one that was written fails the run instead of being
//! fast.
//!
//! It neither declares requests nor reads traces, which `millpond-workload` does, and it does not
//! look for faults of a cache, which `millpond-trial` does.
//!
//! | module | what it is |
//! |---|---|
//! | [`run`] | driving a workload against a target |
//! | [`targets`] | the engine in this process, memcached, Redis, and nothing at all |
//! | [`cachebench`] | CacheBench configurations as runs |
//! | [`slack`] | memory that size classes leave unused |
//! | [`curve_cost`] | the cost of learning miss-ratio curves |
//! | [`machine`] | the machine under a measurement |
//! | [`command`] | the flags of `millpond bench` that measure, and of `millpond curve` |

#![forbid(unsafe_code)]

pub mod cachebench;
pub mod command;
pub mod curve_cost;
pub mod machine;
pub mod run;
pub mod slack;
pub mod targets;

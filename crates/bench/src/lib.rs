//! Load, replay and reference: what measures Millpond and says whether it is right.
//!
//! The crate exists so that every figure and every claim about hit ratios comes from one place with
//! one set of rules: workloads are declared and seeded, traces are read in the formats in which
//! they are published, latencies are measured from the moment a request was due, and a replay can
//! be set beside a plain simulator that anybody can check by reading. The command line only
//! dispatches to it.

#![forbid(unsafe_code)]

pub mod cachebench;
pub mod check;
pub mod command;
pub mod curve_cost;
pub mod machine;
pub mod run;
pub mod served;
pub mod siege;
pub mod slack;
pub mod soak;
pub mod targets;

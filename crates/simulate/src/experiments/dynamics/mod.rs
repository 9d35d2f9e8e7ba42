//! HARE's applications over time: limiters, changing workloads, migration, by simulation.

mod limiters;

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[
    limiters::H11, //
];

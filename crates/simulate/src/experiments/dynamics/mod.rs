//! HARE's applications over time: limiters, changing workloads, migration, by simulation.

mod bunny;
mod hopper;
mod limiters;
mod phases;

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[
    hopper::H8, //
    bunny::H10,
    limiters::H11,
];

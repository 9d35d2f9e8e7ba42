//! HARE's applications over time: limiters, changing workloads, migration, by simulation; and all policies on traces.

mod bunny;
mod hopper;
mod limiters;
mod phases;
mod traces;

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[
    hopper::H8, //
    bunny::H10,
    limiters::H11,
    traces::T1,
    traces::T2,
    traces::T3,
    traces::T4,
    traces::T5,
    traces::T6,
];

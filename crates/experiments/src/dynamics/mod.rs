//! HARE's applications over time: limiters, changing workloads, migration, by simulation; and all
//! policies on traces.

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
    traces::held_out::T7,
    traces::held_out::T8,
    traces::held_out::T9,
    traces::held_out::T10,
    traces::held_out::T11,
    traces::held_out::T12,
];

//! HOLPACA's throughput maximisation and service levels.

mod engine;
mod instances;
mod intervals;
mod loads;
mod model;
mod phases;
mod promises;
mod solver;
mod throughput;

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[
    throughput::P1,
    solver::P2,
    promises::P3,
    promises::P4,
    phases::P8,
    solver::X30,
    intervals::X31,
    engine::X43,
    loads::X44,
];

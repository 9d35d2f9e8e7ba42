//! HARE's allocations by model: the grants of its engine, without a cache that runs.

mod basics;
mod bunny;
mod hopper;
mod levels;
mod model;
mod random;
mod tails;

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[
    basics::H1, //
    basics::H2,
    random::H3,
    hopper::H4,
    hopper::H6,
    hopper::H7,
    bunny::H9,
    basics::H13,
    tails::X10,
    levels::X11,
];

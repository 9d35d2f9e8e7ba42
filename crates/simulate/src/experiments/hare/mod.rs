//! HARE's allocations by model: what its engine gives to whom, without a cache that runs.

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[];

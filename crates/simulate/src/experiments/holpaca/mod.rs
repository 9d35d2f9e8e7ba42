//! HOLPACA's throughput maximisation and service levels.

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[];

//! How well miss-ratio curves are learnt from a stream of requests.

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[];

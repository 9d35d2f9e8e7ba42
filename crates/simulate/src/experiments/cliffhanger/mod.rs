//! Hill climbing, cliff scaling, Talus, Memshare: partitions of one cache.

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[];

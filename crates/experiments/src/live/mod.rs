//! Real processes: `millpond serve` under load, with the policy that moves memory on.
//!
//! These run in real time, on the clock of a machine that others may share, so they are not among
//! `all`: `millpond experiment run --live` runs them. Figures are ratios within one run.

mod fleet;
mod others;
mod tenants;

use crate::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[tenants::L1, tenants::L2, tenants::L3, fleet::L4, others::L5];

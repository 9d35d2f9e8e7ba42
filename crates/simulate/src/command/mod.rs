//! `millpond experiment …` and `millpond simulate …`: flags, and what they start. Reports go to
//! standard output, progress to standard error.

mod experiment;
mod simulate;

pub use experiment::{ExperimentCommand, execute as experiment};
pub use simulate::{SimulateArgs, execute as simulate};

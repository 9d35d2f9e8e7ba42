//! `millpond experiment …`: flags, and what they set going. Reports go to standard output, progress to standard error.

mod experiment;

pub use experiment::{ExperimentCommand, execute as experiment};

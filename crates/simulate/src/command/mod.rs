//! `millpond simulate …`: flags, and what they start. Reports go to standard output, progress to
//! standard error.

mod simulate;

pub use simulate::{SimulateArgs, execute as simulate};

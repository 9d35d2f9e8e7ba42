//! The cache server.
#![forbid(unsafe_code)]

pub mod config;
mod error;
mod machine;
mod net;

pub use config::Config;
pub use error::{Error, ErrorKind};

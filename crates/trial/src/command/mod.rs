//! Flags of `millpond bench check`, `soak` and `attack` and of `millpond demo`, and what they set
//! going.
//!
//! The binary puts them under its own `bench`, beside those of the load generator. Reports go to a
//! writer, as text or as one JSON object.

pub mod attack;
pub mod check;
pub mod demo;
pub mod soak;
#[cfg(test)]
mod tests;

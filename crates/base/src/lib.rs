//! The foundation of all other crates: byte sizes, addresses, clock, seeded randomness, hashing,
//! counters, words that are read while they are written, the memory ledger, and the only functions
//! that start threads.
//!
//! This crate exists so that time, randomness and spawning are *injected*: `clippy.toml` bans the
//! standard library's own everywhere else, and a test can drive any policy without a thread or a
//! wall clock.

pub mod address;
pub mod bytes;
pub mod clock;
pub mod counter;
pub mod geometry;
pub mod hash;
pub mod ledger;
pub mod machine;
pub mod pin;
pub mod rng;
pub mod sequence;
pub mod striped;
pub mod suggest;
pub mod sync;
pub mod thread;

pub use bytes::ByteSize;
pub use clock::Clock;
pub use ledger::{Ledger, Part};

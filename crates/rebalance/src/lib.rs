//! Decisions about the slabs of a cache, as plain values.
//!
//! | module | decides |
//! |---|---|
//! | [`strategy`] | which size class of a pool gives a slab, and which gets it; what a pool over its limit gives back; whose limit moves to another pool |
//! | [`cliff`] | whether the queues of a pool are split in two, and how |
//! | [`reclaim`] | which pool gives memory that another one is entitled to |
//! | [`sizing`] | which chunk sizes suit what a pool holds |
//!
//! What must hold:
//! 1. No lock, clock, thread or I/O, and no knowledge of an arena. The engine builds a view of its
//!    pools, asks for a decision, and executes it; a simulator or a test does the same.
//! 2. Equal views and seeds give equal decisions.

#![forbid(unsafe_code)]

pub mod cliff;
pub mod reclaim;
pub mod sizing;
pub mod strategy;

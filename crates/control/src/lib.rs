//! The messages of the control plane, and what both ends need to exchange them: no decision is made
//! here.
//!
//! An *agent* speaks for a cache instance, and an *orchestrator* divides memory between the
//! instances of a node (HOLPACA, ICPE 2026, section 3: register, leave, stats, resize). The format
//! is `docs/formats/control.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`v1`] | messages, clients and servers, as generated from `proto/control.proto` |
//! | [`amounts`] | vectors of resources |
//! | [`curve`] | curves in a message |
//! | [`access`] | tokens and certificates |
//! | [`patient`] | connections that hang up on silence, and how many there are |

#![forbid(unsafe_code)]

pub mod access;
pub mod amounts;
pub mod curve;
pub mod patient;

/// Messages and services of the first version of the format.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("millpond.control.v1");
}

/// The revision of the format that this program speaks.
pub const REVISION: u32 = 1;

/// The longest lease of an agent, in milliseconds: an hour. One that is told is cut to it.
pub const LONGEST_LEASE_MILLIS: u32 = 3_600_000;

/// The most terms by which a leader can be later than the latest known one.
const MOST_TERMS: u64 = 1 << 32;

/// Returns whether a leader of `term` comes after the latest known one, of the term `known`. One
/// that skips too many terms does not: nobody can have led so often.
pub fn is_later_term(term: u64, known: u64) -> bool {
    term > known && term <= known.saturating_add(MOST_TERMS)
}

/// The most pools of an instance that are led. Reports of further ones are ignored.
pub const MOST_POOLS: usize = 4_096;

/// The most points of a curve in a report.
pub const MOST_CURVE_POINTS: usize = 128;

/// The longest answer of an agent that an orchestrator reads, in bytes. The whole report of an
/// instance with [`MOST_POOLS`] pools, each with a name of 512 bytes and a curve of
/// [`MOST_CURVE_POINTS`] points, takes 10 MB at most.
pub const LONGEST_ANSWER: usize = 16 << 20;

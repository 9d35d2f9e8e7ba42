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

#![forbid(unsafe_code)]

pub mod access;
pub mod amounts;
pub mod curve;

/// Messages and services of the first version of the format.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("millpond.control.v1");
}

/// The revision of the format that this program speaks.
pub const REVISION: u32 = 1;

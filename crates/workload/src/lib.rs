//! Workloads, traces and reference results: the common base of the load generator and the
//! simulator.
//!
//! A figure of the bench and one of the simulator can be compared only if both draw the same
//! requests, read traces by the same rules and count latencies alike. This crate has these rules in
//! one place: workloads are declared and seeded, traces are read in the formats in which they are
//! published, and a replay through the engine can be compared with a plain simulator that is simple
//! enough to check by reading.
//!
//! The crate is neither a load generator nor a command: it opens no socket, knows no server and
//! reads no flags. Those are `millpond-bench` and `millpond-trial`.
//!
//! | module | what it is |
//! |---|---|
//! | the root | declared workloads: keys, sizes, mixes, and their requests ([`Workload`], [`Sampler`]) |
//! | [`trace`] | readers of recorded requests |
//! | [`generate`](mod@generate) | sample traces from published statistics |
//! | [`value`] | values that a read can verify |
//! | [`replay`](mod@replay) | traces through the engine, and their hit ratios |
//! | [`mod@reference`] | eviction policies as plain simulators |
//! | [`queues`] | LRU queues with shadows, hill climbing and cliff scaling |
//! | [`curves`] | miss-ratio curves of traces, by every estimator and policy |
//! | [`engine_memory`] | the memory that items take in the engine |
//! | [`histogram`] | latencies |
//! | [`length`] | how long runs last, and times as they are written |
//! | [`plot`] | charts |
//! | [`testing`] | published traces for tests |

#![forbid(unsafe_code)]

pub mod curves;
pub mod engine_memory;
pub mod generate;
pub mod histogram;
pub mod length;
pub mod plot;
pub mod queues;
pub mod reference;
pub mod replay;
pub mod testing;
pub mod trace;
pub mod value;
mod workload;

pub use workload::{
    MAX_KEY_BYTES, Mix, OpKind, Operation, Pool, Popularity, Ranks, Sampler, Sizes, Workload, WorkloadError,
    WorkloadSpec, write_key,
};

//! Several orchestrators with one etcd: one is elected, and the registry of instances is kept
//! there.
//!
//! | module | holds |
//! |---|---|
//! | [`candidate`] | the election as a plain value: what to ask of etcd next, and what an answer means |
//! | [`guard`] | the transactions by which a leader saves, and which no former one can carry out |
//! | [`keys`] | keys and values (`docs/formats/control.md`) |
//! | [`client`] | the way to the members of etcd |
//! | [`reign`] | a leadership with a clock and sockets |
//!
//! Invariants:
//! 1. One process leads at a time, by its own clock: it counts its lease from before it asked for
//!    it, and by an eighth shorter, and etcd deletes its key only once the lease is over.
//! 2. Terms rise. A term is saved before it is used, in a transaction that only the leader of this
//!    moment can carry out, after all that were saved before.
//! 3. A transaction of a leader compares the revision of the leader's key, and changes it. So none
//!    of a former leader is carried out, and of two of one leader the later never before the
//!    earlier.
//!
//! Safety rests on 2 and 3 and on the order of requests at the agents, and not on clocks: a process
//! that is stopped at any point, and goes on when another leads, can save nothing, and agents obey
//! the later term.
//!

pub(crate) mod candidate;
pub(crate) mod client;
pub(crate) mod guard;
pub(crate) mod keys;
pub(crate) mod reign;

pub use client::EtcdConfig;

use self::messages::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};

/// A part of etcd's messages, as `proto/etcd.proto` has them.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub(crate) mod messages {
    tonic::include_proto!("etcdserverpb");
}

/// A request to etcd.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    Grant(LeaseGrantRequest),
    KeepAlive(LeaseKeepAliveRequest),
    Revoke(LeaseRevokeRequest),
    Range(RangeRequest),
    Txn(TxnRequest),
}

/// The answer of etcd.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Granted(LeaseGrantResponse),
    KeptAlive(LeaseKeepAliveResponse),
    Revoked,
    Range(RangeResponse),
    Txn(TxnResponse),
}

/// The reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// No member answered in time, or none can: it may have been carried out, or may yet be.
    #[error("etcd does not answer: {0}")]
    Silent(String),
    /// The lease that it names is over: it was not carried out.
    #[error("the lease in etcd is over")]
    NoLease,
    /// etcd refuses it: it was not carried out.
    #[error("etcd refuses: {0}")]
    Refused(String),
}

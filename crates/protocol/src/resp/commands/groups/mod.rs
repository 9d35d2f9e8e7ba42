//! The rows, a file for each group of Redis's documentation.

pub(super) mod bitmap;
pub(super) mod connection;
pub(super) mod generic;
pub(super) mod hash;
pub(super) mod list;
pub(super) mod pubsub;
pub(super) mod server;
pub(super) mod set;
pub(super) mod sorted_set;
pub(super) mod string;
pub(super) mod transactions;

//! Execution of Redis commands: strings, collections and keys, in RESP2 and RESP3.
//!
//! A session ([`new_session`]) is given the input of a connection and answers every whole request
//! in it.
//! Consecutive `GET`s and the keys of `MGET` are batched. Commands whose change to an item depends
//! on its state are optimistic: they read the item, make a new one, replace exactly the item that
//! was read, and retry if that item is no longer there. Commands that must not be interleaved with
//! others – `EXEC`, and commands that set several keys at once – close the gate of the key space
//! ([`base::pin::Gate`]).
//!
//! Replies and errors are those of Redis 7.0; `docs/resp.md` lists every command and the
//! differences.

#![forbid(unsafe_code)]

mod acl;
mod active_turn;
mod arguments;
mod bits;
mod client;
mod clients;
mod collections;
mod commands;
mod connection;
mod dispatch;
mod expire;
mod gather;
mod hashes;
mod incoming;
mod info;
mod introspect;
mod keys;
mod latency;
mod lcs;
mod listing;
mod lists;
mod notes;
mod numbers;
mod object;
mod pause;
mod pubsub;
mod server;
mod session;
mod set;
mod sets;
mod settings;
mod several;
mod slow;
mod sorted;
mod sorting;
mod strings;
mod tenant;
mod timing;
mod tracking;
mod transaction;
mod writer;

pub use self::session::new_session;

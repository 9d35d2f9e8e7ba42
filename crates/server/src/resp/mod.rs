//! What a Redis client is answered: strings, collections and keys, in RESP2 and RESP3.
//!
//! A [`Session`] is given what a connection has received and answers every whole request in it.
//! `GET`s that follow one another and the keys of `MGET` are gathered and looked up at once.
//! Commands that change an item depending on what it is are optimistic: read, make a new item, put
//! it in place of exactly the one that was read, and begin again if that is no longer there. What
//! must not be interleaved with – `EXEC`, and commands that set several keys at once – closes the
//! gate of the key space ([`base::pin::Gate`]).
//!
//! Replies and errors are those of Redis 7.0; `docs/resp.md` has every command, and what differs.

mod acl;
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
mod long;
mod notes;
mod numbers;
mod object;
mod pause;
mod pubsub;
mod round;
mod server;
mod session;
mod set;
mod sets;
mod settings;
mod several;
mod sorted;
mod sorting;
mod strings;
mod tenant;
mod timing;
mod tracking;
mod transaction;
mod writer;

pub(crate) use self::session::Session;

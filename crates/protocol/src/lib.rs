//! The wire protocols that Millpond speaks: bytes to values and values to bytes, without I/O.
//!
//! The crate exists apart from the server so that the bytes on the wire can be tested, fuzzed and
//! measured alone, and so that the load bench and the wire tests use the same words as the server.
//! It knows nothing of the engine.
//!
//! - [`memcached`]: the classic text commands, the meta commands and the binary protocol, for
//!   servers and for clients.
//! - [`resp`]: the protocol of Redis, versions 2 and 3, for servers.
//! - [`http`]: how a request that was meant for a web server is recognised.
//!
//! Everything here reads bytes that strangers sent: there is no `unsafe`, and what could panic is
//! denied by lints.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic
    )
)]

pub mod http;
pub mod memcached;
pub mod resp;

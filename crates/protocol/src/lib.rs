//! The wire protocols that Millpond speaks: bytes to values and values to bytes, without I/O.
//!
//! The crate is separate from the server so that the bytes on the wire can be tested, fuzzed and
//! measured alone, and so that the load bench and the wire tests share the server's types. It knows
//! nothing of the engine.
//!
//! - [`memcached`]: the classic text commands, the meta commands and the binary protocol, for
//!   servers and for clients.
//! - [`resp`]: the protocol of Redis, versions 2 and 3, for servers.
//! - [`http`]: how a request that was meant for a web server is recognised.
//!
//! Everything here reads bytes from unauthenticated clients: there is no `unsafe`, and lints deny
//! whatever could panic.

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

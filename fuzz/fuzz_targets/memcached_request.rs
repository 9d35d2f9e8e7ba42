//! Requests of memcached's protocol: however a connection's bytes are cut, and whether data is
//! waited for or taken piece by piece, the same requests and refusals come out; and a request that
//! is composed and parsed again is the same request.
//!
//! The first byte of the input chooses limits and cuts, the rest is what the connection sends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_protocol::memcached::Limits;

#[path = "../../crates/protocol/tests/support/mod.rs"]
mod support;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, sent)) = input.split_first() else { return };
    let base = if choice & 0x80 == 0 { support::small_limits() } else { Limits::default() };
    let limits = Limits { skip_refused_data: choice & 0x40 != 0, ..base };
    let cuts = [usize::from(choice & 7) + 1, usize::from(choice >> 3 & 7) * 5 + 1];
    support::check_fragments(sent, &cuts, &limits);
    support::check_round_trip(sent, &limits);
});

//! memcached's binary protocol: however a connection's bytes are cut, and whether data is waited
//! for or taken piece by piece, the same requests and refusals come out; and any bytes are read as
//! an answer or refused.
//!
//! The first byte of the input chooses the cut, the rest is what the connection sends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_protocol::memcached::binary::{Answer, HEADER_BYTES};

#[path = "../../crates/protocol/tests/support/binary.rs"]
mod support;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, sent)) = input.split_first() else { return };
    let whole = support::seen(sent, usize::MAX, false);
    assert_eq!(support::seen(sent, 1, false), whole);
    let step = usize::from(choice) % 64 + 1;
    assert_eq!(support::seen(sent, step, false), whole);
    // The remainder is then not the bytes of a buffer.
    assert_eq!(support::seen(sent, step, true).0, whole.0);
    if let Ok(Some((answer, len))) = Answer::read(sent) {
        assert!(len <= sent.len());
        assert_eq!(len, HEADER_BYTES + answer.extras.len() + answer.key.len() + answer.value.len());
    }
});

//! Answers of a memcached, as a client reads them: however they are cut, the same answers come out.
//!
//! The first byte of the input chooses the cuts, the rest is what the server sends.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/protocol/tests/support/mod.rs"]
mod support;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, sent)) = input.split_first() else { return };
    let whole = support::responses(sent, &[]);
    assert_eq!(support::responses(sent, &[1]), whole);
    let cuts = [usize::from(choice & 15) + 1, usize::from(choice >> 4) * 3 + 1];
    assert_eq!(support::responses(sent, &cuts), whole);
});

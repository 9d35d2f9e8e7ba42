//! The binary protocol: properties of every input, however it is cut.

use millpond_protocol::memcached::binary::{Answer, Frame, HEADER_BYTES, Opcode};
use proptest::prelude::*;

#[path = "support/binary.rs"]
mod support;

use support::seen;

fn sent(opcode: Opcode, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Frame { opcode: opcode.0, opaque: 0xCAFE, cas, extras, key, value }.write(&mut out);
    out
}

#[test]
fn an_unknown_request_is_passed_over_whole() {
    let input = [
        sent(Opcode(0x55), b"", b"key", b"junk", 0),
        sent(Opcode::SASL_AUTH, b"", b"PLAIN", b"\0a\0b", 0),
        sent(Opcode::NOOP, b"", b"", b"", 0),
    ]
    .concat();
    for step in [1, 7, input.len()] {
        let (events, left) = seen(&input, step, false);
        assert_eq!((events.len(), left), (3, 0), "{events:?}");
        assert!(events[2].contains("Noop"), "{events:?}");
    }
}

#[test]
fn the_data_of_a_value_that_is_too_large_is_passed_over() {
    let more = sent(Opcode::ADD, &[0; 8], b"k", &[b'v'; 200 - 59], 0);
    let input = [more, sent(Opcode::NOOP, b"", b"", b"", 0)].concat();
    let (events, left) = seen(&input, 10, false);
    assert_eq!((events.len(), left), (2, 0), "{events:?}");
}

/// Requests that are right more often than not, and bytes that are anything.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let frame = (
        any::<u8>().prop_map(|byte| byte % 0x28),
        prop::sample::select(&[0_usize, 0, 4, 8, 20, 3][..]),
        prop::sample::select(&[0_usize, 1, 1, 3, 250, 251][..]),
        prop::sample::select(&[0_usize, 0, 0, 1, 5, 60, 300][..]),
        any::<u64>(),
    );
    let frame = frame.prop_map(|(opcode, extras, key, value, cas)| {
        let (extras, key, value) = (vec![0; extras], vec![b'k'; key], vec![b'v'; value]);
        sent(Opcode(opcode), &extras, &key, &value, cas)
    });
    let noise = prop::collection::vec(any::<u8>(), 0..40);
    let piece = prop_oneof![8 => frame, 1 => noise];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn cuts_change_nothing(input in stream(), step in 1_usize..60) {
        let whole = seen(&input, usize::MAX, false);
        prop_assert_eq!(&seen(&input, 1, false), &whole);
        prop_assert_eq!(&seen(&input, step, false), &whole);
        // Data that is taken as it comes makes the same requests; the remainder is then not the
        // bytes of a buffer.
        prop_assert_eq!(&seen(&input, step, true).0, &whole.0);
    }

    #[test]
    fn any_bytes_are_an_answer_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(Some((answer, len))) = Answer::read(&bytes) {
            prop_assert!(len <= bytes.len());
            prop_assert_eq!(len, HEADER_BYTES + answer.extras.len() + answer.key.len() + answer.value.len());
        }
    }
}

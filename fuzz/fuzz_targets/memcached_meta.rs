//! Meta commands and their answers: what a server sends back for the flags of a request, a client
//! reads, and finds its opaque token and its key again.
//!
//! The first byte of the input chooses the command, the second what is known of the item, the rest
//! is key and flags.

#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_protocol::memcached::{
    KeyBuf, MetaFacts, MetaFlags, MetaMarks, MetaStatus, Parse, ParsedResponse, Parser, Remaining, Request,
    Response, ResponseParser, reply,
};

#[path = "../../crates/protocol/tests/support/mod.rs"]
mod support;

fuzz_target!(|input: &[u8]| {
    let [command, known, rest @ ..] = input else { return };
    let mut sent = vec![b'm', b"gsdae"[usize::from(*command) % 5], b' '];
    sent.extend_from_slice(rest);
    sent.extend_from_slice(b"\r\nabc\r\n");
    let limits = support::small_limits();
    support::check_fragments(&sent, &[1], &limits);
    support::check_round_trip(&sent, &limits);
    let Parse::Request { request, .. } = Parser::new(limits).parse(&sent) else { return };
    let mut scratch = KeyBuf::default();
    match &request {
        Request::Meta(request) => {
            let (key, base64) = (request.key.bytes(&mut scratch), request.key.is_base64());
            check_answer(key, base64, &request.flags, *known);
        }
        Request::Store(store) => {
            let (key, base64) = (store.header.key.bytes(&mut scratch), store.header.key.is_base64());
            check_answer(key, base64, &store.header.meta.unwrap_or_default(), *known);
        }
        _ => {}
    }
});

/// Composes the answer to these flags, and reads it.
fn check_answer(key: &[u8], key_is_base64: bool, flags: &MetaFlags<'_>, known: u8) {
    let facts = MetaFacts {
        key,
        key_is_base64,
        size: (known & 1 != 0).then_some(3),
        ttl: (known & 2 != 0).then_some(if known & 64 == 0 {
            Remaining::Forever
        } else {
            Remaining::Secs(7)
        }),
        cas: (known & 4 != 0).then_some(u64::MAX),
        client_flags: (known & 8 != 0).then_some(u32::MAX),
        idle_secs: (known & 16 != 0).then_some(0),
        fetched: (known & 32 != 0).then_some(known & 64 == 0),
        marks: MetaMarks { already_won: known & 1 != 0, stale: known & 2 != 0, won: known & 4 != 0 },
    };
    let status = if known & 128 == 0 { MetaStatus::Miss } else { MetaStatus::Value { len: 3 } };
    let mut answer = Vec::new();
    reply::meta(&mut answer, status, flags, &facts);
    if known & 128 != 0 {
        reply::meta_data(&mut answer, b"x\r\n");
    }
    // A server that puts control characters into a line it sends back cannot be read; memcached
    // lets them through as well.
    if key.contains(&b'\n') || flags.iter().any(|flag| flag.argument.contains(&b'\n')) {
        return;
    }
    let ParsedResponse::Response { response, consumed } = ResponseParser::default().parse(&answer) else {
        panic!("{} is an answer", answer.escape_ascii());
    };
    assert_eq!(consumed, answer.len());
    let Response::Meta { status: read, flags: back, data } = response else { panic!("{response:?}") };
    assert_eq!((read, data), (status, if known & 128 == 0 { &b""[..] } else { b"x\r\n" }));
    assert_eq!(back.find(b'O'), flags.opaque());
    if flags.has(b'k') && !key_is_base64 {
        assert_eq!(back.find(b'k'), Some(key));
    }
    assert_eq!(back.find(b'k').is_some(), flags.has(b'k'));
    assert_eq!(back.find(b'c').is_some(), flags.has(b'c') && known & 4 != 0);
}

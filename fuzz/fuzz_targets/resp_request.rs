//! Requests of RESP: however a connection's bytes are cut, the same requests and refusals come out,
//! each argument as long as the limits allow; and what was read, composed again, is read as the
//! same.
//!
//! The first byte of the input chooses limits and cuts, the rest is what the connection sends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_protocol::resp::{Limits, Parse, Parser, reply};

/// The events of a stream.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Request(Vec<Vec<u8>>),
    TooLarge,
    Refused(String),
}

fn hear(sent: &[u8], cut: usize, limits: &Limits) -> Vec<Heard> {
    let mut parser = Parser::new(limits.clone());
    let (mut heard, mut pending) = (Vec::new(), Vec::new());
    for piece in sent.chunks(cut.max(1)) {
        pending.extend_from_slice(piece);
        loop {
            let consumed = match parser.parse(&pending) {
                Parse::Request { consumed } => {
                    let args =
                        (0..parser.arg_count()).map(|index| parser.arg(&pending, index).unwrap().to_vec());
                    heard.push(Heard::Request(args.collect()));
                    consumed
                }
                Parse::Words { consumed, words } => {
                    heard.push(Heard::Request(words));
                    consumed
                }
                Parse::Nothing { consumed } => consumed,
                Parse::TooLarge { consumed } => {
                    heard.push(Heard::TooLarge);
                    consumed
                }
                Parse::Incomplete => break,
                Parse::Refused(error) => {
                    heard.push(Heard::Refused(error.to_string()));
                    return heard;
                }
            };
            assert!(consumed > 0 || parser.arg_count() == 0, "a request has bytes");
            pending.drain(..consumed);
        }
    }
    heard
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, sent)) = input.split_first() else { return };
    let limits = if choice & 0x80 == 0 {
        Limits {
            max_args: 8,
            max_bulk_bytes: 60,
            max_line_bytes: 40,
            max_kept_bulk_bytes: 30,
            max_request_bytes: 120,
        }
    } else {
        Limits::default()
    };
    let whole = hear(sent, sent.len(), &limits);
    assert_eq!(hear(sent, usize::from(choice & 0x7f) + 1, &limits), whole);
    assert_eq!(hear(sent, 1, &limits), whole);
    for heard in &whole {
        if let Heard::Request(args) = heard {
            let mut composed = Vec::new();
            reply::request(&mut composed, args.iter().map(Vec::as_slice));
            let again = hear(&composed, composed.len(), &Limits::default());
            assert_eq!(again, [Heard::Request(args.clone())]);
        }
    }
});

//! The binary protocol's part of what property tests and fuzz targets share: a connection that cuts
//! its input as told.

#![allow(dead_code, reason = "every user needs a part of it")]

use millpond_protocol::memcached::Limits;
use millpond_protocol::memcached::binary::{HEADER_BYTES, Packet, Parse, Parser, Request};

/// Small limits, so that short inputs reach them.
pub(crate) fn small_limits() -> Limits {
    Limits { max_item_bytes: 200, ..Limits::default() }
}

/// Parses `input`, cut into pieces of `step` bytes. Returns every parse as text, and the number of
/// bytes that remain.
pub(crate) fn seen(input: &[u8], step: usize, take_data: bool) -> (Vec<String>, usize) {
    let mut parser = Parser::new(small_limits());
    let (mut events, mut buffer) = (Vec::new(), Vec::new());
    // The request whose data is taken, and what of it is missing.
    let mut taking: Option<(String, usize, Vec<u8>)> = None;
    for piece in input.chunks(step.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            if let Some((store, missing, mut data)) = taking.take() {
                let some = missing.min(buffer.len());
                data.extend(buffer.drain(..some));
                if some < missing {
                    taking = Some((store, missing - some, data));
                    break;
                }
                events.push(format!("{store} {data:?}"));
                continue;
            }
            let consumed = match parser.parse(&buffer) {
                Parse::Incomplete { needed } => {
                    assert!(needed > 0);
                    break;
                }
                Parse::NeedData { store, header_len, missing } => {
                    assert!(missing > 0 && missing <= store.header.data_len);
                    assert!(header_len <= HEADER_BYTES + 8 + 250);
                    if !take_data {
                        break;
                    }
                    let data_len = store.header.data_len;
                    taking = Some((format!("{:?} {:?}", store.head, store.header), data_len, Vec::new()));
                    header_len
                }
                Parse::Request { packet: Packet { head, request: Request::Store(store), .. }, consumed } => {
                    events.push(format!("{head:?} {:?} {:?}", store.header, store.data));
                    consumed
                }
                Parse::Request { packet, consumed } => {
                    events.push(format!("{packet:?}"));
                    consumed
                }
                Parse::TooLarge { store, consumed } => {
                    events.push(format!("too large {store:?}"));
                    consumed
                }
                Parse::Refused { refusal, consumed } => {
                    events.push(format!("{refusal:?}"));
                    if refusal.close {
                        return (events, 0);
                    }
                    consumed
                }
                Parse::Skipped { consumed } => consumed,
            };
            assert!((1..=buffer.len()).contains(&consumed));
            buffer.drain(..consumed);
        }
    }
    (events, buffer.len() + parser.skipping())
}

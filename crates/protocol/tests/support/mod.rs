//! Support for the property tests, the wire tests and the fuzz targets: a connection that cuts its
//! input as told, and oracles that must hold for every input. Only the public interface is used.

#![allow(dead_code, reason = "every user needs a part of it")]

use millpond_protocol::memcached::{
    DataBlock, DataState, KEY_MAX_BYTES, KeyBuf, Limits, Parse, ParsedResponse, Parser, Refusal, Request,
    ResponseLimits, ResponseParser, StoreHeader, StoreRequest, WireError, command,
};

/// Small limits, so that short inputs reach them.
pub(crate) fn small_limits() -> Limits {
    Limits {
        max_line_bytes: 300,
        max_get_line_bytes: 600,
        max_keys: 20,
        max_item_bytes: 500,
        skip_refused_data: false,
    }
}

/// The handling of a storage command whose data has not all arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Waits in the buffer.
    Wait,
    /// Takes it piece by piece.
    Take,
}

/// All events of a connection, as text, and the number of bytes that remain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub events: Vec<String>,
    pub left_over: usize,
    pub skipping: usize,
    pub closed: bool,
}

/// Feeds `input` in pieces; `cuts` are the lengths of the pieces, used over and over. No cuts is
/// one piece.
pub(crate) fn connection(input: &[u8], cuts: &[usize], limits: &Limits, data: Data) -> Seen {
    let mut parser = Parser::new(limits.clone());
    let mut buffer: Vec<u8> = Vec::new();
    let mut pending: Option<(DataBlock, Pending)> = None;
    let mut seen = Seen::default();
    for piece in pieces(input, cuts) {
        buffer.extend_from_slice(piece);
        while let Some(consumed) = step(&mut parser, &buffer, &mut pending, data, &mut seen) {
            assert!(consumed > 0, "a step consumes something");
            assert!(consumed <= buffer.len(), "a step consumes what is there");
            buffer.drain(..consumed);
            if seen.closed {
                return seen;
            }
        }
    }
    seen.left_over = buffer.len();
    seen.skipping = parser.skipping();
    seen
}

/// A storage command whose data is taken piece by piece.
struct Pending {
    line: Vec<u8>,
    data: Vec<u8>,
    noreply: bool,
}

/// One parse. `None`: nothing more can be done with what is there.
fn step(
    parser: &mut Parser,
    buffer: &[u8],
    pending: &mut Option<(DataBlock, Pending)>,
    data: Data,
    seen: &mut Seen,
) -> Option<usize> {
    if let Some((block, command)) = pending {
        let part = block.take(buffer);
        command.data.extend_from_slice(part.data);
        let consumed = part.consumed;
        if let DataState::Missing(missing) = part.state {
            assert!(missing > 0);
            return (consumed > 0).then_some(consumed);
        }
        seen.events.push(finished(command, part.state, parser.limits()));
        *pending = None;
        return if consumed == 0 { step(parser, buffer, pending, data, seen) } else { Some(consumed) };
    }
    match parser.parse(buffer) {
        Parse::Incomplete { needed } => {
            assert!(needed > 0);
            None
        }
        Parse::Request { request, consumed } => {
            check_request(&request);
            seen.events.push(format!("{request:?}"));
            Some(consumed)
        }
        Parse::NeedData { header, header_len, missing } => {
            check_header(&header);
            assert_eq!(header_len + header.data_len + 2, buffer.len() + missing, "{header:?}");
            assert!(missing > 0);
            if data == Data::Wait {
                return None;
            }
            let line = buffer[..header_len].to_vec();
            let noreply = header.noreply;
            *pending = Some((DataBlock::new(header.data_len), Pending { line, data: Vec::new(), noreply }));
            Some(header_len)
        }
        Parse::TooLarge { header, refusal, consumed } => {
            check_header(&header);
            seen.events.push(format!("too large: {header:?} {refusal:?}"));
            Some(consumed)
        }
        Parse::Refused { refusal, consumed } => {
            seen.events.push(format!("{refusal:?}"));
            seen.closed = refusal.close;
            Some(consumed)
        }
        Parse::Skipped { consumed } => Some(consumed),
    }
}

/// The event of a storage command whose data was taken piece by piece: the same as if it had come
/// in one.
fn finished(command: &Pending, state: DataState, limits: &Limits) -> String {
    if state == DataState::Bad {
        let error = WireError::BadDataChunk;
        return format!("{:?}", Refusal { error, quiet: command.noreply, close: false });
    }
    match Parser::new(limits.clone()).parse(&command.line) {
        Parse::NeedData { header, .. } => {
            format!("{:?}", Request::Store(StoreRequest { header, data: &command.data }))
        }
        other => panic!("a line that needed data needs it still: {other:?}"),
    }
}

fn pieces<'a>(input: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = input;
    let mut cuts = cuts.iter().cycle();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = cuts.next().map_or(rest.len(), |&cut| cut.clamp(1, rest.len()));
        let (piece, after) = rest.split_at(len);
        rest = after;
        Some(piece)
    })
}

/// Checks the promises of every request.
pub(crate) fn check_request(request: &Request<'_>) {
    match request {
        Request::Get(get) => {
            assert_eq!(get.keys.count(), get.keys.len());
            assert!(get.touch.is_some() || get.keys.len() > 0);
            for key in get.keys {
                check_key_bytes(key);
            }
        }
        Request::Store(store) => {
            check_header(&store.header);
            assert_eq!(store.header.data_len, store.data.len());
        }
        Request::Delete(request) => check_key_bytes(request.key.wire()),
        Request::Arithmetic(request) => check_key_bytes(request.key.wire()),
        Request::Touch(request) => check_key_bytes(request.key.wire()),
        Request::Meta(request) => {
            check_key_bytes(request.key.wire());
            check_key_bytes(request.key.bytes(&mut KeyBuf::default()));
        }
        _ => {}
    }
}

fn check_header(header: &StoreHeader<'_>) {
    check_key_bytes(header.key.wire());
    let mut scratch = KeyBuf::default();
    assert_eq!(header.key.bytes(&mut scratch).len(), header.key.byte_len());
    assert!(!header.noreply || header.meta.is_none());
}

fn check_key_bytes(key: &[u8]) {
    assert!((1..=KEY_MAX_BYTES).contains(&key.len()), "a key of {} bytes", key.len());
}

/// However the input is cut and its data taken, a connection sees the same.
pub(crate) fn check_fragments(input: &[u8], cuts: &[usize], limits: &Limits) -> Seen {
    let whole = connection(input, &[], limits, Data::Wait);
    assert_eq!(connection(input, cuts, limits, Data::Wait), whole, "cut at {cuts:?}");
    let taken = connection(input, cuts, limits, Data::Take);
    // Data that was taken early is not left over; all else is the same.
    assert_eq!((&taken.events, taken.closed), (&whole.events, whole.closed), "taken, cut at {cuts:?}");
    whole
}

/// A parsed request that is composed and parsed again is the same request. Composing ends lines in
/// `\r\n` and spells out a delay of 0, so that the line may grow by a few bytes.
pub(crate) fn check_round_trip(input: &[u8], limits: &Limits) {
    let Parse::Request { request, .. } = Parser::new(limits.clone()).parse(input) else { return };
    let mut composed = Vec::new();
    command::request(&mut composed, &request);
    let longer = |bytes: usize| bytes + 3;
    let (max_line_bytes, max_get_line_bytes) =
        (longer(limits.max_line_bytes), longer(limits.max_get_line_bytes));
    let mut parser = Parser::new(Limits { max_line_bytes, max_get_line_bytes, ..limits.clone() });
    match parser.parse(&composed) {
        Parse::Request { request: again, consumed } => {
            assert_eq!(again_as(&again), again_as(&request), "{}", composed.escape_ascii());
            assert_eq!(consumed, composed.len());
        }
        other => panic!("{} became {other:?}", composed.escape_ascii()),
    }
}

/// A request as text; the flag `S` of the first releases, which composing leaves out, is left out.
fn again_as(request: &Request<'_>) -> String {
    let Request::Store(StoreRequest { header, data }) = request else { return format!("{request:?}") };
    let flags: Vec<_> =
        header.meta.iter().flat_map(|flags| flags.iter()).filter(|flag| flag.letter != b'S').collect();
    format!("{:?} {flags:?} {data:?}", StoreHeader { meta: None, ..*header })
}

/// Reads answers in pieces; returns them as text, the error if any, and the number of bytes that
/// remain.
pub(crate) fn responses(input: &[u8], cuts: &[usize]) -> (Vec<String>, usize) {
    let mut parser = ResponseParser::new(ResponseLimits { max_line_bytes: 400, max_value_bytes: 1_000 });
    let mut buffer: Vec<u8> = Vec::new();
    let mut seen = Vec::new();
    for piece in pieces(input, cuts) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&buffer) {
                ParsedResponse::Incomplete { needed } => {
                    assert!(needed > 0);
                    break;
                }
                ParsedResponse::Response { response, consumed } => {
                    seen.push(format!("{response:?}"));
                    assert!(consumed > 0 && consumed <= buffer.len());
                    buffer.drain(..consumed);
                }
                ParsedResponse::Invalid(error) => {
                    seen.push(format!("{error}"));
                    return (seen, 0);
                }
            }
        }
    }
    (seen, buffer.len())
}

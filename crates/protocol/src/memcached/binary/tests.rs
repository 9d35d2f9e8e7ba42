use super::*;
use crate::memcached::{Limits, StoreCommand};

fn limits() -> Limits {
    Limits { max_item_bytes: 200, ..Limits::default() }
}

fn sent(opcode: Opcode, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Frame { opcode: opcode.0, opaque: 0xCAFE, cas, extras, key, value }.write(&mut out);
    out
}

fn request(input: &[u8]) -> Packet<'_> {
    match Parser::new(limits()).parse(input) {
        Parse::Request { packet, consumed } => {
            assert_eq!(consumed, input.len());
            packet
        }
        other => panic!("{other:?}"),
    }
}

fn refusal(input: &[u8]) -> Refusal {
    match Parser::new(limits()).parse(input) {
        Parse::Refused { refusal, .. } => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn extras_say_what_they_say() {
    let extras = [0, 0, 0, 5, 0, 0, 0, 60];
    let input = sent(Opcode::SET_Q, &extras, b"k", b"val", 0);
    let Packet { head, quiet: true, request: Request::Store(store) } = request(&input) else { panic!() };
    assert_eq!(head, Head { opcode: Opcode::SET_Q, opaque: 0xCAFE });
    let header = store.header;
    assert_eq!((header.client_flags, header.exptime, header.compare_cas), (5, Exptime(60), None));
    assert_eq!((header.key.wire(), store.data, header.noreply), (&b"k"[..], &b"val"[..], true));

    let extras = [&7_u64.to_be_bytes()[..], &9_u64.to_be_bytes(), &[0, 0, 0, 1]].concat();
    let input = sent(Opcode::DECREMENT, &extras, b"k", b"", 3);
    let Request::Arithmetic(change) = request(&input).request else { panic!() };
    assert_eq!((change.delta, change.create, change.compare_cas), (7, Some((Exptime(1), 9)), Some(3)));
    let extras = [&extras[..16], &[0xFF; 4]].concat();
    let input = sent(Opcode::INCREMENT, &extras, b"k", b"", 0);
    let Request::Arithmetic(change) = request(&input).request else { panic!() };
    assert_eq!((change.create, change.compare_cas), (None, None), "this time creates nothing");

    let input = sent(Opcode::GAT_KQ, &[0, 0, 0, 9], b"k", b"", 0);
    let Packet { quiet: true, request: Request::Get(get), .. } = request(&input) else { panic!() };
    assert_eq!((get.touch, get.with_key), (Some(Exptime(9)), true));
}

#[test]
fn a_token_makes_a_replacement_a_comparison() {
    for (opcode, command) in [
        (Opcode::SET, StoreCommand::Cas),
        (Opcode::ADD, StoreCommand::Cas),
        (Opcode::REPLACE_Q, StoreCommand::Cas),
        (Opcode::APPEND, StoreCommand::Append),
        (Opcode::PREPEND_Q, StoreCommand::Prepend),
    ] {
        let extras: &[u8] = if command == StoreCommand::Cas { &[0; 8] } else { &[] };
        let input = sent(opcode, extras, b"k", b"v", 8);
        let Request::Store(store) = request(&input).request else { panic!() };
        assert_eq!((store.header.command, store.header.compare_cas), (command, Some(8)));
    }
}

/// As memcached 1.6.18 was seen to do, but for what stands behind a touch.
#[test]
fn lengths_that_do_not_fit_the_opcode_are_refused() {
    let four = &[0; 4][..];
    let refused = [
        (Opcode::GET, &b""[..], &b""[..], &b""[..]),
        (Opcode::GET, four, b"k", b""),
        (Opcode::GET, b"", b"k", b"v"),
        (Opcode::SET, b"", b"k", b"v"),
        (Opcode::SET, four, b"k", b"v"),
        (Opcode::SET, &[0; 8], b"", b"v"),
        (Opcode::APPEND, four, b"k", b"v"),
        (Opcode::APPEND, b"", b"", b"v"),
        (Opcode::DELETE, b"", b"", b""),
        (Opcode::DELETE, b"", b"k", b"v"),
        (Opcode::INCREMENT, four, b"k", b""),
        (Opcode::INCREMENT, &[0; 20], b"k", b"v"),
        (Opcode::TOUCH, b"", b"k", b""),
        (Opcode::TOUCH, four, b"k", b"v"),
        (Opcode::FLUSH, b"", b"k", b""),
        (Opcode::FLUSH, &[0; 2], b"", b""),
        (Opcode::NOOP, b"", b"k", b""),
        (Opcode::VERSION, b"", b"k", b""),
        (Opcode::QUIT, b"", b"", b"v"),
        (Opcode::STAT, four, b"", b""),
        (Opcode::SASL_LIST, b"", b"k", b""),
        (Opcode::SASL_AUTH, b"", b"", b"v"),
        (Opcode::GET, b"", &[b'k'; 251], b""),
        (Opcode(0x55), b"", &[b'k'; 251], b""),
    ];
    for (opcode, extras, key, value) in refused {
        let input = sent(opcode, extras, key, value, 0);
        let answer = Some((Head { opcode, opaque: 0xCAFE }, Status::Invalid));
        assert_eq!(refusal(&input), Refusal { answer, close: true }, "{opcode:?}");
        assert_eq!(refusal(&input[..HEADER_BYTES]), Refusal { answer, close: true }, "the header is enough");
    }
}

#[test]
fn what_contradicts_itself_or_begins_otherwise_ends_the_connection() {
    let mut input = sent(Opcode::GET, b"", b"abc", b"", 0);
    input[11] = 2;
    let answer = Some((Head { opcode: Opcode::GET, opaque: 0xCAFE }, Status::UnknownCommand));
    assert_eq!(refusal(&input), Refusal { answer, close: true });
    for input in [&b"version\r\n"[..], b"\x81", b"get a b c d e f g h i j k l m n o p\r\n"] {
        assert_eq!(refusal(input), Refusal { answer: None, close: true });
    }
}

#[test]
fn a_value_that_is_too_large_is_passed_over() {
    let fits = sent(Opcode::ADD, &[0; 8], b"k", &[b'v'; 200 - 60], 0);
    let Request::Store(store) = request(&fits).request else { panic!() };
    assert_eq!(store.data.len(), 140);
    let more = sent(Opcode::ADD, &[0; 8], b"k", &[b'v'; 200 - 59], 0);
    let Parse::TooLarge { store, consumed } = Parser::new(limits()).parse(&more) else { panic!() };
    assert_eq!((store.header.data_len, consumed), (141, 33));
}

#[test]
fn answers_are_read_as_they_were_written() {
    let head = Head { opcode: Opcode::GAT_K, opaque: u32::MAX };
    let mut out = Vec::new();
    reply::value_header(&mut out, head, Some(b"key"), 77, 3, 5);
    out.extend_from_slice(b"val");
    let first = out.len();
    reply::miss(&mut out, head, Some(b"key"));
    let (answer, len) = Answer::read(&out).unwrap().unwrap();
    let expected =
        Answer { head, status: 0, cas: 5, extras: &77_u32.to_be_bytes(), key: b"key", value: b"val" };
    assert_eq!((answer, len), (expected, first));
    let (answer, _) = Answer::read(&out[first..]).unwrap().unwrap();
    assert_eq!((answer.status, answer.key, answer.value), (1, &b"key"[..], &b""[..]));
    for cut in 0..first {
        assert_eq!(Answer::read(&out[..cut]), Ok(None));
    }
    assert_eq!(Answer::read(b"VALUE"), Err(MalformedAnswer));
    for status in [Status::NotFound, Status::NonNumeric, Status::OutOfMemory] {
        let mut out = Vec::new();
        reply::error(&mut out, head, status);
        let (answer, _) = Answer::read(&out).unwrap().unwrap();
        assert_eq!((answer.status, answer.value), (status as u16, status.text()));
    }
}

#[test]
fn opcodes_have_one_name_each() {
    let mut names: Vec<&str> = Opcode::ALL.iter().map(|(_, name)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Opcode::ALL.len());
    assert!(Opcode::ALL.iter().all(|(opcode, _)| opcode.kind().is_some()));
    assert_eq!(Opcode(0x1b).kind(), None, "memcached 1.6.18 has no verbosity either");
}

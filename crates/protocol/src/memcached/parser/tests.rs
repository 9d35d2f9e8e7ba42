use super::super::{DataBlock, DataState, StoreCommand};
use super::*;

fn parser() -> Parser {
    Parser::new(Limits::default())
}

/// The error of a refused line.
fn refused(input: &[u8], limits: Limits) -> (WireError, bool, usize) {
    match Parser::new(limits).parse(input) {
        Parse::Refused { refusal, consumed } => (refusal.error, refusal.close, consumed),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_incomplete() {
    let mut parser = parser();
    for input in [&b""[..], b"g", b"get a", b"get a\r"] {
        assert_eq!(parser.parse(input), Parse::Incomplete { needed: 1 });
    }
    let Parse::Request { request: Request::Get(get), consumed } = parser.parse(b"get a\r\nget b") else {
        panic!("the line is whole now");
    };
    assert_eq!((get.keys.len(), consumed), (1, 7));
}

#[test]
fn keys_and_data_are_borrowed_not_copied() {
    let input = b"get one two\r\nset k 5 60 3\r\nabc\r\n";
    let mut parser = parser();
    let Parse::Request { request: Request::Get(mut get), consumed } = parser.parse(input) else { panic!() };
    assert!(std::ptr::eq(get.keys.next().unwrap(), &input[4..7]));
    assert!(std::ptr::eq(get.keys.next().unwrap(), &input[8..11]));
    assert_eq!(get.keys.next(), None);
    let Parse::Request { request: Request::Store(store), consumed: second } =
        parser.parse(&input[consumed..])
    else {
        panic!()
    };
    assert!(std::ptr::eq(store.header.key.wire(), &input[17..18]));
    assert!(std::ptr::eq(store.data, &input[27..30]));
    assert_eq!(consumed + second, input.len());
}

#[test]
fn a_header_comes_before_its_data() {
    let mut parser = parser();
    let line = b"set k 7 60 1000 noreply\r\n";
    let mut input = line.to_vec();
    let Parse::NeedData { header, header_len, missing } = parser.parse(&input) else { panic!() };
    assert_eq!((header_len, missing), (line.len(), 1002));
    assert_eq!((header.command, header.key.wire(), header.data_len), (StoreCommand::Set, &b"k"[..], 1000));
    assert_eq!((header.client_flags, header.exptime.0, header.noreply), (7, 60, true));
    input.extend_from_slice(&[b'x'; 999]);
    let Parse::NeedData { missing, .. } = parser.parse(&input) else { panic!() };
    assert_eq!(missing, 3);
    input.extend_from_slice(b"x\r\nversion\r\n");
    let Parse::Request { request: Request::Store(store), consumed } = parser.parse(&input) else { panic!() };
    assert_eq!((store.data.len(), consumed), (1000, line.len() + 1002));
}

#[test]
fn data_may_be_taken_past_the_buffer() {
    let mut parser = parser();
    let Parse::NeedData { header, header_len, .. } = parser.parse(b"set k 0 0 4\r\nab") else { panic!() };
    assert_eq!(header_len, 13);
    let mut block = DataBlock::new(header.data_len);
    assert_eq!(block.take(b"ab").state, DataState::Missing(4));
    let rest = b"cd\r\nversion\r\n";
    let part = block.take(rest);
    assert_eq!((part.data, part.state), (&b"cd"[..], DataState::Good));
    assert_eq!(
        parser.parse(&rest[part.consumed..]),
        Parse::Request { request: Request::Version, consumed: 9 }
    );
}

#[test]
fn too_large_an_item_is_skipped_without_being_held() {
    let mut parser = parser();
    let Parse::TooLarge { header, refusal, consumed } = parser.parse(b"set k 0 0 5000000\r\nxx") else {
        panic!()
    };
    assert_eq!((header.key.wire(), consumed), (&b"k"[..], 19));
    assert_eq!(refusal, Refusal { error: WireError::ObjectTooLarge, quiet: false, close: false });
    assert_eq!(parser.skipping(), 5_000_002);
    assert_eq!(parser.parse(b""), Parse::Incomplete { needed: 5_000_002 });
    assert_eq!(parser.parse(b"xx"), Parse::Skipped { consumed: 2 });
    let mut left = 5_000_000;
    let piece = [b'\n'; 4096];
    while left > 0 {
        let Parse::Skipped { consumed } = parser.parse(&piece) else { panic!() };
        assert_eq!(consumed, left.min(piece.len()));
        left -= consumed;
    }
    assert_eq!(parser.skipping(), 0);
    assert_eq!(parser.parse(b"quit\r\n"), Parse::Request { request: Request::Quit, consumed: 6 });
}

#[test]
fn noreply_keeps_errors_quiet() {
    let mut parser = parser();
    let Parse::TooLarge { refusal, .. } = parser.parse(b"add k 0 0 5000000 noreply\r\n") else { panic!() };
    assert!(refusal.quiet);
    for input in [&b"set k 0 0 1 noreply\r\n12\r\n"[..], b"incr k x noreply\r\n", b"delete k 1 noreply\r\n"] {
        let Parse::Refused { refusal, .. } = self::parser().parse(input) else { panic!() };
        assert!(refusal.quiet && !refusal.close);
    }
}

/// Meta commands report every error, quiet or not.
#[test]
fn quiet_meta_commands_report_errors() {
    let Parse::TooLarge { refusal, header, .. } = parser().parse(b"ms k 5000000 q\r\n") else { panic!() };
    assert!(!refusal.quiet && !header.noreply && header.meta.unwrap().quiet());
    let Parse::Refused { refusal, .. } = parser().parse(b"ms k 1 q z\r\n1\r\n") else { panic!() };
    assert!(!refusal.quiet);
}

#[test]
fn a_wrong_end_of_data_costs_the_declared_length() {
    assert_eq!(refused(b"set k 0 0 1\r\n123\r\n", Limits::default()), (WireError::BadDataChunk, false, 16));
}

#[test]
fn data_of_refused_lines_is_read_as_memcached_reads_it() {
    let default = Limits::default();
    let careful = Limits { skip_refused_data: true, ..Limits::default() };
    let long_key = "k".repeat(251);
    let lines = [
        ("set k x 0 9\r\n".to_owned(), WireError::BadFormat),
        ("cas k 0 0 9 x\r\n".to_owned(), WireError::BadFormat),
        (format!("set {long_key} 0 0 9\r\n"), WireError::BadFormat),
        (format!("ms {long_key} 9\r\n"), WireError::BadFormat),
        (format!("ms k 9{}\r\n", " q".repeat(17)), WireError::FlagsTooLong),
    ];
    for (line, error) in &lines {
        for (limits, skipping) in [(&default, 0), (&careful, 11)] {
            let mut parser = Parser::new(limits.clone());
            let Parse::Refused { refusal, consumed } = parser.parse(line.as_bytes()) else { panic!() };
            assert_eq!(
                (refusal.error, consumed, parser.skipping()),
                (*error, line.len(), skipping),
                "{line}"
            );
        }
    }
    // A wrong flag is skipped either way, an impossible length never.
    for limits in [default, careful] {
        let mut parser = Parser::new(limits);
        assert!(matches!(parser.parse(b"ms k 9 z\r\n"), Parse::Refused { .. }));
        assert_eq!(parser.skipping(), 11);
        let mut parser = Parser::new(parser.limits().clone());
        assert!(matches!(parser.parse(b"set k 0 0 -9\r\n"), Parse::Refused { .. }));
        assert_eq!(parser.skipping(), 0);
    }
}

#[test]
fn lines_and_keys_are_limited() {
    let limits = Limits { max_line_bytes: 20, max_get_line_bytes: 40, max_keys: 3, ..Limits::default() };
    let too_long = (WireError::LineTooLong, true);
    for input in [&b"delete aaaaaaaaaaaaaaa\r\n"[..], b"delete aaaaaaaaaaaaaaa"] {
        let (error, close, consumed) = refused(input, limits.clone());
        assert_eq!(((error, close), consumed), (too_long, input.len()));
    }
    let (error, close, _) = refused(b"get aaaaaaaaaaaaaaa aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", limits.clone());
    assert_eq!((error, close), too_long);
    assert_eq!(refused(b"get a b c d\r\n", limits.clone()), (WireError::TooManyKeys, false, 13));
    assert_eq!(refused(b"gat 0 a b c d\r\n", limits.clone()), (WireError::TooManyKeys, false, 15));
    let mut parser = Parser::new(limits);
    for input in [&b"get aaaaaaaaa bbbbbbbbbbb c\r\n"[..], b"gats 0 aaaaaaaaa bbbbbbbbb c\r\n"] {
        assert!(matches!(parser.parse(input), Parse::Request { .. }));
    }
}

#[test]
fn the_binary_protocol_is_refused_at_once_and_only_at_first() {
    let mut request = [0_u8; 24];
    request[0] = 0x80;
    assert_eq!(refused(&request, Limits::default()), (WireError::BinaryProtocol, true, 24));
    let mut parser = parser();
    assert!(matches!(parser.parse(b"version\r\n"), Parse::Request { .. }));
    assert_eq!(parser.parse(&request), Parse::Incomplete { needed: 1 });
}

#[test]
fn what_follows_a_nul_is_not_looked_at_however_it_comes() {
    let input = b"get a\0b c\r\n";
    let mut parser = parser();
    for end in 1..input.len() {
        assert_eq!(parser.parse(&input[..end]), Parse::Incomplete { needed: 1 });
    }
    let Parse::Request { request: Request::Get(get), consumed } = parser.parse(input) else { panic!() };
    assert_eq!((get.keys.collect::<Vec<_>>(), consumed), (vec![&b"a"[..]], input.len()));
}

/// A caller that drops bytes of an incomplete line breaks its promise, but breaks nothing else.
#[test]
fn a_buffer_that_shrank_is_looked_at_from_the_start() {
    let mut parser = parser();
    assert_eq!(parser.parse(b"get aaaaaaaaaaaaaaaaaaa"), Parse::Incomplete { needed: 1 });
    assert_eq!(parser.parse(b"quit\r\n"), Parse::Request { request: Request::Quit, consumed: 6 });
}

#[test]
fn a_request_is_small_enough_to_be_passed_around() {
    assert!(size_of::<Parse<'_>>() <= 192, "{}", size_of::<Parse<'_>>());
}

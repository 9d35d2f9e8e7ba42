use super::*;

fn one(input: &[u8]) -> ParsedResponse<'_> {
    ResponseParser::default().parse(input)
}

fn whole(input: &[u8]) -> Response<'_> {
    match one(input) {
        ParsedResponse::Response { response, consumed } => {
            assert_eq!(consumed, input.len());
            response
        }
        other => panic!("{}: {other:?}", input.escape_ascii()),
    }
}

#[test]
fn lines_that_stand_alone() {
    for (input, response) in [
        (&b"END\r\n"[..], Response::End),
        (b"STORED\r\n", Response::Stored),
        (b"NOT_STORED\r\n", Response::NotStored),
        (b"EXISTS\r\n", Response::Exists),
        (b"NOT_FOUND\r\n", Response::NotFound),
        (b"DELETED\r\n", Response::Deleted),
        (b"TOUCHED\r\n", Response::Touched),
        (b"OK\r\n", Response::Ok),
        (b"RESET\r\n", Response::Reset),
        (b"MN\r\n", Response::MetaNoop),
        (b"0\r\n", Response::Number(0)),
        (b"18446744073709551615\r\n", Response::Number(u64::MAX)),
        (b"VERSION 1.6.18\r\n", Response::Version(b"1.6.18")),
        (b"STAT pid 17\r\n", Response::Stat { name: b"pid", value: b"17" }),
        (b"STAT items:1:age a b\r\n", Response::Stat { name: b"items:1:age", value: b"a b" }),
        (b"ERROR\r\n", Response::Error(b"")),
        (b"ERROR Too many open connections\r\n", Response::Error(b"Too many open connections")),
        (b"CLIENT_ERROR bad data chunk\r\n", Response::ClientError(b"bad data chunk")),
        (b"SERVER_ERROR out of memory\r\n", Response::ServerError(b"out of memory")),
        (b"BUSY later\r\n", Response::Other(b"BUSY later")),
        (b"ERROR: shutdown not enabled\r\n", Response::Other(b"ERROR: shutdown not enabled")),
        (b"END of it\r\n", Response::Other(b"END of it")),
        (b"18446744073709551616\r\n", Response::Other(b"18446744073709551616")),
        (b"\r\n", Response::Other(b"")),
        (b"OK\n", Response::Ok),
    ] {
        assert_eq!(whole(input), response);
    }
}

#[test]
fn values_carry_their_data() {
    let value = |cas, data| Response::Value { key: b"k", client_flags: 5, cas, data };
    assert_eq!(whole(b"VALUE k 5 3\r\nabc\r\n"), value(None, b"abc"));
    assert_eq!(whole(b"VALUE k 5 0\r\n\r\n"), value(None, b""));
    assert_eq!(whole(b"VALUE k 5 4 99\r\nEND\n\r\n"), value(Some(99), b"END\n"));
    let mut parser = ResponseParser::default();
    let input = b"VALUE k 5 3\r\nabc\r\nEND\r\n";
    assert_eq!(parser.parse(&input[..13]), ParsedResponse::Incomplete { needed: 5 });
    assert_eq!(parser.parse(&input[..17]), ParsedResponse::Incomplete { needed: 1 });
    assert_eq!(parser.parse(input), ParsedResponse::Response { response: value(None, b"abc"), consumed: 18 });
}

#[test]
fn meta_answers_carry_flags_and_data() {
    let Response::Meta { status, flags, data } = whole(b"VA 3 s3 t-1 f5 ka O123 W\r\nabc\r\n") else {
        panic!()
    };
    assert_eq!((status, data), (MetaStatus::Value { len: 3 }, &b"abc"[..]));
    assert_eq!(
        (flags.find(b't'), flags.find(b'O'), flags.find(b'W')),
        (Some(&b"-1"[..]), Some(&b"123"[..]), Some(&b""[..]))
    );
    assert_eq!(flags.find(b'Z'), None);
    for (input, expected) in [
        (&b"HD\r\n"[..], MetaStatus::Done),
        (b"EN\r\n", MetaStatus::Miss),
        (b"NS\r\n", MetaStatus::NotStored),
        (b"EX\r\n", MetaStatus::Exists),
        (b"NF kk O1\r\n", MetaStatus::NotFound),
    ] {
        let Response::Meta { status, data, .. } = whole(input) else { panic!() };
        assert_eq!((status, data), (expected, &b""[..]));
    }
    let Response::MetaDebug(words) = whole(b"ME k exp=-1 la=0\r\n") else { panic!() };
    assert!(words.eq([&b"k"[..], b"exp=-1", b"la=0"]));
}

#[test]
fn nonsense_is_invalid() {
    for (input, error) in [
        (&b"VALUE\r\n"[..], ResponseError::BadValueLine),
        (b"VALUE k 5\r\n", ResponseError::BadValueLine),
        (b"VALUE k x 3\r\n", ResponseError::BadValueLine),
        (b"VALUE k 4294967296 3\r\n", ResponseError::BadValueLine),
        (b"VALUE k 0 -1\r\n", ResponseError::BadValueLine),
        (b"VALUE k 0 1 2 3\r\n", ResponseError::BadValueLine),
        (b"VA\r\n", ResponseError::BadValueLine),
        (b"VA x\r\n", ResponseError::BadValueLine),
        (b"VALUE k 0 3\r\nabcd\r\n", ResponseError::BadValueEnd),
        (b"VA 3\r\nabc\n\n", ResponseError::BadValueEnd),
        (b"VALUE k 0 18446744073709551615\r\n", ResponseError::ValueTooLarge),
    ] {
        assert_eq!(one(input), ParsedResponse::Invalid(error), "{}", input.escape_ascii());
    }
}

#[test]
fn limits_hold() {
    let mut parser = ResponseParser::new(ResponseLimits { max_line_bytes: 12, max_value_bytes: 2 });
    assert!(matches!(parser.parse(b"VALUE k 0 2\r\nab\r\n"), ParsedResponse::Response { .. }));
    assert_eq!(parser.parse(b"VALUE k 0 3\r\n"), ParsedResponse::Invalid(ResponseError::ValueTooLarge));
    assert_eq!(parser.parse(b"VALUE kk 0 2\r\n"), ParsedResponse::Invalid(ResponseError::LineTooLong));
    assert_eq!(parser.parse(b"VALUE kk 0 2"), ParsedResponse::Incomplete { needed: 1 });
    assert_eq!(parser.parse(b"VALUE kk 0 22"), ParsedResponse::Invalid(ResponseError::LineTooLong));
}

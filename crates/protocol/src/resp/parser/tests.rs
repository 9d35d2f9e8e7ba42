use proptest::prelude::*;

use super::*;

/// The events of a stream, without arguments that were dropped or requests that are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    Request(Vec<Vec<u8>>),
    TooLarge,
    Refused(ProtocolError),
}

/// Parses `sent` in pieces of the lengths that `cuts` go round in.
fn hear(sent: &[u8], cuts: &[usize], limits: &Limits) -> Vec<Heard> {
    let mut parser = Parser::new(limits.clone());
    let (mut heard, mut pending, mut from) = (Vec::new(), Vec::new(), 0);
    for cut in cuts.iter().cycle() {
        let to = sent.len().min(from + cut);
        pending.extend_from_slice(&sent[from..to]);
        from = to;
        loop {
            let consumed = match parser.parse(&pending) {
                Parse::Request { consumed } => {
                    let args = (0..parser.arg_count())
                        .map(|i| parser.arg(&pending, i).expect("an argument").to_vec());
                    heard.push(Heard::Request(args.collect()));
                    consumed
                }
                Parse::Words { consumed, words } => {
                    heard.push(Heard::Request(words));
                    consumed
                }
                Parse::Nothing { consumed } => {
                    assert!(consumed > 0, "progress");
                    consumed
                }
                Parse::TooLarge { consumed } => {
                    heard.push(Heard::TooLarge);
                    consumed
                }
                Parse::Incomplete => break,
                Parse::Refused(error) => {
                    heard.push(Heard::Refused(error));
                    return heard;
                }
            };
            pending.drain(..consumed);
        }
        if from == sent.len() {
            break;
        }
    }
    heard
}

fn small_limits() -> Limits {
    Limits {
        max_args: 8,
        max_bulk_bytes: 60,
        max_line_bytes: 40,
        max_kept_bulk_bytes: 30,
        max_request_bytes: 120,
    }
}

fn one(sent: &[u8]) -> Vec<Heard> {
    hear(sent, &[usize::MAX >> 1], &Limits::default())
}

fn request(args: &[&str]) -> Heard {
    Heard::Request(args.iter().map(|arg| arg.as_bytes().to_vec()).collect())
}

#[test]
fn requests_of_both_forms_are_read() {
    assert_eq!(one(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n"), [request(&["GET", "k"]), request(&["PING"])]);
    assert_eq!(one(b"\r\n\n*0\r\n*-1\r\nset a 'b c'\n"), [request(&["set", "a", "b c"])]);
    assert_eq!(one(b"*1\r\n$0\r\n\r\n"), [request(&[""])]);
    assert_eq!(one(b"*1\r\n$4\r\nPI"), []);
}

/// The search position of a request without arguments doesn't carry over to the next request.
#[test]
fn what_comes_after_nothing_is_read_from_its_beginning() {
    let sent = b"*0\r\n\n*1\r\n$1\r\na\r\n*0\r\n\nPING\r\n";
    let expected = [request(&["a"]), request(&["PING"])];
    for cut in [1, 2, 3, 100] {
        assert_eq!(hear(sent, &[cut], &Limits::default()), expected, "in pieces of {cut}");
    }
}

/// Texts and conditions as a redis-server 7.0.15 was seen to have them.
#[test]
fn what_is_no_request_is_refused_in_redis_words() {
    let long = |front: &[u8]| [front, &[b'1'; 70_000]].concat();
    for (sent, text) in [
        (b"*x\r\n".to_vec(), "invalid multibulk length"),
        (b"*2147483648\r\n".to_vec(), "invalid multibulk length"),
        (b"*1\r\n+3\r\n".to_vec(), "expected '$', got '+'"),
        (b"*1\r\nGET\r\n".to_vec(), "expected '$', got 'G'"),
        (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$01\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$536870913\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$99999999999999999999\r\n".to_vec(), "invalid bulk length"),
        (b"get \"a\r\n".to_vec(), "unbalanced quotes in request"),
        (long(b"*"), "too big mbulk count string"),
        (long(b"*1\r\n$"), "too big bulk count string"),
        (long(b"a"), "too big inline request"),
    ] {
        let Some(Heard::Refused(error)) = one(&sent).pop() else { panic!("{text}") };
        assert_eq!(error.to_string(), format!("Protocol error: {text}"));
    }
}

#[test]
fn what_is_too_large_is_dropped_and_the_rest_goes_on() {
    let limits = small_limits();
    let large = [b"*3\r\n$3\r\nSET\r\n$40\r\n".as_slice(), &[b'v'; 40], b"\r\n$1\r\nx\r\nPING\r\n"].concat();
    assert_eq!(hear(&large, &[1000], &limits), [Heard::TooLarge, request(&["PING"])]);
    let many = [b"*7\r\n".as_slice(), &b"$20\r\n12345678901234567890\r\n".repeat(7), b"PING\r\n"].concat();
    assert_eq!(hear(&many, &[1000], &limits), [Heard::TooLarge, request(&["PING"])]);
}

#[test]
fn a_pending_argument_can_be_taken_over() {
    let mut parser = Parser::new(Limits::default());
    let head = b"*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$6\r\nab";
    assert_eq!(parser.parse(head), Parse::Incomplete);
    let pending = parser.pending().expect("a pending argument");
    assert_eq!(pending, PendingBulk { index: 2, len: 6, start: head.len() - 2, behind: 2 });
    assert_eq!((parser.arg(head, 0), parser.arg(head, 1)), (Some(&b"SET"[..]), Some(&b"k"[..])));
    parser.leave_pending();
    assert_eq!(parser.parse(b"$2\r\nEX\r\n$"), Parse::Incomplete);
    let rest = b"$2\r\nEX\r\n$2\r\n10\r\nPING\r\n";
    assert_eq!(parser.parse(rest), Parse::Request { consumed: 16 });
    assert_eq!(
        (parser.arg(rest, 0), parser.arg(rest, 1), parser.arg_count()),
        (Some(&b"EX"[..]), Some(&b"10"[..]), 2)
    );
    assert!(matches!(parser.parse(&rest[16..]), Parse::Words { consumed: 6, .. }));
}

#[test]
fn a_large_argument_is_not_looked_at_until_it_is_there() {
    let mut parser = Parser::new(Limits::default());
    let mut sent = b"*2\r\n$4\r\nECHO\r\n$1000000\r\n".to_vec();
    assert_eq!(parser.parse(&sent), Parse::Incomplete);
    let at = parser.at;
    for _ in 0..9 {
        sent.resize(sent.len() + 100_000, b'\r');
        assert_eq!(parser.parse(&sent), Parse::Incomplete);
        assert_eq!(parser.at, at);
    }
    sent.resize(at + 1_000_002, b'\r');
    assert_eq!(parser.parse(&sent), Parse::Request { consumed: sent.len() });
}

#[test]
fn numbers_are_read_as_redis_does() {
    for (text, expected) in [
        ("0", Some(0)),
        ("-1", Some(-1)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("18446744073709551615", None),
        ("", None),
        ("-", None),
        ("-0", None),
        ("00", None),
        ("01", None),
        ("+1", None),
        (" 1", None),
        ("1 ", None),
        ("1.0", None),
    ] {
        assert_eq!(number(text.as_bytes()), expected, "{text}");
    }
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let arg = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..12),
        proptest::collection::vec(Just(b'\r'), 0..45),
        Just(b"GET".to_vec()),
    ];
    let bulk = proptest::collection::vec(arg, 0..9).prop_map(|args| {
        let mut out = Vec::new();
        crate::resp::reply::request(&mut out, args.iter().map(Vec::as_slice));
        out
    });
    let words = "[a-c \"'x\\\\]{0,20}\r?\n".prop_map(String::into_bytes);
    let noise = proptest::collection::vec(
        prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), b'0'..=b'9'],
        0..9,
    );
    proptest::collection::vec(prop_oneof![6 => bulk, 3 => words, 1 => noise], 0..8)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn however_a_stream_is_cut_the_same_comes_out(
        sent in stream(),
        cuts in proptest::collection::vec(1_usize..40, 1..6),
        is_small in any::<bool>(),
    ) {
        let limits = if is_small { small_limits() } else { Limits::default() };
        let whole = hear(&sent, &[usize::MAX >> 1], &limits);
        prop_assert_eq!(&hear(&sent, &[1], &limits), &whole);
        prop_assert_eq!(&hear(&sent, &cuts, &limits), &whole);
    }

    #[test]
    fn what_is_composed_is_parsed_as_it_was(args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..9)) {
        let mut sent = Vec::new();
        crate::resp::reply::request(&mut sent, args.iter().map(Vec::as_slice));
        prop_assert_eq!(one(&sent), vec![Heard::Request(args)]);
    }
}

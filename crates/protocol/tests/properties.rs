//! Properties of every input, and the inputs that once broke one.

mod support;

use millpond_protocol::memcached::{
    Direction, Exptime, Limits, MetaStatus, Parse, Parser, Request, Response, StoreCommand, command, reply,
};
use proptest::prelude::*;
use support::{Data, check_fragments, check_round_trip, connection, responses, small_limits};

/// Pieces of requests, right and wrong, that are put together at random.
const WORDS: &[&str] = &[
    "get",
    "gets",
    "gat",
    "gats",
    "set",
    "add",
    "replace",
    "append",
    "prepend",
    "cas",
    "incr",
    "decr",
    "touch",
    "delete",
    "flush_all",
    "stats",
    "version",
    "verbosity",
    "quit",
    "cache_memlimit",
    "shutdown",
    "mg",
    "ms",
    "md",
    "ma",
    "me",
    "mn",
    "noreply",
    "0",
    "1",
    "5",
    "12",
    "-1",
    "600",
    "4294967296",
    "18446744073709551615",
    "x",
    "key",
    "YWFh",
    "YQ==",
    "b",
    "c",
    "f",
    "h",
    "k",
    "l",
    "O1",
    "q",
    "s",
    "t",
    "v",
    "E5",
    "N30",
    "R30",
    "T30",
    "MA",
    "MD",
    "ME",
    "I",
    "F7",
    "D2",
    "J3",
    "C4",
    "S3",
    "P",
    "L",
    "z",
    "a\tb",
    "\0",
    "\u{e9}",
    "graceful",
];

fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(WORDS);
    let end =
        prop::sample::select(&["\r\n", "\r\n", "\r\n", "\n", "", "\r", "\r\nabc\r\n", "\r\n12345\r\n"][..]);
    let line = (prop::collection::vec(word, 0..8), end).prop_map(|(words, end)| words.join(" ") + end);
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.concat().into_bytes())
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0x21_u8..0x7f, 1..=250)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), prop::collection::vec(1_usize..40, 1..6)]
}

fn store_command() -> impl Strategy<Value = StoreCommand> {
    prop::sample::select(
        &[
            StoreCommand::Set,
            StoreCommand::Add,
            StoreCommand::Replace,
            StoreCommand::Append,
            StoreCommand::Prepend,
            StoreCommand::Cas,
        ][..],
    )
}

/// The one request that `input` is.
fn parsed(input: &[u8]) -> Request<'_> {
    match Parser::new(Limits::default()).parse(input) {
        Parse::Request { request, consumed } => {
            assert_eq!(consumed, input.len());
            request
        }
        other => panic!("{}: {other:?}", input.escape_ascii()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_any_pieces(input in prop::collection::vec(any::<u8>(), 0..400), cuts in cuts()) {
        check_fragments(&input, &cuts, &small_limits());
        check_round_trip(&input, &small_limits());
        prop_assert_eq!(responses(&input, &cuts), responses(&input, &[]));
    }

    #[test]
    fn words_in_any_pieces(input in words(), cuts in cuts(), skip_refused_data: bool) {
        let limits = Limits { skip_refused_data, ..small_limits() };
        check_fragments(&input, &cuts, &limits);
        check_round_trip(&input, &limits);
    }

    #[test]
    fn long_lines_in_any_pieces(word in prop::sample::select(WORDS), count in 100_usize..400, cuts in cuts()) {
        let input = format!("{word}{}\r\nversion\r\n", " kk".repeat(count));
        check_fragments(input.as_bytes(), &cuts, &small_limits());
        let input = format!("{}{word} kk\r\nversion\r\n", " ".repeat(count));
        check_fragments(input.as_bytes(), &cuts, &small_limits());
    }

    #[test]
    fn composed_stores_are_parsed(
        command in store_command(),
        key in key(),
        client_flags: u32,
        exptime: i64,
        cas: u64,
        data in value(),
        noreply: bool,
    ) {
        let mut out = Vec::new();
        command::store(&mut out, command, &key, client_flags, Exptime(exptime), Some(cas), &data, noreply);
        let Request::Store(store) = parsed(&out) else { panic!("a store") };
        prop_assert_eq!((store.header.command, store.header.key.wire(), store.data), (command, &key[..], &data[..]));
        prop_assert_eq!((store.header.client_flags, store.header.exptime.0), (client_flags, exptime));
        prop_assert_eq!(store.header.compare_cas, (command == StoreCommand::Cas).then_some(cas));
        prop_assert_eq!(store.header.noreply, noreply);
    }

    #[test]
    fn composed_lines_are_parsed(keys in prop::collection::vec(key(), 1..20), delta: u64, exptime: i64, yes: bool) {
        let mut out = Vec::new();
        command::get(&mut out, yes, keys.iter().map(Vec::as_slice));
        let Request::Get(get) = parsed(&out) else { panic!("a get") };
        prop_assert_eq!((get.with_cas, get.touch), (yes, None));
        prop_assert!(get.keys.eq(keys.iter()));

        out.clear();
        command::get_and_touch(&mut out, yes, Exptime(exptime), keys.iter().map(Vec::as_slice));
        let Request::Get(get) = parsed(&out) else { panic!("a get") };
        prop_assert_eq!((get.with_cas, get.touch, get.keys.len()), (yes, Some(Exptime(exptime)), keys.len()));

        for direction in [Direction::Increment, Direction::Decrement] {
            out.clear();
            command::arithmetic(&mut out, direction, &keys[0], delta, yes);
            let Request::Arithmetic(request) = parsed(&out) else { panic!("arithmetic") };
            prop_assert_eq!((request.direction, request.delta, request.noreply), (direction, delta, yes));
            prop_assert_eq!(request.key.wire(), &keys[0]);
        }
    }

    /// A client reads everything that a server composes.
    #[test]
    fn composed_answers_are_read(key in key(), data in value(), client_flags: u32, cas: Option<u64>, cuts in cuts()) {
        let mut out = Vec::new();
        reply::value(&mut out, &key, client_flags, &data, cas);
        reply::number(&mut out, cas.unwrap_or(0));
        let flags = match Parser::new(Limits::default()).parse(b"mg k O77 s k\r\n") {
            Parse::Request { request: Request::Meta(request), .. } => request.flags,
            other => panic!("{other:?}"),
        };
        let status = MetaStatus::Value { len: data.len() };
        let facts = reply::MetaFacts { key: &key, size: Some(data.len() as u64), ..reply::MetaFacts::default() };
        reply::meta(&mut out, status, &flags, &facts);
        reply::meta_data(&mut out, &data);
        let value = Response::Value { key: &key, client_flags, cas, data: &data };
        let (read, left) = responses(&out, &cuts);
        prop_assert_eq!(left, 0);
        prop_assert_eq!(&read[0], &format!("{value:?}"));
        prop_assert_eq!(&read[1], &format!("Number {}", cas.unwrap_or(0)));
        let start = format!("Meta {status:?} [O\"77\", s\"{}\", k", data.len());
        prop_assert!(read[2].starts_with(&start), "{}", read[2]);
    }

    #[test]
    fn base64_keys_survive(bytes in prop::collection::vec(any::<u8>(), 1..=186), data in value()) {
        let mut out = Vec::new();
        command::meta_set(&mut out, &bytes, true, &data, [&b"k"[..]]);
        let Request::Store(store) = parsed(&out) else { panic!("a store") };
        let mut scratch = Default::default();
        prop_assert_eq!((store.header.key.bytes(&mut scratch), store.data), (&bytes[..], &data[..]));
    }
}

#[test]
fn a_pipeline_is_the_same_whole_and_byte_by_byte() {
    let front = b"get a b\r\nset k 0 0 5\r\nhello\r\nmg a v k O1\r\nset k 0 0 2\r\nabc\r\n\
        ms k 3 S\r\nxyz\r\ndelete a\r\nincr n 1\r\nset k 0 0 900\r\n";
    // The item of 900 bytes is too large under small limits, and what follows is skipped as its
    // data.
    let input = [&front[..], b"get a\r\nget b\r\n"].concat();
    let seen = check_fragments(&input, &[1], &small_limits());
    assert_eq!((seen.events.len(), seen.skipping, seen.left_over), (9, 902 - 14, 0), "{seen:?}");
    let seen = check_fragments(&input, &[1], &Limits::default());
    assert_eq!((seen.events.len(), seen.skipping, seen.left_over), (8, 0, 15 + 14), "{seen:?}");
}

#[test]
fn data_taken_early_is_not_left_over() {
    let input = b"set k 0 0 5\r\nhel";
    assert_eq!(connection(input, &[], &Limits::default(), Data::Wait).left_over, input.len());
    assert_eq!(connection(input, &[], &Limits::default(), Data::Take).left_over, 0);
}

/// Found by fuzzing: a line of exactly the limit that ends in a bare `\n` is over the limit once it
/// ends in `\r\n`.
#[test]
fn the_longest_line_is_composed_longer_than_it_was() {
    let limits = small_limits();
    let line = |name: &str, len: usize| format!("{name}{}\n", &" k".repeat(len)[..len - name.len()]);
    for (name, len) in [("slabs", limits.max_line_bytes), ("get k", limits.max_line_bytes)] {
        let line = line(name, len);
        assert_eq!(line.len(), len + 1);
        check_fragments(line.as_bytes(), &[1], &limits);
        check_round_trip(line.as_bytes(), &limits);
    }
}

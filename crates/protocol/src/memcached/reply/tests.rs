use super::super::{Limits, Parse, Parser, Request};
use super::*;

fn written(compose: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    compose(&mut out);
    out.escape_ascii().to_string()
}

/// The answer to a meta command whose flags are those of `line`.
fn answered(line: &[u8], status: MetaStatus, facts: &MetaFacts<'_>) -> String {
    match Parser::new(Limits::default()).parse(line) {
        Parse::Request { request: Request::Meta(request), .. } => {
            written(|out| meta(out, status, &request.flags, facts))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_and_statistics() {
    assert_eq!(written(|out| value(out, b"k", 0, b"abc", None)), r"VALUE k 0 3\r\nabc\r\n");
    assert_eq!(
        written(|out| value(out, b"k", u32::MAX, b"", Some(u64::MAX))),
        r"VALUE k 4294967295 0 18446744073709551615\r\n\r\n"
    );
    assert_eq!(written(|out| number(out, 1234)), r"1234\r\n");
    assert_eq!(written(|out| stat(out, "threads", "two of them")), r"STAT threads two of them\r\n");
    assert_eq!(written(|out| stat_number(out, "curr_items", 17)), r"STAT curr_items 17\r\n");
    assert_eq!(written(|out| version(out, "1.6.18")), r"VERSION 1.6.18\r\n");
}

const FACTS: MetaFacts<'_> = MetaFacts {
    key: b"key",
    key_is_base64: false,
    size: Some(3),
    ttl: Some(Remaining::Secs(20)),
    cas: Some(44),
    client_flags: Some(7),
    idle_secs: Some(5),
    fetched: Some(true),
    marks: MetaMarks { already_won: false, stale: false, won: false },
};

#[test]
fn flags_are_answered_in_the_order_of_the_request() {
    let value = MetaStatus::Value { len: 3 };
    assert_eq!(
        answered(b"mg key s v t f c k O123 l h\r\n", value, &FACTS),
        r"VA 3 s3 t20 f7 c44 kkey O123 l5 h1\r\n"
    );
    assert_eq!(answered(b"mg key h l t\r\n", MetaStatus::Done, &FACTS), r"HD h1 l5 t20\r\n");
    let forever = MetaFacts { ttl: Some(Remaining::Forever), fetched: Some(false), ..FACTS };
    assert_eq!(answered(b"mg key t h q u T30\r\n", MetaStatus::Done, &forever), r"HD t-1 h0\r\n");
}

#[test]
fn what_is_not_known_is_not_answered() {
    let unknown = MetaFacts { key: b"key", ..MetaFacts::default() };
    for (status, line) in [
        (MetaStatus::Miss, r"EN kkey O1\r\n"),
        (MetaStatus::NotStored, r"NS kkey O1\r\n"),
        (MetaStatus::Exists, r"EX kkey O1\r\n"),
        (MetaStatus::NotFound, r"NF kkey O1\r\n"),
    ] {
        assert_eq!(answered(b"mg key k s t c O1 f l h v\r\n", status, &unknown), line);
    }
}

#[test]
fn base64_keys_go_back_as_base64() {
    let facts = MetaFacts { key: b"mill pond", key_is_base64: true, ..MetaFacts::default() };
    assert_eq!(
        answered(b"mg bWlsbCBwb25k O1 b k\r\n", MetaStatus::Miss, &facts),
        r"EN O1 kbWlsbCBwb25k b\r\n"
    );
}

#[test]
fn marks_come_last_and_in_memcacheds_order() {
    let with = |already_won, stale, won| {
        let marks = MetaMarks { already_won, stale, won };
        answered(b"mg key c\r\n", MetaStatus::Done, &MetaFacts { marks, ..FACTS })
    };
    assert_eq!(with(false, true, true), r"HD c44 X W\r\n");
    assert_eq!(with(true, true, false), r"HD c44 Z X\r\n");
    assert_eq!(with(false, false, true), r"HD c44 W\r\n");
}

#[test]
fn quiet_keeps_back_what_is_expected() {
    assert!(MetaStatus::Miss.is_nominal(true));
    assert!(!MetaStatus::Miss.is_nominal(false));
    assert!(!MetaStatus::Done.is_nominal(true));
    assert!(!MetaStatus::Value { len: 0 }.is_nominal(true));
    assert!(MetaStatus::Done.is_nominal(false));
    assert!(MetaStatus::Value { len: 1 }.is_nominal(false));
    for status in [MetaStatus::NotStored, MetaStatus::Exists, MetaStatus::NotFound] {
        assert!(!status.is_nominal(true) && !status.is_nominal(false));
    }
}

/// Lines that memcached 1.6.18 was seen to send.
#[test]
fn debug_lines_are_memcacheds() {
    let facts = DebugFacts {
        key: b"n",
        key_is_base64: false,
        ttl: Remaining::Secs(29),
        idle_secs: 1,
        cas: 79,
        fetched: false,
        class: 1,
        size_bytes: 62,
    };
    assert_eq!(
        written(|out| meta_debug(out, &facts)),
        r"ME n exp=-29 la=1 cas=79 fetch=no cls=1 size=62\r\n"
    );
    let facts =
        DebugFacts { key: b"a", key_is_base64: true, ttl: Remaining::Forever, fetched: true, ..facts };
    assert_eq!(
        written(|out| meta_debug(out, &facts)),
        r"ME YQ== exp=-1 la=1 cas=79 fetch=yes cls=1 size=62\r\n"
    );
    let facts = DebugFacts { ttl: Remaining::Secs(0), ..facts };
    assert!(written(|out| meta_debug(out, &facts)).contains("exp=0 "));
}

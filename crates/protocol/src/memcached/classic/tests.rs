use super::super::{Parse, Parser, WireError};
use super::*;

/// Parses a whole line, which the caller keeps.
fn request(line: &str) -> Request<'_> {
    match Parser::new(Limits::default()).parse(line.as_bytes()) {
        Parse::Request { request, consumed } => {
            assert_eq!(consumed, line.len());
            request
        }
        other => panic!("{line}: {other:?}"),
    }
}

fn key(key: &str) -> Key<'_> {
    Key::plain(key.as_bytes()).unwrap()
}

#[test]
fn retrievals() {
    for (line, with_cas, touch, keys) in [
        ("get a\r\n", false, None, &["a"][..]),
        ("gets a bb  a \r\n", true, None, &["a", "bb", "a"]),
        ("gat 60 a\n", false, Some(Exptime(60)), &["a"]),
        ("gats -1 a b\r\n", true, Some(Exptime(-1)), &["a", "b"]),
        ("gat 5\r\n", false, Some(Exptime(5)), &[]),
        ("gat 4294967294 a\r\n", false, Some(Exptime(-2)), &["a"]),
        ("bget a\r\n", false, None, &["a"]),
    ] {
        let Request::Get(get) = request(line) else { panic!("{line}") };
        assert_eq!((get.with_cas, get.touch, get.keys.len()), (with_cas, touch, keys.len()), "{line}");
        assert!(get.keys.eq(keys.iter().map(|key| key.as_bytes())), "{line}");
    }
}

#[test]
fn stores() {
    for (line, command, client_flags, exptime, compare_cas, data, noreply) in [
        ("set k 1 2 3\r\nabc\r\n", StoreCommand::Set, 1, 2, None, "abc", false),
        ("add k 0 0 0 noreply\r\n\r\n", StoreCommand::Add, 0, 0, None, "", true),
        ("replace k 0 -1 2\r\n\r\n\r\n", StoreCommand::Replace, 0, -1, None, "\r\n", false),
        ("append k 0 0 1 what\r\na\r\n", StoreCommand::Append, 0, 0, None, "a", false),
        ("prepend k 4294967297 0 1\r\na\r\n", StoreCommand::Prepend, 1, 0, None, "a", false),
        (
            "cas k 4294967295 4102444800 1 77\r\na\r\n",
            StoreCommand::Cas,
            u32::MAX,
            4_102_444_800,
            Some(77),
            "a",
            false,
        ),
        ("cas k 0 0 1 77 noreply\r\na\r\n", StoreCommand::Cas, 0, 0, Some(77), "a", true),
    ] {
        let Request::Store(store) = request(line) else { panic!("{line}") };
        let header = StoreHeader {
            command,
            key: key("k"),
            client_flags,
            exptime: Exptime(exptime),
            compare_cas,
            wants_cas: compare_cas.is_some(),
            data_len: data.len(),
            noreply,
            meta: None,
        };
        assert_eq!((store.header, store.data), (header, data.as_bytes()), "{line}");
    }
}

#[test]
fn everything_else() {
    let delete = |noreply| Request::Delete(DeleteRequest { key: key("k"), noreply });
    assert_eq!(request("delete k\r\n"), delete(false));
    assert_eq!(request("delete k 0\r\n"), delete(false));
    assert_eq!(request("delete k noreply\r\n"), delete(true));
    assert_eq!(request("delete k 0 noreply\r\n"), delete(true));
    let arithmetic = |direction, delta, noreply| {
        Request::Arithmetic(ArithmeticRequest { key: key("k"), direction, delta, noreply })
    };
    assert_eq!(request("incr k 7\r\n"), arithmetic(Direction::Increment, 7, false));
    assert_eq!(
        request("decr k 18446744073709551615 noreply\r\n"),
        arithmetic(Direction::Decrement, u64::MAX, true)
    );
    let touch = TouchRequest { key: key("k"), exptime: Exptime(-3), noreply: true };
    assert_eq!(request("touch k -3 noreply\r\n"), Request::Touch(touch));
    for (line, delay, noreply) in [
        ("flush_all\r\n", 0, false),
        ("flush_all noreply\r\n", 0, true),
        ("flush_all 9\r\n", 9, false),
        ("flush_all 9 noreply\r\n", 9, true),
        ("flush_all -1\r\n", -1, false),
        ("flush_all 4294967295\r\n", -1, false),
    ] {
        assert_eq!(request(line), Request::FlushAll { delay: Exptime(delay), noreply }, "{line}");
    }
    assert_eq!(request("verbosity 2 noreply\r\n"), Request::Verbosity { level: 2, noreply: true });
    assert_eq!(request("cache_memlimit 64\r\n"), Request::CacheMemlimit { mebibytes: 64, noreply: false });
    assert_eq!(request("stats items  x\r\n"), Request::Stats(Tokens::new(b" items  x")));
    assert_eq!(request("version\r\n"), Request::Version);
    assert_eq!(request("quit\r\n"), Request::Quit);
    assert_eq!(request("mn\r\n"), Request::MetaNoop);
    assert_eq!(request("shutdown\r\n"), Request::Shutdown(ShutdownMode::Immediate));
    assert_eq!(request("shutdown graceful\r\n"), Request::Shutdown(ShutdownMode::Graceful));
    assert_eq!(request("shutdown graceful now\r\n"), Request::Shutdown(ShutdownMode::Unknown));
    for name in ["slabs", "lru", "lru_crawler", "watch", "extstore", "refresh_certs"] {
        let line = format!("{name} a b\r\n");
        let Request::Unsupported { name: named, arguments } = request(&line) else { panic!("{line}") };
        assert_eq!((named, arguments.count()), (name.as_bytes(), 2));
    }
}

#[test]
fn the_first_fault_in_memcacheds_order_is_reported() {
    let long = "k".repeat(251);
    for (line, error) in [
        (format!("incr {long} x\r\n"), WireError::BadFormat),
        (format!("delete {long} 1\r\n"), WireError::DeleteUsage),
        (format!("touch {long} x\r\n"), WireError::BadFormat),
        (format!("gat x {long}\r\n"), WireError::InvalidExptime),
    ] {
        let Parse::Refused { refusal, .. } = Parser::new(Limits::default()).parse(line.as_bytes()) else {
            panic!("{line}")
        };
        assert_eq!(refusal.error, error, "{line}");
    }
}

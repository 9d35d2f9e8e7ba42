//! Times the parser and the composer: nanoseconds per request on one thread, best and median of
//! several rounds.
//!
//! `cargo run --release -p millpond-protocol --example parse_speed`
//!
//! Every case parses a buffer of 1,024 requests, as a pipelining client fills one, so that branch
//! prediction sees what a busy server sees. The last two cases parse one and the same request, as a
//! client without pipelining sends it.

use std::hint::black_box;

use base::Clock;
use millpond_protocol::memcached::{
    Exptime, Limits, Parse, ParsedResponse, Parser, Request, ResponseParser, StoreCommand, command, reply,
};

const REQUESTS: usize = 1_024;
const ROUNDS: usize = 200;

fn main() {
    let keys: Vec<Vec<u8>> = (0..REQUESTS).map(|n| format!("key:{n:012}").into_bytes()).collect();
    println!("{:<44} {:>9} {:>9}", "case (16-byte keys)", "best ns", "median ns");
    classic_requests(&keys);
    meta_requests(&keys);
    answers(&keys);
    single(
        "get, 1 key, alone in the buffer",
        &filled(&keys[..1], |out, key| command::get(out, false, [key])),
    );
    single("set, 100 bytes, alone in the buffer", &filled(&keys[..1], |out, key| set(out, key, 100)));
}

/// One request for each key.
fn filled(keys: &[Vec<u8>], compose: impl Fn(&mut Vec<u8>, &[u8])) -> Vec<u8> {
    let mut buffer = Vec::new();
    keys.iter().for_each(|key| compose(&mut buffer, key));
    buffer
}

fn set(out: &mut Vec<u8>, key: &[u8], len: usize) {
    command::store(out, StoreCommand::Set, key, 0, Exptime(0), None, &vec![b'x'; len], false);
}

fn classic_requests(keys: &[Vec<u8>]) {
    requests("get, 1 key", &filled(keys, |out, key| command::get(out, false, [key])));
    let long = |out: &mut Vec<u8>, key: &[u8]| command::get(out, false, [&key.repeat(7)[..100]]);
    requests("get, 1 key of 100 bytes", &filled(keys, long));
    requests("get, 10 keys", &filled(keys, |out, key| command::get(out, false, [key; 10])));
    requests("set, 100 bytes", &filled(keys, |out, key| set(out, key, 100)));
    requests("set, 4 KiB", &filled(keys, |out, key| set(out, key, 4_096)));
    let full = |out: &mut Vec<u8>, key: &[u8]| {
        command::store(out, StoreCommand::Set, key, 12_345, Exptime(86_400), None, &[b'x'; 100], false);
    };
    requests("set, flags and expiry", &filled(keys, full));
    requests("delete noreply", &filled(keys, |out, key| command::delete(out, key, true)));
    requests("version", &filled(keys, |out, _| command::line(out, b"version", [])));
}

fn meta_requests(keys: &[Vec<u8>]) {
    let get = |flags: &'static [&'static [u8]]| {
        move |out: &mut Vec<u8>, key: &[u8]| command::meta(out, b"mg", key, false, flags.iter().copied())
    };
    requests("mg key v", &filled(keys, get(&[b"v"])));
    requests("mg key v t f c k O1234", &filled(keys, get(&[b"v", b"t", b"f", b"c", b"k", b"O1234"])));
    let set = |out: &mut Vec<u8>, key: &[u8]| {
        command::meta_set(out, key, false, &[b'x'; 100], [&b"T60"[..], b"F5"]);
    };
    requests("ms key 100 T60 F5", &filled(keys, set));
}

fn answers(keys: &[Vec<u8>]) {
    let data = [b'x'; 100];
    let mut out = Vec::with_capacity(1 << 20);
    measure("compose VALUE, 100 bytes", || {
        out.clear();
        for key in keys {
            reply::value(&mut out, key, 0, &data, None);
        }
        black_box(&out);
    });
    let answers = filled(keys, |out, key| reply::value(out, key, 0, &data, None));
    measure("read VALUE, 100 bytes (client)", || {
        let (mut parser, mut rest) = (ResponseParser::default(), &answers[..]);
        while let ParsedResponse::Response { response, consumed } = parser.parse(rest) {
            black_box(response);
            rest = &rest[consumed..];
        }
    });
}

/// Parses all of `buffer`, and walks the keys of retrievals as a server does.
fn requests(name: &str, buffer: &[u8]) {
    measure(name, || {
        let (mut parser, mut rest, mut count) = (Parser::new(Limits::default()), buffer, 0);
        while let Parse::Request { request, consumed } = parser.parse(black_box(rest)) {
            use_up(&request);
            rest = &rest[consumed..];
            count += 1;
        }
        assert_eq!(count, REQUESTS, "{name}");
    });
}

fn single(name: &str, buffer: &[u8]) {
    let mut parser = Parser::new(Limits::default());
    measure(name, || {
        for _ in 0..REQUESTS {
            let Parse::Request { request, .. } = parser.parse(black_box(buffer)) else { panic!("{name}") };
            use_up(&request);
        }
    });
}

fn use_up(request: &Request<'_>) {
    match request {
        Request::Get(get) => get.keys.for_each(|key| {
            black_box(key);
        }),
        other => {
            black_box(other);
        }
    }
}

fn measure(name: &str, mut round: impl FnMut()) {
    let clock = Clock::System;
    let mut nanos: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let start = clock.monotonic_nanos();
            round();
            clock.monotonic_nanos() - start
        })
        .collect();
    nanos.sort_unstable();
    let per_request = |nanos: u64| nanos as f64 / REQUESTS as f64;
    println!("{name:<44} {:>9.1} {:>9.1}", per_request(nanos[0]), per_request(nanos[ROUNDS / 2]));
}

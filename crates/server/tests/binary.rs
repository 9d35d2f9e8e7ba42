//! The binary protocol where text is spoken as well, and where it is not.

mod support;

use millpond_server::config::{Address, ListenerConfig, Protocol};
use protocol::memcached::binary::{Answer, Frame, HEADER_BYTES, Opcode, Status};
use support::{Client, address, config, metric, tcp};

fn frame(opcode: Opcode, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Frame { opcode: opcode.0, opaque: 7, cas: 0, extras, key, value }.write(&mut out);
    out
}

/// The next answer: what it answers, its status and its value.
fn answer(client: &mut Client) -> (Opcode, u16, Vec<u8>) {
    let mut bytes = client.read_exact(HEADER_BYTES);
    let body_len = u32::from_be_bytes(bytes[8..12].try_into().expect("four bytes"));
    bytes.extend(client.read_exact(body_len as usize));
    let (answer, len) = Answer::read(&bytes).expect("an answer").expect("all of it");
    assert_eq!((len, answer.head.opaque), (bytes.len(), 7));
    (answer.head.opcode, answer.status, answer.value.to_vec())
}

#[test]
fn what_one_protocol_stores_the_other_reads() {
    let server = support::start(config()).expect("a server");
    let (mut text, mut binary) = (Client::connect(address(&server)), Client::connect(address(&server)));
    assert_eq!(text.ask("set a 5 0 3\r\nabc\r\n"), "STORED");
    binary.send(frame(Opcode::APPEND, b"", b"a", b"def"));
    assert_eq!(answer(&mut binary), (Opcode::APPEND, 0, Vec::new()));
    assert_eq!(text.ask("mg a v f\r\n"), "VA 6 f5");
    assert_eq!(text.line(), "abcdef");
    binary.send(frame(Opcode::SET, &[0; 8], b"b", &[b'v'; 100_000]));
    assert_eq!(answer(&mut binary), (Opcode::SET, 0, Vec::new()));
    assert_eq!(text.ask("mg b s\r\n"), "HD s100000");
    let requests = "millpond_server_requests_total{listener=\"main\",command=\"set\",outcome=\"stored\"}";
    assert_eq!(metric(&server, requests), 3);
}

#[test]
fn each_listener_speaks_what_it_is_told_to() {
    let mut config = config();
    for (name, protocol) in [("text", Protocol::MemcachedText), ("binary", Protocol::MemcachedBinary)] {
        let address = Address::loopback(0);
        let name = name.to_owned();
        config.listeners.push(ListenerConfig { name, address, protocol, ..ListenerConfig::default() });
    }
    let server = support::start(config).expect("a server");
    let place = |number: usize| tcp(&server.addresses()[number].1);
    let noop = frame(Opcode::NOOP, b"", b"", b"");

    let mut client = Client::connect(place(1));
    assert_eq!(client.ask(&noop), "CLIENT_ERROR the binary protocol is not supported");
    assert!(client.is_closed());
    assert_eq!(Client::connect(place(1)).ask("mn\r\n"), "MN");

    let mut client = Client::connect(place(2));
    client.send(&noop);
    assert_eq!(answer(&mut client), (Opcode::NOOP, 0, Vec::new()));
    let mut client = Client::connect(place(2));
    client.send("mn\r\n");
    assert!(client.is_closed());
    let refusals = "millpond_server_refusals_total{listener=\"binary\",reason=\"malformed\"}";
    assert_eq!(metric(&server, refusals), 1);
}

#[test]
fn what_is_refused_for_its_size_is_counted_and_what_follows_is_answered() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    let requests = [
        frame(Opcode::SET_Q, &[0; 8], b"a", b"1"),
        frame(Opcode::SET_Q, &[0; 8], b"a", &vec![b'v'; 2 << 20]),
        frame(Opcode::GET_KQ, b"", b"a", b""),
        frame(Opcode::NOOP, b"", b"", b""),
    ];
    client.send(requests.concat());
    let too_large = Status::TooLarge;
    assert_eq!(answer(&mut client), (Opcode::SET_Q, too_large as u16, too_large.text().to_vec()));
    assert_eq!(answer(&mut client), (Opcode::NOOP, 0, Vec::new()), "a set that failed leaves nothing behind");
    let refusals = "millpond_server_refusals_total{listener=\"main\",reason=\"item_too_large\"}";
    assert_eq!(metric(&server, refusals), 1);
}

/// More answers than the output takes at once: all come, in order, however late they are read.
#[test]
fn many_quiet_gets_are_answered_in_order() {
    let mut config = config();
    config.limits.max_output_buffer_bytes = base::ByteSize::new(50_000);
    let server = support::start(config).expect("a server");
    let mut client = Client::connect(address(&server));
    client.send(frame(Opcode::SET_Q, &[0; 8], b"big", &[b'b'; 30_000]));
    client.send(frame(Opcode::SET_Q, &[0; 8], b"small", b"s"));
    let gets = [&b"big"[..], b"small", b"missing"].map(|key| frame(Opcode::GET_KQ, b"", key, b"")).concat();
    client.send(gets.repeat(200));
    client.send(frame(Opcode::NOOP, b"", b"", b""));
    for _ in 0..200 {
        assert_eq!(answer(&mut client), (Opcode::GET_KQ, 0, vec![b'b'; 30_000]));
        assert_eq!(answer(&mut client), (Opcode::GET_KQ, 0, b"s".to_vec()));
    }
    assert_eq!(answer(&mut client), (Opcode::NOOP, 0, Vec::new()));
}

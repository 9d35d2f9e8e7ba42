//! HTTP on a port of the cache: what a web page can have a browser send is not carried out,
//! whatever the port speaks.

mod support;

use std::io::{Read, Write};

use millpond_server::config::{Protocol, Secret, UserSettings};
use millpond_server::{Config, Server, hash_password};
use support::{Client, address, config, metric};

const PROTOCOLS: [Protocol; 4] =
    [Protocol::Memcached, Protocol::MemcachedText, Protocol::Resp, Protocol::Auto];

fn speaking(protocol: Protocol) -> Config {
    let mut config = config();
    config.listeners[0].protocol = protocol;
    config
}

/// All that comes back for these bytes until the server closes the connection; the client does not.
fn answer(server: &Server, request: &[u8], step: usize) -> Vec<u8> {
    let mut client = Client::connect(address(server));
    for part in request.chunks(step) {
        // Once the server has closed the connection, the rest cannot be sent.
        if client.stream.write_all(part).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    match client.stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it was not closed"),
    }
    answer
}

/// A request with commands of both protocols in its body, as a form of a web page can be made to
/// hold.
fn request(first_line: &str) -> Vec<u8> {
    let body = "set pwned 0 0 1\r\nx\r\nSET pwned x\r\n*3\r\n$3\r\nSET\r\n$5\r\npwned\r\n$1\r\nx\r\n";
    let head = "Host: localhost\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n";
    format!("{first_line}\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn http_requests_are_closed_before_anything_is_carried_out() {
    for protocol in PROTOCOLS {
        let server = support::start(speaking(protocol)).expect("a server");
        let lines = ["POST / HTTP/1.1", "GET /x HTTP/1.0", "PUT /a/b HTTP/1.1", "OPTIONS * HTTP/1.1", "post"];
        for line in lines {
            for step in [usize::MAX, 7] {
                let answer = answer(&server, &request(line), step);
                assert!(answer.is_empty(), "{protocol:?} {line}: {}", answer.escape_ascii());
            }
        }
        let refused = metric(&server, r#"millpond_server_refusals_total{listener="main",reason="http"}"#);
        assert_eq!(refused, 2 * lines.len() as u64, "{protocol:?}");
        assert_eq!(stored(&server, protocol), "no", "{protocol:?}");
    }
}

/// Returns whether the key of [`request`] is stored.
fn stored(server: &Server, protocol: Protocol) -> String {
    let mut client = Client::connect(address(server));
    let is_there = match protocol {
        Protocol::Resp => client.ask("EXISTS pwned\r\n") != ":0",
        _ => client.ask("get pwned\r\n") != "END",
    };
    (if is_there { "yes" } else { "no" }).to_owned()
}

/// A head in which another line comes first, of a client that isn't a browser, ends at `Host:`.
#[test]
fn a_host_header_closes_the_connection_whatever_came_before() {
    for protocol in PROTOCOLS {
        let server = support::start(speaking(protocol)).expect("a server");
        let answer =
            answer(&server, b"nosuch\r\nHost: localhost\r\nset pwned 0 0 1\r\nx\r\nSET pwned x\r\n", 99);
        let lines = answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        assert_eq!(lines, 1, "{protocol:?}: {}", answer.escape_ascii());
        assert_eq!(stored(&server, protocol), "no", "{protocol:?}");
    }
}

#[test]
fn http_is_closed_also_where_users_must_say_who_they_are() {
    for protocol in PROTOCOLS {
        let bob = UserSettings {
            name: "bob".to_owned(),
            password_hash: Secret(hash_password(b"pw")),
            rules: Secret("allkeys allcommands".to_owned()),
            ..UserSettings::default()
        };
        let server = support::start(Config { users: vec![bob], ..speaking(protocol) }).expect("a server");
        let answer = answer(&server, &request("POST / HTTP/1.1"), usize::MAX);
        assert!(answer.is_empty(), "{protocol:?}: {}", answer.escape_ascii());
    }
}

#[test]
fn commands_that_look_like_http_are_carried_out() {
    let server = support::start(speaking(Protocol::Resp)).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("SET proto HTTP/1.1\r\n"), "+OK");
    assert_eq!(client.ask("*3\r\n$3\r\nSET\r\n$4\r\nPOST\r\n$8\r\nHTTP/1.1\r\n"), "+OK");
    assert_eq!(client.ask("APPEND POST Host:\r\n"), ":13");
    let server = support::start(speaking(Protocol::Memcached)).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set Host: 0 0 8\r\nHTTP/1.1\r\n"), "STORED");
    assert_eq!(client.ask("set k 0 0 28\r\nPOST / HTTP/1.1\r\nHost: x\r\n\r\n\r\n"), "STORED", "it is data");
    assert_eq!(client.ask("get / HTTP/1.1\r\n"), "END", "a key");
}

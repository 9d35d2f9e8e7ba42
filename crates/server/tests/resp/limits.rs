//! The bounds of everything that a client may make grow, and the replies that report them.

use base::{ByteSize, Clock};
use millpond_server::Server;

use crate::client::{Client, request};
use crate::reference::{config, millpond, start};

#[test]
fn what_is_no_request_is_told_and_the_connection_closed() {
    let (_server, address) = millpond();
    for (sent, error) in [
        (b"*x\r\n".as_slice(), "invalid multibulk length"),
        (b"*1\r\n+\r\n", "expected \\'$\\', got \\'+\\'"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"get \"\r\n", "unbalanced quotes in request"),
        (&[b'a'; 70_000], "too big inline request"),
    ] {
        let mut client = Client::connect(address);
        client.send("PING\r\n");
        client.send(sent);
        assert_eq!(client.reply(), "+PONG");
        assert_eq!(client.reply(), format!("-ERR Protocol error: {error}"));
        assert_eq!(client.reply(), "closed");
    }
}

/// A server of one connection, that connection, and another one.
fn full() -> (Server, Client, Client) {
    let mut config = config();
    config.limits.max_connections = 1;
    let (server, address) = start(config, Clock::System);
    let mut first = Client::connect(address);
    assert_eq!(first.ask("PING"), "+PONG");
    (server, first, Client::connect(address))
}

#[test]
fn one_connection_too_many_is_told_so() {
    let (_server, mut first, mut second) = full();
    assert_eq!(second.reply(), "-ERR max number of clients reached");
    assert_eq!(second.reply(), "closed");
    assert_eq!(first.ask("PING"), "+PONG");
}

/// As of clients that connect again all at once, whose old connections another worker has not
/// closed yet.
#[test]
fn a_connection_that_finds_no_place_waits_a_moment_for_one() {
    let (_server, first, mut second) = full();
    second.send("PING\r\n");
    base::thread::sleep(std::time::Duration::from_millis(10));
    drop(first);
    assert_eq!(second.reply(), "+PONG");
}

#[test]
fn what_is_too_large_is_refused_and_the_connection_goes_on() {
    const TOO_LONG: &str = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    let mut config = config();
    config.limits.max_item_bytes = ByteSize::kib(100);
    config.limits.max_request_bytes = ByteSize::kib(128);
    let (_server, address) = start(config, Clock::System);
    let mut client = Client::connect(address);
    let large = "x".repeat(200_000);
    assert_eq!(client.ask(&format!("SET k {large}")), TOO_LONG);
    assert_eq!(client.ask("GET k"), "$-1");
    let half = "x".repeat(60_000);
    assert_eq!(client.ask(&format!("MSET a {half} b {half} c {half}")), TOO_LONG);
    assert_eq!(client.ask("EXISTS a b c"), ":0");
    assert_eq!(client.ask(&format!("SET k {half}")), "+OK");
    assert_eq!(client.ask(&format!("APPEND k {half}")), TOO_LONG);
    assert_eq!(client.ask("SETRANGE k 200000 x"), TOO_LONG);
    assert_eq!(client.ask("STRLEN k"), ":60000");
    assert_eq!(client.ask("MULTI"), "+OK");
    assert_eq!(client.ask(&format!("SET k {half}")), "+QUEUED");
    assert_eq!(client.ask(&format!("SET k {half}")), "+QUEUED");
    assert_eq!(client.ask(&format!("SET k {half}")), "-ERR the transaction is too long");
    assert_eq!(client.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(client.ask("PING"), "+PONG");
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    let (_server, address) = millpond();
    let mut other = Client::connect(address);
    other.ask(&format!("SET big {}", "v".repeat(500_000)));
    let mut slow = Client::connect(address);
    slow.stream.set_nonblocking(true).expect("non-blocking");
    let requests = request("GET big").repeat(1_000);
    let mut stuck = 0;
    while stuck < 20 {
        match std::io::Write::write(&mut slow.stream, &requests) {
            Ok(_) => stuck = 0,
            Err(_) => {
                stuck += 1;
                base::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
    assert_eq!(other.ask("STRLEN big"), ":500000");
    assert_eq!(other.ask("PING"), "+PONG");
}

//! The bounds of everything that a client may make grow: each is reported and counted, and a slow
//! or hostile client harms itself only.

mod support;

use std::time::Duration;

use base::{ByteSize, Clock};
use millpond_server::config::Auto;
use support::{Client, address, config, metric, wait_until};

const CLOSES: &str = "millpond_server_closes_total{listener=\"main\",reason=";
const REFUSALS: &str = "millpond_server_refusals_total{listener=\"main\",reason=";

fn store(client: &mut Client, key: &str, len: usize) {
    let value = "v".repeat(len);
    assert_eq!(client.ask(format!("set {key} 0 0 {len}\r\n{value}\r\n")), "STORED");
}

#[test]
fn one_connection_too_many_is_told_so() {
    let mut config = config();
    config.limits.max_connections = 3;
    let server = support::start(config).expect("a server");
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(address(&server))).collect();
    for client in &mut clients {
        assert_eq!(client.ask("mn\r\n"), "MN");
    }
    let mut refused = Client::connect(address(&server));
    assert_eq!(refused.line(), "ERROR Too many open connections");
    assert!(refused.is_closed());
    assert_eq!(metric(&server, &format!("{REFUSALS}\"too_many_connections\"}}")), 1);

    drop(clients.pop());
    wait_until("the closed connection makes room", || server.connections() == 2);
    assert_eq!(Client::connect(address(&server)).ask("mn\r\n"), "MN");
    for client in &mut clients {
        assert_eq!(client.ask("mn\r\n"), "MN", "those that were there are served on");
    }
}

#[test]
fn a_line_that_does_not_end_is_refused() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    // More than the limit of a retrieval, which is the larger one.
    let endless = "k".repeat(1 << 16);
    client.send("get ");
    for _ in 0..20 {
        if std::io::Write::write_all(&mut client.stream, endless.as_bytes()).is_err() {
            break;
        }
    }
    assert_eq!(client.line(), "CLIENT_ERROR line too long");
    assert!(client.is_closed());
    assert_eq!(metric(&server, &format!("{REFUSALS}\"line_too_long\"}}")), 1);
    // The connection lingers until the client closes as well, without the line.
    wait_until("the line is gone", || metric(&server, "millpond_server_connection_memory_bytes{}") < 1000);
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let clock = Clock::manual(1_000_000);
    let server = support::start_with_clock(config(), clock.clone()).expect("a server");
    let mut other = Client::connect(address(&server));
    store(&mut other, "big", 900_000);
    let mut slow = Client::connect(address(&server));
    slow.stream.set_nonblocking(true).expect("non-blocking");
    // Asks for terabytes and reads none of them, until nothing more can be sent.
    let request = format!("get{}\r\n", " big".repeat(1_000)).repeat(100);
    let mut stuck = 0;
    while stuck < 40 {
        match std::io::Write::write(&mut slow.stream, request.as_bytes()) {
            Ok(_) => stuck = 0,
            Err(_) => {
                stuck += 1;
                base::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    let held = metric(&server, "millpond_server_connection_memory_bytes{}");
    assert!(held < 4 << 20, "one client holds {held} bytes");
    assert_eq!(other.ask("mg big s\r\n"), "HD s900000", "others are served meanwhile");
    clock.advance(Duration::from_secs(61));
    wait_until("the stalled client is closed", || metric(&server, &format!("{CLOSES}\"stalled\"}}")) == 1);
    wait_until("its memory is given back", || {
        metric(&server, "millpond_server_connection_memory_bytes{}") < 100_000
    });
    assert_eq!(other.ask("mg big s\r\n"), "HD s900000", "the time-out is for the stalled one alone");
}

/// All replies are sent once the client reads, however often the output was full in between.
#[test]
fn a_client_that_reads_late_gets_everything() {
    let mut config = config();
    config.limits.max_output_buffer_bytes = ByteSize::new(50_000);
    let server = support::start(config).expect("a server");
    let mut client = Client::connect(address(&server));
    store(&mut client, "big", 30_000);
    store(&mut client, "small", 10);
    let request = format!("get{}\r\nmg small v\r\n", " big small missing".repeat(100));
    for _ in 0..3 {
        client.send(&request);
    }
    base::thread::sleep(Duration::from_millis(200));
    for _ in 0..3 {
        for _ in 0..100 {
            assert_eq!(client.line(), "VALUE big 0 30000");
            assert_eq!(client.read_exact(30_002), [&[b'v'; 30_000][..], b"\r\n"].concat());
            assert_eq!(client.line(), "VALUE small 0 10");
            assert_eq!(client.line(), "v".repeat(10));
        }
        assert_eq!(client.line(), "END");
        assert_eq!(client.line(), "VA 10");
        assert_eq!(client.line(), "v".repeat(10));
    }
    assert_eq!(client.ask("mn\r\n"), "MN");
}

#[test]
fn half_a_request_does_not_stay_for_ever() {
    let clock = Clock::manual(1_000_000);
    let mut config = config();
    config.limits.stall_timeout_secs = 30;
    let server = support::start_with_clock(config, clock.clone()).expect("a server");
    let mut half_line = Client::connect(address(&server));
    let mut half_value = Client::connect(address(&server));
    let mut idle = Client::connect(address(&server));
    half_line.send("get someth");
    half_value.send("set a 0 0 100000\r\nbegins");
    assert_eq!(idle.ask("mn\r\n"), "MN");
    wait_until("all three are there", || server.connections() == 3);
    // What was sent may be read at a later time.
    wait_until("both are gone", || {
        clock.advance(Duration::from_secs(31));
        server.connections() == 1
    });
    assert!(half_line.is_closed());
    assert!(half_value.is_closed());
    assert_eq!(idle.ask("mg a\r\n"), "EN", "nothing was stored, and who owes nothing may be idle");
    assert_eq!(metric(&server, &format!("{CLOSES}\"stalled\"}}")), 2);
}

#[test]
fn an_idle_client_is_closed_if_that_is_wanted() {
    let clock = Clock::manual(1_000_000);
    let mut config = config();
    config.limits.idle_timeout_secs = 10;
    let server = support::start_with_clock(config, clock.clone()).expect("a server");
    let mut idle = Client::connect(address(&server));
    let mut busy = Client::connect(address(&server));
    assert_eq!(idle.ask("mn\r\n"), "MN");
    // A request that has come by the time that its connection is taken up counts from then on,
    // which may be before the clock is moved. Later ones are read after the clock.
    assert_eq!(busy.ask("mn\r\n"), "MN");
    clock.advance(Duration::from_secs(9));
    assert_eq!(busy.ask("mn\r\n"), "MN");
    clock.advance(Duration::from_secs(2));
    assert!(idle.is_closed());
    assert_eq!(busy.ask("mn\r\n"), "MN");
    assert_eq!(metric(&server, &format!("{CLOSES}\"idle\"}}")), 1);
}

#[test]
fn who_holds_most_is_closed_when_connections_hold_too_much() {
    let mut config = config();
    config.limits.max_connection_memory_bytes = Auto::Set(ByteSize::mib(2));
    let server = support::start_in_memory(config).expect("a server");
    let mut modest = Client::connect(address(&server));
    store(&mut modest, "a", 10);
    // Each begins a value of 900 kB and goes silent.
    let mut hoarders: Vec<Client> = (0..8).map(|_| Client::connect(address(&server))).collect();
    for hoarder in &mut hoarders {
        hoarder.send("set b 0 0 900000\r\nbegins");
    }
    wait_until("some of them are closed", || metric(&server, &format!("{CLOSES}\"memory\"}}")) >= 6);
    let held = metric(&server, "millpond_server_connection_memory_bytes{}");
    assert!(held <= 2 << 20, "connections hold {held} bytes");
    assert_eq!(modest.ask("mg a s\r\n"), "HD s10", "a client that holds next to nothing is left alone");
}

#[test]
fn a_flood_of_requests_leaves_others_their_turn() {
    let mut config = config();
    config.threads = Auto::Set(1);
    config.limits.max_requests_per_turn = 16;
    let server = support::start(config).expect("a server");
    let place = address(&server);
    let mut polite = Client::connect(place);
    assert_eq!(polite.ask("mn\r\n"), "MN");
    let flood = base::thread::spawn("flood", move || {
        let mut client = Client::connect(place);
        let requests = "mg nothing q\r\n".repeat(20_000);
        for _ in 0..10 {
            client.send(&requests);
        }
        client.ask("mn\r\n")
    })
    .expect("a thread");
    for _ in 0..50 {
        assert_eq!(polite.ask("mg nothing\r\n"), "EN");
    }
    assert_eq!(flood.join().expect("no panic"), "MN");
    assert!(metric(&server, "millpond_server_pauses_total{listener=\"main\",reason=\"turn\"}") > 0);
}

#[test]
fn too_many_keys_and_too_large_items_are_counted() {
    let mut config = config();
    config.limits.max_get_keys = 3;
    config.limits.max_item_bytes = ByteSize::new(2000);
    let server = support::start(config).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("get a b c\r\n"), "END");
    assert_eq!(client.ask("get a b c d\r\n"), "CLIENT_ERROR too many keys");
    let value = "v".repeat(2000);
    assert_eq!(
        client.ask(format!("set a 0 0 2000\r\n{value}\r\n")),
        "SERVER_ERROR object too large for cache"
    );
    assert_eq!(client.ask("nonsense\r\n"), "ERROR");
    assert_eq!(metric(&server, &format!("{REFUSALS}\"too_many_keys\"}}")), 1);
    assert_eq!(metric(&server, &format!("{REFUSALS}\"item_too_large\"}}")), 1);
    assert_eq!(metric(&server, &format!("{REFUSALS}\"malformed\"}}")), 1);
}

/// A client that closes in the middle of everything leaves nothing behind.
#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    store(&mut client, "big", 900_000);
    for round in 0..20 {
        let mut vanishing = Client::connect(address(&server));
        vanishing.send(match round % 4 {
            0 => "get big big big big big big big big\r\n".to_owned(),
            1 => "set a 0 0 500000\r\nbegins".to_owned(),
            2 => "get hal".to_owned(),
            _ => format!("set a 0 0 50\r\n{}", "x".repeat(20)),
        });
    }
    wait_until("only one connection is left", || server.connections() == 1);
    wait_until("it holds little", || metric(&server, "millpond_server_connection_memory_bytes{}") < 10_000);
    assert_eq!(client.ask("mg big s\r\n"), "HD s900000");
    assert_eq!(client.ask("mg a\r\n"), "EN");
}

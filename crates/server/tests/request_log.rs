//! The log of requests: what clients of both protocols ask for is written as traces have it, and
//! keys only where that was asked for.

mod support;

use base::Clock;
use millpond_server::ErrorKind;
use millpond_server::config::{Address, ListenerConfig, Protocol};
use support::{Client, address, config, metric, wait_until};

#[test]
fn requests_of_both_protocols_are_written_without_their_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("requests.csv");
    let mut config = config();
    config.listeners[0].protocol = Protocol::Auto;
    let server = support::start(config.clone()).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set before 0 0 1\r\n1\r\n"), "STORED");
    config.watch.request_log = path.clone();
    config.watch.request_log_one_in = 1;
    server.reload(&config).expect("good");

    assert_eq!(client.ask("set secret,key 0 60 5\r\nvalue\r\n"), "STORED");
    assert_eq!(client.ask("mg secret,key s\r\n"), "HD s5");
    assert_eq!(client.ask("mg none s\r\n"), "EN");
    assert_eq!(client.ask("touch secret,key 9\r\n"), "TOUCHED");
    assert_eq!(client.ask("incr none 1\r\n"), "NOT_FOUND");
    assert_eq!(client.ask("add secret,key 0 0 2\r\n22\r\n"), "NOT_STORED");
    assert_eq!(client.ask("delete before\r\n"), "DELETED");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("*2\r\n$6\r\nSTRLEN\r\n$10\r\nsecret,key\r\n"), ":5");
    assert_eq!(client.ask("*2\r\n$3\r\nGET\r\n$4\r\nnone\r\n"), "$-1");
    assert_eq!(client.ask("*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$2\r\n11\r\n$1\r\nb\r\n$3\r\n222\r\n"), "+OK");
    assert!(client.ask("*3\r\n$5\r\nLPUSH\r\n$1\r\na\r\n$1\r\nx\r\n").starts_with("-WRONGTYPE"));
    let large = "v".repeat(100_000);
    assert_eq!(client.ask(format!("*3\r\n$3\r\nSET\r\n$1\r\nc\r\n$100000\r\n{large}\r\n")), "+OK");
    wait_until("all is written", || metric(&server, "millpond_request_log_written_total{}") == 13);
    assert_eq!(metric(&server, "millpond_request_log_dropped_total{}"), 0);
    server.stop();

    let text = std::fs::read_to_string(&path).expect("the log");
    assert!(!text.contains("secret"), "{text}");
    // Without time, key and latency.
    let shown = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert!(fields[0].parse::<u64>().is_ok() && fields[5].parse::<u64>().is_ok(), "{line}");
        [&fields[1..5], &fields[6..10]].concat().join(",")
    };
    let expected = [
        "default,memcached,set,set,10,5,60,stored",
        "default,memcached,mg,get,10,5,,hit",
        "default,memcached,mg,get,4,,,miss",
        "default,memcached,touch,touch,10,,9,hit",
        "default,memcached,incr,set,4,,,not_found",
        "default,memcached,add,set,10,2,,not_stored",
        "default,memcached,delete,delete,6,,,deleted",
        "default,resp,strlen,get,10,,,ok",
        "default,resp,get,get,4,,,miss",
        "default,resp,mset,set,1,2,,ok",
        "default,resp,mset,set,1,3,,ok",
        "default,resp,lpush,set,1,,,error",
        "default,resp,set,set,1,100000,,ok",
    ];
    assert_eq!(text.lines().skip(2).map(shown).collect::<Vec<_>>(), expected);
}

/// Plays requests, each on a connection of its own, checks the lines of their answers, and returns
/// what the log has of each line in the columns command, op, size, ttl and outcome.
fn logged(requests: &[(Protocol, &str, &str)], lines: u64) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("requests.csv");
    let mut config = config();
    config.threads = millpond_server::config::Auto::Set(1);
    config.listeners = [Protocol::Memcached, Protocol::Resp]
        .into_iter()
        .map(|protocol| ListenerConfig {
            name: format!("{protocol:?}").to_lowercase(),
            protocol,
            address: Address::loopback(0),
            ..ListenerConfig::default()
        })
        .collect();
    config.watch.request_log = path.clone();
    config.watch.request_log_one_in = 1;
    let server = support::start(config).expect("a server");
    for (protocol, request, answer) in requests {
        let listener = usize::from(*protocol == Protocol::Resp);
        let mut client = Client::connect(support::tcp(&server.addresses()[listener].1));
        client.send(format!("{request}\r\n"));
        for line in answer.lines() {
            assert_eq!(client.line(), line, "{request}");
        }
    }
    wait_until("all is written", || metric(&server, "millpond_request_log_written_total{}") >= lines);
    server.stop();
    let text = std::fs::read_to_string(&path).expect("the log");
    let shown = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        [&fields[3..5], &fields[7..10]].concat().join(",")
    };
    text.lines().skip(1).filter(|line| !line.starts_with('#')).map(shown).collect()
}

#[test]
fn times_to_live_of_both_protocols_are_logged() {
    let (memcached, resp) = (Protocol::Memcached, Protocol::Resp);
    let now = Clock::System.unix_nanos() / 1_000_000_000;
    let later = now + 1_000_000;
    let large = "v".repeat(100_000);
    let requests = [
        (resp, "set k v ex 100", "+OK"),
        (resp, "set k v px 1500", "+OK"),
        (resp, "setex k 60 v", "+OK"),
        (resp, "psetex k 60001 v", "+OK"),
        (resp, &format!("set k v exat {later}"), "+OK"),
        (resp, "getex k ex 50", "$1"),
        (resp, "getex k", "$1"),
        (resp, "expire k 70", ":1"),
        (resp, "pexpire k 71000", ":1"),
        (resp, &format!("pexpireat k {later}000"), ":1"),
        (resp, "set k v", "+OK"),
        (resp, &format!("*5\r\n$3\r\nset\r\n$1\r\nk\r\n$100000\r\n{large}\r\n$2\r\nEX\r\n$2\r\n90"), "+OK"),
        (resp, "expire k -1", ":1"),
        (memcached, "set k 0 0 1\r\nv", "STORED"),
        (memcached, "gat 66 k", "VALUE k 0 1"),
        (memcached, "mg k T300", "HD"),
        (memcached, "mg k", "HD"),
        (memcached, "ma n N40 J5", "HD"),
        (memcached, "ma n T41", "HD"),
        (memcached, "incr n 1", "7"),
    ];
    let until = |line: &str, from: u64| {
        let ttl: u64 = line.split(',').nth(3).and_then(|ttl| ttl.parse().ok()).unwrap_or(0);
        (from - 60..=from).contains(&ttl)
    };
    let lines = logged(&requests, 20);
    let ttls: Vec<&str> = lines.iter().map(|line| line.split(',').nth(3).expect("a column")).collect();
    assert!(until(&lines[4], 1_000_000) && until(&lines[9], 1_000_000), "{lines:?}");
    let expected = [
        "100", "2", "60", "61", ttls[4], "50", "", "70", "71", ttls[9], "", "90", "1", "", "66", "300", "",
        "40", "41", "",
    ];
    assert_eq!(ttls, expected, "{lines:#?}");
}

#[test]
fn rows_tell_of_each_key_what_is_done_to_it() {
    let (memcached, resp) = (Protocol::Memcached, Protocol::Resp);
    let requests = [
        (resp, "set k 12345", "+OK"),
        (resp, "append k 678", ":8"),
        (resp, "setrange k 9 x", ":10"),
        (resp, "copy k j", ":1"),
        (resp, "rename j i", "+OK"),
        (resp, "sadd s a b", ":2"),
        (resp, "sinterstore d s", ":2"),
        (resp, "getex k", "$10"),
        (resp, "getdel i", "$10"),
        (
            resp,
            "multi\r\nget k\r\nget none\r\nmget k none\r\nexec",
            "+OK\n+QUEUED\n+QUEUED\n+QUEUED\n*3\n$10\n12345678\0x\n$-1\n*2",
        ),
        (memcached, "append k 0 70 2\r\nyz", "STORED"),
    ];
    let expected = [
        "set,set,5,,ok",
        "append,set,8,,ok",
        "setrange,set,10,,ok",
        "copy,get,10,,ok",
        "copy,set,10,,ok",
        "rename,delete,,,ok",
        "rename,set,10,,ok",
        "sadd,set,,,ok",
        "sinterstore,set,,,ok",
        "sinterstore,get,,,ok",
        "getex,get,10,,hit",
        "getdel,delete,,,ok",
        "get,get,10,,hit",
        "get,get,,,miss",
        "mget,get,10,,hit",
        "mget,get,,,miss",
        "append,set,12,,stored",
    ];
    assert_eq!(logged(&requests, expected.len() as u64), expected);
}

#[test]
fn a_log_that_cannot_be_written_stops_the_start_and_says_so() {
    let mut config = config();
    config.watch.request_log = "/nowhere/at/all/requests.csv".into();
    let error = support::start(config).map(drop).expect_err("there is no such folder");
    assert_eq!(error.kind(), ErrorKind::System);
    assert!(error.to_string().contains("watch.request_log: /nowhere/at/all/requests.csv"), "{error}");
}

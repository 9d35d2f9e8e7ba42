//! Requests whose items are beneath memory, in a cache that answers late.

mod support;

use support::{Client, address, config, start_late};

#[test]
fn requests_wait_for_what_is_beneath() {
    let (server, late) = start_late(config(), base::Clock::System).expect("a server");
    let mut client = Client::connect(address(&server));
    let mut redis = Client::connect(address(&server));
    for round in 0..50 {
        assert_eq!(client.ask(format!("set counter 0 0 1\r\n{}\r\n", round % 10)), "STORED");
        base::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(client.ask("get counter\r\n"), "VALUE counter 0 1");
        assert_eq!((client.line(), client.line()), ((round % 10).to_string(), "END".to_owned()));
        base::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(client.ask("incr counter 5\r\n"), (round % 10 + 5).to_string());
        base::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(redis.ask(format!("RPUSH list {round}\r\n")), format!(":{}", round + 1));
        base::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(redis.ask("INCR counter\r\n"), format!(":{}", round % 10 + 6));
        assert_eq!(redis.ask("LLEN list\r\n"), format!(":{}", round + 1));
    }
    assert!(late.fetched() > 100, "{} requests waited", late.fetched());
    server.stop();
}

#[test]
fn a_cache_beneath_that_hangs_holds_up_no_client_for_long() {
    let (server, late) = start_late(config(), base::Clock::System).expect("a server");
    let mut client = Client::connect(address(&server));
    let mut redis = Client::connect(address(&server));
    let evicted = || base::thread::sleep(std::time::Duration::from_millis(20));
    for key in ["one", "two", "three"] {
        assert_eq!(client.ask(format!("set {key} 0 0 1\r\n5\r\n")), "STORED");
    }
    evicted();
    late.hang(true);
    // All of them at once, so that the wait is one; the absent one is not waited for.
    redis.send("MGET one absent two\r\n");
    client.send("incr three 1\r\nget absent\r\n");
    assert_eq!([(); 4].map(|()| redis.line()), ["*3", "$-1", "$-1", "$-1"]);
    assert_eq!([(); 2].map(|()| client.line()), ["NOT_FOUND", "END"]);
    // What is written counts, and nothing older comes back when the cache beneath answers again.
    assert_eq!(redis.ask("SET one 6\r\n"), "+OK");
    late.hang(false);
    evicted();
    assert_eq!(redis.ask("INCR one\r\n"), ":7");
    assert_eq!(redis.ask("GET two\r\n"), "$1", "what was only read is there still");
    assert_eq!(redis.line(), "5");
    server.stop();
}

#[test]
fn what_a_client_was_told_is_gone_does_not_come_back() {
    let (server, late) = start_late(config(), base::Clock::System).expect("a server");
    let mut redis = Client::connect(address(&server));
    let mut client = Client::connect(address(&server));
    let keys = ["del", "getdel", "expire", "incr", "append", "set", "delete", "touch"];
    for key in keys {
        assert_eq!(redis.ask(format!("SET {key} 5\r\n")), "+OK");
    }
    assert_eq!(redis.ask("SADD srem a b\r\n"), ":2");
    assert_eq!(redis.ask("SADD sinter a b\r\n"), ":2");
    base::thread::sleep(std::time::Duration::from_millis(100));
    late.hang(true);
    // In one pipeline each, so that they wait one after the other: each for itself.
    let asked = [
        ("DEL del", ":0"),
        ("GETDEL getdel", "$-1"),
        ("EXPIRE expire -1", ":0"),
        ("SREM srem a", ":0"),
        ("SINTERSTORE sinter none sinter", ":0"),
        ("SET set 6 XX PXAT 1", "$-1"),
    ];
    let mut others: Vec<Client> = asked.iter().map(|_| Client::connect(address(&server))).collect();
    for (other, (request, _)) in others.iter_mut().zip(asked) {
        other.send(format!("{request}\r\n"));
    }
    client.send("delete delete\r\n");
    redis.send("GET touch\r\n");
    for (other, (request, reply)) in others.iter_mut().zip(asked) {
        assert_eq!(other.line(), reply, "{request}");
    }
    assert_eq!((client.line(), redis.line()), ("NOT_FOUND".to_owned(), "$-1".to_owned()));
    late.hang(false);
    base::thread::sleep(std::time::Duration::from_millis(20));
    for key in ["del", "getdel", "expire", "srem", "sinter", "set", "delete"] {
        assert_eq!(redis.ask(format!("EXISTS {key}\r\n")), ":0", "{key}");
    }
    assert_eq!(redis.ask("EXISTS touch\r\n"), ":1", "a read removes nothing");
    server.stop();
}

#[test]
fn a_request_for_many_keys_that_do_not_come_holds_up_nobody() {
    const KEYS: usize = 4_000;
    let mut config = config();
    config.threads = millpond_server::config::Auto::Set(1);
    let (server, late) = start_late(config, base::Clock::System).expect("a server");
    let mut redis = Client::connect(address(&server));
    let mut other = Client::connect(address(&server));
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key:{key}")).collect();
    for some in keys.chunks(100) {
        let pairs: Vec<String> = some.iter().map(|key| format!("{key} 5")).collect();
        assert_eq!(redis.ask(format!("MSET {}\r\n", pairs.join(" "))), "+OK");
    }
    base::thread::sleep(std::time::Duration::from_millis(300));
    late.hang(true);
    let request: Vec<String> = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
    redis.send(format!("*{}\r\n$6\r\nEXISTS\r\n{}", KEYS + 1, request.concat()));
    let mut pings = 0;
    let replied = std::thread::scope(|scope| {
        let waits = scope.spawn(|| redis.line());
        while !waits.is_finished() {
            assert_eq!(other.ask("PING\r\n"), "+PONG");
            pings += 1;
            base::thread::sleep(std::time::Duration::from_millis(2));
        }
        waits.join().expect("no panic")
    });
    let found: usize = replied.trim_start_matches(':').parse().expect("a number");
    assert!(found < KEYS, "some were beneath");
    assert!(pings > 10, "{pings} of another client were answered meanwhile");
    late.hang(false);
    server.stop();
}

#[test]
fn a_sort_brings_what_its_patterns_name() {
    let (server, late) = start_late(config(), base::Clock::System).expect("a server");
    let mut client = Client::connect(address(&server));
    let evicted = || base::thread::sleep(std::time::Duration::from_millis(2));
    client.ask("RPUSH ids a b c\r\n");
    for (id, weight) in [("a", 3), ("b", 1), ("c", 2)] {
        assert_eq!(client.ask(format!("SET weight:{id} {weight}\r\n")), "+OK");
        assert_eq!(client.ask(format!("HSET about:{id} name {id}{id}\r\n")), ":1");
    }
    let fetched = late.fetched();
    for _ in 0..20 {
        evicted();
        client.send("SORT ids BY weight:* GET about:*->name GET #\r\n");
        let lines: Vec<String> = (0..13).map(|_| client.line()).collect();
        let values: Vec<&str> = lines.iter().skip(2).step_by(2).map(String::as_str).collect();
        assert_eq!(values, ["bb", "b", "cc", "c", "aa", "a"]);
    }
    // On a busy machine not in each round.
    assert!(late.fetched() > fetched, "they were beneath");
    // In a transaction too.
    evicted();
    assert_eq!(client.ask("MULTI\r\nSORT ids BY weight:* LIMIT 0 1\r\nEXEC\r\n"), "+OK");
    assert_eq!([(); 4].map(|()| client.line()), ["+QUEUED", "*1", "*1", "$1"]);
    assert_eq!(client.line(), "b");
    server.stop();
}

#[test]
fn a_write_that_depends_on_nothing_brings_nothing() {
    let (server, late) = start_late(config(), base::Clock::System).expect("a server");
    let mut client = Client::connect(address(&server));
    let mut redis = Client::connect(address(&server));
    let large = "v".repeat(30_000);
    for round in 0..5 {
        for (request, reply) in [
            ("set one 0 0 1\r\n5\r\n".to_owned(), "STORED"),
            ("ms one 1 T60\r\n5\r\n".to_owned(), "HD"),
            (format!("set one 0 0 30000\r\n{large}\r\n"), "STORED"),
        ] {
            let fetched = late.fetched();
            assert_eq!(client.ask(request), reply);
            base::thread::sleep(std::time::Duration::from_millis(2));
            assert_eq!(late.fetched(), fetched, "round {round}");
        }
        for request in [
            "SET two 5",
            "SET two 5 EX 60",
            "MSET one 5 two 6 three 7",
            "SETEX two 60 5",
            "SORT nothing STORE two",
            "SET one 5 PXAT 1",
            "BITOP AND one nothing",
            "SET two 1",
        ] {
            let fetched = late.fetched();
            let reply = redis.ask(format!("{request}\r\n"));
            assert!(["+OK", ":0"].contains(&reply.as_str()), "{reply}");
            base::thread::sleep(std::time::Duration::from_millis(2));
            assert_eq!(late.fetched(), fetched, "{request}");
        }
        // What was to be removed is gone beneath memory too.
        redis.ask("SET one 5\r\n");
        base::thread::sleep(std::time::Duration::from_millis(2));
        for remove in ["SORT nothing STORE one", "SET one 5 PXAT 1", "BITOP AND one nothing"] {
            redis.ask("SET one 5\r\n");
            base::thread::sleep(std::time::Duration::from_millis(2));
            redis.ask(format!("{remove}\r\n"));
            assert_eq!(redis.ask("EXISTS one\r\n"), ":0", "{remove}");
        }
        redis.ask("SET one 5\r\n");
        // These depend on what was there.
        assert_eq!(client.ask("add one 0 0 1\r\n6\r\n"), "NOT_STORED");
        assert_eq!(redis.ask("SET two 6 NX\r\n"), "$-1");
        assert_eq!(redis.ask("COPY one two\r\n"), ":0");
        assert_eq!(redis.ask("SETNX two 6\r\n"), ":0");
    }
    server.stop();
}

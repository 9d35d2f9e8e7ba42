//! Behaviour over several connections, over time, or in pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Clock;
use millpond_server::config::{Auto, ListenerConfig, Protocol, TenantSettings};

use crate::client::{Client, request};
use crate::reference::{address_of, config, millpond, millpond_in_memory, start};

#[test]
fn an_end_is_kept_to_the_millisecond() {
    let clock = Clock::manual(1_700_000_000);
    let (_server, address) = start(config(), clock.clone());
    let mut client = Client::connect(address);
    assert_eq!(client.ask("SET k v PX 100"), "+OK");
    assert_eq!(client.ask("PTTL k"), ":100");
    assert_eq!(client.ask("PEXPIRETIME k"), ":1700000000100");
    clock.advance(Duration::from_millis(99));
    assert_eq!((client.ask("GET k"), client.ask("PTTL k")), ("$v".to_owned(), ":1".to_owned()));
    assert_eq!(client.ask("APPEND k w"), ":2", "a change keeps the end");
    assert_eq!(client.ask("PTTL k"), ":1");
    clock.advance(Duration::from_millis(1));
    for (command, reply) in [
        ("GET k", "$-1"),
        ("MGET k k", "*[$-1 $-1]"),
        ("EXISTS k", ":0"),
        ("TTL k", ":-2"),
        ("DEL k", ":0"),
        ("SET k w XX", "$-1"),
        ("KEYS *", "*[]"),
        ("DBSIZE", ":0"),
        ("RANDOMKEY", "$-1"),
        ("SCAN 0 COUNT 1000", "*[$0 *[]]"),
        ("SET k w NX", "+OK"),
        ("TTL k", ":-1"),
        ("SET l w PX 1", "+OK"),
    ] {
        assert_eq!(client.ask(command), reply, "{command}");
    }
    clock.advance(Duration::from_millis(1));
    assert_eq!(client.ask("SETNX l x"), ":1", "what is over is not in the way");
    assert_eq!(client.ask("INCR m"), ":1");
    assert_eq!(client.ask("PEXPIRE m 1"), ":1");
    clock.advance(Duration::from_millis(1));
    assert_eq!(client.ask("INCR m"), ":1");
}

#[test]
fn however_requests_are_cut_they_are_answered() {
    let (_server, address) = millpond();
    let large = "x".repeat(40_000);
    let commands = [
        "SET a 1".to_owned(),
        "GET a".to_owned(),
        "MGET a b a".to_owned(),
        format!("SET big {large} EX 100"),
        format!("SET big {large} NX"),
        "STRLEN big".to_owned(),
        "TTL big".to_owned(),
        "GET big".to_owned(),
        format!("ECHO {large}"),
    ];
    let replies = [
        "+OK".to_owned(),
        "$1".to_owned(),
        "*[$1 $-1 $1]".to_owned(),
        "+OK".to_owned(),
        "$-1".to_owned(),
        ":40000".to_owned(),
        ":100".to_owned(),
        format!("${large}"),
        format!("${large}"),
    ];
    let all: Vec<u8> = commands.iter().flat_map(|command| request(command)).collect();
    for cut in [1000, 7, all.len()] {
        let mut client = Client::connect(address);
        assert_eq!(client.ask("FLUSHALL"), "+OK");
        for piece in all.chunks(cut) {
            client.send(piece);
        }
        for (command, reply) in commands.iter().zip(&replies) {
            assert_eq!(&client.reply(), reply, "{} in pieces of {cut}", &command[..6]);
        }
    }
}

#[test]
fn large_values_are_set_with_every_option_behind_them() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    let large = "y".repeat(100_000);
    for (command, reply) in [
        (format!("SET k {large} XX"), "$-1"),
        (format!("SET k {large} BOGUS"), "-ERR syntax error"),
        (format!("SET k {large} EX 0"), "-ERR invalid expire time in \\'set\\' command"),
        ("EXISTS k".to_owned(), ":0"),
        (format!("SETEX k 100 {large}"), "+OK"),
        (format!("SET k {large}1 KEEPTTL"), "+OK"),
        ("TTL k".to_owned(), ":100"),
        ("STRLEN k".to_owned(), ":100001"),
        (format!("SETNX k {large}"), ":0"),
        (format!("SET k {large}"), "+OK"),
        ("TTL k".to_owned(), ":-1"),
        (format!("SETNX k {large} more"), "-ERR wrong number of arguments for \\'setnx\\' command"),
        (
            format!("SET {} {large}", "k".repeat(300)),
            "-ERR the length of the key is out of range: keys have 1 to 255 bytes",
        ),
        ("PING".to_owned(), "+PONG"),
    ] {
        assert_eq!(client.ask(&command), reply, "{}", &command[..7.min(command.len())]);
    }
    assert_eq!(client.ask(&format!("GETSET k {large}z")), format!("${large}"));
    assert_eq!(client.ask("GET k"), format!("${large}z"));
}

#[test]
fn many_pipelined_reads_are_answered_in_order() {
    let mut config = config();
    config.limits.max_output_buffer_bytes = base::ByteSize::new(20_000);
    // A slab for each of the sizes.
    config.memory = millpond_server::config::Auto::Set(base::ByteSize::mib(512));
    let (_server, address) = start(config, Clock::System);
    let mut client = Client::connect(address);
    for number in 0..50 {
        let value = format!("{number}-{}", "v".repeat(number * 150));
        assert_eq!(client.ask(&format!("SET key:{number} {value}")), "+OK");
    }
    let mut sent = Vec::new();
    for round in 0..40 {
        for number in 0..50 {
            sent.extend(request(&format!("GET key:{}", (number + round) % 60)));
        }
        let all: Vec<String> = (0..60).map(|number| format!("key:{number}")).collect();
        sent.extend(request(&format!("MGET {}", all.join(" "))));
        sent.extend(request(&format!("ECHO {round}")));
    }
    let mut writer = client.stream.try_clone().expect("a second handle");
    let sending =
        base::thread::spawn("sender", move || std::io::Write::write_all(&mut writer, &sent).expect("sent"))
            .expect("a thread");
    let value = |number: usize| match number {
        0..50 => format!("${number}-{}", "v".repeat(number * 150)),
        _ => "$-1".to_owned(),
    };
    for round in 0..40 {
        for number in 0..50 {
            assert_eq!(client.reply(), value((number + round) % 60), "round {round}, {number}");
        }
        let all: Vec<String> = (0..60).map(value).collect();
        assert_eq!(client.reply(), format!("*[{}]", all.join(" ")));
        assert_eq!(client.reply(), format!("${round}"));
    }
    sending.join().expect("no panic");
}

#[test]
fn a_scan_meets_every_key_that_stays() {
    let (_server, address) = millpond_in_memory();
    let mut client = Client::connect(address);
    for number in 0..3_000 {
        client.send(request(&format!("SET key:{number} \"{}\"", "v".repeat(number % 700))));
    }
    (0..3_000).for_each(|_| assert_eq!(client.reply(), "+OK"));
    assert_eq!(client.ask("DBSIZE"), ":3000");
    for count in [1, 10, 333, 100_000] {
        let (mut cursor, mut met, mut rounds) = ("0".to_owned(), Vec::new(), 0);
        loop {
            // Another connection each time, and other keys that come and go.
            let mut client = Client::connect(address);
            client.ask(&format!("SET other:{rounds} x"));
            client.ask(&format!("DEL other:{}", rounds / 2));
            let reply = client.ask(&format!("SCAN {cursor} MATCH key:* COUNT {count}"));
            let words: Vec<&str> =
                reply.split(['[', ']', ' ']).filter(|word| word.starts_with('$')).collect();
            cursor = words[0][1..].to_owned();
            met.extend(words[1..].iter().map(|word| (*word).to_owned()));
            rounds += 1;
            if cursor == "0" || (count == 1 && rounds == 400) {
                break;
            }
        }
        let all = met.len();
        met.sort();
        met.dedup();
        assert_eq!(met.len(), all, "no key twice");
        assert!(count == 1 || all == 3_000, "COUNT {count}: {all} keys in {rounds} rounds");
    }
    let Some(key) = client.ask("RANDOMKEY").strip_prefix('$').map(str::to_owned) else { panic!("a key") };
    assert_eq!(client.ask(&format!("EXISTS {key}")), ":1");
    assert_eq!(client.ask("KEYS key:299?").matches('$').count(), 10);
}

#[test]
fn what_is_watched_is_seen_to_change_by_others() {
    let (_server, address) = millpond();
    let (mut client, mut other) = (Client::connect(address), Client::connect(address));
    client.ask("SET k 1");
    for (change, replies) in [
        ("GET k", "*[+OK]"),
        ("SET k 1", "*-1"),
        ("EXPIRE k 100", "*-1"),
        ("DEL k", "*-1"),
        ("FLUSHALL", "*[+OK]"),
    ] {
        assert_eq!(client.ask("WATCH k"), "+OK");
        if change == "FLUSHALL" {
            client.ask("SET k 2");
            client.ask("UNWATCH");
        }
        other.ask(change);
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask("SET k 1"), "+QUEUED");
        assert_eq!(client.ask("EXEC"), replies, "{change}");
        client.ask("SET k 1");
    }
}

/// Two keys that only ever change together are never seen apart, by single commands, by `MGET`s and
/// by transactions.
#[test]
fn nobody_sees_half_of_a_transaction() {
    let (_server, address) = millpond();
    Client::connect(address).ask("MSET a 0 b 0");
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            base::thread::spawn("writer", move || {
                let mut client = Client::connect(address);
                for round in 0..300 {
                    let commands = ["MULTI", "INCR a", "INCR b", "EXEC"];
                    client.send(commands.map(request).concat());
                    let replies: Vec<String> = commands.iter().map(|_| client.reply()).collect();
                    let counts: Vec<&str> = replies[3].trim_matches(['*', '[', ']']).split(' ').collect();
                    assert_eq!(counts[0], counts[1], "writer {writer}, round {round}: {replies:?}");
                }
            })
            .expect("a thread")
        })
        .collect();
    let reader = base::thread::spawn("reader", move || {
        let mut client = Client::connect(address);
        loop {
            let both = client.ask("MGET a b");
            let values: Vec<&str> = both.trim_matches(['*', '[', ']']).split(' ').collect();
            assert_eq!(values[0], values[1]);
            if values[0] == "$600" {
                break;
            }
        }
    })
    .expect("a thread");
    writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    reader.join().expect("no panic");
}

/// Sets and removals of many keys at once by two clients are seen by others whole or not at all, in
/// `MGET`s of few keys and of more than are looked up at once, and in `EXISTS`.
#[test]
fn nobody_sees_half_of_a_set_or_removal_of_several_keys() {
    const KEYS: usize = 48;
    const ROUNDS: usize = 1_500;
    let (_server, address) = millpond();
    let list = |value: &str| (0..KEYS).map(|key| format!(" k{key}{value}")).collect::<String>();
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let set = request(&format!("MSET{}", list(&format!(" v{writer}"))));
            let remove = request(&format!("{}{}", ["DEL", "UNLINK"][writer], list("")));
            let both = [set, remove].concat();
            base::thread::spawn("writer", move || {
                let mut client = Client::connect(address);
                for _ in 0..ROUNDS / 10 {
                    client.send(both.repeat(10));
                    for _ in 0..10 {
                        assert_eq!(client.reply(), "+OK");
                        let removed = client.reply();
                        assert!([":0", ":48"].contains(&removed.as_str()), "writer {writer}: {removed}");
                    }
                }
            })
            .expect("a thread")
        })
        .collect();
    let is_done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = ["MGET k0 k47", "MGET", "EXISTS"]
        .map(|command| {
            let wanted = if command.ends_with('7') { String::new() } else { list("") };
            let request = request(&format!("{command}{wanted}")).repeat(20);
            let is_done = Arc::clone(&is_done);
            base::thread::spawn("reader", move || {
                let mut client = Client::connect(address);
                let mut seen = BTreeSet::new();
                while !is_done.load(Ordering::Relaxed) {
                    client.send(&request);
                    for _ in 0..20 {
                        let reply = client.reply();
                        let mut values: Vec<&str> = reply.trim_matches(['*', '[', ']']).split(' ').collect();
                        values.dedup();
                        assert_eq!(values.len(), 1, "{command}: {values:?}");
                        seen.insert(values[0].to_owned());
                    }
                }
                seen
            })
            .expect("a thread")
        })
        .into_iter()
        .collect();
    writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    is_done.store(true, Ordering::Relaxed);
    for reader in readers {
        let seen = reader.join().expect("no panic");
        let known = ["$-1", "$v0", "$v1", ":0", ":48"];
        assert!(seen.iter().all(|value| known.contains(&value.as_str())), "{seen:?}");
    }
}

/// The same of values that take more than the output of a turn beside another tenant, and less than
/// the output of a connection.
#[test]
fn nobody_sees_half_of_a_large_set_beside_another_tenant() {
    const KEYS: usize = 30;
    let mut config = config();
    config.threads = Auto::Set(1);
    config.tenants =
        ["a", "b"].map(|name| TenantSettings { name: name.to_owned(), ..Default::default() }).into();
    let listener = config.listeners[0].clone();
    config.listeners = ["a", "b"]
        .map(|tenant| ListenerConfig {
            name: tenant.to_owned(),
            tenant: tenant.to_owned(),
            ..listener.clone()
        })
        .into();
    let (server, address) = start(config, Clock::System);
    let mut neighbour = Client::connect(address_of(&server, 1));
    let sets = ["x", "y"].map(|fill| {
        let value = fill.repeat(3_000);
        request(&format!("MSET{}", (0..KEYS).map(|key| format!(" k{key} {value}")).collect::<String>()))
    });
    let get = request(&format!("MGET{}", (0..KEYS).map(|key| format!(" k{key}")).collect::<String>()));
    let writer = base::thread::spawn("writer", move || {
        let mut client = Client::connect(address);
        for _ in 0..150 {
            client.send(sets.concat());
            (0..2).for_each(|_| assert_eq!(client.reply(), "+OK"));
        }
    })
    .expect("a thread");
    let mut client = Client::connect(address);
    let mut seen = BTreeSet::new();
    while !writer.is_finished() {
        client.send(get.repeat(4));
        assert_eq!(neighbour.ask("PING"), "+PONG");
        for _ in 0..4 {
            let reply = client.reply();
            let mut values: Vec<&str> = reply.trim_matches(['*', '[', ']']).split(' ').collect();
            values.dedup();
            assert_eq!(values.len(), 1, "{:?}", values.iter().map(|value| &value[..2]).collect::<Vec<_>>());
            seen.insert(values[0][..2].to_owned());
        }
    }
    writer.join().expect("no panic");
    assert!(seen.contains("$x") && seen.contains("$y"), "{seen:?}");
}

/// `GETEX` changes the expiration time of the value that it answers, and of none that another
/// client has stored since.
#[test]
fn a_value_keeps_its_end_if_getex_has_answered_another() {
    let (_server, address) = millpond();
    let is_done = Arc::new(AtomicBool::new(false));
    let touchers: Vec<_> = (0..2)
        .map(|_| {
            let is_done = Arc::clone(&is_done);
            base::thread::spawn("toucher", move || {
                let mut client = Client::connect(address);
                let mut answered = BTreeSet::new();
                while !is_done.load(Ordering::Relaxed) {
                    client.send(request("GETEX k EX 1000").repeat(20));
                    (0..20).for_each(|_| {
                        answered.insert(client.reply());
                    });
                }
                answered
            })
            .expect("a thread")
        })
        .collect();
    let mut client = Client::connect(address);
    let mut touched = BTreeSet::new();
    // Until the clients have met often.
    for round in 0..4_000 {
        if touched.len() > 100 {
            break;
        }
        let values = round * 20..(round + 1) * 20;
        values.clone().for_each(|value| {
            client.send([request(&format!("SET k {value}")), request("TTL k")].concat());
        });
        for value in values {
            assert_eq!(client.reply(), "+OK");
            if client.reply() != ":-1" {
                touched.insert(format!("${value}"));
            }
        }
    }
    is_done.store(true, Ordering::Relaxed);
    let answered: BTreeSet<String> =
        touchers.into_iter().flat_map(|toucher| toucher.join().expect("no panic")).collect();
    let collisions: Vec<_> = touched.difference(&answered).collect();
    assert!(
        !touched.is_empty() && collisions.is_empty(),
        "{} of {}: {collisions:?}",
        collisions.len(),
        touched.len()
    );
}

#[test]
fn each_key_is_drawn_as_often_as_any_other() {
    let (_server, address) = millpond_in_memory();
    let mut client = Client::connect(address);
    // Of many sizes, so that most are alone in their class.
    for key in 0..22 {
        client.ask(&format!("SET k{key} {}", "v".repeat(10 << (key % 11))));
    }
    let mut drawn: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..20 {
        client.send(request("RANDOMKEY").repeat(100));
        (0..100).for_each(|_| *drawn.entry(client.reply()).or_default() += 1);
    }
    // 91 times each, give or take 9.
    assert_eq!(drawn.len(), 22, "{drawn:?}");
    assert!(drawn.values().all(|count| (25..=250).contains(count)), "{drawn:?}");
}

/// Pipelined requests with long answers have a turn each, so that others have theirs in between.
#[test]
fn a_turn_has_one_request_with_a_long_answer() {
    let (server, address) = millpond();
    let mut client = Client::connect(address);
    for (command, first) in [("INFO", "$# Server"), ("CLIENT LIST", "$id="), ("CONFIG GET *", "*[")] {
        let before = pauses(&server);
        client.send(request(command).repeat(50));
        (0..50).for_each(|_| assert!(client.reply().starts_with(first), "{command}"));
        assert!(pauses(&server) - before >= 49, "{command}");
    }
}

/// Turns that ended with requests left.
fn pauses(server: &millpond_server::Server) -> u64 {
    let mut stream =
        std::net::TcpStream::connect(server.admin_address().expect("an admin server")).expect("a connection");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let name = r#"millpond_server_pauses_total{listener="main",reason="turn"}"#;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the metric");
    line.trim().parse().expect("a number")
}

/// The fields of Redis 7.0, in its order, with the values for a transaction, the last command and
/// the unread input.
#[test]
fn connections_are_listed_with_all_fields_of_redis() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    let names = |line: &str| {
        line.split(' ').filter_map(|field| Some(field.split_once('=')?.0.to_owned())).collect::<Vec<_>>()
    };
    let ours = client.ask("CLIENT INFO");
    let ours = ours.trim_start_matches('$');
    let expected = "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll \
                    omem tot-mem events cmd user redir resp";
    let expected: Vec<&str> = expected.split_whitespace().collect();
    assert_eq!(names(ours)[..expected.len()], expected, "{ours}");
    if let Some(redis) = crate::reference::redis() {
        let theirs = Client::connect(redis.address).ask("CLIENT INFO");
        assert_eq!(names(theirs.trim_start_matches('$')), expected, "{theirs}");
    }
    assert!(ours.contains(" multi=-1 ") && ours.contains(" cmd=client|info "), "{ours}");
    for command in ["MULTI", "GET k", "GET l"] {
        client.ask(command);
    }
    let mut other = Client::connect(address);
    let listed = other.ask("CLIENT LIST");
    assert!(listed.contains(" multi=2 ") && listed.contains(" cmd=client|list "), "{listed}");
    client.ask("EXEC");
    client.ask("GET k");
    let listed = other.ask("CLIENT LIST");
    assert!(!listed.contains(" multi=2 ") && listed.contains(" cmd=get "), "{listed}");
}

/// A set to which a member is moved that it has already has not changed.
#[test]
fn a_move_to_a_set_that_has_the_member_is_no_change_of_it() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    for command in ["SADD from a b", "SADD to a", "WATCH to", "SMOVE from to a", "MULTI", "PING"] {
        client.ask(command);
    }
    assert_eq!(client.ask("EXEC"), "*[+PONG]");
    for command in ["WATCH to", "SMOVE from to b", "MULTI", "PING"] {
        client.ask(command);
    }
    assert_eq!(client.ask("EXEC"), "*-1");
}

/// The engine counts seconds up to February 2106: a later end is that one.
#[test]
fn an_end_in_the_far_future_is_the_last_that_can_be_told() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    client.ask("SET k v");
    for (command, reply) in [
        ("EXPIREAT k 17039384090 NX", ":1"),
        ("PEXPIRETIME k", ":4294967295000"),
        ("EXPIREAT k 17039384091 NX", ":0"),
        ("EXPIREAT k 17039384091 XX", ":1"),
        ("PEXPIREAT k 17039384091000 GT", ":1"),
        ("EXPIREAT k 4000000000 LT", ":1"),
        ("EXPIRETIME k", ":4000000000"),
        ("PERSIST k", ":1"),
    ] {
        assert_eq!(client.ask(command), reply, "{command}");
    }
}

/// `RENAME` and `MSETNX` are seen whole as well: of two names one always has the value, and of two
/// names that are set together not one.
#[test]
fn nobody_sees_half_of_a_renaming() {
    let (_server, address) = millpond();
    Client::connect(address).ask("SET from v");
    let renamer = base::thread::spawn("renamer", move || {
        let mut client = Client::connect(address);
        for _ in 0..300 {
            assert_eq!(client.ask("RENAME from to"), "+OK");
            assert_eq!(client.ask("RENAME to from"), "+OK");
        }
    })
    .expect("a thread");
    let mut client = Client::connect(address);
    for _ in 0..600 {
        assert_eq!(client.ask("EXISTS from to"), ":1");
    }
    renamer.join().expect("no panic");
}

#[test]
fn increments_of_many_clients_all_count() {
    let (_server, address) = millpond();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            base::thread::spawn("client", move || {
                let mut client = Client::connect(address);
                (0..500).for_each(|_| assert!(client.ask("INCR n").starts_with(':')));
            })
            .expect("a thread")
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("no panic"));
    assert_eq!(Client::connect(address).ask("GET n"), "$2000");
}

#[test]
fn replies_can_be_switched_off() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    let commands = [
        "CLIENT REPLY OFF",
        "SET a 1",
        "GET a",
        "BOGUS",
        "CLIENT REPLY ON",
        "GET a",
        "CLIENT REPLY SKIP",
        "INCR a",
        "INCR a",
    ];
    client.send(commands.map(request).concat());
    assert_eq!([client.reply(), client.reply(), client.reply()], ["+OK", "$1", ":3"]);
}

#[test]
fn both_protocols_share_a_listener_and_a_pool() {
    let mut config = config();
    config.listeners[0].protocol = Protocol::Auto;
    let (_server, address) = start(config, Clock::manual(1_700_000_000));
    let (mut resp, mut memcached) = (Client::connect(address), Client::connect(address));
    assert_eq!(resp.ask("SET k 41 PX 900"), "+OK");
    memcached.send("get k\r\n");
    let mut answer = vec![0; 22];
    std::io::Read::read_exact(&mut memcached.stream, &mut answer).expect("an answer");
    assert_eq!(
        answer.escape_ascii().to_string(),
        "VALUE k 0 2\\r\\n41\\r\\nEND\\r\\n",
        "its end is not seen as flags"
    );
    memcached.send("set m 7 0 2\r\n10\r\n");
    let mut answer = vec![0; 8];
    std::io::Read::read_exact(&mut memcached.stream, &mut answer).expect("an answer");
    assert_eq!(
        (resp.ask("INCR m"), resp.ask("EXPIRE m 100"), resp.ask("TTL m")),
        (":11".into(), ":1".into(), ":100".into())
    );
    memcached.send("get m\r\n");
    let mut answer = vec![0; 22];
    std::io::Read::read_exact(&mut memcached.stream, &mut answer).expect("an answer");
    assert_eq!(answer.escape_ascii().to_string(), "VALUE m 7 2\\r\\n11\\r\\nEND\\r\\n", "flags stay");
}

#[test]
fn lines_of_words_are_served_on_a_listener_of_its_own() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    client.send("\r\nPING\r\nset k \"a b\"\nget k\r\nMGET k none\r\nquit\r\n");
    let replies: Vec<String> = (0..6).map(|_| client.reply()).collect();
    assert_eq!(replies, ["+PONG", "+OK", "$a b", "*[$a b $-1]", "+OK", "closed"]);
}

#[test]
fn a_client_can_have_others_closed_and_itself() {
    let (_server, address) = millpond();
    let mut admin = Client::connect(address);
    let own = admin.ask("CLIENT ID");
    let own = own.trim_start_matches(':');
    for filter in ["ID", "ADDR"] {
        let mut other = Client::connect(address);
        let id = other.ask("CLIENT ID").trim_start_matches(':').to_owned();
        let from = other.stream.local_addr().expect("an address");
        let value = if filter == "ID" { id.clone() } else { from.to_string() };
        assert_eq!(admin.ask(&format!("CLIENT KILL {filter} {value}")), ":1");
        assert_eq!(admin.ask(&format!("CLIENT KILL {filter} {value}")), ":0", "it is gone at once");
        assert_eq!(admin.ask(&format!("CLIENT LIST ID {id}")), "$");
        assert_eq!(other.reply(), "closed");
    }
    let mut others: Vec<Client> = (0..10).map(|_| Client::connect(address)).collect();
    others.iter_mut().for_each(|other| assert_eq!(other.ask("PING"), "+PONG"));
    assert_eq!(admin.ask("CLIENT KILL TYPE NORMAL USER default"), ":10");
    others.iter_mut().for_each(|other| assert_eq!(other.reply(), "closed"));
    assert_eq!(admin.ask(&format!("CLIENT KILL ID {own}")), ":0", "who asks is passed over");
    admin.send(
        [request("MULTI"), request(&format!("CLIENT KILL ID {own} SKIPME no")), request("EXEC")].concat(),
    );
    assert_eq!([admin.reply(), admin.reply(), admin.reply()], ["+OK", "+QUEUED", "*[:1]"]);
    assert_eq!(admin.reply(), "closed");
}

/// Returns whether a client gets no answer for now; its later requests, even those about itself
/// alone, wait too.
fn is_silent(client: &mut Client) -> bool {
    client.stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
    let read = std::io::Read::read(&mut client.stream, &mut [0; 64]);
    client.stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn clients_wait_until_one_of_them_ends_the_pause() {
    let (server, address) = millpond();
    let clients = || [(); 6].map(|()| Client::connect(address));
    let (mut admin, mut others) = (Client::connect(address), clients());
    assert_eq!(admin.ask("SET k v"), "+OK");
    assert_eq!(admin.ask("CLIENT PAUSE 600000"), "+OK");
    let large = format!("SET large {}", "x".repeat(100_000));
    let asked = ["GET k", "SET k w", "MGET k k", "PING", &large, "CLIENT ID"];
    for (client, command) in others.iter_mut().zip(asked) {
        client.send(request(command));
    }
    assert!(others.iter_mut().all(is_silent));
    // What comes behind it in one go is answered once it goes on.
    admin.send([request("CLIENT UNPAUSE"), request("GET k")].concat());
    assert_eq!(admin.reply(), "+OK");
    let replies = others.map(|mut client| client.reply());
    assert!(["$v", "$w"].contains(&admin.reply().as_str()));
    assert!(["$v", "$w"].contains(&replies[0].as_str()) && replies[1] == "+OK" && replies[3] == "+PONG");
    assert_eq!(replies[4], "+OK");
    assert_eq!(admin.ask("STRLEN large"), ":100000");
    server.stop();
}

#[test]
fn those_who_read_go_on_while_those_who_write_wait() {
    let (_server, address) = millpond();
    let mut clients = [(); 4].map(|()| Client::connect(address));
    let [admin, reader, writer, other] = &mut clients;
    assert_eq!(admin.ask("MULTI"), "+OK");
    assert_eq!(admin.ask("SET k v"), "+QUEUED");
    assert_eq!(reader.ask("MULTI"), "+OK");
    assert_eq!(reader.ask("GET k"), "+QUEUED");
    assert_eq!(other.ask("CLIENT PAUSE 600000 write"), "+OK");
    assert_eq!(reader.ask("EXEC"), "*[$-1]", "it has no writes");
    admin.send(request("EXEC"));
    writer.send(request(&format!("SET large {}", "x".repeat(100_000))));
    assert!(is_silent(admin) && is_silent(writer));
    assert_eq!(reader.ask("GET k"), "$-1");
    // Another pause in its place: it is over at once.
    assert_eq!(other.ask("CLIENT PAUSE 0"), "+OK");
    assert_eq!((admin.reply().as_str(), writer.reply().as_str()), ("*[+OK]", "+OK"));
    assert_eq!(other.ask("CLIENT PAUSE 50 WRITE"), "+OK");
    assert_eq!(other.ask("SET k w"), "+OK", "it ends by itself");
}

#[test]
fn clients_of_memcached_wait_with_the_others() {
    let mut config = config();
    config.listeners[0].protocol = Protocol::Auto;
    let (server, address) = start(config, Clock::System);
    let (mut admin, mut old, mut new) =
        (Client::connect(address), Client::connect(address), Client::connect(address));
    old.send("version\r\n");
    assert!(old.reply().starts_with("VERSION"));
    assert_eq!(admin.ask("CLIENT PAUSE 600000 WRITE"), "+OK");
    for client in [&mut old, &mut new] {
        client.send("get k\r\n");
        assert!(is_silent(client));
    }
    // The end comes in spite of it.
    server.stop();
    assert_eq!((old.reply().as_str(), new.reply().as_str()), ("END", "END"));
}

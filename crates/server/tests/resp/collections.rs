//! Hashes, lists, sets and sorted sets as several connections see them, over time, and beside
//! memcached's clients.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Clock;
use millpond_server::config::Protocol;

use crate::client::{Client, request};
use crate::reference::{config, millpond, start};

#[test]
fn ends_of_collections_are_kept_to_the_millisecond() {
    let clock = Clock::manual(1_700_000_000);
    let (_server, address) = start(config(), clock.clone());
    let mut client = Client::connect(address);
    for (make, look, left) in [
        ("HSET k f v", "HGET k f", "$v"),
        ("RPUSH k v", "LINDEX k 0", "$v"),
        ("SADD k v", "SISMEMBER k v", ":1"),
        ("ZADD k 1 v", "ZSCORE k v", "$1"),
    ] {
        assert_eq!(client.ask(make), ":1");
        assert_eq!(client.ask("PEXPIRE k 100"), ":1");
        clock.advance(Duration::from_millis(99));
        assert_eq!((client.ask(look), client.ask("PTTL k")), (left.to_owned(), ":1".to_owned()));
        clock.advance(Duration::from_millis(1));
        for (command, reply) in
            [("EXISTS k", ":0"), ("TYPE k", "+none"), ("KEYS *", "*[]"), ("TTL k", ":-2"), ("DBSIZE", ":0")]
        {
            assert_eq!(client.ask(command), reply, "{make}: {command}");
        }
        assert_eq!(client.ask(make), ":1", "what is over is not in the way");
        assert_eq!(client.ask("TTL k"), ":-1");
        assert_eq!(client.ask("PEXPIRE k 100"), ":1");
        clock.advance(Duration::from_millis(100));
        assert_eq!(client.ask("SET k v NX"), "+OK");
        assert_eq!(client.ask("DEL k"), ":1");
    }
}

/// Elements go from one list to another and back, and members from one set to another: at every
/// moment each is in one of them.
#[test]
fn what_is_moved_is_always_somewhere() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    client.ask("RPUSH left a b c d e f g h");
    client.ask("SADD here m");
    let movers: Vec<_> = [("left", "right", "here", "there"), ("right", "left", "there", "here")]
        .into_iter()
        .map(|(from, to, here, there)| {
            base::thread::spawn("mover", move || {
                let mut client = Client::connect(address);
                for _ in 0..400 {
                    client.ask(&format!("LMOVE {from} {to} LEFT RIGHT"));
                    client.ask(&format!("SMOVE {here} {there} m"));
                }
            })
            .expect("a thread")
        })
        .collect();
    for _ in 0..300 {
        client.send(["MULTI", "LLEN left", "LLEN right", "EXEC"].map(request).concat());
        let counts = (0..4).map(|_| client.reply()).last().expect("four");
        let sum: i64 =
            counts.trim_matches(['*', '[', ']']).split(' ').filter_map(|n| n[1..].parse::<i64>().ok()).sum();
        assert_eq!(sum, 8, "{counts}");
        assert_eq!(client.ask("SUNION here there"), "*[$m]");
    }
    movers.into_iter().for_each(|mover| mover.join().expect("no panic"));
}

/// Many clients push to and pop from one list, which gets empty and comes again, and count in one
/// hash.
#[test]
fn no_element_and_no_count_is_lost() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 400;
    let (_server, address) = millpond();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            base::thread::spawn("client", move || {
                let mut client = Client::connect(address);
                let mut popped = Vec::new();
                for round in 0..ROUNDS {
                    client.ask(&format!("RPUSH queue {number}:{round}"));
                    client.ask("HINCRBY counts all 1");
                    client.ask(&format!("ZINCRBY board 1 {}", round % 7));
                    let element = client.ask("LPOP queue");
                    if element != "$-1" {
                        popped.push(element);
                    }
                }
                popped
            })
            .expect("a thread")
        })
        .collect();
    let popped: Vec<String> =
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect();
    let mut client = Client::connect(address);
    let unique: HashSet<&String> = popped.iter().collect();
    assert_eq!((popped.len(), unique.len()), (CLIENTS * ROUNDS, CLIENTS * ROUNDS));
    assert_eq!(client.ask("EXISTS queue"), ":0");
    assert_eq!(client.ask("HGET counts all"), format!("${}", CLIENTS * ROUNDS));
    let scores = client.ask("ZRANGE board 0 -1 WITHSCORES");
    let words = scores.trim_matches(['*', '[', ']']).split(' ').skip(1).step_by(2);
    let sum: usize = words.filter_map(|score| score[1..].parse::<usize>().ok()).sum();
    assert_eq!(sum, CLIENTS * ROUNDS);
}

#[test]
fn a_scan_meets_all_that_stays_while_the_rest_comes_and_goes() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    for part in 0..20 {
        let members: Vec<String> = (0..100).map(|n| format!("stay:{}", part * 100 + n)).collect();
        client.ask(&format!("SADD s {}", members.join(" ")));
        let scored: Vec<String> = members.iter().map(|member| format!("{part} {member}")).collect();
        client.ask(&format!("ZADD z {}", scored.join(" ")));
    }
    for (scan, add, remove, strings) in
        [("SSCAN s", "SADD s", "SREM s", 1), ("ZSCAN z", "ZADD z 1", "ZREM z", 2)]
    {
        let (mut cursor, mut met, mut rounds) = ("0".to_owned(), HashSet::new(), 0);
        loop {
            client.ask(&format!("{add} go:{rounds}"));
            client.ask(&format!("{remove} go:{}", rounds / 2));
            let reply = client.ask(&format!("{scan} {cursor} COUNT 50"));
            let words: Vec<&str> =
                reply.split(['[', ']', ' ']).filter(|word| word.starts_with('$')).collect();
            cursor = words[0][1..].to_owned();
            met.extend(words[1..].iter().step_by(strings).map(|word| (*word).to_owned()));
            rounds += 1;
            if cursor == "0" {
                break;
            }
        }
        assert!(rounds > 10, "{scan}: {rounds} rounds");
        assert_eq!(met.iter().filter(|member| member.starts_with("$stay")).count(), 2_000, "{scan}");
    }
}

#[test]
fn what_would_be_too_much_is_refused_and_nothing_has_changed() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    let value = "v".repeat(900_000);
    for field in ["a", "b", "c", "d"] {
        assert_eq!(client.ask(&format!("HSET h {field} {value}")), ":1");
    }
    let refused = "-ERR the key would take more memory than one item may: split it over several keys";
    assert_eq!(client.ask(&format!("HSET h e {value}")), refused);
    assert_eq!((client.ask("HLEN h"), client.ask("HSTRLEN h d")), (":4".to_owned(), ":900000".to_owned()));
    let often = "a ".repeat(20);
    let too_long = "-ERR the reply would be too long: ask for less at once";
    assert_eq!(client.ask(&format!("HMGET h {often}")), too_long);
    client.ask("SADD s member");
    assert_eq!(client.ask("SRANDMEMBER s -1000000000"), too_long);
    assert_eq!(client.ask("PING"), "+PONG");
}

#[test]
fn memcached_clients_do_not_find_collections() {
    let mut config = config();
    config.listeners[0].protocol = Protocol::Auto;
    let (_server, address) = start(config, Clock::manual(1_700_000_000));
    let (mut resp, mut memcached) = (Client::connect(address), Client::connect(address));
    let mut ask = |command: &str, reply: &str| {
        memcached.send(format!("{}\r\n", command.replace('|', "\r\n")));
        let mut answer = vec![0; reply.len() + 2];
        std::io::Read::read_exact(&mut memcached.stream, &mut answer).expect("an answer");
        assert_eq!(
            answer.escape_ascii().to_string(),
            format!("{reply}\\r\\n").replace("\\r\\n", "\r\n").escape_default().to_string(),
            "{command}"
        );
    };
    assert_eq!(resp.ask("HSET h f v"), ":1");
    ask("get h", "END");
    ask("mg h v", "EN");
    ask("touch h 100", "NOT_FOUND");
    ask("gat 100 h", "END");
    ask("add h 0 0 1|x", "NOT_STORED");
    ask("append h 0 0 1|x", "NOT_STORED");
    ask("mg h v N30 T2", "EN");
    ask("mg h v N30 T-1", "EN");
    ask("md h I", "NF");
    ask("md h x", "NF");
    assert_eq!((resp.ask("HGET h f"), resp.ask("TTL h")), ("$v".to_owned(), ":-1".to_owned()));
    ask("set h 0 0 1|x", "STORED");
    assert_eq!((resp.ask("TYPE h"), resp.ask("GET h")), ("+string".to_owned(), "$x".to_owned()));
    assert_eq!(resp.ask("RPUSH l a"), ":1");
    ask("delete l", "DELETED");
    assert_eq!(resp.ask("EXISTS l"), ":0");
}

/// Requests that let a collection of each kind grow, and shrink to its first entry.
fn growth(grower: usize) -> Vec<u8> {
    let numbers = (1..60).map(|number| number + 100 * grower);
    let words = |of: &dyn Fn(usize) -> String| numbers.clone().map(of).collect::<String>();
    let members = words(&|number| format!(" \"m{number} {}\"", "x".repeat(20)));
    let fields = words(&|number| format!(" f{number} {}", "x".repeat(20)));
    let scores = words(&|number| format!(" {number} m{number}"));
    let fields_alone = words(&|number| format!(" f{number}"));
    let scored = words(&|number| format!(" m{number}"));
    let commands = [
        format!("RPUSH list{members}"),
        format!("HSET hash{fields}"),
        format!("SADD set{members}"),
        format!("ZADD zset{scores}"),
        "LTRIM list 0 0".to_owned(),
        format!("HDEL hash{fields_alone}"),
        format!("SREM set{members}"),
        format!("ZREM zset{scored}"),
    ];
    commands.iter().flat_map(|command| request(command)).collect()
}

/// Two clients make collections grow into other items, and shrink, as fast as they can: whoever
/// looks at them, or changes them, finds them at every moment.
#[test]
fn a_collection_that_grows_is_never_absent() {
    const ROUNDS: usize = 40;
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    for make in ["RPUSH list e", "HSET hash f v", "SADD set m", "ZADD zset 1 m"] {
        assert_eq!(client.ask(make), ":1");
    }
    let is_done = Arc::new(AtomicBool::new(false));
    let growers: Vec<_> = (0..2)
        .map(|grower| {
            let requests = growth(grower);
            base::thread::spawn("grower", move || {
                let mut client = Client::connect(address);
                for _ in 0..ROUNDS {
                    client.send(requests.repeat(10));
                    (0..80).for_each(|_| assert!(!client.reply().starts_with('-'), "a change is refused"));
                }
            })
            .expect("a thread")
        })
        .collect();
    let lookers: Vec<_> = (0..2)
        .map(|_| {
            let is_done = Arc::clone(&is_done);
            base::thread::spawn("looker", move || {
                // What each answers if the key has no value.
                let looks = [
                    ("LLEN list", ":0"),
                    ("LINDEX list 0", "$-1"),
                    ("LSET list 0 e", "-ERR no such key"),
                    ("RPUSHX list e", ":0"),
                    ("HGET hash f", "$-1"),
                    ("HLEN hash", ":0"),
                    ("SISMEMBER set m", ":0"),
                    ("ZSCORE zset m", "$-1"),
                    ("ZCARD zset", ":0"),
                    ("EXISTS list hash set zset", ":3"),
                    ("TOUCH list hash set zset", ":3"),
                    ("TYPE list", "+none"),
                    ("TYPE zset", "+none"),
                    ("TTL hash", ":-2"),
                    ("OBJECT ENCODING list", "$-1"),
                    ("OBJECT ENCODING hash", "$-1"),
                    ("SET set v NX", "+OK"),
                ];
                let requests = looks.map(|(look, _)| request(look)).concat();
                let mut client = Client::connect(address);
                while !is_done.load(Ordering::Relaxed) {
                    client.send(requests.repeat(10));
                    for (look, absent) in looks.iter().cycle().take(10 * looks.len()) {
                        assert_ne!(client.reply(), *absent, "{look}");
                    }
                }
            })
            .expect("a thread")
        })
        .collect();
    growers.into_iter().for_each(|grower| grower.join().expect("no panic"));
    is_done.store(true, Ordering::Relaxed);
    lookers.into_iter().for_each(|looker| looker.join().expect("no panic"));
}

/// A key that has a string or a set at every moment is never reported as absent.
#[test]
fn a_key_that_changes_its_type_is_never_absent() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    client.ask("SADD src m");
    client.ask("SET k v");
    let is_done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let is_done = Arc::clone(&is_done);
            base::thread::spawn("writer", move || {
                let both = [request("SET k v"), request("SUNIONSTORE k src")].concat();
                let mut client = Client::connect(address);
                while !is_done.load(Ordering::Relaxed) {
                    client.send(both.repeat(20));
                    (0..40).for_each(|_| drop(client.reply()));
                }
            })
            .expect("a thread")
        })
        .collect();
    let mut types = HashSet::new();
    for _ in 0..1_200 {
        client.send([request("GET k").repeat(100), request("TYPE k"), request("EXISTS k")].concat());
        for _ in 0..100 {
            let reply = client.reply();
            assert!(reply == "$v" || reply.starts_with("-WRONGTYPE"), "{reply}");
            types.insert(reply);
        }
        assert_ne!(client.reply(), "+none");
        assert_eq!(client.reply(), ":1");
    }
    is_done.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    assert_eq!(types.len(), 2, "{types:?}");
}

/// Redis clients put collections in the place of a string, and remove both: nobody is answered an
/// empty string, which is never stored, nor an item without its token.
#[test]
fn nobody_reads_a_collection_as_a_string() {
    let mut config = config();
    config.listeners[0].protocol = Protocol::Auto;
    let (_server, address) = start(config, Clock::System);
    let is_done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let is_done = Arc::clone(&is_done);
            let changes = ["SET k value", "DEL k", "SADD k m", "DEL k"].map(request).concat();
            base::thread::spawn("writer", move || {
                let mut client = Client::connect(address);
                while !is_done.load(Ordering::Relaxed) {
                    client.send(changes.repeat(20));
                    (0..80).for_each(|_| drop(client.reply()));
                }
            })
            .expect("a thread")
        })
        .collect();
    let mut resp = Client::connect(address);
    let mut memcached = std::io::BufReader::new(std::net::TcpStream::connect(address).expect("a connection"));
    for _ in 0..1_000 {
        let asks = ["GET k", "EXPIRE k 100", "PERSIST k"].map(request).concat();
        resp.send(asks.repeat(5));
        for _ in 0..5 {
            let reply = resp.reply();
            assert!(["$value", "$-1"].contains(&reply.as_str()) || reply.starts_with("-WRONG"), "{reply}");
            (0..2).for_each(|_| assert!(resp.reply().starts_with(':'), "no error"));
        }
        let asks = "get k\r\ngets k\r\ngats 100 k\r\nmg k c v\r\n".repeat(5) + "mn\r\n";
        std::io::Write::write_all(memcached.get_mut(), asks.as_bytes()).expect("sent");
        loop {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut memcached, &mut line).expect("a line");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["MN"] => break,
                ["value" | "END" | "EN"] | ["VALUE", "k", "0", "5"] | ["VALUE", "k", "0", "5", _] => {}
                ["VA", "5", cas] if cas.len() > 1 => {}
                _ => panic!("{line}"),
            }
        }
    }
    is_done.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
}

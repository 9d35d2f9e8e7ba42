//! The running server as a whole: pools behind listeners, admin pages, concurrency, reloading,
//! stopping.

mod support;

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::ByteSize;
use millpond_server::config::{Address, Auto, Classes, ListenerConfig, PoolSettings};
use millpond_server::{Config, ErrorKind};
use support::{Client, address, config, get_page, metric, tcp, wait_until};

#[test]
fn each_listener_serves_its_pool() {
    let mut config = config();
    config.pools.push(PoolSettings { name: "second".to_owned(), ..PoolSettings::default() });
    config.listeners.push(ListenerConfig {
        name: "other".to_owned(),
        address: Address::loopback(0),
        pool: "second".to_owned(),
        ..ListenerConfig::default()
    });
    let server = support::start(config).expect("a server");
    let places: Vec<_> = server.addresses().iter().map(|(_, address)| tcp(address)).collect();
    let (mut first, mut second) = (Client::connect(places[0]), Client::connect(places[1]));
    assert_eq!(first.ask("set a 0 0 1\r\n1\r\n"), "STORED");
    assert_eq!(second.ask("set a 0 0 2\r\n22\r\n"), "STORED");
    assert_eq!(first.ask("mg a s\r\n"), "HD s1");
    assert_eq!(second.ask("mg a s\r\n"), "HD s2");
    assert_eq!(second.ask("flush_all\r\n"), "OK");
    assert_eq!(first.ask("mg a s\r\n"), "HD s1", "a flush is of the pool of the listener");
    assert_eq!(second.ask("mg a s\r\n"), "EN");
    let requests = "millpond_server_requests_total{listener=\"other\",command=\"get\",outcome=\"miss\"}";
    assert_eq!(metric(&server, requests), 1);
}

#[test]
fn pools_may_share_their_keys() {
    let mut config = config();
    config.pools[0].own_keys = false;
    config.pools.push(PoolSettings { name: "second".to_owned(), own_keys: false, ..PoolSettings::default() });
    config.listeners.push(ListenerConfig {
        name: "other".to_owned(),
        address: Address::loopback(0),
        pool: "second".to_owned(),
        ..ListenerConfig::default()
    });
    let server = support::start(config).expect("a server");
    let places: Vec<_> = server.addresses().iter().map(|(_, address)| tcp(address)).collect();
    let (mut first, mut second) = (Client::connect(places[0]), Client::connect(places[1]));
    assert_eq!(first.ask("set a 0 0 1\r\n1\r\n"), "STORED");
    assert_eq!(second.ask("mg a s\r\n"), "HD s1");
    assert_eq!(second.ask("add a 0 0 1\r\n1\r\n"), "NOT_STORED");
}

/// The value is longer than those that are gathered before they are stored: its item is allocated
/// when its first bytes arrive.
#[test]
fn a_value_that_arrives_while_all_is_flushed_replaces_what_is_stored_meanwhile() {
    let server = support::start(config()).expect("a server");
    let place = address(&server);
    let mut quick = Client::connect(place);
    let half = vec![b'x'; 10_000];
    for (begin, answer, then) in [
        (&b"set k 0 0 20000\r\n"[..], "STORED", ""),
        (b"replace k 0 0 20000\r\n", "STORED", ""),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n", "+OK", ""),
        (b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n", "$5", "$3\r\nGET\r\n"),
    ] {
        let (mut slow, read) = (Client::connect(place), quick.stat("bytes_read"));
        slow.send(begin);
        slow.send(&half);
        wait_until("half of the value has arrived", || quick.stat("bytes_read") >= read + 10_000);
        assert_eq!(quick.ask("flush_all\r\n"), "OK");
        assert_eq!(quick.ask("set k 0 0 5\r\nsmall\r\n"), "STORED");
        slow.send(&half);
        assert_eq!(slow.ask(format!("\r\n{then}")), answer);
        if !then.is_empty() {
            assert_eq!(slow.line(), "small");
        }
        assert_eq!(quick.ask("mg k s\r\n"), "HD s20000");
    }
}

#[test]
fn the_admin_pages_tell_of_what_was_done() {
    let server = support::start_in_memory(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set a 0 0 1\r\n1\r\n"), "STORED");
    assert_eq!(client.ask("mg a s\r\n"), "HD s1");
    assert_eq!(client.ask("mg b s\r\n"), "EN");

    assert_eq!(get_page(&server, "/healthz"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
    assert_eq!(get_page(&server, "/nothing").0, "HTTP/1.1 404 Not Found");
    let requests = "millpond_server_requests_total{listener=\"main\",command=";
    assert_eq!(metric(&server, &format!("{requests}\"get\",outcome=\"hit\"}}")), 1);
    assert_eq!(metric(&server, &format!("{requests}\"get\",outcome=\"miss\"}}")), 1);
    assert_eq!(metric(&server, &format!("{requests}\"set\",outcome=\"stored\"}}")), 1);
    assert_eq!(metric(&server, "millpond_server_connections{listener=\"main\"}"), 1);
    assert_eq!(metric(&server, "millpond_memory_limit_bytes{}"), 64 << 20);
    assert_eq!(metric(&server, "millpond_class_items{pool=\"default\",class=\"0\"}"), 1);

    let (_, text) = get_page(&server, "/stats.json");
    let stats: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(stats["pools"][0]["items"], 1);
    assert_eq!(stats["listeners"][0]["counters"]["requests_get_hit"], 1);
    let parts: u64 = stats["memory_bytes"]
        .as_object()
        .expect("parts")
        .values()
        .map(|bytes| bytes.as_u64().expect("bytes"))
        .sum();
    assert_eq!(parts, server.cache().ledger().total());
}

/// Every name appears once, has help, and is named as the others are.
#[test]
fn metrics_are_named_alike() {
    let server = support::start(config()).expect("a server");
    let (_, text) = get_page(&server, "/metrics");
    let mut names = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("name and kind");
            assert!(name.starts_with("millpond_"), "{name}");
            assert!(!name.ends_with("_total"), "{name}: the encoder puts it there");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{name} {kind}");
            assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
            names.push(name);
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count > 20, "{names:?}");
    assert!(text.ends_with("# EOF\n"));
}

/// Concurrent clients lose no increment, and no two see the same token after a change.
#[test]
fn concurrent_changes_are_all_there() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 300;
    // The growing list passes through many size classes, each of which takes a slab: nothing is to
    // be evicted for that.
    let config = Config { memory: Auto::Set(ByteSize::mib(256)), ..config() };
    let server = support::start(config).expect("a server");
    let place = address(&server);
    let mut client = Client::connect(place);
    assert_eq!(client.ask("set n 0 0 1\r\n0\r\n"), "STORED");
    assert_eq!(client.ask("set list 0 0 0\r\n\r\n"), "STORED");
    assert_eq!(client.ask("set c 0 0 1\r\n0\r\n"), "STORED");
    let threads: Vec<_> = (0..CLIENTS)
        .map(|number| {
            base::thread::spawn(format!("client-{number}"), move || {
                let mut client = Client::connect(place);
                let mut tokens = Vec::new();
                for _ in 0..ROUNDS {
                    client.ask("incr n 1\r\n").parse::<u64>().expect("a number");
                    assert_eq!(client.ask("append list 0 0 1\r\nx\r\n"), "STORED");
                    tokens.push(add_one_by_cas(&mut client));
                }
                tokens
            })
            .expect("a thread")
        })
        .collect();
    let mut tokens: Vec<u64> =
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    let total = CLIENTS * ROUNDS;
    assert_eq!(client.ask("incr n 0\r\n"), total.to_string());
    assert_eq!(client.ask("mg list s\r\n"), format!("HD s{total}"));
    assert_eq!(client.ask("incr c 0\r\n"), total.to_string());
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), total, "each successful cas began from a token of its own");
}

/// Adds one to `c` by reading and comparing, and returns the token that it succeeded with.
fn add_one_by_cas(client: &mut Client) -> u64 {
    loop {
        let head = client.ask("gets c\r\n");
        let token: u64 = head.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a token");
        let value: u64 = client.line().trim().parse().expect("a number");
        assert_eq!(client.line(), "END");
        let next = (value + 1).to_string();
        match client.ask(format!("cas c 0 0 {} {token}\r\n{next}\r\n", next.len())).as_str() {
            "STORED" => return token,
            "EXISTS" => {}
            other => panic!("{other}"),
        }
    }
}

/// Of many clients that ask for a missing item at once, exactly one is told to make it.
#[test]
fn one_client_wins_the_right_to_recache() {
    let server = support::start(config()).expect("a server");
    let place = address(&server);
    for round in 0..20 {
        let threads: Vec<_> = (0..6)
            .map(|number| {
                base::thread::spawn(format!("client-{number}"), move || {
                    Client::connect(place).ask(format!("mg key{round} N30\r\n"))
                })
                .expect("a thread")
            })
            .collect();
        let mut answers: Vec<String> =
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        answers.sort();
        assert_eq!(answers[0], "HD W");
        assert!(answers[1..].iter().all(|answer| answer == "HD Z"), "{answers:?}");
    }
}

#[test]
fn a_reload_applies_what_can_change_while_serving() {
    let mut config = config();
    config.max_memory = Auto::Set(ByteSize::mib(128));
    let server = support::start(config.clone()).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set a 0 0 1500\r\n".to_owned() + &"x".repeat(1500) + "\r\n"), "STORED");
    config.memory = Auto::Set(ByteSize::mib(96));
    config.limits.max_item_bytes = ByteSize::new(1200);
    config.limits.max_connections = 1;
    config.threads = Auto::Set(7);
    config.pools[0].limit = Auto::Set(ByteSize::mib(48));
    let changes = server.reload(&config).expect("reloaded");
    let online: Vec<&str> = changes.iter().filter(|c| c.online).map(|c| c.path.as_str()).collect();
    assert_eq!(online, ["limits.max_connections", "limits.max_item_bytes", "memory", "pool.default.limit"]);
    let restart: Vec<&str> = changes.iter().filter(|c| !c.online).map(|c| c.path.as_str()).collect();
    assert_eq!(restart, ["threads"]);
    assert_eq!(server.cache().ledger().limit(), 96 << 20);
    assert_eq!(server.cache().stats().pools[0].limit_bytes, Some(48 << 20));
    let refused = "SERVER_ERROR object too large for cache";
    wait_until("an open connection has the new limit", || {
        client.ask("set a 0 0 1500\r\n".to_owned() + &"x".repeat(1500) + "\r\n") == refused
    });
    assert_eq!(Client::connect(address(&server)).line(), "ERROR Too many open connections");

    config.memory = Auto::Set(ByteSize::mib(512));
    let error = server.reload(&config).expect_err("beyond max_memory");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(server.cache().ledger().limit(), 96 << 20, "a refused configuration changes nothing");
}

#[test]
fn memory_is_lowered_while_serving() {
    let server = support::start_in_memory(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    let value = "x".repeat(10_000);
    for key in 0..5_000 {
        client.send(format!("set key{key} 0 0 10000 noreply\r\n{value}\r\n"));
    }
    assert_eq!(client.ask("mn\r\n"), "MN");
    assert!(server.cache().ledger().total() > 40 << 20);
    assert_eq!(client.ask("cache_memlimit 24\r\n"), "OK");
    assert_eq!(client.stat("limit_maxbytes"), 24 << 20);
    assert_eq!(server.config().memory(), ByteSize::mib(24), "it is the setting");
    let refused = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust";
    assert_eq!(client.ask("cache_memlimit 10\r\n"), refused, "the least that the setting may be is 16 MiB");
    assert_eq!(server.cache().ledger().limit(), 24 << 20);
    wait_until("memory is given back", || server.cache().ledger().total() <= 24 << 20);
    assert_eq!(client.ask("set a 0 0 1\r\n1\r\n"), "STORED");
}

#[test]
fn stopping_answers_what_has_arrived() {
    let server = support::start(config()).expect("a server");
    let place = address(&server);
    let mut client = Client::connect(place);
    let mut idle = Client::connect(place);
    let mut half = Client::connect(place);
    assert_eq!(idle.ask("mn\r\n"), "MN");
    assert_eq!(client.ask("set a 0 0 500000\r\n".to_owned() + &"x".repeat(500_000) + "\r\n"), "STORED");
    half.send("set b 0 0 10\r\nbegins");
    client.send("get a a a a a a a a\r\nmn\r\n");
    base::thread::sleep(std::time::Duration::from_millis(100));
    let stopping = base::thread::spawn("stop", move || server.stop()).expect("a thread");
    for _ in 0..8 {
        assert_eq!(client.line(), "VALUE a 0 500000");
        assert_eq!(client.read_exact(500_002).len(), 500_002);
    }
    assert_eq!(client.line(), "END");
    assert_eq!(client.line(), "MN");
    assert!(client.is_closed());
    assert!(idle.is_closed());
    assert!(half.is_closed());
    stopping.join().expect("no panic");
    assert!(TcpStream::connect(place).is_err(), "nobody listens any more");
}

/// The memory that connections are charged with is given back with them.
#[test]
fn connections_are_on_the_bill() {
    let server = support::start(config()).expect("a server");
    let cache = server.cache().clone();
    let ledger = cache.ledger();
    let idle = ledger.part(base::Part::Connections);
    assert!(idle > 0, "the workers' own buffers count");
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(address(&server))).collect();
    for client in &mut clients {
        client.send("get half-a-line");
    }
    wait_until("buffers are charged", || ledger.part(base::Part::Connections) > idle + 20 * 100);
    drop(clients);
    wait_until("and released", || ledger.part(base::Part::Connections) == idle);
    server.stop();
    assert_eq!(ledger.part(base::Part::Connections), 0, "the workers' own as well");
}

#[test]
fn connections_are_spread_over_the_workers() {
    let mut config = config();
    config.threads = Auto::Set(4);
    let server = support::start(config).expect("a server");
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(address(&server))).collect();
    for client in &mut clients {
        assert_eq!(client.ask("mn\r\n"), "MN");
    }
    assert_eq!(server.connections_by_worker(), [2, 2, 2, 2]);
}

#[test]
fn addresses_in_use_are_refused_by_name() {
    let server = support::start(config()).expect("a server");
    let mut second: Config = config();
    second.listeners[0].address = Address::Tcp(address(&server));
    let error = support::start(second).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Taken);
    assert!(error.to_string().contains(&address(&server).to_string()), "{error}");
    let mut third = config();
    third.admin.address = Auto::Set(Address::Tcp(address(&server)));
    let error = support::start(third).err().expect("refused");
    assert!(error.to_string().contains("admin.address"), "{error}");
}

#[test]
fn a_server_takes_over_what_the_last_one_left() {
    let folder = std::env::temp_dir().join(format!("millpond-server-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let config = || Config { shared_memory: folder.clone(), ..config() };
    let token = {
        let server = support::start_in_memory(config()).expect("a server");
        let mut client = Client::connect(address(&server));
        assert_eq!(client.ask("ms kept 5 T1000 F7\r\nvalue\r\n"), "HD");
        assert_eq!(client.ask("set gone 0 0 1\r\n1\r\n"), "STORED");
        assert_eq!(client.ask("delete gone\r\n"), "DELETED");
        let token = client.ask("mg kept c\r\n");
        let refused = support::start_in_memory(config()).err().expect("one server at a time");
        assert!(refused.to_string().contains("in use by another process"), "{refused}");
        server.stop();
        token
    };
    let server = support::start_in_memory(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("mg kept s f c\r\n"), format!("HD s5 f7 {}", &token[3..]));
    assert_eq!(client.ask("mg gone s\r\n"), "EN");
    assert_eq!(client.ask("ms kept 3\r\nnew\r\n"), "HD");
    let number = |line: &str| line[4..].parse::<u64>().expect("a token");
    assert!(number(&client.ask("mg kept c\r\n")) > number(&token), "tokens go on");
    // A policy is exchanged while serving.
    let mut changed = server.config().as_ref().clone();
    changed.pools[0].policy = "arc".parse().expect("a policy");
    changed.pools[0].rebalance = "marginal-hits".to_owned();
    changed.pools[0].classes = Classes::Tuned;
    let changes = server.reload(&changed).expect("all can be changed");
    assert!(changes.len() == 3 && changes.iter().all(|change| change.online), "{changes:?}");
    assert_eq!(client.ask("mg kept s\r\n"), "HD s3");
    assert!(get_page(&server, "/stats.json").1.contains("\"arc\""));
    server.stop();
    std::fs::remove_dir_all(&folder).expect("removes");
}

/// `gat` changes the expiration time of the value that it answers, and of none that another client
/// has stored since.
#[test]
fn a_value_keeps_its_end_if_gat_has_answered_another() {
    let server = support::start(config()).expect("a server");
    let address = address(&server);
    let is_done = Arc::new(AtomicBool::new(false));
    let touchers: Vec<_> = (0..2)
        .map(|_| {
            let is_done = Arc::clone(&is_done);
            base::thread::spawn("toucher", move || {
                let mut client = Client::connect(address);
                let mut answered = BTreeSet::new();
                while !is_done.load(Ordering::Relaxed) {
                    client.send("gat 1000 k\r\n".repeat(20));
                    let mut ends = 0;
                    while ends < 20 {
                        match client.line() {
                            line if line == "END" => ends += 1,
                            line if line.starts_with("VALUE") => _ = answered.insert(client.line()),
                            line => panic!("{line}"),
                        }
                    }
                }
                answered
            })
            .expect("a thread")
        })
        .collect();
    let mut client = Client::connect(address);
    let mut touched = BTreeSet::new();
    // Until the clients have met often.
    for round in 1_000..5_000 {
        if touched.len() > 100 {
            break;
        }
        let values = (0..20).map(|number| (round * 20 + number).to_string());
        client.send(
            values.clone().map(|value| format!("set k 0 0 5\r\n{value}\r\nmg k t\r\n")).collect::<String>(),
        );
        for value in values {
            assert_eq!(client.line(), "STORED");
            if client.line() != "HD t-1" {
                touched.insert(value);
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

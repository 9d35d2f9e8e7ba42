//! Client-side caching: what is told to whom, on Millpond and on a redis-server.

use std::net::SocketAddr;
use std::time::Duration;

use base::{ByteSize, Clock};

use crate::client::Client;
use crate::reference::{config, millpond, redis, start};

/// Scenarios of three connections: `NUMBER COMMAND` shows the reply, `NUMBER <` what comes next of
/// its own accord. `ID1` is the number of connection 1.
const SCENARIOS: [(&str, &str); 9] = [
    (
        "keys that were read",
        "1 HELLO 3
         1 CLIENT TRACKING ON
         1 GET a
         1 MGET b c
         2 SET a 1
         1 <
         2 SET a 2
         2 SET c 1
         1 <
         1 GET a
         2 DEL a
         1 <
         1 GET a
         2 SET other 1
         2 SETNX a 3
         1 <
         2 MSET a 1 b 2
         1 <
         1 PING",
    ),
    (
        "every way to change a key",
        "1 HELLO 3
         1 CLIENT TRACKING ON
         2 SET k 1
         1 GET k
         2 INCR k
         1 <
         1 STRLEN k
         2 APPEND k x
         1 <
         1 GETRANGE k 0 1
         2 EXPIRE k 100
         1 <
         1 TTL k
         2 PERSIST k
         1 <
         1 EXISTS k
         2 RENAME k l
         1 <
         2 HSET h f v
         1 HGETALL h
         2 HSET h f w
         1 <
         1 HGET h f
         2 HDEL h f
         1 <
         1 LRANGE q 0 -1
         2 RPUSH q a b
         1 <
         1 LLEN q
         2 LPOP q
         1 <
         1 SMEMBERS s
         2 SADD s a
         1 <
         1 ZRANGE z 0 -1
         2 ZADD z 1 a
         1 <
         1 SUNION s t
         2 SADD t b
         1 <
         1 PING",
    ),
    (
        "within a transaction",
        "1 HELLO 3
         1 CLIENT TRACKING ON
         1 MULTI
         1 GET a
         1 GET b
         1 EXEC
         2 MULTI
         2 SET a 1
         2 SET a 2
         2 EXEC
         1 <
         2 SET b 1
         1 <
         1 PING",
    ),
    (
        "own changes",
        "1 HELLO 3
         1 CLIENT TRACKING ON NOLOOP
         1 GET a
         1 SET a 1
         2 SET a 2
         1 GET a
         2 SET a 3
         1 <
         1 PING",
    ),
    (
        "opt in and out",
        "1 HELLO 3
         1 CLIENT TRACKING ON OPTIN
         1 GET a
         1 CLIENT CACHING YES
         1 GET b
         1 GET c
         2 SET a 1
         2 SET c 1
         2 SET b 1
         1 <
         1 CLIENT CACHING YES
         1 MULTI
         1 GET a
         1 GET c
         1 EXEC
         1 GET b
         2 SET b 2
         2 SET a 2
         1 <
         2 SET c 2
         1 <
         1 CLIENT TRACKING OFF
         1 CLIENT TRACKING ON OPTOUT
         1 CLIENT CACHING NO
         1 GET a
         1 GET b
         2 SET a 3
         2 SET b 3
         1 <
         1 CLIENT TRACKINGINFO
         1 PING",
    ),
    (
        "prefixes",
        "1 HELLO 3
         1 CLIENT TRACKING ON BCAST PREFIX user: PREFIX item:
         2 SET user:1 a
         1 <
         2 SET user:1 b
         1 <
         2 SET other 1
         2 DEL user:1
         1 <
         1 CLIENT TRACKINGINFO
         1 CLIENT TRACKING ON BCAST PREFIX us
         1 CLIENT TRACKING ON BCAST PREFIX more: PREFIX more:than
         1 CLIENT TRACKING ON BCAST PREFIX more:
         2 SET more:1 a
         1 <
         1 CLIENT TRACKING ON
         1 PING",
    ),
    (
        "by way of another connection",
        "3 SUBSCRIBE __redis__:invalidate
         3 PING
         3 GET a
         1 CLIENT TRACKING ON REDIRECT ID3
         1 CLIENT GETREDIR
         1 GET a
         2 SET a 1
         3 <
         1 GET a
         2 FLUSHALL
         3 <
         3 UNSUBSCRIBE
         3 GET a
         1 CLIENT TRACKING ON REDIRECT 1000000
         1 CLIENT TRACKING OFF
         1 CLIENT GETREDIR
         1 PING",
    ),
    (
        "flushed",
        "1 HELLO 3
         1 CLIENT TRACKING ON
         2 SET a 1
         1 GET a
         2 FLUSHDB
         1 <
         1 GET a
         1 CLIENT TRACKING OFF
         2 SET a 1
         1 PING",
    ),
    (
        "what is refused",
        "1 CLIENT CACHING YES
         1 CLIENT GETREDIR
         1 CLIENT TRACKINGINFO
         1 CLIENT TRACKING
         1 CLIENT TRACKING maybe
         1 CLIENT TRACKING ON PREFIX a
         1 CLIENT TRACKING ON BCAST OPTIN
         1 CLIENT TRACKING ON OPTIN OPTOUT
         1 CLIENT TRACKING ON REDIRECT x
         1 CLIENT TRACKING ON REDIRECT ID2 REDIRECT ID2
         1 CLIENT TRACKING ON bogus
         1 CLIENT TRACKING ON BCAST PREFIX a PREFIX ab
         1 CLIENT TRACKING ON OPTIN
         1 CLIENT TRACKING ON OPTOUT
         1 CLIENT TRACKING ON BCAST
         1 CLIENT CACHING NO
         1 CLIENT CACHING bogus
         1 CLIENT TRACKINGINFO
         1 RESET
         1 CLIENT TRACKINGINFO
         1 UNSUBSCRIBE",
    ),
];

/// Plays a scenario, and returns each line with its replies.
fn play(address: SocketAddr, scenario: &str) -> Vec<(String, String)> {
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(address)).collect();
    assert_eq!(clients[1].ask("FLUSHALL"), "+OK");
    let ids: Vec<String> = clients.iter_mut().map(|client| client.ask("CLIENT ID")[1..].to_owned()).collect();
    let mut shown = Vec::new();
    for line in scenario.lines().map(str::trim) {
        let (number, command) = line.split_once(' ').expect("a number and a command");
        let client = &mut clients[number.parse::<usize>().expect("a number") - 1];
        let mut reply = match command {
            "<" => client.reply(),
            _ => {
                let named = (0..3)
                    .fold(command.to_owned(), |text, at| text.replace(&format!("ID{}", at + 1), &ids[at]));
                client.ask(&named)
            }
        };
        if command.starts_with("HELLO") {
            reply.truncate(1);
        }
        for (at, id) in ids.iter().enumerate().filter(|_| command.starts_with("CLIENT")) {
            reply = reply.replace(&format!(":{id}"), &format!(":ID{}", at + 1));
        }
        if command.ends_with("TRACKINGINFO") {
            // The order of prefixes is another one.
            let flat = reply.replace(['[', ']', '*', '~', '%'], "");
            let mut parts: Vec<&str> = flat.split(' ').collect();
            parts.sort_unstable();
            reply = parts.join(" ");
        }
        shown.push((line.to_owned(), reply));
    }
    shown
}

#[test]
fn clients_are_told_what_redis_tells_them() {
    let Some(redis) = redis() else {
        println!("skipped: there is no redis-server in PATH, and MILLPOND_REDIS is not set.");
        return;
    };
    let (server, address) = millpond();
    let mut differences = Vec::new();
    for (name, scenario) in SCENARIOS {
        let (ours, theirs) = (play(address, scenario), play(redis.address, scenario));
        for ((line, ours), (_, theirs)) in ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs) {
            differences.push(format!("{name}: {line}\n    redis:    {theirs}\n    millpond: {ours}"));
        }
    }
    server.stop();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn what_ends_by_itself_and_what_memcached_changes_is_told() {
    let clock = Clock::manual(1_700_000_000);
    let mut config = config();
    config.listeners[0].protocol = millpond_server::config::Protocol::Auto;
    let (_server, address) = start(config, clock.clone());
    let (mut reader, mut writer) = (Client::connect(address), Client::connect(address));
    assert_eq!(writer.ask("SET k v EX 10"), "+OK");
    assert!(reader.ask("HELLO 3").starts_with('%'));
    assert_eq!(reader.ask("CLIENT TRACKING ON"), "+OK");
    assert_eq!(reader.ask("GET k"), "$v");
    clock.advance(Duration::from_secs(11));
    assert_eq!(writer.ask("GET k"), "$-1");
    assert_eq!(reader.reply(), ">[$invalidate *[$k]]", "it is over");
    assert_eq!(reader.ask("GET k"), "_");
    let mut memcached = Client::connect(address);
    memcached.send("set k 0 0 1\r\nx\r\n");
    assert_eq!(memcached.reply(), "STORED");
    assert_eq!(reader.reply(), ">[$invalidate *[$k]]", "another protocol has set it");
    assert_eq!(reader.ask("GET k"), "$x");
    memcached.send("flush_all\r\n");
    assert_eq!(memcached.reply(), "OK");
    assert_eq!(reader.reply(), ">[$invalidate _]");
}

#[test]
fn the_table_is_bounded_and_a_copy_that_has_to_leave_is_told() {
    let mut config = config();
    config.limits.max_tracked_keys = 10;
    let (server, address) = start(config, Clock::System);
    let mut reader = Client::connect(address);
    assert!(reader.ask("HELLO 3").starts_with('%'));
    assert_eq!(reader.ask("CLIENT TRACKING ON"), "+OK");
    let held = server.cache().ledger().total();
    let mut told = 0;
    for number in 0..2_000 {
        reader.send(crate::client::request(&format!("GET key:{number}")));
        let mut reply = reader.reply();
        while reply.starts_with('>') {
            told += 1;
            reply = reader.reply();
        }
        assert_eq!(reply, "_");
    }
    let grown = server.cache().ledger().total().saturating_sub(held);
    // One that is alone in its part of the table has none to take the place of.
    assert!(told >= 2_000 - 10 - 64, "{told} were told");
    assert!(grown < ByteSize::kib(64).as_u64(), "{grown} bytes");
}

#[test]
fn a_client_that_does_not_read_what_it_is_told_is_closed() {
    let mut config = config();
    config.limits.max_output_buffer_bytes = ByteSize::kib(16);
    let (server, address) = start(config, Clock::System);
    let (mut reader, mut writer) = (Client::connect(address), Client::connect(address));
    assert!(reader.ask("HELLO 3").starts_with('%'));
    assert_eq!(reader.ask("CLIENT TRACKING ON BCAST"), "+OK");
    let commands: Vec<u8> = (0..1_000)
        .flat_map(|number| crate::client::request(&format!("SET {}:{number} v", "k".repeat(200))))
        .collect();
    for _ in 0..200 {
        writer.send(&commands);
        (0..1_000).for_each(|_| assert_eq!(writer.reply(), "+OK"));
        if server.connections() == 1 {
            return;
        }
    }
    panic!("it is still there");
}

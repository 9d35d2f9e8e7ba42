//! Several tenants on one server: whose keys are whose, who waits for whom, and who comes and goes.

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base::{ByteSize, Clock};
use millpond_server::config::{Address, Auto, ControlMode, ListenerConfig, Protocol, TenantSettings};
use millpond_server::{Config, Server};
use support::{Client, ask_admin, config, get_page, metric, tcp, wait_until};

fn tenant(name: &str) -> TenantSettings {
    TenantSettings { name: name.to_owned(), ..TenantSettings::default() }
}

fn listener(name: &str, tenant: &str) -> ListenerConfig {
    ListenerConfig {
        name: name.to_owned(),
        address: Address::loopback(0),
        tenant: tenant.to_owned(),
        protocol: Protocol::Auto,
        ..ListenerConfig::default()
    }
}

/// Two tenants with a listener each; clients of `shop`'s may switch to `blog`, which has database
/// 1.
fn two() -> Config {
    let mut config = config();
    config.tenants = vec![tenant("shop"), TenantSettings { databases: vec![1], ..tenant("blog") }];
    config.listeners = vec![
        ListenerConfig { tenants: vec!["blog".to_owned()], ..listener("a", "shop") },
        listener("b", "blog"),
    ];
    config
}

fn client(server: &Server, listener: &str) -> Client {
    let addresses = server.addresses();
    let (_, address) = addresses.iter().find(|(name, _)| name == listener).expect("the listener");
    Client::connect(tcp(address))
}

/// Sends a command of RESP and returns the first line of the reply.
fn resp(client: &mut Client, command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    let mut request = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    client.ask(request)
}

#[test]
fn tenants_do_not_see_each_other() {
    let server = support::start(two()).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    assert_eq!(shop.ask("set k 0 0 1\r\ns\r\n"), "STORED");
    assert_eq!(blog.ask("get k\r\n"), "END");
    assert_eq!(blog.ask("set k 0 0 1\r\nb\r\n"), "STORED");
    assert_eq!(blog.ask("flush_all\r\n"), "OK");
    assert_eq!(shop.ask("get k\r\n"), "VALUE k 0 1");
    assert_eq!((shop.line().as_str(), shop.line().as_str()), ("s", "END"));
    assert_eq!(metric(&server, r#"millpond_tenant_sets_total{tenant="shop"}"#), 1);
    assert_eq!(metric(&server, r#"millpond_tenant_hits_total{tenant="shop"}"#), 1);
    assert_eq!(metric(&server, r#"millpond_tenant_misses_total{tenant="blog"}"#), 1);
    shop.send("stats tenants\r\n");
    let lines: Vec<String> =
        std::iter::repeat_with(|| shop.line()).take_while(|line| line != "END").collect();
    assert!(lines.contains(&"STAT shop:hits 1".to_owned()), "{lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("STAT shop:")), "{lines:?}");
    shop.send("stats conns\r\n");
    let lines: Vec<String> =
        std::iter::repeat_with(|| shop.line()).take_while(|line| line != "END").collect();
    let listening = lines.iter().filter(|line| line.ends_with(":state conn_listening")).count();
    let addresses = lines.iter().filter(|line| line.contains(":addr ")).count();
    assert_eq!((listening, addresses), (1, 2), "only its own, and its listener: {lines:?}");
    assert!(shop.ask("cache_memlimit 32\r\n").starts_with("CLIENT_ERROR memory is shared"));
    let (_, page) = get_page(&server, "/stats.json");
    assert!(page.contains(r#""name":"shop""#) && page.contains(r#""tenant":"shop""#), "{page}");
}

/// Reads memcached's `stats`, or a kind of them, as a client.
fn stats(client: &mut Client, kind: &str) -> BTreeMap<String, String> {
    client.send(format!("stats{kind}\r\n"));
    let lines = std::iter::repeat_with(|| client.line()).take_while(|line| line != "END");
    let stat = |line: String| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), value.to_owned()))
    };
    lines.map(|line| stat(line.clone()).unwrap_or_else(|| panic!("no statistic: {line}"))).collect()
}

#[test]
fn statistics_tell_a_client_of_its_own_tenant() {
    let mut config = two();
    config.tenants[1].limit = Auto::Set(ByteSize::mib(16));
    config.tenants[1].max_connections = 7;
    config.tenants[1].in_bytes_per_sec = ByteSize::mib(500);
    let server = support::start_in_memory(config).expect("a server");
    let (mut shop, mut other, mut blog) = (client(&server, "a"), client(&server, "a"), client(&server, "b"));
    assert_eq!(other.ask("mn\r\n"), "MN");
    for key in 0..100 {
        assert_eq!(shop.ask(format!("set k{key} 0 0 1\r\nv\r\n")), "STORED");
    }
    assert_eq!(blog.ask("get k1\r\n"), "END");
    let seen = stats(&mut blog, "");
    for (name, value) in [
        ("curr_connections", "1"),
        ("connection_structures", "1"),
        ("total_connections", "1"),
        ("rejected_connections", "0"),
        ("max_connections", "7"),
        ("cmd_set", "0"),
        ("get_hits", "0"),
        ("get_misses", "1"),
        ("bytes", "0"),
        ("curr_items", "0"),
        ("total_items", "0"),
        ("memory_slabs", "0"),
        ("limit_maxbytes", "16777216"),
        ("threads", "2"),
    ] {
        assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name} of {seen:?}");
    }
    assert!(seen["bytes_read"].parse::<u64>().expect("a number") < 100, "{seen:?}");
    for name in ["pid", "uptime", "time", "version", "pointer_size"] {
        assert!(seen.contains_key(name), "{name} is missing in {seen:?}");
    }
    for name in ["rusage_user", "rusage_system", "hash_bytes", "memory_index", "memory_connections"] {
        assert!(!seen.contains_key(name), "{name} tells of others");
    }
    assert!(stats(&mut blog, " items").is_empty() && stats(&mut blog, " sizes").is_empty());
    let slabs = stats(&mut blog, " slabs");
    assert_eq!((slabs["active_slabs"].as_str(), slabs["total_malloced"].as_str()), ("0", "0"), "{slabs:?}");
    let port = |listener: &str| {
        let addresses = server.addresses();
        let (_, address) = addresses.iter().find(|(name, _)| name == listener).expect("the listener");
        tcp(address).port().to_string()
    };
    for (client, own) in [(&mut shop, "a"), (&mut blog, "b")] {
        assert_eq!(stats(client, " settings")["tcpport"], port(own));
    }
    let settings = stats(&mut blog, " settings");
    assert_eq!((settings["maxbytes"].as_str(), settings["maxconns"].as_str()), ("16777216", "7"));
    let tenant = stats(&mut blog, " tenants");
    assert_eq!(tenant["blog:in_bytes_per_sec"], (500_u64 << 20).to_string());
    assert_eq!((tenant["blog:max_connections"].as_str(), tenant["blog:weight"].as_str()), ("7", "1"));
    for (client, count) in [(&mut shop, 2), (&mut blog, 1)] {
        let connections = stats(client, " conns");
        let addresses = connections.keys().filter(|name| name.ends_with(":addr")).count();
        assert_eq!(addresses, count + 1, "and its listener's: {connections:?}");
    }
    // A reset is of the own tenant's, at whichever listener they were counted.
    assert_eq!(resp(&mut client(&server, "a"), "SELECT 1"), "+OK");
    assert_eq!(blog.ask("stats reset\r\n"), "RESET");
    assert_eq!(
        (stats(&mut blog, "")["get_misses"].as_str(), stats(&mut shop, "")["cmd_set"].as_str()),
        ("0", "100")
    );
    assert_eq!(stats(&mut shop, "")["curr_items"], "100");
}

#[test]
fn binary_statistics_are_of_the_own_tenant_too() {
    let server = support::start(two()).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    assert_eq!(shop.ask("set k 0 0 1\r\nv\r\n"), "STORED");
    blog.send([&[0x80, 0x10][..], &[0; 22]].concat());
    let mut seen = BTreeMap::new();
    loop {
        let header = blog.read_exact(24);
        let len = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
        let mut name = blog.read_exact(len(10));
        let value = name.split_off(len(2));
        if name.is_empty() {
            break;
        }
        let text = |bytes| String::from_utf8(bytes).expect("text");
        seen.insert(text(name), text(value));
    }
    assert_eq!((seen["curr_items"].as_str(), seen["curr_connections"].as_str()), ("0", "1"), "{seen:?}");
    assert!(!seen.contains_key("rusage_user"), "{seen:?}");
}

/// With a single tenant, every client sees the statistics of the whole server.
#[test]
fn statistics_of_a_single_tenant_are_of_the_whole_server() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(support::address(&server));
    let seen = stats(&mut client, "");
    for name in ["rusage_user", "hash_bytes", "hash_is_expanding", "memory_index", "memory_slabs"] {
        assert!(seen.contains_key(name), "{name} is missing in {seen:?}");
    }
    assert_eq!(seen["limit_maxbytes"], (64_u64 << 20).to_string());
}

#[test]
fn what_one_tenant_orders_does_not_reach_another() {
    let server = support::start_in_memory(two()).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    for client in [&mut shop, &mut blog] {
        assert_eq!(client.ask("set k 0 0 1\r\nv\r\n"), "STORED");
    }
    assert_eq!(blog.ask("set own 0 0 1\r\nv\r\n"), "STORED");
    blog.send("lru_crawler metadump all\r\n");
    let mut listed: Vec<String> =
        std::iter::repeat_with(|| blog.line()).take_while(|line| line != "END").collect();
    listed.sort();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed[0].starts_with("key=k ") && listed[1].starts_with("key=own "), "{listed:?}");
    shop.send("lru_crawler mgdump all\r\n");
    assert_eq!((shop.line().as_str(), shop.line().as_str()), ("mg k", "EN"));
    let config = server.config();
    for (order, answer) in [
        ("flush_all", "OK"),
        ("flush_all 1", "OK"),
        ("verbosity 2", "OK"),
        ("lru_crawler crawl all", "OK"),
        ("lru_crawler disable", "OK"),
        ("lru mode flat", "ERROR"),
        ("slabs reassign 1 2", "ERROR"),
        ("slabs automove 0", "ERROR"),
        ("extstore free_memchunks 1 1", "ERROR"),
        ("shutdown", "ERROR: shutdown not enabled"),
        ("shutdown graceful", "ERROR: shutdown not enabled"),
    ] {
        assert_eq!(blog.ask(format!("{order}\r\n")), answer, "{order}");
    }
    assert!(blog.ask("watch fetchers\r\n").starts_with("CLIENT_ERROR watch is not supported"));
    assert!(blog.ask("cache_memlimit 32\r\n").starts_with("CLIENT_ERROR memory is shared"));
    assert_eq!(blog.ask("get k\r\n"), "END");
    assert_eq!(shop.ask("get k\r\n"), "VALUE k 0 1");
    assert_eq!(server.config(), config, "nothing has changed");
    assert_eq!(server.cache().stats().memory_limit_bytes, 64 << 20);
}

#[test]
fn select_turns_to_tenants_that_are_allowed() {
    let server = support::start(two()).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    assert_eq!(resp(&mut shop, "SET k shop"), "+OK");
    assert_eq!(resp(&mut shop, "SELECT 1"), "+OK");
    assert_eq!(resp(&mut shop, "GET k"), "$-1");
    assert_eq!(resp(&mut shop, "SET k blog"), "+OK");
    assert_eq!(resp(&mut blog, "GET k"), "$4");
    blog.line();
    // Pipelined, so that one read has commands of both.
    shop.send("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    assert_eq!((shop.line(), shop.line(), shop.line()), ("+OK".into(), "$4".into(), "shop".into()));
    assert_eq!(resp(&mut shop, "SELECT 2"), "-ERR DB index is out of range");
    assert_eq!(resp(&mut blog, "SELECT 1"), "+OK", "its own database");
    assert_eq!(metric(&server, r#"millpond_tenant_connections{tenant="shop"}"#), 1);
    resp(&mut shop, "SELECT 1");
    assert_eq!(metric(&server, r#"millpond_tenant_connections{tenant="blog"}"#), 2);
    assert_eq!(metric(&server, r#"millpond_tenant_connections{tenant="shop"}"#), 0);
    assert_eq!(resp(&mut shop, "RESET"), "+RESET");
    assert_eq!(resp(&mut shop, "GET k"), "$4");
    assert_eq!(shop.line(), "shop");
}

#[test]
fn info_tells_a_client_of_its_own_tenant() {
    let mut config = two();
    config.tenants[1].limit = Auto::Set(ByteSize::mib(16));
    let server = support::start_in_memory(config).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    for key in 0..100 {
        assert_eq!(shop.ask(format!("set k{key} 0 0 1\r\nv\r\n")), "STORED");
    }
    assert_eq!(shop.ask("get k1\r\n"), "VALUE k1 0 1");
    assert_eq!((shop.line(), shop.line()), ("v".to_owned(), "END".to_owned()));
    assert_eq!(shop.ask("get nothing\r\n"), "END");
    let info = |client: &mut Client| {
        let head = resp(client, "INFO");
        let len = head.strip_prefix('$').and_then(|len| len.parse::<usize>().ok()).expect("a length");
        String::from_utf8(client.read_exact(len + 2)).expect("text")
    };
    assert_eq!(resp(&mut blog, "GET nothing"), "$-1");
    let seen = info(&mut blog);
    for line in [
        "connected_clients:1",
        "used_memory:0",
        "maxmemory:16777216",
        "keyspace_hits:0",
        "keyspace_misses:1",
        "evicted_keys:0",
        "total_connections_received:1",
    ] {
        assert!(seen.contains(&format!("\r\n{line}\r\n")), "{line} is missing in {seen}");
    }
    assert!(!seen.contains("db0"), "{seen}");
    assert_eq!(resp(&mut blog, "SET k v"), "+OK");
    let seen = info(&mut blog);
    let used = seen.lines().find_map(|line| line.strip_prefix("used_memory:")?.parse::<u64>().ok());
    assert!(used.is_some_and(|used| (1..=64 << 10).contains(&used)), "a run, not a slab: {seen}");
    assert!(seen.contains("db0:keys=1,"), "{seen}");
    let mut other = client(&server, "a");
    assert_eq!(resp(&mut other, "PING"), "+PONG");
    let seen = info(&mut other);
    for line in
        ["connected_clients:2", "keyspace_hits:1", "keyspace_misses:1", "db0:keys=100,expires=0,avg_ttl=0"]
    {
        assert!(seen.contains(&format!("\r\n{line}\r\n")), "{line} is missing in {seen}");
    }
}

#[test]
fn what_commands_took_is_told_to_their_tenant_alone() {
    let server = support::start(two()).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    let ask = |client: &mut Client, command: &str| {
        let head = resp(client, command);
        let len = head.strip_prefix('$').and_then(|len| len.parse::<usize>().ok()).expect("a length");
        String::from_utf8(client.read_exact(len + 2)).expect("text")
    };
    let all = "INFO commandstats errorstats latencystats";
    assert_eq!(resp(&mut shop, "SET k v"), "+OK");
    assert_eq!(resp(&mut blog, "GET k"), "$-1");
    assert!(resp(&mut blog, "GET").starts_with("-ERR"));
    let seen = ask(&mut blog, all);
    assert!(seen.contains("cmdstat_get:calls=1,") && seen.contains("rejected_calls=1,"), "{seen}");
    assert!(seen.contains("errorstat_ERR:count=1") && !seen.contains("_set:"), "{seen}");
    assert_eq!(resp(&mut blog, "CONFIG RESETSTAT"), "+OK");
    assert!(!ask(&mut blog, all).contains("_get:"));
    let seen = ask(&mut shop, all);
    assert!(seen.contains("cmdstat_set:calls=1,") && seen.contains("usec_set:"), "another's stay: {seen}");
    assert!(!seen.contains("errorstat_ERR"), "{seen}");
}

#[test]
fn a_transaction_keeps_to_its_tenant() {
    let server = support::start(two()).expect("a server");
    let mut shop = client(&server, "a");
    for (command, reply) in [
        ("WATCH k", "+OK"),
        ("SELECT 1", "+OK"),
        ("MULTI", "+OK"),
        ("SET k 1", "+QUEUED"),
        ("EXEC", "*-1"),
        ("MULTI", "+OK"),
        ("SELECT 0", "+QUEUED"),
        ("SET k 2", "+QUEUED"),
        ("EXEC", "*2"),
    ] {
        assert_eq!(resp(&mut shop, command), reply, "{command}");
    }
    assert_eq!(shop.line(), "-ERR a transaction cannot switch to another tenant");
    assert_eq!(shop.line(), "+OK");
    resp(&mut shop, "SELECT 0");
    assert_eq!(resp(&mut shop, "GET k"), "$-1", "it was set in database 1");
}

/// A change of `default` would shut all others out.
#[test]
fn a_tenant_neither_sees_nor_changes_users() {
    let server = support::start(two()).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    for command in [
        "ACL SETUSER default off",
        "ACL SETUSER other on nopass +@all",
        "ACL DELUSER other",
        "ACL LIST",
        "ACL USERS",
        "ACL GETUSER other",
        "ACL DRYRUN other GET k",
        "ACL LOG",
        "ACL LOG RESET",
    ] {
        let reply = resp(&mut shop, command);
        assert!(reply.starts_with("-ERR several tenants share the server: its users"), "{command}: {reply}");
    }
    // Whether there is a user or not is all the same.
    for user in ["default", "nosuch"] {
        assert_eq!(resp(&mut shop, &format!("CLIENT KILL USER {user}")), ":0", "{user}");
    }
    assert_eq!(resp(&mut shop, "ACL DRYRUN default GET k"), "+OK");
    assert_eq!(resp(&mut shop, "ACL WHOAMI"), "$7");
    assert_eq!(resp(&mut blog, "SET k v"), "+OK");
    assert_eq!(client(&server, "b").ask("get other\r\n"), "END");
}

#[test]
fn connections_of_a_tenant_are_limited() {
    let mut config = two();
    config.tenants[1].max_connections = 1;
    let server = support::start(config).expect("a server");
    let mut first = client(&server, "b");
    assert_eq!(first.ask("mn\r\n"), "MN");
    let mut second = client(&server, "b");
    assert_eq!(second.line(), "ERROR Too many open connections");
    assert!(second.is_closed());
    let mut shop = client(&server, "a");
    assert_eq!(resp(&mut shop, "SELECT 1"), "-ERR max number of clients reached");
    assert_eq!(resp(&mut shop, "PING"), "+PONG", "it stays what it was");
    drop(first);
    wait_until("the place is free", || resp(&mut shop, "SELECT 1") == "+OK");
    assert_eq!(metric(&server, r#"millpond_tenant_refused_connections_total{tenant="blog"}"#), 1);
}

/// The tenant that hoards most loses connections, though another has the largest.
#[test]
fn a_hoarder_costs_no_other_tenant_a_connection() {
    let mut config = two();
    config.threads = Auto::Set(1);
    config.limits.max_connection_memory_bytes = Auto::Set(ByteSize::mib(2));
    let server = support::start_in_memory(config).expect("a server");
    let (mut shop, value) = (client(&server, "a"), "v".repeat(700_000));
    shop.send(format!("set large 0 0 700000\r\n{}", &value[..100]));
    let mut hoarders: Vec<Client> = (0..30).map(|_| client(&server, "b")).collect();
    for hoarder in &mut hoarders {
        hoarder.send("set k 0 0 100000\r\nbegins");
    }
    let closed = |listener| {
        metric(&server, &format!("millpond_server_closes_total{{listener=\"{listener}\",reason=\"memory\"}}"))
    };
    wait_until("hoarders are closed", || closed("b") > 10);
    shop.send(format!("{}\r\n", &value[100..]));
    assert_eq!(shop.line(), "STORED");
    assert_eq!(closed("a"), 0);
}

/// Returns the memory that a tenant's connections hold.
fn held(server: &Server, tenant: &str) -> u64 {
    metric(server, &format!("millpond_tenant_connection_memory_bytes{{tenant=\"{tenant}\"}}"))
}

/// Stores a large value, as one who may be closed meanwhile. Whether it was stored.
fn stores(client: &mut Client, len: usize) -> bool {
    let request = format!("set large 0 0 {len}\r\n{}\r\n", "v".repeat(len));
    let mut answer = [0; 8];
    client.stream.write_all(request.as_bytes()).is_ok()
        && client.stream.read_exact(&mut answer).is_ok()
        && answer == *b"STORED\r\n"
}

/// A tenant that holds all that connections may have, with one worker, is in no other's way, though
/// that has the other worker to itself.
#[test]
fn a_hoarder_on_another_worker_makes_room() {
    let limit = 2 << 20;
    let mut config = two();
    config.limits.max_connection_memory_bytes = Auto::Set(ByteSize::new(limit));
    let server = support::start_in_memory(config).expect("a server");
    let all = || server.connections_by_worker().iter().sum::<usize>();
    // Connections go where the fewest are: those that land with the other worker only see to it
    // that the next does not.
    let (mut hoarders, mut others): (Vec<Client>, Vec<Client>) = (Vec::new(), Vec::new());
    while hoarders.len() < 3 {
        let (before, sum) = (server.connections_by_worker(), all());
        let next = client(&server, "b");
        wait_until("it is accepted", || all() > sum);
        let is_first = server.connections_by_worker()[0] > before[0];
        if is_first { hoarders.push(next) } else { others.push(next) }
    }
    for hoarder in &mut hoarders {
        hoarder.send("set k 0 0 600000\r\nbegins");
    }
    drop(others);
    wait_until("one worker has all", || server.connections_by_worker() == [3, 0]);
    wait_until("hardly anything is left", || held(&server, "blog") > limit - 500_000);

    let mut tries = 0;
    wait_until("another tenant finds room", || {
        assert!(metric(&server, "millpond_server_connection_memory_bytes{}") <= limit, "it is a limit");
        wait_until("the last try is over", || all() <= 3);
        tries += 1;
        stores(&mut client(&server, "a"), 500_000)
    });
    let closed = metric(&server, r#"millpond_server_closes_total{listener="b",reason="memory"}"#);
    assert!((1..=tries).contains(&closed), "{closed} closed after {tries} tries");
    drop(hoarders);
    wait_until("all is given back", || held(&server, "blog") + held(&server, "shop") == 0);
}

/// The memory of a connection is charged to its current tenant.
#[test]
fn what_connections_hold_goes_with_them() {
    let server = support::start(two()).expect("a server");
    let mut client = client(&server, "a");
    assert_eq!(resp(&mut client, "SET k v"), "+OK");
    for (command, tenant, other) in
        [("SELECT 1", "blog", "shop"), ("RESET", "shop", "blog"), ("SELECT 1", "blog", "shop")]
    {
        assert!(resp(&mut client, command).starts_with('+'));
        wait_until(command, || held(&server, tenant) > 0 && held(&server, other) == 0);
        let all = metric(&server, "millpond_server_connection_memory_bytes{}");
        assert_eq!(held(&server, tenant), all);
    }
    drop(client);
    wait_until("it is gone", || server.connections() == 0);
    wait_until("all is given back", || held(&server, "blog") + held(&server, "shop") == 0);
}

/// A retrieval of many keys takes many turns, and its reply is that of one.
#[test]
fn a_long_request_is_answered_in_parts() {
    let server = support::start_in_memory(two()).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    assert_eq!(resp(&mut blog, "PING"), "+PONG");
    for i in (0..1_000).step_by(2) {
        assert_eq!(resp(&mut shop, &format!("SET k{i} {i}")), "+OK");
    }
    let names: Vec<String> = (0..1_000).map(|i| format!("k{i}")).collect();
    assert_eq!(resp(&mut shop, &format!("MGET {}", names.join(" "))), "*1000");
    for i in 0..1_000 {
        if i % 2 == 0 {
            assert_eq!(shop.line(), format!("${}", i.to_string().len()));
            assert_eq!(shop.line(), i.to_string());
        } else {
            assert_eq!(shop.line(), "$-1");
        }
    }
    assert_eq!(resp(&mut shop, "KEYS *"), "*500");
}

#[test]
fn who_has_spent_its_rate_waits_and_loses_nothing() {
    let mut config = two();
    config.tenants[0] =
        TenantSettings { operations_per_sec: 100, burst_millis: 1_000, ..config.tenants[0].clone() };
    let clock = Clock::manual(1_700_000_000);
    let server = support::start_with_clock(config, clock.clone()).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    shop.send("mn\r\n".repeat(1_000));
    let answered = || metric(&server, r#"millpond_tenant_requests_total{tenant="shop"}"#);
    wait_until("it waits", || metric(&server, r#"millpond_tenant_throttled_total{tenant="shop"}"#) == 1);
    let at_first = answered();
    assert!((100..1_000).contains(&at_first), "{at_first} answered at once");
    assert_eq!(blog.ask("mn\r\n"), "MN", "the other does not wait");
    clock.advance(Duration::from_secs(2));
    wait_until("two seconds bring more", || answered() > at_first);
    wait_until("all are answered", || {
        clock.advance(Duration::from_secs(1));
        answered() == 1_000
    });
    for _ in 0..1_000 {
        assert_eq!(shop.line(), "MN");
    }
    assert_eq!(answered(), 1_000);
}

#[test]
fn tenants_come_change_and_go() {
    let mut config = two();
    let server = support::start(config.clone()).expect("a server");
    let mut shop = client(&server, "a");
    config.tenants.push(TenantSettings {
        databases: vec![2],
        limit: Auto::Set(ByteSize::mib(8)),
        ..tenant("new")
    });
    config.listeners[0].tenants = vec!["*".to_owned()];
    drop(server);
    let server = support::start(config.clone()).expect("a server");
    drop(shop);
    shop = client(&server, "a");
    assert_eq!(resp(&mut shop, "SELECT 2"), "+OK");
    assert_eq!(resp(&mut shop, "SET k v"), "+OK");
    let pools = || server.cache().stats().pools.iter().map(|pool| pool.name.clone()).collect::<Vec<_>>();
    assert!(pools().contains(&"new".to_owned()));
    let with_new = config.clone();
    config.tenants.pop();
    let changes = server.reload(&config).expect("reloaded");
    assert!(changes.iter().any(|change| change.path == "tenant.new.limit" && change.online), "{changes:?}");
    assert!(shop.is_closed(), "its connections end");
    wait_until("its pool is gone", || !pools().contains(&"new".to_owned()));
    let mut shop = client(&server, "a");
    assert_eq!(resp(&mut shop, "SELECT 2"), "-ERR DB index is out of range");
    server.reload(&with_new).expect("reloaded");
    assert_eq!(resp(&mut shop, "SELECT 2"), "+OK");
    assert_eq!(resp(&mut shop, "GET k"), "$-1", "what it had is gone");
    assert_eq!(metric(&server, r#"millpond_tenant_limit_bytes{tenant="new"}"#), 8 << 20);
    let mut changed = with_new.clone();
    changed.tenants[2].limit = Auto::Set(ByteSize::mib(12));
    changed.tenants[2].max_connections = 1;
    server.reload(&changed).expect("reloaded");
    assert_eq!(metric(&server, r#"millpond_tenant_limit_bytes{tenant="new"}"#), 12 << 20);
    assert_eq!(resp(&mut client(&server, "a"), "SELECT 2"), "-ERR max number of clients reached");
    let mut without = changed;
    without.tenants.remove(0);
    let error = server.reload(&without).expect_err("a listener's tenant cannot go");
    assert!(error.to_string().contains("listener.a.tenant"), "{error}");
}

/// Two tenants, and the same with `new`, which has database 2 of every client. Connections that end
/// have `drain_timeout_secs` for their last replies.
fn without_and_with_new(drain_timeout_secs: u32) -> (Config, Config) {
    let mut without = two();
    without.limits.drain_timeout_secs = drain_timeout_secs;
    without.listeners[0].tenants = vec!["*".to_owned()];
    let mut with = without.clone();
    with.tenants.push(TenantSettings { databases: vec![2], ..tenant("new") });
    (without, with)
}

#[test]
fn a_tenant_that_comes_back_at_once_has_nothing_that_it_had() {
    let (without, with) = without_and_with_new(5);
    let server = support::start(with.clone()).expect("a server");
    for _ in 0..5 {
        let mut shop = client(&server, "a");
        assert_eq!(resp(&mut shop, "SELECT 2"), "+OK");
        assert_eq!(resp(&mut shop, "GET k"), "$-1", "what it had is gone");
        assert_eq!(resp(&mut shop, "SET k v"), "+OK");
        server.reload(&without).expect("reloaded");
        server.reload(&with).expect("reloaded, while the tenant is on its way out");
        assert!(shop.is_closed(), "its former connections end");
    }
}

/// A client of tenant `new` that has requested 30 MB and reads nothing.
fn greedy(server: &Server) -> Client {
    let mut client = client(server, "a");
    assert_eq!(resp(&mut client, "SELECT 2"), "+OK");
    let value = "v".repeat(1_000_000);
    assert_eq!(resp(&mut client, &format!("SET k {value}")), "+OK");
    client.send("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(30));
    client
}

#[test]
fn a_client_that_reads_nothing_keeps_a_removed_tenant_no_longer_than_a_server_that_stops() {
    let (without, with) = without_and_with_new(1);
    let server = support::start(with.clone()).expect("a server");
    let _greedy = greedy(&server);
    server.reload(&without).expect("reloaded");
    let is_there = || server.cache().stats().pools.iter().any(|pool| pool.name == "new");
    wait_until("its pool is gone", || !is_there());
    server.reload(&with).expect("reloaded");
    let _greedy = greedy(&server);
    server.reload(&without).expect("reloaded");
    server.reload(&with).expect("it waits for the former pool");
    assert_eq!(resp(&mut client(&server, "a"), "SELECT 2"), "+OK");
}

#[test]
fn the_admin_server_answers_while_a_change_waits() {
    let (without, with) = without_and_with_new(3);
    let server = std::sync::Arc::new(support::start(with).expect("a server"));
    let _greedy = greedy(&server);
    server.reload(&without).expect("reloaded");
    let other = std::sync::Arc::clone(&server);
    let change = base::thread::spawn("change", move || {
        ask_admin(&other, "PUT", "/tenants/new", "127.0.0.1", r#"{"databases": [2]}"#)
    });
    let change = change.expect("a thread");
    let mut answers_meanwhile = 0;
    while !change.is_finished() {
        assert!(get_page(&server, "/healthz").0.contains("200"));
        answers_meanwhile += u32::from(!change.is_finished());
        base::thread::sleep(Duration::from_millis(50));
    }
    let (status, body) = change.join().expect("no panic");
    assert!(status.contains("200"), "{status} {body}");
    assert!(answers_meanwhile > 5, "{answers_meanwhile}");
}

#[test]
fn the_admin_api_makes_changes_and_removes_tenants() {
    let mut config = two();
    config.listeners[0].tenants = vec!["*".to_owned()];
    let server = support::start(config.clone()).expect("a server");
    let ask = |method: &str, path: &str, body: &str| {
        let (status, body) = ask_admin(&server, method, path, "127.0.0.1", body);
        (status.split(' ').nth(1).expect("a status").to_owned(), body)
    };
    let (status, body) = ask("PUT", "/tenants/new", r#"{"limit": "8MiB", "databases": [2], "weight": "3"}"#);
    assert_eq!(status, "200", "{body}");
    assert!(body.contains(r#"{"new":[2],"old":null,"setting":"tenant.new.databases"}"#), "{body}");
    let mut shop = client(&server, "a");
    assert_eq!(resp(&mut shop, "SELECT 2"), "+OK");
    assert_eq!(resp(&mut shop, "SET k v"), "+OK");
    assert_eq!(resp(&mut shop, "GET k"), "$1");

    let (status, body) = ask("GET", "/tenants/new", "");
    assert_eq!(status, "200", "{body}");
    for part in [r#""limit":8388608"#, r#""weight":3"#, r#""hits":1"#, r#""pool":"new""#] {
        assert!(body.contains(part), "{part} is missing in {body}");
    }
    // What was sent is counted after it was sent.
    wait_until("both tell the same", || {
        let (_, all) = ask("GET", "/tenants", "");
        assert!(all.contains(r#""name":"shop""#), "{all}");
        all.contains(&ask("GET", "/tenants/new", "").1)
    });

    let (status, body) = ask("PUT", "/tenants/new", r#"{"max_connections": 7}"#);
    assert_eq!(
        (status.as_str(), body.as_str()),
        ("200", r#"[{"new":7,"old":0,"setting":"tenant.new.max_connections"}]"#)
    );
    assert_eq!(server.config().tenants[2].weight, 3, "what is not named stays");
    for (method, path, body, wants, part) in [
        (
            "PUT",
            "/tenants/new",
            r#"{"weigth": 2}"#,
            "400",
            "PUT /tenants/new: there is no setting `tenant.new.weigth`; did you mean `tenant.new.weight`?",
        ),
        ("PUT", "/tenants/new", r#"{"weight": 0}"#, "400", "tenant.new.weight: 0 is not between"),
        ("PUT", "/tenants/new", r#"{"weight": "much"}"#, "400", "cannot be `much`"),
        ("PUT", "/tenants/new", r#"{"pool": "blog", "limit": "auto"}"#, "400", "next start"),
        ("PUT", "/tenants/new", r#"{"name": "old"}"#, "400", "keeps its name"),
        ("PUT", "/tenants/other", r#"{"databases": [2]}"#, "400", "another tenant's already"),
        ("PUT", "/tenants/a%2Fb", "{}", "400", "without a slash"),
        ("PUT", "/tenants/a%0Ab%1b%5b31m", "{}", "400", "control character"),
        ("PUT", "/tenants/new?wirte=true", "{}", "400", "?write=true"),
        ("PUT", "/tenants/new?write=true", "{}", "409", "without a config file"),
        ("DELETE", "/tenants/nwe", "", "404", "did you mean `new`?"),
        ("DELETE", "/tenants/shop", "", "400", "listener.a.tenant: there is no tenant `shop`"),
        ("GET", "/tenants/nwe", "", "404", "did you mean `new`?"),
    ] {
        let (status, body) = ask(method, path, body);
        assert!(status == wants && body.contains(part), "{method} {path}: {status} {body}");
    }
    assert_eq!(ask_admin(&server, "DELETE", "/tenants/new", "evil.example", "").0, "HTTP/1.1 403 Forbidden");

    let (status, body) = ask("DELETE", "/tenants/new", "");
    assert!(
        status == "200" && body.contains(r#"{"new":null,"old":"new","setting":"tenant.new.name"}"#),
        "{body}"
    );
    assert!(shop.is_closed(), "its connections end");
    assert_eq!(ask("PUT", "/tenants/late", "{}").0, "200");
    server.reload(&config).expect("reloaded");
    assert_eq!(ask("GET", "/tenants/late", "").0, "404", "the file holds again");
}

#[test]
fn a_tenant_without_settings_keeps_its_pool_when_it_gets_some() {
    let server = support::start(config()).expect("a server");
    let ask = |method: &str, body: &str| ask_admin(&server, method, "/tenants/default", "127.0.0.1", body);
    let (status, body) = ask("DELETE", "");
    assert!(status.contains("404") && body.contains("a listener names its pool"), "{status} {body}");
    assert_eq!(ask("PUT", r#"{"max_connections": 1}"#).0, "HTTP/1.1 200 OK");
    let _first = Client::connect(support::address(&server));
    wait_until("it is counted", || metric(&server, r#"millpond_tenant_connections{tenant="default"}"#) == 1);
    let mut second = Client::connect(support::address(&server));
    assert_eq!(second.line(), "ERROR Too many open connections");
    assert_eq!(ask("DELETE", "").0, "HTTP/1.1 200 OK");
    let (status, body) = ask("PUT", r#"{"pool": "elsewhere"}"#);
    assert!(
        status.contains("400") && body.contains("tenant.default.pool: there is no pool"),
        "{status} {body}"
    );
}

/// Stores `count` values of 100,000 bytes under keys that were never used.
fn fill(client: &mut Client, count: u32) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let value = "x".repeat(100_000);
    let first = NEXT.fetch_add(count, Ordering::Relaxed);
    for key in first..first + count {
        assert_eq!(client.ask(format!("set k{key} 0 0 100000\r\n{value}\r\n")), "STORED");
    }
}

#[test]
fn what_a_tenant_leaves_idle_others_use_until_it_wants_it() {
    let mut config = two();
    // By reserves and weights alone.
    config.control.mode = ControlMode::Off;
    config.memory = Auto::Set(ByteSize::mib(96));
    config.tenants[0].reserve = ByteSize::mib(12);
    config.tenants[1].reserve = ByteSize::mib(24);
    config.tenants[1].weight = 2;
    let server = support::start_in_memory(config.clone()).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    let slabs = |tenant: &str| {
        metric(&server, &format!("millpond_tenant_memory_bytes{{tenant=\"{tenant}\"}}")) / (4 << 20)
    };
    fill(&mut shop, 1_000);
    let all = slabs("shop");
    assert!(all >= 15, "it has what nobody else uses: {all}");
    fill(&mut blog, 1);
    let bytes = metric(&server, "millpond_tenant_memory_bytes{tenant=\"blog\"}");
    assert!(bytes > 0, "memory for the first item is there at once");
    wait_until("it has its reserve and its part of the rest", || {
        fill(&mut blog, 200);
        fill(&mut shop, 10);
        slabs("blog") + 2 >= 6 + (all - 9) * 2 / 3
    });
    assert!(slabs("shop") >= 2, "nobody takes what is reserved");
    assert!(metric(&server, r#"millpond_pool_slabs_reclaimed_total{pool="shop"}"#) >= 6);
    config.tenants[0].reserve = ByteSize::mib(90);
    let error = server.reload(&config).expect_err("too much");
    assert!(error.to_string().contains("total 114MiB, and memory is 96MiB"), "{error}");
    // A tenant that came first with nothing reserved does not keep another from storing anything.
    config.tenants[0].reserve = ByteSize::new(0);
    config.tenants[1].reserve = ByteSize::new(0);
    config.tenants[1].weight = 1;
    server.reload(&config).expect("reloaded");
    wait_until("they are even", || {
        fill(&mut shop, 200);
        fill(&mut blog, 10);
        slabs("shop").abs_diff(slabs("blog")) <= 2
    });
}

#[test]
fn one_tenant_evicts_itself_alone() {
    let mut config = two();
    config.tenants[0].limit = Auto::Set(ByteSize::mib(8));
    let server = support::start_in_memory(config).expect("a server");
    let (mut shop, mut blog) = (client(&server, "a"), client(&server, "b"));
    for key in 0..100 {
        assert_eq!(blog.ask(format!("set k{key} 0 0 1\r\nv\r\n")), "STORED");
    }
    let value = "x".repeat(100_000);
    for key in 0..400 {
        assert_eq!(shop.ask(format!("set k{key} 0 0 100000\r\n{value}\r\n")), "STORED");
    }
    assert!(metric(&server, r#"millpond_tenant_evictions_total{tenant="shop"}"#) > 0);
    assert_eq!(metric(&server, r#"millpond_tenant_evictions_total{tenant="blog"}"#), 0);
    assert_eq!(metric(&server, r#"millpond_tenant_items{tenant="blog"}"#), 100);
    assert!(metric(&server, r#"millpond_tenant_memory_bytes{tenant="shop"}"#) <= 8 << 20);
}

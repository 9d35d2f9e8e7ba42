//! Settings that are changed while serving, by `CONFIG` and by the admin API, and what the slow log
//! and the latencies tell.

mod support;

use millpond_server::Server;
use millpond_server::config::{Address, ListenerConfig, Protocol, TenantSettings};
use support::{Client, address, ask_admin, config, metric};

fn resp_server() -> Server {
    let mut config = config();
    config.listeners[0].protocol = Protocol::Resp;
    support::start(config).expect("a server")
}

/// A reply in RESP2 as words: bulk strings and numbers, nested arrays in brackets.
fn reply(client: &mut Client) -> String {
    let head = client.line();
    let (kind, rest) = head.split_at(1);
    let count = || rest.parse::<i64>().expect("a number");
    match kind {
        "$" if count() < 0 => "nil".to_owned(),
        "$" => {
            let len = usize::try_from(count()).expect("a length");
            let bytes = client.read_exact(len + 2);
            String::from_utf8_lossy(&bytes[..len]).into_owned()
        }
        "*" => {
            let parts: Vec<String> = (0..count()).map(|_| reply(client)).collect();
            format!("[{}]", parts.join(" "))
        }
        _ => rest.to_owned(),
    }
}

fn ask(client: &mut Client, request: &str) -> String {
    client.send(format!("{request}\r\n"));
    reply(client)
}

#[test]
fn config_set_changes_what_is_served_at_once_and_all_or_nothing() {
    let server = resp_server();
    let mut client = Client::connect(address(&server));
    for (set, get, is) in [
        ("maxmemory 32mb", "maxmemory", "33554432"),
        ("maxclients 77", "limits.max_connections", "77"),
        ("TIMEOUT 300", "limits.idle_timeout_secs", "300"),
        ("limits.idle_timeout_secs 0", "timeout", "0"),
        ("pool.default.policy lru", "pool.default.policy", "lru"),
        ("slowlog-max-len 5", "watch.slow_log_entries", "5"),
        ("latency-monitor-threshold 100", "watch.latency_monitor_millis", "100"),
        ("log.level warn", "log.level", "warn"),
        ("appendonly no", "appendonly", "no"),
        (r#"maxmemory-policy allkeys-lru save """#, "maxmemory-policy", "allkeys-lru"),
    ] {
        assert_eq!(ask(&mut client, &format!("CONFIG SET {set}")), "OK", "{set}");
        assert_eq!(ask(&mut client, &format!("CONFIG GET {get}")), format!("[{get} {is}]"));
    }
    assert_eq!(server.config().limits.max_connections, 77);
    assert_eq!(server.cache().stats().memory_limit_bytes, 32 << 20);

    let failed = "ERR CONFIG SET failed (possibly related to argument ";
    for (set, error) in [
        (
            "memroy 5",
            "ERR Unknown option or number of arguments for CONFIG SET - 'memroy'; did you mean 'memory'?"
                .to_owned(),
        ),
        ("nonsense 5", "ERR Unknown option or number of arguments for CONFIG SET - 'nonsense'".to_owned()),
        ("maxclients", "ERR wrong number of arguments for 'config|set' command".to_owned()),
        ("maxclients 5 maxclients 6", format!("{failed}'maxclients') - duplicate parameter")),
        ("port 5", format!("{failed}'port') - can't set immutable config")),
        ("watch.trace_file /tmp/x", format!("{failed}'watch.trace_file') - can't set protected config")),
        ("watch.request_log /tmp/x", format!("{failed}'watch.request_log') - can't set protected config")),
        ("admin.token x", format!("{failed}'admin.token') - can't set protected config")),
        ("admin.tls_key /x", format!("{failed}'admin.tls_key') - can't set protected config")),
    ] {
        assert_eq!(ask(&mut client, &format!("CONFIG SET {set}")), error);
    }
    for (set, part) in [
        ("maxclients 5 timeout soon", "'timeout') - "),
        ("maxclients 5 timeout soon", "`limits.idle_timeout_secs` cannot be `soon`"),
        ("maxclients 5 maxmemory 1mb", "give at least 16MiB"),
        ("maxclients 5 threads 3", "next start"),
        ("maxclients 0 timeout soon", "limits.max_connections: 0 is too small"),
        ("maxclients 0 timeout soon threads 3", "threads: it takes effect at the next start only"),
        ("maxclients 5 maxmemory 900tb", "more than this machine has"),
        ("maxclients 5 maxmemory 900tb", "more than one cache can have, 256GiB"),
    ] {
        let error = ask(&mut client, &format!("CONFIG SET {set}"));
        assert!(error.starts_with(failed) && error.contains(part), "{error}");
        assert_eq!(server.config().limits.max_connections, 77, "nothing of {set} was done");
    }
    assert_eq!(ask(&mut client, "CONFIG REWRITE"), "ERR The server is running without a config file");
}

#[test]
fn the_slow_log_has_what_took_long_and_no_secret() {
    let server = resp_server();
    let mut client = Client::connect(address(&server));
    assert_eq!(ask(&mut client, "CONFIG SET slowlog-log-slower-than 0"), "OK");
    assert_eq!(ask(&mut client, "SLOWLOG RESET"), "OK");
    assert_eq!(ask(&mut client, "CLIENT SETNAME me"), "OK");
    assert_eq!(ask(&mut client, "SET k v"), "OK");
    assert_eq!(ask(&mut client, "GET k"), "v");
    let _ = ask(&mut client, "AUTH hunter2");
    let log = ask(&mut client, "SLOWLOG GET -1");
    for part in ["[SET k v]", "[GET k]", "[AUTH (redacted)]", "[SLOWLOG RESET]", "127.0.0.1:", " me]"] {
        assert!(log.contains(part), "{part} is missing in {log}");
    }
    assert!(!log.contains("hunter2"), "{log}");
    assert!(log.find("[GET k]") < log.find("[SET k v]"), "the latest first: {log}");
    let one = ask(&mut client, "SLOWLOG GET 1");
    assert!(one.contains("[SLOWLOG GET -1]") && !one.contains("[GET k]"), "{one}");
    assert!(metric(&server, "millpond_server_slow_requests_total{}") >= 5);

    assert_eq!(ask(&mut client, "CONFIG SET slowlog-log-slower-than -1 slowlog-max-len 2"), "OK");
    let _ = ask(&mut client, "GET k");
    assert_eq!(ask(&mut client, "SLOWLOG GET -2"), "ERR count should be greater than or equal to -1");
    assert_eq!(ask(&mut client, "SLOWLOG RESET"), "OK");
    let _ = ask(&mut client, "GET k");
    assert_eq!(ask(&mut client, "SLOWLOG LEN"), "0");
    assert_eq!(ask(&mut client, "SLOWLOG LEN x"), "ERR wrong number of arguments for 'slowlog|len' command");
    assert_eq!(ask(&mut client, "SLOWLOG NO"), "ERR unknown subcommand 'NO'. Try SLOWLOG HELP.");
}

#[test]
fn latencies_are_told_by_protocol() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    for _ in 0..100 {
        assert_eq!(client.ask("mn\r\n"), "MN");
    }
    let count = |protocol: &str| {
        metric(&server, &format!("millpond_server_request_seconds_count{{protocol=\"{protocol}\"}}"))
    };
    assert!((1..=100).contains(&count("memcached")), "{}", count("memcached"));
    assert_eq!(count("resp"), 0);
}

#[test]
fn the_admin_api_shows_and_changes_settings() {
    let server = support::start(config()).expect("a server");
    let (status, body) = ask_admin(&server, "GET", "/config", "test", "");
    assert!(status.contains("403"), "`test` is none of its names: {status} {body}");
    let (status, body) = ask_admin(&server, "GET", "/config", "127.0.0.1:1", "");
    assert!(status.contains("200"), "{status}");
    assert!(body.contains(r#""limits.max_connections":{"online":true,"value":4096}"#), "{body}");
    assert!(body.contains(r#""threads":{"online":false,"value":2}"#), "{body}");

    let wanted = r#"{"limits.max_connections": 55, "memory": "48MiB", "limits.skip_refused_data": true}"#;
    let (status, body) = ask_admin(&server, "PUT", "/config", "localhost", wanted);
    assert!(status.contains("200"), "{status} {body}");
    assert!(body.contains(r#"{"new":55,"old":4096,"setting":"limits.max_connections"}"#), "{body}");
    assert_eq!(server.config().limits.max_connections, 55);
    assert!(server.config().limits.skip_refused_data);
    assert_eq!(server.cache().stats().memory_limit_bytes, 48 << 20);

    for (wanted, part) in [
        (r#"{"limits.max_conections": 5}"#, "did you mean `limits.max_connections`?"),
        (r#"{"limits.max_connections": 0}"#, "give at least 1"),
        (r#"{"threads": 7}"#, "next start"),
    ] {
        let (status, body) = ask_admin(&server, "PUT", "/config", "[::1]:9", wanted);
        assert!(status.contains("400") && body.contains(part), "{status} {body}");
    }
    let (status, _) =
        ask_admin(&server, "PUT", "/config", "evil.example", r#"{"limits.max_connections": 5}"#);
    assert!(status.contains("403"), "{status}");
    let (status, body) = ask_admin(&server, "POST", "/config/rewrite", "127.0.0.1", "");
    assert!(status.contains("409") && body.contains("without a config file"), "{status} {body}");
    assert_eq!(server.config().limits.max_connections, 55);
}

#[test]
fn tenants_neither_change_the_server_nor_see_each_other_in_its_log() {
    let mut config = config();
    config.watch.slow_log_micros = 0;
    config.tenants = ["shop", "blog"]
        .map(|name| TenantSettings { name: name.to_owned(), ..TenantSettings::default() })
        .to_vec();
    config.listeners = ["shop", "blog"]
        .map(|name| ListenerConfig {
            name: name.to_owned(),
            address: Address::loopback(0),
            tenant: name.to_owned(),
            protocol: Protocol::Resp,
            ..ListenerConfig::default()
        })
        .to_vec();
    let server = support::start(config).expect("a server");
    let addresses = server.addresses();
    let mut shop = Client::connect(support::tcp(&addresses[0].1));
    let mut blog = Client::connect(support::tcp(&addresses[1].1));
    assert_eq!(ask(&mut shop, "SET secret-of-shop v"), "OK");
    assert_eq!(ask(&mut blog, "SET k v"), "OK");
    let log = ask(&mut blog, "SLOWLOG GET -1");
    assert!(log.contains("[SET k v]") && !log.contains("shop"), "{log}");
    assert_eq!(ask(&mut blog, "SLOWLOG RESET"), "OK");
    assert!(ask(&mut shop, "SLOWLOG GET -1").contains("secret-of-shop"));
    for request in ["CONFIG SET maxclients 1", "CONFIG REWRITE"] {
        let error = ask(&mut blog, request);
        assert!(error.contains("the operator's to change"), "{error}");
    }
    let shown = ask(&mut blog, "CONFIG GET *");
    assert!(shown.contains("maxclients") && !shown.contains("shop"), "{shown}");
}

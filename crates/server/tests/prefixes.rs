//! Tenants by the prefixes of keys, on one listener.

mod support;

use base::{ByteSize, Clock};
use millpond_server::config::{
    Address, Auto, ListenerConfig, Protocol, Secret, TenantSettings, UserSettings,
};
use millpond_server::{Config, Server};
use support::{Client, ask_admin, config, metric, tcp, wait_until};

fn tenant(name: &str, prefixes: &[&str]) -> TenantSettings {
    let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
    TenantSettings { name: name.to_owned(), prefixes, ..TenantSettings::default() }
}

/// `all` is for clients of every tenant, by prefix, and else of `shop`; `blog` for those of one.
fn by_prefix() -> Config {
    let mut config = config();
    config.tenants =
        vec![tenant("shop", &[]), tenant("blog", &["blog:", "b/"]), tenant("wiki", &["blog:wiki:"])];
    let listener = |name: &str, tenant: &str, by_prefix| ListenerConfig {
        name: name.to_owned(),
        address: Address::loopback(0),
        tenant: tenant.to_owned(),
        tenants: vec!["*".to_owned()],
        by_prefix,
        protocol: Protocol::Auto,
        ..ListenerConfig::default()
    };
    config.listeners = vec![listener("all", "shop", true), listener("blog", "blog", false)];
    config
}

fn client(server: &Server, listener: &str) -> Client {
    let addresses = server.addresses();
    let (_, address) = addresses.iter().find(|(name, _)| name == listener).expect("the listener");
    Client::connect(tcp(address))
}

/// A request of RESP.
fn request(command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>())
}

fn resp(client: &mut Client, command: &str) -> String {
    client.ask(request(command))
}

fn lines(client: &mut Client, count: usize) -> Vec<String> {
    (0..count).map(|_| client.line()).collect()
}

fn figure(server: &Server, figure: &str, tenant: &str) -> u64 {
    metric(server, &format!("millpond_tenant_{figure}{{tenant=\"{tenant}\"}}"))
}

#[test]
fn a_key_is_the_tenants_whose_prefix_it_has() {
    let server = support::start_in_memory(by_prefix()).expect("a server");
    let (mut all, mut blog) = (client(&server, "all"), client(&server, "blog"));
    for key in ["blog:1", "blog:wiki:1", "b/1", "1"] {
        assert_eq!(all.ask(format!("set {key} 0 0 {}\r\n{key}\r\n", key.len())), "STORED");
    }
    for (tenant, items) in [("shop", 1), ("blog", 2), ("wiki", 1)] {
        assert_eq!(figure(&server, "items", tenant), items, "{tenant}");
        assert_eq!(figure(&server, "sets_total", tenant), items, "{tenant}");
    }
    blog.send("get blog:1 1 blog:wiki:1\r\n");
    assert_eq!(
        lines(&mut blog, 3),
        ["VALUE blog:1 0 6", "blog:1", "END"],
        "it is no other than that tenant's"
    );

    all.send("get blog:1 1 b/2 blog:wiki:1 b/1 2\r\nmn\r\n");
    let values = ["VALUE blog:1 0 6", "blog:1", "VALUE 1 0 1", "1", "VALUE blog:wiki:1 0 11", "blog:wiki:1"];
    assert_eq!(lines(&mut all, 6), values);
    assert_eq!(lines(&mut all, 4), ["VALUE b/1 0 3", "b/1", "END", "MN"]);
    assert_eq!((figure(&server, "hits_total", "wiki"), figure(&server, "misses_total", "shop")), (1, 1));
    assert_eq!((figure(&server, "hits_total", "blog"), figure(&server, "misses_total", "blog")), (3, 3));

    // Every command goes the same way; `YmxvZzo4` is `blog:8`.
    all.send("add blog:8 0 0 1 noreply\r\n7\r\nincr blog:8 1\r\nmg YmxvZzo4 b v\r\ntouch blog:8 0\r\n");
    let answers = lines(&mut all, 4);
    assert!(answers[1].starts_with("VA 1"), "{answers:?}");
    assert_eq!((&*answers[0], &*answers[2], &*answers[3]), ("8", "8", "TOUCHED"));
    all.send("gat 0 blog:8\r\ndelete blog:8\r\nms b/1 2\r\nxy\r\nmg b/1 v\r\n");
    assert_eq!(lines(&mut all, 7), ["VALUE blog:8 0 1", "8", "END", "DELETED", "HD", "VA 2", "xy"]);
    let large = "x".repeat(200_000);
    assert_eq!(all.ask(format!("set blog:large 0 0 200000\r\n{large}\r\n")), "STORED");
    assert_eq!(blog.ask("mg blog:large s\r\n"), "HD s200000");
    let huge = "x".repeat(2_000_000);
    assert_eq!(
        all.ask(format!("set blog:large 0 0 2000000\r\n{huge}\r\n")),
        "SERVER_ERROR object too large for cache"
    );
    assert_eq!(blog.ask("mg blog:large s\r\n"), "EN", "what was there is gone, as in memcached");

    assert_eq!(all.ask("flush_all\r\n"), "OK");
    assert_eq!(all.ask("get 1\r\n"), "END");
    assert_eq!(blog.ask("mg blog:1 s\r\n"), "HD s6", "what is about all keys is about the client's own");
}

#[test]
fn what_a_request_costs_its_tenant_bears() {
    let mut config = by_prefix();
    config.tenants[1] = TenantSettings { operations_per_sec: 100, ..config.tenants[1].clone() };
    let clock = Clock::manual(1_700_000_000);
    let server = support::start_with_clock(config, clock.clone()).expect("a server");
    let (mut all, mut other) = (client(&server, "all"), client(&server, "all"));
    let (set, get) = ("set blog:1 0 0 1\r\nv\r\n", "get blog:1\r\n");
    assert_eq!(all.ask(set), "STORED");
    all.send(format!("get 1\r\n{get}get 1\r\n"));
    assert_eq!(lines(&mut all, 5), ["END", "VALUE blog:1 0 1", "v", "END", "END"]);
    assert_eq!(figure(&server, "requests_total", "blog"), 2);
    assert_eq!(figure(&server, "received_bytes_total", "blog"), (set.len() + get.len()) as u64);
    assert_eq!(
        figure(&server, "sent_bytes_total", "blog"),
        "STORED\r\nVALUE blog:1 0 1\r\nv\r\nEND\r\n".len() as u64
    );
    assert_eq!(figure(&server, "received_bytes_total", "shop"), 14);
    assert_eq!(figure(&server, "sent_bytes_total", "shop"), 10);
    assert_eq!((figure(&server, "connections", "shop"), figure(&server, "connections", "blog")), (2, 0));
    // One tenant's rate does not make another wait, but where its keys stand behind those.
    all.send("get blog:1\r\n".repeat(1_000) + "get 1\r\n");
    wait_until("it waits", || figure(&server, "throttled_total", "blog") > 0);
    for _ in 0..200 {
        assert_eq!(other.ask("get 1\r\n"), "END");
    }
    assert_eq!(other.ask("get 1\r\n"), "END");
    wait_until("all are answered", || {
        clock.advance(std::time::Duration::from_secs(1));
        figure(&server, "requests_total", "blog") == 1_002
    });
    assert_eq!(lines(&mut all, 3_001).last().expect("lines"), "END");
}

#[test]
fn clients_of_redis_go_by_prefix_too() {
    let server = support::start_in_memory(by_prefix()).expect("a server");
    let (mut all, mut blog) = (client(&server, "all"), client(&server, "blog"));
    all.send(["SET blog:1 one", "SET 1 two", "RPUSH b/list x", "INCR blog:wiki:n"].map(request).concat());
    assert_eq!(lines(&mut all, 4), ["+OK", "+OK", ":1", ":1"]);
    all.send(request("MGET blog:1 1 blog:2 blog:wiki:n blog:1") + &request("PING"));
    let values = ["*5", "$3", "one", "$3", "two", "$-1", "$1", "1", "$3", "one", "+PONG"];
    assert_eq!(lines(&mut all, 11), values);
    assert_eq!(resp(&mut blog, "EXISTS blog:1 1 b/list blog:wiki:n"), ":2");
    assert_eq!(resp(&mut all, "DBSIZE"), ":1");
    assert_eq!(resp(&mut all, "KEYS *"), "*1");
    assert_eq!(lines(&mut all, 2), ["$1", "1"]);
    assert_eq!(resp(&mut all, "DEL blog:1 b/list"), ":2");
    for refused in
        ["DEL blog:1 1", "MSET blog:1 a 1 b", "RENAME blog:1 1", "SINTERSTORE b/1 b/2 3", "ZUNION 2 b/1 2"]
    {
        let error = resp(&mut all, refused);
        assert!(error.starts_with("-CROSSSLOT"), "{refused}: {error}");
    }
    let large = "x".repeat(100_000);
    all.send(
        format!("*3\r\n$3\r\nSET\r\n$6\r\nblog:1\r\n$100000\r\n{large}\r\n") + &request("STRLEN blog:1"),
    );
    assert_eq!(lines(&mut all, 2), ["+OK", ":100000"]);
    assert_eq!(resp(&mut blog, "STRLEN blog:1"), ":100000");
    all.send("OBJECT ENCODING blog:1\r\nGET 1\r\n");
    assert_eq!(lines(&mut all, 4), ["$3", "raw", "$3", "two"]);
    assert!(resp(&mut all, "CLIENT TRACKING ON").contains("several tenants'"));
    assert_eq!(resp(&mut all, "FLUSHALL"), "+OK");
    assert_eq!(resp(&mut blog, "DBSIZE"), ":1");
    assert_eq!(figure(&server, "connections", "shop"), 1);
}

#[test]
fn a_transaction_is_of_one_tenant() {
    let server = support::start(by_prefix()).expect("a server");
    let (mut all, mut blog) = (client(&server, "all"), client(&server, "blog"));
    all.send(["SET 1 x", "MULTI", "SET blog:1 a", "INCR blog:2", "EXEC"].map(request).concat());
    assert_eq!(lines(&mut all, 7), ["+OK", "+OK", "+QUEUED", "+QUEUED", "*2", "+OK", ":1"]);
    assert_eq!(resp(&mut blog, "EXISTS blog:1 blog:2"), ":2");
    all.send(["MULTI", "SET blog:1 b", "SET 1 b", "EXEC", "GET 1"].map(request).concat());
    let answers = lines(&mut all, 6);
    assert!(answers[2].starts_with("-CROSSSLOT") && answers[3].starts_with("-EXECABORT"), "{answers:?}");
    assert_eq!(answers[5], "x");
    all.send(["MULTI", "SET blog:1 b", "FLUSHALL", "EXEC"].map(request).concat());
    assert!(lines(&mut all, 4)[2].starts_with("-CROSSSLOT"));
    // A watched key is looked at where it was watched, or counts as changed.
    all.send(["WATCH blog:1", "MULTI", "SET blog:3 c", "EXEC"].map(request).concat());
    assert_eq!(lines(&mut all, 5), ["+OK", "+OK", "+QUEUED", "*1", "+OK"]);
    all.send(["WATCH blog:1", "GET blog:1", "MULTI", "SET blog:3 d"].map(request).concat());
    assert_eq!(lines(&mut all, 5), ["+OK", "$1", "a", "+OK", "+QUEUED"]);
    assert_eq!(resp(&mut blog, "SET blog:1 z"), "+OK");
    assert_eq!(resp(&mut all, "EXEC"), "*-1");
    all.send(["WATCH blog:1", "GET 1", "MULTI", "SET 1 y", "EXEC"].map(request).concat());
    assert_eq!(lines(&mut all, 6), ["+OK", "$1", "x", "+OK", "+QUEUED", "*-1"]);
    all.send(["WATCH blog:1", "MULTI", "SET 1 y", "EXEC"].map(request).concat());
    let answers = lines(&mut all, 4);
    assert!(answers[2].starts_with("-CROSSSLOT") && answers[3].starts_with("-EXECABORT"), "{answers:?}");
}

#[test]
fn who_may_not_turn_to_a_tenant_has_its_prefix_for_himself() {
    let mut config = by_prefix();
    config.users = vec![UserSettings {
        name: "default".to_owned(),
        tenants: vec!["blog".to_owned()],
        rules: Secret("nopass allkeys allcommands".to_owned()),
        ..UserSettings::default()
    }];
    let server = support::start_in_memory(config).expect("a server");
    let mut all = client(&server, "all");
    all.send(["SET blog:1 a", "SET blog:wiki:1 b"].map(request).concat());
    assert_eq!(lines(&mut all, 2), ["+OK", "+OK"]);
    assert_eq!(figure(&server, "items", "wiki"), 0);
    assert_eq!(figure(&server, "items", "blog"), 2, "the next longest prefix that it may");
}

#[test]
fn prefixes_and_their_tenants_change_while_serving() {
    let mut config = by_prefix();
    config.tenants[2].limit = Auto::Set(ByteSize::mib(8));
    let server = support::start_in_memory(config).expect("a server");
    let mut all = client(&server, "all");
    let put = |name: &str, body: &str| {
        let (status, body) = ask_admin(&server, "PUT", &format!("/tenants/{name}"), "127.0.0.1", body);
        assert!(status.contains("200"), "{status} {body}");
    };
    assert_eq!(all.ask("set new:1 0 0 1\r\nv\r\n"), "STORED");
    put("new", r#"{"prefixes": ["new:"]}"#);
    assert_eq!(all.ask("get new:1\r\n"), "END", "it is another's now");
    assert_eq!(all.ask("set new:1 0 0 1\r\nw\r\n"), "STORED");
    assert_eq!(figure(&server, "items", "new"), 1);
    let (status, body) = ask_admin(&server, "DELETE", "/tenants/new", "127.0.0.1", "");
    assert!(status.contains("200"), "{status} {body}");
    all.send("get new:1\r\n");
    assert_eq!(
        lines(&mut all, 3),
        ["VALUE new:1 0 1", "v", "END"],
        "the connection stays, and the key is its own again"
    );
    wait_until("its pool is gone", || server.cache().stats().pools.iter().all(|pool| pool.name != "new"));
}

/// It was answered `OK`, and its value was nowhere.
#[test]
fn a_value_that_arrives_after_its_tenant_was_removed_is_refused() {
    let with = by_prefix();
    let mut without = with.clone();
    without.tenants.pop();
    let (text, value) = ("blog:wiki:text", "v".repeat(900_000));
    let requests = [
        (
            format!("*3\r\n$3\r\nSET\r\n$14\r\n{text}\r\n$900000\r\n{value}\r\n"),
            "-ERR the tenant of this key was removed",
        ),
        (format!("set {text} 0 0 900000\r\n{value}\r\n"), "SERVER_ERROR out of memory storing object"),
    ];
    for (request, wanted) in requests {
        let server = support::start_in_memory(with.clone()).expect("a server");
        let mut client = client(&server, "all");
        let (first, second) = request.split_at(400_000);
        client.send(first);
        wait_until("it is being received", || {
            server.cache().stats().pools.iter().any(|pool| pool.name == "wiki" && pool.slab_bytes > 0)
        });
        server.reload(&without).expect("reloaded");
        client.send(second);
        assert_eq!(client.line(), wanted);
    }
}

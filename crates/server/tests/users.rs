//! Users: who must say who it is, what each may do, and what is never shown.

mod support;

use millpond_server::config::{Address, ListenerConfig, Protocol, Secret, TenantSettings, UserSettings};
use millpond_server::{Config, Server, hash_password};
use support::{Client, address, config, get_page, metric, wait_until};

fn user(name: &str, password: &str, rules: &str) -> UserSettings {
    UserSettings {
        name: name.to_owned(),
        password_hash: Secret(hash_password(password.as_bytes())),
        rules: Secret(rules.to_owned()),
        ..UserSettings::default()
    }
}

/// `admin` may everything, `reader` may read keys of `in:` alone.
fn guarded() -> Config {
    let mut config = config();
    config.listeners[0].protocol = Protocol::Auto;
    config.users = vec![
        user("admin", "sesame", "allkeys allcommands"),
        user("reader", "open", "%R~in:* +@read +set +incr +multi +exec +client|list +acl|whoami"),
    ];
    config
}

fn resp(client: &mut Client, command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    let mut request = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    client.ask(request)
}

fn logged_in(server: &Server, name: &str, password: &str) -> Client {
    let mut client = Client::connect(address(server));
    assert_eq!(resp(&mut client, &format!("AUTH {name} {password}")), "+OK");
    client
}

#[test]
fn who_has_not_said_who_it_is_may_do_nothing() {
    let server = Server::start(guarded()).expect("a server");
    let mut client = Client::connect(address(&server));
    for command in ["GET k", "SET k v", "MGET a b", "PING", "ACL WHOAMI", "CLIENT LIST", "FLUSHALL", "MULTI"]
    {
        assert_eq!(resp(&mut client, command), "-NOAUTH Authentication required.", "{command}");
    }
    assert!(resp(&mut client, "HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(
        resp(&mut client, "AUTH admin wrong"),
        "-WRONGPASS invalid username-password pair or user is disabled."
    );
    assert_eq!(resp(&mut client, "AUTH nobody sesame"), resp(&mut client, "AUTH default sesame"));
    assert_eq!(resp(&mut client, "AUTH admin sesame"), "+OK");
    assert_eq!(resp(&mut client, "SET k v"), "+OK");
    assert_eq!(resp(&mut client, "RESET"), "+RESET");
    assert_eq!(resp(&mut client, "GET k"), "-NOAUTH Authentication required.");
    let mut client = Client::connect(address(&server));
    assert_eq!(resp(&mut client, "HELLO 3 AUTH admin sesame"), "%7");
    // A request that is too long for a stranger.
    let mut client = Client::connect(address(&server));
    client.send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n");
    assert_eq!(client.line(), "-ERR Protocol error: invalid bulk length");
    assert!(client.is_closed());
    let mut client = Client::connect(address(&server));
    let value = "v".repeat(20_000);
    client.send(format!("*3\r\n$4\r\nAUTH\r\n$5\r\nadmin\r\n$6\r\nsesame\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n{value}\r\n"));
    assert_eq!((client.line().as_str(), client.line().as_str()), ("+OK", "+OK"), "pipelined behind AUTH");
    assert!(
        metric(&server, r#"millpond_server_refusals_total{listener="main",reason="wrong_password"}"#) >= 3
    );
}

#[test]
fn who_is_known_may_do_what_the_rules_say() {
    let server = Server::start(guarded()).expect("a server");
    let mut admin = logged_in(&server, "admin", "sesame");
    for key in ["in:1", "out:1"] {
        assert_eq!(resp(&mut admin, &format!("SET {key} v")), "+OK");
    }
    let mut reader = logged_in(&server, "reader", "open");
    assert_eq!(resp(&mut reader, "GET in:1"), "$1");
    reader.line();
    let no_key = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    for command in ["GET out:1", "SET in:1 x", "MGET in:1 out:1", "INCR in:1"] {
        assert_eq!(resp(&mut reader, command), no_key, "{command}");
    }
    for (command, name) in [
        ("DEL in:1", "del"),
        ("FLUSHALL", "flushall"),
        ("ACL SETUSER reader +@all", "acl|setuser"),
        ("CONFIG GET port", "config|get"),
    ] {
        let refused = format!("-NOPERM this user has no permissions to run the '{name}' command");
        assert_eq!(resp(&mut reader, command), refused, "{command}");
    }
    // A large value that would be received into its item.
    let value = "v".repeat(100_000);
    reader.send(format!("*3\r\n$3\r\nSET\r\n$5\r\nout:1\r\n$100000\r\n{value}\r\n"));
    assert_eq!(reader.line(), no_key);
    assert_eq!(resp(&mut reader, "MULTI"), "+OK");
    assert_eq!(
        resp(&mut reader, "DEL in:1"),
        "-NOPERM this user has no permissions to run the 'del' command"
    );
    assert_eq!(resp(&mut reader, "EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(resp(&mut admin, "ACL LOG 1"), "*1");
}

#[test]
fn rules_change_under_connections_and_removed_users_are_closed() {
    let server = Server::start(guarded()).expect("a server");
    let mut admin = logged_in(&server, "admin", "sesame");
    let mut reader = logged_in(&server, "reader", "open");
    assert_eq!(
        resp(&mut reader, "DEL in:1"),
        "-NOPERM this user has no permissions to run the 'del' command"
    );
    assert_eq!(resp(&mut reader, "MULTI"), "+OK");
    assert_eq!(resp(&mut admin, "ACL SETUSER reader +del ~in:*"), "+OK");
    assert_eq!(resp(&mut reader, "DEL in:1"), "+QUEUED");
    assert_eq!(resp(&mut admin, "ACL SETUSER reader -del"), "+OK");
    assert_eq!(resp(&mut reader, "EXEC"), "*1");
    assert_eq!(reader.line(), "-NOPERM this user has no permissions to run the 'del' command");
    assert_eq!(resp(&mut admin, "ACL DELUSER reader"), ":1");
    reader.send("*1\r\n$4\r\nPING\r\n");
    assert!(reader.is_closed());
    assert_eq!(resp(&mut admin, "ACL DELUSER default"), "-ERR The 'default' user cannot be removed");
    let mut changed = guarded();
    changed.users.push(user("new", "pw", "allkeys +get"));
    server.reload(&changed).expect("reloaded");
    logged_in(&server, "new", "pw");
    logged_in(&server, "reader", "open");
    assert_eq!(resp(&mut admin, "PING"), "+PONG");
}

#[test]
fn memcached_clients_say_who_they_are_by_a_first_set() {
    let server = Server::start(guarded()).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("get k\r\n"), "CLIENT_ERROR unauthenticated");
    assert!(client.is_closed());
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set auth 0 0 11\r\nadmin wrong\r\n"), "CLIENT_ERROR authentication failure");
    assert_eq!(
        client.ask("set auth 0 0 11\r\nreader open\r\n"),
        "CLIENT_ERROR authentication failure",
        "it may not everything"
    );
    assert_eq!(client.ask("set auth 0 0 12\r\nadmin sesame\r\nset k 0 0 1\r\nv\r\n"), "STORED");
    assert_eq!(client.line(), "STORED");
    assert_eq!(client.ask("get auth\r\n"), "END", "it was no item");
    assert_eq!(client.ask("get k\r\n"), "VALUE k 0 1");
    let mut binary = Client::connect(address(&server));
    binary.send([&[0x80, 0x0b][..], &[0; 22]].concat());
    assert!(binary.is_closed());
}

#[test]
fn a_user_is_of_a_tenant_whatever_the_listener() {
    let mut config = guarded();
    let tenant = |name: &str, databases| TenantSettings {
        name: name.to_owned(),
        databases,
        ..TenantSettings::default()
    };
    config.tenants = vec![tenant("shop", vec![1]), tenant("blog", vec![2])];
    config.users[0].tenant = "shop".to_owned();
    config.users[0].tenants = vec!["blog".to_owned()];
    config.listeners[0] = ListenerConfig { tenants: vec!["shop".to_owned()], ..config.listeners[0].clone() };
    let server = Server::start(config).expect("a server");
    let mut admin = logged_in(&server, "admin", "sesame");
    assert_eq!(resp(&mut admin, "SET k shop"), "+OK");
    assert_eq!(metric(&server, r#"millpond_tenant_items{tenant="shop"}"#), 1);
    assert_eq!(resp(&mut admin, "SELECT 2"), "+OK");
    assert_eq!(resp(&mut admin, "GET k"), "$-1");
    let mut memcached = Client::connect(address(&server));
    assert_eq!(memcached.ask("set auth 0 0 12\r\nadmin sesame\r\n"), "STORED");
    assert_eq!(memcached.ask("get k\r\n"), "VALUE k 0 4");
    memcached.send("quit\r\n");
    drop(admin);
    wait_until("all are gone", || metric(&server, r#"millpond_tenant_connections{tenant="blog"}"#) == 0);
}

#[test]
fn no_secret_is_shown() {
    let config = guarded();
    let hash = hash_password(b"sesame");
    let digest = hash.trim_start_matches("sha256:").to_owned();
    let mut other = config.clone();
    other.users[0] = user("admin", "another", "allkeys +get >plaintext");
    let shown = [
        format!("{config:?}"),
        millpond_server::config::render(&config).expect("printable"),
        format!("{:?}", millpond_server::config::change::between(&config, &other).expect("comparable")),
    ];
    let server = Server::start(config).expect("a server");
    let mut admin = logged_in(&server, "admin", "sesame");
    let mut wrong = Client::connect(address(&server));
    resp(&mut wrong, "AUTH admin sesamewrong");
    let pages = ["/stats.json", "/metrics", "/config.json", "/config"].map(|page| get_page(&server, page).1);
    let mut replies = String::new();
    for command in ["CLIENT LIST", "SLOWLOG GET 100", "ACL LOG", "INFO", "CONFIG GET *"] {
        replies.push_str(&resp(&mut admin, command));
        replies.push_str(&resp(&mut admin, "ECHO done"));
        while !replies.ends_with("done") {
            replies.push_str(&admin.line());
        }
    }
    for text in shown.iter().chain(&pages).chain([&replies]) {
        for secret in ["sesame", "plaintext", digest.as_str()] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}

#[test]
fn a_listener_beyond_loopback_needs_users_with_passwords() {
    let mut config = guarded();
    config.listeners[0].address = Address::Tcp(([0, 0, 0, 0], 0).into());
    drop(Server::start(config.clone()).expect("everybody must say who it is"));
    config.users.push(UserSettings {
        name: "default".to_owned(),
        rules: Secret("nopass ~* +get".to_owned()),
        ..UserSettings::default()
    });
    let error = Server::start(config).map(drop).expect_err("somebody need not");
    assert!(error.to_string().contains("allow_remote"), "{error}");
}

#[test]
fn who_may_not_read_all_keys_is_not_told_of_all_keys() {
    let mut config = guarded();
    config.users.push(user("watcher", "open", "~in:* +@read +client"));
    let server = Server::start(config).expect("a server");
    let mut client = logged_in(&server, "watcher", "open");
    assert!(resp(&mut client, "CLIENT TRACKING ON BCAST PREFIX in:").starts_with("-NOPERM"));
    assert!(resp(&mut client, "CLIENT TRACKING ON BCAST").starts_with("-NOPERM"));
    assert_eq!(resp(&mut client, "CLIENT TRACKING ON"), "+OK");
    let mut admin = logged_in(&server, "admin", "sesame");
    assert_eq!(resp(&mut admin, "CLIENT TRACKING ON BCAST"), "+OK");
}

//! Users: authentication, permissions, and secrets that are never shown.

mod support;

use std::time::Duration;

use base::Clock;
use millpond_server::config::{
    Address, Auto, ListenerConfig, Protocol, Secret, TenantSettings, UserSettings,
};
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
    let server = support::start(guarded()).expect("a server");
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
    // Requests that are too long for an unauthenticated client.
    let mut client = Client::connect(address(&server));
    client.send("*11\r\n$4\r\nMGET\r\n");
    assert_eq!(client.line(), "-ERR Protocol error: invalid multibulk length");
    assert!(client.is_closed());
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
    let server = support::start(guarded()).expect("a server");
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
fn selectors_count_and_are_shown() {
    let server = support::start(guarded()).expect("a server");
    let mut admin = logged_in(&server, "admin", "sesame");
    let request =
        "*6\r\n$3\r\nACL\r\n$7\r\nSETUSER\r\n$6\r\nreader\r\n$8\r\nresetkey\r\n$4\r\n(~k \r\n$5\r\n+del)\r\n";
    assert!(admin.ask(request).starts_with("-ERR Error in ACL SETUSER modifier 'resetkey': Syntax error"));
    assert_eq!(
        resp(&mut admin, "ACL SETUSER reader (~own:* +del) (~x"),
        "-ERR Unmatched parenthesis in acl selector starting at '(~x'."
    );
    let mut reader = logged_in(&server, "reader", "open");
    assert!(resp(&mut reader, "DEL own:1").starts_with("-NOPERM"), "all of the rules or none");
    assert_eq!(resp(&mut admin, "ACL SETUSER reader (~own:* +del)"), "+OK");
    assert_eq!(resp(&mut reader, "DEL own:1"), ":0");
    assert_eq!(
        resp(&mut reader, "DEL in:1"),
        "-NOPERM this user has no permissions to access one of the keys used as arguments"
    );
    admin.send("*3\r\n$3\r\nACL\r\n$7\r\nGETUSER\r\n$6\r\nreader\r\n");
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "selectors") {
        lines.push(admin.line());
    }
    let selector = [
        "*1",
        "*6",
        "$8",
        "commands",
        "$10",
        "-@all +del",
        "$4",
        "keys",
        "$6",
        "~own:*",
        "$8",
        "channels",
        "$0",
        "",
    ];
    assert_eq!(selector.map(|_| admin.line()), selector);
    assert_eq!(lines[0], "*12");
}

#[test]
fn rules_change_under_connections_and_removed_users_are_closed() {
    let server = support::start(guarded()).expect("a server");
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
fn stats_settings_say_whether_a_first_set_is_a_password() {
    let shown = |config: Config, login: &str| {
        let server = support::start(config).expect("a server");
        let mut client = Client::connect(address(&server));
        if !login.is_empty() {
            assert_eq!(client.ask(format!("set login 0 0 {}\r\n{login}\r\n", login.len())), "STORED");
        }
        client.send("stats settings\r\n");
        let lines = std::iter::from_fn(|| Some(client.line()).filter(|line| line != "END"));
        let shown: Vec<String> = lines.filter(|line| line.contains("auth_enabled")).collect();
        shown.join(" ").replace("STAT auth_enabled_", "")
    };
    assert_eq!(shown(config(), ""), "sasl no ascii no");
    assert_eq!(shown(guarded(), "admin sesame"), "sasl no ascii yes");
    let mut open = guarded();
    open.listeners[0].auth = Auto::Set(false);
    assert_eq!(shown(open, ""), "sasl no ascii no", "nobody need authenticate at this listener");
    // Who may not set without a password gives it by a set.
    let with_default = |rules: &str| {
        let mut config = guarded();
        let default = UserSettings { password_hash: Secret::default(), ..user("default", "", rules) };
        config.users.push(default);
        config
    };
    assert_eq!(shown(with_default("nopass allkeys +@read +info +config|get"), ""), "sasl no ascii yes");
    assert_eq!(shown(with_default("nopass allkeys +@all -flushall"), ""), "sasl no ascii no");
}

#[test]
fn memcached_clients_say_who_they_are_by_a_first_set() {
    let server = support::start(guarded()).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("get k\r\n"), "CLIENT_ERROR unauthenticated");
    assert_eq!(client.ask("set k 0 0\r\n"), "CLIENT_ERROR unauthenticated", "it may try again");
    assert_eq!(client.ask("set auth 0 0 5\r\nadmin\r\n"), "CLIENT_ERROR bad authentication token format");
    assert_eq!(client.ask("set auth 0 0 5\r\nadmin??"), "CLIENT_ERROR bad command line termination");
    assert_eq!(client.ask("set auth 0 0 11\r\nadmin wrong\r\n"), "CLIENT_ERROR authentication failure");
    assert_eq!(client.ask("set auth 0 0 12\r\nadmin sesame\r\nset k 0 0 1\r\nv\r\n"), "STORED");
    assert_eq!(client.line(), "STORED");
    assert_eq!(client.ask("get auth\r\n"), "END", "it was no item");
    assert_eq!(client.ask("get k\r\n"), "VALUE k 0 1");
    let mut binary = Client::connect(address(&server));
    binary.send([&[0x80, 0x0b][..], &[0; 22]].concat());
    assert!(binary.is_closed());
}

/// Returns whether an answer has arrived, after a time in which it would have.
fn has_answer(client: &Client) -> bool {
    base::thread::sleep(Duration::from_millis(50));
    client.stream.set_nonblocking(true).expect("non-blocking");
    let is_there = client.stream.peek(&mut [0]).is_ok();
    client.stream.set_nonblocking(false).expect("blocking");
    is_there
}

/// Guesses on many connections, whatever they speak, from the address from which others log in.
/// Which of two guesses at once counts first is for the workers to say, so the first half comes one
/// after the other.
#[test]
fn wrong_passwords_are_answered_late_and_right_ones_at_once() {
    let clock = Clock::manual(1_000_000);
    let server = support::start_with_clock(guarded(), clock.clone()).expect("a server");
    let guess = "*3\r\n$4\r\nAUTH\r\n$5\r\nadmin\r\n$5\r\nwrong\r\n*1\r\n$4\r\nPING\r\n";
    let line = "set auth 0 0 11\r\nadmin wrong\r\n";
    let mut guessing: Vec<Client> = (0..40).map(|_| Client::connect(address(&server))).collect();
    let have_guessed = |count: u64| {
        wait_until("the guesses have counted", || {
            let wrong = r#"millpond_server_refusals_total{listener="main",reason="wrong_password"}"#;
            metric(&server, wrong) == count
        });
    };
    for (number, client) in guessing.iter_mut().enumerate() {
        client.send(if number % 2 == 0 { guess } else { line });
        if number < 20 {
            have_guessed(number as u64 + 1);
        }
    }
    have_guessed(40);
    let is_wrong = |client: &mut Client| {
        let wrong = client.line();
        assert!(wrong.starts_with("-WRONGPASS") || wrong == "CLIENT_ERROR authentication failure", "{wrong}");
    };
    let (at_once, late) = guessing.split_at_mut(3);
    at_once.iter_mut().for_each(is_wrong);
    assert!(!late.iter().any(has_answer), "an answer came too early");
    for _ in 0..5 {
        let mut admin = logged_in(&server, "admin", "sesame");
        assert_eq!(resp(&mut admin, "SET k v"), "+OK");
        logged_in(&server, "reader", "open");
        assert_eq!(memcached_as(&server, "admin", "sesame").ask("get k\r\n"), "VALUE k 0 1");
    }
    clock.advance(Duration::from_secs(11));
    late.iter_mut().for_each(is_wrong);
    for (number, client) in guessing.iter_mut().enumerate().step_by(2) {
        let then = client.line();
        match number {
            ..14 => assert!(then.starts_with("-NOAUTH"), "guess {number} goes on, not {then:?}"),
            14.. => assert_eq!(then, "", "guess {number} closes its connection"),
        }
    }
    assert!(metric(&server, r#"millpond_server_pauses_total{listener="main",reason="login"}"#) >= 37);
    // Who has waited is forgotten.
    clock.advance(Duration::from_secs(60));
    let mut client = Client::connect(address(&server));
    assert!(resp(&mut client, "AUTH admin wrong").starts_with("-WRONGPASS"));
}

/// The line that refuses a command of memcached, by the rule that is missing.
fn not_command(name: &str) -> String {
    format!("CLIENT_ERROR this user has no permissions to run the '{name}' command")
}

const NO_KEY: &str = "CLIENT_ERROR this user has no permissions to access one of the keys used as arguments";

/// A memcached client that has said that it is this user.
fn memcached_as(server: &Server, name: &str, password: &str) -> Client {
    let mut client = Client::connect(address(server));
    let said = format!("{name} {password}");
    assert_eq!(client.ask(format!("set auth 0 0 {}\r\n{said}\r\n", said.len())), "STORED");
    client
}

#[test]
fn memcached_commands_are_allowed_by_the_rules_for_those_of_redis() {
    let server = support::start(guarded()).expect("a server");
    let mut admin = memcached_as(&server, "admin", "sesame");
    for key in ["in:1", "in:2", "out:1"] {
        assert_eq!(admin.ask(format!("set {key} 0 0 1\r\n5\r\n")), "STORED");
    }
    let mut reader = memcached_as(&server, "reader", "open");
    assert_eq!(reader.ask("get in:1 in:2\r\n"), "VALUE in:1 0 1");
    assert_eq!(
        (reader.line(), reader.line(), reader.line()),
        ("5".into(), "VALUE in:2 0 1".into(), "5".into())
    );
    assert_eq!(reader.line(), "END");
    assert_eq!(reader.ask("mg in:1 v\r\n"), "VA 1");
    assert_eq!(reader.line(), "5");
    for (request, name) in [
        ("delete in:1", "del"),
        ("md in:1", "del"),
        ("decr in:1 1", "decrby"),
        ("incr in:1 1", "incrby"),
        ("ma in:1", "incrby"),
        ("touch in:1 10", "expire"),
        ("gat 10 in:1", "getex"),
        ("mg in:1 v T10", "getex"),
        ("add in:1 0 0 1\r\nx", "setnx"),
        ("ms in:1 1 ME\r\nx", "setnx"),
        ("append in:1 0 0 1\r\nx", "append"),
        ("prepend in:1 0 0 1\r\nx", "append"),
        ("flush_all", "flushall"),
        ("stats", "info"),
        ("stats items", "info"),
        ("stats settings", "config|get"),
        ("stats reset", "config|resetstat"),
        ("verbosity 1", "config|set"),
        ("cache_memlimit 64", "config|set"),
        ("shutdown", "config|set"),
        ("lru_crawler crawl all", "config|set"),
    ] {
        assert_eq!(reader.ask(format!("{request}\r\n")), not_command(name), "{request}");
    }
    for request in [
        "get out:1",
        "me out:1",
        "get in:1 out:1",
        "gets out:1",
        "mg out:1 v",
        "mg b3V0OjE= b v",
        "set in:1 0 0 1\r\nx",
        "ms in:1 1\r\nx",
        "mg in:3 v N10",
        "cas in:1 0 0 1 7\r\nx",
        "replace in:1 0 0 1\r\nx",
    ] {
        assert_eq!(reader.ask(format!("{request}\r\n")), NO_KEY, "{request}");
    }
    for (request, answer) in [("mn", "MN"), ("lru mode flat", "ERROR"), ("stats conns", "STAT")] {
        assert!(reader.ask(format!("{request}\r\n")).starts_with(answer), "{request}");
    }
    while reader.line() != "END" {}
    assert_eq!(admin.ask("get in:1\r\n"), "VALUE in:1 0 1");
    assert_eq!((admin.line().as_str(), admin.line().as_str()), ("5", "END"), "nothing was changed");
    let mut admin = logged_in(&server, "admin", "sesame");
    assert_eq!(resp(&mut admin, "ACL LOG 1"), "*1");
    assert!(
        metric(&server, r#"millpond_server_refusals_total{listener="main",reason="no_permission"}"#) >= 30
    );
}

#[test]
fn refused_memcached_requests_leave_the_wire_in_step() {
    let server = support::start(guarded()).expect("a server");
    let mut admin = memcached_as(&server, "admin", "sesame");
    assert_eq!(admin.ask("set out:1 0 0 1\r\n5\r\n"), "STORED");
    let mut reader = memcached_as(&server, "reader", "open");
    // Answers come in the order of the requests, and none where none is wanted.
    reader.send(
        "get in:1\r\nset in:1 0 0 1 noreply\r\nx\r\ndelete in:1 noreply\r\nget out:1\r\nmg in:1 v\r\nmn\r\n",
    );
    let lines: Vec<String> = (0..4).map(|_| reader.line()).collect();
    assert_eq!(lines, ["END", NO_KEY, "EN", "MN"]);
    // A value that would be received into its item, whole and in parts, and one that is too large
    // for any.
    let value = "v".repeat(100_000);
    for cut in [0, 10, 50_000, 100_000] {
        reader.send(format!("set out:1 0 0 100000\r\n{}", &value[..cut]));
        reader.send(format!("{}\r\nmn\r\n", &value[cut..]));
        assert_eq!((reader.line().as_str(), reader.line().as_str()), (NO_KEY, "MN"), "cut at {cut}");
    }
    reader.send(format!("set out:1 0 0 100000 noreply\r\n{value}\r\nmn\r\n"));
    assert_eq!(reader.line(), "MN");
    let larger = "v".repeat(2 << 20);
    let mut other = memcached_as(&server, "reader", "open");
    assert_eq!(
        other.ask(format!("set out:1 0 0 {}\r\n{larger}\r\n", larger.len())),
        "SERVER_ERROR object too large for cache"
    );
    assert_eq!(admin.ask("get out:1\r\n"), "VALUE out:1 0 1", "it was not removed either");
}

#[test]
fn rules_change_under_memcached_connections_too() {
    let server = support::start(guarded()).expect("a server");
    let mut admin = logged_in(&server, "admin", "sesame");
    let mut reader = memcached_as(&server, "reader", "open");
    assert_eq!(reader.ask("delete in:1\r\n"), not_command("del"));
    assert_eq!(resp(&mut admin, "ACL SETUSER reader +del ~in:*"), "+OK");
    assert_eq!(reader.ask("delete in:1\r\n"), "NOT_FOUND");
    assert_eq!(resp(&mut admin, "ACL DELUSER reader"), ":1");
    reader.send("mn\r\n");
    assert!(reader.is_closed());
}

/// Clients that need not authenticate may do what `default` may, in the binary protocol as well,
/// and can still authenticate.
#[test]
fn a_restricted_default_binds_memcached_clients_until_they_say_who_they_are() {
    let mut config = guarded();
    config.users.push(UserSettings {
        name: "default".to_owned(),
        rules: Secret("nopass ~in:* +get +set".to_owned()),
        ..UserSettings::default()
    });
    let server = support::start(config).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set in:1 0 0 11\r\nadmin wrong\r\n"), "STORED", "it may, so it is a value");
    assert_eq!(client.ask("delete in:1\r\n"), not_command("del"));
    assert_eq!(client.ask("set auth 0 0 1\r\nx\r\n"), NO_KEY, "that says nothing");
    assert_eq!(client.ask("set auth 0 0 11\r\nadmin wrong\r\n"), "CLIENT_ERROR authentication failure");
    client.send("get in:1\r\nset auth 0 0 12\r\nadmin sesame\r\ndelete in:1\r\n");
    let lines: Vec<String> = (0..5).map(|_| client.line()).collect();
    assert_eq!(lines, ["VALUE in:1 0 11", "admin wrong", "END", "STORED", "DELETED"]);

    let mut binary = Client::connect(address(&server));
    let mut ask = |opcode: u8, extras: &[u8], key: &str, value: &str| {
        let body = extras.len() + key.len() + value.len();
        let mut packet = vec![0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
        packet.extend_from_slice(&(body as u32).to_be_bytes());
        packet.extend_from_slice(&[0; 12]);
        packet.extend([extras, key.as_bytes(), value.as_bytes()].concat());
        binary.send(packet);
        let header = binary.read_exact(24);
        let len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        (
            u16::from_be_bytes([header[6], header[7]]),
            String::from_utf8_lossy(&binary.read_exact(len as usize)).into_owned(),
        )
    };
    let stored = [0; 8];
    assert_eq!(ask(0x01, &stored, "in:1", "v").0, 0);
    assert_eq!(ask(0x00, &[], "in:1", ""), (0, "\0\0\0\0v".to_owned()));
    let no_key = NO_KEY.trim_start_matches("CLIENT_ERROR ").to_owned();
    let no = |name: &str| (0x20, not_command(name).trim_start_matches("CLIENT_ERROR ").to_owned());
    assert_eq!(ask(0x01, &stored, "out:1", "v"), (0x20, no_key.clone()));
    assert_eq!(ask(0x01, &stored, "out:1", &"v".repeat(100_000)), (0x20, no_key.clone()));
    assert_eq!(ask(0x00, &[], "out:1", ""), (0x20, no_key.clone()));
    assert_eq!(ask(0x09, &[], "out:1", ""), (0x20, no_key), "quiet, which errors are not");
    assert_eq!(ask(0x02, &stored, "in:1", "v"), no("setnx"));
    assert_eq!(ask(0x04, &[], "in:1", ""), no("del"));
    assert_eq!(ask(0x05, &[0; 20], "in:1", ""), no("incrby"));
    assert_eq!(ask(0x08, &[], "", ""), no("flushall"));
    assert_eq!(ask(0x10, &[], "", ""), no("info"));
    assert_eq!(ask(0x1c, &[0; 4], "in:1", ""), no("expire"));
    assert_eq!(ask(0x1d, &[0; 4], "in:1", ""), no("getex"));
    assert_eq!(ask(0x0a, &[], "", "").0, 0, "a no-op keeps the wire in step");
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
    let server = support::start_in_memory(config).expect("a server");
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
    let server = support::start(config).expect("a server");
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
    drop(support::start(config.clone()).expect("everybody must say who it is"));
    config.users.push(UserSettings {
        name: "default".to_owned(),
        rules: Secret("nopass ~* +get".to_owned()),
        ..UserSettings::default()
    });
    let error = support::start(config).map(drop).expect_err("somebody need not");
    assert!(error.to_string().contains("allow_remote"), "{error}");
}

#[test]
fn who_may_not_read_all_keys_is_not_told_of_all_keys() {
    let mut config = guarded();
    config.users.push(user("watcher", "open", "~in:* +@read +client"));
    let server = support::start(config).expect("a server");
    let mut client = logged_in(&server, "watcher", "open");
    assert!(resp(&mut client, "CLIENT TRACKING ON BCAST PREFIX in:").starts_with("-NOPERM"));
    assert!(resp(&mut client, "CLIENT TRACKING ON BCAST").starts_with("-NOPERM"));
    assert_eq!(resp(&mut client, "CLIENT TRACKING ON"), "+OK");
    let mut admin = logged_in(&server, "admin", "sesame");
    assert_eq!(resp(&mut admin, "CLIENT TRACKING ON BCAST"), "+OK");
}

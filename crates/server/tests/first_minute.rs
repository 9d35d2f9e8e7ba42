//! The first minute: a server without any configuration, and the clients that connect to it.

mod support;

use millpond_server::config::{Address, Auto, ListenerConfig, Protocol};
use millpond_server::{Config, ErrorKind};
use support::{Client, address, config, get_page, tcp};

/// The default configuration, on free ports.
fn usual() -> Config {
    let mut config = Config { listeners: Config::default().listeners, ..config() };
    config.listeners.iter_mut().for_each(|listener| listener.address = Address::loopback(0));
    config
}

#[test]
fn both_usual_ports_serve_both_kinds_of_clients() {
    let defaults = Config::default();
    let addresses: Vec<String> =
        defaults.listeners.iter().map(|it| format!("{} {}", it.name, it.address)).collect();
    assert_eq!(addresses, ["main tcp://127.0.0.1:11211", "redis tcp://127.0.0.1:6379"]);

    let server = support::start(usual()).expect("a server");
    for (_, place) in server.addresses() {
        let place = tcp(&place);
        for (request, answer) in [
            ("PING\r\n", "+PONG"),
            ("ping hello\r\n", "$5"),
            ("*1\r\n$4\r\nPING\r\n", "+PONG"),
            ("set shared redis\r\n", "+OK"),
            ("GET shared\r\n", "$5"),
            ("incr count\r\n", ":1"),
            ("FLUSHALL\r\n", "+OK"),
            ("set shared 0 0 9\r\nmemcached\r\n", "STORED"),
            ("get shared\r\n", "VALUE shared 0 9"),
            ("mn\r\n", "MN"),
            ("nonsense\r\n", "ERROR"),
        ] {
            assert_eq!(Client::connect(place).ask(request), answer, "{request:?} at {place}");
        }
    }
}

/// A request may come in any pieces; it is decided when it can be.
#[test]
fn a_request_in_pieces_is_told_apart_as_a_whole_one() {
    let server = support::start(usual()).expect("a server");
    for (request, answer) in
        [("PING\r\n", "+PONG"), ("set k v\r\n", "+OK"), ("set k 0 0 1\r\nx\r\n", "STORED"), ("mn\r\n", "MN")]
    {
        let mut client = Client::connect(address(&server));
        for byte in request.as_bytes() {
            client.send([*byte]);
            // So that the bytes do not arrive together.
            let (status, _) = get_page(&server, "/healthz");
            assert!(status.contains("200"), "{status}");
        }
        assert_eq!(client.line(), answer, "{request:?}");
    }
}

#[test]
fn a_usual_port_that_is_taken_is_done_without_and_others_are_not() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("another program");
    let taken = Address::Tcp(other.local_addr().expect("its address"));
    let mut config = usual();
    config.listeners[1].address = taken.clone();
    let server = support::start(config.clone()).expect("it goes on with the other");
    let names: Vec<String> = server.addresses().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["main"]);
    assert_eq!(Client::connect(address(&server)).ask("PING\r\n"), "+PONG");
    // A reload doesn't report the missing listener as a change.
    assert_eq!(server.reload(&config).expect("a reload"), []);
    server.stop();

    config.listeners[0].address = taken.clone();
    config.listeners[1].address = Address::loopback(0);
    let server = support::start(config.clone()).expect("it goes on with the other");
    assert_eq!(Client::connect(address(&server)).ask("mn\r\n"), "MN");
    server.stop();

    config.listeners.truncate(1);
    assert_eq!(support::start(config.clone()).map(drop).expect_err("none is left").kind(), ErrorKind::Taken);
    let asked_for = ListenerConfig { address: taken, ..ListenerConfig::default() };
    let second = std::net::TcpListener::bind("127.0.0.1:0").expect("another program");
    let also = Address::Tcp(second.local_addr().expect("its address"));
    config.listeners = vec![
        usual().listeners.remove(0),
        ListenerConfig { name: "asked".to_owned(), ..asked_for.clone() },
        ListenerConfig { name: "also".to_owned(), address: also.clone(), ..asked_for.clone() },
    ];
    let error = support::start(config).map(drop).expect_err("both were asked for");
    assert_eq!(error.kind(), ErrorKind::Taken);
    let text = error.to_string();
    let names = |address: &Address| text.contains(&format!("{address} cannot be listened on"));
    assert!(names(&asked_for.address) && names(&also), "{text}");
}

#[test]
fn without_the_usual_address_there_is_no_admin_server_and_one_that_is_set_is_needed() {
    let config = Config { admin: Config::default().admin, ..usual() };
    assert_eq!(config.admin.address().to_string(), "tcp://127.0.0.1:11212");
    loop {
        // If this fails, another program has it.
        let socket = std::net::TcpListener::bind("127.0.0.1:11212");
        let server = support::start(config.clone()).expect("it goes on without an admin server");
        match (server.admin_address(), socket) {
            (Some(address), Ok(_)) => panic!("{address} is this test's"),
            // Which has let go of it meanwhile.
            (Some(_), Err(_)) => {}
            (None, _) => {
                assert_eq!(Client::connect(address(&server)).ask("mn\r\n"), "MN");
                // A reload doesn't report the missing admin server as a change.
                assert_eq!(server.reload(&config).expect("a reload"), []);
                break;
            }
        }
    }
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("another program");
    let mut config = usual();
    config.admin.address = Auto::Set(Address::Tcp(other.local_addr().expect("its address")));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("another program");
    config.listeners[0].address = Address::Tcp(listener.local_addr().expect("its address"));
    config.listeners[0].optional = false;
    config.admin.tokens_file = "/nowhere/tokens".into();
    let error = support::start(config).map(drop).expect_err("it was asked for");
    assert_eq!(error.kind(), ErrorKind::Taken);
    // With all else that cannot be had.
    let text = error.to_string();
    for part in
        ["the admin address", "cannot be listened on: ", "admin.tokens_file: /nowhere/tokens cannot be read"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn a_listener_may_be_open_beside_one_that_requires_authentication() {
    let mut config = config();
    let user = toml_user("alice", ">secret allkeys allcommands");
    config.users = vec![user];
    let listener = |name: &str, protocol, auth| ListenerConfig {
        name: name.to_owned(),
        address: Address::loopback(0),
        protocol,
        auth,
        ..ListenerConfig::default()
    };
    config.listeners = vec![
        listener("open", Protocol::Memcached, Auto::Set(false)),
        listener("shut", Protocol::Resp, Auto::Auto),
    ];
    let server = support::start(config.clone()).expect("a server");
    let places: Vec<_> = server.addresses().iter().map(|(_, address)| tcp(address)).collect();
    let mut open = Client::connect(places[0]);
    assert_eq!(open.ask("set k 0 0 1\r\nx\r\n"), "STORED");
    let mut shut = Client::connect(places[1]);
    assert_eq!(shut.ask("GET k\r\n"), "-NOAUTH Authentication required.");
    assert_eq!(shut.ask("AUTH alice secret\r\n"), "+OK");
    assert_eq!(shut.ask("GET k\r\n"), "$1");
    // Users come and go; who need not be one stays.
    let mut changed = config.clone();
    changed.users.push(toml_user("bob", ">other allkeys allcommands"));
    server.reload(&changed).expect("a reload");
    assert_eq!(open.ask("set k 0 0 1\r\ny\r\n"), "STORED");

    // And one may require it where `default` could do without.
    config.users.push(toml_user("default", "nopass allkeys allcommands"));
    config.listeners = vec![
        listener("usual", Protocol::Resp, Auto::Auto),
        listener("strict", Protocol::Resp, Auto::Set(true)),
    ];
    let server = support::start(config).expect("a server");
    let places: Vec<_> = server.addresses().iter().map(|(_, address)| tcp(address)).collect();
    assert_eq!(Client::connect(places[0]).ask("PING\r\n"), "+PONG");
    let mut strict = Client::connect(places[1]);
    assert_eq!(strict.ask("GET k\r\n"), "-NOAUTH Authentication required.");
    assert_eq!(strict.ask("AUTH alice secret\r\n"), "+OK");
    assert_eq!(strict.ask("RESET\r\n"), "+RESET");
    assert_eq!(strict.ask("GET k\r\n"), "-NOAUTH Authentication required.");
}

fn toml_user(name: &str, rules: &str) -> millpond_server::config::UserSettings {
    millpond_server::config::UserSettings {
        name: name.to_owned(),
        rules: millpond_server::config::Secret(rules.to_owned()),
        ..millpond_server::config::UserSettings::default()
    }
}

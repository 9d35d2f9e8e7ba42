//! Slow commands of several tenants that share a worker: they are carried out apart, and only their
//! time shows it.

mod support;

use std::io::{Read, Write};

use base::thread::spawn;
use millpond_server::config::{Address, Auto, ListenerConfig, Protocol, TenantSettings};
use millpond_server::{Config, Server};
use support::{Client, config, metric, tcp};

/// Members of the sets: far more than others should wait for.
const MEMBERS: usize = 4_000;

/// Two tenants, `victim` and `neighbour`, with a listener each.
fn two(threads: usize) -> Config {
    let names = ["victim", "neighbour"];
    let tenant = |name: &str| TenantSettings { name: name.to_owned(), ..TenantSettings::default() };
    let listener = |name: &str| ListenerConfig {
        name: name.to_owned(),
        address: Address::loopback(0),
        tenant: name.to_owned(),
        protocol: Protocol::Auto,
        ..ListenerConfig::default()
    };
    Config {
        // Nothing is to be evicted, however many sizes of items a set has while it grows.
        memory: Auto::Set(base::ByteSize::mib(512)),
        threads: Auto::Set(threads),
        tenants: names.map(tenant).to_vec(),
        listeners: names.map(listener).to_vec(),
        ..config()
    }
}

fn client(server: &Server, name: &str) -> Client {
    let addresses = server.addresses();
    let (_, address) = addresses.iter().find(|(listener, _)| listener == name).expect("the listener");
    Client::connect(tcp(address))
}

fn request(words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    request
}

fn ask(client: &mut Client, command: &str) -> String {
    client.ask(request(&command.split(' ').collect::<Vec<_>>()))
}

/// Adds the members to a set, some at a time.
fn fill(client: &mut Client, key: &str) {
    add(client, key, (0..MEMBERS).map(|number| format!("member:{number}")).collect());
}

fn add(client: &mut Client, key: &str, members: Vec<String>) {
    for part in members.chunks(100) {
        let mut words = vec!["SADD", key];
        words.extend(part.iter().map(String::as_str));
        assert_eq!(client.ask(request(&words)), format!(":{}", part.len()));
    }
}

/// Reads a reply of bulk strings.
fn bulks(client: &mut Client) -> Vec<String> {
    let head = client.line();
    let count: usize =
        head.strip_prefix('*').and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    (0..count)
        .map(|_| {
            assert!(client.line().starts_with('$'));
            client.line()
        })
        .collect()
}

fn handed_over(server: &Server, listener: &str) -> u64 {
    metric(server, &format!("millpond_server_pauses_total{{listener=\"{listener}\",reason=\"slow\"}}"))
}

fn closed_for_memory(server: &Server) -> u64 {
    let of = |name| {
        metric(server, &format!("millpond_server_closes_total{{listener=\"{name}\",reason=\"memory\"}}"))
    };
    of("victim") + of("neighbour")
}

#[test]
fn a_command_that_takes_long_is_answered_in_its_place() {
    let server = support::start(two(1)).expect("a server");
    let (mut victim, mut neighbour) = (client(&server, "victim"), client(&server, "neighbour"));
    assert_eq!(ask(&mut victim, "SET k v"), "+OK");
    fill(&mut neighbour, "set");
    assert_eq!(handed_over(&server, "neighbour"), 0, "adding takes no time");

    let pipeline = ["SET n 1", "SMEMBERS set", "INCR n", "SUNIONSTORE copy set set", "SCARD copy", "GET n"];
    let requests: String =
        pipeline.iter().map(|command| request(&command.split(' ').collect::<Vec<_>>())).collect();
    neighbour.send(requests);
    assert_eq!(neighbour.line(), "+OK");
    let mut members = bulks(&mut neighbour);
    assert_eq!(neighbour.line(), ":2");
    assert_eq!(neighbour.line(), format!(":{MEMBERS}"));
    assert_eq!(neighbour.line(), format!(":{MEMBERS}"));
    assert_eq!((neighbour.line().as_str(), neighbour.line().as_str()), ("$1", "2"));
    members.sort_unstable();
    members.dedup();
    assert_eq!(members.len(), MEMBERS);
    assert_eq!(handed_over(&server, "neighbour"), 2);

    assert_eq!(ask(&mut neighbour, "MULTI"), "+OK");
    assert_eq!(ask(&mut neighbour, "SMEMBERS set"), "+QUEUED");
    assert_eq!(ask(&mut neighbour, "EXEC"), "*1");
    assert_eq!(bulks(&mut neighbour).len(), MEMBERS);
    assert_eq!(handed_over(&server, "neighbour"), 3);
    assert_eq!(ask(&mut neighbour, "SSCAN set 0"), "*2", "and what looks at few of many takes no time");
    assert_eq!(handed_over(&server, "neighbour"), 3);
    assert_eq!(handed_over(&server, "victim"), 0);
}

#[test]
fn who_is_alone_waits_for_nobody() {
    let server = support::start(two(1)).expect("a server");
    let mut alone = client(&server, "neighbour");
    fill(&mut alone, "set");
    alone.send(request(&["SMEMBERS", "set"]));
    assert_eq!(bulks(&mut alone).len(), MEMBERS);
    assert_eq!(handed_over(&server, "neighbour"), 0);
}

/// Both tenants have slow commands, commands that must not be interleaved, and others, from several
/// connections at once.
#[test]
fn all_kinds_of_commands_at_once_are_all_answered() {
    let server = std::sync::Arc::new(support::start(two(2)).expect("a server"));
    for name in ["victim", "neighbour"] {
        fill(&mut client(&server, name), "set");
    }
    let threads: Vec<_> = ["victim", "neighbour"]
        .into_iter()
        .flat_map(|name| (0..4).map(move |number| (name, number)))
        .map(|(name, number)| {
            let server = std::sync::Arc::clone(&server);
            spawn("client", move || {
                let mut client = client(&server, name);
                let own = format!("copy:{number}");
                for round in 0..20 {
                    assert_eq!(
                        ask(&mut client, &format!("SINTERSTORE {own} set set")),
                        format!(":{MEMBERS}")
                    );
                    client.send(request(&["SMEMBERS", own.as_str()]));
                    assert_eq!(bulks(&mut client).len(), MEMBERS);
                    assert_eq!(ask(&mut client, "MULTI"), "+OK");
                    assert_eq!(ask(&mut client, "INCR all"), "+QUEUED");
                    assert_eq!(ask(&mut client, "INCR all"), "+QUEUED");
                    assert_eq!(ask(&mut client, "EXEC"), "*2");
                    let counts = [client.line(), client.line()]
                        .map(|line| line[1..].parse::<u64>().expect("a number"));
                    assert_eq!(counts[0] + 1, counts[1], "nobody comes between");
                    assert_eq!(ask(&mut client, &format!("SET {name}:{number} {round}")), "+OK");
                }
            })
            .expect("a thread")
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    for name in ["victim", "neighbour"] {
        let mut client = client(&server, name);
        assert_eq!((ask(&mut client, "GET all").as_str(), client.line().as_str()), ("$3", "160"));
    }
    assert!(handed_over(&server, "victim") + handed_over(&server, "neighbour") > 0);
    assert_eq!(server.connections_by_worker().len(), 2);
}

/// If the memory for connections is spent, those whose command is under way are closed as others
/// are, and the memory that they held is given back.
#[test]
fn connections_whose_command_is_under_way_pay_for_memory_as_others_do() {
    let limit = 1 << 20;
    let mut config = two(2);
    config.limits.max_connection_memory_bytes = Auto::Set(base::ByteSize::new(limit));
    let server = support::start_in_memory(config).expect("a server");
    for name in ["victim", "neighbour"] {
        // As much memory as can be for as little work.
        let members = (0..200).map(|number| format!("{number:01000}")).collect();
        add(&mut client(&server, name), "set", members);
    }
    let requests = request(&["SMEMBERS", "set"]).repeat(50);
    let mut whole = 0;
    for _ in 0..3 {
        let before = closed_for_memory(&server);
        let mut clients: Vec<Client> =
            ["victim", "neighbour"].repeat(8).into_iter().map(|name| client(&server, name)).collect();
        for client in &mut clients {
            // One that was closed meanwhile need not take it.
            let _ = client.stream.write_all(requests.as_bytes());
            let _ = client.stream.shutdown(std::net::Shutdown::Write);
        }
        support::wait_until("memory is spent", || {
            assert!(metric(&server, "millpond_server_connection_memory_bytes{}") <= limit);
            closed_for_memory(&server) > before
        });
        for mut client in clients {
            let mut reply = Vec::new();
            let _ = client.stream.read_to_end(&mut reply);
            let heads = reply.windows(6).filter(|head| *head == b"*200\r\n").count();
            assert!(heads <= 50, "{heads} replies to 50 requests");
            whole += usize::from(heads == 50);
        }
        support::wait_until("all are closed", || server.connections() == 0);
        let held =
            |name| metric(&server, &format!("millpond_tenant_connection_memory_bytes{{tenant=\"{name}\"}}"));
        assert_eq!((held("victim"), held("neighbour")), (0, 0));
    }
    assert!(whole > 0, "and some are served");
    let mut client = client(&server, "victim");
    client.send(request(&["SMEMBERS", "set"]));
    assert_eq!(bulks(&mut client).len(), 200);
}

#[test]
fn a_client_that_is_gone_and_a_server_that_stops_find_commands_under_way() {
    let server = support::start(two(1)).expect("a server");
    let _victim = client(&server, "victim");
    fill(&mut client(&server, "neighbour"), "set");
    for _ in 0..10 {
        let mut gone = client(&server, "neighbour");
        gone.send(request(&["SMEMBERS", "set"]).repeat(5));
    }
    let mut killer = client(&server, "neighbour");
    let mut killed = client(&server, "neighbour");
    let id = ask(&mut killed, "CLIENT ID");
    killed.send(request(&["SMEMBERS", "set"]).repeat(20));
    assert_eq!(ask(&mut killer, &format!("CLIENT KILL ID {}", &id[1..])), ":1");
    assert!(killed.is_closed());
    support::wait_until("all that are gone are closed", || server.connections() == 2);
    let mut clients: Vec<Client> = (0..8).map(|_| client(&server, "neighbour")).collect();
    clients.iter_mut().for_each(|client| client.send(request(&["SMEMBERS", "set"]).repeat(3)));
    server.stop();
}

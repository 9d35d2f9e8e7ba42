//! The statistics of commands: calls, failures and time.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base::Clock;
use protocol::resp::commands::SPECS;

use crate::client::{Client, request};
use crate::reference::{config, millpond, redis, start};

/// Commands that are carried out, fail, or are refused, alone and within transactions.
const PLAYED: &[&str] = &[
    "CONFIG RESETSTAT",
    "GET k",
    "SET k v",
    "GET k",
    "MGET k k missing",
    "LPUSH k v",
    "LPUSH l a b",
    "GET l",
    "GET",
    "CONFIG BOGUS",
    "CONFIG GET",
    "CONFIG",
    "CLIENT SETNAME me",
    "CLIENT SETNAME \"not me\"",
    "OBJECT ENCODING k",
    "OBJECT FREQ k",
    "NOSUCH a",
    "KEYS *",
    "DBSIZE",
    "SCAN 0 COUNT bogus",
    "MULTI",
    "SET a",
    "EXEC",
    "MULTI",
    "LPUSH k 1",
    "SET k 2",
    "EXEC",
    "EXEC",
    "MULTI",
    "MULTI",
    "DISCARD",
    "SELECT 5000",
    "HELLO 9",
];

/// The lines of a section of `INFO`, by what stands before their colon.
fn section(client: &mut Client, name: &str) -> BTreeMap<String, String> {
    let text = client.ask(&format!("INFO {name}"));
    let lines = text.split("\\r\\n").skip(1).filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A value of a line of the kind `a=1,b=2`.
fn value(line: &str, name: &str) -> f64 {
    let found = line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("{name} in {line}")).parse().expect("a number")
}

/// The calls of each command, without their times; and the errors.
fn counted(address: SocketAddr) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let mut client = Client::connect(address);
    client.ask("FLUSHALL");
    PLAYED.iter().for_each(|command| drop(client.ask(command)));
    let mut calls = section(&mut client, "commandstats");
    for line in calls.values_mut() {
        let [micros, each] = ["usec", "usec_per_call"].map(|name| value(line, name));
        let count = value(line, "calls");
        assert!((each - micros / count.max(1.0)).abs() < 0.006, "{line}");
        *line = line.split(',').filter(|part| !part.starts_with("usec")).collect::<Vec<_>>().join(",");
    }
    (calls, section(&mut client, "errorstats"))
}

#[test]
fn calls_and_errors_are_counted_as_redis_counts_them() {
    let Some(redis) = redis() else {
        println!("skipped: there is no redis-server in PATH, and MILLPOND_REDIS is not set.");
        return;
    };
    let (server, address) = millpond();
    let (ours, theirs) = (counted(address), counted(redis.address));
    assert_eq!(ours, theirs);
    assert_eq!(ours.0["cmdstat_get"], "calls=3,rejected_calls=1,failed_calls=1");
    server.stop();
}

#[test]
fn info_has_the_sections_that_are_asked_for() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    let mut titles = |asked: &str| -> Vec<String> {
        let text = client.ask(&format!("INFO {asked}"));
        text.split("\\r\\n")
            .filter_map(|line| line.split_once("# "))
            .map(|(_, title)| title.to_owned())
            .collect()
    };
    let plain = titles("");
    assert!(plain.contains(&"Errorstats".to_owned()) && plain.contains(&"Keyspace".to_owned()), "{plain:?}");
    assert!(!plain.contains(&"Commandstats".to_owned()) && !plain.contains(&"Latencystats".to_owned()));
    assert_eq!(titles("default"), plain);
    let all = titles("ALL");
    assert_eq!(all.len(), plain.len() + 2);
    assert_eq!(titles("everything"), all);
    assert_eq!(titles("latencystats commandstats"), ["Commandstats", "Latencystats"]);
    assert_eq!(titles("bogus"), [""; 0]);
}

#[test]
fn times_are_told_of_every_command_until_they_are_reset() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    let pipeline: Vec<u8> = (0..100).flat_map(|_| request("GET k")).chain(request("MGET a b c")).collect();
    client.send(pipeline);
    (0..101).for_each(|_| drop(client.reply()));
    client.ask("SET k v");
    client.ask("KEYS *");
    let calls = section(&mut client, "commandstats");
    let times = section(&mut client, "latencystats");
    for (name, count) in [("get", 100.0), ("mget", 1.0), ("set", 1.0), ("keys", 1.0)] {
        assert!((value(&calls[&format!("cmdstat_{name}")], "calls") - count).abs() < 0.5, "{name}");
        let line = &times[&format!("latency_percentiles_usec_{name}")];
        let [half, most, nearly_all] = ["p50", "p99", "p99.9"].map(|percent| value(line, percent));
        assert!(0.0 < half && half <= most && most <= nearly_all, "{line}");
    }
    assert_eq!(client.ask("CONFIG RESETSTAT"), "+OK");
    let calls = section(&mut client, "commandstats");
    let shown: Vec<&String> = calls.keys().collect();
    assert_eq!(shown, ["cmdstat_config|resetstat"]);
    assert!(!section(&mut client, "latencystats").contains_key("latency_percentiles_usec_get"));
    assert_eq!(section(&mut client, "stats")["total_error_replies"], "0");
}

/// With a clock that stands still nothing takes time: what is told is what was counted, and not
/// what the machine was like.
#[test]
fn no_time_is_made_up() {
    let (_server, address) = start(config(), Clock::manual(1_700_000_000));
    let mut client = Client::connect(address);
    client.ask("SET k v");
    let line = section(&mut client, "commandstats").remove("cmdstat_set").expect("it was called");
    assert_eq!(line, "calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0");
    let line =
        section(&mut client, "latencystats").remove("latency_percentiles_usec_set").expect("it was timed");
    assert_eq!(line, "p50=0.128,p99=0.128,p99.9=0.128");
}

/// A reply with `#` for every number in it.
fn without_numbers(reply: &str) -> String {
    let mut shown = String::new();
    for part in reply.split_inclusive(':') {
        shown.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    shown
}

#[test]
fn histograms_have_the_form_of_those_of_redis() {
    let Some(redis) = redis() else {
        println!("skipped: there is no redis-server in PATH, and MILLPOND_REDIS is not set.");
        return;
    };
    let (server, address) = millpond();
    let play = |address: SocketAddr, version: &str| {
        let mut client = Client::connect(address);
        for command in
            [&format!("HELLO {version}"), "CONFIG RESETSTAT", "SET k v", "GET k", "MULTI", "PING", "EXEC"]
        {
            client.ask(command);
        }
        let asked =
            ["set", "GET nosuch Config|ResetStat", "config|nosuch", "get|x", "config", "object", "exec"];
        asked.map(|names| without_numbers(&client.ask(&format!("LATENCY HISTOGRAM {names}"))))
    };
    for version in ["2", "3"] {
        let (ours, theirs) = (play(address, version), play(redis.address, version));
        assert_eq!(ours, theirs);
    }
    server.stop();
}

#[test]
fn histograms_add_up_to_the_calls() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    client.ask("HELLO 3");
    for _ in 0..50 {
        client.send((0..10).flat_map(|_| request("GET k")).collect::<Vec<u8>>());
        (0..10).for_each(|_| drop(client.reply()));
    }
    let reply = client.ask("LATENCY HISTOGRAM get");
    assert!(
        reply.starts_with("%[$get %[$calls :500 $histogram_usec %[:") && reply.ends_with(" :500]]]"),
        "{reply}"
    );
    assert!(client.ask("LATENCY HISTOGRAM").contains("$hello"));
}

#[test]
fn slow_commands_are_events_until_they_are_forgotten() {
    let mut config = config();
    config.watch.latency_monitor_millis = 1;
    let (server, address) = start(config, Clock::System);
    let mut client = Client::connect(address);
    assert_eq!(client.ask("LATENCY LATEST"), "*[]");
    assert!(client.ask("LATENCY DOCTOR").contains("No request has taken 1 ms"));
    client.ask(&format!("MSET a {} b {}", "xy".repeat(1_000), "yz".repeat(1_000)));
    // Four million cells of a table, and thirty thousand members: more than a millisecond anywhere.
    assert_eq!(client.ask("LCS a b LEN"), ":1000");
    let members: Vec<String> = (0..30_000).map(|number| format!("m{number}")).collect();
    assert_eq!(client.ask(&format!("SADD s {}", members.join(" "))), ":30000");
    let latest = client.ask("LATENCY LATEST");
    assert!(latest.starts_with("*[*[$command :") && latest.contains(" *[$fast-command :"), "{latest}");
    let history = client.ask("LATENCY HISTORY command");
    let when = history.split(':').nth(1).and_then(|part| part.split(' ').next()).expect("a time");
    assert!(history.starts_with("*[*[:") && when.len() == 10, "{history}");
    assert_eq!(client.ask("LATENCY HISTORY Command"), "*[]", "names are as they are");
    assert!(client.ask("LATENCY GRAPH fast-command").starts_with("$fast-command - high "));
    assert!(client.ask("LATENCY DOCTOR").contains("fast-command: 1 seconds with slow requests"));
    assert!(server.cache().ledger().total() > 0);
    assert_eq!(client.ask("LATENCY RESET nosuch COMMAND"), ":1");
    assert_eq!(client.ask("LATENCY GRAPH command"), "-ERR No samples available for event \\'command\\'");
    assert_eq!(client.ask("LATENCY RESET"), ":1");
    assert_eq!(client.ask("LATENCY RESET"), ":0");
}

#[test]
fn help_lists_every_subcommand() {
    let (_server, address) = millpond();
    let mut client = Client::connect(address);
    let help = client.ask("CONFIG HELP");
    assert!(help.starts_with("*[+CONFIG <subcommand> "), "{help}");
    assert!(help.contains(" +SET <name> <value> [<name> <value> ...] +    Changes settings"), "{help}");
    for spec in SPECS.iter().filter(|spec| !spec.subcommands.is_empty()) {
        let help = client.ask(&format!("{} HELP", spec.name));
        let docs = client.ask(&format!("COMMAND DOCS {}", spec.name));
        for sub in spec.subcommands {
            let summary = sub.summary.as_bytes().escape_ascii();
            let line = format!(" +{} {}", sub.name.to_uppercase(), sub.arguments);
            assert!(help.contains(&format!("{} +    {summary}", line.trim_end())), "{line}: {help}");
            let entry = format!("${}|{} *[$summary ${summary} ", spec.name, sub.name);
            assert!(docs.contains(&entry), "{entry}: {docs}");
        }
    }
}

//! The RESP suite: the same commands must get the same replies from Millpond and from a
//! redis-server, in RESP2 and RESP3.
//!
//! A `redis-server` is looked for in `MILLPOND_REDIS` and in `PATH`. Where there is none, the
//! comparison says so and passes; what else is tested here needs none.

mod behaviour;
mod client;
mod collection_scripts;
mod collections;
mod limits;
mod reference;
mod scripts;
mod sorting_scripts;
mod statistics;
#[path = "../support/mod.rs"]
mod support;
mod tracking;
mod type_scripts;

use std::net::SocketAddr;
use std::time::Duration;

use base::Clock;
use client::Client;
use reference::{millpond, redis};

/// Each command of a script with its reply.
type Replies = Vec<(String, String)>;

/// The time that may pass while a script is played without a `TTL` that differs.
const STILL: Duration = Duration::from_millis(400);

/// Plays a script on a connection and returns each command with its reply.
fn play(client: &mut Client, script: &str) -> Replies {
    client.ask("FLUSHALL");
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (how, command) = match line.split_once(' ') {
                Some((how @ ("~" | "?" | "?2"), command)) => (how, command),
                _ => ("", line),
            };
            let reply = client.ask(command);
            let reply = match how {
                "~" => reply.chars().take(1).collect(),
                "?" => in_any_order(&reply, 1),
                "?2" => in_any_order(&reply, 2),
                _ => reply,
            };
            (command.to_owned(), reply)
        })
        .collect()
}

/// The replies of Millpond and of redis to a script.
///
/// `TTL` is rounded to the nearest second, so that half a second without a processor is seen in
/// replies. A play that took longer than [`STILL`] and differs is played again, up to nineteen
/// times; one that took less counts as it is.
fn play_beside(ours: SocketAddr, theirs: SocketAddr, version: &str, script: &str) -> (Replies, Replies) {
    let play_once = |address| {
        let mut client = Client::connect(address);
        client.ask(&format!("HELLO {version}"));
        let start = Clock::System.monotonic_nanos();
        (play(&mut client, script), Duration::from_nanos(Clock::System.monotonic_nanos() - start))
    };
    for _ in 0..19 {
        let ((ours, took), (theirs, redis_took)) = (play_once(ours), play_once(theirs));
        if ours == theirs || took.max(redis_took) < STILL {
            return (ours, theirs);
        }
    }
    (play_once(ours).0, play_once(theirs).0)
}

/// Sorts the elements of a reply, in groups of `together` elements.
fn in_any_order(reply: &str, together: usize) -> String {
    let Some((kind, elements)) = reply.strip_suffix(']').and_then(|reply| reply.split_once('[')) else {
        return reply.to_owned();
    };
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for char in elements.chars() {
        depth += i32::from(char == '[') - i32::from(char == ']');
        match parts.last_mut() {
            Some(part) if char != ' ' || depth > 0 => part.push(char),
            _ => parts.push(String::new()),
        }
    }
    // Pairs that are elements of their own are together already.
    let together = if elements.contains('[') { 1 } else { together };
    let mut groups: Vec<String> = parts.chunks(together).map(|group| group.join(" ")).collect();
    groups.sort();
    format!("{kind}[{}]", groups.join(" "))
}

/// Returns whether a command of a script is answered from what is in memory, whatever is beneath.
fn sees_memory_alone(script: &str, command: &str) -> bool {
    let lists = ["keys ", "scan ", "dbsize", "randomkey", "sort "];
    lists.iter().any(|name| command.starts_with(name))
        || script == "sort by other keys"
        || script == "counting in a transaction"
}

#[test]
fn replies_are_those_of_redis() {
    let Some(redis) = redis() else {
        println!("skipped: there is no redis-server in PATH, and MILLPOND_REDIS is not set.");
        return;
    };
    let (server, address) = millpond();
    let mut differences = Vec::new();
    let mut played = 0;
    for (name, script) in scripts::ALL
        .iter()
        .chain(collection_scripts::ALL)
        .chain(type_scripts::ALL)
        .chain(sorting_scripts::ALL)
    {
        for version in ["2", "3"] {
            let (ours, theirs) = play_beside(address, redis.address, version, script);
            played += ours.len();
            for ((command, ours), (_, theirs)) in
                ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs)
            {
                if support::is_late() && sees_memory_alone(name, command) {
                    continue;
                }
                differences.push(format!(
                    "{name} (RESP{version}): {command}\n    redis:    {theirs}\n    millpond: {ours}"
                ));
            }
        }
    }
    server.stop();
    assert!(played > 2_000, "only {played} commands were played");
    assert!(differences.is_empty(), "{} of {played} differ:\n{}", differences.len(), differences.join("\n"));
}

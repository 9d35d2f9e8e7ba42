//! Two orchestrators that elect one by three members of etcd, of all of which some hang and some
//! are killed.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Clock;
use rustix::process::Signal;
use serde_json::Value;

use super::etcd::Cluster;
use super::{Orchestrator, free_port, server};

/// The memory that the servers may have together.
const MEMORY: u64 = 128 << 20;

impl Orchestrator {
    fn elected(port: u16, etcd: &str) -> Self {
        Self::start(port, &["--etcd", etcd, "--etcd-lease", "2s"])
    }

    fn signal(&self, signal: Signal) {
        self.0.signal(signal).expect("it runs");
    }

    /// The state, and the number of rounds.
    fn state(&self) -> (Value, u64) {
        let state: Value = serde_json::from_str(&self.fleet(&["status", "--json"])).expect("JSON");
        let url = format!("http://{}/metrics", self.0.admin());
        let metrics = ureq::get(url).call().expect("it answers").body_mut().read_to_string().expect("text");
        let rounds = metrics.lines().find_map(|line| line.strip_prefix("millpond_fleet_rounds_total "));
        (state, rounds.and_then(|count| count.parse().ok()).expect("a count"))
    }
}

/// Waits until one of these orchestrators leads both servers, in a later term than `after`, and has
/// made two more rounds; returns its place and the term. At no time can the servers have more than
/// there is.
fn leads(orchestrators: &[&Orchestrator], after: u64, what: &str) -> (usize, u64) {
    let clock = Clock::System;
    let from = clock.monotonic_nanos();
    let mut first = BTreeMap::new();
    for _ in 0..1_200 {
        for (place, orchestrator) in orchestrators.iter().enumerate() {
            let (state, rounds) = orchestrator.state();
            let node = &state["nodes"][0];
            let instances = node["instances"].as_array().map(Vec::as_slice).unwrap_or_default();
            let limits: u64 = instances.iter().filter_map(|instance| instance["limit_bytes"].as_u64()).sum();
            assert!(
                limits <= MEMORY && node["held_bytes"].as_u64().unwrap_or(0) <= MEMORY,
                "{what}: {state}"
            );
            let term = state["term"].as_u64().unwrap_or(0);
            let leased = instances.iter().filter(|instance| instance["is_leased"] == true).count();
            if state["is_leader"] == true && term > after && leased == 2 {
                let (since, begun) =
                    *first.entry((place, term)).or_insert_with(|| (clock.monotonic_nanos(), rounds));
                if rounds >= begun + 2 {
                    let millis = (since - from) / 1_000_000;
                    println!("{what}: one leads in term {term} after {millis} ms");
                    return (place, term);
                }
            }
        }
        base::thread::sleep(Duration::from_millis(25));
    }
    let states: Vec<Value> = orchestrators.iter().map(|orchestrator| orchestrator.state().0).collect();
    panic!("{what}: {states:?}");
}

#[test]
fn rounds_go_on_without_the_leader_and_without_a_member_of_etcd() {
    let Some(etcd) = Cluster::start() else {
        println!("skipped: there is no etcd in PATH.");
        return;
    };
    let ports = [free_port(), free_port()];
    let start = |index: usize| Orchestrator::elected(ports[index], &etcd.endpoints());
    let mut both = [start(0), start(1)];
    let servers = ["first", "second"].map(|name| server(name, &ports));
    let (mut leader, mut term) = leads(&[&both[0], &both[1]], 0, "both servers are there");
    until("the other one follows", || {
        let (followed, follower) = (format!("127.0.0.1:{}", ports[leader]), &both[1 - leader]);
        follower.fleet(&["status"]).contains("follows: the one at")
            && follower.state().0["leader"] == followed
    });

    both[leader].signal(Signal::STOP);
    term = leads(&[&both[1 - leader]], term, "the leader hangs").1;
    both[leader].signal(Signal::CONT);
    until("the former leader follows", || both[leader].fleet(&["status"]).contains("follows: the one at"));
    leader = 1 - leader;

    // Without a member, etcd is away for as long as its own election takes. If that is longer than
    // the lease, either of both may lead next.
    let rounds = || both.iter().map(|orchestrator| orchestrator.state().1).sum::<u64>();
    for member in 0..2 {
        etcd.signal(member, Signal::STOP);
        let before = rounds();
        until("rounds without a member", || rounds() > before + 20);
        etcd.signal(member, Signal::CONT);
    }
    etcd.signal(0, Signal::KILL);
    let before = rounds();
    until("rounds after a member was killed", || rounds() > before + 20);
    let (now, in_term) = leads(&[&both[0], &both[1]], term - 1, "a member of etcd is gone");
    assert!(now == leader || in_term > term, "{now} leads in the term {term} of {leader}");
    (leader, term) = (now, in_term);

    both[leader].signal(Signal::KILL);
    term = leads(&[&both[1 - leader]], term, "the leader is killed").1;
    both[leader] = start(leader);
    until("it follows", || both[leader].fleet(&["status"]).contains("follows: the one at"));
    leader = 1 - leader;

    // One that ends in order hands over at once.
    both[leader].signal(Signal::TERM);
    assert!(both[leader].0.wait().expect("it ends").success());
    leads(&[&both[1 - leader]], term, "the leader ended in order");
    drop(servers);
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        base::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} is not seen within 30 s");
}

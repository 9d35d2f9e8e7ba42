//! Two orchestrators that elect one by three members of etcd, of all of which some hang and some
//! are killed.

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

/// Waits until this orchestrator leads both servers, in a later term than `after`, and has made two
/// more rounds; returns the term. At no time can the servers have more than there is.
fn leads(orchestrator: &Orchestrator, after: u64, what: &str) -> u64 {
    let clock = Clock::System;
    let from = clock.monotonic_nanos();
    let mut first = None;
    for _ in 0..1_200 {
        let (state, rounds) = orchestrator.state();
        let node = &state["nodes"][0];
        let instances = node["instances"].as_array().map(Vec::as_slice).unwrap_or_default();
        let limits: u64 = instances.iter().filter_map(|instance| instance["limit_bytes"].as_u64()).sum();
        assert!(limits <= MEMORY && node["held_bytes"].as_u64().unwrap_or(0) <= MEMORY, "{what}: {state}");
        let term = state["term"].as_u64().unwrap_or(0);
        let leased = instances.iter().filter(|instance| instance["is_leased"] == true).count();
        if state["is_leader"] == true && term > after && leased == 2 {
            let (since, begun) = *first.get_or_insert((clock.monotonic_nanos(), rounds));
            if rounds >= begun + 2 {
                let millis = (since - from) / 1_000_000;
                println!("{what}: it leads in term {term} after {millis} ms");
                return term;
            }
        }
        base::thread::sleep(Duration::from_millis(25));
    }
    panic!("{what}: {}", orchestrator.state().0);
}

#[test]
fn rounds_go_on_without_the_leader_and_without_a_member_of_etcd() {
    let Some(etcd) = Cluster::start() else {
        println!("skipped: there is no etcd in PATH.");
        return;
    };
    let ports = [free_port(), free_port()];
    let start = |index: usize| Orchestrator::elected(ports[index], &etcd.endpoints());
    let mut first = start(0);
    let mut term = leads_alone(&first);
    let second = start(1);
    let names = ["first", "second"];
    let servers = names.map(|name| server(name, &ports));
    term = leads(&first, term - 1, "both servers are there");
    until("the second follows", || second.fleet(&["status"]).contains("follows: the one at"));
    assert_eq!(second.state().0["leader"], format!("127.0.0.1:{}", ports[0]));

    first.signal(Signal::STOP);
    term = leads(&second, term, "the leader hangs");
    first.signal(Signal::CONT);
    until("the former leader follows", || first.fleet(&["status"]).contains("follows: the one at"));

    for member in 0..2 {
        etcd.signal(member, Signal::STOP);
        let rounds = second.state().1;
        until("rounds without a member", || second.state().1 > rounds + 20);
        etcd.signal(member, Signal::CONT);
    }
    assert_eq!(leads(&second, term - 1, "a member of etcd hung"), term, "the same one leads");

    etcd.signal(0, Signal::KILL);
    let rounds = second.state().1;
    until("rounds after a member was killed", || second.state().1 > rounds + 20);

    drop(second);
    term = leads(&first, term, "the leader is killed");
    let second = start(1);
    until("it follows", || second.fleet(&["status"]).contains("follows: the one at"));

    // One that ends in order hands over at once.
    first.signal(Signal::TERM);
    assert!(first.0.wait().expect("it ends").success());
    leads(&second, term, "the leader ended in order");
    drop(servers);
}

/// The term in which the only orchestrator leads.
fn leads_alone(orchestrator: &Orchestrator) -> u64 {
    until("it leads", || orchestrator.state().0["is_leader"] == true);
    orchestrator.state().0["term"].as_u64().expect("a term")
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

//! A server behind a network of its own, whose cable is pulled.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use trial::served::Served;

use super::{MILLPOND, Orchestrator, free_port};

const TOKEN: &str = "d41d8cd98f00b204e9800998ecf8427e";
const MIB: u64 = 1 << 20;

/// A network namespace with an interface to this one. Dropping it removes both.
struct Network {
    name: String,
    cable: String,
    /// The third byte of its addresses.
    number: u32,
}

fn ip(arguments: &str) -> bool {
    let status = Command::new("ip").args(arguments.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Network {
    /// `None` if this user cannot make one.
    fn new() -> Option<Self> {
        let number = std::process::id() % 250;
        let network = Self { name: format!("millpond-{number}"), cable: format!("mp{number}"), number };
        let Self { name, cable, number } = &network;
        let steps = [
            format!("netns add {name}"),
            format!("link add {cable} type veth peer name {cable}b"),
            format!("link set {cable}b netns {name}"),
            format!("address add 10.211.{number}.1/30 dev {cable}"),
            format!("-n {name} address add 10.211.{number}.2/30 dev {cable}b"),
            format!("link set {cable} up"),
            format!("-n {name} link set {cable}b up"),
            format!("-n {name} link set lo up"),
        ];
        steps.iter().all(|step| ip(step)).then_some(network)
    }

    fn here(&self) -> String {
        format!("10.211.{}.1", self.number)
    }

    fn there(&self) -> String {
        format!("10.211.{}.2", self.number)
    }

    /// Pulls the cable, or plugs it in again.
    fn plug(&self, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        assert!(ip(&format!("link set {} {state}", self.cable)));
    }

    /// A program that runs Millpond in the network.
    fn program(&self, folder: &Path) -> PathBuf {
        let script = folder.join("inside");
        std::fs::write(&script, format!("#!/bin/sh\nexec ip netns exec {} {MILLPOND} \"$@\"\n", self.name))
            .expect("a script");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it runs");
        script
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        ip(&format!("link delete {}", self.cable));
        ip(&format!("netns delete {}", self.name));
    }
}

fn server(program: &Path, name: &str, address: &str, orchestrator: &str, token: &Path) -> Served {
    let token = token.display();
    let config = format!(
        "memory = \"16MiB\"\nmax_memory = \"128MiB\"\nthreads = 1\n[[listener]]\nname = \"main\"\n\
         [fleet]\norchestrators = [\"{orchestrator}\"]\nlisten = \"{address}:0\"\nname = \"{name}\"\n\
         node = \"here\"\ntoken_file = \"{token}\"\n"
    );
    Served::start(program, &config).expect("a server")
}

/// The state of the fleet: names with whether each answers; and what all can have, in bytes.
fn state(orchestrator: &Orchestrator) -> (Vec<(String, bool)>, u64) {
    let output = Command::new(MILLPOND)
        .args(["fleet", "status", "--json", "--orchestrator", orchestrator.0.admin()])
        .env("MILLPOND_FLEET_TOKEN", TOKEN)
        .output()
        .expect("it runs");
    let state: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let instances = state["nodes"][0]["instances"].as_array().cloned().unwrap_or_default();
    let named = instances.iter().map(|instance| {
        (instance["name"].as_str().unwrap_or_default().to_owned(), instance["is_leased"] == true)
    });
    (named.collect(), state["nodes"][0]["held_bytes"].as_u64().unwrap_or(0))
}

fn wait_for(orchestrator: &Orchestrator, what: &str, wanted: &[(&str, bool)]) {
    let wanted: Vec<(String, bool)> = wanted.iter().map(|&(name, is)| (name.to_owned(), is)).collect();
    let mut now = (Vec::new(), 0);
    for _ in 0..600 {
        now = state(orchestrator);
        assert!(now.1 <= 128 * MIB, "{what}: all can have {} MiB", now.1 / MIB);
        if now.0 == wanted {
            return;
        }
        base::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}: {now:?}");
}

#[test]
fn a_server_that_is_cut_off_keeps_its_memory_until_it_is_known_dead() {
    let Some(network) = Network::new() else {
        println!("skipped: network namespaces need root, and `ip` of the package iproute2");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).expect("a file");
    let kept = ["--token-file", token.to_str().expect("text")];
    let address = format!("{}:{}", network.here(), free_port());
    let orchestrator = Orchestrator::start_at(&address, &kept);
    let near = server(Path::new(MILLPOND), "near", &network.here(), &address, &token);
    let far = server(&network.program(folder.path()), "far", &network.there(), &address, &token);
    wait_for(&orchestrator, "both register", &[("far", true), ("near", true)]);
    let (_, before) = state(&orchestrator);

    network.plug(false);
    wait_for(&orchestrator, "one is cut off", &[("far", false), ("near", true)]);
    // Twice the lease, after which what it has is still its own.
    base::thread::sleep(Duration::from_secs(4));
    assert!(state(&orchestrator).1 >= before / 2, "its memory was given away");
    wait_for(&orchestrator, "it keeps its memory", &[("far", false), ("near", true)]);
    network.plug(true);
    wait_for(&orchestrator, "it is back", &[("far", true), ("near", true)]);

    far.signal(Signal::STOP).expect("it runs");
    wait_for(&orchestrator, "it hangs", &[("far", false), ("near", true)]);
    far.signal(Signal::CONT).expect("it runs");
    wait_for(&orchestrator, "it goes on", &[("far", true), ("near", true)]);
    // Killed behind a cable that is pulled, nothing tells it from one that is cut off.
    network.plug(false);
    far.signal(Signal::KILL).expect("it runs");
    wait_for(&orchestrator, "it is silent", &[("far", false), ("near", true)]);
    network.plug(true);
    wait_for(&orchestrator, "nobody listens at its address", &[("near", true)]);
    drop((near, far));
}

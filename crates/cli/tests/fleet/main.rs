//! An orchestrator and servers as processes, of which some hang and some are killed.

mod election;
mod etcd;
mod log;
mod network;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use trial::orchestrated::Orchestrated;
use trial::served::Served;

const MILLPOND: &str = env!("CARGO_BIN_EXE_millpond");

/// An orchestrator of servers with this memory, and short periods.
struct Orchestrator(Orchestrated);

impl Orchestrator {
    fn start(listen: u16, kept: &[&str]) -> Self {
        Self::start_at(&format!("127.0.0.1:{listen}"), kept)
    }

    fn start_at(listen: &str, kept: &[&str]) -> Self {
        let flags = ["--memory", "128MiB", "--period", "200ms", "--lease", "2s"];
        let started = Orchestrated::start(Path::new(MILLPOND), listen, &[&flags, kept].concat());
        Self(started.expect("an orchestrator"))
    }

    fn fleet(&self, arguments: &[&str]) -> String {
        let output = Command::new(MILLPOND)
            .arg("fleet")
            .args(arguments)
            .args(["--orchestrator", self.0.admin()])
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The names of the instances, and whether each answers.
    fn instances(&self) -> Vec<(String, bool)> {
        let state: Value = serde_json::from_str(&self.fleet(&["status", "--json"])).expect("JSON");
        let nodes = state["nodes"].as_array().into_iter().flatten();
        let instances = nodes.flat_map(|node| node["instances"].as_array().into_iter().flatten());
        let named = instances.map(|instance| {
            (instance["name"].as_str().unwrap_or_default().to_owned(), instance["is_leased"] == true)
        });
        named.collect()
    }

    fn wait_for(&self, what: &str, instances: &[(&str, bool)]) {
        let wanted: Vec<(String, bool)> =
            instances.iter().map(|&(name, answers)| (name.to_owned(), answers)).collect();
        for _ in 0..600 {
            if self.instances() == wanted {
                return;
            }
            base::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what}: {:?}", self.instances());
    }
}

fn free_port() -> u16 {
    trial::served::free_port().expect("a port")
}

fn server(name: &str, orchestrators: &[u16]) -> Served {
    let addresses: Vec<String> = orchestrators.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let config = format!(
        "memory = \"16MiB\"\nmax_memory = \"128MiB\"\nthreads = 1\n[[listener]]\nname = \"main\"\n\
         [fleet]\norchestrators = {addresses:?}\nname = \"{name}\"\nnode = \"here\"\n"
    );
    Served::start(Path::new(MILLPOND), &config).expect("a server")
}

#[test]
fn servers_that_hang_keep_their_memory_and_killed_ones_free_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.redb");
    let kept = ["--state", state.to_str().expect("text")];
    let port = free_port();
    let orchestrator = Orchestrator::start(port, &kept);
    let (first, second) = (server("first", &[port]), server("second", &[port]));
    orchestrator.wait_for("both register", &[("first", true), ("second", true)]);

    first.signal(Signal::STOP).expect("it runs");
    orchestrator.wait_for("one hangs", &[("first", false), ("second", true)]);
    assert!(orchestrator.fleet(&["status"]).contains("does not answer"));
    // Twice the lease, after which what it has is still its own.
    base::thread::sleep(Duration::from_secs(4));
    orchestrator.wait_for("it keeps its memory", &[("first", false), ("second", true)]);
    first.signal(Signal::CONT).expect("it runs");
    orchestrator.wait_for("it goes on", &[("first", true), ("second", true)]);

    drop(second);
    orchestrator.wait_for("the killed one's memory is free", &[("first", true)]);

    // The orchestrator is killed, and its successor goes on.
    drop(orchestrator);
    let orchestrator = Orchestrator::start(port, &kept);
    orchestrator.wait_for("it knows the server", &[("first", true)]);
    let second = server("second", &[port]);
    orchestrator.wait_for("a new one", &[("first", true), ("second", true)]);
    assert!(orchestrator.fleet(&["tenants"]).contains("first/default"));
    drop((first, second));
}

//! `millpond bench check` against servers, over both protocols: a server is found right, and a
//! fault that is planted is found.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use trial::served::Served;

const BINARY: &str = env!("CARGO_BIN_EXE_millpond");

/// A server with one listener for both protocols, and memory that is too small for the keys.
fn serve() -> (Served, SocketAddr) {
    let config = "memory = \"32MiB\"\nthreads = 2\n[[listener]]\nname = \"main\"\naddress = \"tcp://127.0.0.1:0\"\n\
                  protocol = \"auto\"\n";
    let served = Served::start(Path::new(BINARY), config).expect("a server");
    let address = served.address("main").expect("a listener");
    (served, address)
}

fn check(target: &str, more: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["bench", "check", "--target", target, "--threads", "3"]);
    command.args(["--ttl", "1-2", "--disturb-every", "2"]).args(more).output().expect("the binary runs")
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no report: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_server_is_found_right_over_both_protocols() {
    let (served, address) = serve();
    for scheme in ["memcached", "redis"] {
        let target = format!("{scheme}://{address}");
        let output = check(&target, &["--operations", "60000", "--keys", "8000", "--json"]);
        let report = report(&output);
        assert_eq!(report["violations"], serde_json::json!([]), "{report}");
        assert!(output.status.success());
        assert_eq!((&report["target"], &report["operations"]), (&target.into(), &60_000.into()));
        assert!(report["hits"].as_u64() > Some(1_000), "{report}");
        assert!(report["disturbances"]["flushes"].as_u64() > Some(0), "{report}");
    }
    for command in ["get", "mget", "set", "del", "expire", "flushdb"] {
        let labels = [("command", command)];
        let calls = served.metric("millpond_server_resp_commands_total", &labels).expect("metrics");
        assert!(calls > Some(0.0), "{command}: {calls:?}");
    }
}

#[test]
fn a_planted_fault_is_found_over_resp() {
    let (_served, address) = serve();
    let target = format!("redis://{address}");
    for (fault, wanted) in
        [("stale-read", ["stale", "resurrected"]), ("lost-remove", ["resurrected", "nothing-there"])]
    {
        // Few keys, so that none is evicted: a lost removal shows only while the value is there.
        let length = ["--operations", "2000000", "--keys", "500"];
        let more =
            [&length[..], &["--plant", fault, "--plant-every", "200", "--no-flush", "--json"]].concat();
        let output = check(&target, &more);
        let report = report(&output);
        let kind =
            report["violations"][0]["kind"].as_str().unwrap_or_else(|| panic!("{fault} was not found"));
        assert!(wanted.contains(&kind), "{fault}: {report}");
        assert_eq!(output.status.code(), Some(1));
    }
}

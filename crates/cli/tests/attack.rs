//! A short hostile-load test: the server withstands every attack. Its speed under attack is
//! measured elsewhere.

use std::process::Command;

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_millpond");

#[test]
fn a_server_withstands_every_attack() {
    let output = Command::new(BINARY)
        .args([
            "bench",
            "attack",
            "--seconds",
            "500ms",
            "--rounds",
            "1",
            "--memory",
            "64MiB",
            "--rate",
            "1000",
            "--json",
        ])
        .output()
        .expect("the binary runs");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no report: {}", String::from_utf8_lossy(&output.stderr)));
    let attacks = report["attacks"].as_array().expect("attacks");
    assert!(attacks.len() > 10, "{} attacks", attacks.len());
    for attack in attacks {
        let faults = attack["faults"].as_object().expect("faults");
        for (what, found) in faults {
            assert_eq!(found.as_array().map(Vec::len), Some(0), "{}, {what}: {found}", attack["name"]);
        }
        assert_eq!(attack["rounds"], 1, "{}", attack["name"]);
    }
    assert!(output.status.success());
}

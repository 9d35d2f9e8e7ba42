//! `millpond bench soak` for a few seconds: everything is done to the server, and nothing wrong is
//! found.

use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_millpond");

#[test]
fn a_short_soak_finds_nothing_wrong() {
    let output = Command::new(BINARY)
        .args(["bench", "soak", "--duration", "20s", "--rate", "500", "--seed", "7", "--json"])
        .output()
        .expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&errors);
    let number = |name: &str| report[name].as_u64().expect("a number");
    assert_eq!(number("violations_found"), 0, "{:#}", report["violations"]);
    let unexpected: Vec<_> = report["errors"]
        .as_array()
        .expect("errors")
        .iter()
        .filter(|error| error["expected"] == false)
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}\n{errors}");
    assert!(output.status.success(), "{errors}");
    assert!(number("hits") > 0 && number("lives") > 1, "{errors}");
    assert!(!report["events"].as_array().expect("events").is_empty());
}

#[test]
fn a_planted_fault_is_found() {
    let output = Command::new(BINARY)
        .args([
            "bench",
            "soak",
            "--duration",
            "5s",
            "--rate",
            "2000",
            "--plant",
            "torn-value",
            "--plant-every",
            "200",
        ])
        .output()
        .expect("the binary runs");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("VIOLATION    torn"), "{report}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

//! `millpond demo` as a newcomer runs it, for a few seconds.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_millpond");

#[test]
fn the_demo_serves_three_tenants_and_says_where_to_look() {
    let output = Command::new(BINARY).args(["demo", "--duration", "12s"]).output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for part in ["shop ", "login ", "crawler ", "Live: http://127.0.0.1:", "/decisions.json", " % hits"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let figures = text.lines().find(|line| line.contains("reads/s")).expect("a line with figures");
    assert!(!figures.contains(" 0 reads/s"), "{figures}");
}

#[test]
fn too_little_memory_is_refused_with_the_least() {
    let output = Command::new(BINARY).args(["demo", "--memory", "8MiB"]).output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("--memory: 8MiB is too little; give at least 64MiB"), "{text}");
}

#[test]
fn a_killed_demo_leaves_no_server() {
    let mut demo = Command::new(BINARY).arg("demo").stdout(Stdio::piped()).spawn().expect("the binary runs");
    let output = BufReader::new(demo.stdout.take().expect("it is piped"));
    let live = output.lines().map(|line| line.expect("text")).find(|line| line.starts_with("Live: "));
    let url = live.as_deref().and_then(|line| line.split_whitespace().nth(1)).expect("the page's address");
    ureq::get(url).call().expect("the server answers");
    demo.kill().expect("it runs");
    demo.wait().expect("it ends");
    let is_up = || ureq::get(url).call().is_ok();
    let mut tenths = 0;
    while is_up() && tenths < 300 {
        base::thread::sleep(Duration::from_millis(100));
        tenths += 1;
    }
    assert!(!is_up(), "the server goes on for {} s", tenths / 10);
}

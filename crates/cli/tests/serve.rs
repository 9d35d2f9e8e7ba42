//! `millpond serve` and `millpond config` as a user runs them: start, signals, refusals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, FileType, mknodat};
use rustix::process::{Pid, Signal, kill_process};

const BINARY: &str = env!("CARGO_BIN_EXE_millpond");
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that is killed with the test.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    log: BufReader<ChildStderr>,
    address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts `command` and reads where it listens.
    fn start(mut command: Command) -> Self {
        let mut child = command
            .env_remove("MILLPOND_CONFIG")
            .env_remove("MILLPOND_LISTEN")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let (_, rest) = line.split_once("tcp://").unwrap_or_else(|| panic!("no address in {line:?}"));
        let address = rest.split(' ').next().and_then(|word| word.parse().ok()).expect("an address");
        Self { child, output, log, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is there");
    }

    /// Reads the log up to the line that has `text`.
    fn wait_for_log(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).expect("a line"), 0, "the log ended without {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        BufReader::new(stream)
    }
}

fn ask(client: &mut BufReader<TcpStream>, request: &str) -> String {
    client.get_mut().write_all(request.as_bytes()).expect("sent");
    let mut line = String::new();
    client.read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

/// Waits until `condition` holds, and fails the test if it doesn't hold in time.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..800 {
        if condition() {
            return;
        }
        base::thread::sleep(Duration::from_millis(25));
    }
    panic!("timed out while waiting for: {what}");
}

/// On free ports, with a little memory.
fn serve(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["serve", "--memory", "32MiB", "--listen", "127.0.0.1:0"]);
    command.args(["--set", "admin.address=127.0.0.1:0"]);
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY)
        .args(arguments)
        .env_remove("MILLPOND_CONFIG")
        .env_remove("MILLPOND_LISTEN")
        .output()
        .expect("the binary runs")
}

#[test]
fn it_says_where_it_listens_and_stops_when_told_to() {
    for signal in [Signal::TERM, Signal::INT, Signal::USR1] {
        let mut server = Running::start(serve(&[]));
        let mut said = String::new();
        for _ in 0..3 {
            server.output.read_line(&mut said).expect("a line");
        }
        assert!(said.contains("32MiB of memory"), "{said}");
        assert!(said.contains("/metrics"), "{said}");
        assert!(said.contains("try: "), "{said}");
        let mut client = server.connect();
        assert_eq!(ask(&mut client, "set a 0 0 1\r\nx\r\n"), "STORED");
        server.signal(signal);
        assert!(server.child.wait().expect("it ends").success());
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).expect("the connection is closed in order");
        assert_eq!(rest, b"");
        let mut log = String::new();
        server.log.read_to_string(&mut log).expect("text");
        assert!(log.contains("Stopped."), "{log}");
    }
}

/// The monitor logs its actions; this process has more resident than these limits, whatever the
/// cache does.
#[test]
fn the_memory_monitor_is_heard_in_the_log() {
    let limits = ["monitor.mode=resident-memory", "monitor.lower_bytes=1MiB", "monitor.upper_bytes=5MiB"];
    let arguments: Vec<&str> = limits.iter().flat_map(|setting| ["--set", setting]).collect();
    let mut server = Running::start(serve(&arguments));
    let line = server.wait_for_log("The cache has given memory back.");
    assert!(line.contains("given_bytes=4194304"), "{line}");
    server.wait_for_log("Memory is short, and the cache may give no more back.");
}

/// The line that it says to try does what it says.
#[test]
fn the_line_to_try_works() {
    let mut server = Running::start(serve(&[]));
    let mut line = String::new();
    while !line.contains("try: ") {
        line.clear();
        assert_ne!(server.output.read_line(&mut line).expect("a line"), 0);
    }
    let (_, script) = line.split_once("try: ").expect("a line to try");
    let tried = Command::new("sh").args(["-c", script]).output();
    match tried {
        Ok(output) if output.status.code() != Some(127) => {
            let answer = String::from_utf8_lossy(&output.stdout);
            assert_eq!(answer, "STORED\r\nVALUE hello 0 5\r\nworld\r\nEND\r\n");
        }
        _ => println!("the line was not tried: there is no bash"),
    }
}

#[test]
fn a_hang_up_reloads_what_can_be_reloaded() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("millpond.toml");
    std::fs::write(&file, "[limits]\nmax_get_keys = 2\n").expect("a file");
    let path = file.to_str().expect("a path").to_owned();
    let mut server = Running::start(serve(&["--config", &path]));
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "get a b c\r\n"), "CLIENT_ERROR too many keys");

    std::fs::write(&file, "threads = 3\n[limits]\nmax_get_keys = 3\n").expect("a file");
    server.signal(Signal::HUP);
    let changed = server.wait_for_log("A setting was changed");
    assert!(changed.contains("limits.max_get_keys"), "{changed}");
    let restart = server.wait_for_log("at the next start only");
    assert!(restart.contains("threads"), "{restart}");
    // Workers are told by message: the answer changes soon after.
    wait_until("the new limit holds", || ask(&mut client, "get a b c\r\n") == "END");

    std::fs::write(&file, "[limits]\nmax_get_kees = 3\n").expect("a file");
    server.signal(Signal::HUP);
    let refused = server.wait_for_log("was not reloaded");
    assert!(refused.contains("max_get_keys") && refused.contains(":2:"), "{refused}");
    assert_eq!(ask(&mut client, "get a b c\r\n"), "END", "it serves on as it did");

    // Nobody writes to the pipe.
    std::fs::remove_file(&file).expect("a file");
    mknodat(CWD, &file, FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    server.signal(Signal::HUP);
    let refused = server.wait_for_log("was not reloaded");
    assert!(refused.contains("it is a pipe"), "{refused}");
    std::fs::remove_file(&file).expect("a pipe");
    std::fs::write(&file, "[limits]\nmax_get_keys = 1\n").expect("a file");
    server.signal(Signal::HUP);
    wait_until("it is reloaded", || ask(&mut client, "get a b\r\n") == "CLIENT_ERROR too many keys");
}

/// A terminal would obey them.
#[test]
fn control_characters_of_a_configuration_are_shown_escaped() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("millpond.toml");
    std::fs::write(&file, "\"a\\u001b[2Jb\" = 1\n").expect("a file");
    let output = run(&["config", "check", file.to_str().expect("a path")]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("`a\\u{1b}[2Jb`") && !error.contains('\u{1b}'), "{error:?}");
}

#[test]
fn mistakes_are_refused_with_what_to_do() {
    for (arguments, parts) in [
        (&["serve", "--memory", "lots"][..], &["--memory", "lots"][..]),
        (&["serve", "--set", "limits.max_conections=1"], &["did you mean `limits.max_connections`"]),
        (&["serve", "--listen", "0.0.0.0:11211"], &["allow_remote"]),
        (&["serve", "--config", "/nowhere/millpond.toml"], &["/nowhere/millpond.toml"]),
        (&["config", "check", "--set", "threads=0"], &["threads: 0"]),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.starts_with("millpond: "), "{error}");
        for part in parts {
            assert!(error.contains(part), "{arguments:?} gave {error:?}, which lacks {part:?}");
        }
    }
}

#[test]
fn the_configuration_is_printed_and_checked() {
    let printed = run(&["config", "print", "--set", "limits.max_connections=7"]);
    assert!(printed.status.success());
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("millpond.toml");
    std::fs::write(&file, &printed.stdout).expect("a file");
    let path = file.to_str().expect("a path");
    let checked = run(&["config", "check", "--config", path]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let again = run(&["config", "print", "--config", path]);
    assert_eq!(again.stdout, printed.stdout);
    assert!(String::from_utf8_lossy(&again.stdout).contains("max_connections = 7"));
    let version = run(&["version"]);
    assert_eq!(String::from_utf8_lossy(&version.stdout), format!("millpond {}\n", env!("CARGO_PKG_VERSION")));
}

/// With no descriptors left, new clients are refused, and those that are there are served on.
#[test]
fn running_out_of_descriptors_is_survived() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 48; exec \"$0\" \"$@\"", BINARY]);
    command.args(["serve", "--memory", "32MiB", "--listen", "127.0.0.1:0", "--threads", "2"]);
    command.args(["--set", "admin.enabled=false"]);
    let mut server = Running::start(command);
    server.wait_for_log("The limit on open files is too low");
    let mut clients = Vec::new();
    let mut refused = 0;
    for _ in 0..80 {
        let mut client = server.connect();
        match ask(&mut client, "mn\r\n").as_str() {
            "MN" => clients.push(client),
            "ERROR Too many open connections" => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 30, "only {refused} were refused");
    assert!(clients.len() > 10, "only {} were served", clients.len());
    for client in &mut clients {
        assert_eq!(ask(client, "mn\r\n"), "MN");
    }
    clients.truncate(5);
    // Closed connections give their descriptors back, and there is room again.
    wait_until("a client is served again", || ask(&mut server.connect(), "mn\r\n") == "MN");
    assert!(server.child.try_wait().expect("a child").is_none());
}

#[test]
fn what_lies_in_shared_memory_is_shown_while_the_server_works_and_after_it_was_killed() {
    let parent = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let folder = tempfile::tempdir_in(parent).expect("a folder");
    let place = folder.path().join("cache").display().to_string();
    let refused = run(&["inspect", &place]);
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("no cache is there"), "{text}");

    let mut server = Running::start(serve(&["--set", &format!("shared_memory={place}")]));
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "set small 0 0 5\r\n12345\r\n"), "STORED");
    assert_eq!(ask(&mut client, &format!("set large 0 1000 5000\r\n{}\r\n", "x".repeat(5_000))), "STORED");
    assert_eq!(ask(&mut client, "mg small s\r\n"), "HD s5");
    for after_death in [false, true] {
        if after_death {
            server.child.kill().expect("kills");
            server.child.wait().expect("ends");
        }
        let shown = run(&["inspect", &place, "--largest", "1", "--key", "small"]);
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        assert!(text.contains("pool 0 `default`, keys of its own: 2 items"), "{text}");
        assert!(text.contains("largest: large: 5000 bytes"), "{text}");
        assert!(text.contains("found: small: 5 bytes") && text.contains("never expires"), "{text}");
        let shown = run(&["inspect", &place, "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let pool = &report["pools"][0];
        assert_eq!((pool["items"].as_u64(), pool["expiring"].as_u64()), (Some(2), Some(1)));
        let classes = pool["classes"].as_array().expect("classes");
        let found: Vec<_> =
            classes.iter().map(|class| class["found_items"].as_u64().expect("a number")).collect();
        assert_eq!(found, [1, 0], "{report}");
    }
}

//! Orchestrators and agents whose log nobody reads.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{MILLPOND, free_port, server};

/// A process that is killed at the end.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it with a log that ends at once: each line is an error of writing.
fn start(arguments: &[&str]) -> Killed {
    let mut child = Command::new(MILLPOND)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stderr.take());
    Killed(child)
}

fn get(address: &str, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(address).ok()?;
    connection.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// The first line that it logged was its end.
#[test]
fn an_orchestrator_outlives_the_reader_of_its_log() {
    let (port, admin) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let listen = format!("127.0.0.1:{port}");
    let flags = ["--memory", "128MiB", "--period", "200ms", "--lease", "2s"];
    let mut orchestrator =
        start(&[&["orchestrate", "--listen", &listen, "--admin", &admin][..], &flags].concat());
    let _server = server("one", &[port]);
    // It logs that the server answers.
    let answers = || get(&admin, "/fleet.json").is_some_and(|state| state.contains("\"is_leased\":true"));
    let is_led = (0..200).any(|_| {
        base::thread::sleep(Duration::from_millis(50));
        answers()
    });
    assert!(is_led, "{:?}", orchestrator.0.try_wait());
    base::thread::sleep(Duration::from_secs(1));
    assert_eq!(orchestrator.0.try_wait().expect("it is a child"), None, "it runs");
    assert!(answers(), "and leads");
}

/// It stayed as a process without the thread that does its work.
#[test]
fn an_agent_goes_on_without_the_reader_of_its_log() {
    // A memcached that ends each connection at once: each round is a warning.
    let target = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = target.local_addr().expect("it is bound");
    let rounds = base::thread::spawn("target", move || target.incoming().take(4).count());
    let rounds = rounds.expect("a thread");
    let mut agent = start(&[
        "agent",
        "--target",
        &format!("memcached://{address}"),
        "--orchestrator",
        &format!("127.0.0.1:{}", free_port()),
    ]);
    let all = (0..400).any(|_| {
        base::thread::sleep(Duration::from_millis(50));
        rounds.is_finished()
    });
    assert!(all, "{:?}", agent.0.try_wait());
}

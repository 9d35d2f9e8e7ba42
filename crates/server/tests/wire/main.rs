//! The wire suite: the same requests must get the same answers from Millpond and from memcached, in
//! text and in binary.
//!
//! A `memcached` binary is looked for in `MILLPOND_MEMCACHED` and in `PATH`. Where there is none,
//! its half of the suite says so and passes.

mod frame;
mod player;
mod script;
#[path = "../support/mod.rs"]
mod support;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base::Clock;
use millpond_server::config::{Address, Auto};
use millpond_server::{Config, Server};
use player::{Mode, Place, play};
use script::{Case, load_all};

/// A server for one test, with room for the cases and nothing that is shared with other tests.
fn millpond(clock: Clock) -> (Server, Place, Place, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("millpond.sock");
    let mut config = Config { memory: Auto::Set(base::ByteSize::mib(128)), ..Config::default() };
    config.admin.enabled = false;
    config.listeners.truncate(1);
    config.listeners[0].address = Address::loopback(0);
    let mut unix = config.listeners[0].clone();
    unix.name = "unix".to_owned();
    unix.address = Address::Unix(path.clone());
    config.listeners.push(unix);
    let server = support::start_with_clock(config, clock).expect("a server");
    let Address::Tcp(tcp) = server.addresses()[0].1.clone() else { panic!("tcp stays tcp") };
    (server, Place::Tcp(tcp), Place::Unix(path), directory)
}

/// A clock that stands still, so that no case is about how long it took.
fn standing_clock() -> Clock {
    Clock::manual(u64::from(Clock::System.unix_secs()))
}

/// A memcached that ends with the test.
struct Memcached(Child);

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts memcached if there is one.
fn memcached() -> Option<(Memcached, Place)> {
    let binary = memcached_binary()?;
    for _ in 0..5 {
        // The port may be taken between this and memcached's own bind: then another is tried.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let mut command = Command::new(&binary);
        command.args(["-l", "127.0.0.1", "-U", "0", "-m", "128", "-p", &port.to_string()]);
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("memcached starts");
        let mut server = Memcached(child);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        for _ in 0..200 {
            if std::net::TcpStream::connect(address).is_ok() {
                return Some((server, Place::Tcp(address)));
            }
            if server.0.try_wait().expect("a child").is_some() {
                break;
            }
            base::thread::sleep(Duration::from_millis(25));
        }
    }
    panic!("{} does not listen", binary.display());
}

fn memcached_binary() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("MILLPOND_MEMCACHED") {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join("memcached")).find(|binary| binary.is_file())
}

/// Plays all `cases`, and fails with every case that went wrong.
fn play_all(cases: &[Case], place: &Place, modes: &[Mode]) {
    play_each(cases, place, modes, 1);
}

/// Plays all `cases`, each up to `tries` times; a case fails only if all its tries fail.
fn play_each(cases: &[Case], place: &Place, modes: &[Mode], tries: usize) {
    let mut failures = Vec::new();
    let mut played = 0;
    for case in cases {
        for mode in modes {
            let skipped = match mode {
                Mode::Plain => false,
                Mode::Pieces(_) => case.sleeps(),
                Mode::Pipelined => !case.can_be_pipelined(),
            };
            // A listing has what is in memory.
            if skipped || support::is_late() && case.name.starts_with("listing: ") {
                continue;
            }
            played += 1;
            let mut tried = (0..tries).map(|_| play(case, place, *mode));
            let first = tried.next().unwrap_or(Ok(()));
            if let Err(what) = first
                && !tried.any(|played| played.is_ok())
            {
                failures.push(format!("{} ({mode:?}): {what}", case.name));
            }
        }
    }
    assert!(support::is_late() || played >= cases.len(), "only {played} plays of {} cases", cases.len());
    assert!(failures.is_empty(), "{} of {played} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn millpond_answers_as_written() {
    let (server, tcp, unix, _directory) = millpond(standing_clock());
    let (slow, quick): (Vec<Case>, Vec<Case>) = load_all().into_iter().partition(Case::sleeps);
    play_all(&quick, &tcp, &[Mode::Plain]);
    play_all(&quick, &unix, &[Mode::Plain]);
    server.stop();
    let (server, tcp, _unix, _directory) = millpond(Clock::System);
    play_all(&slow, &tcp, &[Mode::Plain]);
    server.stop();
}

#[test]
fn millpond_answers_the_same_however_requests_are_cut() {
    let (server, tcp, unix, _directory) = millpond(standing_clock());
    let quick: Vec<Case> = load_all().into_iter().filter(|case| !case.sleeps()).collect();
    play_all(&quick, &tcp, &[Mode::Pieces(1), Mode::Pieces(2)]);
    play_all(&quick, &unix, &[Mode::Pieces(3)]);
    server.stop();
}

#[test]
fn millpond_answers_the_same_when_requests_are_pipelined() {
    let (server, tcp, unix, _directory) = millpond(standing_clock());
    let able: Vec<Case> = load_all().into_iter().filter(Case::can_be_pipelined).collect();
    assert!(able.len() > 30, "only {} cases can be pipelined", able.len());
    play_all(&able, &tcp, &[Mode::Pipelined]);
    play_all(&able, &unix, &[Mode::Pipelined]);
    server.stop();
}

#[test]
fn memcached_answers_the_same() {
    let Some((_server, place)) = memcached() else {
        println!(
            "memcached was not compared with: there is none in PATH, and MILLPOND_MEMCACHED is not set."
        );
        return;
    };
    let cases: Vec<Case> = load_all().into_iter().filter(|case| !case.millpond_only).collect();
    // Its clock goes on, and some cases tell seconds.
    play_each(&cases, &place, &[Mode::Plain, Mode::Pieces(1), Mode::Pipelined], 3);
}

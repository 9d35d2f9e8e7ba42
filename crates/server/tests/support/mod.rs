//! Support for the tests of the running server: a server on free ports, a client, and the admin
//! pages.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use millpond::secondary::SecondaryCache;

use millpond_server::config::{Address, Auto, ListenerConfig};
use millpond_server::{Config, Error, Protocols, Server};

pub(crate) mod late;
use late::Late;

/// Longest time for an answer before a test has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

const PROTOCOLS: Protocols = Protocols { memcached: memcached::new_session, resp: resp::new_session };

/// Returns whether the tests are run with `MILLPOND_LATE=1`: over a cache that answers late.
pub(crate) fn is_late() -> bool {
    std::env::var_os("MILLPOND_LATE").is_some()
}

/// Starts a server whose items are in memory, even if the tests are run with `MILLPOND_LATE=1`: for
/// tests of what memory has, of listings and counts of that, and of values on their way into it.
pub(crate) fn start_in_memory(config: Config) -> Result<Server, Error> {
    start_in_memory_with_clock(config, base::Clock::System)
}

/// As [`start_in_memory`], on the given clock.
pub(crate) fn start_in_memory_with_clock(config: Config, clock: base::Clock) -> Result<Server, Error> {
    Server::start_with_clock(config, PROTOCOLS, clock)
}

/// Starts a server of both protocols; over a cache that answers late, if the tests are run with
/// `MILLPOND_LATE=1`.
pub(crate) fn start(config: Config) -> Result<Server, Error> {
    if !is_late() {
        return start_in_memory(config);
    }
    start_late(config, base::Clock::System).map(|(server, _)| server)
}

/// Starts a server over a cache that answers late.
pub(crate) fn start_late(config: Config, clock: base::Clock) -> Result<(Server, Arc<Late>), Error> {
    let late = Arc::new(Late::default());
    let server = Server::start_over(config, PROTOCOLS, clock, Arc::clone(&late) as Arc<dyn SecondaryCache>)?;
    late.serve(&server.cache().downgrade());
    Ok((server, late))
}

/// As [`start`], on the given clock.
pub(crate) fn start_with_clock(config: Config, clock: base::Clock) -> Result<Server, Error> {
    if !is_late() {
        return start_in_memory_with_clock(config, clock);
    }
    start_late(config, clock).map(|(server, _)| server)
}

/// A configuration on free ports with two workers and 64 MiB.
pub(crate) fn config() -> Config {
    let mut config =
        Config { memory: Auto::Set(base::ByteSize::mib(64)), threads: Auto::Set(2), ..Config::default() };
    config.listeners = vec![ListenerConfig { address: Address::loopback(0), ..ListenerConfig::default() }];
    config.admin.address = Auto::Set(Address::loopback(0));
    config
}

/// Returns the address of the first listener of `server`.
pub(crate) fn address(server: &Server) -> SocketAddr {
    tcp(&server.addresses()[0].1)
}

pub(crate) fn tcp(address: &Address) -> SocketAddr {
    match address {
        Address::Tcp(address) => *address,
        Address::Unix(path) => panic!("{} is no TCP address", path.display()),
    }
}

/// A client that fails the test when an answer does not come.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        Self { stream, reader }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("sent");
    }

    /// The next line without its end; empty at the end of the connection.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Sends a request and returns the first line of the answer.
    pub(crate) fn ask(&mut self, request: impl AsRef<[u8]>) -> String {
        self.send(request);
        self.line()
    }

    pub(crate) fn read_exact(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.reader.read_exact(&mut bytes).expect("bytes");
        bytes
    }

    /// Waits for the server to close the connection. Returns whether it did.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// The statistic called `name`.
    pub(crate) fn stat(&mut self, name: &str) -> u64 {
        self.send("stats\r\n");
        let mut found = None;
        loop {
            let line = self.line();
            if line == "END" {
                return found.unwrap_or_else(|| panic!("no statistic {name}"));
            }
            if let Some(value) = line.strip_prefix(&format!("STAT {name} ")) {
                found = value.parse().ok();
            }
        }
    }
}

/// Sends a request with a body to the admin server, and returns status line and body.
pub(crate) fn ask_admin(
    server: &Server,
    method: &str,
    path: &str,
    host: &str,
    body: &str,
) -> (String, String) {
    let mut stream =
        TcpStream::connect(server.admin_address().expect("an admin server")).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().expect("a status").to_owned(), body.to_owned())
}

/// Gets a page of the admin server: status line and body.
pub(crate) fn get_page(server: &Server, path: &str) -> (String, String) {
    ask_admin(server, "GET", path, "localhost", "")
}

/// The value of a line of `/metrics`.
pub(crate) fn metric(server: &Server, line: &str) -> u64 {
    let (_, text) = get_page(server, "/metrics");
    text.lines()
        .find_map(|candidate| candidate.strip_prefix(line)?.trim().parse().ok())
        .unwrap_or_else(|| panic!("no metric {line} in:\n{text}"))
}

/// Waits until `condition` holds, and fails the test if it doesn't hold in time.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..800 {
        if condition() {
            return;
        }
        base::thread::sleep(Duration::from_millis(25));
    }
    panic!("timed out while waiting for: {what}");
}

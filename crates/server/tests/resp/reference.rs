//! The servers that are compared.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base::Clock;
use millpond_server::config::{Address, Auto, Protocol};
use millpond_server::{Config, Server};

use crate::support;

/// A configuration of a RESP listener on a free port, with two workers and 64 MiB.
pub(crate) fn config() -> Config {
    let mut config =
        Config { memory: Auto::Set(base::ByteSize::mib(64)), threads: Auto::Set(2), ..Config::default() };
    config.listeners.truncate(1);
    config.listeners[0].address = Address::loopback(0);
    config.listeners[0].protocol = Protocol::Resp;
    config.admin.address = Auto::Set(Address::loopback(0));
    config
}

pub(crate) fn address(server: &Server) -> SocketAddr {
    address_of(server, 0)
}

/// The address of a listener by its place in the configuration.
pub(crate) fn address_of(server: &Server, listener: usize) -> SocketAddr {
    match server.addresses()[listener].1 {
        Address::Tcp(address) => address,
        Address::Unix(_) => panic!("tcp stays tcp"),
    }
}

pub(crate) fn millpond() -> (Server, SocketAddr) {
    start(config(), Clock::System)
}

/// One whose items are in memory, for tests of what lists or counts them.
pub(crate) fn millpond_in_memory() -> (Server, SocketAddr) {
    let server = support::start_in_memory(config()).expect("a server");
    let address = address(&server);
    (server, address)
}

pub(crate) fn start(config: Config, clock: Clock) -> (Server, SocketAddr) {
    let server = support::start_with_clock(config, clock).expect("a server");
    let address = address(&server);
    (server, address)
}

/// A redis-server that ends with the test.
pub(crate) struct Redis {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a redis-server with one database that keeps nothing on disk, if there is one.
pub(crate) fn redis() -> Option<Redis> {
    let binary = match std::env::var_os("MILLPOND_REDIS") {
        Some(path) => PathBuf::from(path),
        None => std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join("redis-server"))
            .find(|binary| binary.is_file())?,
    };
    for _ in 0..5 {
        // The port may be taken between this and redis's own bind: then another is tried.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let settings =
            ["--save", "", "--appendonly", "no", "--databases", "1", "--bind", "127.0.0.1", "--port"];
        let child = Command::new(&binary)
            .args(settings)
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let mut redis = Redis { child, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        for _ in 0..200 {
            if TcpStream::connect(redis.address).is_ok() {
                return Some(redis);
            }
            if redis.child.try_wait().expect("a child").is_some() {
                break;
            }
            base::thread::sleep(Duration::from_millis(25));
        }
    }
    panic!("{} does not listen", binary.display());
}

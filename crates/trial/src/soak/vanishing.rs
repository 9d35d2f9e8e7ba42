//! A client that is gone in the middle of requests, and looks whether the server has noticed.
//!
//! Whether a request that was sent whole is carried out nobody knows, until the server has dropped
//! the connection. One that was sent in part must not be.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base::Clock;
use base::rng::{RngExt, SeededRng};
use bench::targets::resp::command;

use super::Scene;
use super::calls::now;
use super::clients::Client;
use super::settings::{MEMCACHED, REDIS};
use super::tenants::{Holding, write_key};
use crate::check::record::CallKind;
use crate::check::value::Values;

/// Longest time for which the server may keep what nobody uses any more.
const PATIENCE_NANOS: u64 = 20_000_000_000;
const LOOK: Duration = Duration::from_millis(50);
const SIZE: u32 = 8_000;

/// The moment at which a client vanishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// After a whole request, without waiting for its reply.
    AfterRequest,
    /// In the middle of a value.
    WithinValue,
    /// After requests for much, without reading.
    BeforeReplies,
}

/// The client.
pub(super) struct Vanishing {
    scene: Arc<Scene>,
    client: &'static Client,
    number: u16,
    rng: SeededRng,
    values: Values,
}

/// The addresses of a connection's client and server.
type Ends = (SocketAddr, SocketAddr);

impl Vanishing {
    pub(super) fn new(scene: Arc<Scene>, client: &'static Client, number: u16) -> Self {
        let rng = base::rng::seeded(base::hash::mix64(scene.seed ^ u64::from(number) << 35));
        Self { scene, client, number, rng, values: Values::new() }
    }

    pub(super) fn turn(&mut self) {
        let Some(standing) = self.scene.conditions.settled(self.client.tenant) else { return };
        let listener = if self.rng.random_bool(0.5) { REDIS } else { MEMCACHED };
        let leaving = match self.rng.random_range(0..3) {
            0 => Leaving::AfterRequest,
            1 => Leaving::WithinValue,
            _ => Leaving::BeforeReplies,
        };
        match self.vanish(listener, leaving) {
            Ok(()) => self.scene.tally.lock().vanished += 1,
            Err(error) => self.scene.failed(self.client, standing, &error),
        }
    }

    fn vanish(&mut self, listener: &str, leaving: Leaving) -> Result<()> {
        let key = Holding::Strings.near(self.rng.random_range(0..self.scene.keys));
        let scene = Arc::clone(&self.scene);
        let history = &scene.book(self.client).history;
        let ticket = history.begin(key, CallKind::Set, self.number, (SIZE, 0), now());
        let gone = self.send(listener, leaving, key, ticket.record.version);
        let gone = gone.and_then(|ends| self.wait_until_forgotten(ends));
        if gone.is_err() || leaving == Leaving::AfterRequest {
            history.end_unknown(ticket);
        } else if let Err(violation) = history.end_set(ticket, false, now()) {
            self.scene.found(self.client, *violation, None);
        }
        gone
    }

    /// Sends what it sends, and is gone. Where it was, and where the server was.
    fn send(&mut self, listener: &str, leaving: Leaving, key: u64, version: u64) -> Result<Ends> {
        let mut text = Vec::new();
        write_key(key, &mut text);
        let value = self.values.make(self.scene.book(self.client).stamp(key, version), SIZE);
        let mut request = Vec::new();
        match (listener, leaving) {
            (REDIS, Leaving::BeforeReplies) => (0..200).for_each(|_| command(&[b"GET", &text], &mut request)),
            (_, Leaving::BeforeReplies) => (0..200).for_each(|_| {
                request.extend_from_slice(&[b"get ", &text[..], b"\r\n"].concat());
            }),
            (REDIS, _) => command(&[b"SET", &text, value], &mut request),
            _ => {
                let line = format!(" 0 0 {}\r\n", value.len());
                request.extend_from_slice(&[b"set ", &text[..], line.as_bytes(), value, b"\r\n"].concat());
            }
        }
        if leaving == Leaving::WithinValue {
            request.truncate(request.len() - value.len() / 2);
        }
        let mut socket = self.scene.network.socket(listener)?;
        // What the server has answered once it has taken on, and counts among its connections.
        let (greeting, answer): (&[u8], &[u8]) =
            if listener == REDIS { (b"PING\r\n", b"+PONG\r\n") } else { (b"mn\r\n", b"MN\r\n") };
        socket.write_all(greeting).context("greeting")?;
        let mut answered = vec![0; answer.len()];
        socket.read_exact(&mut answered).context("being greeted")?;
        if answered != answer {
            bail!("the server answered {} to a greeting", answered.escape_ascii());
        }
        socket.write_all(&request).context("sending a request")?;
        let ends = (socket.local_addr()?, socket.peer_addr()?);
        if self.rng.random_bool(0.5) {
            // The kernel then says no more than that the connection is reset.
            rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
        Ok(ends)
    }

    /// Waits until the server no longer counts the connection among those of the tenant.
    fn wait_until_forgotten(&self, ends: Ends) -> Result<()> {
        let mut asking = self.scene.network.socket(MEMCACHED)?;
        let until = Clock::System.monotonic_nanos() + PATIENCE_NANOS;
        while is_listed(&connections(&mut asking)?, ends) {
            if Clock::System.monotonic_nanos() > until {
                bail!("the server keeps a connection whose client has vanished");
            }
            base::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Returns whether `stats conns` lists the connection. A client's port alone isn't enough: it may
/// have another connection, to another listener.
fn is_listed(text: &str, (client, server): Ends) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let is_at = |line: &str, address: SocketAddr| line.ends_with(&format!(":{address}"));
    lines.windows(2).any(|pair| is_at(pair[0], client) && is_at(pair[1], server))
}

/// Reads the reply to `stats conns`.
fn connections(socket: &mut TcpStream) -> Result<String> {
    socket.write_all(b"stats conns\r\n").context("asking for connections")?;
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while !text.ends_with(b"END\r\n") {
        match socket.read(&mut part).context("waiting for connections")? {
            0 => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            bytes => text.extend_from_slice(&part[..bytes]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_told_by_both_of_its_ends() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let text = "STAT 9:addr tcp:127.0.0.1:5000\r\nSTAT 9:listen_addr tcp:127.0.0.1:80\r\nSTAT 9:state x\r\nEND\r\n";
        assert!(is_listed(text, (at(5000), at(80))));
        assert!(!is_listed(text, (at(5000), at(81))), "to another listener");
        assert!(!is_listed(text, (at(500), at(80))));
    }
}

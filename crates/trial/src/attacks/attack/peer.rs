//! The attackers' end of a connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use bench::targets::resp::command;
use rustix::net::sockopt;

use super::Scene;

/// Longest time that a call may block, so that an attack ends in time.
const PATIENCE: Duration = Duration::from_millis(200);
/// Most waits of that length for a port.
const PORT_LOOKS: u32 = 25;

/// Connects; calls return after a while whatever happens. Waits for a port: those of connections
/// that this side has closed are not free for a while, so that an attack that opens many can leave
/// none to the next.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut looks = 0;
    let stream = loop {
        match TcpStream::connect(address) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable && looks < PORT_LOOKS => looks += 1,
            result => break result?,
        }
        base::thread::sleep(PATIENCE);
    };
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Connects; calls never wait.
pub(super) fn connect_nonblocking(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = connect(address)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Closes a connection so that the other side is told by RST.
pub(super) fn reset(stream: TcpStream) {
    let _ = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
    drop(stream);
}

/// The outcome of an attempt to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Some.
    Bytes(usize),
    /// None for now.
    Nothing,
    /// The server has ended the connection.
    Ended,
}

/// Reads once.
pub(super) fn read(stream: &mut TcpStream, into: &mut [u8]) -> Moved {
    match stream.read(into) {
        Ok(0) => Moved::Ended,
        Ok(bytes) => Moved::Bytes(bytes),
        Err(error) => what(&error),
    }
}

/// Writes once.
pub(super) fn write(stream: &mut TcpStream, from: &[u8]) -> Moved {
    match stream.write(from) {
        Ok(bytes) => Moved::Bytes(bytes),
        Err(error) => what(&error),
    }
}

fn what(error: &io::Error) -> Moved {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Moved::Nothing,
        _ => Moved::Ended,
    }
}

fn ended() -> anyhow::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the server ended the connection").into()
}

/// Returns whether an error means that the server closed a connection.
pub(super) fn is_end(error: &anyhow::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof))
}

/// Sends requests and reads until the replies end with `mark`, whatever else they are. Returns
/// false if the time was over first, for an attack that has done its work `done` times.
pub(super) fn converse(
    stream: &mut TcpStream,
    (requests, mark): (&[u8], &[u8]),
    scene: &Scene,
    done: u64,
) -> Result<bool> {
    let mut sent = 0;
    let mut buffer = vec![0; 64 << 10];
    let mut tail: Vec<u8> = Vec::new();
    while !tail.ends_with(mark) {
        if scene.is_over(done) {
            return Ok(false);
        }
        if sent < requests.len() {
            match write(stream, &requests[sent..]) {
                Moved::Bytes(bytes) => sent += bytes,
                Moved::Nothing => {}
                Moved::Ended => return Err(ended()),
            }
            if sent < requests.len() {
                continue;
            }
        }
        match read(stream, &mut buffer) {
            Moved::Bytes(bytes) => {
                tail.extend_from_slice(&buffer[..bytes]);
                tail.drain(..tail.len().saturating_sub(mark.len()));
            }
            Moved::Nothing => {}
            Moved::Ended => return Err(ended()),
        }
    }
    Ok(true)
}

/// Asks of the server what an attack needs: all commands of RESP in `requests`, and waits until
/// they are carried out.
pub(super) fn prepare(scene: &Scene, mut requests: Vec<u8>) -> Result<()> {
    let mut stream = connect(scene.neighbour)?;
    command(&[b"ECHO", b"prepared"], &mut requests);
    converse(&mut stream, (&requests, b"$8\r\nprepared\r\n"), scene, 0)?
        .then_some(())
        .context("the server did not answer in time")
}

//! Clients that are slow: with what they send, and with what they are sent.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;
use bench::targets::resp::command;
use rustix::net::sockopt;

use super::Scene;
use super::peer::{Moved, connect_nonblocking, prepare as ask, read, write};

const CONNECTIONS: usize = 100;
/// Between two bytes of a connection.
const PAUSE: Duration = Duration::from_millis(5);
/// The large value that [`prepare`] writes.
pub(super) const LARGE_KEY: &str = "large";
const LARGE_BYTES: usize = 500 << 10;

/// Writes a large value.
pub(super) fn prepare(scene: &Scene) -> Result<()> {
    let mut requests = Vec::new();
    command(&[b"SET", LARGE_KEY.as_bytes(), &vec![b'v'; LARGE_BYTES]], &mut requests);
    ask(scene, requests)
}

/// Requests a byte at a time.
pub(super) fn senders(scene: &Scene) -> Result<u64> {
    const REQUESTS: &[&[u8]] = &[
        b"get a-key and-another\r\n",
        b"set key 0 0 1000\r\nthe value begins here and never comes to its end",
        b"mg key v t f s\r\n",
        b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1000\r\nthe value begins here and never comes to its end",
        b"*1\r\n$4\r\nPING\r\n",
        b"\x80\x01\x00\x03\x08\x00\x00\x00\x00\x00\x01\x00\0\0\0\0\0\0\0\0\0\0\0\0and then a few bytes of its body",
    ];
    let mut senders: Vec<(TcpStream, usize)> = Vec::new();
    let mut buffer = [0; 4096];
    let mut sent = 0;
    while !scene.is_over(sent) {
        while senders.len() < CONNECTIONS {
            senders.push((connect_nonblocking(scene.neighbour)?, 0));
        }
        for (i, (stream, at)) in senders.iter_mut().enumerate() {
            let request = REQUESTS[i % REQUESTS.len()];
            let byte = &request[*at % request.len()..][..1];
            if let Moved::Bytes(1) = write(stream, byte) {
                *at += 1;
                sent += 1;
            }
            if read(stream, &mut buffer) == Moved::Ended {
                (*stream, *at) = (connect_nonblocking(scene.neighbour)?, 0);
            }
        }
        base::thread::sleep(PAUSE);
    }
    Ok(sent)
}

/// Replies a byte at a time, or not at all.
pub(super) fn readers(scene: &Scene) -> Result<u64> {
    let request = asks_for_large(100);
    let mut readers: Vec<TcpStream> = Vec::new();
    let mut byte = [0; 1];
    let mut asked = 0;
    while !scene.is_over(asked) {
        while readers.len() < CONNECTIONS {
            let mut stream = connect_nonblocking(scene.neighbour)?;
            // A small window, so that little of the reply hides in the kernel.
            sockopt::set_socket_recv_buffer_size(&stream, 4096)?;
            if write(&mut stream, &request) != Moved::Ended {
                asked += 1;
                readers.push(stream);
            }
        }
        let mut i = 0;
        readers.retain_mut(|stream| {
            i += 1;
            // A peer that does not read learns of the end by trying to write.
            if i % 2 == 0 {
                read(stream, &mut byte) != Moved::Ended
            } else {
                write(stream, b"\r") != Moved::Ended
            }
        });
        base::thread::sleep(PAUSE);
    }
    Ok(asked)
}

/// Builds `times` reads of the large value, half of them in one request and half in single ones.
pub(super) fn asks_for_large(times: usize) -> Vec<u8> {
    let one = format!("get {LARGE_KEY}\r\n").repeat(times / 2);
    format!("get{}\r\n{one}", format!(" {LARGE_KEY}").repeat(times / 2)).into_bytes()
}

//! Clients that vanish: silent in the middle of a request, or reset in the middle of a reply.
//!
//! A peer that lost its power and one that is silent are the same to a server: nothing comes. The
//! connections are left open, so that it is the server that has to end them.

use std::time::Duration;

use anyhow::Result;

use super::Scene;
use super::peer::{Moved, connect, connect_nonblocking, read, reset, write};
use super::slow::asks_for_large;

const CONNECTIONS: usize = 100;

/// Stops in the middle and is silent.
pub(super) fn silent(scene: &Scene) -> Result<u64> {
    const BEGINNINGS: &[&[u8]] = &[
        b"",
        b"g",
        b"get key",
        b"set key 0 0 100000\r\nthe value begins",
        b"ms key 100000\r\nthe value begins",
        b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$100000\r\nthe value begins",
        b"*1000\r\n$4\r\nMGET\r\n$3\r\n",
        b"*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nGET",
        b"\x80\x01\x00\x03\x08\x00\x00\x00\x00\x01\x00\x00",
    ];
    const HANDSHAKES: &[&[u8]] = &[b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"];
    for i in 0..CONNECTIONS {
        let (address, beginnings) =
            if i % 4 == 3 { (scene.tls, HANDSHAKES) } else { (scene.neighbour, BEGINNINGS) };
        let mut stream = connect_nonblocking(address)?;
        write(&mut stream, beginnings[i % beginnings.len()]);
        scene.left_open.lock().push(stream);
    }
    base::thread::sleep(Duration::from_nanos(scene.left_nanos()));
    Ok(CONNECTIONS as u64)
}

/// Asks for much, reads a little, and resets.
pub(super) fn resets(scene: &Scene) -> Result<u64> {
    let request = asks_for_large(32);
    let mut buffer = vec![0; 8 << 10];
    let mut done = 0;
    while !scene.is_over(done) {
        let mut stream = connect(scene.neighbour)?;
        if write(&mut stream, &request) != Moved::Ended {
            read(&mut stream, &mut buffer);
        }
        reset(stream);
        done += 1;
    }
    Ok(done)
}

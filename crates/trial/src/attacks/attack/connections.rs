//! Connections for their own sake: opened and closed at once, and held beyond what is allowed.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;

use super::Scene;
use super::peer::{Moved, connect, connect_nonblocking, read, reset, write};

/// Opens and closes: without a word, after a request, by FIN and by RST.
pub(super) fn flood(scene: &Scene) -> Result<u64> {
    let mut opened = 0;
    while !scene.is_over(opened) {
        let address = if opened % 8 == 7 { scene.tls } else { scene.neighbour };
        // Ports of this side run out for a moment where they are closed by FIN.
        let Ok(mut stream) = connect(address) else { continue };
        if opened % 2 == 1 {
            write(&mut stream, b"get key\r\n");
        }
        if opened % 16 == 0 {
            drop(stream)
        } else {
            reset(stream)
        }
        opened += 1;
    }
    Ok(opened)
}

/// Holds twice as many as there may be.
pub(super) fn hold(scene: &Scene) -> Result<u64> {
    let mut held: Vec<TcpStream> = Vec::new();
    let mut buffer = [0; 256];
    let mut opened = 0;
    while !scene.is_over(opened) {
        while held.len() < 2 * scene.max_connections as usize && !scene.is_over(opened) {
            let mut stream = connect_nonblocking(scene.neighbour)?;
            write(&mut stream, b"get key\r\n");
            opened += 1;
            held.push(stream);
        }
        held.retain_mut(|stream| read(stream, &mut buffer) != Moved::Ended);
        base::thread::sleep(Duration::from_millis(10));
    }
    Ok(opened)
}

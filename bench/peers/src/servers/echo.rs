//! The bare echo server: what comes is sent back, and nothing else is done. No server on this
//! kernel's sockets answers faster with one `recv` and one `send` for what a client sends at a
//! time.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::Result;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;

/// Echoes on `port` until the process is killed.
pub(crate) fn serve(port: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let listening = epoll::EventData::new_u64(u64::MAX);
    epoll::add(&epoll, &listener, listening, epoll::EventFlags::IN)?;
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let (mut events, mut bytes) = (Vec::with_capacity(256), vec![0; 64 << 10]);
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            // It was stopped while others had their turns.
            Err(Errno::INTR) => continue,
            result => result?,
        };
        for event in &events {
            let data = event.data;
            if data.u64() == u64::MAX {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let place = epoll::EventData::new_u64(streams.len() as u64);
                epoll::add(&epoll, &stream, place, epoll::EventFlags::IN)?;
                streams.push(Some(stream));
                continue;
            }
            let place = &mut streams[data.u64() as usize];
            let Some(stream) = place else { continue };
            if !echo(stream, &mut bytes) {
                *place = None;
            }
        }
    }
}

/// Sends back what has come. Whether the connection goes on.
fn echo(stream: &mut TcpStream, bytes: &mut [u8]) -> bool {
    match stream.read(bytes) {
        Ok(0) => false,
        Ok(n) => stream.write_all(&bytes[..n]).is_ok(),
        Err(error) => error.kind() == ErrorKind::Interrupted,
    }
}

//! A connection to a server, with or without TLS.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The name in the certificates that servers are given.
pub(crate) const SERVER_NAME: &str = "localhost";

/// Largest size of a TLS record's content, in bytes.
pub(crate) const TLS_RECORD_BYTES: usize = 16 << 10;

/// The address of a server, and the certificates to trust there.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// `None` without TLS.
    pub(crate) trust: Option<Arc<ClientConfig>>,
}

/// A connection.
pub(crate) enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Through TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects, and shakes hands where there is TLS. Reads wait for at most `patience`.
    pub(crate) fn open(target: &Target, patience: Duration) -> Result<Self> {
        let mut socket = TcpStream::connect(target.address).context("connecting to the server")?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(patience))?;
        let Some(trust) = &target.trust else { return Ok(Self::Plain(socket)) };
        let mut session = ClientConnection::new(Arc::clone(trust), ServerName::try_from(SERVER_NAME)?)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket).context("shaking hands with the server")?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// The socket beneath.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref(),
        }
    }

    /// Returns whether there is decrypted input to read, which the socket doesn't report as
    /// readable.
    pub(crate) fn holds_input(&mut self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => {
                stream.conn.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
            }
        }
    }

    /// Returns whether output is buffered that the socket hasn't taken.
    pub(crate) fn holds_output(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.conn.wants_write(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(from),
            Self::Tls(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

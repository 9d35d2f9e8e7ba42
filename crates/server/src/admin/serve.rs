//! A listener that admits few connections at a time and hangs up on silent ones, with TLS if it is
//! configured.
//!
//! Handshakes run beside each other: a client that is slow in one holds a place, as any connection
//! does, and delays no other.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use control::patient::{Bounded, Patient};
use frontend::shared::Shared;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 32;
/// Longest time that a handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// The listener.
pub(super) struct PatientListener {
    socket: Bounded,
    shared: Arc<Shared>,
    /// The connections whose handshake is complete.
    opened: mpsc::Receiver<(Patient<Transport>, SocketAddr)>,
    opening: mpsc::Sender<(Patient<Transport>, SocketAddr)>,
}

impl PatientListener {
    /// Takes over a non-blocking socket; to be called within a runtime.
    pub(super) fn new(socket: std::net::TcpListener, shared: Arc<Shared>) -> io::Result<Self> {
        let socket = Bounded::new(TcpListener::from_std(socket)?, MAX_CONNECTIONS);
        let (opening, opened) = mpsc::channel(MAX_CONNECTIONS);
        Ok(Self { socket, shared, opened, opening })
    }
}

impl axum::serve::Listener for PatientListener {
    type Io = Patient<Transport>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Patient<Transport>, SocketAddr) {
        loop {
            let (stream, place, peer) = tokio::select! {
                Some(opened) = self.opened.recv() => return opened,
                next = self.socket.admit() => next,
            };
            let Some(tls) = self.shared.admin_tls.get() else {
                return (Patient::new(Transport::Plain(stream), place), peer);
            };
            let opening = self.opening.clone();
            let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
            tokio::spawn(async move {
                match tokio::time::timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let stream = Patient::new(Transport::Tls(Box::new(stream)), place);
                        let _ = opening.send((stream, peer)).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS with an operator has failed."),
                    Err(_) => tracing::debug!(%peer, "A handshake with an admin client timed out."),
                }
            });
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// The transport of a connection.
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls the same method of whatever carries the connection.
macro_rules! forward {
    ($stream:expr, $method:ident($($argument:expr),*)) => {
        match &mut $stream {
            Transport::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Transport::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl Transport {
    /// Returns whether the connection is encrypted.
    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Returns the address to which the client has connected.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        let socket = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        socket.local_addr().ok()
    }

    /// Returns whether the client has presented a certificate, which was verified.
    pub(super) fn is_verified(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.peer_certificates().is_some(),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        forward!(*self, poll_read(context, buffer))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        forward!(*self, poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(*self, poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(*self, poll_shutdown(context))
    }
}

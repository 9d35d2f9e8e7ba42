//! A listener that admits few connections at a time and hangs up on silent ones.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 32;
/// How long a connection may go without a byte in either direction.
const PATIENCE: Duration = Duration::from_secs(75);

/// The listener.
pub(super) struct PatientListener {
    socket: TcpListener,
    places: Arc<Semaphore>,
}

impl PatientListener {
    /// Takes over a non-blocking socket; to be called within a runtime.
    pub(super) fn new(socket: std::net::TcpListener) -> io::Result<Self> {
        let socket = TcpListener::from_std(socket)?;
        Ok(Self { socket, places: Arc::new(Semaphore::new(MAX_CONNECTIONS)) })
    }
}

impl axum::serve::Listener for PatientListener {
    type Io = PatientStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (PatientStream, SocketAddr) {
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await.ok();
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    let deadline = Box::pin(tokio::time::sleep(PATIENCE));
                    return (PatientStream { stream, deadline, _place: place }, peer);
                }
                // Out of descriptors, mostly: others must end first.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// A connection that fails when nothing happens on it for too long.
pub(super) struct PatientStream {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl PatientStream {
    /// Passes on what became of an attempt: a success moves the deadline, and waiting past it is a failure.
    fn judge<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.deadline.as_mut().reset(Instant::now() + PATIENCE);
            return result;
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.judge(context, result)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

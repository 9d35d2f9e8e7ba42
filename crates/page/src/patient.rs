//! A connection of an operator that hangs up on silence, and its place among those that are
//! admitted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

/// Longest time for which a connection may stay without a byte in either direction.
const PATIENCE: Duration = Duration::from_secs(75);

/// A connection that fails when nothing happens on it for too long, and holds a place until it
/// ends.
#[derive(Debug)]
pub struct Patient<S> {
    stream: S,
    deadline: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Patient<S> {
    /// A connection over `stream`; to be called within a runtime.
    pub fn new(stream: S, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { stream, deadline: Box::pin(tokio::time::sleep(PATIENCE)), _place: place }
    }

    /// Returns what carries it.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Passes on the result of an attempt: a success moves the deadline, and waiting past it is a
    /// failure.
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

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.judge(context, result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
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

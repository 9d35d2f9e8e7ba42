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
/// Longest time from the first byte of a request to the first one of its answer: a client that
/// sends a byte now and then does not keep its place.
const LONGEST_REQUEST: Duration = Duration::from_secs(20);

/// A connection that fails when nothing happens on it for too long, and holds a place until it
/// ends.
#[derive(Debug)]
pub struct Patient<S> {
    stream: S,
    deadline: Pin<Box<Sleep>>,
    /// The time of the first byte since the last answer.
    asked_at: Option<Instant>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Patient<S> {
    /// A connection over `stream`; to be called within a runtime.
    pub fn new(stream: S, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { stream, deadline: Box::pin(tokio::time::sleep(PATIENCE)), asked_at: None, _place: place }
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
        if result.is_ready() {
            let now = Instant::now();
            let asked_at = *self.asked_at.get_or_insert(now);
            if now > asked_at + LONGEST_REQUEST {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
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
        if result.is_ready() {
            self.asked_at = None;
        }
        self.judge(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_comes_a_byte_at_a_time_is_given_up() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Patient::new(server, None);
        let mut byte = [0];
        let mut sent = 0;
        while sent < 100 {
            client.write_all(b"x").await.expect("room");
            tokio::time::advance(Duration::from_secs(3)).await;
            sent += 1;
            if server.read(&mut byte).await.is_err() {
                break;
            }
        }
        assert_eq!(sent, 8, "bytes until 20 s have passed");
        // One that is answered in between may go on for ever.
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Patient::new(server, None);
        for _ in 0..20 {
            client.write_all(b"x").await.expect("room");
            tokio::time::advance(Duration::from_secs(15)).await;
            server.read_exact(&mut byte).await.expect("a request");
            server.write_all(b"y").await.expect("an answer");
            client.read_exact(&mut byte).await.expect("an answer");
        }
    }
}

//! Connections that hang up on silence, and a listener that admits a bounded number of them:
//! whoever can reach an address of the control plane cannot take all descriptors of the process.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tonic::transport::server::Connected;

/// Longest time from the start of a connection to its first byte.
const FIRST_BYTE: Duration = Duration::from_secs(10);
/// Longest time for which a connection may stay without a byte in either direction.
const PATIENCE: Duration = Duration::from_secs(75);
/// Longest time from the first byte of a request to the first one of its answer: a client that
/// sends a byte now and then does not keep its place.
const LONGEST_REQUEST: Duration = Duration::from_secs(20);
/// Longest time from the first byte of an answer to its last one, for the same reason: some MB over
/// a slow line take less.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);
/// Time until the next attempt, if the system gives no descriptor.
const PAUSE: Duration = Duration::from_millis(200);

/// A connection that fails when nothing happens on it for too long, and holds a place until it
/// ends.
#[derive(Debug)]
pub struct Patient<S> {
    stream: S,
    deadline: Pin<Box<Sleep>>,
    /// True if a byte is answered before the next request comes: not so in HTTP/2, whose frames are
    /// of many requests, or of none.
    has_turns: bool,
    /// True once a byte has come.
    is_heard: bool,
    /// The time of the first byte since the last answer.
    asked_at: Option<Instant>,
    /// The time of the first byte of an answer since the last one of a request.
    answered_at: Option<Instant>,
    /// True while a byte of an answer waits for the other end to read.
    is_unread: bool,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Patient<S> {
    /// A connection of HTTP/1 over `stream`; to be called within a runtime.
    pub fn new(stream: S, place: Option<OwnedSemaphorePermit>) -> Self {
        let deadline = Box::pin(tokio::time::sleep(FIRST_BYTE));
        Self {
            stream,
            deadline,
            has_turns: true,
            is_heard: false,
            asked_at: None,
            answered_at: None,
            is_unread: false,
            _place: place,
        }
    }

    /// A connection of HTTP/2 over `stream`, whose other end is alive if it sends anything.
    fn without_turns(stream: S, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { has_turns: false, ..Self::new(stream, place) }
    }

    /// Returns what carries it.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Passes on the result of an attempt: a success moves the deadline once a byte has come, and
    /// waiting past it is a failure.
    fn judge<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            // In HTTP/2 the first word is the server's, whether or not anybody listens.
            if self.is_heard {
                self.deadline.as_mut().reset(Instant::now() + PATIENCE);
            }
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
        self.is_heard |= result.is_ready();
        if result.is_ready() && self.has_turns {
            // What is sent before an answer is read does not end that.
            if !self.is_unread {
                self.answered_at = None;
            }
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
        self.is_unread = result.is_pending();
        if result.is_ready() && self.has_turns {
            self.asked_at = None;
            let now = Instant::now();
            let answered_at = *self.answered_at.get_or_insert(now);
            if now > answered_at + LONGEST_ANSWER {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
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

impl Connected for Patient<TcpStream> {
    type ConnectInfo = <TcpStream as Connected>::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

/// A listener that accepts while there are places. Others wait, as the system lets them.
#[derive(Debug)]
pub struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// True while none can be accepted, which is logged once.
    is_failing: AtomicBool,
}

impl Bounded {
    /// A listener with `most` connections at the same time.
    pub fn new(listener: TcpListener, most: usize) -> Self {
        let places = Arc::new(Semaphore::new(most));
        Self { listener, places, is_failing: AtomicBool::new(false) }
    }

    /// The address.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for the next connection, and for a place of it.
    pub async fn accept(&self) -> (Patient<TcpStream>, SocketAddr) {
        let (stream, place, address) = self.admit().await;
        (Patient::new(stream, place), address)
    }

    /// The connections, of HTTP/2.
    pub fn into_stream(self) -> impl Stream<Item = io::Result<Patient<TcpStream>>> + Send {
        stream::unfold(self, async |listener| {
            let (stream, place, _) = listener.admit().await;
            Some((Ok(Patient::without_turns(stream, place)), listener))
        })
    }

    /// Waits for a place, and for the connection that has it.
    pub async fn admit(&self) -> (TcpStream, Option<OwnedSemaphorePermit>, SocketAddr) {
        // The semaphore is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    // Only slower without it.
                    let _ = stream.set_nodelay(true);
                    self.is_failing.store(false, Ordering::Relaxed);
                    return (stream, place, address);
                }
                Err(error) => {
                    // Without a pause, a process without descriptors would try all the time.
                    if !self.is_failing.swap(true, Ordering::Relaxed) {
                        let address = self.listener.local_addr().ok();
                        tracing::warn!(%error, ?address, "Connections cannot be accepted.");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
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

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_read_a_byte_at_a_time_is_given_up() {
        /// The time that a client takes to read a byte.
        const READ_PAUSE: Duration = Duration::from_secs(3);
        for asks_more in [false, true] {
            let (client, server) = tokio::io::duplex(1);
            let (mut answers, mut requests) = tokio::io::split(client);
            let (mut asked, mut server) = tokio::io::split(Patient::new(server, None));
            requests.write_all(b"x").await.expect("room");
            asked.read_u8().await.expect("a request");
            let reads = async {
                while answers.read_u8().await.is_ok() {
                    tokio::time::sleep(READ_PAUSE).await;
                    if asks_more {
                        // The other end may be gone.
                        let _ = requests.write_u8(b'x').await;
                    }
                }
            };
            let start = Instant::now();
            let writes = async move {
                let requests = async {
                    while asked.read_u8().await.is_ok() {}
                    std::future::pending().await
                };
                let written = tokio::select! {
                    written = server.write_all(&[0; 100]) => written,
                    more = requests => more,
                };
                (written.map_err(|error| error.kind()), start.elapsed())
            };
            let ((), (written, elapsed)) = tokio::join!(reads, writes);
            assert_eq!(written, Err(io::ErrorKind::TimedOut));
            // The first byte after the minute ends it, and a request that comes before the first
            // byte waits may start it anew: two pauses, and a third for the timer's rounding.
            assert!(elapsed >= LONGEST_ANSWER, "{elapsed:?}");
            assert!(elapsed < LONGEST_ANSWER + 3 * READ_PAUSE, "{elapsed:?}");
        }
    }

    /// The time after which a connection with no further byte fails.
    async fn patience(server: &mut Patient<tokio::io::DuplexStream>) -> u64 {
        let start = Instant::now();
        server.read_u8().await.expect_err("silence");
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_never_says_anything_is_given_up_sooner() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Patient::new(server, None);
        assert_eq!(patience(&mut server).await, 10);
        let (_silent, server) = tokio::io::duplex(64);
        let mut server = Patient::without_turns(server, None);
        server.write_all(b"the server's settings").await.expect("room");
        assert_eq!(patience(&mut server).await, 10);
        let (mut other, server) = tokio::io::duplex(64);
        let mut server = Patient::new(server, None);
        other.write_all(b"x").await.expect("room");
        server.read_u8().await.expect("a byte");
        assert_eq!(patience(&mut server).await, 75);
        client.write_all(b"x").await.expect("room");
    }

    #[tokio::test(start_paused = true)]
    async fn frames_without_an_answer_keep_a_connection_of_many_requests() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Patient::without_turns(server, None);
        for _ in 0..20 {
            client.write_all(b"x").await.expect("room");
            tokio::time::advance(Duration::from_secs(70)).await;
            server.read_u8().await.expect("a frame");
        }
    }

    #[tokio::test]
    async fn connections_beyond_the_places_wait_until_one_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let listener = Bounded::new(listener, 2);
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.expect("the system has room"));
        }
        let (first, _) = listener.accept().await;
        let (_second, _) = listener.accept().await;
        let wait = Duration::from_millis(50);
        tokio::time::timeout(wait, listener.accept()).await.expect_err("there is no place");
        drop(first);
        let (_, third) = listener.accept().await;
        assert_eq!(third, clients[2].local_addr().expect("an address"));
    }
}

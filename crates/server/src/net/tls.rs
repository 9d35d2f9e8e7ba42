//! TLS between a connection's socket and its session, with rustls doing the protocol and this file
//! the moving of bytes.
//!
//! Records are received into a buffer of the worker's, decrypted, and handed on; answers are
//! encrypted into another, as many records as fit, and sent by one call. A connection keeps only
//! the remainder: the start of a record whose rest has not come, and encrypted bytes that the
//! kernel has not taken.
//!
//! Invariants:
//! 1. `pending` is what rustls has not asked to discard, from the first such byte on; it is given
//!    to rustls in each call, before anything that came later.
//! 2. What is encrypted is sent in the order in which it was: nothing is encrypted while `unsent`
//!    is not sent.

use std::os::fd::AsFd;
use std::sync::Arc;

use frontend::output::{Output, Sent};
use frontend::tls::{RECORDS, TlsBuffers};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{AlertDescription, HandshakeKind, ServerConfig};
use tenancy::metrics::Counter;

use super::retry;

/// The memory that rustls uses for a connection besides its own size: keys, and the state of the
/// peer. Of the 4.5 KiB measured for an idle connection (with 2,000 of them), 1.0 KiB is used
/// without TLS too.
const STATE_BYTES: usize = 2048;

/// The outcome of receiving.
#[derive(Debug)]
pub(crate) enum Received {
    /// Something came from the socket.
    Some,
    Nothing,
    /// The client will send no more.
    End,
    /// It broke the rules; what it is told is with what is to be sent.
    Failed(rustls::Error),
}

/// TLS on one connection.
pub(crate) struct TlsStream {
    tls: UnbufferedServerConnection,
    pending: Vec<u8>,
    unsent: Vec<u8>,
    /// Number of bytes of `unsent` that are sent.
    sent: usize,
    /// The client has said that it will send no more.
    is_ended: bool,
    /// The handshake was seen to be complete.
    is_open: bool,
    /// The client broke the rules: what it is told is in `unsent`, and rustls is asked no more.
    is_failed: bool,
}

impl TlsStream {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let tls = UnbufferedServerConnection::new(config)?;
        Ok(Self {
            tls,
            pending: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            is_ended: false,
            is_open: false,
            is_failed: false,
        })
    }

    /// Memory that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Self>() + STATE_BYTES + self.pending.capacity() + self.unsent.capacity()
    }

    /// Returns whether the kernel has all encrypted bytes.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent == self.unsent.len()
    }

    /// Returns whether a record has been received in part.
    pub(crate) fn is_within_record(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether the handshake is still in progress.
    pub(crate) fn is_in_handshake(&self) -> bool {
        !self.is_open
    }

    /// Returns whether the client has announced that it will send no more.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns the counter to increase, once, when the handshake is complete.
    pub(crate) fn take_opened(&mut self) -> Option<Counter> {
        if self.is_open || self.tls.is_handshaking() {
            return None;
        }
        self.is_open = true;
        let is_resumed = self.tls.handshake_kind() == Some(HandshakeKind::Resumed);
        Some(if is_resumed { Counter::TlsResumed } else { Counter::TlsFull })
    }

    /// The client's certificate, which was verified.
    pub(crate) fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.peer_certificates()?.first()
    }

    /// Receives once, and calls `deliver` with what was in each record.
    ///
    /// # Errors
    /// Where the connection is broken.
    pub(crate) fn receive(
        &mut self,
        socket: impl AsFd,
        buffers: &mut TlsBuffers,
        mut deliver: impl FnMut(&[u8], &mut Vec<u8>),
    ) -> Result<Received, Errno> {
        let held = self.pending.len();
        let TlsBuffers { cipher, plain, outgoing, .. } = buffers;
        plain.clear();
        let Some((front, room)) = cipher.split_at_mut_checked(held).filter(|(_, room)| !room.is_empty())
        else {
            return Ok(Received::Failed(rustls::Error::PeerSentOversizedRecord));
        };
        let received = match retry(|| rustix::io::read(&socket, &mut *room)) {
            Ok(0) => return Ok(Received::End),
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(error) => return Err(error),
        };
        front.copy_from_slice(&self.pending);
        let filled = cipher.get_mut(..held + received).unwrap_or_default();
        let outcome = self.process(filled, outgoing, |payload| deliver(payload, plain));
        let used = match outcome {
            Ok(used) => used,
            Err(error) => {
                (self.pending, self.is_failed) = (Vec::new(), true);
                return Ok(Received::Failed(error));
            }
        };
        let rest = cipher.get(used..held + received).unwrap_or_default();
        if rest.is_empty() {
            self.pending = Vec::new();
        } else {
            self.pending.clear();
            self.pending.extend_from_slice(rest);
        }
        Ok(Received::Some)
    }

    /// Lets rustls have `bytes`, and returns how many of them it is done with. What it wants to say
    /// is put behind what is unsent.
    fn process(
        &mut self,
        bytes: &mut [u8],
        outgoing: &mut [u8],
        mut deliver: impl FnMut(&[u8]),
    ) -> Result<usize, rustls::Error> {
        let mut used = 0;
        let mut failure = None;
        loop {
            // After a failure only the alert that rustls has for the client is sent.
            if let Some(failure) = failure.take_if(|_| !self.tls.wants_write()) {
                return Err(failure);
            }
            let rest = bytes.get_mut(used..).unwrap_or_default();
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(rest);
            let mut is_done = false;
            let state = match state {
                Ok(state) => state,
                Err(error) => {
                    used += discard;
                    failure = Some(error);
                    continue;
                }
            };
            match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        deliver(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    let encoded =
                        data.encode(outgoing).map_err(|error| rustls::Error::General(error.to_string()))?;
                    self.unsent.extend_from_slice(outgoing.get(..encoded).unwrap_or_default());
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.is_ended = true,
                // It is open, or needs more, or is over. Early data is not offered, so that none
                // comes.
                _ => is_done = true,
            }
            used += discard;
            if is_done {
                return Ok(used);
            }
        }
    }

    /// Encrypts and sends `output`, as much of it as the kernel takes.
    ///
    /// # Errors
    /// Where the connection is broken; what was not sent never will be.
    pub(crate) fn send<V: std::ops::Deref<Target = [u8]>>(
        &mut self,
        socket: impl AsFd,
        output: &mut Output<V>,
        buffers: &mut TlsBuffers,
        most: usize,
    ) -> Result<Sent, Errno> {
        let before = output.len();
        loop {
            if !self.is_sent() && self.send_unsent(&socket)? == Sent::Blocked {
                return Ok(Sent::Blocked);
            }
            if output.is_empty() {
                output.reset();
                return Ok(Sent::All);
            }
            if before - output.len() >= most {
                return Ok(Sent::Part);
            }
            let filled = self.encrypt(output, buffers)?;
            let mut records = buffers.outgoing.get(..filled).unwrap_or_default();
            // What rustls said in between comes first.
            if !self.is_sent() {
                self.unsent.extend_from_slice(records);
                continue;
            }
            while !records.is_empty() {
                match rustix::net::send(&socket, records, SendFlags::NOSIGNAL) {
                    Ok(sent) => records = records.get(sent..).unwrap_or_default(),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => {
                        self.unsent.extend_from_slice(records);
                        return Ok(Sent::Blocked);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Encrypts as much of `output` as fits, and returns the number of encrypted bytes.
    fn encrypt<V: std::ops::Deref<Target = [u8]>>(
        &mut self,
        output: &mut Output<V>,
        buffers: &mut TlsBuffers,
    ) -> Result<usize, Errno> {
        if self.is_failed {
            return Err(Errno::PIPE);
        }
        let TlsBuffers { chunk, outgoing, .. } = buffers;
        let mut pending = std::mem::take(&mut self.pending);
        let filled = loop {
            // By the rules of rustls it sees what has come, though there is nothing new.
            let UnbufferedStatus { state, .. } = self.tls.process_tls_records(&mut pending);
            match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let mut filled = 0;
                    for _ in 0..RECORDS {
                        let piece = output.next_chunk(chunk);
                        let room = outgoing.get_mut(filled..).unwrap_or_default();
                        let len = piece.len();
                        let Ok(encrypted) = traffic.encrypt(piece, room) else { break };
                        filled += encrypted;
                        output.advance(len);
                        if output.is_empty() {
                            break;
                        }
                    }
                    break filled;
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => match data.encode(outgoing) {
                    Ok(encoded) => {
                        self.unsent.extend_from_slice(outgoing.get(..encoded).unwrap_or_default());
                    }
                    Err(_) => break 0,
                },
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => break 0,
            }
        };
        self.pending = pending;
        // Its keys are used up, or it is in no state to say anything.
        if filled == 0 && self.is_sent() { Err(Errno::PIPE) } else { Ok(filled) }
    }

    fn send_unsent(&mut self, socket: impl AsFd) -> Result<Sent, Errno> {
        while let Some(rest) = self.unsent.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match rustix::net::send(&socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Sent::Blocked),
                Err(error) => return Err(error),
            }
        }
        (self.unsent, self.sent) = (Vec::new(), 0);
        Ok(Sent::All)
    }

    /// Tells the client that no more will come, if it can be told at once.
    pub(crate) fn say_goodbye(&mut self, socket: impl AsFd, buffers: &mut TlsBuffers) {
        if !self.is_open || self.is_failed || !self.is_sent() {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) =
            self.tls.process_tls_records(&mut pending).state
            && let Ok(len) = traffic.queue_close_notify(&mut buffers.outgoing)
        {
            let _ = rustix::net::send(
                socket,
                buffers.outgoing.get(..len).unwrap_or_default(),
                SendFlags::NOSIGNAL,
            );
        }
    }
}

/// The counter of a TLS failure's reason.
pub(crate) fn reason(error: &rustls::Error) -> Counter {
    use rustls::Error as E;
    match error {
        E::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => Counter::TlsNotTls,
        E::PeerIncompatible(_) | E::NoApplicationProtocol => Counter::TlsIncompatible,
        E::NoCertificatesPresented | E::InvalidCertificate(_) => Counter::TlsClientCertificate,
        E::AlertReceived(AlertDescription::UserCanceled) => Counter::TlsClosed,
        E::AlertReceived(_) => Counter::TlsRefusedByClient,
        _ => Counter::TlsOther,
    }
}

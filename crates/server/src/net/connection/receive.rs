//! Bytes that arrive on a connection, plain or by TLS.

use super::super::retry;
use super::super::tls::{self, TlsStream};
use super::{Connection, MIN_MISSING_BYTES, Received};
use frontend::context::Context;
use frontend::shared::Shared;
use frontend::tls::{Subject, TlsBuffers};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use tenancy::metrics::Counter;

impl<'c> Connection<'c> {
    pub(super) fn receive(&mut self, context: &mut Context<'c>) -> Result<Received, Errno> {
        if let Some(mut tls) = self.tls.take() {
            let mut buffers = context.tls.take().unwrap_or_default();
            let result = self.receive_tls(&mut tls, &mut buffers, context);
            (self.tls, context.tls) = (Some(tls), Some(buffers));
            return result;
        }
        // The worker's buffer is taken for the time of the call, so that the context can be lent to
        // the session.
        let mut buffer = std::mem::take(&mut context.receive_buffer);
        let result = self.receive_into(&mut buffer, context);
        context.receive_buffer = buffer;
        result
    }

    pub(super) fn receive_into(
        &mut self,
        buffer: &mut [u8],
        context: &mut Context<'c>,
    ) -> Result<Received, Errno> {
        let socket = self.socket.as_fd();
        let (received, direct) = match self.session.value_buffer() {
            Some(value) if value.len() >= MIN_MISSING_BYTES => {
                let wanted = value.len().min(context.settings.max_moved_bytes);
                if wanted < value.len() {
                    let part = value.get_mut(..wanted).unwrap_or_default();
                    (retry(|| rustix::io::read(socket, &mut *part)), wanted)
                } else {
                    let mut pieces = [IoSliceMut::new(value), IoSliceMut::new(buffer)];
                    (retry(|| rustix::io::readv(socket, &mut pieces)), wanted)
                }
            }
            _ => (retry(|| rustix::io::read(socket, &mut *buffer)), 0),
        };
        let received = match received {
            Ok(0) => return Ok(Received::End),
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(error) => return Err(error),
        };
        self.moved_secs = context.now_secs;
        self.count_received(received, received.min(direct));
        if direct > 0 {
            self.session.value_received(received.min(direct));
        }
        self.take(buffer.get(..received.saturating_sub(direct)).unwrap_or_default(), context);
        Ok(Received::Some)
    }

    /// As [`Self::receive_into`], through TLS.
    pub(super) fn receive_tls(
        &mut self,
        tls: &mut TlsStream,
        buffers: &mut TlsBuffers,
        context: &mut Context<'c>,
    ) -> Result<Received, Errno> {
        let session = &mut self.session;
        let (mut delivered, mut direct_bytes) = (0, 0);
        let received = tls.receive(&self.socket, buffers, |mut payload, plain| {
            delivered += payload.len();
            if plain.is_empty()
                && let Some(value) = session.value_buffer().filter(|value| value.len() >= MIN_MISSING_BYTES)
            {
                let direct = value.len().min(payload.len());
                let (front, rest) = payload.split_at(direct);
                if let Some(place) = value.get_mut(..direct) {
                    place.copy_from_slice(front);
                }
                session.value_received(direct);
                direct_bytes += direct;
                payload = rest;
            }
            plain.extend_from_slice(payload);
        })?;
        match received {
            tls::Received::Some => {}
            tls::Received::Nothing => return Ok(Received::Nothing),
            tls::Received::End => return Ok(Received::End),
            tls::Received::Failed(error) => {
                self.fail_tls(&error, context.shared);
                return Ok(Received::Some);
            }
        }
        self.moved_secs = context.now_secs;
        self.count_received(delivered, direct_bytes);
        if let Some(counter) = tls.take_opened() {
            self.open(counter, tls, context);
        }
        if !tls.is_in_handshake() {
            self.take(&buffers.plain, context);
        }
        Ok(Received::Some)
    }

    /// Counts bytes that were received, of which `direct` went straight into a value. Where the
    /// tenant is by the key, the others count as they are consumed.
    pub(super) fn count_received(&mut self, received: usize, direct: usize) {
        let bytes = if self.info.listener.by_prefix { direct } else { received } as u64;
        self.spent.received += bytes;
        self.account().counters.add(Counter::ReceivedBytes, bytes);
    }

    /// Gives `bytes`, which came behind what is in `input`, to the session, and keeps what it
    /// leaves.
    pub(super) fn take(&mut self, bytes: &[u8], context: &mut Context<'c>) {
        if self.input.is_empty() {
            let consumed = self.answer(bytes, context);
            let rest = bytes.get(consumed..).unwrap_or_default();
            if !rest.is_empty() && self.closing.is_none() {
                self.input.append(rest);
            }
        } else {
            self.input.append(bytes);
            self.answer_pending(context);
        }
    }

    /// The handshake is complete.
    pub(super) fn open(&mut self, counter: Counter, tls: &TlsStream, context: &Context<'c>) {
        self.account().counters.add(counter, 1);
        self.info.active_secs.store(context.now_secs, Ordering::Relaxed);
        if let Some(subject) = tls.peer_certificate().and_then(|der| Subject::of(der)) {
            tracing::debug!(peer = %self.info.peer, %subject, "A client's certificate was verified.");
            let _ = self.info.subject.set(subject);
        }
    }

    /// The client broke the rules of TLS, or has no certificate that is good here. It is told so.
    pub(super) fn fail_tls(&mut self, error: &rustls::Error, shared: &Shared) {
        self.account().counters.add(tls::reason(error), 1);
        shared.tell_of_tls(&self.info, error);
        self.closing = Some(Counter::ClosedTls);
    }
}

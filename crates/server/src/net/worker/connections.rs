//! Connections of a worker come and go: accepted, admitted or refused, served, closed.

use super::super::connection::Connection;
use super::super::listener::Listener;
use super::super::tls::TlsStream;
use super::{MAX_ACCEPTS, Worker, refuse, spare_descriptor};
use base::Part;
use frontend::connections::ConnectionInfo;
use frontend::listener::ListenerState;
use frontend::mailbox::{Message, Token};
use frontend::peer::Peer;
use frontend::tls::TlsBuffers;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenancy::Account;
use tenancy::budget::Held;
use tenancy::metrics::Counter;

impl Worker<'_> {
    pub(super) fn accept(&mut self, number: usize) {
        let Some(listener) = self.listeners.get(number).cloned() else { return };
        for _ in 0..MAX_ACCEPTS {
            let accepted = {
                let _accepting = self.context.shared.accepting();
                listener.accept()
            };
            match accepted {
                Ok((socket, peer)) => self.admit(socket, peer, number),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::MFILE | Errno::NFILE) => {
                        if !self.refuse_for_want_of_descriptors(&listener, number) {
                            return;
                        }
                    }
                    // The client was gone before it was accepted, or the kernel was short of memory
                    // for a moment.
                    _ => tracing::debug!(%error, "A connection could not be accepted."),
                },
            }
        }
    }

    /// Takes a connection that waits and closes it at once, so that it does not wait, and wake the
    /// worker, for ever. Returns whether that worked.
    pub(super) fn refuse_for_want_of_descriptors(&mut self, listener: &Listener, number: usize) -> bool {
        // Or else another worker would accept with the descriptor that is given up here, and it
        // would not come back.
        let _accepting = self.context.shared.accepting();
        drop(self.spare_descriptor.take());
        let refused = listener.accept().map(|(socket, _)| {
            if let Some(state) = self.context.shared.listeners.get(number) {
                refuse(&socket, state);
            }
        });
        self.spare_descriptor = spare_descriptor();
        if let Some(state) = self.context.shared.listeners.get(number) {
            state.accounts.home.counters.add(Counter::RefusedDescriptor, 1);
        }
        refused.is_ok()
    }

    /// Counts a new connection. `false`: there are as many as there may be.
    pub(super) fn take_place(&self, state: &ListenerState) -> bool {
        let open = self.context.shared.connections.fetch_add(1, Ordering::Relaxed);
        if open >= self.context.settings.max_connections
            || state.accounts.home.tenant.admit_connection().is_err()
        {
            self.context.shared.connections.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        state.connections.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Gives a new connection, which is counted, to the worker that has the fewest.
    pub(super) fn hand_out(&mut self, socket: OwnedFd, peer: Peer, number: usize) {
        let shared = self.context.shared;
        let load = |index: usize| {
            shared.workers.get(index).map_or(usize::MAX, |worker| worker.connections.load(Ordering::Relaxed))
        };
        let least = (0..shared.workers.len()).min_by_key(|index| (load(*index), *index != self.index));
        let chosen = least.unwrap_or(self.index);
        let Some(worker) = shared.workers.get(chosen) else { return };
        worker.connections.fetch_add(1, Ordering::Relaxed);
        if chosen == self.index {
            self.serve(socket, peer, number);
        } else {
            worker.mailbox.send(Message::Serve(socket, peer, number));
        }
    }

    /// Adds a connection that was counted already.
    pub(super) fn serve(&mut self, socket: OwnedFd, peer: Peer, number: usize) {
        let Some(state) = self.context.shared.listeners.get(number) else { return };
        let tls = match state.tls.get().map(|tls| TlsStream::new(Arc::clone(&tls.config))).transpose() {
            Ok(tls) => tls.map(Box::new),
            Err(error) => {
                tracing::error!(listener = state.name, %error, "TLS cannot begin.");
                state.accounts.home.counters.add(Counter::TlsOther, 1);
                return self.uncount(state, &state.accounts.home, Counter::ClosedTls);
            }
        };
        if tls.is_some() && self.context.tls.is_none() {
            self.context.tls = Some(Box::default());
            self.context.shared.cache.ledger().charge(Part::Connections, TlsBuffers::BYTES);
        }
        let descriptor = socket.as_raw_fd();
        let id = self.context.shared.next_connection_id();
        let info =
            Arc::new(ConnectionInfo::new((descriptor, id), peer, Arc::clone(state), self.context.now_secs));
        tracing::debug!(listener = state.name, peer = %info.peer, worker = self.index, "A client connected.");
        self.context.shared.registry.add(Arc::clone(&info));
        let (context, protocols) = (&self.context, self.protocols);
        let place = Arc::clone(&info);
        let token = self.connections.insert(|_| Connection::new(socket, tls, info, protocols, context));
        let _ = place.place.set((self.index, token));
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.lane = self.lanes.join(&connection.account().tenant);
        let added = epoll::add(&self.epoll, &*connection, EventData::new_u64(token.0), EventFlags::IN);
        self.share_settings();
        match added {
            // Most clients have already sent their first request.
            Ok(()) => self.wake(token, EventFlags::IN),
            Err(_) => self.close(token, Counter::ClosedBroken),
        }
    }

    pub(super) fn close(&mut self, token: Token, reason: Counter) {
        let Some(connection) = self.connections.remove(token) else { return };
        let shared = self.context.shared;
        let tenant = self.lanes.tenant(connection.lane).unwrap_or(&connection.own_account().tenant);
        let none = Held::default();
        let _ =
            shared.budget.try_change(shared.cache.ledger(), &tenant.connection_memory, connection.held, none);
        shared.registry.remove(connection.descriptor());
        connection.info.close();
        if connection.tracks() {
            shared.tracking.end(shared, connection.info.id);
        }
        let state = &connection.info.listener;
        self.uncount(state, connection.own_account(), reason);
        self.lanes.leave(connection.lane);
        self.share_settings();
        tracing::debug!(listener = state.name, peer = %connection.info.peer, ?reason, "A connection was closed.");
        if self.spare_descriptor.is_none() {
            drop(connection);
            self.spare_descriptor = spare_descriptor();
        }
    }

    /// Takes a connection out of all counts, and counts why.
    pub(super) fn uncount(&self, state: &ListenerState, account: &Account, reason: Counter) {
        let shared = self.context.shared;
        shared.connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(worker) = shared.workers.get(self.index) {
            worker.connections.fetch_sub(1, Ordering::Relaxed);
        }
        state.connections.fetch_sub(1, Ordering::Relaxed);
        account.counters.add(reason, 1);
        account.tenant.release_connection();
    }
}

//! Connections that were accepted when there was no place for another.
//!
//! What frees places may be on its way: clients that connect again have closed their old
//! connections a moment ago, and another worker has yet to see that. So a newcomer waits a moment
//! before it is refused.

use std::os::fd::OwnedFd;

use base::Clock;
use frontend::peer::Peer;
use tenancy::metrics::Counter;

use super::{Newcomer, Worker, refuse};

/// Newcomers that wait, of a worker.
const MOST: usize = 64;
/// The longest time that one waits.
const PATIENCE_NANOS: u64 = 100_000_000;

impl Worker<'_> {
    /// Serves a new connection, or lets it wait, or refuses it.
    pub(super) fn admit(&mut self, socket: OwnedFd, peer: Peer, listener: usize) {
        let Some(state) = self.context.shared.listeners.get(listener) else { return };
        state.accounts.home.counters.add(Counter::Accepted, 1);
        // First come, first served.
        let is_first = !self.newcomers.iter().any(|waiting| waiting.listener == listener);
        if is_first && self.take_place(state) {
            return self.hand_out(socket, peer, listener);
        }
        let until = Clock::System.monotonic_nanos().saturating_add(PATIENCE_NANOS);
        let newcomer = Newcomer { socket, peer, listener, until };
        if self.newcomers.len() < MOST && self.drain_until_secs.is_none() {
            self.newcomers.push(newcomer);
        } else {
            self.turn_away(&newcomer);
        }
    }

    /// Serves the newcomers for whom there is a place now, and refuses those that have waited long
    /// enough; all if the server stops.
    pub(super) fn look_for_places(&mut self) {
        if self.newcomers.is_empty() {
            return;
        }
        let now = Clock::System.monotonic_nanos();
        for newcomer in std::mem::take(&mut self.newcomers) {
            let Some(state) = self.context.shared.listeners.get(newcomer.listener) else { continue };
            if self.take_place(state) {
                self.hand_out(newcomer.socket, newcomer.peer, newcomer.listener);
            } else if newcomer.until <= now || self.drain_until_secs.is_some() {
                self.turn_away(&newcomer);
            } else {
                self.newcomers.push(newcomer);
            }
        }
    }

    fn turn_away(&self, newcomer: &Newcomer) {
        let Some(state) = self.context.shared.listeners.get(newcomer.listener) else { return };
        state.accounts.home.counters.add(Counter::RefusedConnection, 1);
        refuse(&newcomer.socket, state);
    }
}

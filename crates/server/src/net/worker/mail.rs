//! Messages that other threads send to a worker.

use super::{Worker, settings_of};
use frontend::mailbox::{Message, Token};
use rustix::event::epoll::{self, EventFlags};
use std::sync::atomic::Ordering;
use tenancy::metrics::Counter;

impl Worker<'_> {
    pub(super) fn read_mail(&mut self) {
        let Some(worker) = self.context.shared.workers.get(self.index) else { return };
        for message in worker.mailbox.take() {
            match message {
                Message::Serve(socket, peer, number) => self.serve(socket, peer, number),
                Message::Beat => {
                    worker.beats.fetch_add(1, Ordering::Relaxed);
                }
                Message::Push(letters) => {
                    letters.into_iter().for_each(|(token, bytes)| self.push(token, &bytes));
                }
                Message::Shed(tenant) => self.shed(&tenant),
                Message::LookAtPauses => self.release(true),
                Message::Close(token) => match self.away.get_mut(&token.0) {
                    Some(away) => away.closes = Some(Counter::ClosedByQuit),
                    None => self.close(token, Counter::ClosedByQuit),
                },
                // A request that waits for several items has its turn once all of them have come.
                Message::Brought(token) => {
                    let waits = self.connections.get_mut(token).is_some_and(|waits| waits.is_bringing());
                    if !waits {
                        self.wake(token, EventFlags::empty());
                    }
                }
                Message::Returned => self.take_back_done(),
                Message::Reload => self.reload(),
                Message::Drain => self.drain(),
            }
        }
    }

    /// Has a connection sent what nobody asked for.
    pub(super) fn push(&mut self, token: Token, bytes: &[u8]) {
        let most = self.context.settings.max_output_bytes;
        if let Some(away) = self.away.get_mut(&token.0) {
            if away.pushes.len() + bytes.len() > most {
                away.closes = Some(Counter::ClosedMemory);
            } else {
                away.pushes.extend_from_slice(bytes);
            }
            return;
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        if !connection.push(bytes, most) {
            return self.close(token, Counter::ClosedMemory);
        }
        self.wake(token, EventFlags::empty());
    }

    pub(super) fn reload(&mut self) {
        self.settings = settings_of(self.context.shared);
        self.share_settings();
        let until = self.drain_until();
        let mut leaving = Vec::new();
        for (token, connection) in self.connections.iter_mut() {
            connection.reload(&self.context);
            if connection.own_account().tenant.is_being_removed() {
                connection.drain(until);
                leaving.push(token);
            }
        }
        leaving.into_iter().for_each(|token| self.wake(token, EventFlags::IN));
    }

    /// Returns the Unix second in which connections that drain from now on are closed.
    pub(super) fn drain_until(&self) -> u32 {
        let patience = self.context.settings.drain_timeout_secs;
        self.context.now_secs.saturating_add(patience).saturating_add(1)
    }

    pub(super) fn drain(&mut self) {
        self.listeners.iter().for_each(|listener| {
            let _ = epoll::delete(&self.epoll, listener);
        });
        self.listeners.clear();
        let until = self.drain_until();
        self.drain_until_secs = Some(until);
        let tokens: Vec<Token> = self.connections.iter_mut().map(|(token, _)| token).collect();
        for token in tokens {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.drain(until);
                self.wake(token, EventFlags::IN);
            }
        }
    }
}

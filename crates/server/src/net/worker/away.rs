//! Connections that are away: with the thread for slow commands.

use frontend::mailbox::Token;
use rustix::event::epoll::{self, EventData, EventFlags};
use tenancy::metrics::Counter;

use super::super::connection::Step;
use super::super::lanes::LaneId;
use super::super::slow::Job;
use super::{Detached, Worker};

impl<'c> Worker<'c> {
    /// Hands over a connection whose next command is slow.
    pub(super) fn send_away(&mut self, token: Token, lane: LaneId) {
        let Some(connection) = self.connections.lend(token) else { return };
        // Otherwise epoll would report the client's events meanwhile, again and again.
        let _ = epoll::delete(&self.epoll, &connection);
        let held_bytes = connection.held.total();
        self.away.insert(token.0, Detached { lane, held_bytes, ..Detached::default() });
        let job = Job::new(token, lane, connection, (&self.settings.away, self.context.now_secs));
        if let Err(job) = self.slow.add(job) {
            // Out of threads: as bad as out of memory, which this connection is to pay for, and
            // nobody else.
            self.away
                .insert(token.0, Detached { closes: Some(Counter::ClosedMemory), ..Detached::default() });
            self.take_back(job);
        }
    }

    /// Takes back what the other thread is done with.
    pub(super) fn take_back_done(&mut self) {
        loop {
            match self.slow.take_done() {
                Ok(Some(job)) => self.take_back(job),
                Ok(None) => return,
                Err(_) => {
                    // It has panicked, which was said already. The server ends when this worker
                    // does.
                    self.drain_until_secs = Some(self.context.now_secs);
                    return;
                }
            }
        }
    }

    fn take_back(&mut self, job: Job<'c>) {
        let (token, lane, mut connection, step) = job.end();
        connection.reload(&self.context);
        connection.interest = EventFlags::IN;
        let is_leaving =
            self.drain_until_secs.is_some() || connection.own_account().tenant.is_being_removed();
        if is_leaving {
            connection.drain(self.drain_until());
        }
        let added = epoll::add(&self.epoll, &connection, EventData::new_u64(token.0), EventFlags::IN);
        self.connections.put_back(token, connection);
        let Detached { pushes, closes, .. } = self.away.remove(&token.0).unwrap_or_default();
        let reason = closes.or(added.is_err().then_some(Counter::ClosedBroken));
        if let Some(reason) = reason {
            return self.close(token, reason);
        }
        let spent = self.charge_turn(token, lane);
        self.lanes.spend(lane, spent, 0);
        if !pushes.is_empty() {
            self.push(token, &pushes);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        let lane = connection.lane;
        // No lane is being served now, so that it is to be among the active ones.
        if is_leaving || matches!(step, Step::Again | Step::Yield | Step::AwaitGate) {
            self.wake(token, EventFlags::empty());
        }
        self.schedule(token, lane, step);
    }
}

//! Accounting of the memory for connections, and the choice of connections to close when that
//! memory is spent.
//!
//! All tenants share this memory, and its limit holds at every moment: a connection that needs more
//! than is free gets it at once, or a connection is closed. The tenant whose connections hold most
//! on all workers pays, so that no tenant loses connections to another that hoards memory. But a
//! worker can only close its own connections. If it has too few of that tenant, it asks the other
//! workers to close some, which frees memory for later requests. Nobody waits for those workers, so
//! this time the tenant that holds most on this worker pays.
//!
//! A connection's memory counts for the tenant whose lane it is in, even while it is away.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenancy::Tenant;
use tenancy::budget::Held;
use tenancy::metrics::Counter;

use super::{LaneId, Message, Token, Worker};

impl Worker<'_> {
    /// Accounts for what a connection holds now. Where that is too much, others are closed, or
    /// itself.
    pub(super) fn charge(&mut self, token: Token, holding: Held) {
        let mut has_asked = false;
        loop {
            let Some(connection) = self.connections.get_mut(token) else { return };
            let Some(tenant) = self.lanes.tenant(connection.lane) else { return };
            let shared = self.context.shared;
            if shared.budget.try_change(
                shared.cache.ledger(),
                &tenant.connection_memory,
                connection.held,
                holding,
            ) {
                connection.held = holding;
                return;
            }
            let more = holding.total().saturating_sub(connection.held.total());
            let missing = shared.budget.missing(more);
            if missing == 0 {
                continue;
            }
            let victim = if has_asked {
                self.who_holds_most_here(token, holding)
            } else {
                let own = Arc::clone(tenant);
                let hoarder = self.who_holds_most(&own, more);
                let victim = self.whom_to_close(&hoarder, missing, (token, holding));
                if victim.is_none() {
                    self.ask_others(&hoarder, missing);
                }
                victim
            };
            match victim {
                Some(victim) => self.close(victim, Counter::ClosedMemory),
                None if has_asked => return,
                // Perhaps something has become free meanwhile.
                None => has_asked = true,
            }
        }
    }

    /// The tenant whose connections hold most on all workers, where `own` needs this much more. One
    /// that has left the directory, and whose connections are about to be closed, is known where it
    /// has some here.
    fn who_holds_most(&self, own: &Arc<Tenant>, more: u64) -> Arc<Tenant> {
        let directory = self.context.shared.directory();
        let wanted = |tenant: &&Arc<Tenant>| {
            tenant.connection_memory.bytes().saturating_add(if Arc::ptr_eq(tenant, own) { more } else { 0 })
        };
        let all = directory.tenants.iter().chain(self.lanes.tenants());
        Arc::clone(all.max_by_key(wanted).unwrap_or(own))
    }

    /// The tenant's connection that holds most here, where all that it has here hold at least what
    /// is missing: closing fewer would be in vain. `token` holds this much.
    fn whom_to_close(
        &mut self,
        tenant: &Arc<Tenant>,
        missing: u64,
        (token, holding): (Token, Held),
    ) -> Option<Token> {
        let lane = self.lanes.find(tenant)?;
        let (mut sum, mut largest) = (0_u64, None);
        for (other, connection) in self.connections.iter_mut().filter(|(_, other)| other.lane == lane) {
            let held = if other == token { holding } else { connection.held }.total();
            sum = sum.saturating_add(held);
            if largest.is_none_or(|(most, _)| held > most) {
                largest = Some((held, other));
            }
        }
        largest.filter(|_| sum >= missing).map(|(_, largest)| largest)
    }

    /// Tells the other workers to close connections of the tenant until that much is free.
    fn ask_others(&self, tenant: &Arc<Tenant>, missing: u64) {
        tenant.connection_memory.ask(missing);
        let workers = self.context.shared.workers.iter().enumerate();
        for (_, other) in workers.filter(|(index, _)| *index != self.index) {
            other.mailbox.send(Message::Shed(Arc::clone(tenant)));
        }
    }

    /// Closes those connections of the tenant that hold most, for as long as it is asked to give up
    /// memory. One that is away is closed when it comes back.
    pub(super) fn shed(&mut self, tenant: &Arc<Tenant>) {
        while let Some(lane) = self.lanes.find(tenant) {
            let here = self.connections.iter_mut().filter(|(_, connection)| connection.lane == lane);
            let here = here.map(|(token, connection)| (connection.held.total(), token));
            let away = self.away.iter().filter(|(_, away)| away.lane == lane && away.closes.is_none());
            let away = away.map(|(token, away)| (away.held_bytes, Token(*token)));
            let Some((held, largest)) = here.chain(away).max_by_key(|(held, _)| *held) else { return };
            if held == 0 || !tenant.connection_memory.gives_up(held) {
                return;
            }
            match self.away.get_mut(&largest.0) {
                Some(away) => away.closes = Some(Counter::ClosedMemory),
                None => self.close(largest, Counter::ClosedMemory),
            }
        }
    }

    /// The connection that holds most here, of the tenant that does; `token` holds this much.
    fn who_holds_most_here(&mut self, token: Token, holding: Held) -> Option<Token> {
        let mut by_lane: BTreeMap<LaneId, (u64, (u64, Token))> = BTreeMap::new();
        for (other, connection) in self.connections.iter_mut() {
            let held = if other == token { holding } else { connection.held }.total();
            let (sum, largest) = by_lane.entry(connection.lane).or_insert((0, (held, other)));
            *sum += held;
            if held > largest.0 {
                *largest = (held, other);
            }
        }
        by_lane.into_values().max_by_key(|(sum, _)| *sum).map(|(_, (_, largest))| largest)
    }
}

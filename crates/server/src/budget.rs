//! The memory that connections hold: a limit on all, and the share of each tenant.

use std::sync::atomic::{AtomicU64, Ordering};

use base::{Ledger, Part};

/// What one connection has taken of the memory for connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// In buffers of its own, which the ledger is charged with.
    pub(crate) buffers: u64,
    /// In items that cannot be evicted while it sends or receives them, which the ledger counts as
    /// items.
    pub(crate) items: u64,
}

impl Held {
    pub(crate) const fn total(self) -> u64 {
        self.buffers.saturating_add(self.items)
    }
}

/// What one tenant's connections have taken of the memory for connections, on all workers together.
#[derive(Default)]
pub(crate) struct TenantHeld {
    bytes: AtomicU64,
    /// What it was asked to give up last, and has not yet.
    asked: AtomicU64,
}

impl TenantHeld {
    /// In bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A connection that holds so much turns to another tenant.
    pub(crate) fn hand_over(&self, next: &Self, bytes: u64) {
        next.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Asks it to give up so much, in place of what it was asked for before: what it could not give
    /// then is not wanted for ever.
    pub(crate) fn ask(&self, bytes: u64) {
        self.asked.store(bytes, Ordering::Relaxed);
    }

    /// Whether it is to give up a connection that holds so much. Each is asked for once, whichever
    /// worker has it: together they come to what was asked, and to less without the last of them.
    pub(crate) fn gives_up(&self, bytes: u64) -> bool {
        let rest = |asked: u64| (asked > 0).then(|| asked.saturating_sub(bytes));
        self.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok()
    }
}

/// The memory for connections: a limit over all of them, and a charge on the cache's ledger.
#[derive(Default)]
pub(crate) struct Budget {
    held: AtomicU64,
    limit: AtomicU64,
}

impl Budget {
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// How much of `more` bytes is beyond the limit.
    pub(crate) fn missing(&self, more: u64) -> u64 {
        self.held().saturating_add(more).saturating_sub(self.limit.load(Ordering::Relaxed))
    }

    /// Changes what a connection of the tenant holds from `from` to `to`; false, and no change,
    /// where that is more and beyond the limit.
    #[must_use]
    pub(crate) fn try_change(&self, ledger: &Ledger, tenant: &TenantHeld, from: Held, to: Held) -> bool {
        if to.total() > from.total() {
            let more = to.total() - from.total();
            let limit = self.limit.load(Ordering::Relaxed);
            let within = |held: u64| held.checked_add(more).filter(|after| *after <= limit);
            if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_err() {
                return false;
            }
            tenant.bytes.fetch_add(more, Ordering::Relaxed);
        } else {
            let less = from.total() - to.total();
            self.held.fetch_sub(less, Ordering::Relaxed);
            tenant.bytes.fetch_sub(less, Ordering::Relaxed);
        }
        if to.buffers >= from.buffers {
            ledger.charge(Part::Connections, to.buffers - from.buffers);
        } else {
            ledger.release(Part::Connections, from.buffers - to.buffers);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_a_limit_and_charges_buffers_only() {
        let ledger = Ledger::new(1 << 20);
        let (budget, tenant) = (Budget::default(), TenantHeld::default());
        let try_change = |from, to| budget.try_change(&ledger, &tenant, from, to);
        let all = || (budget.held(), tenant.bytes(), ledger.part(Part::Connections));
        budget.set_limit(100);
        let (none, some) = (Held::default(), Held { buffers: 40, items: 50 });
        assert!(try_change(none, some));
        assert_eq!(all(), (90, 90, 40));
        assert!(!try_change(none, Held { buffers: 11, items: 0 }));
        assert_eq!((all(), budget.missing(11)), ((90, 90, 40), 1), "a refusal changes nothing");
        assert!(try_change(some, Held { buffers: 60, items: 20 }), "less in all");
        assert_eq!(all(), (80, 80, 60));
        budget.set_limit(0);
        assert!(try_change(Held { buffers: 60, items: 20 }, none), "giving back always works");
        assert_eq!((all(), budget.missing(0)), ((0, 0, 0), 0));
    }

    #[test]
    fn a_tenant_gives_up_what_was_asked_and_no_more() {
        let ledger = Ledger::new(1 << 20);
        let (budget, first, second) = (Budget::default(), TenantHeld::default(), TenantHeld::default());
        budget.set_limit(100);
        let (none, some) = (Held::default(), Held { buffers: 40, items: 50 });
        assert!(budget.try_change(&ledger, &first, none, some));
        first.hand_over(&second, 90);
        assert_eq!((first.bytes(), second.bytes(), budget.held()), (0, 90, 90));
        assert!(!second.gives_up(10), "nobody asked");
        second.ask(30);
        assert!(second.gives_up(20) && second.gives_up(20) && !second.gives_up(20));
        second.ask(50);
        second.ask(10);
        assert!(second.gives_up(20) && !second.gives_up(1), "the last that asks counts");
        assert!(budget.try_change(&ledger, &second, some, none));
        assert_eq!((first.bytes(), second.bytes(), budget.held()), (0, 0, 0));
    }
}

//! The memory that connections hold: a limit on all, and the share of each tenant.

use std::sync::atomic::{AtomicU64, Ordering};

use base::{Ledger, Part};

/// The share of the memory for connections that one connection has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// In buffers of its own, which the ledger is charged with.
    pub buffers: u64,
    /// In items that cannot be evicted while it sends or receives them, which the ledger counts as
    /// items.
    pub items: u64,
}

impl Held {
    /// Returns the sum of both, in bytes.
    pub const fn total(self) -> u64 {
        self.buffers.saturating_add(self.items)
    }
}

/// The share of the memory for connections that one tenant's connections have taken, on all workers
/// together.
#[derive(Default)]
pub struct TenantHeld {
    bytes: AtomicU64,
    /// The bytes that the tenant was last asked to release, and has not yet.
    asked: AtomicU64,
}

impl TenantHeld {
    /// In bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Moves the bytes of a connection that switches to another tenant.
    pub fn hand_over(&self, next: &Self, bytes: u64) {
        next.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Asks the tenant to release this many bytes, in place of the last request: bytes that it
    /// could not release then are not wanted for ever.
    pub fn ask(&self, bytes: u64) {
        self.asked.store(bytes, Ordering::Relaxed);
    }

    /// Returns whether the tenant should close a connection that holds this many bytes. Each
    /// connection is counted once, whichever worker has it: together they total what was asked, and
    /// less without the last of them.
    pub fn gives_up(&self, bytes: u64) -> bool {
        let rest = |asked: u64| (asked > 0).then(|| asked.saturating_sub(bytes));
        self.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok()
    }
}

/// The memory for connections: a limit over all of them, and a charge on the cache's ledger.
#[derive(Default)]
pub struct Budget {
    held: AtomicU64,
    limit: AtomicU64,
}

impl Budget {
    /// Sets the limit over all connections, in bytes.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that all connections hold.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// How much of `more` bytes is beyond the limit.
    pub fn missing(&self, more: u64) -> u64 {
        self.held().saturating_add(more).saturating_sub(self.limit.load(Ordering::Relaxed))
    }

    /// Changes the memory that a connection of the tenant holds from `from` to `to`; false, and no
    /// change, if that is more and beyond the limit.
    #[must_use]
    pub fn try_change(&self, ledger: &Ledger, tenant: &TenantHeld, from: Held, to: Held) -> bool {
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

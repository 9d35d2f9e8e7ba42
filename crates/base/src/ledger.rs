//! The memory bill: one number for everything a cache may use, split by what it is used for.
//!
//! Invariant 1: [`Ledger::try_charge`] never raises the sum of all parts above the limit; only a
//! lower limit ([`Ledger::set_limit`]) and [`Ledger::charge`], meant for memory that is already
//! spent, may exceed it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The uses of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Part {
    /// Slabs given to pools: item headers, keys, values, and the slack of their chunks.
    Slabs,
    /// The hash index.
    Index,
    /// Eviction queues.
    Queues,
    /// Ghost entries of evicted keys.
    Ghosts,
    /// Compact caches.
    Compact,
    /// Connection buffers and state.
    Connections,
    /// Everything else: tables, counters, magazines, logs. Most of it is fixed at start-up.
    Fixed,
}

impl Part {
    /// All parts, in the order in which they are reported.
    pub const ALL: [Self; 7] =
        [Self::Slabs, Self::Index, Self::Queues, Self::Ghosts, Self::Compact, Self::Connections, Self::Fixed];

    /// The name under which the part is reported, as a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slabs => "slabs",
            Self::Index => "index",
            Self::Queues => "queues",
            Self::Ghosts => "ghosts",
            Self::Compact => "compact",
            Self::Connections => "connections",
            Self::Fixed => "fixed",
        }
    }
}

/// A byte limit and the bytes spent of it, by use. All operations are lock-free.
#[derive(Debug)]
pub struct Ledger {
    limit: AtomicU64,
    total: AtomicU64,
    parts: [AtomicU64; Part::ALL.len()],
}

impl Ledger {
    /// An empty bill with a limit of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit_bytes),
            total: AtomicU64::new(0),
            parts: [const { AtomicU64::new(0) }; Part::ALL.len()],
        }
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Bytes that are already spent stay spent: a caller that lowers the limit
    /// must see to it that memory is freed.
    pub fn set_limit(&self, limit_bytes: u64) {
        self.limit.store(limit_bytes, Ordering::Relaxed);
    }

    /// The bytes spent on all parts.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The bytes spent on one part.
    pub fn part(&self, part: Part) -> u64 {
        self.parts[part as usize].load(Ordering::Relaxed)
    }

    /// The bytes that may still be spent.
    pub fn free(&self) -> u64 {
        self.limit().saturating_sub(self.total())
    }

    /// The bytes that `part` may have in all, beside what is spent on the others.
    pub fn room_for(&self, part: Part) -> u64 {
        self.limit().saturating_sub(self.total().saturating_sub(self.part(part)))
    }

    /// Spends `bytes` on `part` if, after that, `headroom` bytes are still free.
    #[must_use]
    pub fn try_charge(&self, part: Part, bytes: u64, headroom: u64) -> bool {
        let limit = self.limit();
        let spent = self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |total| {
            let after = total.checked_add(bytes)?;
            (after.checked_add(headroom)? <= limit).then_some(after)
        });
        if spent.is_ok() {
            self.parts[part as usize].fetch_add(bytes, Ordering::Relaxed);
        }
        spent.is_ok()
    }

    /// Spends `bytes` on `part` even past the limit.
    pub fn charge(&self, part: Part, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.parts[part as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns `bytes` of `part` to the limit.
    pub fn release(&self, part: Part, bytes: u64) {
        self.total.fetch_sub(bytes, Ordering::Relaxed);
        self.parts[part as usize].fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_parts_add_up() {
        let ledger = Ledger::new(100);
        assert!(ledger.try_charge(Part::Slabs, 60, 0));
        assert!(!ledger.try_charge(Part::Index, 41, 0));
        assert!(!ledger.try_charge(Part::Index, 40, 1));
        assert!(ledger.try_charge(Part::Index, 40, 0));
        assert_eq!(ledger.free(), 0);
        assert_eq!((ledger.room_for(Part::Slabs), ledger.room_for(Part::Fixed)), (60, 0));
        ledger.charge(Part::Connections, 5);
        assert_eq!((ledger.total(), ledger.free()), (105, 0));
        ledger.release(Part::Slabs, 60);
        let sum: u64 = Part::ALL.iter().map(|part| ledger.part(*part)).sum();
        assert_eq!(sum, ledger.total());
        assert!(!ledger.try_charge(Part::Fixed, u64::MAX, 0), "an overflow is a refusal");
    }
}

//! The order of a policy's items, by dispatch to the policy.

use crate::contract::{Entry, EvictionPolicy, Items, Queue, Rank, Rule};
use crate::scan_budget::ScanBudget;

/// Generates the enum, a conversion into it from each policy, and the macro `dispatch!`. The first
/// token is a `$`, which the inner macro needs for its own names.
macro_rules! orders {
    ($dollar:tt $($Name:ident($Policy:ty),)+) => {
        /// The order of the items, by one of the policies.
        pub(crate) enum Order {
            $($Name($Policy),)+
        }

        $(
            impl From<$Policy> for Order {
                fn from(policy: $Policy) -> Self {
                    Self::$Name(policy)
                }
            }
        )+

        /// Evaluates an expression with the policy of an order.
        macro_rules! dispatch {
            ($dollar order:expr, $dollar policy:ident => $dollar call:expr) => {
                match $dollar order {
                    $(Order::$Name($dollar policy) => $dollar call,)+
                }
            };
        }
    };
}

orders! {
    $
    Lru(crate::lru::Lru),
    LruInsertion(crate::insertion::LruInsertion),
    LruSplit(crate::split::LruSplit),
    TwoQ(crate::two_q::TwoQ),
    TinyLfu(crate::tiny_lfu::TinyLfu),
    S3Fifo(crate::s3fifo::S3Fifo),
    Sieve(crate::sieve::Sieve),
    Arc(crate::arc::Arc),
}

/// The methods of [`EvictionPolicy`], documented there.
impl Order {
    pub(crate) fn rule(&self) -> Rule {
        fn rule_of<P: EvictionPolicy>(_policy: &P) -> Rule {
            P::RULE
        }
        dispatch!(self, policy => rule_of(policy))
    }

    pub(crate) fn admit(&mut self, fingerprint: u32) -> u8 {
        dispatch!(self, policy => policy.admit(fingerprint))
    }

    pub(crate) fn readmit(&mut self, bits: u8, fingerprint: u32) -> u8 {
        dispatch!(self, policy => policy.readmit(bits, fingerprint))
    }

    pub(crate) fn push(&mut self, entry: Entry, bits: u8, now: u32) {
        dispatch!(self, policy => policy.push(entry, bits, now));
    }

    pub(crate) fn adopt(&mut self, entry: Entry, rank: Rank, items: &impl Items, now: u32) {
        dispatch!(self, policy => policy.adopt(entry, rank, items, now));
    }

    pub(crate) fn removed(&mut self, bits: u8, items: &impl Items) {
        dispatch!(self, policy => policy.removed(bits, items));
    }

    pub(crate) fn restore_shares(&mut self, items: &impl Items, scan: &mut ScanBudget) {
        dispatch!(self, policy => policy.restore_shares(items, scan));
    }

    pub(crate) fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        // In the last list that it tries, a policy of several lists may find only items that now
        // belong to an earlier list.
        self.evict_once(items, scan)
            .or_else(|| if self.is_empty() { None } else { self.evict_once(items, scan) })
    }

    fn evict_once(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        dispatch!(self, policy => policy.evict(items, scan))
    }

    pub(crate) fn len(&self) -> usize {
        dispatch!(self, policy => policy.len())
    }

    /// Returns whether no item is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn queues(&self, items: &impl Items, now: u32) -> Vec<Queue> {
        dispatch!(self, policy => policy.queues(items, now))
    }

    pub(crate) fn tail_age_secs(&self, now: u32) -> Option<u32> {
        dispatch!(self, policy => policy.tail_age_secs(now))
    }

    pub(crate) fn projected_age_secs(&self, items: usize, now: u32) -> Option<u32> {
        dispatch!(self, policy => policy.projected_age_secs(items, now))
    }

    pub(crate) fn set_tail_items(&mut self, items: usize) {
        dispatch!(self, policy => policy.set_tail_items(items));
    }

    pub(crate) fn tail_hits(&self) -> Option<u64> {
        dispatch!(self, policy => policy.tail_hits())
    }

    pub(crate) fn detach_clock(&mut self) {
        dispatch!(self, policy => policy.detach_clock());
    }

    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: u32) {
        dispatch!(self, policy => policy.prefetch(fingerprint));
    }

    pub(crate) fn set_ghosts_open(&mut self, is_open: bool) {
        dispatch!(self, policy => policy.set_ghosts_open(is_open));
    }

    pub(crate) fn ghosts(&self) -> usize {
        dispatch!(self, policy => policy.ghosts())
    }

    pub(crate) fn ghost_bytes(&self) -> usize {
        dispatch!(self, policy => policy.ghost_bytes())
    }

    pub(crate) fn queue_bytes(&self) -> usize {
        dispatch!(self, policy => policy.queue_bytes())
    }

    pub(crate) fn validate(&self, items: &impl Items) {
        dispatch!(self, policy => policy.validate(items));
    }
}

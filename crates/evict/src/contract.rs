//! The contract between a policy, the engine and the items: the calls that a policy may make, and
//! those that it must implement.
//!
//! The engine's side is public: [`Entry`] names items, [`Items`] gives access to them, and
//! [`Claim`] is the outcome of taking one. The policy's side is [`EvictionPolicy`]. `order`
//! dispatches to the policy of a class, and `policy` adds what all of them have in common: hits,
//! conversion, limits.

use crate::scan_budget::ScanBudget;

/// Names an item in a queue. The lower [`PLACE_BITS`] bits are its *place*, a number that no other
/// queued item has. The other bits may tell the item from earlier items with that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry(pub u32);

/// Bits of an entry that name a place.
pub const PLACE_BITS: u32 = 28;

impl Entry {
    pub(crate) fn place(self) -> u32 {
        self.0 & ((1 << PLACE_BITS) - 1)
    }
}

/// The outcome of an attempt to take an item away for eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The item now belongs to the caller.
    Taken,
    /// The item is held.
    Held,
    /// The item was just removed from the cache. Its [`Policy::removed`](crate::Policy::removed)
    /// was not called and will not be: the policy drops it now.
    Gone,
}

/// The access of a policy to the items of its class.
pub trait Items {
    /// The policy bits of the item that `entry` names, or `None` if the entry is stale.
    fn bits(&self, entry: Entry) -> Option<u8>;
    /// Sets those of the item's policy bits that are in `mask`.
    fn set_bits(&self, entry: Entry, mask: u8, value: u8);
    /// Takes the item for eviction, unless it is held.
    ///
    /// The lock of the class is held, and [`Self::bits`] of the entry was not `None` while it was:
    /// otherwise the chunk of the entry may have another item.
    fn claim(&self, entry: Entry) -> Claim;
    /// 32 bits of the hash of the item's key: the same as for
    /// [`Policy::admit`](crate::Policy::admit) and [`HitRule::count`](crate::HitRule::count).
    ///
    /// Called either with the lock of the class held and for a queued item (one for which
    /// [`Self::bits`] is not `None`), or for an item that was just claimed. The engine remembers
    /// the hash of the last call: cheapest is an eviction whose last call is for the item that it
    /// evicts.
    fn fingerprint(&self, entry: Entry) -> u32;
    /// Prefetches the memory that the other methods will read.
    fn prefetch(&self, _entry: Entry) {}
}

/// Held items that one eviction passes over before it gives up (CacheLib: 50).
pub const MAX_HELD_TRIES: u32 = 50;

/// Most queues that a policy has.
pub const MAX_QUEUES: usize = 3;

/// A queue of a policy at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its name in the policy's paper.
    pub name: &'static str,
    /// Its number, as [`HitRule::apply_in`](crate::HitRule::apply_in) returns it.
    pub number: usize,
    /// The number of its items; approximate, as hits change the counts without a lock.
    pub items: usize,
    /// The seconds since the last use of the item at its eviction end, if the policy knows them.
    pub age_secs: Option<u32>,
    /// The item nearest to the eviction end, if the policy does not know ages. `None` if it knows
    /// them, or if only stale entries are near that end.
    pub oldest: Option<Entry>,
}

/// A rule for the effect of hits on the bits of items; `hits` applies it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rule {
    /// Hits change nothing: a policy is being converted.
    None = 0,
    Lru = 1,
    S3Fifo = 2,
    Sieve = 3,
    /// Hits set the generation's stamp on items, for policies of LRU lists.
    Lists = 4,
    /// As `Lists`, and hits are counted in the frequency sketch as well.
    Counted = 5,
}

/// The rank of an item in the order of eviction: `at` of `of` items are evicted before it.
#[derive(Clone, Copy)]
pub(crate) struct Rank {
    pub(crate) at: usize,
    pub(crate) of: usize,
}

/// The contract that each policy keeps.
///
/// A policy orders the items of one class, behind the lock of that class. It has no clock but the
/// `now` that it is given, in seconds. Methods without a default are those that every policy needs;
/// a default is right for a policy that lacks the feature.
///
/// To add a policy: ARCHITECTURE.md. `behaviour` then tests it with the others. A policy of LRU
/// lists leaves most methods to [`in_lists`](crate::lists::in_lists).
pub(crate) trait EvictionPolicy {
    /// The rule that hits follow under this policy.
    const RULE: Rule;

    /// Returns the initial policy bits of a new item, from the fingerprint of its key. They decide
    /// the queue that it enters.
    fn admit(&mut self, fingerprint: u32) -> u8;

    /// Returns the new policy bits of an item that was queued before with these bits, in this
    /// policy or another. By default it is a new item.
    fn readmit(&mut self, _bits: u8, fingerprint: u32) -> u8 {
        self.admit(fingerprint)
    }

    /// Queues the item of `entry`, whose bits are those that [`Self::admit`] returned.
    fn push(&mut self, entry: Entry, bits: u8, now: u32);

    /// Queues an item of another policy, which would have been evicted at `rank`, and sets its
    /// bits. Items come in the order of their ranks.
    fn adopt(&mut self, entry: Entry, rank: Rank, items: &impl Items, now: u32);

    /// Records that an item with `bits` was removed other than by eviction: its entry is stale.
    /// Sweeps now and then.
    fn removed(&mut self, bits: u8, items: &impl Items);

    /// Restores the shares of queues after insertions. Does nothing by default: there are no
    /// shares, or evictions maintain them.
    fn restore_shares(&mut self, _items: &impl Items, _scan: &mut ScanBudget) {}

    /// Chooses an item, claims it and drops it from its queue, within the limits of
    /// `crate::scan_budget`.
    fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry>;

    /// Returns the number of queued items.
    fn len(&self) -> usize;

    /// Describes the queues, in the order in which items go through them.
    fn queues(&self, items: &impl Items, now: u32) -> Vec<Queue>;

    /// Returns the seconds since the last use of the item that would be evicted next. `None` by
    /// default: the policy does not know.
    fn tail_age_secs(&self, _now: u32) -> Option<u32> {
        None
    }

    /// Returns the seconds since the last use of the item that would be evicted next after `items`
    /// further evictions.
    fn projected_age_secs(&self, _items: usize, _now: u32) -> Option<u32> {
        None
    }

    /// Sets how many items a slab has, for [`Self::tail_hits`]; 0 = counts none.
    fn set_tail_items(&mut self, _items: usize) {}

    /// Returns the hits in the last slab's worth of items, or an estimate of the hits that one more
    /// slab would have brought. `None` by default: the policy does not count them.
    fn tail_hits(&self) -> Option<u64> {
        None
    }

    /// Gives the policy its own copies of the clocks that it shares with hits, so that hits of
    /// another policy no longer advance them. Does nothing by default: the policy shares no clock
    /// with hits.
    fn detach_clock(&mut self) {}

    /// Prefetches the memory that [`Self::admit`] will read.
    #[inline]
    fn prefetch(&self, _fingerprint: u32) {}

    /// Opens or closes the ghosts. Open ones record evicted keys, and their size follows the number
    /// of items; closed ones record nothing, and keep their size. Does nothing by default: there
    /// are no ghosts.
    fn set_ghosts_open(&mut self, _is_open: bool) {}

    /// Returns the number of keys of evicted items that the policy remembers.
    fn ghosts(&self) -> usize {
        0
    }

    /// Returns the memory of the ghosts, in bytes.
    fn ghost_bytes(&self) -> usize {
        0
    }

    /// Returns the memory of the queues, in bytes.
    fn queue_bytes(&self) -> usize;

    /// Checks every invariant; for tests.
    fn validate(&self, items: &impl Items);
}

//! The contract between a policy, the engine and the items: what a policy may ask, and what it must
//! answer.
//!
//! The engine's side is public: items are named by [`Entry`], answer as [`Items`], and are taken
//! away with the outcome [`Claim`]. The policy's side is [`Queueing`]. `order` dispatches to the
//! policy of a class, and `policy` adds what all of them have in common: hits, conversion, limits.

use crate::looks::Looks;

/// Names an item in a queue by its *place*, in the lower [`PLACE_BITS`] bits. The others may tell
/// it from items that had the place before. No two items that are queued have the same place.
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
    /// It is the caller's now.
    Taken,
    /// Somebody holds it.
    Held,
    /// It left the cache a moment ago and its [`Policy::removed`](crate::Policy::removed) was not
    /// called yet, nor will it be: the policy forgets it now.
    Gone,
}

/// The questions that a policy may ask about the items of its class.
pub trait Items {
    /// The policy bits of the item that `entry` names, or `None` if the entry is stale.
    fn bits(&self, entry: Entry) -> Option<u8>;
    /// Sets those of the item's policy bits that are in `mask`.
    fn set_bits(&self, entry: Entry, mask: u8, value: u8);
    /// Takes the item away, if nobody holds it.
    fn claim(&self, entry: Entry) -> Claim;
    /// 32 bits of the hash of the item's key: those that [`Policy::admit`](crate::Policy::admit)
    /// and [`HitRule::count`](crate::HitRule::count) are given.
    ///
    /// Asked about items that are queued ([`Self::bits`] is not `None`) while the lock of the class
    /// is held, or that were just claimed. If an eviction asks at all, it asks about the item that
    /// it evicts last.
    fn fingerprint(&self, entry: Entry) -> u32;
    /// Fetches what the other questions will need.
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
    /// The number of its items; by counts that hits race with.
    pub items: usize,
    /// For how long its last item has not been used, in seconds, if the policy knows.
    pub age_secs: Option<u32>,
    /// Its oldest item, if the policy does not know ages and finds it near the end.
    pub oldest: Option<Entry>,
}

/// A rule of what hits do to the bits of items; `hits` carries it out.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rule {
    /// Hits change nothing: a policy is being converted.
    None = 0,
    Lru = 1,
    S3Fifo = 2,
    Sieve = 3,
    /// Stamps by generations of lists.
    Lists = 4,
    /// The same, and hits are counted in the sketch.
    Counted = 5,
}

/// The place of an item in the order of eviction: `at` of `of` items are evicted before it.
#[derive(Clone, Copy)]
pub(crate) struct Rank {
    pub(crate) at: usize,
    pub(crate) of: usize,
}

/// The contract that each policy keeps.
///
/// A policy orders the items of one class, behind the lock of that class. It has no clock but the
/// `now` that it is given, in seconds. Methods without a default are those that no policy can do
/// without; a default stands for a policy that lacks what the method is about.
///
/// To add a policy: a file that implements this, a line in `order`, and its entry in `kind`.
/// `behaviour` then tests it with the others. A policy of LRU lists leaves most methods to
/// [`in_lists`](crate::lists::in_lists).
pub(crate) trait Queueing {
    /// The rule that hits follow under this policy.
    const RULE: Rule;

    /// Decides where a new item goes, from the fingerprint of its key: its first policy bits.
    fn admit(&mut self, fingerprint: u32) -> u8;

    /// Decides where an item goes that was queued before, with these bits, in this policy or
    /// another: its bits now. By default it is a new item.
    fn readmit(&mut self, _bits: u8, fingerprint: u32) -> u8 {
        self.admit(fingerprint)
    }

    /// Queues the item of `entry`, whose bits are those that [`Self::admit`] gave.
    fn push(&mut self, entry: Entry, bits: u8, now: u32);

    /// Queues an item of another policy, which would have been evicted at `rank`, and sets its
    /// bits. Items come in the order of their ranks.
    fn adopt(&mut self, entry: Entry, rank: Rank, items: &impl Items, now: u32);

    /// Notes that an item with `bits` left by another way than eviction: its entry is stale. Now
    /// and then sweeps.
    fn removed(&mut self, bits: u8, items: &impl Items);

    /// Brings queues to their shares after items came. Nothing by default: there are no shares, or
    /// an eviction sees to them.
    fn tend(&mut self, _items: &impl Items, _looks: &mut Looks) {}

    /// Chooses an item, claims it and lets go of it, within the limits of `crate::looks`.
    fn evict(&mut self, items: &impl Items, looks: &mut Looks) -> Option<Entry>;

    /// Returns the number of queued items.
    fn len(&self) -> usize;

    /// Describes the queues, in the order in which items go through them.
    fn queues(&self, items: &impl Items, now: u32) -> Vec<Queue>;

    /// Returns for how many seconds the item that would be evicted next has not been used. `None`
    /// by default: the policy does not know.
    fn tail_age_secs(&self, _now: u32) -> Option<u32> {
        None
    }

    /// Returns the same of the item that would be next if `items` others were gone.
    fn projected_age_secs(&self, _items: usize, _now: u32) -> Option<u32> {
        None
    }

    /// Sets how many items a slab has, for [`Self::tail_hits`]; 0 = counts none.
    fn set_tail_items(&mut self, _items: usize) {}

    /// Returns the hits in the last slab's worth of items, or about as many as a slab more would
    /// have brought. `None` by default: the policy does not count them.
    fn tail_hits(&self) -> Option<u64> {
        None
    }

    /// Gives the policy clocks of its own, which show what those shared with hits show now: hits of
    /// another policy no longer move them. Nothing by default: hits share no clock with it.
    fn detach_clock(&mut self) {}

    /// Fetches what [`Self::admit`] will look at.
    #[inline]
    fn prefetch(&self, _fingerprint: u32) {}

    /// Says whether the ghosts remember what is evicted. Closed ones keep their size too, which
    /// otherwise follows the number of items. Nothing by default: there are no ghosts.
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

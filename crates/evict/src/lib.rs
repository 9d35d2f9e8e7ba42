//! Eviction policies as plain values: no lock, no clock, no thread.
//!
//! A policy orders the items of one size class of one pool. The engine keeps it behind the lock of
//! that class and asks it what to evict. A hit never takes that lock: it changes the item's own 8
//! *policy bits* by the policy's [`HitRule`], and the policy folds them in when it next looks at
//! the item.
//!
//! | policy | what it is |
//! |---|---|
//! | [`lru`] | LRU with lazy promotion |
//! | [`insertion`] | LRU into which new items are put below the top |
//! | [`two_q`] | 2Q with hot, warm and cold queues |
//! | [`tiny_lfu`] | TinyLFU and W-TinyLFU |
//! | [`s3fifo`] | S3-FIFO |
//! | [`sieve`] | SIEVE |
//! | [`arc`] | ARC |
//!
//! What they are made of: [`fifo`], queues of 4-byte entries; [`ghost`], what is remembered of
//! evicted keys; `lists`, LRU lists whose order follows hits that take no lock, by the stamps of
//! `generations`; `sketch`, how often keys were asked for. [`Policy::convert`] turns one policy
//! into another while the cache serves, in steps.
//!
//! Queues name items by [`Entry`]; when an item is removed or replaced, its entry stays behind and
//! turns *stale*. A policy meets stale entries when it evicts, and sweeps them out before they
//! exceed a third of its entries.

#![forbid(unsafe_code)]

pub mod arc;
mod convert;
pub mod fifo;
mod generations;
pub mod ghost;
mod hits;
pub mod insertion;
mod kind;
mod lists;
mod looks;
pub mod lru;
mod order;
mod queues;
pub mod s3fifo;
pub mod sieve;
mod sketch;
pub mod tiny_lfu;
pub mod two_q;

use std::sync::Arc;

use convert::Before;
pub use convert::{Conversion, EmptyQueues};
use generations::Part;
pub use hits::HitRule;
use hits::Hits;
pub use kind::{PolicyKind, UnknownPolicy};
use looks::Looks;
pub use looks::{MOST_LOOKS, MOST_STALE};
use order::Order;
pub use queues::{MAX_QUEUES, Queue};

/// Names an item in a queue by its *place*, in the lower [`PLACE_BITS`] bits. The others may tell
/// it from items that had the place before. No two items that are queued have the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry(pub u32);

/// Bits of an entry that name a place.
pub const PLACE_BITS: u32 = 28;

impl Entry {
    fn place(self) -> u32 {
        self.0 & ((1 << PLACE_BITS) - 1)
    }
}

/// What became of an attempt to take an item away for eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the caller's now.
    Taken,
    /// Somebody holds it.
    Held,
    /// It left the cache a moment ago and its [`Policy::removed`] was not called yet, nor will it
    /// be: the policy forgets it now.
    Gone,
}

/// What a policy may ask about the items of its class.
pub trait Items {
    /// The policy bits of the item that `entry` names, or `None` where the entry is stale.
    fn bits(&self, entry: Entry) -> Option<u8>;
    /// Sets those of the item's policy bits that are in `mask`.
    fn set_bits(&self, entry: Entry, mask: u8, value: u8);
    /// Takes the item away, if nobody holds it.
    fn claim(&self, entry: Entry) -> Claim;
    /// 32 bits of the hash of the item's key: those that [`Policy::admit`] and [`HitRule::count`]
    /// are given.
    ///
    /// Asked about items that are queued ([`Self::bits`] is not `None`) while the lock of the class
    /// is held, or that were just claimed. Where an eviction asks at all, it asks about the item
    /// that it evicts last.
    fn fingerprint(&self, entry: Entry) -> u32;
    /// Fetches what the other questions will need.
    fn prefetch(&self, _entry: Entry) {}
}

/// Held items that one eviction passes over before it gives up (CacheLib: 50).
pub const MAX_HELD_TRIES: u32 = 50;

/// The policy of one class.
pub struct Policy {
    kind: PolicyKind,
    hits: Arc<Hits>,
    order: Order,
    /// The old policy's side, while this one takes over its items.
    before: Option<Box<Before>>,
    tail_items: usize,
    evictions_to_tail: u32,
    looks: Looks,
}

/// What belongs to the tail is looked for again after so many evictions.
const EVICTIONS_PER_TAIL: u32 = 64;

impl Policy {
    /// An empty policy of `kind`; `now` in seconds.
    pub fn new(kind: PolicyKind, now: u32) -> Self {
        let hits = Arc::new(Hits::new());
        let order = Order::new(kind, &hits, 0, now);
        hits.set(order.rule());
        Self { kind, hits, order, before: None, tail_items: 0, evictions_to_tail: 0, looks: Looks::default() }
    }

    /// Which policy this is; during a conversion the new one.
    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// What hits do to items of this policy, and go on doing when it is converted.
    pub fn hit_rule(&self) -> HitRule {
        HitRule(Arc::clone(&self.hits))
    }

    /// Fetches what [`Self::admit`] will look at.
    #[inline]
    pub fn prefetch(&self, fingerprint: u32) {
        match &self.order {
            Order::S3Fifo(s3fifo) => s3fifo.prefetch(fingerprint),
            Order::Arc(arc) => arc.prefetch(fingerprint),
            Order::TinyLfu(lfu) => lfu.prefetch(fingerprint),
            _ => {}
        }
    }

    /// Decides where a new item goes, from the fingerprint of its key: its first policy bits.
    pub fn admit(&mut self, fingerprint: u32) -> u8 {
        match &mut self.order {
            Order::Lru(lru) => lru.admit(),
            Order::LruInsertion(lru) => lru.admit(),
            Order::TwoQ(two_q) => two_q.admit(),
            Order::TinyLfu(lfu) => lfu.admit(fingerprint),
            Order::S3Fifo(s3fifo) => s3fifo.admit(fingerprint),
            Order::Sieve(_) => 0,
            Order::Arc(arc) => arc.admit(fingerprint),
        }
    }

    /// Decides where an item goes that was queued before, with these bits, in this policy or
    /// another: its bits now. Some policies know it by them; for others it is new.
    pub fn readmit(&mut self, bits: u8, fingerprint: u32) -> u8 {
        match &self.order {
            Order::Lru(lru) => lru.known(bits),
            Order::S3Fifo(_) => s3fifo::known(bits),
            Order::Sieve(_) => sieve::known(bits),
            _ => self.admit(fingerprint),
        }
    }

    /// Queues the item of `entry`, whose bits are those that [`Self::admit`] gave. `now` in
    /// seconds.
    pub fn push(&mut self, entry: Entry, bits: u8, now: u32) {
        if let Some(before) = &mut self.before {
            before.note_new(entry);
        }
        match &mut self.order {
            Order::Lru(lru) => lru.push(entry, bits, now),
            Order::LruInsertion(lru) => lru.lists.push(entry, bits, now),
            Order::TwoQ(two_q) => two_q.lists.push(entry, bits, now),
            Order::TinyLfu(lfu) => lfu.push(entry, bits, now),
            Order::S3Fifo(s3fifo) => s3fifo.push(entry, bits),
            Order::Sieve(sieve) => sieve.push(entry),
            Order::Arc(arc) => arc.lists.push(entry, bits, now),
        }
    }

    /// Brings queues to their shares after items came, without which the next eviction would have
    /// more to do. Costs little where there is little to do; at most some 64 items are moved, and
    /// half of [`MOST_LOOKS`] entries looked at.
    pub fn tend(&mut self, items: &impl Items) {
        self.looks.begin();
        let looks = &mut self.looks;
        match &mut self.order {
            Order::LruInsertion(lru) => lru.tend(items, looks),
            Order::TwoQ(two_q) => two_q.tend(items, looks),
            Order::TinyLfu(lfu) => lfu.tend(items, looks),
            Order::Lru(_) | Order::S3Fifo(_) | Order::Sieve(_) | Order::Arc(_) => {}
        }
    }

    /// Notes that an item with `bits` left by another way than eviction: its entry is stale. Now
    /// and then sweeps. `entry` is asked for during a conversion only.
    pub fn removed(&mut self, bits: u8, items: &impl Items, entry: impl FnOnce() -> Entry) {
        match &mut self.before {
            Some(before) if before.has(entry()) => before.removed(bits, items),
            _ => self.order.removed(bits, items),
        }
    }

    /// Chooses an item, claims it and lets go of it. `None`: there is none, or [`MAX_HELD_TRIES`]
    /// were held, or so many entries were stale that another call has to go on
    /// ([`Self::is_unfinished`]). Looks at a limited number of entries, whatever was hit:
    /// [`MOST_LOOKS`] and then [`MOST_STALE`].
    pub fn evict(&mut self, items: &impl Items) -> Option<Entry> {
        self.looks.begin();
        if self.tail_items > 0 {
            self.evictions_to_tail = self.evictions_to_tail.saturating_sub(1);
            if self.evictions_to_tail == 0 {
                self.evictions_to_tail = EVICTIONS_PER_TAIL;
                self.look_for_tail();
            }
        }
        let (order, looks) = (&mut self.order, &mut self.looks);
        match &mut self.before {
            None => order.evict(items, looks),
            Some(before) if before.len() < order.len() => {
                order.evict(items, looks).or_else(|| before.evict(items, looks))
            }
            Some(before) => before.evict(items, looks).or_else(|| order.evict(items, looks)),
        }
    }

    /// As [`Self::evict`], however many stale entries there are: for callers that nobody waits for.
    pub fn evict_unhurried(&mut self, items: &impl Items) -> Option<Entry> {
        loop {
            let evicted = self.evict(items);
            if evicted.is_some() || !self.is_unfinished() {
                return evicted;
            }
        }
    }

    /// Whether the last eviction gave up because it met nothing but stale entries, which it has
    /// dropped: another call goes on.
    pub fn is_unfinished(&self) -> bool {
        self.looks.is_spent()
    }

    /// How many entries the last eviction has looked at.
    pub fn looks(&self) -> u32 {
        self.looks.count()
    }

    /// How many items are queued.
    pub fn len(&self) -> usize {
        self.order.len() + self.unconverted()
    }

    /// Whether no item is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the queues, and of what hits share with them, in bytes. During a conversion there
    /// are those of both policies.
    pub fn queue_bytes(&self) -> usize {
        let before = self.before.as_ref().map_or(0, |before| before.queue_bytes());
        before + self.order.queue_bytes() + self.hits.bytes()
    }

    /// Memory of the ghosts, in bytes.
    pub fn ghost_bytes(&self) -> usize {
        self.before.as_ref().map_or(0, |before| before.ghost_bytes()) + self.order.ghost_bytes()
    }

    /// For how many seconds the item that would be evicted next has not been used, where the policy
    /// knows.
    pub fn tail_age_secs(&self, now: u32) -> Option<u32> {
        if let Order::Lru(lru) = &self.order {
            return lru.tail_age_secs(now);
        }
        let lists = self.order.lists()?;
        let part =
            [Part::Trial, Part::Proven, Part::Young].into_iter().find(|part| lists.part_len(*part) > 0)?;
        Some(lists.generations().age_secs(part, now))
    }

    /// Counts hits among the `items` last of the queues that evictions come from, as many as a slab
    /// has: what a slab less would cost. 0 = counts none, which is the default. Under LRU and SIEVE
    /// nothing is counted. Under S3-FIFO hits among ghosts are, in proportion: what a slab more
    /// would bring.
    pub fn set_tail_items(&mut self, items: usize) {
        self.tail_items = items;
        self.evictions_to_tail = EVICTIONS_PER_TAIL;
        self.look_for_tail();
    }

    fn look_for_tail(&mut self) {
        if let Order::S3Fifo(s3fifo) = &mut self.order {
            s3fifo.set_tail_items(self.tail_items);
        }
        if let Some(lists) = self.order.lists() {
            for part in [Part::Trial, Part::Proven] {
                lists.generations().set_tail(part, self.tail_items);
            }
        }
    }

    /// Hits among the last items since the class began, where the policy counts them
    /// ([`Self::set_tail_items`]). Under 2Q those in the warm and the cold queue are weighted by
    /// the shares of these queues, as in CacheLib.
    pub fn tail_hits(&self) -> Option<u64> {
        match &self.order {
            Order::TwoQ(two_q) => Some(two_q.tail_hits()),
            Order::S3Fifo(s3fifo) => Some(s3fifo.tail_hits()),
            _ => {
                let generations = self.order.lists()?.generations();
                Some(generations.tail_hits(Part::Trial) + generations.tail_hits(Part::Proven))
            }
        }
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// Where one does not hold.
    pub fn validate(&self, items: &impl Items) {
        if let Some(before) = &self.before {
            before.validate(items);
        }
        self.order.validate(items);
    }
}

#[cfg(test)]
mod behaviour;
#[cfg(test)]
pub(crate) mod testing;

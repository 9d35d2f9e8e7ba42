//! Eviction policies as plain values: no lock, no clock, no thread.
//!
//! A policy orders the items of one size class of one pool. The engine keeps it behind the lock of that class and
//! asks it what to evict. A hit never takes that lock: it changes the item's own 8 *policy bits* by the policy's
//! [`HitRule`], and the policy folds them in when it next looks at the item.
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
//! What they are made of: [`fifo`], queues of 4-byte entries; [`ghost`], what is remembered of evicted keys; `lists`, LRU
//! lists whose order follows hits that take no lock, by the stamps of `generations`; `sketch`, how often keys were asked
//! for. [`Policy::convert`] turns one policy into another while the cache serves.
//!
//! Queues name items by [`Entry`]; when an item is removed or replaced, its entry stays behind and turns *stale*. A
//! policy meets stale entries when it evicts, and sweeps them out before they exceed a third of its entries.

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
mod queues;
pub mod s3fifo;
pub mod sieve;
mod sketch;
pub mod tiny_lfu;
pub mod two_q;

use std::sync::Arc;

use arc::Arc as AdaptiveCache;
use generations::Part;
pub use hits::HitRule;
use hits::{Hits, Rule};
use insertion::LruInsertion;
pub use kind::{PolicyKind, UnknownPolicy};
use lists::Lists;
use looks::Looks;
pub use looks::{MOST_LOOKS, MOST_STALE};
use lru::Lru;
pub use queues::{MAX_QUEUES, Queue};
use s3fifo::S3Fifo;
use sieve::Sieve;
use tiny_lfu::TinyLfu;
use two_q::TwoQ;

/// Names an item in a queue: opaque to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry(pub u32);

/// What became of an attempt to take an item away for eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the caller's now.
    Taken,
    /// Somebody holds it.
    Held,
    /// It left the cache a moment ago and its [`Policy::removed`] was not called yet, nor will it be: the policy forgets
    /// it now.
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
    /// 32 bits of the hash of the item's key: those that [`Policy::admit`] and [`HitRule::count`] are given.
    ///
    /// Asked about items that are queued ([`Self::bits`] is not `None`) while the lock of the class is held, or that were
    /// just claimed. Where an eviction asks at all, it asks about the item that it evicts last.
    fn fingerprint(&self, entry: Entry) -> u32;
    /// Fetches what the other questions will need.
    fn prefetch(&self, _entry: Entry) {}
}

/// Held items that one eviction passes over before it gives up (CacheLib: 50).
pub const MAX_HELD_TRIES: u32 = 50;

/// The order of the items, by one of the policies.
enum Order {
    Lru(Lru),
    LruInsertion(LruInsertion),
    TwoQ(TwoQ),
    TinyLfu(TinyLfu),
    S3Fifo(S3Fifo),
    Sieve(Sieve),
    Arc(AdaptiveCache),
}

/// The policy of one class.
pub struct Policy {
    kind: PolicyKind,
    hits: Arc<Hits>,
    order: Order,
    tail_items: usize,
    evictions_to_tail: u32,
    looks: Looks,
}

/// What belongs to the tail is looked for again after so many evictions.
const EVICTIONS_PER_TAIL: u32 = 64;

impl Policy {
    /// An empty policy of `kind`; `now` in seconds.
    pub fn new(kind: PolicyKind, now: u32) -> Self {
        let policy = Self::over(Arc::new(Hits::new()), kind, 0, now);
        policy.hits.set(policy.rule());
        policy
    }

    /// An empty policy of `kind` that `expected` items are about to enter; `hits` do not go by its rule yet.
    fn over(hits: Arc<Hits>, kind: PolicyKind, expected: usize, now: u32) -> Self {
        let order = match kind {
            PolicyKind::Lru { refresh_secs } => Order::Lru(Lru::new(refresh_secs, &hits, expected, now)),
            PolicyKind::LruInsertion { shift } => {
                Order::LruInsertion(LruInsertion::new(shift, &hits, expected, now))
            }
            PolicyKind::TwoQ { hot_percent, cold_percent } => {
                Order::TwoQ(TwoQ::new(hot_percent, cold_percent, &hits, expected, now))
            }
            PolicyKind::TinyLfu { window_percent } => {
                Order::TinyLfu(TinyLfu::new(window_percent, false, &hits, expected, now))
            }
            PolicyKind::WTinyLfu { window_percent } => {
                Order::TinyLfu(TinyLfu::new(window_percent, true, &hits, expected, now))
            }
            PolicyKind::S3Fifo { small_percent } => Order::S3Fifo(S3Fifo::new(small_percent)),
            PolicyKind::Sieve => Order::Sieve(Sieve::default()),
            PolicyKind::Arc => Order::Arc(AdaptiveCache::new(&hits, expected, now)),
        };
        Self { kind, hits, order, tail_items: 0, evictions_to_tail: 0, looks: Looks::default() }
    }

    fn rule(&self) -> Rule {
        match self.order {
            Order::Lru(_) => Rule::Lru,
            Order::S3Fifo(_) => Rule::S3Fifo,
            Order::Sieve(_) => Rule::Sieve,
            Order::TinyLfu(_) => Rule::Counted,
            Order::LruInsertion(_) | Order::TwoQ(_) | Order::Arc(_) => Rule::Lists,
        }
    }

    /// Queues the items of another policy, the first to go first.
    fn adopt(&mut self, entries: &[Entry], items: &impl Items, now: u32) {
        match &mut self.order {
            Order::Lru(lru) => lru.adopt(entries, items, now),
            Order::LruInsertion(lru) => lru.adopt(entries, items, now),
            Order::TwoQ(two_q) => two_q.adopt(entries, items, now),
            Order::TinyLfu(lfu) => lfu.adopt(entries, items, now),
            Order::S3Fifo(s3fifo) => s3fifo.adopt(entries, items),
            Order::Sieve(sieve) => sieve.adopt(entries, items),
            Order::Arc(arc) => arc.adopt(entries, items, now),
        }
    }

    /// The lists of the policies that are made of them.
    fn lists(&self) -> Option<&Lists> {
        match &self.order {
            Order::LruInsertion(lru) => Some(&lru.lists),
            Order::TwoQ(two_q) => Some(&two_q.lists),
            Order::TinyLfu(lfu) => Some(&lfu.lists),
            Order::Arc(arc) => Some(&arc.lists),
            Order::Lru(_) | Order::S3Fifo(_) | Order::Sieve(_) => None,
        }
    }

    /// Which policy this is.
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

    /// Decides where an item goes that was queued before, with these bits, in this policy or another: its bits now. Some
    /// policies know it by them; for others it is new.
    pub fn readmit(&mut self, bits: u8, fingerprint: u32) -> u8 {
        match &self.order {
            Order::Lru(lru) => lru.known(bits),
            Order::S3Fifo(_) => s3fifo::known(bits),
            Order::Sieve(_) => sieve::known(bits),
            _ => self.admit(fingerprint),
        }
    }

    /// Queues the item of `entry`, whose bits are those that [`Self::admit`] gave. `now` in seconds.
    pub fn push(&mut self, entry: Entry, bits: u8, now: u32) {
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

    /// Brings queues to their shares after items came, without which the next eviction would have more to do. Costs little
    /// where there is little to do; at most some 64 items are moved, and half of [`MOST_LOOKS`] entries looked at.
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

    /// Notes that an item with `bits` left by another way than eviction: its entry is stale. Now and then sweeps.
    pub fn removed(&mut self, bits: u8, items: &impl Items) {
        match &mut self.order {
            Order::Lru(lru) => lru.removed(items),
            Order::LruInsertion(lru) => lru.lists.removed(bits, items),
            Order::TwoQ(two_q) => two_q.lists.removed(bits, items),
            Order::TinyLfu(lfu) => lfu.lists.removed(bits, items),
            Order::S3Fifo(s3fifo) => s3fifo.removed(bits, items),
            Order::Sieve(sieve) => sieve.removed(items),
            Order::Arc(arc) => arc.lists.removed(bits, items),
        }
    }

    /// Chooses an item, claims it and lets go of it. `None`: there is none, or [`MAX_HELD_TRIES`] were held, or so many entries
    /// were stale that another call has to go on ([`Self::is_unfinished`]). Looks at a limited number of entries, whatever was hit:
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
        // A policy of several lists may meet, in the last one that it asks, only items that belong to an earlier one by now.
        self.evict_once(items).or_else(|| if self.is_empty() { None } else { self.evict_once(items) })
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

    fn evict_once(&mut self, items: &impl Items) -> Option<Entry> {
        let looks = &mut self.looks;
        match &mut self.order {
            Order::Lru(lru) => lru.evict(items, looks),
            Order::LruInsertion(lru) => lru.evict(items, looks),
            Order::TwoQ(two_q) => two_q.evict(items, looks),
            Order::TinyLfu(lfu) => lfu.evict(items, looks),
            Order::S3Fifo(s3fifo) => s3fifo.evict(items, looks),
            Order::Sieve(sieve) => sieve.evict(items, looks),
            Order::Arc(arc) => arc.evict(items, looks),
        }
    }

    /// Whether the last eviction gave up because it met nothing but stale entries, which it has dropped: another call goes on.
    pub fn is_unfinished(&self) -> bool {
        self.looks.is_spent()
    }

    /// How many entries the last eviction has looked at.
    pub fn looks(&self) -> u32 {
        self.looks.count()
    }

    /// How many items are queued.
    pub fn len(&self) -> usize {
        match &self.order {
            Order::Lru(lru) => lru.len(),
            Order::S3Fifo(s3fifo) => s3fifo.len(),
            Order::Sieve(sieve) => sieve.len(),
            _ => self.lists().map_or(0, Lists::len),
        }
    }

    /// Whether no item is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the queues, and of what hits share with them, in bytes.
    pub fn queue_bytes(&self) -> usize {
        let queues = match &self.order {
            Order::Lru(lru) => lru.queue_bytes(),
            Order::S3Fifo(s3fifo) => s3fifo.queue_bytes(),
            Order::Sieve(sieve) => sieve.queue_bytes(),
            _ => self.lists().map_or(0, Lists::queue_bytes),
        };
        queues + self.hits.bytes()
    }

    /// Memory of the ghosts, in bytes.
    pub fn ghost_bytes(&self) -> usize {
        match &self.order {
            Order::S3Fifo(s3fifo) => s3fifo.ghost_bytes(),
            Order::Arc(arc) => arc.ghost_bytes(),
            _ => 0,
        }
    }

    /// For how many seconds the item that would be evicted next has not been used, where the policy knows.
    pub fn tail_age_secs(&self, now: u32) -> Option<u32> {
        if let Order::Lru(lru) = &self.order {
            return lru.tail_age_secs(now);
        }
        let lists = self.lists()?;
        let part =
            [Part::Trial, Part::Proven, Part::Young].into_iter().find(|part| lists.part_len(*part) > 0)?;
        Some(lists.generations().age_secs(part, now))
    }

    /// Counts hits among the `items` last of the queues that evictions come from, as many as a slab has: what a slab less
    /// would cost. 0 = counts none, which is the default. Under LRU and SIEVE nothing is counted.
    /// Under S3-FIFO hits among ghosts are, in proportion: what a slab more would bring.
    pub fn set_tail_items(&mut self, items: usize) {
        self.tail_items = items;
        self.evictions_to_tail = EVICTIONS_PER_TAIL;
        self.look_for_tail();
    }

    fn look_for_tail(&mut self) {
        if let Order::S3Fifo(s3fifo) = &mut self.order {
            s3fifo.set_tail_items(self.tail_items);
        }
        if let Some(lists) = self.lists() {
            for part in [Part::Trial, Part::Proven] {
                lists.generations().set_tail(part, self.tail_items);
            }
        }
    }

    /// Hits among the last items since the class began, where the policy counts them ([`Self::set_tail_items`]). Under 2Q
    /// those in the warm and the cold queue are weighted by the shares of these queues, as in CacheLib.
    pub fn tail_hits(&self) -> Option<u64> {
        match &self.order {
            Order::TwoQ(two_q) => Some(two_q.tail_hits()),
            Order::S3Fifo(s3fifo) => Some(s3fifo.tail_hits()),
            _ => {
                let generations = self.lists()?.generations();
                Some(generations.tail_hits(Part::Trial) + generations.tail_hits(Part::Proven))
            }
        }
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// Where one does not hold.
    pub fn validate(&self, items: &impl Items) {
        match &self.order {
            Order::Lru(lru) => lru.validate(items),
            Order::S3Fifo(s3fifo) => s3fifo.validate(items),
            Order::Sieve(sieve) => sieve.validate(items),
            _ => {
                if let Some(lists) = self.lists() {
                    lists.validate(items);
                }
            }
        }
    }
}

#[cfg(test)]
mod behaviour;
#[cfg(test)]
pub(crate) mod testing;

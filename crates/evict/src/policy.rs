//! A policy at work: the order of one class's items, the hits that it shares, and a conversion that
//! may be under way.

use std::sync::Arc;

use crate::contract::{Entry, Items};
use crate::convert::Before;
use crate::hits::{HitRule, Hits};
use crate::kind::PolicyKind;
use crate::looks::Looks;
use crate::order::Order;

/// The policy of one class.
pub struct Policy {
    pub(crate) kind: PolicyKind,
    pub(crate) hits: Arc<Hits>,
    pub(crate) order: Order,
    /// The old policy's side, while this one takes over its items.
    pub(crate) before: Option<Box<Before>>,
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
        let order = kind.order(&hits, 0, now);
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
        self.order.prefetch(fingerprint);
    }

    /// Decides where a new item goes, from the fingerprint of its key: its first policy bits.
    pub fn admit(&mut self, fingerprint: u32) -> u8 {
        self.order.admit(fingerprint)
    }

    /// Decides where an item goes that was queued before, with these bits, in this policy or
    /// another: its bits now. Some policies know it by them; for others it is new.
    pub fn readmit(&mut self, bits: u8, fingerprint: u32) -> u8 {
        self.order.readmit(bits, fingerprint)
    }

    /// Queues the item of `entry`, whose bits are those that [`Self::admit`] gave. `now` in
    /// seconds.
    pub fn push(&mut self, entry: Entry, bits: u8, now: u32) {
        if let Some(before) = &mut self.before {
            before.note_new(entry);
        }
        self.order.push(entry, bits, now);
    }

    /// Brings queues to their shares after items came, without which the next eviction would have
    /// more to do. Costs little where there is little to do; at most some 64 items are moved, and
    /// half of [`MOST_LOOKS`](crate::MOST_LOOKS) entries looked at.
    pub fn tend(&mut self, items: &impl Items) {
        self.looks.begin();
        self.order.tend(items, &mut self.looks);
    }

    /// Notes that an item with `bits` left by another way than eviction: its entry is stale. Now
    /// and then sweeps. `entry` is asked for during a conversion only.
    pub fn removed(&mut self, bits: u8, items: &impl Items, entry: impl FnOnce() -> Entry) {
        match &mut self.before {
            Some(before) if before.has(entry()) => before.removed(bits, items),
            _ => self.order.removed(bits, items),
        }
    }

    /// Chooses an item, claims it and lets go of it. `None`: there is none, or
    /// [`MAX_HELD_TRIES`](crate::MAX_HELD_TRIES) were held, or so many entries were stale that
    /// another call has to go on ([`Self::is_unfinished`]). Looks at a limited number of entries,
    /// whatever was hit: [`MOST_LOOKS`](crate::MOST_LOOKS) and then
    /// [`MOST_STALE`](crate::MOST_STALE).
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

    /// Returns whether the last eviction gave up because it met nothing but stale entries, which it
    /// has dropped: another call goes on.
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

    /// Returns whether no item is queued.
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
        self.order.tail_age_secs(now)
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

    pub(crate) fn look_for_tail(&mut self) {
        self.order.set_tail_items(self.tail_items);
    }

    /// Hits among the last items since the class began, where the policy counts them
    /// ([`Self::set_tail_items`]). Under 2Q those in the warm and the cold queue are weighted by
    /// the shares of these queues, as in CacheLib.
    pub fn tail_hits(&self) -> Option<u64> {
        self.order.tail_hits()
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn validate(&self, items: &impl Items) {
        if let Some(before) = &self.before {
            before.validate(items);
        }
        self.order.validate(items);
    }
}

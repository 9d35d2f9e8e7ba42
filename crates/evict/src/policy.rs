//! The policy of a class: the order of its items, the state shared with hits, and a conversion that
//! may be running.

use std::sync::Arc;

use crate::contract::{Entry, Items};
use crate::convert::Before;
use crate::hits::{HitRule, Hits};
use crate::kind::PolicyKind;
use crate::order::Order;
use crate::scan_budget::ScanBudget;
use crate::split::SplitTarget;

/// The policy of one class.
pub struct Policy {
    pub(crate) kind: PolicyKind,
    pub(crate) hits: Arc<Hits>,
    /// Followed by [`PolicyKind::LruSplit`].
    pub(crate) split: Arc<SplitTarget>,
    pub(crate) order: Order,
    /// The old policy, while this one takes over its items.
    pub(crate) before: Option<Box<Before>>,
    tail_items: usize,
    evictions_to_tail: u32,
    scan: ScanBudget,
}

/// Evictions after which the content of the tail is determined again.
const EVICTIONS_PER_TAIL: u32 = 64;

impl Policy {
    /// Creates an empty policy of `kind`; `now` in seconds.
    pub fn new(kind: PolicyKind, now: u32) -> Self {
        Self::following(kind, Arc::default(), now)
    }

    /// The same for a policy that follows `split`, if it is [`PolicyKind::LruSplit`] or becomes it.
    pub fn following(kind: PolicyKind, split: Arc<SplitTarget>, now: u32) -> Self {
        let hits = Arc::new(Hits::new());
        let order = kind.order((&hits, &split), 0, now);
        hits.set(order.rule());
        Self {
            kind,
            hits,
            split,
            order,
            before: None,
            tail_items: 0,
            evictions_to_tail: 0,
            scan: ScanBudget::default(),
        }
    }

    /// The kind of the policy; during a conversion the new one.
    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// The rule for hits on items of this policy, which also follows conversions.
    pub fn hit_rule(&self) -> HitRule {
        HitRule(Arc::clone(&self.hits))
    }

    /// Prefetches the memory that [`Self::admit`] will read.
    #[inline]
    pub fn prefetch(&self, fingerprint: u32) {
        self.order.prefetch(fingerprint);
    }

    /// Returns the first policy bits of a new item, which decide its place, from the fingerprint of
    /// its key.
    pub fn admit(&mut self, fingerprint: u32) -> u8 {
        self.order.admit(fingerprint)
    }

    /// Returns the new policy bits of an item that was queued before with these bits, in this
    /// policy or another. Some policies keep its place by the bits; for others it is a new item.
    pub fn readmit(&mut self, bits: u8, fingerprint: u32) -> u8 {
        self.order.readmit(bits, fingerprint)
    }

    /// Queues the item of `entry`, whose bits are those that [`Self::admit`] returned. `now` in
    /// seconds.
    pub fn push(&mut self, entry: Entry, bits: u8, now: u32) {
        if let Some(before) = &mut self.before {
            before.note_new(entry);
        }
        self.order.push(entry, bits, now);
    }

    /// Restores the shares of queues after insertions, which leaves less work for the next
    /// eviction. Cheap if there is little to do; at most about 64 items are moved, and half of
    /// [`MAX_SCANNED`](crate::MAX_SCANNED) entries examined.
    pub fn restore_shares(&mut self, items: &impl Items) {
        self.scan.begin();
        self.order.restore_shares(items, &mut self.scan);
    }

    /// Records that an item with `bits` was removed other than by eviction: its entry is stale.
    /// Sweeps now and then. `entry` is called only during a conversion.
    pub fn removed(&mut self, bits: u8, items: &impl Items, entry: impl FnOnce() -> Entry) {
        match &mut self.before {
            Some(before) if before.has(entry()) => before.removed(bits, items),
            _ => self.order.removed(bits, items),
        }
    }

    /// Chooses an item, claims it and drops it from its queue. Returns `None` if there is no item,
    /// [`MAX_HELD_TRIES`](crate::MAX_HELD_TRIES) items were held, or too many entries were stale
    /// and another call has to continue ([`Self::is_unfinished`]). Examines a limited number of
    /// entries, whatever was hit: [`MAX_SCANNED`](crate::MAX_SCANNED) and then
    /// [`MAX_STALE`](crate::MAX_STALE).
    pub fn evict(&mut self, items: &impl Items) -> Option<Entry> {
        self.scan.begin();
        if self.tail_items > 0 {
            self.evictions_to_tail = self.evictions_to_tail.saturating_sub(1);
            if self.evictions_to_tail == 0 {
                self.evictions_to_tail = EVICTIONS_PER_TAIL;
                self.look_for_tail();
            }
        }
        let (order, scan) = (&mut self.order, &mut self.scan);
        match &mut self.before {
            None => order.evict(items, scan),
            Some(before) if before.len() < order.len() => {
                order.evict(items, scan).or_else(|| before.evict(items, scan))
            }
            Some(before) => before.evict(items, scan).or_else(|| order.evict(items, scan)),
        }
    }

    /// Like [`Self::evict`], for any number of stale entries: for callers without latency limits.
    pub fn evict_unhurried(&mut self, items: &impl Items) -> Option<Entry> {
        loop {
            let evicted = self.evict(items);
            if evicted.is_some() || !self.is_unfinished() {
                return evicted;
            }
        }
    }

    /// Returns whether the last eviction gave up because it found only stale entries, which it has
    /// dropped. Another call continues.
    pub fn is_unfinished(&self) -> bool {
        self.scan.is_spent()
    }

    /// The number of entries that the last eviction examined.
    pub fn looks(&self) -> u32 {
        self.scan.count()
    }

    /// The number of queued items.
    pub fn len(&self) -> usize {
        self.order.len() + self.unconverted()
    }

    /// Returns whether no item is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the queues, and of the state shared with hits, in bytes. During a conversion this
    /// includes both policies.
    pub fn queue_bytes(&self) -> usize {
        let before = self.before.as_ref().map_or(0, |before| before.queue_bytes());
        before + self.order.queue_bytes() + self.hits.bytes()
    }

    /// Memory of the ghosts, in bytes.
    pub fn ghost_bytes(&self) -> usize {
        self.before.as_ref().map_or(0, |before| before.ghost_bytes()) + self.order.ghost_bytes()
    }

    /// The seconds since the last use of the item that would be evicted next, if the policy knows.
    pub fn tail_age_secs(&self, now: u32) -> Option<u32> {
        self.order.tail_age_secs(now)
    }

    /// Counts hits among the last `items` items, as many as a slab has, of the queues that are
    /// evicted from: the cost of a slab less. 0 = counts none, which is the default. LRU and SIEVE
    /// count no hits. S3-FIFO counts hits among ghosts, in proportion: the gain of a slab more.
    pub fn set_tail_items(&mut self, items: usize) {
        self.tail_items = items;
        self.evictions_to_tail = EVICTIONS_PER_TAIL;
        self.look_for_tail();
    }

    pub(crate) fn look_for_tail(&mut self) {
        self.order.set_tail_items(self.tail_items);
    }

    /// Hits among the last items since the class was created, if the policy counts them
    /// ([`Self::set_tail_items`]). Under 2Q those in the warm and the cold queue are weighted by
    /// the shares of these queues, as in CacheLib.
    pub fn tail_hits(&self) -> Option<u64> {
        self.order.tail_hits()
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn validate(&self, items: &impl Items) {
        if let Some(before) = &self.before {
            before.validate(items);
        }
        self.order.validate(items);
    }
}

//! Converting one policy into another while the cache serves, a limited number of items at a time.
//!
//! A conversion begins with an empty order of the new kind beside the old one. New items enter the
//! new order at once. Each step takes the next items of the old order, as if it evicted them, and
//! queues them in the new order: the next items to evict stay the next to evict. Between two steps
//! the class serves as usual: items are inserted, removed and evicted. An eviction uses the larger
//! of the two orders, so that it takes items that the old policy ranked low: at first from the old
//! order, later those that were moved first.
//!
//! The old policy's ghosts and its hit counts of items are lost. Until the last item is moved hits
//! have no effect, as the bits of an item belong to the policy of the order that it is in.
//!
//! Invariants:
//! 1. An item is queued by exactly one of the orders: by the new one if its place is in `taken`,
//!    else by the old one. A place stays in `taken`: a later item at that place enters the new
//!    order.
//! 2. The old order has clocks of its own ([`Order::detach_clock`]); those of `hits` are the new
//!    order's.
//! 3. No item enters the old order, so that as many steps as it has items end the conversion.

use crate::contract::{Claim, Entry, Items, Rank, Rule};
use crate::kind::PolicyKind;
use crate::order::Order;
use crate::policy::Policy;
use crate::scan_budget::ScanBudget;

/// The old side of a conversion.
pub(crate) struct Before {
    order: Order,
    /// Number of items at the beginning.
    items: usize,
    taken: Places,
}

/// The outcome of a step of a conversion ([`Policy::convert`]).
#[must_use]
pub enum Conversion {
    /// The policy is of the requested kind.
    Done,
    /// Another step is needed. If this one has emptied the queues of the old policy, it returns
    /// them, to be dropped without a lock.
    Unfinished(Option<EmptyQueues>),
}

/// Queues that a conversion has emptied.
pub struct EmptyQueues(#[expect(dead_code, reason = "it is there to be dropped")] Box<Before>);

/// Places per page of [`Places`].
const PAGE: usize = 1 << 15;

/// A set of places, in pages with a bit per place, so that no step of its growth is slow.
#[derive(Default)]
struct Places(Vec<Option<Box<[u64; PAGE / 64]>>>);

impl Places {
    fn insert(&mut self, entry: Entry) {
        let place = entry.place() as usize;
        let page = place / PAGE;
        if page >= self.0.len() {
            self.0.resize_with(page + 1, || None);
        }
        let words = self.0[page].get_or_insert_with(|| Box::new([0; PAGE / 64]));
        words[place % PAGE / 64] |= 1 << (place % 64);
    }

    fn has(&self, entry: Entry) -> bool {
        let place = entry.place() as usize;
        let page = self.0.get(place / PAGE).and_then(Option::as_ref);
        page.is_some_and(|words| words[place % PAGE / 64] & 1 << (place % 64) != 0)
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Option<Box<[u64; PAGE / 64]>>>()
            + self.0.iter().flatten().count() * (PAGE / 8)
    }
}

/// The remaining items of the old order.
struct Left<'a, I> {
    items: &'a I,
    taken: &'a Places,
    /// True if items are moved and stay in the cache: every claim then succeeds.
    moves: bool,
}

impl<I: Items> Items for Left<'_, I> {
    fn bits(&self, entry: Entry) -> Option<u8> {
        if self.taken.has(entry) { None } else { self.items.bits(entry) }
    }

    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        self.items.set_bits(entry, mask, value);
    }

    fn claim(&self, entry: Entry) -> Claim {
        if self.moves { Claim::Taken } else { self.items.claim(entry) }
    }

    fn fingerprint(&self, entry: Entry) -> u32 {
        self.items.fingerprint(entry)
    }

    fn prefetch(&self, entry: Entry) {
        self.items.prefetch(entry);
    }
}

impl Before {
    fn left<'a, I: Items>(taken: &'a Places, items: &'a I) -> Left<'a, I> {
        Left { items, taken, moves: false }
    }

    /// The number of remaining items.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether the old order has the item of `entry`, which is queued.
    pub(crate) fn has(&self, entry: Entry) -> bool {
        !self.taken.has(entry)
    }

    /// Records that the item of `entry` enters the new order.
    pub(crate) fn note_new(&mut self, entry: Entry) {
        self.taken.insert(entry);
    }

    pub(crate) fn removed(&mut self, bits: u8, items: &impl Items) {
        self.order.removed(bits, &Self::left(&self.taken, items));
    }

    pub(crate) fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        self.order.evict(&Self::left(&self.taken, items), scan)
    }

    pub(crate) fn queue_bytes(&self) -> usize {
        self.order.queue_bytes() + self.taken.bytes()
    }

    pub(crate) fn ghost_bytes(&self) -> usize {
        self.order.ghost_bytes()
    }

    pub(crate) fn validate(&self, items: &impl Items) {
        assert!(self.len() <= self.items, "invariant 3");
        self.order.validate(&Self::left(&self.taken, items));
    }
}

impl Policy {
    /// Takes a step towards a policy of `kind` with all items, in the order in which they would
    /// have been evicted. Its hit rules follow. `now` in seconds. A step moves at most `most`
    /// items, some 75 to 300 ns for each, and examines at most twice as many entries, plus those
    /// that one eviction may examine. While another conversion is under way, the step is one of
    /// that.
    ///
    /// No item is lost and none is evicted. The order is kept as far as the new policy has one:
    /// under SIEVE and LRU it is the order of eviction; the others divide it among their queues by
    /// their shares, with the next items to evict in the queue that is evicted from first. A change
    /// of parameters that moves no item between queues costs the same.
    pub fn convert(&mut self, kind: PolicyKind, most: usize, items: &impl Items, now: u32) -> Conversion {
        if self.before.is_none() {
            if kind == self.kind {
                return Conversion::Done;
            }
            self.begin_conversion(kind, now);
        }
        self.take_over(most, items, now);
        let emptied = self.before.take_if(|before| before.order.is_empty());
        if emptied.is_some() {
            self.order.set_ghosts_open(true);
            self.look_for_tail();
            self.hits.set(self.order.rule());
        }
        Conversion::Unfinished(emptied.map(EmptyQueues))
    }

    fn begin_conversion(&mut self, kind: PolicyKind, now: u32) {
        self.hits.set(Rule::None);
        self.order.detach_clock();
        let items = self.order.len();
        let mut order = kind.order((&self.hits, &self.split), items, now);
        // The size of ghosts follows the number of items, so open ghosts would be copied again and
        // again.
        self.order.set_ghosts_open(false);
        order.set_ghosts_open(false);
        let order = std::mem::replace(&mut self.order, order);
        self.before = Some(Box::new(Before { order, items, taken: Places::default() }));
        self.kind = kind;
    }

    /// Moves up to `most` items from the old order to the new one.
    fn take_over(&mut self, most: usize, items: &impl Items, now: u32) {
        let Some(before) = &mut self.before else { return };
        let (mut moved, mut looked_at) = (0, 0);
        while moved < most && looked_at < 2 * most {
            let Before { order, items: of, taken } = &mut **before;
            let (rank, mut scan) = (Rank { at: *of - order.len(), of: *of }, ScanBudget::default());
            let evicted = order.evict(&Left { items, taken, moves: true }, &mut scan);
            looked_at += scan.count() as usize;
            let Some(entry) = evicted else {
                if scan.is_spent() {
                    continue;
                }
                debug_assert!(order.is_empty(), "{} items stayed behind", order.len());
                break;
            };
            taken.insert(entry);
            self.order.adopt(entry, rank, items, now);
            moved += 1;
        }
    }

    /// The number of items that a running conversion has not moved yet.
    pub fn unconverted(&self) -> usize {
        self.before.as_ref().map_or(0, |before| before.len())
    }
}

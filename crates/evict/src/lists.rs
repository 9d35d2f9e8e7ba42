//! Items in up to three LRU lists, whose order and sizes follow hits that take no lock.
//!
//! The base of [`crate::insertion`], [`crate::two_q`], [`crate::tiny_lfu`], [`crate::arc`] and
//! [`crate::split`]: they only decide which list gives up its last item, and where that item moves.
//! [`Generations`] has the stamps that determine the place of an item; the lists here hold the
//! entries, queued by the stamp that an item had when its entry was last touched. The *tail* of a
//! part is its least recently used item: the first entry of its oldest generation whose item still
//! has that stamp. Other entries found on the way are moved to the present places of their items.
//!
//! An item of the trial part that was hit belongs to the proven part, but its entry lies among
//! those of the trial part. Before the proven part ends a generation with counted items that it
//! does not find, it *folds*: it searches a limited number of entries of the trial part for them.
//!
//! Invariants:
//! 1. Each item has an entry. Further entries are stale; more than a third as many as items, plus
//!    256, exist only for a short time.
//! 2. Only live generations have entries.
//! 3. One of the entries of each item lies in the generation of its stamp, or in an older one of
//!    that part, or in another part. A stale entry may name a chunk that now holds another item,
//!    with any stamp.

use std::collections::HashSet;
use std::sync::Arc;

use crate::contract::{Claim, Entry, Items, MAX_HELD_TRIES, Queue};
use crate::fifo::{Blocks, Fifo};
use crate::generations::{Generations, PARTS, Part};
use crate::hits::Hits;
use crate::scan_budget::ScanBudget;
use crate::split::{LEFT, RIGHT, Shares};

/// Entries to examine per removed item, when sweeping is due.
const SWEPT_PER_REMOVAL: usize = 4;
/// Longest queue that is swept as a whole rather than by blocks.
const SHORT: usize = 64;
/// Most entries to examine before a generation ends with counted items that were not found.
const MOST_FOLDED: usize = 512;

/// The parts in the approximate order in which they are evicted from.
const EVICTED: [Part; 3] = [Part::Trial, Part::Proven, Part::Young];

/// The methods of [`EvictionPolicy`](crate::contract::EvictionPolicy) that are the same for all
/// policies made of lists. The lists are the policy's field `lists`.
macro_rules! in_lists {
    () => {
        fn removed(&mut self, bits: u8, items: &impl Items) {
            self.lists.removed(bits, items);
        }

        fn len(&self) -> usize {
            self.lists.len()
        }

        fn tail_age_secs(&self, now: u32) -> Option<u32> {
            self.lists.tail_age_secs(now)
        }

        fn projected_age_secs(&self, items: usize, now: u32) -> Option<u32> {
            self.lists.projected_age_secs(items, now)
        }

        fn set_tail_items(&mut self, items: usize) {
            self.lists.set_tail_items(items);
        }

        fn detach_clock(&mut self) {
            self.lists.detach_clock();
        }

        fn queue_bytes(&self) -> usize {
            self.lists.queue_bytes()
        }

        fn validate(&self, items: &impl Items) {
            self.lists.validate(items);
        }
    };
}
pub(crate) use in_lists;

/// The tail of a part, with the stamp of its item. Once an eviction no longer follows the policy's
/// order, this may be an item that belongs elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) entry: Entry,
    stamp: u8,
    /// The part whose tail it is.
    pub(crate) part: Part,
}

/// The lists.
pub(crate) struct Lists {
    generations: Arc<Generations>,
    /// True if the policy has a young part. If not, items with a young stamp were hit under another
    /// policy.
    has_young: bool,
    blocks: Blocks<15>,
    queues: Box<[Fifo; 256]>,
    /// The tail of each part, once it was searched.
    tails: [Option<Entry>; 3],
    /// Entries in all queues and tails.
    entries: usize,
    items: usize,
    sweep_credit: usize,
    sweep_at: u8,
    fold_at: u8,
    /// Entries that a sweep removed because their items belong elsewhere; empty between calls.
    moved: Vec<(Entry, u8)>,
    regrouping: Option<Box<Regrouping>>,
}

/// A split of which not all items may be in the partitions of their keys.
struct Regrouping {
    shares: Shares,
    /// Entries of each part to be examined until they are.
    left: [usize; 3],
}

impl Lists {
    /// Creates empty lists over the generations of `hits`, which are reset; `expected` items are
    /// about to be queued.
    pub(crate) fn new(hits: &Hits, has_young: bool, expected: usize, now: u32) -> Self {
        let generations = Arc::clone(hits.generations());
        generations.reset(expected, now);
        Self {
            generations,
            has_young,
            blocks: Blocks::default(),
            queues: Box::new([Fifo::default(); 256]),
            tails: [None; 3],
            entries: 0,
            items: 0,
            sweep_credit: 0,
            sweep_at: 0,
            fold_at: 0,
            moved: Vec::new(),
            regrouping: None,
        }
    }

    /// From now on, items that were hit move to the part of their key when their entry is examined,
    /// until those of each part were.
    pub(crate) fn regroup(&mut self, shares: Shares) {
        let mut left = [0; 3];
        for part in [LEFT, RIGHT] {
            left[part as usize] = self.part_len(part);
        }
        self.regrouping = Some(Box::new(Regrouping { shares, left }));
    }

    /// The stamp of an item of `part` that was hit: another one if the item moves to the part of
    /// its key.
    fn regrouped(&mut self, (entry, stamp): (Entry, u8), part: Part, items: &impl Items) -> u8 {
        let Some(regrouping) = &mut self.regrouping else { return stamp };
        let left = &mut regrouping.left[part as usize];
        if *left == 0 {
            return stamp;
        }
        *left -= 1;
        let home = regrouping.shares.home(items.fingerprint(entry));
        if regrouping.left == [0; 3] {
            self.regrouping = None;
        }
        if home == Part::of(stamp) {
            return stamp;
        }
        let present = self.generations.present(home);
        items.set_bits(entry, 0xff, present);
        self.generations.uncount(stamp);
        self.generations.count(present, || self.generations.now());
        present
    }

    pub(crate) fn detach_clock(&mut self) {
        self.generations = Arc::new(self.generations.copy());
    }

    pub(crate) fn generations(&self) -> &Generations {
        &self.generations
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.items
    }

    /// The number of items in `part`, except for errors from racing hits.
    pub(crate) fn part_len(&self, part: Part) -> usize {
        self.generations.len(part).min(self.items)
    }

    /// Describes the parts with these names.
    pub(crate) fn queues(&self, parts: &[(Part, &'static str)], now: u32) -> Vec<Queue> {
        let queue = |(part, name): &(Part, &'static str)| {
            let items = self.part_len(*part);
            let age_secs = (items > 0).then(|| self.generations.age_secs(*part, now));
            Queue { name, number: *part as usize, items, age_secs, oldest: None }
        };
        parts.iter().map(queue).collect()
    }

    pub(crate) fn tail_age_secs(&self, now: u32) -> Option<u32> {
        let part = EVICTED.into_iter().find(|part| self.part_len(*part) > 0)?;
        Some(self.generations.age_secs(part, now))
    }

    pub(crate) fn projected_age_secs(&self, items: usize, now: u32) -> Option<u32> {
        let mut left = items;
        for part in EVICTED {
            match self.generations.age_behind_secs(part, left, now) {
                Ok(age) => return Some(age),
                Err(passed) => left -= passed.min(left),
            }
        }
        None
    }

    pub(crate) fn set_tail_items(&mut self, items: usize) {
        for part in [Part::Trial, Part::Proven] {
            self.generations.set_tail(part, items);
        }
    }

    /// Returns the hits among the last items of `part`.
    pub(crate) fn tail_hits(&self, part: Part) -> u64 {
        self.generations.tail_hits(part)
    }

    /// Queues a new item, whose stamp was just taken from the generations.
    pub(crate) fn push(&mut self, entry: Entry, stamp: u8, now: u32) {
        self.items += 1;
        self.generations.set_now(now);
        self.generations.count(stamp, || now);
        self.enqueue(entry, stamp);
    }

    /// Queues an item of another policy at the top of `part`.
    pub(crate) fn adopt(&mut self, entry: Entry, part: Part, items: &impl Items, now: u32) {
        let stamp = self.generations.present(part);
        items.set_bits(entry, 0xff, stamp);
        self.push(entry, stamp, now);
    }

    fn enqueue(&mut self, entry: Entry, stamp: u8) {
        self.queues[usize::from(stamp)].push(&mut self.blocks, entry);
        self.entries += 1;
    }

    /// Queues an entry at the present place of its item. A stamp whose generation has died is
    /// replaced by the oldest.
    fn move_to(&mut self, entry: Entry, mut stamp: u8, items: &impl Items) {
        let is_strange = Part::of(stamp) == Part::Young && !self.has_young;
        if is_strange || !self.generations.is_alive(stamp) {
            stamp = match Part::of(stamp) {
                _ if is_strange => self.generations.present(Part::Trial),
                part => self.generations.oldest(part),
            };
            items.set_bits(entry, 0xff, stamp);
            self.generations.count(stamp, || self.generations.now());
        }
        self.enqueue(entry, stamp);
    }

    /// Returns the tail of `part`, without removing it.
    pub(crate) fn tail(&mut self, part: Part, items: &impl Items, scan: &mut ScanBudget) -> Option<Tail> {
        while !scan.is_spent() {
            let entry = match self.tails[part as usize].take() {
                Some(entry) => entry,
                None => self.pop(part, items, scan)?,
            };
            self.entries -= 1;
            scan.add(1);
            let Some(stamp) = items.bits(entry) else { continue };
            let is_here = Part::of(stamp) == part
                && (stamp == self.generations.oldest(part) || !self.generations.is_alive(stamp));
            if is_here || !scan.is_patient() {
                self.tails[part as usize] = Some(entry);
                self.entries += 1;
                return Some(Tail { entry, stamp, part });
            }
            let stamp = self.regrouped((entry, stamp), part, items);
            self.move_to(entry, stamp, items);
        }
        None
    }

    /// Removes the first entry of the oldest generation of `part` from its queue; it still counts
    /// as an entry.
    fn pop(&mut self, part: Part, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        let mut is_folded = false;
        loop {
            let oldest = self.generations.oldest(part);
            let queue = &mut self.queues[usize::from(oldest)];
            if let Some(entry) = queue.pop(&mut self.blocks) {
                if let Some(ahead) = queue.peek(&self.blocks, 4) {
                    items.prefetch(ahead);
                }
                return Some(entry);
            }
            self.generations.next(oldest)?;
            if part == Part::Proven && !is_folded && scan.is_patient() && self.generations.live(oldest) > 0 {
                is_folded = true;
                self.fold(oldest, items, scan);
                continue;
            }
            self.generations.let_oldest_die(part);
        }
    }

    /// Searches entries of the trial part for items that belong to the proven one. Stops at an item
    /// with the stamp `wanted`, after all entries or [`MOST_FOLDED`] of them, or when the eviction
    /// has used up its looks.
    fn fold(&mut self, wanted: u8, items: &impl Items, scan: &mut ScanBudget) {
        if Part::of(self.fold_at) != Part::Trial || !self.generations.is_alive(self.fold_at) {
            self.fold_at = self.generations.oldest(Part::Trial);
        }
        let first = self.fold_at;
        let mut budget = MOST_FOLDED;
        loop {
            let at = self.fold_at;
            let looked_at = self.sweep_queue(at, items);
            scan.add(looked_at);
            if looked_at < SHORT {
                self.fold_at =
                    self.generations.next(at).unwrap_or_else(|| self.generations.oldest(Part::Trial));
            }
            if !self.queues[usize::from(wanted)].is_empty() || looked_at >= budget || !scan.is_patient() {
                return;
            }
            budget -= looked_at;
            if looked_at < SHORT && self.fold_at == first {
                return;
            }
        }
    }

    /// Drops the stale entries of a part of the queue of `stamp`, and moves those whose items
    /// belong to other parts. Returns the number of examined entries.
    fn sweep_queue(&mut self, stamp: u8, items: &impl Items) -> usize {
        let part = Part::of(stamp);
        let queue = &mut self.queues[usize::from(stamp)];
        let moved = &mut self.moved;
        let mut stays = |entry| match items.bits(entry) {
            Some(bits) if Part::of(bits) == part => true,
            Some(bits) => {
                moved.push((entry, bits));
                false
            }
            None => false,
        };
        let looked_at;
        if queue.len() <= SHORT {
            looked_at = queue.len();
            for _ in 0..looked_at {
                match queue.pop(&mut self.blocks) {
                    Some(entry) if stays(entry) => queue.push(&mut self.blocks, entry),
                    _ => self.entries -= 1,
                }
            }
        } else {
            let mut swept = (0, 0);
            for _ in 0..SHORT / 15 + 1 {
                let step = queue.sweep(&mut self.blocks, |entry| items.prefetch(entry), &mut stays);
                swept = (swept.0 + step.0, swept.1 + step.1);
            }
            looked_at = swept.0;
            self.entries -= swept.1;
        }
        while let Some((entry, bits)) = self.moved.pop() {
            self.move_to(entry, bits, items);
        }
        looked_at
    }

    /// Moves the tail of a part, just returned by [`Self::tail`], to the top of `to`.
    pub(crate) fn move_tail(&mut self, tail: Tail, to: Part, items: &impl Items) {
        let entry = tail.entry;
        self.let_tail_go(tail);
        let present = self.generations.present(to);
        items.set_bits(entry, 0xff, present);
        self.generations.count(present, || self.generations.now());
        self.enqueue(entry, present);
    }

    fn let_tail_go(&mut self, tail: Tail) {
        self.tails[tail.part as usize] = None;
        self.entries -= 1;
        self.generations.uncount(tail.stamp);
    }

    /// Drops a tail whose item was removed.
    pub(crate) fn forget_tail(&mut self, tail: Tail) {
        self.let_tail_go(tail);
        self.items -= 1;
    }

    /// Moves tails of `part` to the top of `to` while `part` has more than `most` items, at most
    /// `limit` of them, and only while enough looks remain.
    pub(crate) fn shrink(
        &mut self,
        (part, most): (Part, usize),
        to: Part,
        limit: usize,
        items: &impl Items,
        scan: &mut ScanBudget,
    ) {
        for _ in 0..limit {
            if self.part_len(part) <= most || !scan.is_generous() {
                return;
            }
            let Some(tail) = self.tail(part, items, scan) else { return };
            self.move_tail(tail, to, items);
        }
    }

    /// Claims the tail of `part` and drops it; held tails move to the top of their part. Returns
    /// `None` if the part has no items or only held ones, or `tries` has reached
    /// [`MAX_HELD_TRIES`].
    pub(crate) fn evict_from(
        &mut self,
        part: Part,
        items: &impl Items,
        tries: &mut u32,
        scan: &mut ScanBudget,
    ) -> Option<Entry> {
        let last_try = tries.saturating_add(self.part_len(part) as u32);
        while *tries < MAX_HELD_TRIES && *tries <= last_try {
            let tail = self.tail(part, items, scan)?;
            match items.claim(tail.entry) {
                Claim::Taken => {
                    self.forget_tail(tail);
                    return Some(tail.entry);
                }
                Claim::Held => {
                    *tries += 1;
                    self.move_tail(tail, part, items);
                }
                Claim::Gone => self.forget_tail(tail),
            }
        }
        None
    }

    /// Evicts from the first of `parts` with an item that can be evicted.
    pub(crate) fn evict_in_order(
        &mut self,
        parts: &[Part],
        items: &impl Items,
        tries: &mut u32,
        scan: &mut ScanBudget,
    ) -> Option<Entry> {
        parts.iter().find_map(|part| self.evict_from(*part, items, tries, scan))
    }

    /// Records that an item with `stamp` was removed other than by eviction.
    pub(crate) fn removed(&mut self, stamp: u8, items: &impl Items) {
        self.items -= 1;
        self.generations.uncount(stamp);
        if (self.entries - self.items) * 4 > self.items + 256 {
            self.sweep_credit += SWEPT_PER_REMOVAL;
            while self.sweep_credit >= SHORT {
                self.sweep_credit -= SHORT;
                self.sweep(items);
            }
        }
    }

    /// Sweeps a part of one queue with entries, and moves on to the next.
    fn sweep(&mut self, items: &impl Items) {
        let mut looked_at = 0;
        for _ in 0..256 {
            looked_at += self.sweep_queue(self.sweep_at, items);
            if looked_at >= SHORT {
                return;
            }
            self.sweep_at = self.sweep_at.wrapping_add(1);
        }
    }

    pub(crate) fn queue_bytes(&self) -> usize {
        self.blocks.bytes() + size_of::<[Fifo; 256]>() + self.moved.capacity() * size_of::<(Entry, u8)>()
    }

    pub(crate) fn validate(&self, items: &impl Items) {
        let mut entries = self.tails.iter().flatten().copied().collect::<Vec<_>>();
        // Those that invariant 3 holds of.
        let mut placed: HashSet<u32> = entries.iter().map(|entry| entry.0).collect();
        for (stamp, queue) in (0..=255).zip(self.queues.iter()) {
            assert!(queue.is_empty() || self.generations.is_alive(stamp), "invariant 2: stamp {stamp}");
            for entry in queue.entries(&self.blocks) {
                entries.push(entry);
                let is_above = |bits| {
                    Part::of(bits) == Part::of(stamp)
                        && self.generations.is_alive(bits)
                        && self.generations.age(bits) < self.generations.age(stamp)
                };
                if !items.bits(entry).is_some_and(is_above) {
                    placed.insert(entry.0);
                }
            }
        }
        let is_placed = |entry: &Entry| placed.contains(&entry.0);
        assert!(entries.iter().all(is_placed), "invariant 3");
        assert_eq!(entries.len(), self.entries);
        let stamps: Vec<u8> = entries.iter().filter_map(|entry| items.bits(*entry)).collect();
        assert!(stamps.len() >= self.items, "invariant 1: {} entries for {} items", stamps.len(), self.items);
        self.generations.validate(&stamps);
        assert_eq!(PARTS.len(), self.tails.len());
    }
}

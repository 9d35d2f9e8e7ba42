//! LRU in two partitions by key, as Talus splits a queue that is on a cliff.
//!
//! N. Beckmann and D. Sanchez, "Talus: A Simple Way to Remove Cliffs in Cache Performance",
//! HPCA'15; A. Cidon, A. Eisenman, M. Alizadeh and S. Katti, "Cliffhanger", NSDI'16, section 4.2,
//! split the queue of a size class so. A partition that sees a share of the keys behaves as a queue
//! that is larger by the inverse of that share. So a *left* partition that holds little and a
//! *right* one that holds the rest miss as little together as a mixture of a smaller and of a
//! larger queue, where the miss-ratio curve of one queue has a plateau.
//!
//! A [`Split`] is given from outside, in a [`SplitTarget`] that the classes of a pool share: the
//! share of the keys that enter the left partition, and its share of the memory. Insertions enter
//! the partition of their key, and an eviction takes the least recently used item of the partition
//! that is over its share. Without a split all keys belong to the right partition, and this is
//! plain LRU.
//!
//! After a change of the split items stay where they are. Those of the wrong partition change to
//! their own when an eviction meets them and they were hit, until it has met all items of a
//! partition once; others are evicted in their turn. If there is no split any more, the items of
//! the left partition move to the top of the right one, some with each eviction.
//!
//! Only LRU is split: a partition behaves as a larger queue under any policy, but the curve by
//! which splits are chosen is that of LRU.
//!
//! Differences from `crate::lru`: there is no refresh time, and the order has at most 124
//! generations in the right partition and 92 in the left one.
//!
//! Policy bits: the stamp of `crate::generations`; young = left, proven = right.

use std::sync::Arc;

use base::hash::mix64;
use base::sync::atomic::{AtomicU64, Ordering};

use crate::contract::{Entry, EvictionPolicy, Items, Queue, Rank, Rule};
use crate::generations::Part;
use crate::hits::Hits;
use crate::lists::{Lists, in_lists};
use crate::scan_budget::ScanBudget;

pub(crate) const LEFT: Part = Part::Young;
pub(crate) const RIGHT: Part = Part::Proven;

/// Most items that move from the left to the right partition per eviction when there is no split
/// any more.
const MOST_MERGED: usize = 32;
/// Fewer items are not split: a share of few is a whole item more or less, and the class of which a
/// pool has only some would give up all keys of its left partition.
const LEAST_ITEMS: usize = 100;
/// Until the first eviction no generation ends, so that all would soon be in use, and hits left no
/// trace: a generation has one in this many of the items, which lasts until there are about 20,000
/// times as many as at first.
const FILLED_BY: usize = 12;

/// A split of a queue into two partitions, by shares from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Split {
    /// The share of the keys, by hash, that belong to the left partition. 0 = no split.
    pub keys: f64,
    /// The left partition's share of the memory.
    pub memory: f64,
}

impl Split {
    /// One queue.
    pub const NONE: Self = Self { keys: 0.0, memory: 0.0 };

    /// Returns whether both shares are from 0 to 1.
    pub fn is_valid(&self) -> bool {
        [self.keys, self.memory].iter().all(|share| (0.0..=1.0).contains(share))
    }
}

/// The split that policies follow which share this value. Read at insertions and evictions, and
/// changed at any time, without a lock: both shares are in one word, so that no policy sees the
/// share of the keys of one split and the memory of another.
#[derive(Debug, Default)]
pub struct SplitTarget(AtomicU64);

impl SplitTarget {
    /// Makes policies follow `split`, whose shares are clamped, to within 2^-32.
    pub fn set(&self, split: Split) {
        let part = |share: f64| (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u64;
        self.0.store(part(split.keys) << 32 | part(split.memory), Ordering::Relaxed);
    }

    /// The present split.
    pub fn get(&self) -> Split {
        let Shares { keys, memory } = self.shares();
        let share = |part: u32| f64::from(part) / f64::from(u32::MAX);
        Split { keys: share(keys), memory: share(memory) }
    }

    fn shares(&self) -> Shares {
        let bits = self.0.load(Ordering::Relaxed);
        Shares { keys: (bits >> 32) as u32, memory: bits as u32 }
    }
}

/// The shares of the left partition, in parts of `u32::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    keys: u32,
    memory: u32,
}

impl Shares {
    /// The partition of a key. Its hash is mixed, as some of its bits choose the keys that a curve
    /// is learnt from.
    #[inline]
    pub(crate) fn home(self, fingerprint: u32) -> Part {
        if (mix64(fingerprint.into()) >> 32) < u64::from(self.keys) { LEFT } else { RIGHT }
    }

    /// Most items of the left partition among `items`.
    fn left_of(self, items: usize) -> usize {
        (items as u64 * u64::from(self.memory) / u64::from(u32::MAX)) as usize
    }
}

/// The policy of one class.
pub struct LruSplit {
    lists: Lists,
    target: Arc<SplitTarget>,
    /// The split at the last eviction.
    shares: Shares,
    /// True until the first eviction.
    fills: bool,
}

impl LruSplit {
    pub(crate) fn new(target: &Arc<SplitTarget>, hits: &Hits, expected: usize, now: u32) -> Self {
        let shares = target.shares();
        let lists = Lists::new(hits, true, expected, now);
        Self { lists, target: Arc::clone(target), shares, fills: expected == 0 }
    }

    /// The split that is to be followed.
    fn wanted(&self) -> Shares {
        if self.lists.len() < LEAST_ITEMS { Shares::default() } else { self.target.shares() }
    }

    /// The present split. If it is another one than before, items of the wrong partition will move.
    fn follow(&mut self) -> Shares {
        let shares = self.wanted();
        if shares.keys != self.shares.keys {
            self.lists.regroup(shares);
        }
        self.shares = shares;
        shares
    }
}

impl EvictionPolicy for LruSplit {
    const RULE: Rule = Rule::Lists;

    in_lists!();

    fn admit(&mut self, fingerprint: u32) -> u8 {
        self.lists.generations().present(self.wanted().home(fingerprint))
    }

    /// Keeps the item's own stamp while that generation is alive, else uses the oldest of its
    /// partition.
    fn readmit(&mut self, stamp: u8, fingerprint: u32) -> u8 {
        let generations = self.lists.generations();
        let is_known = Part::of(stamp) != Part::Trial && generations.is_alive(stamp);
        if is_known { stamp } else { generations.oldest(self.wanted().home(fingerprint)) }
    }

    fn push(&mut self, entry: Entry, stamp: u8, now: u32) {
        if self.fills {
            self.lists.generations().set_quantum(Part::of(stamp), FILLED_BY);
        }
        self.lists.push(entry, stamp, now);
    }

    fn adopt(&mut self, entry: Entry, _rank: Rank, items: &impl Items, now: u32) {
        let home = self.target.shares().home(items.fingerprint(entry));
        self.lists.adopt(entry, home, items, now);
    }

    fn evict(&mut self, items: &impl Items, scan: &mut ScanBudget) -> Option<Entry> {
        self.fills = false;
        let shares = self.follow();
        let left = self.lists.part_len(LEFT);
        let is_over = if shares.keys == 0 {
            // Items of a split that is no more are as good as the others.
            self.lists.shrink((LEFT, 0), RIGHT, MOST_MERGED, items, scan);
            false
        } else {
            left > shares.left_of(self.lists.len())
        };
        // No item belongs to the third part; one that a late hit has sent there goes first.
        let parts = if is_over { [Part::Trial, LEFT, RIGHT] } else { [Part::Trial, RIGHT, LEFT] };
        self.lists.evict_in_order(&parts, items, &mut 0, scan)
    }

    fn queues(&self, _items: &impl Items, now: u32) -> Vec<Queue> {
        self.lists.queues(&[(LEFT, "left"), (RIGHT, "right")], now)
    }

    fn tail_hits(&self) -> Option<u64> {
        Some(self.lists.tail_hits(RIGHT))
    }
}

#[cfg(test)]
mod tests;

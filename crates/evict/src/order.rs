//! The order of a policy's items, whichever policy it is.

use crate::arc::Arc as AdaptiveCache;
use crate::hits::{Hits, Rule};
use crate::insertion::LruInsertion;
use crate::lists::Lists;
use crate::looks::Looks;
use crate::lru::Lru;
use crate::s3fifo::S3Fifo;
use crate::sieve::Sieve;
use crate::tiny_lfu::TinyLfu;
use crate::two_q::TwoQ;
use crate::{Entry, Items, PolicyKind};

/// The order of the items, by one of the policies.
pub(crate) enum Order {
    Lru(Lru),
    LruInsertion(LruInsertion),
    TwoQ(TwoQ),
    TinyLfu(TinyLfu),
    S3Fifo(S3Fifo),
    Sieve(Sieve),
    Arc(AdaptiveCache),
}

/// The place of an item in the order of eviction: `at` of `of` items are evicted before it.
#[derive(Clone, Copy)]
pub(crate) struct Rank {
    pub(crate) at: usize,
    pub(crate) of: usize,
}

impl Order {
    /// An empty order of `kind` that `expected` items are about to enter. The clocks of `hits`
    /// begin anew. `now` in seconds.
    pub(crate) fn new(kind: PolicyKind, hits: &Hits, expected: usize, now: u32) -> Self {
        match kind {
            PolicyKind::Lru { refresh_secs } => Self::Lru(Lru::new(refresh_secs, hits, expected, now)),
            PolicyKind::LruInsertion { shift } => {
                Self::LruInsertion(LruInsertion::new(shift, hits, expected, now))
            }
            PolicyKind::TwoQ { hot_percent, cold_percent } => {
                Self::TwoQ(TwoQ::new(hot_percent, cold_percent, hits, expected, now))
            }
            PolicyKind::TinyLfu { window_percent } => {
                Self::TinyLfu(TinyLfu::new(window_percent, false, hits, expected, now))
            }
            PolicyKind::WTinyLfu { window_percent } => {
                Self::TinyLfu(TinyLfu::new(window_percent, true, hits, expected, now))
            }
            PolicyKind::S3Fifo { small_percent } => Self::S3Fifo(S3Fifo::new(small_percent)),
            PolicyKind::Sieve => Self::Sieve(Sieve::default()),
            PolicyKind::Arc => Self::Arc(AdaptiveCache::new(hits, expected, now)),
        }
    }

    /// The rule that hits follow under this policy.
    pub(crate) fn rule(&self) -> Rule {
        match self {
            Self::Lru(_) => Rule::Lru,
            Self::S3Fifo(_) => Rule::S3Fifo,
            Self::Sieve(_) => Rule::Sieve,
            Self::TinyLfu(_) => Rule::Counted,
            Self::LruInsertion(_) | Self::TwoQ(_) | Self::Arc(_) => Rule::Lists,
        }
    }

    /// The lists of the policies that are made of them.
    pub(crate) fn lists(&self) -> Option<&Lists> {
        match self {
            Self::LruInsertion(lru) => Some(&lru.lists),
            Self::TwoQ(two_q) => Some(&two_q.lists),
            Self::TinyLfu(lfu) => Some(&lfu.lists),
            Self::Arc(arc) => Some(&arc.lists),
            Self::Lru(_) | Self::S3Fifo(_) | Self::Sieve(_) => None,
        }
    }

    /// Queues an item of another policy, which would have been evicted at `rank`. Items come in the
    /// order of their ranks.
    pub(crate) fn adopt(&mut self, entry: Entry, rank: Rank, items: &impl Items, now: u32) {
        match self {
            Self::Lru(lru) => lru.adopt(entry, items, now),
            Self::LruInsertion(lru) => lru.adopt(entry, rank, items, now),
            Self::TwoQ(two_q) => two_q.adopt(entry, rank, items, now),
            Self::TinyLfu(lfu) => lfu.adopt(entry, rank, items, now),
            Self::S3Fifo(s3fifo) => s3fifo.adopt(entry, rank, items),
            Self::Sieve(sieve) => sieve.adopt(entry, items),
            Self::Arc(arc) => arc.adopt(entry, rank, items, now),
        }
    }

    /// Gives the order clocks of its own, which show what the shared ones show now: hits of another
    /// policy no longer move them.
    pub(crate) fn detach_clock(&mut self) {
        match self {
            Self::Lru(lru) => lru.detach_clock(),
            Self::LruInsertion(lru) => lru.lists.detach_clock(),
            Self::TwoQ(two_q) => two_q.lists.detach_clock(),
            Self::TinyLfu(lfu) => lfu.lists.detach_clock(),
            Self::Arc(arc) => arc.lists.detach_clock(),
            Self::S3Fifo(_) | Self::Sieve(_) => {}
        }
    }

    /// Says whether the ghosts remember what is evicted. Closed ones keep their size too, which
    /// else follows the number of items.
    pub(crate) fn set_ghosts_open(&mut self, is_open: bool) {
        match self {
            Self::S3Fifo(s3fifo) => s3fifo.set_ghosts_open(is_open),
            Self::Arc(arc) => arc.set_ghosts_open(is_open),
            _ => {}
        }
    }

    /// Notes that an item with `bits` left by another way than eviction.
    pub(crate) fn removed(&mut self, bits: u8, items: &impl Items) {
        match self {
            Self::Lru(lru) => lru.removed(items),
            Self::LruInsertion(lru) => lru.lists.removed(bits, items),
            Self::TwoQ(two_q) => two_q.lists.removed(bits, items),
            Self::TinyLfu(lfu) => lfu.lists.removed(bits, items),
            Self::S3Fifo(s3fifo) => s3fifo.removed(bits, items),
            Self::Sieve(sieve) => sieve.removed(items),
            Self::Arc(arc) => arc.lists.removed(bits, items),
        }
    }

    /// Chooses an item, claims it and lets go of it.
    pub(crate) fn evict(&mut self, items: &impl Items, looks: &mut Looks) -> Option<Entry> {
        // A policy of several lists may meet, in the last one that it asks, only items that belong
        // to an earlier one by now.
        self.evict_once(items, looks)
            .or_else(|| if self.is_empty() { None } else { self.evict_once(items, looks) })
    }

    fn evict_once(&mut self, items: &impl Items, looks: &mut Looks) -> Option<Entry> {
        match self {
            Self::Lru(lru) => lru.evict(items, looks),
            Self::LruInsertion(lru) => lru.evict(items, looks),
            Self::TwoQ(two_q) => two_q.evict(items, looks),
            Self::TinyLfu(lfu) => lfu.evict(items, looks),
            Self::S3Fifo(s3fifo) => s3fifo.evict(items, looks),
            Self::Sieve(sieve) => sieve.evict(items, looks),
            Self::Arc(arc) => arc.evict(items, looks),
        }
    }

    /// How many items are queued.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Lru(lru) => lru.len(),
            Self::S3Fifo(s3fifo) => s3fifo.len(),
            Self::Sieve(sieve) => sieve.len(),
            _ => self.lists().map_or(0, Lists::len),
        }
    }

    /// Whether no item is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the queues, in bytes.
    pub(crate) fn queue_bytes(&self) -> usize {
        match self {
            Self::Lru(lru) => lru.queue_bytes(),
            Self::S3Fifo(s3fifo) => s3fifo.queue_bytes(),
            Self::Sieve(sieve) => sieve.queue_bytes(),
            _ => self.lists().map_or(0, Lists::queue_bytes),
        }
    }

    /// Memory of the ghosts, in bytes.
    pub(crate) fn ghost_bytes(&self) -> usize {
        match self {
            Self::S3Fifo(s3fifo) => s3fifo.ghost_bytes(),
            Self::Arc(arc) => arc.ghost_bytes(),
            _ => 0,
        }
    }

    /// Checks every invariant; for tests.
    pub(crate) fn validate(&self, items: &impl Items) {
        match self {
            Self::Lru(lru) => lru.validate(items),
            Self::S3Fifo(s3fifo) => s3fifo.validate(items),
            Self::Sieve(sieve) => sieve.validate(items),
            _ => {
                if let Some(lists) = self.lists() {
                    lists.validate(items);
                }
            }
        }
    }
}

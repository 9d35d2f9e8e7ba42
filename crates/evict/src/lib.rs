//! Eviction policies as plain values: no lock, no clock, no thread.
//!
//! A policy orders the items of one size class of one pool. The engine keeps it behind the lock of that class and
//! asks it what to evict. A hit never takes that lock: it changes the item's own 8 *policy bits* by the policy's
//! [`HitRule`], and the policy folds them in when it next looks at the item.
//!
//! - [`lru`]: LRU with lazy promotion;
//! - [`s3fifo`]: the S3-FIFO policy;
//! - [`fifo`]: the queues that both are made of; [`ghost`]: what S3-FIFO remembers of evicted keys.
//!
//! Queues name items by [`Entry`]; when an item is removed or replaced, its entry stays behind and turns *stale*. A
//! policy meets stale entries when it evicts, and sweeps them out before they exceed a third of its entries.

#![forbid(unsafe_code)]

pub mod fifo;
pub mod ghost;
pub mod lru;
pub mod s3fifo;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use lru::{Lru, LruClock};
pub use s3fifo::S3Fifo;

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
    /// 32 bits of the hash of the item's key.
    fn fingerprint(&self, entry: Entry) -> u32;
    /// Fetches what the other questions will need.
    fn prefetch(&self, _entry: Entry) {}
}

/// Held items that one eviction passes over before it gives up (CacheLib: 50).
pub const MAX_HELD_TRIES: u32 = 50;

/// Which policy, with its parameters. Written as `lru`, `lru:30` (refresh time in seconds) or `s3-fifo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// LRU with lazy promotion.
    Lru {
        /// An item is not promoted again before this many seconds; 0 = promoted by every hit. Default 60, as in
        /// CacheLib.
        refresh_secs: u32,
    },
    /// S3-FIFO.
    S3Fifo {
        /// Share of the small queue, in percent (1–50). Default 10.
        small_percent: u8,
    },
}

impl PolicyKind {
    /// LRU with CacheLib's refresh time of 60 s.
    pub const LRU: Self = Self::Lru { refresh_secs: 60 };
    /// S3-FIFO with its authors' small queue of 10 %.
    pub const S3_FIFO: Self = Self::S3Fifo { small_percent: 10 };

    /// Memory that queues and ghosts take per item, at most, in hundredths of a byte: entries with a third of stale
    /// ones, and ghosts.
    pub const fn bytes_per_item_x100(self) -> u64 {
        match self {
            Self::Lru { .. } => 427 * 4 / 3,
            Self::S3Fifo { .. } => 406 * 4 / 3 + 440,
        }
    }
}

impl Default for PolicyKind {
    fn default() -> Self {
        Self::S3_FIFO
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lru { refresh_secs: 60 } => f.write_str("lru"),
            Self::Lru { refresh_secs } => write!(f, "lru:{refresh_secs}"),
            Self::S3Fifo { small_percent: 10 } => f.write_str("s3-fifo"),
            Self::S3Fifo { small_percent } => write!(f, "s3-fifo:{small_percent}"),
        }
    }
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no eviction policy: use s3-fifo, s3-fifo:PERCENT (1-50), lru or lru:REFRESH_SECONDS",
            self.0
        )
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let unknown = || UnknownPolicy(text.to_owned());
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter.parse::<u32>().map_err(|_| unknown())?)),
            None => (text, None),
        };
        match (name.to_ascii_lowercase().as_str(), parameter) {
            ("lru", refresh) => Ok(Self::Lru { refresh_secs: refresh.unwrap_or(60) }),
            ("s3-fifo" | "s3fifo", None) => Ok(Self::S3_FIFO),
            ("s3-fifo" | "s3fifo", Some(percent @ 1..=50)) => {
                Ok(Self::S3Fifo { small_percent: percent as u8 })
            }
            _ => Err(unknown()),
        }
    }
}

/// What a hit does to an item's policy bits. Cloned into the hit path, which holds no lock.
#[derive(Clone)]
pub enum HitRule {
    /// Stamps the item with the present generation.
    Lru(Arc<LruClock>),
    /// Counts to three.
    S3Fifo,
}

impl HitRule {
    /// The item's bits after a hit. `first`: it was never hit since it was inserted. `now` is asked for the time in
    /// seconds only where it matters.
    #[inline]
    pub fn apply(&self, bits: u8, first: bool, now: impl Fn() -> u32) -> u8 {
        match self {
            Self::Lru(clock) => clock.hit(bits, first, now),
            Self::S3Fifo => s3fifo::hit(bits),
        }
    }
}

/// The policy of one class.
pub enum Policy {
    /// LRU.
    Lru(Lru),
    /// S3-FIFO.
    S3Fifo(S3Fifo),
}

impl Policy {
    /// An empty policy of `kind`; `now` in seconds.
    pub fn new(kind: PolicyKind, now: u32) -> Self {
        match kind {
            PolicyKind::Lru { refresh_secs } => Self::Lru(Lru::new(refresh_secs, now)),
            PolicyKind::S3Fifo { small_percent } => Self::S3Fifo(S3Fifo::new(small_percent)),
        }
    }

    /// What hits do to items of this policy.
    pub fn hit_rule(&self) -> HitRule {
        match self {
            Self::Lru(lru) => HitRule::Lru(Arc::clone(lru.clock())),
            Self::S3Fifo(_) => HitRule::S3Fifo,
        }
    }

    /// Fetches what [`Self::admit`] will look at.
    #[inline]
    pub fn prefetch(&self, fingerprint: u32) {
        match self {
            Self::Lru(_) => {}
            Self::S3Fifo(s3fifo) => s3fifo.prefetch(fingerprint),
        }
    }

    /// Decides where a new item goes, from the fingerprint of its key: its first policy bits.
    pub fn admit(&mut self, fingerprint: u32) -> u8 {
        match self {
            Self::Lru(lru) => lru.admit(),
            Self::S3Fifo(s3fifo) => s3fifo.admit(fingerprint),
        }
    }

    /// Queues the item of `entry`, whose bits are those that [`Self::admit`] gave. `now` in seconds.
    pub fn push(&mut self, entry: Entry, bits: u8, now: u32) {
        match self {
            Self::Lru(lru) => lru.push(entry, bits, now),
            Self::S3Fifo(s3fifo) => s3fifo.push(entry, bits),
        }
    }

    /// Notes that an item with `bits` left by another way than eviction: its entry is stale. Now and then sweeps.
    pub fn removed(&mut self, bits: u8, items: &impl Items) {
        match self {
            Self::Lru(lru) => lru.removed(items),
            Self::S3Fifo(s3fifo) => s3fifo.removed(bits, items),
        }
    }

    /// Chooses an item, claims it and lets go of it. `None`: there is none, or [`MAX_HELD_TRIES`] were held.
    pub fn evict(&mut self, items: &impl Items) -> Option<Entry> {
        match self {
            Self::Lru(lru) => lru.evict(items),
            Self::S3Fifo(s3fifo) => s3fifo.evict(items),
        }
    }

    /// How many items are queued.
    pub fn len(&self) -> usize {
        match self {
            Self::Lru(lru) => lru.len(),
            Self::S3Fifo(s3fifo) => s3fifo.len(),
        }
    }

    /// Whether no item is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the queues, in bytes.
    pub fn queue_bytes(&self) -> usize {
        match self {
            Self::Lru(lru) => lru.queue_bytes(),
            Self::S3Fifo(s3fifo) => s3fifo.queue_bytes(),
        }
    }

    /// Memory of the ghosts, in bytes.
    pub fn ghost_bytes(&self) -> usize {
        match self {
            Self::Lru(_) => 0,
            Self::S3Fifo(s3fifo) => s3fifo.ghost_bytes(),
        }
    }

    /// For how many seconds the item that would be evicted next has not been used, where the policy knows.
    pub fn tail_age_secs(&self, now: u32) -> Option<u32> {
        match self {
            Self::Lru(lru) => lru.tail_age_secs(now),
            Self::S3Fifo(_) => None,
        }
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// Where one does not hold.
    pub fn validate(&self, items: &impl Items) {
        match self {
            Self::Lru(lru) => lru.validate(items),
            Self::S3Fifo(s3fifo) => s3fifo.validate(items),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing;

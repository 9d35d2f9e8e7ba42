//! Estimators of the slope only: the gain from a little more memory, or the cost of a little less,
//! at a cache's present size.
//!
//! They need only a short list behind the cache, or the tail of the cache's own list, and see
//! nothing farther away. A policy that follows them does hill climbing, and stops at cliffs.

use crate::estimate::{Estimator, Kind};
use crate::exact::learnt;
use crate::ghost::GhostCache;
use crate::mrc::{Confidence, Point};
use crate::mrc::{MissRatioCurve, Unit};
use crate::stack::Stack;

/// A queue with a shadow queue behind it and a monitored tail.
///
/// Cidon, Eisenman, Alizadeh and Katti, "Cliffhanger", NSDI 2016, section 4: a hit among the keys
/// that were evicted last, the shadow queue, says that more memory would help; one among the last
/// items of the queue itself, that less would hurt. The paper's shadow queue stands for 1 MB of
/// requests, and its tail is 128 items.
///
/// In the terms of section 4.1, [`Self::shadow_hits`] counts `f_i (h_i(m_i + δ) - h_i(m_i))` with
/// the shadow `δ`; [`Self::tail_hits`] are those of section 5.1, which cliff scaling takes for the
/// left half of its shadow queue.
///
/// It is a ghost cache of three ticks: the queue without its tail, the queue, and the queue with
/// its shadow. The curve has these three points.
#[derive(Clone, Debug)]
pub struct ShadowQueue {
    ghost: GhostCache,
}

impl ShadowQueue {
    /// Creates a queue of `size` that includes a `tail`, with a `shadow` behind it, over a sample
    /// of the keys at `rate`.
    ///
    /// # Panics
    /// If the tail is 0 or not smaller than the queue, the shadow is 0, or the rate is not above 0
    /// and at most 1.
    pub fn new(unit: Unit, size: u64, tail: u64, shadow: u64, rate: f64) -> Self {
        assert!(
            tail > 0 && tail < size && shadow > 0,
            "a queue of {size} has no tail of {tail} and shadow of {shadow}"
        );
        Self { ghost: GhostCache::new(unit, [size - tail, size, size + shadow], rate) }
    }

    /// Sampled hits in the tail of the queue: those that a queue without it would miss.
    pub fn tail_hits(&self) -> f64 {
        self.ghost.counts().0[1]
    }

    /// Sampled hits in the shadow queue: those that a queue larger by the shadow would have too.
    pub fn shadow_hits(&self) -> f64 {
        self.ghost.counts().0[2]
    }
}

impl Estimator for ShadowQueue {
    fn record(&mut self, hash: u64, size: u32, kind: Kind) {
        self.ghost.record(hash, size, kind);
    }

    fn count_unsampled(&mut self, reads: u64) {
        self.ghost.count_unsampled(reads);
    }

    fn follows(&self, hash: u64) -> bool {
        self.ghost.follows(hash)
    }

    fn curve(&self) -> MissRatioCurve {
        self.ghost.curve()
    }

    fn age(&mut self) {
        self.ghost.age();
    }

    fn bytes(&self) -> usize {
        self.ghost.bytes()
    }
}

/// Shares of the hot and of the cold queue, in percent (CacheLib's `MM2Q`).
const HOT_PERCENT: u64 = 30;
const COLD_PERCENT: u64 = 30;

/// A 2Q cache that counts hits in the tails of its warm and its cold queue: the cost of one slab
/// less.
///
/// Berg et al., "The CacheLib Caching Engine", OSDI 2020, section 4.3, whose pool optimizer and
/// marginal-hits rebalancer use them. Items enter the hot queue. Items that the hot or the warm
/// queue cannot hold move to the cold one; a hit in the cold queue moves the item to the warm one.
/// Evictions come from the cold queue. The tail hits of each queue weigh as much as its share of
/// the cache, as in CacheLib.
///
/// The curve is that of 2Q at two sizes: the present one, and the present one less a tail.
#[derive(Clone, Debug)]
pub struct TailHits {
    unit: Unit,
    size: u64,
    tail: u64,
    hot: Stack,
    warm: Stack,
    cold: Stack,
    requests: f64,
    misses: f64,
    warm_tail: f64,
    cold_tail: f64,
    seen: u64,
}

impl TailHits {
    /// Creates a cache of `size` whose tails are `tail` long, in the same unit: a slab.
    ///
    /// # Panics
    /// If the tail is 0, or not smaller than the cache.
    pub fn new(unit: Unit, size: u64, tail: u64) -> Self {
        assert!(tail > 0 && tail < size, "a cache of {size} has no tail of {tail}");
        let (hot, warm, cold) = (Stack::default(), Stack::default(), Stack::default());
        let (requests, misses, warm_tail, cold_tail, seen) = (0.0, 0.0, 0.0, 0.0, 0);
        Self { unit, size, tail, hot, warm, cold, requests, misses, warm_tail, cold_tail, seen }
    }

    /// Hits in the tails, weighted by the shares of their queues.
    pub fn tail_hits(&self) -> f64 {
        (self.warm_tail * (100 - HOT_PERCENT - COLD_PERCENT) as f64 + self.cold_tail * COLD_PERCENT as f64)
            / 100.0
    }

    /// Cuts the queues to their shares, and the cache to its size.
    fn settle(&mut self) {
        let share = |percent: u64| (u128::from(self.size) * u128::from(percent) / 100) as u64;
        let (hot, warm) = (share(HOT_PERCENT), share(100 - HOT_PERCENT - COLD_PERCENT));
        for (queue, most) in [(&mut self.hot, hot), (&mut self.warm, warm)] {
            while queue.total() > most
                && let Some((key, size)) = queue.pop_last()
            {
                self.cold.access(key, size);
            }
        }
        let all = |this: &Self| this.hot.total() + this.warm.total() + this.cold.total();
        while all(self) > self.size
            && (self.cold.pop_last().is_some()
                || self.hot.pop_last().is_some()
                || self.warm.pop_last().is_some())
        {}
    }
}

impl Estimator for TailHits {
    fn record(&mut self, hash: u64, size: u32, kind: Kind) {
        let size = if self.unit == Unit::Items { 1 } else { size };
        if kind == Kind::Remove {
            return [&mut self.hot, &mut self.warm, &mut self.cold]
                .into_iter()
                .for_each(|queue| queue.remove(hash));
        }
        let counted = f64::from(u8::from(kind.counts()));
        self.requests += counted;
        self.seen += u64::from(kind.counts());
        let in_tail = |queue: &Stack, above: u64, tail: u64| queue.total() - above <= tail;
        if self.hot.find(hash).is_some() {
            self.hot.access(hash, size);
        } else if let Some(found) = self.warm.find(hash) {
            self.warm_tail += if in_tail(&self.warm, found.above, self.tail) { counted } else { 0.0 };
            self.warm.access(hash, size);
        } else if let Some(found) = self.cold.find(hash) {
            self.cold_tail += if in_tail(&self.cold, found.above, self.tail) { counted } else { 0.0 };
            self.cold.remove(hash);
            self.warm.access(hash, if size == 0 { found.size } else { size });
        } else {
            self.misses += counted;
            if kind != Kind::Lookup {
                self.hot.access(hash, size);
            }
        }
        self.settle();
    }

    /// Does nothing: all keys are tracked.
    fn count_unsampled(&mut self, _reads: u64) {}

    fn follows(&self, _hash: u64) -> bool {
        true
    }

    fn curve(&self) -> MissRatioCurve {
        let requests = self.requests;
        let sizes = [(self.size - self.tail, self.misses + self.tail_hits()), (self.size, self.misses)];
        let points = sizes.map(|(size, misses)| Point { size, miss_ratio: misses / requests });
        let keys = (self.hot.len() + self.warm.len() + self.cold.len()) as u64;
        let confidence = Confidence { keys, samples: requests, requests, seen: self.seen, error: 0.0 };
        learnt(self.unit, points.into_iter().filter(|_| requests > 0.0), confidence)
    }

    fn age(&mut self) {
        for count in [&mut self.requests, &mut self.misses, &mut self.warm_tail, &mut self.cold_tail] {
            *count /= 2.0;
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.hot.bytes() + self.warm.bytes() + self.cold.bytes()
    }
}

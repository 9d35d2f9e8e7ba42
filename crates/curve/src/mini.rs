//! Miniature simulation: the curve of any policy, by running small caches on a sample of the keys.
//!
//! Waldspurger, Saemundsson, Ahmad and Park, "Cache Modeling and Optimization using Miniature
//! Simulations", USENIX ATC 2017: a cache of size `S` over all keys misses about as often as one of
//! size `R * S` over the share `R` of the keys. Policies other than LRU have no stack distance, so
//! each size needs a cache of its own; at a rate of 1/100, ten of them cost a tenth of one.
//!
//! The caller chooses the policy: this module knows only [`Simulated`].

use crate::error_bound::Sample;
use crate::estimate::{Estimator, Kind};
use crate::exact::learnt;
use crate::groups::{Correction, Groups};
use crate::histogram::bucket;
use crate::mrc::{Confidence, MissRatioCurve, Point, Unit};
use crate::sample::{PLACES, place, threshold};

/// A cache that is run in miniature. Its capacity was set when it was made, in the unit of the
/// curve.
pub trait Simulated {
    /// Requests a key whose item has `size` units, at least 1, and inserts it if it is absent.
    /// Returns true on a hit.
    fn access(&mut self, hash: u64, size: u32) -> bool;

    /// Returns whether the cache holds a key, and changes nothing.
    fn has(&self, hash: u64) -> bool;

    /// Removes a key, if present.
    fn remove(&mut self, hash: u64);

    /// Memory taken, in bytes.
    fn bytes(&self) -> usize;
}

/// A cache of one size, and its misses.
struct Small<S> {
    size: u64,
    cache: S,
    misses: f64,
}

/// Miniature caches of several sizes.
pub struct Miniature<S> {
    unit: Unit,
    threshold: u32,
    weight: f64,
    correction: Correction,
    small: Vec<Small<S>>,
    groups: Groups,
    requests: f64,
    samples: f64,
    seen: u64,
    /// The sum of the requested sizes.
    sizes: f64,
}

impl<S: Simulated> Miniature<S> {
    /// Creates caches of these sizes, which must rise, over a share `rate` of the keys. `make`
    /// receives the miniature capacity of each, at least 1.
    ///
    /// A miniature of fewer than a few hundred items has a larger error than the sample; see
    /// [`Self::rate_for`].
    ///
    /// # Panics
    /// If sizes do not rise from 1 on, or the rate is not above 0 and at most 1.
    pub fn new(
        unit: Unit,
        sizes: impl IntoIterator<Item = u64>,
        rate: f64,
        mut make: impl FnMut(u64) -> S,
    ) -> Self {
        let threshold = threshold(rate);
        let weight = f64::from(PLACES) / f64::from(threshold);
        let capacity = |size: u64| ((size as f64 / weight).round() as u64).max(1);
        let small: Vec<_> =
            sizes.into_iter().map(|size| Small { size, cache: make(capacity(size)), misses: 0.0 }).collect();
        let rises = small.windows(2).all(|pair| pair[0].size < pair[1].size);
        assert!(rises && small.first().is_some_and(|small| small.size > 0), "sizes rise from 1 on");
        Self {
            unit,
            threshold,
            weight,
            correction: Correction::default(),
            small,
            groups: Groups::default(),
            requests: 0.0,
            samples: 0.0,
            seen: 0,
            sizes: 0.0,
        }
    }

    /// The rate at which about `keys` of `of` keys are tracked, at most 1.
    pub fn rate_for(keys: u64, of: u64) -> f64 {
        (keys as f64 / of.max(1) as f64).min(1.0)
    }

    /// Sets the correction of the curve, in place of the default.
    #[must_use]
    pub fn with_correction(self, correction: Correction) -> Self {
        Self { correction, ..self }
    }
}

impl<S: Simulated> Miniature<S> {
    /// A bound on the distance of the curve from the exact one, except for the error from caches of
    /// few items, which behave differently from large ones.
    fn error_bound(&self, requests: f64, misses: &[(u64, f64)]) -> f64 {
        let spread = (self.weight > 1.0).then(|| self.groups.spread(self.correction));
        let footprint = self.small.last().map_or(0.0, |small| small.size as f64);
        let rate = (self.samples / requests.max(1.0)).min(1.0);
        let mean = self.sizes / self.samples.max(1.0);
        let sample = Sample {
            requests,
            rate,
            keys: footprint * rate / mean.max(1.0),
            footprint,
            shares: *self.groups.cold(),
        };
        sample.bound(misses, spread.as_ref())
    }
}

impl<S: Simulated> Estimator for Miniature<S> {
    fn record(&mut self, hash: u64, size: u32, kind: Kind) {
        let read = kind.counts();
        self.count_unsampled(u64::from(read));
        if place(hash) >= self.threshold {
            return;
        }
        let size = if self.unit == Unit::Items { 1 } else { size.max(1) };
        if kind == Kind::Remove {
            return self.small.iter_mut().for_each(|small| small.cache.remove(hash));
        }
        let mut smallest = None;
        for small in &mut self.small {
            let is_asked = kind != Kind::Lookup || small.cache.has(hash);
            let hit = is_asked && small.cache.access(hash, size);
            if read && !hit {
                small.misses += 1.0;
            } else if smallest.is_none() {
                smallest = Some(small.size);
            }
        }
        if read {
            self.samples += 1.0;
            self.sizes += f64::from(size);
            // If a larger cache misses a key that a smaller one holds, the groups count a hit from
            // the smaller size on.
            self.groups.add(hash, smallest.map(bucket::<{ Groups::BITS }>), self.weight);
        }
    }

    fn count_unsampled(&mut self, reads: u64) {
        self.requests += reads as f64;
        self.seen += reads;
    }

    fn follows(&self, hash: u64) -> bool {
        place(hash) < self.threshold
    }

    fn curve(&self) -> MissRatioCurve {
        let sampled = self.samples * self.weight;
        let told = self.requests > self.samples || self.weight == 1.0;
        let requests = if told && self.correction != Correction::None { self.requests } else { sampled };
        let spread = (self.correction == Correction::Regression).then(|| self.groups.spread(self.correction));
        let misses = self.small.iter().filter(|_| requests > 0.0).map(|small| {
            let slope = spread.as_ref().map_or(0.0, |spread| spread.slope(small.size));
            (small.size, small.misses * self.weight - slope * (sampled - requests))
        });
        let misses: Vec<(u64, f64)> = misses.collect();
        let confidence = Confidence {
            keys: 0,
            samples: self.samples,
            requests,
            seen: self.seen,
            error: self.error_bound(requests, &misses),
        };
        let points = misses.into_iter().map(|(size, misses)| Point { size, miss_ratio: misses / requests });
        learnt(self.unit, points, confidence)
    }

    fn age(&mut self) {
        self.small.iter_mut().for_each(|small| small.misses /= 2.0);
        self.groups.halve();
        self.requests /= 2.0;
        self.samples /= 2.0;
        self.sizes /= 2.0;
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.groups.bytes()
            + self.small.iter().map(|small| small.cache.bytes()).sum::<usize>()
    }
}

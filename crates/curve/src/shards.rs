//! SHARDS: stack distances of a sample of the keys, scaled.
//!
//! Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015. A
//! share `R` of all keys, selected by hash ([`crate::sample`]), is tracked. If `d` tracked keys lie
//! between two accesses to one of them, about `d / R` of all keys do.
//!
//! - *Fixed rate* (section 3.2): `R` is constant. Memory grows with the keys.
//! - *Fixed size* (section 3.3): when more than `s_max` keys are tracked, the threshold is lowered,
//!   and the keys beyond it are dropped. Each access counts for `1 / R` accesses, with the `R` of
//!   its time, which is equivalent to the paper's scaling of old counts.
//! - *Count correction* (section 3.4, SHARDS_adj): see [`Correction`].
//!
//! | the paper | here |
//! |---|---|
//! | `T_i = hash(L_i) mod P`, followed where `T_i < T`; `R = T / P` | [`crate::sample::place`], [`Shards::threshold`]; [`Shards::rate`] |
//! | the reuse distance among followed keys, over `R` | `distance`, by the stack ([`crate::exact`] has the same of all keys) |
//! | the histogram of distances | `record_followed` |
//! | `s_max` exceeded: `T` is lowered to the largest `T_i` that is left, keys beyond go | `lower_threshold` |
//! | counts are rescaled by `T_new / T_old` | a count weighs `1 / R` when it is added |
//! | the difference between the expected and the actual number of samples, added to the first bucket | `corrected` |
//! | the curve: sums over the histogram | [`Estimator::curve`] |
//!
//! Differences, and why:
//! 1. The threshold is lowered so far that a sixteenth of the keys are dropped at once instead of
//!    one. So no heap of keys by hash is needed, at the cost of a sample that is a thirty-second
//!    smaller on average.
//! 2. The distance is `above / R + size`, not `(above + size) / R`: the keys above are sampled, the
//!    key itself is not. A key that is requested twice in a row has distance 1, whatever the rate.
//! 3. Keys beyond [`Shards::with_max_size`] are dropped. Otherwise a stream of ever new keys would
//!    lower the threshold for ever.
//! 4. [`Estimator::age`] halves all counts, and raises the threshold if few keys remain: keys that
//!    join the sample count as new once, which later ageings forget.
//! 5. The memory of a removed key stays free until an insertion takes it ([`crate::exact`]). Such a
//!    hole counts as a key of the fixed size, and leaves the sample with the key that it was of.

use crate::error_bound::Sample;
use crate::estimate::{Access, Estimator, Kind};
use crate::exact::learnt;
use crate::groups::{Correction, Groups};
use crate::histogram::Histogram;
use crate::mrc::{Confidence, MissRatioCurve, Point, Unit};
use crate::sample::{PLACES, place, threshold};
use crate::stack::{Stack, StackPosition};

/// Keys that the fixed size tracks by default: the paper's errors are below 0.01 with 8 k.
pub const DEFAULT_KEYS: usize = 8192;
/// Fractions of the scale: exact to a part in 2^32 or better.
const SCALE_BITS: u32 = 32;
/// Accesses whose memory is prefetched together.
const AHEAD: usize = 16;
/// Distances are accurate to one part in 64.
const BITS: u32 = Groups::BITS;

/// SHARDS, with a fixed rate or a fixed size.
///
/// A tracked key takes about 40 to 80 bytes. With the fixed size of 8192 that is 0.6 MiB at most,
/// whatever the traffic. An access to a tracked key takes about 30 ns, or 75 ns if its memory is in
/// none of the core's own caches; see [`Estimator::record_all`].
#[derive(Clone, Debug)]
pub struct Shards {
    unit: Unit,
    max_keys: usize,
    max_size: f64,
    correction: Correction,
    /// The initial threshold, which is the highest.
    most: u32,
    threshold: u32,
    /// The number of requests that a sampled one represents.
    weight: f64,
    /// The same in parts of `1 << SCALE_BITS`.
    scale: u64,
    pub(crate) stack: Stack,
    histogram: Histogram<BITS>,
    groups: Groups,
    /// Reads, sampled or not; halved by ageing, like the sampled ones below.
    requests: f64,
    samples: f64,
    seen: u64,
}

impl Shards {
    /// Tracks this share of all keys, for ever.
    ///
    /// # Panics
    /// If the rate is not above 0 and at most 1.
    pub fn fixed_rate(unit: Unit, rate: f64) -> Self {
        Self::new(unit, rate, usize::MAX)
    }

    /// Tracks at most `max_keys` keys, at least 64: all keys at first, then a shrinking share of
    /// them.
    pub fn fixed_size(unit: Unit, max_keys: usize) -> Self {
        Self::new(unit, 1.0, max_keys)
    }

    /// Tracks at most this share of all keys, and at most `max_keys`, at least 64.
    ///
    /// # Panics
    /// If the rate is not above 0 and at most 1.
    pub fn new(unit: Unit, rate: f64, max_keys: usize) -> Self {
        let most = threshold(rate);
        Self {
            unit,
            max_keys: max_keys.max(64),
            max_size: f64::INFINITY,
            correction: Correction::default(),
            most,
            threshold: most,
            weight: f64::from(PLACES) / f64::from(most),
            scale: Self::scale_of(most),
            stack: Stack::default(),
            histogram: Histogram::default(),
            groups: Groups::default(),
            requests: 0.0,
            samples: 0.0,
            seen: 0,
        }
    }

    /// Limits the curve to caches of at most `size`, in the curve's unit, and drops the keys that
    /// only larger ones would hold.
    #[must_use]
    pub fn with_max_size(self, size: u64) -> Self {
        Self { max_size: size as f64, ..self }
    }

    /// Sets the correction of the curve, in place of the default.
    #[must_use]
    pub fn with_correction(self, correction: Correction) -> Self {
        Self { correction, ..self }
    }

    /// The most memory that an estimator of fixed size takes, in bytes, with `max_keys` keys and a
    /// curve for caches of at most `max_size` ([`Self::with_max_size`]).
    pub fn bytes_for(max_keys: usize, max_size: u64) -> usize {
        // A key is dropped once its distance is larger, and so in the octave after it at most.
        let octaves = (u64::BITS - max_size.leading_zeros() + 1).min(u64::BITS) as usize;
        let histograms = octaves * (Histogram::<BITS>::bytes_per_octave() + Groups::BYTES_PER_OCTAVE);
        size_of::<Self>() + Stack::bytes_for(max_keys.max(64)) + histograms
    }

    /// The share of all keys that is tracked now.
    pub fn rate(&self) -> f64 {
        1.0 / self.weight
    }

    /// The threshold: keys whose place ([`crate::sample::place`]) lies below it are tracked.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// The number of keys tracked now.
    pub fn keys(&self) -> usize {
        self.stack.len()
    }

    /// The estimated size of all keys together, in the unit of the curve: that of the tracked keys
    /// over the rate.
    pub fn footprint(&self) -> f64 {
        self.stack.total() as f64 * self.weight
    }

    /// The smallest size of a cache that holds the key with this hash now, in the unit of the
    /// curve; `None` if the key is not tracked. A caller that knows whether a cache had the key can
    /// tell a removed key from an evicted one by it. Costs what recording an access does.
    pub fn locate(&self, hash: u64) -> Option<u64> {
        if place(hash) >= self.threshold {
            return None;
        }
        self.stack.find(hash).map(|found| self.distance(found))
    }

    /// Records a read of a key that was used before, though perhaps unseen: if the key is not
    /// tracked yet, the read counts as a hit in caches of at least `distance`.
    pub fn record_known(&mut self, access: &Access, distance: u64) {
        self.count_reads(1);
        if place(access.hash) >= self.threshold {
            return;
        }
        let is_new = !self.stack.has(access.hash);
        let kind = if is_new { Kind::Write } else { Kind::Read };
        let entry = self.stack.search(access.hash);
        self.record_followed(entry, &Access { kind, ..*access });
        if is_new {
            self.count(access.hash, Some(distance));
        }
    }

    /// Records an access to a tracked key, whose search ended at this entry of the stack's table.
    #[inline]
    fn record_followed(&mut self, entry: u32, access: &Access) {
        match access.kind {
            Kind::Remove => return self.stack.vacate(access.hash),
            Kind::Lookup if !self.stack.has(access.hash) => return self.count(access.hash, None),
            Kind::Read | Kind::Lookup | Kind::Write => {}
        }
        let size = if self.unit == Unit::Items { 1 } else { access.size };
        let found = self.stack.access_at(entry, access.hash, size);
        if access.kind.counts() {
            self.count(access.hash, found.map(|found| self.distance(found)));
        }
        if found.is_none() || self.stack.extent() > self.max_keys {
            self.make_room();
        }
    }

    /// Counts a read of a tracked key at its distance; `None` is a read that hits in no cache.
    #[inline]
    fn count(&mut self, hash: u64, distance: Option<u64>) {
        let bucket = self.histogram.add(distance, self.weight);
        self.groups.add(hash, bucket, self.weight);
        self.samples += 1.0;
    }

    /// The smallest size of a cache that would have held a key found at this position.
    #[inline]
    fn distance(&self, found: StackPosition) -> u64 {
        let above = (u128::from(found.above) * u128::from(self.scale)) >> SCALE_BITS;
        u64::try_from(above).unwrap_or(u64::MAX).saturating_add(u64::from(found.size))
    }

    /// Drops keys after one was added, or after a hole was.
    #[inline(never)]
    fn make_room(&mut self) {
        while self.stack.depth() as f64 * self.weight > self.max_size && self.stack.len() > 1 {
            self.stack.pop_last();
        }
        if self.stack.extent() > self.max_keys {
            self.lower_threshold();
        }
    }

    fn count_reads(&mut self, reads: u64) {
        self.requests += reads as f64;
        self.seen += reads;
    }

    /// Drops a sixteenth of the keys and holes: those with the largest places.
    #[cold]
    fn lower_threshold(&mut self) {
        let mut places: Vec<u32> = self.stack.sampled().collect();
        let stays = self.max_keys - self.max_keys / 16;
        let (_, &mut lowered, _) = places.select_nth_unstable(stays);
        self.set_threshold(lowered.max(1));
        self.stack.thin(lowered);
    }

    fn set_threshold(&mut self, threshold: u32) {
        self.threshold = threshold;
        self.weight = f64::from(PLACES) / f64::from(threshold);
        self.scale = Self::scale_of(threshold);
    }

    fn scale_of(threshold: u32) -> u64 {
        (u64::from(PLACES) << SCALE_BITS) / u64::from(threshold)
    }

    /// The corrected requests, and the corrected misses at each size, that the sample represents.
    fn corrected(&self) -> (f64, Vec<(u64, f64)>) {
        let sampled = self.histogram.total();
        // A caller that does not count other reads records only those of tracked keys: then there
        // is no count to correct by.
        let requests =
            if self.requests > self.samples || self.weight == 1.0 { self.requests } else { sampled };
        if self.correction == Correction::None || sampled <= 0.0 {
            return (sampled, self.histogram.misses());
        }
        let surplus = sampled - requests;
        let spread = (self.correction == Correction::Regression).then(|| self.groups.spread(self.correction));
        let correct = |(size, misses)| {
            let slope = spread.as_ref().map_or(0.0, |spread| spread.slope(size));
            (size, misses - slope * surplus)
        };
        (requests, self.histogram.misses().into_iter().map(correct).collect())
    }
}

impl Shards {
    /// A bound on the distance of the curve from the exact one.
    fn error_bound(&self, requests: f64, misses: &[(u64, f64)]) -> f64 {
        let spread = (self.weight > 1.0).then(|| self.groups.spread(self.correction));
        let sample = Sample {
            requests,
            // Of all requests so far: while all keys were tracked, none was left out.
            rate: (self.samples / requests.max(1.0)).min(1.0),
            keys: self.stack.len() as f64,
            footprint: self.footprint().min(self.max_size),
            shares: Sample::shares(self.stack.sizes().map(|(hash, size)| (hash, f64::from(size)))),
        };
        sample.bound(misses, spread.as_ref())
    }
}

impl Estimator for Shards {
    #[inline]
    fn record(&mut self, hash: u64, size: u32, kind: Kind) {
        self.count_reads(u64::from(kind.counts()));
        if place(hash) < self.threshold {
            let entry = self.stack.search(hash);
            self.record_followed(entry, &Access { hash, size, kind });
        }
    }

    fn record_all(&mut self, accesses: &[Access]) {
        let mut entries = [0; AHEAD];
        for some in accesses.chunks(AHEAD) {
            // The prefetches are issued one after the other, so that the processor waits for all at
            // the same time: first for the memory that each search reads, then for the memory of
            // each result.
            some.iter().for_each(|access| self.stack.prefetch(access.hash));
            for (entry, access) in entries.iter_mut().zip(some) {
                *entry = self.stack.search(access.hash);
            }
            self.count_reads(some.iter().filter(|access| access.kind.counts()).count() as u64);
            for (entry, access) in entries.iter().zip(some) {
                if place(access.hash) < self.threshold {
                    self.record_followed(*entry, access);
                }
            }
        }
    }

    fn count_unsampled(&mut self, reads: u64) {
        self.count_reads(reads);
    }

    #[inline]
    fn follows(&self, hash: u64) -> bool {
        place(hash) < self.threshold
    }

    fn curve(&self) -> MissRatioCurve {
        let (requests, misses) = self.corrected();
        let confidence = Confidence {
            keys: self.stack.len() as u64,
            samples: self.samples,
            requests,
            seen: self.seen,
            error: self.error_bound(requests, &misses),
        };
        let points = misses.into_iter().map(|(size, misses)| Point { size, miss_ratio: misses / requests });
        learnt(self.unit, points, confidence)
    }

    fn age(&mut self) {
        self.histogram.halve();
        self.groups.halve();
        self.requests /= 2.0;
        self.samples /= 2.0;
        if self.threshold < self.most && self.stack.extent() < self.max_keys / 4 {
            self.set_threshold(self.threshold.saturating_mul(2).min(self.most));
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.stack.bytes() + self.histogram.bytes() + self.groups.bytes()
    }
}

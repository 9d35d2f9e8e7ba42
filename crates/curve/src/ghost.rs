//! The ghost cache: one LRU list of keys that counts the hits of caches of several sizes at once.
//!
//! Ye et al., "Cache-Centric Multi-Resource Allocation for Storage Services" (HARE), FAST 2026,
//! section 4.2, as implemented in HopperKV. The sizes of interest are *ticks*. The list is as long
//! as the largest cache. Every key in it records the smallest tick whose cache holds it; each tick
//! records the last key within it, its *boundary*. An access to a key of tick `i` moves the
//! boundaries of all ticks below `i` one key up, counts at `i`, and moves the key to the front. It
//! costs as many steps as there are ticks below `i`: one or two for hot keys, all of them for a
//! miss.
//!
//! Keys are sampled by hash, 1 in 32 by default; the list and the ticks are smaller by the same
//! factor.
//!
//! | section 4.2 | here |
//! |---|---|
//! | each entry records the hash of the key and the size of its data | `Node` |
//! | "only forwards a key access … if it falls in the sampling space", `1/s` | [`GhostCache::access`], and [`crate::sample`]; its list and its sizes are `1/s` as large |
//! | the list of size `z_n` serves all `z_i`: is the key in the `z_i` prefix? | the `tick` of its node, and the `Boundary` of each prefix |
//! | the "miss ratio table for a range of cache sizes" | [`GhostCache::counts`] |
//! | "MRC is constructed as a piecewise function" | [`Estimator::curve`] |
//!
//! Differences, and why:
//! 1. Ticks may be bytes: a boundary moves up by as many keys as the new key in front needs room
//!    for.
//! 2. Keys are distinguished by 64 bits of hash, as 32 bits mistook some pairs for one key.
//! 3. Hits are corrected as those of SHARDS are ([`Correction`]), since the sample is the same;
//!    [`Correction::None`] is the original.
//! 4. Counts can be aged; in HopperKV, the reader subtracts snapshots.

use crate::error_bound::Sample;
use crate::estimate::{Estimator, Kind};
use crate::exact::learnt;
use crate::groups::{Correction, Groups};
use crate::histogram::bucket;
use crate::mrc::{Confidence, MissRatioCurve, Point, Unit};
use crate::sample::{PLACES, place, threshold};
use crate::table::{Search, Table};

/// HopperKV's rate.
pub const DEFAULT_RATE: f64 = 1.0 / 32.0;
/// HopperKV's number of ticks.
pub const DEFAULT_TICKS: usize = 64;

/// The index that stands for no node.
const NONE: u32 = u32::MAX;

/// The way an access counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the hit or miss that it is.
    Count,
    /// As a miss at every size, such as that of a key that has expired.
    CountAsMiss,
    /// As a hit at every size.
    CountAsHit,
    /// Not at all: a write.
    Refresh,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    /// In the unit of the ticks.
    size: u64,
    /// Towards the front, where the most recent key is.
    above: u32,
    below: u32,
    /// The smallest tick whose cache holds the key.
    tick: u32,
}

/// The end of a tick's cache.
#[derive(Clone, Copy, Debug)]
struct Boundary {
    /// The capacity of the cache, scaled by the sampling rate.
    room: u64,
    /// The size of its present content.
    used: u64,
    /// The last key within it.
    last: u32,
}

/// The ghost cache.
///
/// Takes about 60 bytes for each tracked key. Their number is at most that of the keys in the
/// largest cache, times the rate.
#[derive(Clone, Debug)]
pub struct GhostCache {
    unit: Unit,
    threshold: u32,
    weight: f64,
    correction: Correction,
    ticks: Vec<u64>,
    boundaries: Vec<Boundary>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    by_key: Table,
    first: u32,
    /// Sampled hits by the smallest tick that has them.
    hits: Vec<f64>,
    misses: f64,
    groups: Groups,
    requests: f64,
    seen: u64,
}

impl GhostCache {
    /// Creates a ghost cache for these sizes, which must rise, over a sample of all keys at this
    /// rate.
    ///
    /// # Panics
    /// If there is no tick, ticks do not rise from 1 on, or the rate is not above 0 and at most 1.
    pub fn new(unit: Unit, ticks: impl IntoIterator<Item = u64>, rate: f64) -> Self {
        let ticks: Vec<u64> = ticks.into_iter().collect();
        let rises = ticks.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(rises && ticks.first().is_some_and(|&least| least > 0), "ticks rise from 1 on: {ticks:?}");
        let threshold = threshold(rate);
        let weight = f64::from(PLACES) / f64::from(threshold);
        let room = |&tick: &u64| ((tick as f64 / weight).round() as u64).max(1);
        let boundaries: Vec<Boundary> =
            ticks.iter().map(|tick| Boundary { room: room(tick), used: 0, last: NONE }).collect();
        Self {
            unit,
            threshold,
            weight,
            correction: Correction::default(),
            hits: vec![0.0; ticks.len()],
            ticks,
            boundaries,
            nodes: Vec::new(),
            free: Vec::new(),
            by_key: Table::default(),
            first: NONE,
            misses: 0.0,
            groups: Groups::default(),
            requests: 0.0,
            seen: 0,
        }
    }

    /// Ticks at `count` even steps up to `max_size`.
    pub fn even(unit: Unit, max_size: u64, count: usize, rate: f64) -> Self {
        let step = (max_size / count as u64).max(1);
        Self::new(unit, (1..=count as u64).map(|tick| tick * step), rate)
    }

    /// Sets the correction of the curve, in place of the default.
    #[must_use]
    pub fn with_correction(self, correction: Correction) -> Self {
        Self { correction, ..self }
    }

    /// The sizes whose hits are counted.
    pub fn ticks(&self) -> &[u64] {
        &self.ticks
    }

    /// Sampled hits by the smallest tick that has them, and sampled misses at all ticks.
    pub fn counts(&self) -> (&[f64], f64) {
        (&self.hits, self.misses)
    }

    /// Resets all counts and keeps recency.
    pub fn reset_counts(&mut self) {
        self.hits.fill(0.0);
        self.misses = 0.0;
        self.groups = Groups::default();
        self.requests = 0.0;
    }

    /// Records an access; see [`Estimator::record`].
    pub fn access(&mut self, hash: u64, size: u32, mode: Mode) {
        if mode != Mode::Refresh {
            self.requests += 1.0;
            self.seen += 1;
        }
        if place(hash) >= self.threshold {
            return;
        }
        let tick = self.touch(hash, size);
        match mode {
            Mode::Count => self.count(hash, tick),
            Mode::CountAsMiss => self.count(hash, None),
            Mode::CountAsHit => self.count(hash, Some(0)),
            Mode::Refresh => {}
        }
    }

    /// Records a read that does not fill the cache.
    fn look_up(&mut self, hash: u64) {
        if matches!(self.by_key.search(hash), Search::Found(_)) {
            return self.access(hash, 0, Mode::Count);
        }
        self.count_unsampled(1);
        if place(hash) < self.threshold {
            self.count(hash, None);
        }
    }

    /// Removes a key from the list, and so from every cache that holds it. Those caches then have
    /// room for an insertion without an eviction; keys that they evicted before do not come back.
    fn remove(&mut self, hash: u64) {
        let Search::Found(entry) = self.by_key.search(hash) else { return };
        let at = self.by_key.get(entry).0;
        self.by_key.remove(entry, |_, _| ());
        let Node { size, below, tick, .. } = self.nodes[at as usize];
        if self.first == at {
            self.first = below;
            self.boundaries.iter_mut().filter(|it| it.last == at).for_each(|it| it.last = NONE);
            if below != NONE {
                self.nodes[below as usize].above = NONE;
            }
        } else {
            self.take_out(at);
        }
        self.free.push(at);
        for holder in tick as usize..self.boundaries.len() {
            self.boundaries[holder].used -= size;
        }
    }

    /// Counts a read of a tracked key by the smallest tick that has it; `None` is a miss at all
    /// ticks.
    fn count(&mut self, hash: u64, counted: Option<usize>) {
        match counted {
            Some(tick) => self.hits[tick] += 1.0,
            None => self.misses += 1.0,
        }
        let bucket = counted.map(|tick| bucket::<{ Groups::BITS }>(self.ticks[tick]));
        self.groups.add(hash, bucket, self.weight);
    }

    /// Moves a key to the front, and returns its previous tick.
    fn touch(&mut self, hash: u64, size: u32) -> Option<usize> {
        let known = match self.by_key.search(hash) {
            Search::Found(entry) => Some(self.by_key.get(entry).0),
            Search::Absent(_) => None,
        };
        let old = known.map(|at| self.nodes[at as usize]);
        let size = match (self.unit, size, old) {
            (Unit::Items, ..) => 1,
            (Unit::Bytes, 0, Some(old)) => old.size,
            (Unit::Bytes, 0, None) => self.mean_size(),
            (Unit::Bytes, size, _) => u64::from(size),
        };
        let at = known.unwrap_or_else(|| self.fresh(hash));
        if old.is_some() && self.first != at {
            self.take_out(at);
        }
        if self.first != at {
            self.put_in_front(at);
        }
        let tick = old.map(|old| old.tick as usize);
        self.nodes[at as usize].size = size;
        self.nodes[at as usize].tick = 0;
        for smaller in 0..tick.unwrap_or(self.boundaries.len()) {
            let boundary = &mut self.boundaries[smaller];
            boundary.used += size;
            if boundary.last == NONE {
                boundary.last = at;
            }
            self.shrink(smaller);
        }
        if let Some(old) = old.filter(|old| old.size != size) {
            for holder in old.tick as usize..self.boundaries.len() {
                let boundary = &mut self.boundaries[holder];
                boundary.used = boundary.used - old.size + size;
                self.shrink(holder);
            }
        }
        self.forget_beyond();
        tick
    }

    fn mean_size(&self) -> u64 {
        let used = self.boundaries.last().map_or(0, |boundary| boundary.used);
        (used / self.by_key.len().max(1) as u64).max(1)
    }

    fn fresh(&mut self, key: u64) -> u32 {
        let node = Node { key, size: 0, above: NONE, below: NONE, tick: 0 };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        if self.by_key.is_full() {
            self.by_key.grow(|_, _| ());
        }
        if let Search::Absent(entry) = self.by_key.search(key) {
            self.by_key.take(entry, key, at, 0);
        }
        at
    }

    /// Removes a node, not the first, from the list.
    fn take_out(&mut self, at: u32) {
        let Node { above, below, tick, .. } = self.nodes[at as usize];
        let ends_here =
            self.boundaries[tick as usize..].iter_mut().take_while(|boundary| boundary.last == at);
        ends_here.for_each(|boundary| boundary.last = above);
        self.nodes[above as usize].below = below;
        if below != NONE {
            self.nodes[below as usize].above = above;
        }
    }

    fn put_in_front(&mut self, at: u32) {
        let below = std::mem::replace(&mut self.first, at);
        if below != NONE {
            self.nodes[below as usize].above = at;
        }
        let node = &mut self.nodes[at as usize];
        (node.above, node.below) = (NONE, below);
    }

    /// Drops the keys that no cache holds.
    fn forget_beyond(&mut self) {
        let last = self.boundaries[self.boundaries.len() - 1].last;
        let mut beyond = match last {
            NONE => std::mem::replace(&mut self.first, NONE),
            last => std::mem::replace(&mut self.nodes[last as usize].below, NONE),
        };
        while beyond != NONE {
            let Node { key, below, .. } = self.nodes[beyond as usize];
            if let Search::Found(entry) = self.by_key.search(key) {
                self.by_key.remove(entry, |_, _| ());
            }
            self.free.push(beyond);
            beyond = below;
        }
    }

    /// Moves the boundary of a tick up until the keys within it fit.
    fn shrink(&mut self, tick: usize) {
        let boundary = &mut self.boundaries[tick];
        while boundary.used > boundary.room && boundary.last != NONE {
            let node = &mut self.nodes[boundary.last as usize];
            node.tick = tick as u32 + 1;
            boundary.used -= node.size;
            boundary.last = node.above;
        }
    }
}

impl GhostCache {
    /// The keys in the list and their sizes, from the front.
    fn sizes(&self) -> impl Iterator<Item = (u64, f64)> {
        let node = |at: u32| self.nodes.get(at as usize).filter(|_| at != NONE);
        std::iter::successors(node(self.first), move |last| node(last.below))
            .map(|node| (node.key, node.size as f64))
    }

    /// A bound on the distance of the curve from the exact one.
    fn error_bound(&self, requests: f64, samples: f64, misses: &[(u64, f64)]) -> f64 {
        let spread = (self.weight > 1.0).then(|| self.groups.spread(self.correction));
        let held = self.boundaries.last().map_or(0, |boundary| boundary.used) as f64 * self.weight;
        let sample = Sample {
            requests,
            rate: (samples / requests.max(1.0)).min(1.0),
            keys: self.by_key.len() as f64,
            footprint: held,
            shares: Sample::shares(self.sizes()),
        };
        sample.bound(misses, spread.as_ref())
    }
}

impl Estimator for GhostCache {
    fn record(&mut self, hash: u64, size: u32, kind: Kind) {
        match kind {
            Kind::Read => self.access(hash, size, Mode::Count),
            Kind::Write => self.access(hash, size, Mode::Refresh),
            Kind::Lookup => self.look_up(hash),
            Kind::Remove => self.remove(hash),
        }
    }

    fn count_unsampled(&mut self, reads: u64) {
        self.requests += reads as f64;
        self.seen += reads;
    }

    #[inline]
    fn follows(&self, hash: u64) -> bool {
        place(hash) < self.threshold
    }

    fn curve(&self) -> MissRatioCurve {
        let samples = self.hits.iter().sum::<f64>() + self.misses;
        let sampled = samples * self.weight;
        let told = self.requests > samples || self.weight == 1.0;
        let corrects = self.correction != Correction::None && told;
        let requests = if corrects { self.requests } else { sampled };
        let spread = (self.correction == Correction::Regression).then(|| self.groups.spread(self.correction));
        let mut left = samples;
        let points = self.ticks.iter().zip(&self.hits).map(|(&size, hits)| {
            left -= hits;
            let slope = spread.as_ref().map_or(0.0, |spread| spread.slope(size));
            let misses = left * self.weight - slope * (sampled - requests);
            Point { size, miss_ratio: misses / requests }
        });
        let is_known = requests > 0.0;
        let points: Vec<Point> = points.take(if is_known { usize::MAX } else { 0 }).collect();
        let misses: Vec<(u64, f64)> =
            points.iter().map(|point| (point.size, point.miss_ratio * requests)).collect();
        let confidence = Confidence {
            keys: self.by_key.len() as u64,
            samples,
            requests,
            seen: self.seen,
            error: self.error_bound(requests, samples, &misses),
        };
        learnt(self.unit, points.into_iter(), confidence)
    }

    fn age(&mut self) {
        self.hits.iter_mut().chain([&mut self.misses, &mut self.requests]).for_each(|count| *count /= 2.0);
        self.groups.halve();
    }

    fn bytes(&self) -> usize {
        let table = self.by_key.bytes();
        let list = self.nodes.capacity() * size_of::<Node>() + self.free.capacity() * size_of::<u32>();
        let ticks = self.ticks.len() * (size_of::<Boundary>() + 2 * size_of::<u64>());
        size_of::<Self>() + table + list + ticks + self.groups.bytes()
    }
}

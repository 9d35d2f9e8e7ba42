//! Exact stack distances: the reference, with every key in memory.

use crate::estimate::{Estimator, Kind};
use crate::histogram::Histogram;
use crate::mrc::{Confidence, MissRatioCurve, Point, Unit};
use crate::stack::Stack;

/// Distances below 2^11 are exact, larger ones to one part in 2^10.
const BITS: u32 = 11;

/// The curve of LRU by the stack distance of every access (Mattson et al., IBM Systems Journal
/// 1970).
///
/// Takes about 40 to 80 bytes for each key ever seen, and 100 to 300 ns for an access. In bytes, a
/// cache holds as much of the top of the stack as fits, like an LRU cache that evicts from the tail
/// until the new item fits. A removed key's memory stays free until an insertion takes it; until
/// then it is tracked like a key.
#[derive(Clone, Debug)]
pub struct StackDistance {
    unit: Unit,
    pub(crate) stack: Stack,
    histogram: Histogram<BITS>,
    seen: u64,
}

impl StackDistance {
    /// Creates an estimator without accesses.
    pub fn new(unit: Unit) -> Self {
        Self { unit, stack: Stack::default(), histogram: Histogram::default(), seen: 0 }
    }

    /// Moves the key to the top of the stack, and returns the smallest size of a cache that would
    /// have held it; `None` at the key's first access.
    pub fn distance(&mut self, hash: u64, size: u32) -> Option<u64> {
        let size = if self.unit == Unit::Items { 1 } else { size };
        self.stack.access(hash, size).map(|found| found.above + u64::from(found.size))
    }

    /// The number of keys seen.
    pub fn keys(&self) -> u64 {
        self.stack.len() as u64
    }

    /// The sum of the keys' present sizes, in the unit of the curve.
    pub fn footprint(&self) -> u64 {
        self.stack.total()
    }
}

impl Estimator for StackDistance {
    fn record(&mut self, hash: u64, size: u32, kind: Kind) {
        let distance = match kind {
            Kind::Remove => return self.stack.vacate(hash),
            Kind::Lookup if !self.stack.has(hash) => None,
            Kind::Read | Kind::Lookup | Kind::Write => self.distance(hash, size),
        };
        if kind.counts() {
            self.seen += 1;
            self.histogram.add(distance, 1.0);
        }
    }

    /// Does nothing: all keys are tracked.
    fn count_unsampled(&mut self, _reads: u64) {}

    fn follows(&self, _hash: u64) -> bool {
        true
    }

    fn curve(&self) -> MissRatioCurve {
        let requests = self.histogram.total();
        let points = self
            .histogram
            .misses()
            .into_iter()
            .map(|(size, misses)| Point { size, miss_ratio: misses / requests });
        let confidence =
            Confidence { keys: self.keys(), samples: requests, requests, seen: self.seen, error: 0.0 };
        learnt(self.unit, points, confidence)
    }

    fn age(&mut self) {
        self.histogram.halve();
    }

    fn bytes(&self) -> usize {
        self.stack.bytes() + self.histogram.bytes()
    }
}

/// The curve through `points`; without points, a curve that misses everything.
pub(crate) fn learnt(
    unit: Unit,
    points: impl Iterator<Item = Point>,
    confidence: Confidence,
) -> MissRatioCurve {
    let all_miss = [Point { size: 0, miss_ratio: 1.0 }];
    let clamped = points.map(|point| Point { miss_ratio: point.miss_ratio.clamp(0.0, 1.0), ..point });
    let curve = MissRatioCurve::new(unit, all_miss.into_iter().chain(clamped.filter(|point| point.size > 0)));
    curve
        .expect("sizes of buckets rise, and miss ratios are clamped to their range")
        .with_confidence(confidence)
}

//! The curve that miniatures tell, with that of LRU beyond them.

use super::{BESIDE, Eviction, Ladder, Rung, Step, size_of_power};
use crate::mrc::{Confidence, MissRatioCurve, Point};

/// Reads of the sample from which the misses of a miniature are told, and keys: one of fewer
/// behaves as no large cache does.
const LEAST_READS: f64 = 100.0;
const LEAST_HELD: usize = 48;
/// The reads of the sample that LRU's curve counts for, between two miniatures.
const READS_OF_LRU: f64 = 200.0;

impl<E: Eviction> Ladder<E> {
    /// The points of the miniatures that are counted: the one that has seen most has what it
    /// missed, and the others are by steps from there.
    fn counted(&self, lru: &MissRatioCurve) -> Vec<Point> {
        let is_told = |rung: &Rung<E>| rung.is_counted && rung.keys >= LEAST_HELD && rung.requests > 0.0;
        let told = (0..self.rungs.len()).filter(|&at| is_told(&self.rungs[at]));
        let of_reads = |a: &usize, b: &usize| self.rungs[*a].reads.total_cmp(&self.rungs[*b].reads);
        let most = told.max_by(of_reads).filter(|&at| self.rungs[at].reads >= LEAST_READS);
        let Some(most) = most else { return Vec::new() };
        let size = |at: usize| size_of_power(self.rungs[at].power).round();
        let fall = |at: usize| {
            let Step { hits, requests, reads } = self.rungs[at].step;
            let by_lru = lru.miss_ratio(size(at)) - lru.miss_ratio(size(at + 1));
            let counted = if requests > 0.0 { hits / requests * reads } else { 0.0 };
            ((counted + by_lru * READS_OF_LRU) / (reads + READS_OF_LRU)).max(0.0)
        };
        let start = self.rungs[most].misses / self.rungs[most].requests;
        let point = |at: usize, miss_ratio: f64| Point { size: size(at) as u64, miss_ratio };
        let mut points = vec![point(most, start)];
        let mut missed = start;
        for at in (0..most).rev().take_while(|&at| is_told(&self.rungs[at])) {
            missed += fall(at);
            points.insert(0, point(at, missed.min(1.0)));
        }
        missed = start;
        for at in (most + 1..self.rungs.len()).take_while(|&at| is_told(&self.rungs[at])) {
            missed -= fall(at - 1);
            points.push(point(at, missed.max(0.0)));
        }
        points
    }

    /// The curve of the policy: as the miniatures have it from the smallest to the largest that is
    /// counted, and beyond these in proportion to that of LRU. `None`: not two of them are.
    pub fn curve(&self, lru: &MissRatioCurve) -> Option<MissRatioCurve> {
        let known = self.counted(lru);
        let (&first, &last) =
            known.first().zip(known.last()).filter(|(first, last)| first.size < last.size)?;
        let of_lru = |point: Point| lru.miss_ratio(point.size as f64);
        let (hits, misses) = (1.0 - of_lru(first), of_lru(last));
        let below = lru.points().iter().filter(|point| (1..first.size).contains(&point.size)).map(|point| {
            let by_size = point.size as f64 / first.size as f64;
            let part = if hits > 0.0 { (1.0 - point.miss_ratio) / hits } else { by_size };
            Point { miss_ratio: 1.0 - part * (1.0 - first.miss_ratio), ..*point }
        });
        let within = known.windows(2).flat_map(|ends| {
            let [from, to] = [ends[0], ends[1]];
            let falls = of_lru(from) - of_lru(to);
            let between =
                lru.points().iter().filter(move |point| (from.size + 1..to.size).contains(&point.size));
            let shaped = between.map(move |point| {
                let by_size = (point.size - from.size) as f64 / (to.size - from.size) as f64;
                let by_lru = if falls > 0.0 { (of_lru(from) - point.miss_ratio) / falls } else { by_size };
                let part = f64::midpoint(by_size, by_lru);
                Point { miss_ratio: from.miss_ratio + part * (to.miss_ratio - from.miss_ratio), ..*point }
            });
            [from].into_iter().chain(shaped)
        });
        let above = lru.points().iter().filter(|point| point.size > last.size).map(|point| {
            let part = if misses > 0.0 { point.miss_ratio / misses } else { 1.0 };
            Point { miss_ratio: part * last.miss_ratio, ..*point }
        });
        let start = Point { size: 0, miss_ratio: 1.0 };
        let clamped = |point: Point| Point { miss_ratio: point.miss_ratio.clamp(0.0, 1.0), ..point };
        let points = [start].into_iter().chain(below).chain(within).chain([last]).chain(above).map(clamped);
        let curve = MissRatioCurve::new(lru.unit(), points).ok()?;
        // A sample of other keys, of which there are fewer.
        let keys = self.rungs.get(BESIDE as usize).map_or(1, |rung| rung.keys.max(1));
        Some(match lru.confidence() {
            Some(known) => {
                let error = known.error.hypot(0.5 / (keys as f64).sqrt());
                curve.with_confidence(Confidence { error, ..known })
            }
            None => curve,
        })
    }
}

//! The learning of a tenant's miss-ratio curve in the simulation: by SHARDS on the tenant's own
//! requests, at a fixed rate.

use curve::{Estimator, Kind, MissRatioCurve, Point, Shards, Unit};

use super::stream::Action;
use crate::scenario::Control;

/// Learns the curve of one tenant, in bytes.
pub(super) struct Learner {
    estimator: Shards,
    has_reads: bool,
    /// Intervals so far, and the number of them after which earlier counts are halved.
    intervals: u32,
    window: u32,
    max_bytes: u64,
    points: usize,
}

impl Learner {
    pub(super) fn new(control: &Control, max_bytes: u64) -> Self {
        let rate = 1.0 / f64::from(control.sample_one_in.max(1));
        Self {
            // Twice the memory, so that keys beyond it are distinguished from those that are never
            // requested again.
            estimator: Shards::fixed_rate(Unit::Bytes, rate).with_max_size(max_bytes.saturating_mul(2)),
            has_reads: false,
            intervals: 0,
            window: control.window.clamp(1, 1 << 20) as u32,
            max_bytes,
            points: control.curve_points.max(3) as usize,
        }
    }

    #[inline]
    pub(super) fn record(&mut self, hash: u64, size: u32, action: Action) {
        let kind = match action {
            Action::Read => Kind::Read,
            Action::Write => Kind::Write,
            Action::Remove => return,
        };
        if self.estimator.follows(hash) {
            self.has_reads |= kind == Kind::Read;
            self.estimator.record(hash, size, kind);
        } else if kind == Kind::Read {
            self.estimator.count_unsampled(1);
        }
    }

    /// Ends an interval between decisions. After every `window` intervals, the counts so far are
    /// halved.
    pub(super) fn age(&mut self) {
        self.intervals += 1;
        if self.intervals.is_multiple_of(self.window) {
            self.estimator.age();
        }
    }

    /// The curve of the requests seen, up to all memory, with enough points that its cliffs stay
    /// where they are. `None` before the first read of a key that is followed.
    pub(super) fn curve(&self) -> Option<MissRatioCurve> {
        if !self.has_reads {
            return None;
        }
        let learnt = self.estimator.curve();
        let last = Point { size: self.max_bytes, miss_ratio: learnt.miss_ratio(self.max_bytes as f64) };
        let within = learnt.points().iter().copied().filter(|point| point.size < self.max_bytes);
        let curve = MissRatioCurve::new(Unit::Bytes, within.chain([last])).ok()?.thinned(self.points);
        Some(match learnt.confidence() {
            Some(confidence) => curve.with_confidence(confidence),
            None => curve,
        })
    }
}

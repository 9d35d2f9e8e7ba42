//! How a tenant's miss-ratio curve is learnt in the simulation: by SHARDS on the tenant's own requests, at a fixed rate.

use curve::{Estimator, Kind, MissRatioCurve, Point, Shards, Unit};

use super::stream::Action;
use crate::scenario::Control;

/// Learns the curve of one tenant, in bytes.
pub(super) struct Learner {
    estimator: Shards,
    has_reads: bool,
    max_bytes: u64,
    points: u64,
}

impl Learner {
    pub(super) fn new(control: &Control, max_bytes: u64) -> Self {
        let rate = 1.0 / f64::from(control.sample_one_in.max(1));
        Self {
            // Twice the memory, so that what is beyond it is told from what is never asked for again.
            estimator: Shards::fixed_rate(Unit::Bytes, rate).with_max_size(max_bytes.saturating_mul(2)),
            has_reads: false,
            max_bytes,
            points: u64::from(control.curve_points.max(3)),
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
            self.estimator.pass(1);
        }
    }

    /// What was counted so far counts half.
    pub(super) fn age(&mut self) {
        self.estimator.age();
    }

    /// The curve of what was seen, at evenly spread sizes up to all memory. `None` before the first read of a key that is followed.
    pub(super) fn curve(&self) -> Option<MissRatioCurve> {
        if !self.has_reads {
            return None;
        }
        let learnt = self.estimator.curve();
        let sizes = (1..=self.points)
            .map(|i| (u128::from(self.max_bytes) * u128::from(i) / u128::from(self.points)) as u64);
        let point = |size: u64| Point { size, miss_ratio: learnt.miss_ratio(size as f64).clamp(0.0, 1.0) };
        MissRatioCurve::new(Unit::Bytes, sizes.filter(|size| *size > 0).map(point)).ok()
    }
}

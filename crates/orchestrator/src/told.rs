//! A decision as it is kept: its largest moves and pools, the totals of all, and its outcome.

use std::sync::Arc;

use allocate::decision::LEAST_TOLD;
use curve::{CurveError, MissRatioCurve, Point, Unit};
use serde::{Deserialize, Serialize};

use crate::decide::{Decided, DecidedPool};
use crate::member::NEAR_PART;

/// Pools, and moves, that are kept of a decision: the largest.
const MAX_KEPT: usize = 64;
/// Points that are kept of a curve: half a kibibyte.
const MAX_POINTS: usize = 32;

/// A decision that was made. Its serialised form has the curves too, as points, so that a store can
/// keep it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Told {
    /// Its number: they go on after a restart if the state is kept.
    pub number: u64,
    /// Time of the decision, Unix seconds.
    pub at_secs: u32,
    /// The policy.
    pub policy: String,
    /// The decision, with its largest moves and the pools that change most.
    pub decided: Decided,
    /// The totals of the whole decision.
    pub totals: Totals,
    /// Rounds of which [`DecidedPool::missed_since`] is the mean, for each pool.
    measured: Vec<u32>,
}

/// The totals of a decision, of which a part is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of moves.
    pub moves: usize,
    /// The memory that they move, in bytes.
    pub moved_bytes: u64,
    /// Number of pools.
    pub pools: usize,
}

impl Told {
    /// Keeps a decision.
    pub(crate) fn new(number: u64, at_secs: u32, policy: &str, mut decided: Decided) -> Self {
        let totals = Totals {
            moves: decided.moves.len(),
            moved_bytes: decided.moved_bytes(),
            pools: decided.pools.len(),
        };
        decided.moves.sort_by_key(|step| std::cmp::Reverse(step.bytes));
        decided.moves.truncate(MAX_KEPT);
        let change = |pool: &DecidedPool| pool.granted_bytes.abs_diff(pool.before_bytes);
        decided.pools.sort_by_key(|pool| std::cmp::Reverse(change(pool)));
        decided.pools.truncate(MAX_KEPT);
        for pool in &mut decided.pools {
            pool.curve = pool.curve.take().map(|curve| Arc::new(curve.thinned(MAX_POINTS)));
        }
        let measured = vec![0; decided.pools.len()];
        Self { number, at_secs, policy: policy.to_owned(), decided, totals, measured }
    }

    /// The miss ratio that this decision learns from a round: `now` is what was decided then about
    /// the pool at `place`. `None`: the pool did not have its grant, or was hardly read.
    pub(crate) fn outcome(&self, place: usize, now: &DecidedPool) -> Option<f64> {
        let pool = self.decided.pools.get(place)?;
        // A round has a prediction if the pool had its grant. That may have changed since by moves
        // that are too small to be told.
        let most = (pool.granted_bytes / NEAR_PART).max(LEAST_TOLD);
        let had_grant = now.predicted.is_some() && now.before_bytes.abs_diff(pool.granted_bytes) <= most;
        now.missed.filter(|_| had_grant)
    }

    /// Adds the miss ratio of a round to the outcome of the pool at `place`.
    pub(crate) fn measure(&mut self, place: usize, missed: f64) {
        let pool = self.decided.pools.get_mut(place).zip(self.measured.get_mut(place));
        if let Some((pool, measured)) = pool {
            let before = pool.missed_since.unwrap_or(0.0);
            *measured += 1;
            pool.missed_since = Some(before + (missed - before) / f64::from(*measured));
        }
    }
}

/// The points of a curve: sizes in bytes, with the miss ratio at each.
type Points = Vec<(u64, f64)>;

/// A [`Told`] as it is serialised.
#[derive(Serialize, Deserialize)]
struct Stored {
    number: u64,
    at_secs: u32,
    policy: String,
    decided: Decided,
    totals: Totals,
    /// For each pool of the decision.
    measured: Vec<u32>,
    curves: Vec<Option<Points>>,
}

impl From<Told> for Stored {
    fn from(told: Told) -> Self {
        let Told { number, at_secs, policy, decided, totals, measured } = told;
        let points = |curve: &Arc<MissRatioCurve>| {
            curve.points().iter().map(|point| (point.size, point.miss_ratio)).collect()
        };
        let curves = decided.pools.iter().map(|pool| pool.curve.as_ref().map(points)).collect();
        Self { number, at_secs, policy, decided, totals, measured, curves }
    }
}

impl TryFrom<Stored> for Told {
    type Error = CurveError;

    fn try_from(stored: Stored) -> Result<Self, CurveError> {
        let Stored { number, at_secs, policy, mut decided, totals, mut measured, curves } = stored;
        for (pool, points) in decided.pools.iter_mut().zip(curves) {
            let Some(points) = points else { continue };
            let points = points.into_iter().map(|(size, miss_ratio)| Point { size, miss_ratio });
            pool.curve = Some(Arc::new(MissRatioCurve::new(Unit::Bytes, points)?));
        }
        measured.resize(decided.pools.len(), 0);
        Ok(Self { number, at_secs, policy, decided, totals, measured })
    }
}
